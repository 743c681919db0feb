"""What a network file stands for: axes, policy, and for every site its classifiers, for simulations and services alike.

scenario, folder = load(Path("network.toml"))
built = Built(scenario, folder, needed_stream(scenario, folder))
built.axes, built.policy, built.patience, built.classifiers("north"), built.costs("north")
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from cosend.classifiers.adapters import Classifier
from cosend.classifiers.coded import Coded, Said
from cosend.classifiers.elsewhere import RunsElsewhere
from cosend.classifiers.loading import load_model
from cosend.classifiers.vote import Vote
from cosend.classifiers.zoo import Matrix, train
from cosend.config.contexts import AxisSetting
from cosend.config.fitting import busiest, labels_of, mistakes_about, training_rows
from cosend.config.hashes import hash_of
from cosend.config.policies import wants_horizon
from cosend.config.scenario import NO_STREAM, Scenario
from cosend.config.sites import ClassifierSetting, SiteSetting
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import ScoreLocal
from cosend.core.policy.parts import Policy
from cosend.errors import ClassifierError, CosendError, ModelError, ScenarioError, SettingError, StreamError, shown
from cosend.site.context import Axis
from cosend.site.events import Journal
from cosend.site.features import watches
from cosend.site.site import Site
from cosend.streams.table import Table

SEEDS_OF_MODELS: Final = 2**32  # scikit-learn takes no larger one
SOURCE: Final = "the network file"


def read_stream(scenario: Scenario, folder: Path) -> Table:
    """Return the rows of the stream, with the columns that only contexts and predictions need."""
    if scenario.stream is None:
        raise ScenarioError(SOURCE, [f"stream: {NO_STREAM}"])
    try:
        return scenario.stream.read(scenario.seed, folder, scenario.hidden())
    except StreamError as error:
        keys = [f"{key}.model" for key, _, each in scenario.classifiers() if each.column == error.column]
        keys += [f"context.{n}.feature" for n, axis in enumerate(scenario.context, 1) if axis.feature == error.column]
        if error.column is None or not keys:
            raise
        raise ScenarioError(SOURCE, [f"{key}: {error}" for key in keys]) from error


def needed_stream(scenario: Scenario, folder: Path, site: str | None = None) -> Table | None:
    """Return the rows of the stream if a site, or any of them, cannot be built without them, else None.

    They are needed to train models, and for labels and numbers of items that the file does not name.
    """
    trained = any(each.is_trained and site in (None, owner.name) for _, owner, each in scenario.classifiers())
    labels = scenario.labels is None and any(axis.kind == "previous_label" for axis in scenario.context)
    horizon = any(axis.kind == "time" and axis.horizon is None for axis in scenario.context)
    horizon = horizon or (scenario.policy is not None and wants_horizon(scenario.policy))
    needed = scenario.stream is not None and (trained or labels or horizon)
    return read_stream(scenario, folder) if needed else None


class Built:
    """A network file, made: models are loaded or trained once, when they are first asked for.

    table  the rows of the stream, if there are any: what the file says of it is checked
    """

    def __init__(self, scenario: Scenario, folder: Path, table: Table | None = None) -> None:
        self.scenario, self.folder, self.table = scenario, folder, table
        found = [] if table is None else list(mistakes_about(scenario, table))
        if found:
            raise ScenarioError(SOURCE, found)
        self.labels = labels_of(scenario, table)
        self.horizon = busiest(scenario, table)  # None if there is no stream
        self.patience: Patience = scenario.patience.build()
        self._models: dict[str, Classifier] = {}  # by the name of the classifier
        self._matrix: Matrix | None = None  # of the table

    @cached_property
    def axes(self) -> list[Axis]:
        """The axes of the context; every feature comes last, and is all there is if the file names none."""
        axes, found = [], []
        settings = self.scenario.context or [AxisSetting(kind="features")]
        for n, axis in enumerate(settings, start=1):
            try:
                axes.append(axis.build(self.labels, self.horizon, self.scenario.prediction_columns()))
            except SettingError as error:
                found.append(f"context.{n}: {error}")
        if found:
            raise ScenarioError(SOURCE, found)
        return sorted(axes, key=lambda axis: watches([axis]))

    @cached_property
    def policy(self) -> Policy | None:
        """The policy of every site; None if the file names none: each decides as a site does unless it is told."""
        try:
            return self.scenario.build_policy(self.horizon)
        except SettingError as error:
            raise ScenarioError(SOURCE, [f"policy: {error}"]) from error

    def classifiers(self, site: str) -> dict[str, Classifier]:
        """Return the classifiers of a site by name; they see the features that they may see, and nothing else."""
        self._make(self._of(site))
        return {each.name: self._models[each.name] for each in self._setting(site).classifiers}

    def classifiers_here(self, site: str) -> dict[str, Classifier]:
        """Return the classifiers of a site as its own process needs them: those that workers run are not made."""
        setting = self._setting(site)
        self._make([each for each in self._of(site) if not each[2].workers])
        made = {each.name: RunsElsewhere() if each.workers else self._models[each.name] for each in setting.classifiers}
        return dict(made)

    def classifiers_for_workers(self, site: str, names: Sequence[str]) -> dict[str, Classifier]:
        """Return the classifiers of a site that workers run, or only some of them."""
        able = [each.name for each in self._setting(site).classifiers if each.workers]
        for name in names:
            if name not in able:
                allowed = f"a classifier of {site!r} with workers = true ({', '.join(able) or 'it has none'})"
                raise SettingError("--classifier", name, allowed)
        if not able:
            raise SettingError("--site", site, "a site with a classifier that has workers = true")
        wanted = [each for each in self._of(site) if each[2].name in (names or able)]
        self._make(wanted)
        return {each.name: self._models[each.name] for _, _, each in wanted}

    def _of(self, site: str) -> list[tuple[str, SiteSetting, ClassifierSetting]]:
        return [each for each in self.scenario.classifiers() if each[1].name == self._setting(site).name]

    def all_classifiers(self) -> dict[str, dict[str, Classifier]]:
        """Return the classifiers of all sites; if some cannot be made, all of these are named."""
        self._make(list(self.scenario.classifiers()))
        return {site.name: self.classifiers(site.name) for site in self.scenario.sites}

    def make_untrained(self) -> None:
        """Load all models that are not trained on rows of the stream, or raise with what is wrong with any of them."""
        self._make([each for each in self.scenario.classifiers() if not each[2].is_trained])

    def made(self) -> dict[str, Classifier]:
        """Return the classifiers that were made until now, by name."""
        return dict(self._models)

    def costs(self, site: str) -> dict[str, float]:
        """Return what using each classifier of a site costs."""
        return {each.name: each.cost for each in self._setting(site).classifiers}

    def hashes(self, site: str) -> dict[str, str]:
        """Return by classifier of a site the hash of what its model is made of, where that can be known."""
        found = {
            each.name: hash_of(each, self.folder, self.scenario.hidden(), self._trained_on(self._setting(site), each))
            for each in self._setting(site).classifiers
        }
        return {name: known for name, known in found.items() if known is not None}

    def limits(self, site: str) -> dict[str, float]:
        """Return how many seconds each classifier of a site may take for a call of a service."""
        return {each.name: each.limit_s for each in self._setting(site).classifiers}

    def threads(self, site: str) -> dict[str, int]:
        """Return in how many threads a service runs each classifier of a site; one that learns has one."""
        return {each.name: each.threads for each in self._setting(site).classifiers}

    def peers(self, site: str) -> dict[str, tuple[float, int]]:
        """Return the other sites: what calling each of them costs, and how many classifiers it has."""
        costs = self.scenario.call_costs()
        others = [each for each in self.scenario.sites if each is not self._setting(site)]
        return {each.name: (costs[each.name], len(each.classifiers)) for each in others}

    def site(
        self,
        name: str,
        *,
        context: Sequence[Axis] | None = None,
        policy: Policy | None = None,
        score_local: ScoreLocal | None = None,
        classifiers: dict[str, Classifier] | None = None,
        journal: Journal | None = None,
    ) -> Site:
        """Return a site without peers; another context, policy or classifiers than the file's may be given."""
        return Site(
            name,
            classifiers=self.classifiers(name) if classifiers is None else classifiers,
            context=self.axes if context is None else context,
            policy=self.policy if policy is None else policy,
            costs=self.costs(name),
            patience=self.patience,
            seed=self.scenario.seed,
            retries=self.scenario.retries,
            strict_labels=self.scenario.strict_labels,
            learns_from=self._setting(name).learns_from,
            score_local=score_local or self._setting(name).score_local,
            journal=journal,
        )

    def _setting(self, site: str) -> SiteSetting:
        for each in self.scenario.sites:
            if each.name == site:
                return each
        raise SettingError("site", site, f"one of {', '.join(each.name for each in self.scenario.sites)}")

    def _make(self, wanted: list[tuple[str, SiteSetting, ClassifierSetting]]) -> None:
        """Make the classifiers that are not there yet, or raise with everything that is wrong with any of them."""
        found = []
        for key, site, setting in wanted:
            if setting.name not in self._models:
                try:
                    self._models[setting.name] = self._made(site, setting)
                except CosendError as error:
                    found.append(f"{key}.{_blamed(setting, error)}")
        if found:
            raise ScenarioError(SOURCE, found)

    def _made(self, site: SiteSetting, setting: ClassifierSetting) -> Classifier:
        if setting.column is not None:
            return Said(setting.column)
        if setting.kind == "zoo":
            return self._trained(site, setting)
        if setting.kind == "vote":
            return Vote(over=setting.over)
        hidden = self.scenario.hidden() if setting.features is None else ()
        model = load_model(setting.model, self.folder, trusted=setting.trusted, features=setting.features, hide=hidden)
        if setting.workers and model.learns:
            raise SettingError("workers", True, "false for a model that learns: what one worker learns, no other knows")
        return model

    def _trained(self, site: SiteSetting, setting: ClassifierSetting) -> Classifier:
        """Return a model of the zoo, trained as the file says; "always" needs no training."""
        if not setting.is_trained:
            return Coded(train(setting.model, np.empty((0, 0)), np.empty(0), label=setting.label), [], {})
        table = self.table
        if table is None or self.scenario.stream is None:
            raise ModelError(setting.model, "it is trained on rows of the stream, and there is none", NO_STREAM)
        items, labels, seed = self._trained_on(site, setting)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # models refuse what comes of it
                model = train(setting.model, items, labels, seed=int(seed[0]))
        except (ValueError, ArithmeticError) as error:  # what models raise for numbers that they cannot work with
            raise ClassifierError(f"{setting.name!r} cannot be trained ({error})") from error
        return Coded(model, self._features(setting, table), table.vocabulary)

    def _features(self, setting: ClassifierSetting, table: Table) -> list[str]:
        hidden = self.scenario.hidden()
        return setting.features or [name for name in table.features if name not in hidden]

    def _trained_on(self, site: SiteSetting, setting: ClassifierSetting) -> list[Any]:
        """Return the items and labels that a model of the zoo is trained on, and its seed; nothing for others."""
        table, stream = self.table, self.scenario.stream
        if not setting.is_trained or table is None or stream is None:
            return []
        rows = training_rows(setting, site, table, stream.training)
        number = [each.name for _, _, each in self.scenario.classifiers()].index(setting.name)
        seed = (self.scenario.seed + number) % SEEDS_OF_MODELS
        return [self.rows_for(self._features(setting, table))[rows], table.labels[rows], np.array([seed])]

    def rows_for(self, features: list[str]) -> Matrix:
        """Return these features of all rows of the stream as numbers, as models of the zoo see them."""
        if self.table is None:
            raise ScenarioError(SOURCE, [f"stream: {NO_STREAM}"])
        if self._matrix is None:
            self._matrix = self.table.matrix()
        place_of = {name: place for place, name in enumerate(self.table.features)}
        return self._matrix[:, [place_of[name] for name in features]]


def _blamed(setting: ClassifierSetting, error: Exception) -> str:
    """Return what is wrong with a classifier, with its key."""
    if isinstance(error, ModelError):
        return f"model: {shown(setting.model)}: {error.wrong}" + (f"; {error.allowed}" if error.allowed else "")
    if isinstance(error, SettingError) and error.setting in ClassifierSetting.model_fields:
        return f"{error.setting}: {error}"
    return f"model: {error}"
