"""From events to the state of a site: `fold` applies decisions, `verify` re-evaluates them.

Naming an arm and entering it are two functions of the algorithm. `fold` only enters, so an old log stays readable when
a rule changes. Expired labels, new cells and new partitions follow from what is entered, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import asdict

from cosend.algorithm.layout import Floats
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import policy_from
from cosend.algorithm.values import LabelledData
from cosend.axes import Axis, Column
from cosend.checks import check_kind
from cosend.engine import events
from cosend.engine.budget import Budget
from cosend.engine.encoding import Codes, FeatureAxis, NewAxes
from cosend.engine.learnt_arms import is_seen
from cosend.engine.site_state import Example, Heard, SiteState
from cosend.errors import CosendError, StateError

Examples = Callable[[Sequence[Example]], object]


class Difference(NamedTuple):
    """An event whose decision would be another one now."""

    number: int  # of the event, from 0
    event: events.Event
    recorded: tuple[Any, ...]
    now: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RecordedAxis(Axis):
    """An axis as a log knows it: it cannot read items, but takes the place of the axis."""

    description: str
    is_category: bool
    ranked: int
    watches: bool
    hears: str

    def read(self, items: Sequence[Any]) -> Column:
        """Refuse: a log does not know how to read an item."""
        raise StateError(f"the axis {self.description} is known from a log only: give the site its axes to continue")


def fold(
    log: Iterable[events.Event],
    *,
    axes: Sequence[Axis] | None = None,
    journal: events.Journal | None = None,
    onto: SiteState | None = None,
    first: int = 0,
    examples: Examples | None = None,
) -> SiteState:
    """Return the state of a site that the events of its log lead to.

    >>> from cosend import Site, axes
    >>> log = []
    >>> site = Site("s", classifiers={"one": lambda _: 1}, context=axes.Feature("x", range=(0, 1)), journal=log.append)
    >>> site.learn(site.classify({"x": 0.5}), 1)
    >>> [type(event).__name__ for event in log]
    ['Started', 'Chosen', 'Labelled']
    >>> fold(log).learner.arrivals
    1

    axes      to continue with; without them, no new item can be read
    journal   takes later events
    onto      the state before these events, instead of a log that begins with Started; it is changed and returned with
              its own axes, and of no use if this fails
    first     the number of the first event in the whole log
    examples  takes the examples of models that learn, in the order in which they were taught
    """
    check_kind("log", log, Iterable, "a list of events")
    state = onto
    if state is not None:
        state.journal = None  # these events are in the log already
    for number, event in enumerate(log, first):
        state, taught = _applied(state, event, number, axes)
        if taught and examples is not None:
            examples(taught)
    if state is None:
        raise StateError("the log is empty: its first event must be Started")
    state.journal = journal
    return state


def verify(
    log: Iterable[events.Event], *, most: int = 10, begin: Callable[[], SiteState] | None = None, first: int = 0
) -> list[Difference]:
    """Re-evaluate every decision of a log, and return where the rules would do something else now.

    >>> from cosend import Site, axes
    >>> log = []
    >>> site = Site("s", classifiers={"one": lambda _: 1}, context=axes.Feature("x", range=(0, 1)), journal=log.append)
    >>> decision = site.classify({"x": 0.5})
    >>> verify(log)
    []

    After a difference it continues from what was recorded, for which a log that can be read only once is kept.

    most   stop after this many differences
    begin  returns the state before these events, instead of a log that begins with Started
    first  the number of the first event in the whole log
    """
    check_kind("log", log, Iterable, "a list of events")
    kept: list[events.Event] | None = [] if iter(log) is log else None
    state, differences = None if begin is None else begin(), list[Difference]()
    for number, event in enumerate(log, first):
        if kept is not None:
            kept.append(event)
        if state is None or not isinstance(event, events.Chosen | events.Asked | events.Served):
            state, _ = _applied(state, event, number, None)
            continue
        recorded, now = _decided_again(state, event)
        if recorded != now:
            differences.append(Difference(number, event, recorded, now))
            if len(differences) == most:
                break
            past = islice(log if kept is None else kept, number + 1 - first)
            state = fold(past, onto=None if begin is None else begin(), first=first)
    return differences


def _applied(
    state: SiteState | None, event: events.Event, number: int, axes: Sequence[Axis] | None
) -> tuple[SiteState, Sequence[Example]]:
    try:
        if isinstance(event, events.Started):
            if state is not None:
                raise StateError("a log has one start")
            return _started(event, axes), ()
        if state is None:
            raise StateError("the first event must be Started")
        return state, apply(event, state)
    except (CosendError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StateError(f"event {number} of the log, {type(event).__name__}, cannot be applied: {error}") from error


def _started(event: events.Started, axes: Sequence[Axis] | None) -> SiteState:
    if event.version != events.VERSION:
        raise StateError(f"it has version {event.version!r} of the events; this cosend reads {events.VERSION}")
    score_local: Any = event.score_local  # checked where it is used
    features = len(event.axes) - 1 if event.features else -1
    recorded = [
        RecordedAxis(description, n in event.categories, event.ranked.get(n, 0), n == features, event.heard.get(n, ""))
        for n, description in enumerate(event.axes)
    ]
    if axes is not None and [axis.description for axis in axes] != list(event.axes):
        raise StateError(f"the log has the axes {list(event.axes)}, given are {[axis.description for axis in axes]}")
    return SiteState(
        event.site,
        local=event.local,
        learnt=event.learnt,
        fits_at_once=event.fits_at_once,
        axes=recorded if axes is None else axes,
        policy=policy_from(dict(event.policy)),
        patience=Patience(**event.patience),
        seed=event.seed,
        score_local=score_local,
    )


def apply(event: events.Event, state: SiteState) -> Sequence[Example]:  # noqa: C901 - one line for each event
    """Change the state as an event says, and return examples for models that learn."""
    match event:
        case events.Encoded():
            for axis, values in event.values.items():
                state.encoder.rank(axis, values)
            for axis, new in event.codes.items():
                for value in new:
                    state.encoder.codes[axis].code(value)
        case events.FeaturesSeen():
            state.encoder.feature_axes.remember(event.values, own=event.own)
        case events.AxesCreated():
            columns = event.names, event.edges, event.repeats, event.values, event.made_of, event.weighted
            created = [FeatureAxis(*each) for each in zip(*columns, strict=True)]
            state.create_axes(NewAxes(created, list(event.out), list(event.same)))
        case events.Chosen():
            _enter_choices(event, state)
        case events.Asked():
            (point,) = _points(state, [event.context])
            if event.told:
                state.learner.enter_told(point, _reports(event.told))
            state.learner.enter_question(point, event.again)
            state.drop_expired()
        case events.Answered():
            state.complete(event.ids, event.labels, event.paid)
        case events.Opined():
            state.opine(event.model, event.ids, event.labels)
        case events.Failed():
            state.fail(event.ids, event.arm, event.reason)
        case events.Served():
            _enter_answers(event, state)
        case events.Labelled():
            return state.settle(event.ids, event.truths, event.gains, event.costs or None, event.scores).examples
        case events.Taught():
            return state.teach(event.caller, event.requests, event.truths, event.gains, event.scores).examples
        case events.Fitted():
            state.fitted(None)
        case events.BudgetSet():
            given = asdict(event)
            state.set_budget(Budget(**given) if any(given.values()) else None)
        case events.Withdrawn():
            state.withdraw(event.ids)
        case events.PeerTold():
            state.peer_told(event.peer, event.count)
        case events.ArmAdded(functions=0):
            state.add_model(event.arm, event.cost, event.learnt)
        case events.ArmAdded():
            state.add_peer(event.arm, event.cost, event.functions)
        case events.ArmRemoved():
            state.remove(event.arm)
        case events.ArmPaused():
            state.pause(event.arm)
        case events.ArmResumed():
            state.resume(event.arm)
        case events.CostChanged():
            state.set_cost(event.arm, event.cost)
        case events.Named() | events.Shown() | events.ModeChanged():
            pass  # what a site shows to others is no part of what it knows
        case _:
            raise StateError(f"site {state.name!r} knows no event {type(event).__name__}")
    return ()


def _enter_choices(event: events.Chosen, state: SiteState) -> None:
    _check_next(state, event.first)
    points, learner = _points(state, event.contexts), state.learner
    again = event.again or (0,) * len(points)
    if event.told:
        learner.enter_told(points[0], _reports(event.told))
    arms = np.array([learner.arms.number(name) for name in event.arms], np.int64)
    learner.enter(points, arms, np.array(event.kinds, np.int64), np.array(again, np.int64), event.without)
    heard = _heard(event, event.seen)
    if heard:
        state.enter_heard(range(event.first, event.first + len(arms)), event.arms, heard)
    charges = state.charge(event.arms, again, event.clock) if event.factors else ()
    state.enter_costs(event.first, event.arms, event.costs, charges)
    state.drop_expired()


def _enter_answers(event: events.Served, state: SiteState) -> None:
    _check_next(state, event.first)
    state.strike_answers(event.caller, event.requests)
    points = _points(state, event.contexts, Codes.code)
    models = np.array([state.learner.arms.number(name) for name in event.models], np.int64)
    state.learner.enter_answers(points, models)
    ids = range(event.first, event.first + len(points))
    state.answering.add(event.caller, event.requests, ids)
    heard = _heard(event)
    if heard:
        state.enter_heard(ids, event.models, heard)
    state.drop_expired()


def _heard(event: events.Chosen | events.Served, seen: Sequence[bytes] = ()) -> Heard:
    """Return what an event says was known before the choice; compiled code does not look at its shape."""
    sure = {model: np.frombuffer(column, np.float32) for model, column in event.sure.items()}
    heard = Heard(event.opinions, sure, event.items, seen)
    columns = [*heard.opinions.values(), *sure.values(), *(column for column in (heard.items, seen) if column)]
    count = len(event.contexts)
    if any(len(column) != count for column in columns) or not sure.keys() <= heard.opinions.keys():
        raise StateError(f"what was heard before must be about its {count} items")
    if not all(map(is_seen, seen)):
        raise StateError("what learnt arms see of an item must be a value and a slice for each axis")
    return heard


def _check_next(state: SiteState, first: int) -> None:
    """Raise unless an event gives out the next id: else something is missing in the log."""
    if first != state.learner.last_id + 1:
        raise StateError(f"it begins with id {first}, the next one is {state.learner.last_id + 1}")


def _points(
    state: SiteState, contexts: Sequence[Sequence[Any]], code: Callable[[Codes, Any], float] = Codes.find
) -> Floats:
    """Return the contexts of an event as points; compiled code does not look at their shape."""
    points = np.array([state.point(context, code) for context in contexts], np.float64)
    if points.shape != (max(1, len(contexts)), state.learner.dimensions):
        raise StateError(f"its contexts must be at least one, of {state.learner.dimensions} numbers each")
    return points


def _reports(told: events.Told) -> dict[str, LabelledData]:
    return {peer: LabelledData(*data) for peer, data in told.items()}


def _decided_again(
    state: SiteState, event: events.Chosen | events.Asked | events.Served
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Decide what an event says was decided; returns what was decided then, and now."""
    if isinstance(event, events.Served):
        flags = [(training, True) for training in event.training]
        known: Any = {"without": event.without, "heard": _heard(event)}
        models, _ = state.serve(event.caller, event.requests, event.contexts, flags, **known)
        return event.models, tuple(models)
    if isinstance(event, events.Asked):
        again = [event.again] if event.again else []
        points = _points(state, [event.context])
        step = state.choose(points, told=_reports(event.told), without=event.without, again=again)
        return (event.peer,), (None if step.ask is None else step.ask.peer,)
    known = {"told": _reports(event.told), "without": event.without, "again": event.again}
    known |= {"at": event.clock, "pays": bool(event.factors)}
    step = state.choose(_points(state, event.contexts), **known, heard=_heard(event, event.seen))
    recorded = (event.arms, event.kinds, tuple(map(repr, event.propensities)))  # an unknown one equals nothing
    return recorded, (tuple(step.arms), tuple(step.kinds), tuple(map(repr, step.propensities)))
