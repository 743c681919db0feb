"""From events to the state of a site: `fold` applies what was decided, `verify` decides it again.

Naming an arm and entering it are two functions of the core. `fold` only enters, so an old log stays readable when a
rule changes. Overdue labels, new cells and new partitions follow from what is entered, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from cosend.core.checks import check_kind
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import LabelledData
from cosend.core.policy.policies import policy_from
from cosend.errors import CosendError, StateError
from cosend.site import events
from cosend.site.context import Axis, rank_all
from cosend.site.features import Feature, Findings
from cosend.site.messages import Lesson, Question
from cosend.site.past import Codes
from cosend.site.recorded import RecordedAxis
from cosend.site.rules import Rules


class Difference(NamedTuple):
    """An event whose decision would be another one now."""

    number: int  # of the event, from 0
    event: events.Event
    recorded: tuple[Any, ...]
    now: tuple[Any, ...]


def fold(
    log: Iterable[events.Event],
    *,
    axes: Sequence[Axis] | None = None,
    journal: events.Journal | None = None,
    onto: Rules | None = None,
    first: int = 0,
    lessons: Callable[[Sequence[Lesson]], object] | None = None,
) -> Rules:
    """Return the rules of a site in the state that the events of its log lead to.

    >>> from cosend import Context, Site
    >>> log = []
    >>> site = Site("s", classifiers={"one": lambda _: 1}, context=Context("x", range=(0, 1)), journal=log.append)
    >>> site.learn(site.classify({"x": 0.5}), 1)
    >>> [type(event).__name__ for event in log]
    ['Started', 'Chosen', 'Answered', 'Labelled']
    >>> fold(log).learner.arrivals
    1

    axes     to go on with; without them, no new item can be read
    journal  what later events are written to
    onto     the rules as they were before these events, in place of a log that begins with Started; they are changed
             and returned with their own axes, and of no use if this fails
    first    the number of the first event in the whole log
    lessons  what gets the lessons of classifiers that learn, in the order in which they were taught
    """
    check_kind("log", log, Iterable, "a list of events")
    rules = onto
    if rules is not None:
        rules.journal = None  # these events are in the log already
    for number, event in enumerate(log, first):
        rules, taught = _applied(rules, event, number, axes)
        if taught and lessons is not None:
            lessons(taught)
    if rules is None:
        raise StateError("the log is empty: its first event must be Started")
    rules.journal = journal
    return rules


def verify(
    log: Iterable[events.Event], *, most: int = 10, begin: Callable[[], Rules] | None = None, first: int = 0
) -> list[Difference]:
    """Decide everything again that a log says was decided, and return where the rules would do something else now.

    >>> from cosend import Context, Site
    >>> log = []
    >>> site = Site("s", classifiers={"one": lambda _: 1}, context=Context("x", range=(0, 1)), journal=log.append)
    >>> decision = site.classify({"x": 0.5})
    >>> verify(log)
    []

    After a difference it goes on from what was recorded, for which a log that can be read only once is kept; it ends
    when it has found so many.

    most   differences
    begin  returns the rules as they were before these events, in place of a log that begins with Started
    first  the number of the first event in the whole log
    """
    check_kind("log", log, Iterable, "a list of events")
    kept: list[events.Event] | None = [] if iter(log) is log else None
    rules, differences = None if begin is None else begin(), list[Difference]()
    for number, event in enumerate(log, first):
        if kept is not None:
            kept.append(event)
        if rules is None or not isinstance(event, events.Chosen | events.Asked | events.Served):
            rules, _ = _applied(rules, event, number, None)
            continue
        recorded, now = _decided_again(rules, event)
        if recorded != now:
            differences.append(Difference(number, event, recorded, now))
            if len(differences) == most:
                break
            past = islice(log if kept is None else kept, number + 1 - first)
            rules = fold(past, onto=None if begin is None else begin(), first=first)
    return differences


def _applied(
    rules: Rules | None, event: events.Event, number: int, axes: Sequence[Axis] | None
) -> tuple[Rules, Sequence[Lesson]]:
    try:
        if isinstance(event, events.Started):
            if rules is not None:
                raise StateError("a log has one start")
            return _started(event, axes), ()
        if rules is None:
            raise StateError("the first event must be Started")
        return rules, apply(event, rules) or ()
    except (CosendError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise StateError(f"event {number} of the log, {type(event).__name__}, cannot be applied: {error}") from error


def _started(event: events.Started, axes: Sequence[Axis] | None) -> Rules:
    if event.version != events.VERSION:
        raise StateError(f"it has version {event.version!r} of the events; this cosend reads {events.VERSION}")
    score_local: Any = event.score_local  # checked where it is used
    features = len(event.axes) - 1 if event.features else -1
    recorded = [
        RecordedAxis(description, n in event.categories, event.ranked.get(n, 0), watches=n == features)
        for n, description in enumerate(event.axes)
    ]
    if axes is not None and [axis.description for axis in axes] != list(event.axes):
        raise StateError(f"the log has the axes {list(event.axes)}, given are {[axis.description for axis in axes]}")
    return Rules(
        event.site,
        local=event.local,
        axes=recorded if axes is None else axes,
        policy=policy_from(dict(event.policy)),
        patience=Patience(**event.patience),
        seed=event.seed,
        score_local=score_local,
    )


@singledispatch
def apply(event: events.Event, rules: Rules) -> Sequence[Lesson] | None:
    """Change the state as an event says, and return what classifiers were taught."""
    raise StateError(f"site {rules.name!r} knows no event {type(event).__name__}")


@apply.register
def _(event: events.Placed, rules: Rules) -> None:
    for axis, values in event.values.items():
        rank_all(rules.past, axis, rules.axes[axis].ranked, values)
    for axis, new in event.codes.items():
        for value in new:
            rules.past.codes[axis].code(value)


@apply.register
def _(event: events.Watched, rules: Rules) -> None:
    rules.watched.remember(event.values, own=event.own)


@apply.register
def _(event: events.Laid, rules: Rules) -> None:
    columns = event.names, event.edges, event.repeats, event.values
    rules.lay(Findings([Feature(*each) for each in zip(*columns, strict=True)], list(event.out), list(event.same)))


@apply.register
def _(event: events.Chosen, rules: Rules) -> None:
    _check_next(rules, event.first)
    points, learner = _points(rules, event.contexts), rules.learner
    again = event.again or (0,) * len(points)
    if event.told:
        learner.enter_told(points[0], _heard(event.told), again[0])
    arms = np.array([learner.arms.number(name) for name in event.arms], np.int64)
    with learner.memory.left_out([learner.arms.number(name) for name in event.without]):
        learner.enter(points, arms, np.array(event.kinds, np.int64), np.array(again, np.int64))
    rules.forget_overdue()


@apply.register
def _(event: events.Asked, rules: Rules) -> None:
    (point,) = _points(rules, [event.context])
    if event.told:
        rules.learner.enter_told(point, _heard(event.told), event.again)
    rules.learner.enter_question(point, event.again)
    rules.forget_overdue()


@apply.register
def _(event: events.Answered, rules: Rules) -> None:
    rules.complete(event.ids, event.labels, event.items, event.others)


@apply.register
def _(event: events.Failed, rules: Rules) -> None:
    rules.fail(event.ids, event.arm, event.reason)


@apply.register
def _(event: events.Served, rules: Rules) -> None:
    _check_next(rules, event.first)
    rules.strike_served(event.caller, event.requests)
    points = _points(rules, event.contexts, Codes.code)
    functions = np.array([rules.learner.arms.number(name) for name in event.functions], np.int64)
    rules.learner.enter_answers(points, functions)
    tickets = range(event.first, event.first + len(points))
    rules.remember_served(event.caller, event.requests, tickets)
    rules.forget_overdue()


@apply.register
def _(event: events.Labelled, rules: Rules) -> Sequence[Lesson]:
    return rules.settle(event.ids, event.truths, event.gains, event.costs or None, event.others).lessons


@apply.register
def _(event: events.Taught, rules: Rules) -> Sequence[Lesson]:
    return rules.teach(event.caller, event.requests, event.truths, event.gains, event.others)


@apply.register
def _(event: events.Withdrawn, rules: Rules) -> None:
    rules.withdraw(event.ids)


@apply.register
def _(event: events.ArmAdded, rules: Rules) -> None:
    if event.functions:
        rules.add_peer(event.arm, event.cost, event.functions)
    else:
        rules.add_local(event.arm, event.cost)


@apply.register
def _(event: events.ArmRemoved, rules: Rules) -> None:
    rules.remove(event.arm)


@apply.register
def _(event: events.ArmPaused, rules: Rules) -> None:
    rules.pause(event.arm)


@apply.register
def _(event: events.ArmResumed, rules: Rules) -> None:
    rules.resume(event.arm)


@apply.register
def _(event: events.CostChanged, rules: Rules) -> None:
    rules.set_cost(event.arm, event.cost)


@apply.register(events.Named)
@apply.register(events.Shown)
@apply.register(events.ModeChanged)
def _(event: events.Event, rules: Rules) -> None:
    """Change nothing: what a site shows to others is none of its rules' business."""


