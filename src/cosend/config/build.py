"""From a network file to objects: axes, policy, and the models of every site, for simulations and services alike.

network, folder = load(Path("network.toml"))
built = Built(network, folder, needed_stream(network, folder))
built.axes, built.policy, built.classifiers("north"), built.costs("north")
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from cosend.algorithm.policies import Policy
from cosend.axes import Axis, default_axes, in_order
from cosend.config.network_file import NO_STREAM, SOURCE, NetworkFile, wants_horizon
from cosend.config.sections import ModelSection, RewardSection, SiteSection
from cosend.engine.budget import Budget
from cosend.engine.learnt_arms import Learnt
from cosend.engine.scoring import UNITS, Gain, Range, Reward, right_or_wrong
from cosend.errors import (
    ClassifierError,
    CosendError,
    ModelError,
    NetworkFileError,
    SettingError,
    StreamError,
    listed,
    shown,
)
from cosend.models.adapters import Classifier, RunsElsewhere
from cosend.models.built_in import Coded, Earned, Matrix, Said, as_it_says, train
from cosend.models.loading import load_model
from cosend.models.python_modules import function_of_two
from cosend.site import Site
from cosend.streams.table import Table

SEEDS_OF_MODELS: Final = 2**32  # scikit-learn takes no larger one


def read_stream(network: NetworkFile, folder: Path) -> Table:
    """Return the rows of the stream, with the columns that only contexts and predictions need."""
    if network.stream is None:
        raise NetworkFileError(SOURCE, [f"stream: {NO_STREAM}"])
    try:
        return network.stream.read(network.seed, folder, network.hidden())
    except StreamError as error:
        keys = [f"{key}.model" for key, _, each in network.classifiers() if each.column == error.column]
        keys += [f"context.{n}.feature" for n, axis in enumerate(network.context, 1) if axis.feature == error.column]
        if error.column is None or not keys:
            raise
        raise NetworkFileError(SOURCE, [f"{key}: {error}" for key in keys]) from error


def needed_stream(network: NetworkFile, folder: Path, site: str | None = None) -> Table | None:
    """Return the rows of the stream if a site, or any of them, cannot be built without them, else None.

    They are needed to train models, and for labels and numbers of items that the file does not name.
    """
    trained = any(each.is_trained for _, _, each in network.classifiers(site))
    labels = network.labels is None and any(axis.kind == "previous_label" for axis in network.context)
    horizon = any(axis.kind == "time" and axis.horizon is None for axis in network.context)
    horizon = horizon or (network.policy is not None and wants_horizon(network.policy))
    needed = network.stream is not None and (trained or labels or horizon)
    return read_stream(network, folder) if needed else None


class Built:
    """The objects that a network file describes; models are loaded or trained once, when they are first needed.

    table  the rows of the stream, if there is one: what the file says about it is checked
    """

    def __init__(self, network: NetworkFile, folder: Path, table: Table | None = None) -> None:
        self.network, self.folder, self.table = network, folder, table
        occurring = [] if table is None or network.is_scored else np.unique(table.labels).tolist()
        self.labels = network.labels or occurring
        found = [] if table is None else list(mistakes_about(network, table, self.labels))
        if found:
            raise NetworkFileError(SOURCE, found)
        self._models: dict[str, Classifier] = {}

    @cached_property
    def axes(self) -> list[Axis]:
        """The axes of the context, the same for all sites; the default ones if the file names none."""
        axes, found = list[Axis](), []
        if not self.network.context:
            learnt = {arm for site in self.network.sites for arm in self.network.learnt_arms(site, self.policy)}
            return [*default_axes(sorted(learnt), self.network.prediction_columns())]
        for n, axis in enumerate(self.network.context, start=1):
            try:
                axes.append(axis.build(self.labels, self.horizon, self.network.prediction_columns()))
            except SettingError as error:
                found.append(f"context.{n}: {error}")
        if found:
            raise NetworkFileError(SOURCE, found)
        return [*in_order(axes)]

    @cached_property
    def policy(self) -> Policy | None:
        """The policy that the file names; None if it names none, and every site has the default."""
        try:
            return self.network.build_policy(self.horizon)
        except SettingError as error:
            raise NetworkFileError(SOURCE, [f"policy: {error}"]) from error

    @cached_property
    def reward(self) -> Gain:
        """The value of answers."""
        said = self.network.reward
        if self.network.is_scored:
            return as_it_says
        confusions = {(each.truth, each.said): each.cost for each in said.confusions} or None
        if said == RewardSection():
            return right_or_wrong
        try:
            function = None if said.function is None else function_of_two(said.function, self.folder)
        except ModelError as error:
            why = f"{error.wrong}; {error.allowed}" if error.allowed else error.wrong
            raise NetworkFileError(SOURCE, [f"reward.function: {shown(said.function)}: {why}"]) from error
        return Reward(confusions=confusions, range=self.units, function=function)

    @property
    def units(self) -> Range:
        """The lowest and the highest score."""
        return self.network.reward.range or UNITS

    @cached_property
    def horizon(self) -> int | None:
        """How many items arrive at the busiest site; None if that is not known."""
        if self.table is None or self.table.sites is None:
            return None if self.table is None else len(self.table) - self.network.training
        arriving = self.table.sites[self.network.training :]
        return max(1, *(int((arriving == site.name).sum()) for site in self.network.sites))

    def classifiers(self, site: str | None = None) -> dict[str, Any]:
        """Return the models of a site, or of all, by name; `Learnt` where a site learns one itself."""
        if site is not None:
            self.setting(site)  # raises if there is none
        return self._make(list(self.network.classifiers(site)))

    def models(self, site: str | None = None) -> dict[str, Classifier]:
        """Return the models of a site, or of all, without arms that a site learns itself."""
        return self._make(list(self.network.models(site)))

    def classifiers_here(self, site: str) -> dict[str, Any]:
        """Return the models of a site as its own process needs them: those that workers run are not loaded."""
        made = self._make([each for each in self.network.classifiers(site) if not each[2].workers])
        return {each.name: made.get(each.name, RunsElsewhere()) for each in self.setting(site).classifiers}

    def classifiers_for_workers(self, site: str, names: Sequence[str]) -> dict[str, Classifier]:
        """Return the models of a site that workers run, or only some of them."""
        able = [each.name for each in self.setting(site).classifiers if each.workers]
        for name in names:
            if name not in able:
                allowed = f"a classifier of {site!r} with workers = true ({', '.join(able) or 'it has none'})"
                raise SettingError("--classifier", name, allowed)
        if not able:
            raise SettingError("--site", site, "a site with a classifier that has workers = true")
        return self._make([each for each in self.network.classifiers(site) if each[2].name in (names or able)])

    def costs(self, site: str) -> dict[str, float]:
        return {each.name: each.cost for each in self.setting(site).classifiers}

    def budget(self, site: str) -> Budget | None:
        """Return what a site may spend: in money, if the file has a unit."""
        return self.network.budget_of(self.setting(site))

    def hashes(self, site: str) -> dict[str, str]:
        """Return for each model of a site the hash of its source, where that is known."""
        hidden = self.network.hidden()
        found = {
            each.name: hash_of(each, self.folder, hidden, self._training(owner, each))
            for _, owner, each in self.network.classifiers(site)
        }
        return {name: known for name, known in found.items() if known is not None}

    def peers(self, site: str) -> dict[str, tuple[float, int]]:
        """Return the other sites: what calling each of them costs, and how many models it has."""
        costs = self.network.call_costs()
        return {
            each.name: (costs[each.name], len(each.classifiers)) for each in self.network.sites if each.name != site
        }

    def site(self, name: str, **changes: Any) -> Site:
        """Return a site without peers; its options are in the file, and some may be given instead."""
        setting, network = self.setting(name), self.network
        options: dict[str, Any] = {
            "classifiers": changes.get("classifiers") or self.classifiers(name),
            "context": self.axes,
            "policy": self.policy,
            "costs": self.costs(name),
            "reward": self.reward,
            "money": network.money,
            "budget": self.budget(name),
            "patience": network.patience,
            "seed": network.seed,
            "retries": network.retries,
            "strict_labels": network.strict_labels,
            "learns_from": setting.learns_from,
            "score_local": setting.score_local,
            "learnt": setting.learnt,
            "withholds": setting.withholds,
            "share_labels": setting.share_labels,
        }
        if setting.shares is not None:  # a recorded opinion that replaces a model is no feature
            options["shares"] = [*setting.shares, *network.prediction_columns()]
        return Site(name, **(options | changes))

    def setting(self, site: str) -> SiteSection:
        for each in self.network.sites:
            if each.name == site:
                return each
        raise SettingError("site", site, f"one of {', '.join(each.name for each in self.network.sites)}")

    def _make(self, wanted: list[tuple[str, SiteSection, ModelSection]]) -> dict[str, Any]:
        """Return models, made if they are not there yet, or raise with everything that is wrong with any of them."""
        found = []
        for key, site, setting in wanted:
            if setting.name not in self._models:
                try:
                    self._models[setting.name] = self._made(site, setting)
                except CosendError as error:
                    found.append(f"{key}.{_blame(setting, error)}")
        if found:
            raise NetworkFileError(SOURCE, found)
        return {setting.name: self._models[setting.name] for _, _, setting in wanted}

    def _made(self, site: SiteSection, setting: ModelSection) -> Any:
        if setting.column is not None:
            return Said(setting.column) if setting.kind == "column" else Earned(setting.column, self.units)
        if setting.is_trained:
            return self._trained(site, setting)
        if setting.kind == "always":
            return Coded(train(setting.model, np.empty((0, 0)), np.empty(0), label=setting.label), [], {})
        if setting.kind == "learnt":
            return Learnt(setting.model)
        hidden = self.network.hidden() if setting.features is None else ()
        known: dict[str, Any] = {"trusted": setting.trusted, "features": setting.features, "hide": hidden}
        if setting.is_endpoint:
            known["options"] = setting.endpoint_options(self.network.labels)
        model = load_model(setting.model, self.folder, **known)
        if setting.workers and model.learns:
            raise SettingError("workers", True, "false for a model that learns: what one worker learns, no other knows")
        return model

    def _trained(self, site: SiteSection, setting: ModelSection) -> Classifier:
        if self.table is None:
            raise ModelError(setting.model, "it is trained on rows of the stream, and there is none", NO_STREAM)
        items, labels, seed = self._training(site, setting)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # models refuse the result
                model = train(setting.model, items, labels, seed=int(seed[0]))
        except (ValueError, ArithmeticError) as error:  # what models raise for numbers that they cannot work with
            raise ClassifierError(f"{setting.name!r} cannot be trained ({error})") from error
        return Coded(model, self._features(setting), self.table.vocabulary)

    def _training(self, site: SiteSection, setting: ModelSection) -> list[Any]:
        """Return the items, labels and seed that a model is trained with; nothing for models that are not."""
        if not setting.is_trained or self.table is None:
            return []
        rows = training_rows(setting, site, self.table, self.network.training)
        number = [each.name for _, _, each in self.network.classifiers()].index(setting.name)
        seed = (self.network.seed + number) % SEEDS_OF_MODELS
        return [self.rows_for(self._features(setting))[rows], self.table.labels[rows], np.array([seed])]

    def _features(self, setting: ModelSection) -> list[str]:
        hidden, columns = self.network.hidden(), [] if self.table is None else self.table.features
        return setting.features or [name for name in columns if name not in hidden]

    def rows_for(self, features: list[str]) -> Matrix:
        """Return these features of all rows of the stream as numbers, as trained models see them."""
        if self.table is None:
            raise NetworkFileError(SOURCE, [f"stream: {NO_STREAM}"])
        place_of = {name: place for place, name in enumerate(self.table.features)}
        return self._matrix[:, [place_of[name] for name in features]]

    @cached_property
    def _matrix(self) -> Matrix:
        return np.empty((0, 0)) if self.table is None else self.table.matrix()


def _blame(setting: ModelSection, error: Exception) -> str:
    if isinstance(error, ModelError):
        return f"model: {shown(setting.model)}: {error.wrong}" + (f"; {error.allowed}" if error.allowed else "")
    if isinstance(error, SettingError) and error.setting in ModelSection.model_fields:
        return f"{error.setting}: {error}"
    return f"model: {error}"


def mistakes_about(network: NetworkFile, table: Table, labels: Sequence[Any]) -> Iterator[str]:
    """Yield what the file says about the stream that is not so, each with its key."""
    columns = table.columns
    unnamed = sorted(set(table.labels.tolist()).difference(labels), key=str)
    if unnamed and not network.is_scored:
        yield f"labels: the stream has {listed(unnamed)} too; the file names {listed(labels)}"
    for n, axis in enumerate(network.context, start=1):
        if axis.feature is not None and axis.feature not in columns:
            there = f"it has {listed(sorted(columns))}"
            yield f"context.{n}.feature: the stream has no column {shown(axis.feature)}; {there}"
        if axis.kind == "previous_label" and len(labels) < 2 and labels:
            yield f"context.{n}.kind: the previous label tells nothing, all are {shown(labels[0])}"
    yield from _mistakes_about_sharing(network, columns)
    names = [site.name for site in network.sites]
    arriving_at = [] if table.sites is None else table.sites[network.training :].tolist()
    for stranger in sorted(set(arriving_at).difference(names)):
        yield f"stream.site: the stream has rows for site {shown(stranger)}; the sites are {listed(names)}"
    for key, site, model in network.classifiers():
        units = network.reward.range or UNITS
        for wrong in _mistakes_about_model(model, site, table, labels, network.training, units):
            yield f"{key}.{wrong}"


def _mistakes_about_sharing(network: NetworkFile, columns: Collection[str]) -> Iterator[str]:
    """Yield features that are shared or withheld and that no item has: one with a slip would leave the site."""
    for n, site in enumerate(network.sites, start=1):
        for key, features in (("shares", site.shares or ()), ("withholds", site.withholds)):
            for name in features:
                if name not in columns:
                    yield f"sites.{n}.{key}: the stream has no column {shown(name)}; it has {listed(sorted(columns))}"


def _wrong_scores(column: Any, units: Range) -> Iterator[str]:
    """Yield why a column of the stream does not have scores."""
    low, high = units
    if column.dtype.kind not in "biuf":
        yield "model: its column has text, scores are numbers"
    elif column.min() < low or column.max() > high:
        has = f"its column has scores from {column.min():g} to {column.max():g}, allowed is {low:g} to {high:g}"
        yield f"model: {has}; [reward] range = [lowest, highest] names other units"


def _mistakes_about_model(
    model: ModelSection, site: SiteSection, table: Table, labels: Sequence[Any], training: int, units: Range
) -> Iterator[str]:
    for name in model.features or []:
        if name not in table.features:
            there = f"it has {listed(sorted(table.features))}"
            yield f"features: the stream has no feature {shown(name)}; {there}"
    if model.model == "always" and model.label not in labels:
        yield f"label: no label of the stream is {shown(model.label)}; they are {listed(labels)}"
    columns = table.columns
    if model.column is not None and model.column not in columns:
        yield f"model: the stream has no column {shown(model.column)}; it has {listed(sorted(columns))}"
    elif model.kind == "score" and model.column is not None:
        yield from _wrong_scores(columns[model.column], units)
    first, last = model.train or (0, training)
    if model.train_on == "own" and table.sites is None:
        yield "train_on: 'own' needs a column of the stream that says where a row arrives: stream.site"
    elif model.is_trained and last > first and not table.known[first:last].any():
        yield f"train: none of the rows {first:,} to {last:,} for training has a label"
    elif model.train_on == "own" and not len(training_rows(model, site, table, training)):
        labelled = " and has a label" if table.unlabelled else ""
        yield f"train_on: none of the rows {first:,} to {last:,} for training is of site {site.name!r}{labelled}"


def training_rows(model: ModelSection, site: SiteSection, table: Table, training: int) -> Any:
    rows = np.arange(*(model.train or (0, training)))
    rows = rows[table.known[rows]]
    if model.train_on == "stream" or table.sites is None:
        return rows
    return rows[table.sites[rows] == site.name]


def hash_of(model: ModelSection, folder: Path, hidden: Sequence[str], training: Sequence[Any]) -> str | None:
    """Return a hash of what a model is made of, so that a site that restarts notices another model under its name.

    It covers the file of a model, the source of the module for `module:callable`, or the training rows. None if
    nothing is known: a model that a module loads from elsewhere is not seen.
    """
    made_of = [repr(part.tolist()).encode() if part.dtype == object else part.tobytes() for part in training]
    if model.kind in ("file", "module"):
        try:
            made_of.append(_file_of(model, folder).read_bytes())
        except (OSError, TypeError):  # it is elsewhere, or built into Python
            return None
    facts = [model.model, model.features or ["all but", *hidden], model.label]
    if model.is_endpoint:
        facts.append(model.endpoint_options(None))
    found = hashlib.sha256(json.dumps(facts, default=str).encode())
    for each in made_of:
        found.update(hashlib.sha256(each).digest())
    return found.hexdigest()


def _file_of(model: ModelSection, folder: Path) -> Path:
    if model.kind == "file":
        return folder / model.model
    name = model.model.partition(":")[0]
    nearby = folder / f"{name}.py"
    return nearby if nearby.is_file() or name not in sys.modules else Path(sys.modules[name].__file__ or "")
