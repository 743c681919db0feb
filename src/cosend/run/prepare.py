"""A network file made ready to play: every context is known, and every prediction that can be known in advance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints
from cosend.algorithm.learner import Learner
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import ScoreLocal
from cosend.axes import Axis, Context, PreviousLabel, read_columns
from cosend.config.build import Built, read_stream
from cosend.config.network_file import SOURCE, NetworkFile
from cosend.config.sections import AxisSection, SiteSection
from cosend.engine.encoding import Encoder, watches
from cosend.errors import ContextError, NetworkFileError, SettingError
from cosend.run.predictions import Predictions, Progress, no_progress, predict_all
from cosend.simulation.simulate import NO_LABEL
from cosend.streams.table import Mask, Table

NOTHING: Final = -1  # no item arrives in this slot


class PolicyPerSite(NamedTuple):
    """How the sites of a network decide."""

    name: str
    by_site: dict[str, tuple[Policy, ScoreLocal]]  # the policy of each, and which of its models a label scores

    @property
    def policies(self) -> list[Policy]:
        """The policies of all sites."""
        return [policy for policy, _ in self.by_site.values()]


class Prepared(NamedTuple):
    """Everything that a policy or baseline may be played against."""

    network: NetworkFile
    built: Built
    training: Table
    items: Table
    rows: list[dict[str, Any]]  # the items as sites get them
    arrivals: Ints  # [slot, site]: the item that arrives, or NOTHING
    contexts: Floats  # [arrival, axis]; for a category, codes that all sites share
    places: Ints  # [slot, site]: the row in `contexts` and `right`, or NOTHING
    right: npt.NDArray[np.uint8]  # [arrival, model]; 0 where the prediction is unknown
    predictions: Predictions  # for the training rows, then the items
    classes: list[Any]  # the labels that occur, sorted
    given: list[Axis]
    axes: list[Axis]  # those given, or else the time, for policies that need an axis
    policy: PolicyPerSite
    one_by_one: list[str]  # why real sites must play it item by item; empty if the compiled simulation can
    notes: list[str]  # what a reader should know

    @property
    def horizon(self) -> int:
        """How many items arrive at the busiest site."""
        return busiest(self.arrivals)

    @property
    def known_models(self) -> Ints:
        """The models whose predictions are known in advance, whatever is played."""
        return np.flatnonzero(self.predictions.known)

    @property
    def all_known(self) -> bool:
        """Whether the predictions of all models are known in advance."""
        return bool(self.predictions.known.all())

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole stream, training rows included."""
        return (self.built.table or self.items).digest()

    @property
    def owners(self) -> Ints:
        """The site that every model belongs to."""
        counts = [len(site.classifiers) for site in self.network.sites]
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def measured(self) -> list[int]:
        """The axes that are numbers, not categories."""
        return [n for n, axis in enumerate(self.axes) if not axis.is_category]

    @property
    def delays(self) -> int | Ints:
        """How many slots later labels are known: for all, or for each [slot, site] if some never come."""
        delay = self.network.label_delay
        if not self.items.unlabelled:
            return delay
        return np.where(self.items.known[self.arrivals], delay, NO_LABEL)  # any value where nothing arrives

    @property
    def features(self) -> list[Mapping[str, Any]]:
        """The features of every item that sites without a context look at."""
        return [*read_columns(self.built.axes[-1:], self.rows)[0]]

    @property
    def axis_sections(self) -> list[AxisSection]:
        """What the file says about the axes."""
        return self.network.given or [AxisSection(kind="time")]

    def learners(self, policy: PolicyPerSite) -> list[Learner]:
        """Return new learners for all sites, connected."""
        learners = [self._learner(site, policy) for site in self.network.sites]
        for learner in learners:
            for name, (cost, functions) in self.built.peers(learner.name).items():
                learner.add_peer(name, cost, functions=functions)
        return learners

    def learner_alone(self, site: int) -> Learner:
        """Return a new learner for a site that has no peers."""
        return self._learner(self.network.sites[site], self.policy)

    def _learner(self, site: SiteSection, how: PolicyPerSite) -> Learner:
        policy, score_local = how.by_site[site.name]
        axes = self.given if self.looks_at_features(how) else self.axes
        return Learner(
            site.name,
            own=self.built.costs(site.name),
            dimensions=len(axes),
            categories=[n for n, axis in enumerate(axes) if axis.is_category],
            policy=policy,
            seed=self.network.seed,
            score_local=score_local,
        )

    def looks_at_features(self, policy: PolicyPerSite) -> bool:
        """Tell whether sites look at every feature; otherwise they get the axes that there are."""
        return self.network.watches and any(each.mixes for each in policy.policies)

    def labelled(self, site: int) -> Mask:
        """Return which items that arrive at a site have a known label."""
        return self.items.known[self.items_of(site)]

    def inputs(self, policy: PolicyPerSite) -> Mapping[str, Any]:
        """Return the arguments of a simulation of all sites."""
        inputs = {"contexts": self.contexts, "gains": self.right, "items": self.places}
        if not self.looks_at_features(policy):
            return inputs
        features = self.features
        if self.given:
            arrived = self.arrivals[self.arrivals != NOTHING]
            return {**inputs, "features": [features[item] for item in arrived.tolist()]}
        no_axes = np.zeros((len(self.items), 0))  # then an item is the same wherever and whenever it arrives
        gains = right_about(self.predictions, self.items, self.classes)
        return {"contexts": no_axes, "gains": gains, "items": self.arrivals, "features": features}

    def rows_of(self, site: int) -> Ints:
        """Return the rows of `contexts` and `right` that belong to a site, in the order of its stream."""
        rows: Ints = self.places[self.places[:, site] != NOTHING, site]
        return rows

    def items_of(self, site: int) -> Ints:
        """Return the items that arrive at a site, in order."""
        items: Ints = self.arrivals[self.arrivals[:, site] != NOTHING, site]
        return items

    def costs(self, site: int) -> Floats:
        """Return what using each model costs a site: its own cost, or that of the call."""
        own = np.array([each.cost for _, _, each in self.network.classifiers()])
        called = np.array(list(self.network.call_costs().values()))[self.owners]
        return np.where(self.owners == site, own, called)

    def first_slots(self, slots: int) -> Prepared:
        """Return the same with only the first slots."""
        return self._replace(arrivals=self.arrivals[:slots], places=self.places[:slots])


