"""A whole network file. Every mistake in it is found and named with its key before anything runs."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, field_validator

from cosend.config.contexts import AxisSetting
from cosend.config.network import NetworkSetting
from cosend.config.parts import Flag, Part, RowsOrNone, Seed, Tries, Unit, mistake_of
from cosend.config.policies import build_policy, policy_mistakes
from cosend.config.sites import ClassifierSetting, SiteSetting
from cosend.config.streams import Stream
from cosend.config.waiting import PatienceSetting
from cosend.core.checks import check_path
from cosend.core.learner.default import how_to_decide
from cosend.core.learner.learner import Learner
from cosend.core.learner.values import ScoreLocal
from cosend.core.policy.parts import Policy
from cosend.errors import ScenarioError, SettingError, listed, shown

LONGEST: Final = 10_000_000  # characters of a file; a device has no end
BUILT_IN: Final = ("clinics", "traffic")  # files beside this one; the first is played if none is named
NO_STREAM: Final = "there is no stream: give --stream FILE --label COLUMN, or a table [stream] in the file"


class Scenario(Part):
    """A whole network file, for a simulation and for the sites of a service alike."""

    title: Annotated[str, Field(max_length=200)] = "A network of sites"
    seed: Seed = 0
    call_cost: Unit = 0.0
    label_delay: RowsOrNone = 1
    labels: Annotated[list[Any], Field(min_length=2)] | None = None
    retries: Tries = 3
    strict_labels: Flag = False
    patience: PatienceSetting = PatienceSetting()
    network: NetworkSetting | None = None
    stream: Stream | None = None
    context: list[AxisSetting] = Field(default_factory=list)
    policy: dict[str, Any] | None = None
    sites: Annotated[list[SiteSetting], Field(min_length=1)]

    @field_validator("title")
    @classmethod
    def _is_one_line(cls, title: str) -> str:
        if not title.isprintable():
            raise ValueError("must be one line of text without control characters")
        return title

    @field_validator("labels")
    @classmethod
    def _are_different(cls, labels: list[Any] | None) -> list[Any] | None:
        for label in labels or []:
            if not isinstance(label, str | int | float) or label != label:
                raise ValueError(f"a label is text, a number or a truth value, got {shown(label)}")
        if labels and len(set(labels)) < len(labels):
            raise ValueError(f"must be different, got {shown(labels)}")
        return labels

    def build_policy(self, horizon: int | None) -> Policy | None:
        """Return the policy that the file names, None if it names none.

        It is for so many items at a site unless the file says otherwise; None if that is not known.
        """
        return None if self.policy is None else build_policy(self.policy, horizon)

    def how_to_decide(self, site: SiteSetting, policy: Policy | None) -> tuple[Policy, ScoreLocal]:
        """Return how a site decides with a policy, or with none, and which of its classifiers a label scores."""
        return how_to_decide(policy, site.score_local, watches=self.watches)

    @property
    def watches(self) -> bool:
        """Whether every feature is looked at: nothing else is said, or it is one of the axes."""
        return not self.context or any(axis.kind == "features" for axis in self.context)

    @property
    def given(self) -> list[AxisSetting]:
        """The axes that are given."""
        return [axis for axis in self.context if axis.kind != "features"]

    def call_costs(self) -> dict[str, float]:
        """Return what calling each site costs."""
        return {site.name: self.call_cost if site.call_cost is None else site.call_cost for site in self.sites}

    def classifiers(self) -> Iterator[tuple[str, SiteSetting, ClassifierSetting]]:
        """Yield every classifier with its key in the file and its site."""
        for n, site in enumerate(self.sites, start=1):
            for k, classifier in enumerate(site.classifiers, start=1):
                yield f"sites.{n}.classifiers.{k}", site, classifier

    def prediction_columns(self) -> list[str]:
        """Return the columns of the stream that hold predictions."""
        return [each.column for _, _, each in self.classifiers() if each.column is not None]

    def hidden(self) -> list[str]:
        """Return the features of an item that models do not see: contexts that are hidden, and what others said."""
        axes = [axis.feature for axis in self.context if axis.hidden and axis.feature is not None]
        contexts = [] if self.stream is None else self.stream.contexts
        return list(dict.fromkeys([*axes, *contexts, *self.prediction_columns()]))

    def serving_mistakes(self, site: str | None = None) -> list[str]:
        """Return why a site, or any of them, cannot be run as a service, each with its key."""
        found = [
            f"{key}.model: {each.model!r} is what a recorded stream says: a service needs the model itself"
            for key, owner, each in self.classifiers()
            if each.kind == "column" and site in (None, owner.name)
        ]
        if self.stream is not None:
            return found
        for n, axis in enumerate(self.context, start=1):
            if axis.kind == "previous_label" and self.labels is None:
                found.append(f"context.{n}.kind: without a stream, 'previous_label' needs labels = [...] at the top")
            if axis.kind == "time" and axis.horizon is None:
                found.append(f"context.{n}.horizon: without a stream, 'time' needs the number of items it runs over")
        found += [
            f"{key}.model: {each.model!r} is trained on rows of the stream: give a table [stream] or a fitted model"
            for key, owner, each in self.classifiers()
            if each.is_trained and site in (None, owner.name)
        ]
        return [*found, *self._mistakes_without_horizon()]

    def _mistakes_without_horizon(self) -> Iterator[str]:
        try:
            self.build_policy(None)
        except SettingError as error:
            yield f"policy: {error}"

    def mistakes(self) -> list[str]:
        """Return what is wrong though every part for itself is right."""
        found = [*self._double_names(), *self._double_ports(), *self._training_beyond_the_stream(), *self._no_labels()]
        return [*found, *self._features_twice(), *self._hidden_features(), *self._policy_mistakes()]

    def _features_twice(self) -> Iterator[str]:
        if len(self.context) - len(self.given) > 1:
            yield "context: kind = 'features' is given twice; once is enough for every feature"

    def _double_names(self) -> Iterator[str]:
        names = [site.name for site in self.sites]
        names += [classifier.name for site in self.sites for classifier in site.classifiers]
        for name, count in Counter(names).items():
            if count > 1:
                yield f"sites: names of sites and classifiers must differ, {name!r} appears twice"

    def _double_ports(self) -> Iterator[str]:
        taken: dict[tuple[str | None, int], str] = {}
        for n, site in enumerate(self.sites, start=1):
            if site.port is not None:
                other = taken.setdefault((site.host, site.port), site.name)
                if other != site.name:
                    yield f"sites.{n}.port: {site.port} is the port of {other!r} already: each site needs its own"

    def _training_beyond_the_stream(self) -> Iterator[str]:
        for key, _, classifier in self.classifiers():
            if self.stream is not None and classifier.train is not None and classifier.train[1] > self.stream.training:
                there = f"stream.training is {self.stream.training:,}"
                yield f"{key}.train: ends at row {classifier.train[1]:,}, but {there}"

    def _no_labels(self) -> Iterator[str]:
        for key, _, each in self.classifiers():
            if self.labels is not None and each.model == "always" and each.label not in self.labels:
                yield f"{key}.label: {shown(each.label)} is not one of the labels, {listed(self.labels)}"

    def _hidden_features(self) -> Iterator[str]:
        hidden = {axis.feature: n for n, axis in enumerate(self.context, start=1) if axis.hidden}
        for key, _, classifier in self.classifiers():
            for name in classifier.features or ():
                if name in hidden:
                    yield f"{key}.features: {name!r} is hidden from models by context.{hidden[name]}.hidden"

    def _policy_mistakes(self) -> Iterator[str]:
        found = [] if self.policy is None else list(policy_mistakes(self.policy))
        yield from found
        if not found:
            categories = [n for n, axis in enumerate(self.given) if axis.kind == "category"]
            axes: dict[str, Any] = {"dimensions": len(self.given), "categories": categories}
            policy = self.build_policy(1)
            if self.watches and policy is not None and not policy.mixes:
                named = type(policy).__name__
                yield f"policy.name: {named} needs a context, [[context]]: only MixedViews can look at every feature"
                return
            decide = {self.how_to_decide(site, policy)[0] for site in self.sites}
            try:  # whether they go with so many axes
                for each in decide:
                    Learner("site", own={"arm": 0.0}, policy=each, **axes)
            except SettingError as error:
                yield f"policy: {error}"


def built_in() -> dict[str, Scenario]:
    """Return the scenarios that need no file, by name."""
    return {name: _built_in(name) for name in BUILT_IN}


def is_built_in(path: Path | None) -> bool:
    """Tell whether a path stands for a built-in scenario; a file of that name comes first."""
    return path is None or (str(path) in BUILT_IN and not path.exists())


def _built_in(name: str) -> Scenario:
    return parse(files(__package__).joinpath(f"{name}.toml").read_text(), f"the scenario {name!r}")


def load(path: Path | None) -> tuple[Scenario, Path]:
    """Return what a network file says, or a built-in scenario, and the folder that paths in it start from."""
    if path is None or is_built_in(path):
        return _built_in(BUILT_IN[0] if path is None else str(path)), Path()
    check_path("scenario", path)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    except FileNotFoundError:
        known = " and ".join(BUILT_IN)
        raise ScenarioError(str(path), [f"No such file; the built-in scenarios are {known}"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(str(path), [str(error)]) from error
    if len(text) > LONGEST:
        raise ScenarioError(str(path), [f"longer than {LONGEST:,} characters"])
    return parse(text, str(path)), path.parent


def parse(text: str, source: str) -> Scenario:
    """Return what a text says, or raise with every mistake and its key."""
    try:
        scenario = Scenario.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise ScenarioError(source, [mistake_of(each, Scenario) for each in error.errors()]) from error
    except RecursionError:
        raise ScenarioError(source, ["not TOML: brackets within brackets, too many of them"]) from None
    except ValueError as error:
        raise ScenarioError(source, [f"not TOML: {error}"]) from error
    mistakes = scenario.mistakes()
    if mistakes:
        raise ScenarioError(source, mistakes)
    return scenario
