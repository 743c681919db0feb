"""What a scenario file may say. Every mistake in it is found and named with its key before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cosend.classifiers.zoo import NAMES
from cosend.core.policy.policies import CoS
from cosend.errors import ScenarioError, SettingError
from cosend.site.context import Axis, Context
from cosend.streams.files import read_table
from cosend.streams.kdd99 import kdd99
from cosend.streams.river import river_dataset
from cosend.streams.table import Table
from cosend.streams.traffic import traffic

Unit = Annotated[float, Field(ge=0, le=1, strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]
CountOrNone = Annotated[int, Field(ge=0, strict=True)]
Names = Annotated[list[str], Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class Part(BaseModel):
    """A part of a scenario: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Stream(Part):
    """Where the items come from. The first `training` rows train the classifiers, the next `items` rows arrive."""

    kind: Literal["traffic", "kdd99", "file", "river"]
    items: Count = 20_000
    training: CountOrNone = 0
    path: Path | None = None
    dataset: str | None = None
    start: CountOrNone = 0
    label: str | None = None
    features: Names | None = None
    contexts: list[str] = []
    site: str | None = None
    arrivals: Literal["same", "deal"] = "same"

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Stream:
        if self.kind == "file" and (self.path is None or self.label is None):
            raise ValueError("a stream of kind 'file' needs path and label")
        if self.kind != "file" and (self.label, self.features, self.site, self.contexts) != (None, None, None, []):
            raise ValueError(f"label, features, contexts and site are for kind 'file', not {self.kind!r}")
        if self.kind in ("traffic", "river") and (self.path is not None or self.start):
            raise ValueError("path and start are for kinds 'file' and 'kdd99'")
        if (self.kind == "river") != (self.dataset is not None):
            raise ValueError("dataset goes with kind 'river', and kind 'river' needs one")
        return self

    def read(self, seed: int, folder: Path) -> Table:
        """Return the rows for training and the items, in this order."""
        rows = self.training + self.items
        if self.kind == "traffic":
            return traffic(rows, seed=seed)
        if self.kind == "river":
            return river_dataset(self.dataset or "", rows)
        path = None if self.path is None else folder / self.path
        if self.kind == "kdd99":
            return kdd99(path, start=self.start, rows=rows)
        return read_table(
            path or folder,
            label=self.label or "",
            features=self.features,
            contexts=self.contexts,
            site=self.site,
            rows=rows,
            start=self.start,
        )


class AxisSetting(Part):
    """One axis of the context: a feature, or `kind`."""

    kind: Literal["feature", "previous_label", "time", "time_of_day"] = "feature"
    feature: str | None = None
    scale: Literal["linear", "log", "rank"] = "linear"
    range: tuple[float, float] | None = None
    outside: Literal["error", "clip"] = "error"

    @model_validator(mode="after")
    def _fits_its_kind(self) -> AxisSetting:
        if (self.feature is None) == (self.kind in ("feature", "time_of_day")):
            raise ValueError("an axis needs a feature, or kind = 'previous_label' or 'time' without one")
        if self.kind != "feature" and (self.scale, self.range, self.outside) != ("linear", None, "error"):
            raise ValueError(f"scale, range and outside are for features, not for kind {self.kind!r}")
        if self.kind == "feature":
            self.build([], 1)  # refuses a range that is none
        return self

    def build(self, classes: list[Any], horizon: int) -> Axis:
        """Return the axis for a stream with these labels and so many items at a site."""
        if self.kind == "previous_label":
            return Context.previous_label(*classes)
        if self.kind == "time":
            return Context.time(horizon)
        if self.kind == "time_of_day":
            return Context.time_of_day(self.feature or "")
        return Context(self.feature or "", scale=self.scale, range=self.range, outside=self.outside)


class ClassifierSetting(Part):
    """A classifier: a model by name, the rows it is trained on, the features it may see, its cost."""

    name: Name
    model: str
    train: tuple[int, int] | None = None
    label: Any = None
    features: Names | None = None
    cost: Unit = 0.0

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> ClassifierSetting:
        if self.model not in NAMES:
            raise ValueError(f"model must be one of {', '.join(NAMES)}, got {self.model!r}")
        if self.model == "always" and self.label is None:
            raise ValueError("model 'always' needs the label that it gives")
        if self.model != "always" and self.label is not None:
            raise ValueError(f"label is for model 'always', not for {self.model!r}")
        if self.model != "always" and (self.train is None or not 0 <= self.train[0] < self.train[1]):
            raise ValueError(f"model {self.model!r} needs train = [first row, row after the last]")
        return self