def prepare(network: NetworkFile, folder: Path, progress: Progress = no_progress) -> Prepared:
    """Read the stream, make the models, ask them what can be asked in advance, and compute every context."""
    table = read_stream(network, folder)
    built = Built(network, folder, table)
    built.all_classifiers()
    classes = np.unique(table.labels).tolist()
    first = network.training
    training, items = table.part(0, first), table.part(first, len(table))
    arrivals = arrivals_at(network, items)
    order = [first + own[own != NOTHING] for own in arrivals.T]
    if not items.known.any():
        wrong = f"stream: none of the {len(items):,} rows that arrive has a label, at least one is needed"
        raise NetworkFileError(SOURCE, [wrong])
    rows = [item for item, _ in table.rows()]
    predictions = predict_all(built, table, rows, classes, order, progress)
    given: list[Axis] = [axis for axis in built.axes if not watches([axis])]
    axes = given or [Context.time(busiest(arrivals))]
    places, contexts = contexts_of(arrivals, rows[first:], items.truths(), axes, network.label_delay)
    prepared = Prepared(
        network=network,
        built=built,
        training=training,
        items=items,
        rows=rows[first:],
        arrivals=arrivals,
        contexts=contexts,
        places=places,
        right=right_about(predictions, items, classes)[arrivals[arrivals != NOTHING]],
        predictions=predictions,
        classes=classes,
        given=given,
        axes=axes,
        policy=policy_per_site(network, built.policy),
        one_by_one=[*predictions.unknown, *predictions.incomplete, *_beyond_simulation(network, arrivals, items)],
        notes=[*_unlabelled_notes(training, items), *predictions.notes],
    )
    try:
        prepared.learners(prepared.policy)
    except SettingError as error:  # the policy does not go with this number of axes or items
        raise NetworkFileError(SOURCE, [f"policy: {error}"]) from error
    return prepared


def policy_per_site(network: NetworkFile, policy: Policy | None) -> PolicyPerSite:
    """Return how the sites of a file decide with a policy, or with the default."""
    chosen = {site.name: network.policy_of(site, policy) for site in network.sites}
    return PolicyPerSite(" and ".join(dict.fromkeys(type(each).__name__ for each, _ in chosen.values())), chosen)


