"""The state of a site under attack: orders of transitions that no driver should produce, nonsense, and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from cosend import Network, Patience, Site
from cosend.algorithm import layout as col
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import LabelledData
from cosend.axes import Axis, Category, Feature
from cosend.engine.events import Asked, Chosen, Event
from cosend.engine.fold import fold, verify
from cosend.engine.site_state import Answering, Heard, SiteState
from cosend.errors import (
    ContextError,
    CosendError,
    StateError,
    UnansweredDecision,
)
from tests.engine.world import whole
from tests.site.test_site import TRAINING_FIRST, always, assert_nothing_open, high, items

UNIT = Feature("x", range=(0, 1))
Log = list[Event]


def new_state(
    log: Log | None = None, policy: Policy = TRAINING_FIRST, axis: Axis = UNIT, journal: Any = None, **options: Any
) -> SiteState:
    journal = journal if log is None else log.append
    state = SiteState("lab", local={"a": 0.0, "b": 0.1}, axes=[axis], policy=policy, journal=journal, **options)
    state.add_peer("hq", 0.05)
    return state


def serve(state: SiteState, *requests: int, training: bool = True, x: Any = 0.5) -> list[int]:
    """Answer requests of hq, and return the ids of the answers."""
    count = len(requests)
    return state.serve("hq", requests, [(x,)] * count, [(training, training)] * count)[1]


def point(x: float = 0.5) -> Any:
    return np.array([[x]])


def waiting(state: SiteState) -> int:
    """Return how many items cells believe to wait for."""
    return int(state.learner.ledger.counts[..., [col.PENDING, col.TRAINING_PENDING]].sum())


def assert_unchanged(state: SiteState, log: Log, act: Callable[[], Any], error: type[CosendError]) -> None:
    before, written = whole(state), len(log)
    with pytest.raises(error):
        act()
    assert whole(state) == before
    assert len(log) == written
    assert whole(fold(log)) == before
    state.set_cost("a", 0.0)  # it goes on


# Two items in flight, and one thing that happens to them


def two_in_flight(patience: Patience | None = None) -> tuple[SiteState, list[int], list[str]]:
    """Return a state that has chosen for two items, their ids and the arms that are to label them."""
    state = SiteState("lab", local={"a": 0.0, "b": 0.0}, axes=[UNIT], patience=patience)
    steps = [state.choose(point()) for _ in range(2)]
    return state, [step.first for step in steps], [step.arms[0] for step in steps]


def test_a_label_that_comes_before_the_answer_is_refused_and_may_come_again() -> None:
    state, ids, _ = two_in_flight()
    with pytest.raises(UnansweredDecision, match=f"decision {ids[0]} of site 'lab'"):
        state.settle([ids[0]], [1], [1.0])
    assert repr(state) == "<SiteState of 'lab': 2 items, 2 pending>"
    assert not any(entry.answered for entry in state.pending().values())
    state.complete(ids, [1, 1])
    state.settle(ids, [1, 1], [1.0, 1.0])
    assert (state.pending(), waiting(state)) == ({}, 0)


def test_a_late_opinion_is_entered_once_and_only_where_there_was_none() -> None:
    log: Log = []
    state = SiteState("lab", local={"a": 0.0, "b": 0.1}, axes=[UNIT], score_local="all", journal=log.append)
    step = state.choose(np.full((2, 1), 0.5), without=["b"], heard=Heard({"a": [1, 1], "b": [None, 0]}))
    ids = [step.first, step.first + 1]
    for _ in range(2):
        state.opine("b", ids, [5, 6])
    assert [state.learner.registry.notes[id_].said for id_ in ids] == [(1, 5), (1, 0)]
    assert whole(fold(log)) == whole(state)


def test_an_older_answer_to_a_request_that_was_answered_again_is_forgotten_alone() -> None:
    answering = Answering()
    for id_ in (5, 6):
        answering.add("hq", [1], [id_])
    answering.forget([5, 99])
    assert answering.of("hq") == {1: 6}


# Requests of peers


@pytest.mark.parametrize("requests", [[2], [2, 1], [1, 2], [1, 1]])
def test_labels_for_requests_that_are_not_pending_are_refused_and_change_nothing(requests: list[int]) -> None:
    """The engine passes over those first; here a label could go to the wrong request."""
    log: Log = []
    state = new_state(log)
    state.complete(serve(state, 1), [1])
    assert_unchanged(state, log, lambda: state.teach("hq", requests, [1], [1.0]), CosendError)
    assert_unchanged(state, log, lambda: state.teach("hq", requests, [1] * len(requests), [1.0, 1.0]), CosendError)


# Nonsense


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("x", [1.5, -0.1, float("nan")])
def test_a_point_outside_its_axis_is_refused_and_changes_nothing(x: float, count: int) -> None:
    """An axis of the user may place an item anywhere."""
    log: Log = []
    state = new_state(log)
    points = np.array([[0.5]] * (count - 1) + [[x]])
    assert_unchanged(state, log, lambda: state.choose(points, without=["hq"]), ContextError)


def test_a_category_that_equals_nothing_is_refused_and_changes_nothing() -> None:
    log: Log = []
    state = new_state(log, axis=Category("kind"))
    nothing = float("nan")
    assert_unchanged(state, log, lambda: serve(state, 1, x=nothing), ContextError)
    assert_unchanged(state, log, lambda: serve(state, 1, training=False, x=nothing), ContextError)
    assert_unchanged(state, log, lambda: state.report((nothing,)), ContextError)
    assert_unchanged(state, log, lambda: state.report(()), ContextError)


class Astray(Axis):
    """An axis of the user that places an item outside [0, 1]."""

    def read(self, items: Any) -> list[float]:
        return [item["x"] for item in items]


@pytest.mark.parametrize("count", [1, 3])
def test_an_axis_that_places_an_item_outside_is_an_error_of_the_item_and_nothing_is_decided(count: int) -> None:
    site = Site("lab", classifiers={"one": always(1)}, context=Astray())
    with pytest.raises(ContextError, match=r"axis 0 of a context of site 'lab' must be in \[0, 1\], got 2"):
        site.classify_many([{"x": 0.5}] * (count - 1) + [{"x": 2.0}])
    assert site.pending() == {}
    assert site.learner.arrivals == 0
    assert site.classify({"x": 0.5}).label == 1


# A journal that stops


class Stops:
    """A journal that is interrupted before or after it has written an event."""

    def __init__(self, at: int, error: type[BaseException], *, written: bool) -> None:
        self.log: Log = []
        self.at, self.error, self.written = at, error, written

    def __call__(self, event: Event) -> None:
        if len(self.log) != self.at:
            self.log.append(event)
            return
        self.log += [event] if self.written else []
        raise self.error("disk full")


def play(state: SiteState) -> None:
    """Go through every transition once."""
    state.encode([[0.2, 0.7]])
    state.choose(np.array([[0.2], [0.7]]), without=["hq"])
    assert state.choose(np.array([[0.2], [0.7]])).ask is not None
    step = state.choose(np.array([[0.2], [0.7]]), told={"hq": LabelledData(0, 0)})
    assert step.arms == ["hq"]
    assert step.ask is not None  # two events of one transition
    state.complete([1, 2], [1, 0])
    state.opine("b", [1, 2], [1, 0])
    state.fail([step.first], "hq", "broken")
    state.peer_told("hq", 1)
    state.complete(serve(state, 1, 2), [1, 1])
    state.teach("hq", [1], [1], [1.0])
    serve(state, 2, training=False)
    state.settle([1], [1], [1.0])
    state.withdraw([2])
    state.add_model("c")
    state.pause("a")
    state.resume("a")
    state.set_cost("a", 0.2)
    state.remove("hq")


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_whenever_the_journal_stops_only_what_is_folded_from_it_continues(
    error: type[BaseException], written: bool
) -> None:
    kinds = set()
    complete: Log = []
    ranked: Any = {"axis": Feature("x", window=4), "score_local": "all"}
    play(new_state(complete, **ranked))
    for at in range(2, len(complete)):
        journal = Stops(at, error, written=written)
        state = new_state(journal=journal, **ranked)
        with pytest.raises(error, match="disk full"):
            play(state)
        kinds.add(type(complete[at]))
        goes_on = partial(state.withdraw, [1]), partial(state.set_cost, "a", 0.5), partial(state.complete, [1], [1])
        for act in goes_on:
            with pytest.raises(StateError, match="recover from the journal"):
                act()
        assert journal.log == complete[: at + written]
        assert verify(journal.log) == []
        fold(journal.log, axes=state.encoder.axes, journal=journal.log.append).set_cost("a", 0.5)
    assert {Chosen, Asked} <= kinds


def test_an_interrupt_in_the_journal_of_a_peer_is_no_failure_of_the_peer() -> None:
    """Ctrl-C stops the program, wherever it comes."""
    lab = Site("lab", classifiers={"one": always(1)}, context=UNIT, policy=TRAINING_FIRST)
    hq = Site("hq", classifiers={"high": high}, context=UNIT, journal=Stops(2, KeyboardInterrupt, written=False))
    Network([lab, hq])
    with pytest.raises(KeyboardInterrupt):
        lab.classify_many(items(20))
    assert lab.pending() == {}


def test_an_interrupt_while_a_model_learns_loses_no_label_that_peers_wait_for() -> None:
    stops = [True]

    class Interrupted:
        def predict_one(self, item: Any) -> int:
            return 1

        def learn_one(self, item: Any, truth: Any) -> None:
            if stops[0]:
                raise KeyboardInterrupt

    lab = Site("lab", classifiers={"one": Interrupted()}, context=UNIT, policy=TRAINING_FIRST)
    hq = Site("hq", classifiers={"high": high}, context=UNIT)
    Network([lab, hq])
    made = lab.classify_many(items(20))
    assert {"one", "hq"} == {decision.arm for decision in made}
    with pytest.raises(KeyboardInterrupt):
        lab.learn_many(made, [1] * 20)
    stops[0] = False
    lab.learn(lab.classify({"x": 0.5}), 1)
    assert_nothing_open(lab, hq)