def _check_next(rules: Rules, first: int) -> None:
    """Raise unless an event gives out the next id: else something is missing in the log."""
    if first != rules.learner.last_id + 1:
        raise StateError(f"it begins with id {first}, the next one is {rules.learner.last_id + 1}")


def _points(rules: Rules, contexts: Sequence[Sequence[Any]], code: Callable[[Codes, Any], int] = Codes.find) -> Floats:
    """Return the contexts of an event as points; compiled code does not look at their shape."""
    points = np.array([rules.understand(context, code) for context in contexts], np.float64)
    if points.shape != (max(1, len(contexts)), rules.learner.dimensions):
        raise StateError(f"its contexts must be at least one, of {rules.learner.dimensions} numbers each")
    return points


def _heard(told: events.Told) -> dict[str, LabelledData]:
    return {peer: LabelledData(*data) for peer, data in told.items()}


def _decided_again(
    rules: Rules, event: events.Chosen | events.Asked | events.Served
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Decide what an event says was decided; returns what was decided then, and now."""
    if isinstance(event, events.Served):
        both = zip(event.requests, event.contexts, event.training, strict=True)
        questions = [Question(request, None, context, training, True) for request, context, training in both]
        return event.functions, tuple(rules.serve(event.caller, questions, event.without).functions)
    if isinstance(event, events.Asked):
        again = [event.again] if event.again else []
        points = _points(rules, [event.context])
        step = rules.choose(points, told=_heard(event.told), without=event.without, again=again)
        return (event.peer,), (None if step.ask is None else step.ask.peer,)
    points = _points(rules, event.contexts)
    step = rules.choose(points, told=_heard(event.told), without=event.without, again=event.again)
    recorded = (event.arms, event.kinds, tuple(map(repr, event.propensities)))  # one that is not known equals nothing
    return recorded, (tuple(step.arms), tuple(step.kinds), tuple(map(repr, step.propensities)))
