"""A network file made ready to play over its stream: every context known, and every answer that can be known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.config.build import SOURCE, Built, read_stream
from cosend.config.contexts import AxisSetting
from cosend.config.policies import name_of
from cosend.config.scenario import Scenario
from cosend.config.sites import SiteSetting
from cosend.core.kernel.ledger import Floats, Ints
from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import ScoreLocal
from cosend.core.policy.parts import Policy
from cosend.errors import ContextError, ScenarioError, SettingError
from cosend.experiments.scenario.answers import Answers, Asked, all_answers, nobody_watches
from cosend.simulation.inputs import NO_LABEL
from cosend.site.context import Axis, Context, PreviousLabel, place_columns, read_columns
from cosend.site.features import features_in, watches
from cosend.site.past import Codes, Past
from cosend.streams.table import Mask, Table

NOTHING = -1  # no item arrives in this slot


class Way(NamedTuple):
    """How the sites of a network decide."""

    name: str
    by_site: dict[str, tuple[Policy, ScoreLocal]]  # the policy of each, and which of its classifiers a label scores

    @property
    def policies(self) -> list[Policy]:
        """The policies of all sites."""
        return [policy for policy, _ in self.by_site.values()]


class World(NamedTuple):
    """Everything that a policy or baseline may be played against."""

    scenario: Scenario
    built: Built
    training: Table
    items: Table
    rows: list[dict[str, Any]]  # the items as sites get them
    arrivals: Ints  # [slot, site]: the item that arrives, or NOTHING
    contexts: Floats  # [arrival, axis]; for a category, codes that all sites share
    places: Ints  # [slot, site]: the row in `contexts` and `right`, or NOTHING
    right: npt.NDArray[np.uint8]  # [arrival, function]; 0 where a function is not foreseen
    answers: Answers  # to the training rows and then to the items
    classes: list[Any]  # the labels that occur, sorted
    given: list[Axis]
    axes: list[Axis]  # that were given; the time if none was, for those who need one
    way: Way
    one_by_one: list[str]  # why real sites must play it item by item; empty if the compiled replay can
    notes: list[str]  # what a reader should know

    @property
    def horizon(self) -> int:
        """How many items arrive at the busiest site."""
        return busiest(self.arrivals)

    @property
    def outputs(self) -> Ints:
        """What functions say, [row, function], for the training rows and then the items, as numbers of `classes`."""
        return self.answers.numbers

    @property
    def foreseen(self) -> Ints:
        """The functions of which it is known in advance what they say of every item, whatever is played."""
        return np.flatnonzero(self.answers.foreseen)

    @property
    def known(self) -> bool:
        """Whether that is known of all of them."""
        return bool(self.answers.foreseen.all())

    @property
    def digest(self) -> str:
        """The SHA-256 of the whole stream, training rows included."""
        return (self.built.table or self.items).digest()

    @property
    def owners(self) -> Ints:
        """The site that every function belongs to."""
        counts = [len(site.classifiers) for site in self.scenario.sites]
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def measured(self) -> list[int]:
        """The axes that are numbers, not categories."""
        return [n for n, axis in enumerate(self.axes) if not axis.is_category]

    def learners(self, way: Way) -> list[Learner]:
        """Return fresh learners for all sites."""
        return [self._with_peers(self._learner(site, way)) for site in self.scenario.sites]

    def alone(self, site: int) -> Learner:
        """Return a fresh learner for a site that has no peers."""
        return self._learner(self.scenario.sites[site], self.way)

    def looks_at_features(self, way: Way) -> bool:
        """Tell whether sites look at every feature; all others get the axes that there are."""
        return self.scenario.watches and any(policy.mixes for policy in way.policies)

    @property
    def delays(self) -> int | Ints:
        """How many slots later labels are known: of all, or of each [slot, site] if some never come."""
        delay = self.scenario.label_delay
        if not self.items.unlabelled:
            return delay
        return np.where(self.items.known[self.arrivals], delay, NO_LABEL)  # whatever stands where nothing arrives

    def labelled(self, site: int) -> Mask:
        """Return of which items that arrive at a site the label is known."""
        return self.items.known[self.items_of(site)]

    def seen(self, way: Way) -> Mapping[str, Any]:
        """Return what a replay of all sites is given to decide by, and what it is told afterwards."""
        if not self.looks_at_features(way):
            return {"contexts": self.contexts, "gains": self.right, "items": self.places}
        if self.given:
            arrived = self.arrivals[self.arrivals != NOTHING]
            every = self.features
            features = [every[item] for item in arrived.tolist()]
            return {"contexts": self.contexts, "gains": self.right, "items": self.places, "features": features}
        nothing = np.zeros((len(self.items), 0))  # then an item is the same wherever and whenever it arrives
        gains = right_about(self.answers, self.items, self.classes)
        return {"contexts": nothing, "gains": gains, "items": self.arrivals, "features": self.features}

    @property
    def features(self) -> list[Mapping[str, Any]]:
        """What is looked at of every item, if every feature is."""
        return [*features_in(read_columns(self.built.axes[-1:], self.rows))]

    @property
    def settings(self) -> list[AxisSetting]:
        """What the file says of the axes."""
        return self.scenario.given or [AxisSetting(kind="time")]

    def _learner(self, site: SiteSetting, way: Way) -> Learner:
        policy, score_local = way.by_site[site.name]
        axes = self.given if self.looks_at_features(way) else self.axes
        return Learner(
            site.name,
            own=self.built.costs(site.name),
            dimensions=len(axes),
            categories=[n for n, axis in enumerate(axes) if axis.is_category],
            policy=policy,
            seed=self.scenario.seed,
            score_local=score_local,
        )

    def _with_peers(self, learner: Learner) -> Learner:
        for name, (cost, functions) in self.built.peers(learner.name).items():
            learner.add_peer(name, cost, functions=functions)
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
        own = np.array([each.cost for _, _, each in self.scenario.classifiers()])
        called = np.array(list(self.scenario.call_costs().values()))[self.owners]
        return np.where(self.owners == site, own, called)


def build(scenario: Scenario, folder: Path, asked: Asked = nobody_watches) -> World:
    """Read the stream, make the classifiers, ask them what can be asked in advance, and work out every context.

    asked  hears how far it is with asking
    """
    table = read_stream(scenario, folder)
    built = Built(scenario, folder, table)
    built.all_classifiers()
    classes = np.unique(table.labels).tolist()
    first = 0 if scenario.stream is None else scenario.stream.training
    training, items = table.part(0, first), table.part(first, len(table))
    arrivals = arriving(scenario, items)
    order = [first + own[own != NOTHING] for own in arrivals.T]
    if not items.known.any():
        wrong = f"stream: none of the {len(items):,} rows that arrive has a label, at least one is needed"
        raise ScenarioError(SOURCE, [wrong])
    rows = [item for item, _ in table.rows()]
    answers = all_answers(built, table, rows, classes, order, asked)
    given: list[Axis] = [axis for axis in built.axes if not watches([axis])]
    axes = given or [Context.time(busiest(arrivals))]
    places, contexts = placed(arrivals, rows[first:], items.truths(), axes, scenario.label_delay)
    world = World(
        scenario=scenario,
        built=built,
        training=training,
        items=items,
        rows=rows[first:],
        arrivals=arrivals,
        contexts=contexts,
        places=places,
        right=right_about(answers, items, classes)[arrivals[arrivals != NOTHING]],
        answers=answers,
        classes=classes,
        given=given,
        axes=axes,
        way=way_of(scenario, built.policy),
        one_by_one=[*answers.unforeseen, *answers.incomplete, *_beyond_the_replay(scenario, arrivals, items)],
        notes=[*_how_many_lack_a_label(training, items), *answers.notes],
    )
    _check_policy(world)
    return world


def way_of(scenario: Scenario, policy: Policy | None) -> Way:
    """Return how the sites of a file decide if it names a policy, or if it names none."""
    how = {site.name: scenario.how_to_decide(site, policy) for site in scenario.sites}
    return Way(" and ".join(dict.fromkeys(name_of(each) for each, _ in how.values())), how)


def right_about(answers: Answers, items: Table, classes: list[Any]) -> npt.NDArray[np.uint8]:
    """Return [item, function]: whether a function is right about an item; 0 where nobody knows."""
    truth = np.searchsorted(np.array(classes), items.labels)
    said = answers.numbers[len(answers.numbers) - len(items) :]
    right: npt.NDArray[np.uint8] = ((said == truth[:, None]) & items.known[:, None]).astype(np.uint8)
    return right


def _how_many_lack_a_label(training: Table, items: Table) -> Iterator[str]:
    """Yield how many rows have no label, and what becomes of them."""
    if items.unlabelled:
        yield (
            f"{items.unlabelled:,} of {len(items):,} items have no label: they are decided as all others are, "
            "their labels never come, and they count in no error and no reward"
        )
    if training.unlabelled:
        yield f"{training.unlabelled:,} of {len(training):,} training rows have no label: nobody is trained on them"


def _beyond_the_replay(scenario: Scenario, arrivals: Ints, items: Table) -> Iterator[str]:
    """Yield what the compiled replay knows nothing of, and real sites do."""
    for axis in scenario.context:
        if axis.kind == "category":
            yield f"{axis.feature!r} is a category"
    if scenario.patience.build() != Patience():
        yield "labels are not awaited forever"
    elif items.unlabelled + scenario.label_delay > Patience().max_waiting:
        yield "more labels are missing than a site waits for"
    if scenario.strict_labels:
        yield "labels are strict"
    if scenario.watches and (arrivals[:1] == NOTHING).any():
        yield "nothing arrives at some sites, which would have features to look at"


def _check_policy(world: World) -> None:
    """Raise if the policy does not go with the number of axes or of items."""
    try:
        world.learners(world.way)
    except SettingError as error:
        raise ScenarioError(SOURCE, [f"policy: {error}"]) from error


def busiest(arrivals: Ints) -> int:
    """Return how many items arrive at the busiest site."""
    return max(1, int((arrivals != NOTHING).sum(axis=0).max()))


def arriving(scenario: Scenario, items: Table) -> Ints:
    """Return which item arrives at which site in every slot."""
    names = [site.name for site in scenario.sites]
    if items.sites is not None:
        own = [np.flatnonzero(items.sites == name) for name in names]
    elif scenario.stream is not None and scenario.stream.arrivals == "deal":
        own = [np.arange(n, len(items), len(names)) for n in range(len(names))]
    else:
        own = [np.arange(len(items))] * len(names)
    arrivals = np.full((max(len(each) for each in own), len(names)), NOTHING, np.int64)
    for site, each in enumerate(own):
        arrivals[: len(each), site] = each
    return arrivals


def placed(
    arrivals: Ints, rows: list[dict[str, Any]], labels: list[Any], axes: list[Axis], delay: int
) -> tuple[Ints, Floats]:
    """Return the context of every arrival, read by the axes of a real site, and where it stands."""
    places = np.where(arrivals == NOTHING, NOTHING, np.cumsum(arrivals.ravel() != NOTHING).reshape(arrivals.shape) - 1)
    contexts = np.zeros((int((arrivals != NOTHING).sum()), len(axes)))
    codes = {n: Codes() for n, axis in enumerate(axes) if axis.is_category}  # all sites share them here
    at_once = 1 if any(isinstance(axis, PreviousLabel) for axis in axes) else max(1, len(arrivals))
    for site in range(arrivals.shape[1]):
        past, own = Past(codes=codes), arrivals[arrivals[:, site] != NOTHING, site].tolist()
        for n in range(0, len(own), at_once):
            known = n - max(1, delay)  # the newest item whose label has come, which matters if they go one by one
            if known >= 0 and labels[own[known]] is not None:
                past.newest_labelled, past.newest_label = known + 1, labels[own[known]]
            together = own[n : n + at_once]
            columns = _read(axes, rows, together)
            contexts[places[n : n + len(together), site]] = place_columns(axes, columns, past, n)
    return places, contexts


def _read(axes: list[Axis], rows: list[dict[str, Any]], items: list[int]) -> list[Any]:
    """Return what axes read off items, or raise with the number of the first that cannot be read."""
    try:
        return read_columns(axes, [rows[item] for item in items])
    except ContextError as error:
        if len(items) > 1:
            for item in items:
                _read(axes, rows, [item])
        raise ContextError(f"item {items[0] + 1}, counted after the training rows: {error}") from error
