"""A whole scenario file. Every mistake in it is found and named with its key before anything runs."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, field_validator

from cosend.config.contexts import AxisSetting
from cosend.config.parts import Part, RowsOrNone, Seed, Unit, mistake_of
from cosend.config.policies import build_policy, policy_mistakes
from cosend.config.sites import SiteSetting
from cosend.config.streams import Stream
from cosend.core.checks import check_path
from cosend.core.learner.learner import Learner
from cosend.core.policy.parts import Policy
from cosend.errors import ScenarioError, SettingError

LONGEST: Final = 10_000_000  # characters of a file; a device has no end


class Scenario(Part):
    """A whole scenario file."""

    title: Annotated[str, Field(max_length=200)] = "A network of sites"
    seed: Seed = 0
    call_cost: Unit = 0.0
    label_delay: RowsOrNone = 1
    stream: Stream
    context: Annotated[list[AxisSetting], Field(min_length=1)]
    policy: dict[str, Any] = Field(default_factory=dict)
    sites: Annotated[list[SiteSetting], Field(min_length=1)]

    @field_validator("title")
    @classmethod
    def _is_one_line(cls, title: str) -> str:
        if not title.isprintable():
            raise ValueError("must be one line of text without control characters")
        return title

    def build_policy(self, horizon: int) -> Policy:
        """Return the policy, for so many items at a site unless the file says otherwise."""
        return build_policy(self.policy, horizon)

    def mistakes(self) -> list[str]:
        """Return what is wrong though every part for itself is right."""
        return [*self._double_names(), *self._training_beyond_the_stream(), *self._policy_mistakes()]

    def _double_names(self) -> Iterator[str]:
        names = [site.name for site in self.sites]
        names += [classifier.name for site in self.sites for classifier in site.classifiers]
        for name, count in Counter(names).items():
            if count > 1:
                yield f"sites: names of sites and classifiers must differ, {name!r} stands twice"

    def _training_beyond_the_stream(self) -> Iterator[str]:
        for n, site in enumerate(self.sites, start=1):
            for k, classifier in enumerate(site.classifiers, start=1):
                if classifier.train is not None and classifier.train[1] > self.stream.training:
                    key = f"sites.{n}.classifiers.{k}.train"
                    yield f"{key}: ends at row {classifier.train[1]:,}, but stream.training is {self.stream.training:,}"

    def _policy_mistakes(self) -> Iterator[str]:
        found = list(policy_mistakes(self.policy))
        yield from found
        if not found:
            try:  # whether it goes with so many axes
                Learner("site", own={"arm": 0.0}, dimensions=len(self.context), policy=self.build_policy(1))
            except SettingError as error:
                yield f"policy: {error}"


def load(path: Path | None) -> tuple[Scenario, Path]:
    """Return the scenario of a file, or the default one, and the folder that paths in it start from."""
    if path is None:
        return parse(files(__package__).joinpath("default.toml").read_text(), "the default scenario"), Path()
    check_path("scenario", path)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(str(path), [str(error)]) from error
    if len(text) > LONGEST:
        raise ScenarioError(str(path), [f"longer than {LONGEST:,} characters"])
    return parse(text, str(path)), path.parent


def parse(text: str, source: str) -> Scenario:
    """Return the scenario of a text, or raise with every mistake and its key."""
    try:
        scenario = Scenario.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise ScenarioError(source, [mistake_of(each) for each in error.errors()]) from error
    except RecursionError:
        raise ScenarioError(source, ["not TOML: brackets within brackets, too many of them"]) from None
    except ValueError as error:
        raise ScenarioError(source, [f"not TOML: {error}"]) from error
    mistakes = scenario.mistakes()
    if mistakes:
        raise ScenarioError(source, mistakes)
    return scenario