def right_about(predictions: Predictions, items: Table, classes: list[Any]) -> npt.NDArray[np.uint8]:
    """Return [item, model]: whether a model is right about an item; 0 where that is unknown."""
    truth = np.searchsorted(np.array(classes), items.labels)
    codes = predictions.codes[len(predictions.codes) - len(items) :]
    right: npt.NDArray[np.uint8] = ((codes == truth[:, None]) & items.known[:, None]).astype(np.uint8)
    return right


def _unlabelled_notes(training: Table, items: Table) -> Iterator[str]:
    if items.unlabelled:
        yield (
            f"{items.unlabelled:,} of {len(items):,} items have no label: they are decided as all others are, "
            "their labels never come, and they count in no error and no reward"
        )
    if training.unlabelled:
        yield f"{training.unlabelled:,} of {len(training):,} training rows have no label: no model is trained on them"


def _beyond_simulation(network: NetworkFile, arrivals: Ints, items: Table) -> Iterator[str]:
    """Yield what real sites can do and the compiled simulation cannot."""
    for axis in network.context:
        if axis.kind == "category":
            yield f"{axis.feature!r} is a category"
    if network.patience != Patience():
        yield "labels are not awaited forever"
    elif items.unlabelled + network.label_delay > Patience().max_waiting:
        yield "more labels are missing than a site waits for"
    if network.strict_labels:
        yield "labels are strict"
    if network.watches and (arrivals[:1] == NOTHING).any():
        yield "nothing arrives at some sites, which would have features to look at"


def busiest(arrivals: Ints) -> int:
    """Return how many items arrive at the busiest site."""
    return max(1, int((arrivals != NOTHING).sum(axis=0).max()))


def arrivals_at(network: NetworkFile, items: Table) -> Ints:
    """Return [slot, site]: which item arrives."""
    names = [site.name for site in network.sites]
    if items.sites is not None:
        own = [np.flatnonzero(items.sites == name) for name in names]
    elif network.stream is not None and network.stream.arrivals == "deal":
        own = [np.arange(n, len(items), len(names)) for n in range(len(names))]
    else:
        own = [np.arange(len(items))] * len(names)
    arrivals = np.full((max(len(each) for each in own), len(names)), NOTHING, np.int64)
    for site, each in enumerate(own):
        arrivals[: len(each), site] = each
    return arrivals


def contexts_of(
    arrivals: Ints, rows: list[dict[str, Any]], labels: list[Any], axes: list[Axis], delay: int
) -> tuple[Ints, Floats]:
    """Return [slot, site]: the row of the context of every arrival, and the contexts, read as a real site does."""
    places = np.where(arrivals == NOTHING, NOTHING, np.cumsum(arrivals.ravel() != NOTHING).reshape(arrivals.shape) - 1)
    contexts = np.zeros((int((arrivals != NOTHING).sum()), len(axes)))
    codes = Encoder(axes).codes  # all sites share them here
    at_once = 1 if any(isinstance(axis, PreviousLabel) for axis in axes) else max(1, len(arrivals))
    for site in range(arrivals.shape[1]):
        encoder, own = Encoder(axes), arrivals[arrivals[:, site] != NOTHING, site].tolist()
        encoder.codes = codes
        for n in range(0, len(own), at_once):
            known = n - max(1, delay)  # the newest item with a label, which matters if items go one by one
            if known >= 0 and labels[own[known]] is not None:
                encoder.remember_label([known + 1], [labels[own[known]]])
            some = own[n : n + at_once]
            columns = _read(axes, rows, some)
            contexts[places[n : n + len(some), site]] = encoder.place(columns, n)
    return places, contexts


def _read(axes: list[Axis], rows: list[dict[str, Any]], items: list[int]) -> list[Any]:
    """Return what axes read from items, or raise with the number of the first that cannot be read."""
    try:
        return read_columns(axes, [rows[item] for item in items])
    except ContextError as error:
        if len(items) > 1:
            for item in items:
                _read(axes, rows, [item])
        raise ContextError(f"item {items[0] + 1}, counted after the training rows: {error}") from error
