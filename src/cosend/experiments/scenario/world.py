"""A scenario made ready to play: the stream read, the classifiers trained, every answer and every context known."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.classifiers.zoo import Trained, train
from cosend.core.kernel.ledger import Floats, Ints
from cosend.core.learner.learner import Learner
from cosend.core.policy.parts import Policy
from cosend.core.policy.policies import CoS
from cosend.errors import ScenarioError
from cosend.experiments.scenario.settings import ClassifierSetting, Scenario, SiteSetting
from cosend.site.context import Axis, read_contexts
from cosend.site.past import Past
from cosend.streams.table import Table

NOTHING = -1  # no item arrives in this slot


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
    policy: CoS

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
    training = table.part(0, scenario.stream.training)
    items = table.part(scenario.stream.training, len(table))
    classes = np.unique(table.labels).tolist()
    settings = [each for site in scenario.sites for each in site.classifiers]
    outputs = np.stack(
        [answers(each, table, classes, scenario.seed + number) for number, each in enumerate(settings)], axis=1
    )
    arrivals = arriving(scenario, items)
    horizon = max(1, int((arrivals != NOTHING).sum(axis=0).max()))
    axes = [axis.build(classes, horizon) for axis in scenario.context]
    places, contexts = placed(arrivals, items, axes, scenario.label_delay)
    truth = np.searchsorted(np.array(classes), items.labels)
    right = (outputs[scenario.stream.training :] == truth[:, None])[arrivals[places != NOTHING]].astype(np.uint8)
    policy = scenario.build_policy(horizon)
    return World(scenario, training, items, arrivals, contexts, places, right, outputs, classes, axes, policy)


def answers(classifier: ClassifierSetting, table: Table, classes: list[Any], seed: int) -> Ints:
    """Train a classifier and return what it says of every row of the stream, as numbers of the classes."""
    first, last = classifier.train or (0, 1)
    seen, labels = _seen(table, classifier), table.labels[first:last]
    if classifier.model == "always" and classifier.label not in classes:
        raise _mistake(classifier, f"gives the label {classifier.label!r}; the stream has {_named(classes)}")
    model: Trained = train(classifier.model, seen[first:last], labels, seed=seed, label=classifier.label)
    return np.searchsorted(np.array(classes), model.predict(seen).astype(np.array(classes).dtype))


def _mistake(classifier: ClassifierSetting, what: str) -> ScenarioError:
    return ScenarioError("the scenario", [f"classifier {classifier.name!r} {what}"])


def _named(values: list[Any]) -> str:
    return ", ".join(repr(value) for value in values)


def _seen(table: Table, classifier: ClassifierSetting) -> Floats:
    names = list(table.features)
    wanted = classifier.features or names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise _mistake(classifier, f"has no feature {unknown[0]!r} to see; there are {', '.join(names)}")
    return table.matrix()[:, [names.index(name) for name in wanted]]


def arriving(scenario: Scenario, items: Table) -> Ints:
    """Return which item arrives at which site in every slot."""
    names = [site.name for site in scenario.sites]
    if items.sites is not None:
        strangers = sorted(set(items.sites.tolist()) - set(names))
        if strangers:
            mistake = f"the stream has rows for site {strangers[0]!r}; the sites are {', '.join(names)}"
            raise ScenarioError("the scenario", [mistake])
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
            contexts[places[n, site]] = read_contexts(axes, [rows[item]], past, n)[0]
    return places, contexts
