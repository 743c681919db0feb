"""A scenario made ready to play: the stream read, the classifiers trained, every answer and every context known."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.classifiers.zoo import Trained, train
from cosend.core.learner import Learner
from cosend.core.ledger import Floats, Ints
from cosend.core.policy import CoS
from cosend.errors import ScenarioError
from cosend.experiments.scenario.settings import ClassifierSetting, Scenario
from cosend.site.context import Axis, Past, read_contexts
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
    outputs: npt.NDArray[Any]  # [row, function] for the training rows and then the items
    axes: list[Axis]
    policy: CoS

    @property
    def owners(self) -> Ints:
        """The site that every function belongs to."""
        counts = [len(site.classifiers) for site in self.scenario.sites]
        return np.repeat(np.arange(len(counts)), counts)

    def learners(self) -> list[Learner]:
        """Return fresh learners for all sites."""
        names = [site.name for site in self.scenario.sites]
        return [
            Learner(
                site.name,
                own={classifier.name: classifier.cost for classifier in site.classifiers},
                peers={name: self.scenario.call_cost for name in names if name != site.name},
                dimensions=len(self.axes),
                policy=self.policy,
                seed=self.scenario.seed,
            )
            for site in self.scenario.sites
        ]

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
    outputs = np.stack([answers(each, training, table) for site in scenario.sites for each in site.classifiers], axis=1)
    arrivals = arriving(scenario, items)
    horizon = max(1, int((arrivals != NOTHING).sum(axis=0).max()))
    classes = np.unique(table.labels).tolist()
    axes = [axis.build(classes, horizon) for axis in scenario.context]
    places, contexts = placed(arrivals, items, axes, scenario.label_delay)
    right = outputs[scenario.stream.training :] == items.labels[:, None]
    at = arrivals[places != NOTHING]
    policy = scenario.build_policy(horizon)
    return World(
        scenario, training, items, arrivals, contexts, places, right[at].astype(np.uint8), outputs, axes, policy
    )


def answers(classifier: ClassifierSetting, training: Table, table: Table) -> npt.NDArray[Any]:
    """Train a classifier and return what it says of every row of the stream."""
    first, last = classifier.train or (0, 1)
    seen = _seen(table, classifier)
    model: Trained = train(classifier.model, seen[first:last], training.labels[first:last], label=classifier.label)
    return model.predict(seen)


def _seen(table: Table, classifier: ClassifierSetting) -> Floats:
    names = list(table.features)
    wanted = classifier.features or names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        mistake = f"classifier {classifier.name!r} has no feature {unknown[0]!r} to see; there are {', '.join(names)}"
        raise ScenarioError("the scenario", [mistake])
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
