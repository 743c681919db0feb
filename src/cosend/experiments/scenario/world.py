"""A scenario made ready to play: the stream read, the classifiers trained, every answer and every context known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.classifiers.zoo import Trained, train
from cosend.config.scenario import Scenario
from cosend.config.sites import ClassifierSetting, SiteSetting
from cosend.core.kernel.ledger import Floats, Ints
from cosend.core.learner.learner import Learner
from cosend.core.policy.parts import Policy
from cosend.errors import ContextError, ScenarioError, SettingError, listed, shown
from cosend.site.context import Axis, read_contexts
from cosend.site.past import Past
from cosend.streams.table import Table

NOTHING = -1  # no item arrives in this slot
SEEDS_OF_MODELS: Final = 2**32  # scikit-learn takes no larger one


class World(NamedTuple):
    """Everything that a policy or baseline may be played against."""

    scenario: Scenario
    training: Table
    items: Table
    arrivals: Ints  # [slot, site]: the item that arrives, or NOTHING
    contexts: Floats  # [arrival, axis]
    places: Ints  # [slot, site]: the row in `contexts` and `right`, or NOTHING
    right: npt.NDArray[np.uint8]  # [arrival, function]
    outputs: Ints  # [row, function] for the training rows and then the items, as numbers of `classes`
    classes: list[Any]  # the labels that occur, sorted
    axes: list[Axis]
    policy: Policy

    @property
    def horizon(self) -> int:
        """How many items arrive at the busiest site."""
        return busiest(self.arrivals)

    @property
    def owners(self) -> Ints:
        """The site that every function belongs to."""
        counts = [len(site.classifiers) for site in self.scenario.sites]
        return np.repeat(np.arange(len(counts)), counts)

    def learners(self, policy: Policy) -> list[Learner]:
        """Return fresh learners for all sites."""
        return [self._learner(site, policy) for site in self.scenario.sites]

    def _learner(self, site: SiteSetting, policy: Policy) -> Learner:
        learner = Learner(
            site.name,
            own={classifier.name: classifier.cost for classifier in site.classifiers},
            dimensions=len(self.axes),
            policy=policy,
            seed=self.scenario.seed,
        )
        for other in self.scenario.sites:
            if other is not site:
                learner.add_peer(other.name, self.scenario.call_cost, functions=len(other.classifiers))
        return learner

    def rows_of(self, site: int) -> Ints:
        """Return the rows of `contexts` and `right` that belong to a site, in the order of its stream."""
        rows: Ints = self.places[self.places[:, site] != NOTHING, site]
        return rows

    def items_of(self, site: int) -> Ints:
        """Return the items that arrive at a site, in order."""
        items: Ints = self.arrivals[self.arrivals[:, site] != NOTHING, site]
        return items

    def costs(self, site: int) -> Floats:
        """Return what using each function costs a site: its own cost, or that of the call."""
        own = np.array([each.cost for each_site in self.scenario.sites for each in each_site.classifiers])
        return np.where(self.owners == site, own, self.scenario.call_cost)


def build(scenario: Scenario, folder: Path) -> World:
    """Read the stream, train the classifiers and work out every context."""
    table = scenario.stream.read(scenario.seed, folder)
    classes = np.unique(table.labels).tolist()
    mistakes = list(mistakes_about(scenario, table, classes))
    if mistakes:
        raise ScenarioError("the scenario", mistakes)
    training = table.part(0, scenario.stream.training)
    items = table.part(scenario.stream.training, len(table))
    settings = [each for site in scenario.sites for each in site.classifiers]
    outputs = np.stack(
        [answers(each, table, classes, scenario.seed + number) for number, each in enumerate(settings)], axis=1
    )
    arrivals = arriving(scenario, items)
    axes = [axis.build(classes, busiest(arrivals)) for axis in scenario.context]
    places, contexts = placed(arrivals, items, axes, scenario.label_delay)
    truth = np.searchsorted(np.array(classes), items.labels)
    right = (outputs[scenario.stream.training :] == truth[:, None])[arrivals[places != NOTHING]].astype(np.uint8)
    policy = scenario.build_policy(busiest(arrivals))
    world = World(scenario, training, items, arrivals, contexts, places, right, outputs, classes, axes, policy)
    try:
        world.learners(policy)
    except SettingError as error:
        raise ScenarioError("the scenario", [f"policy: {error}"]) from error
    return world


def busiest(arrivals: Ints) -> int:
    """Return how many items arrive at the busiest site."""
    return max(1, int((arrivals != NOTHING).sum(axis=0).max()))


def mistakes_about(scenario: Scenario, table: Table, classes: list[Any]) -> Iterator[str]:
    """Yield what the scenario says of the stream that is not so, each with its key."""
    columns = {**table.features, **table.contexts}
    for n, axis in enumerate(scenario.context, start=1):
        if axis.feature is not None and axis.feature not in columns:
            there = f"it has {listed(sorted(columns))}"
            yield f"context.{n}.feature: the stream has no column {shown(axis.feature)}; {there}"
        if axis.kind == "previous_label" and len(classes) < 2:
            yield f"context.{n}.kind: the previous label tells nothing, all are {shown(classes[0])}"
    names = [site.name for site in scenario.sites]
    arriving_at = [] if table.sites is None else table.sites[scenario.stream.training :].tolist()
    for stranger in sorted(set(arriving_at).difference(names)):
        yield f"stream.site: the stream has rows for site {shown(stranger)}; the sites are {listed(names)}"
    for n, site in enumerate(scenario.sites, start=1):
        for k, classifier in enumerate(site.classifiers, start=1):
            for wrong in _mistakes_about_one(classifier, table, classes):
                yield f"sites.{n}.classifiers.{k}.{wrong}"


def _mistakes_about_one(classifier: ClassifierSetting, table: Table, classes: list[Any]) -> Iterator[str]:
    for name in classifier.features or []:
        if name not in table.features:
            there = f"it has {listed(sorted(table.features))}"
            yield f"features: the stream has no feature {shown(name)}; {there}"
    if classifier.model == "always" and classifier.label not in classes:
        yield f"label: no label of the stream is {shown(classifier.label)}; they are {listed(classes)}"


def answers(classifier: ClassifierSetting, table: Table, classes: list[Any], seed: int) -> Ints:
    """Train a classifier and return what it says of every row of the stream, as numbers of the classes."""
    first, last = classifier.train or (0, 1)
    seen, labels = _seen(table, classifier.features), table.labels[first:last]
    seed %= SEEDS_OF_MODELS
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # models refuse what comes of it
            model: Trained = train(classifier.model, seen[first:last], labels, seed=seed, label=classifier.label)
            said = model.predict(seen)
    except (ValueError, ArithmeticError) as error:  # what models raise for numbers that they cannot work with
        raise ScenarioError("the scenario", [f"classifier {classifier.name!r} cannot be trained ({error})"]) from error
    return np.searchsorted(np.array(classes), said.astype(np.array(classes).dtype))


def _seen(table: Table, features: list[str] | None) -> Floats:
    """Return the columns that a classifier may see, as numbers."""
    if features is None:
        return table.matrix()
    place_of = {name: place for place, name in enumerate(table.features)}
    return table.matrix()[:, [place_of[name] for name in features]]


def arriving(scenario: Scenario, items: Table) -> Ints:
    """Return which item arrives at which site in every slot."""
    names = [site.name for site in scenario.sites]
    if items.sites is not None:
        own = [np.flatnonzero(items.sites == name) for name in names]
    elif scenario.stream.arrivals == "deal":
        own = [np.arange(n, len(items), len(names)) for n in range(len(names))]
    else:
        own = [np.arange(len(items))] * len(names)
    arrivals = np.full((max(len(each) for each in own), len(names)), NOTHING, np.int64)
    for site, each in enumerate(own):
        arrivals[: len(each), site] = each
    return arrivals


def placed(arrivals: Ints, items: Table, axes: list[Axis], delay: int) -> tuple[Ints, Floats]:
    """Return the context of every arrival, read by the axes of a real site, and where it stands."""
    rows = [item for item, _ in items.rows()]
    labels = items.labels.tolist()
    places = np.where(arrivals == NOTHING, NOTHING, np.cumsum(arrivals.ravel() != NOTHING).reshape(arrivals.shape) - 1)
    contexts = np.zeros((int((arrivals != NOTHING).sum()), len(axes)))
    for site in range(arrivals.shape[1]):
        past, own = Past(), arrivals[arrivals[:, site] != NOTHING, site].tolist()
        for n, item in enumerate(own):
            known = n - max(1, delay)  # the newest item whose label has come
            if known >= 0:
                past.newest_labelled, past.newest_label = known + 1, labels[own[known]]
            try:
                contexts[places[n, site]] = read_contexts(axes, [rows[item]], past, n)[0]
            except ContextError as error:
                raise ContextError(f"item {item + 1}, counted after the training rows: {error}") from error
    return places, contexts