class SiteSetting(Part):
    """A site and its classifiers."""

    name: Name
    classifiers: Annotated[list[ClassifierSetting], Field(min_length=1)]


class Scenario(Part):
    """A whole scenario file."""

    title: str = "A network of sites"
    seed: CountOrNone = 0
    call_cost: Unit = 0.0
    label_delay: CountOrNone = 1
    stream: Stream
    context: Annotated[list[AxisSetting], Field(min_length=1)]
    policy: dict[str, Any] = {}
    sites: Annotated[list[SiteSetting], Field(min_length=1)]

    def build_policy(self, horizon: int) -> CoS:
        """Return the policy, for so many items at a site unless the file says otherwise."""
        options = {"horizon": horizon, **self.policy}
        if options["horizon"] == "unknown":
            options["horizon"] = None
        return CoS(**options)

    def mistakes(self) -> list[str]:
        """Return what is wrong though every part for itself is right."""
        return [*self._double_names(), *self._training_beyond_the_stream(), *self._policy_mistakes()]

    def _double_names(self) -> Iterator[str]:
        names = [site.name for site in self.sites]
        names += [classifier.name for site in self.sites for classifier in site.classifiers]
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            yield f"sites: names of sites and classifiers must differ, {name!r} stands twice"

    def _training_beyond_the_stream(self) -> Iterator[str]:
        for n, site in enumerate(self.sites, start=1):
            for k, classifier in enumerate(site.classifiers, start=1):
                if classifier.train is not None and classifier.train[1] > self.stream.training:
                    key = f"sites.{n}.classifiers.{k}.train"
                    yield f"{key}: ends at row {classifier.train[1]:,}, but stream.training is {self.stream.training:,}"

    def _policy_mistakes(self) -> Iterator[str]:
        allowed = [field.name for field in fields(CoS)]
        for option, value in self.policy.items():
            if option not in allowed:
                yield f"policy.{option}: no such option; there are {', '.join(allowed)}"
                continue
            try:
                if (option, value) != ("horizon", "unknown"):
                    CoS(**{"horizon": 1, option: value})
            except SettingError as error:
                yield f"policy.{option}: {error}"


def load(path: Path | None) -> tuple[Scenario, Path]:
    """Return the scenario of a file, or the default one, and the folder that paths in it start from."""
    if path is None:
        return parse(files(__package__).joinpath("default.toml").read_text(), "the default scenario"), Path()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(str(path), [str(error)]) from error
    return parse(text, str(path)), path.parent


def check_stream(scenario: Scenario, folder: Path) -> None:
    """Raise unless the stream has the columns that the scenario speaks of; reads no more than its first row."""
    stream = scenario.stream
    if stream.kind == "kdd99" and stream.path is None:
        return  # it would have to be downloaded first
    first = stream.model_copy(update={"items": 1, "training": 0}).read(scenario.seed, folder)
    columns = {*first.features, *first.contexts}
    mistakes = [
        f"context.{n}.feature: the stream has no column {axis.feature!r}; it has {', '.join(sorted(columns))}"
        for n, axis in enumerate(scenario.context, start=1)
        if axis.feature is not None and axis.feature not in columns
    ]
    for n, site in enumerate(scenario.sites, start=1):
        for k, classifier in enumerate(site.classifiers, start=1):
            mistakes += [
                f"sites.{n}.classifiers.{k}.features: the stream has no feature {name!r}"
                for name in classifier.features or []
                if name not in first.features
            ]
    if mistakes:
        raise ScenarioError("the scenario", mistakes)


def parse(text: str, source: str) -> Scenario:
    """Return the scenario of a text, or raise with every mistake and its key."""
    try:
        scenario = Scenario.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(source, [f"not TOML: {error}"]) from error
    except ValidationError as error:
        raise ScenarioError(source, [_mistake(each) for each in error.errors()]) from error
    mistakes = scenario.mistakes()
    if mistakes:
        raise ScenarioError(source, mistakes)
    return scenario


def _mistake(error: Any) -> str:
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message
