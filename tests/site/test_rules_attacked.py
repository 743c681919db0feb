"""Rules under attack: orders of transitions that no driver should produce, journals that fail, and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from cosend import Context, CoS, LabelledData, Network, Patience, Site, ZoomingKLUCB
from cosend.core.policy.parts import Policy
from cosend.errors import ContextError, CosendError, SettingError, SettledDecision, StateError, UnansweredDecision
from cosend.site.context import Axis
from cosend.site.events import Asked, Chosen, Event
from cosend.site.fold import fold, verify
from cosend.site.messages import Question
from cosend.site.rules import Rules
from tests.site.mishaps import restored, whole
from tests.site.test_site import TRAINING_FIRST, always, assert_nothing_open, high, items

UNIT = Context("x", range=(0, 1))


def new_rules(
    log: list[Event] | None = None, policy: Policy = TRAINING_FIRST, axis: Axis = UNIT, **options: Any
) -> Rules:
    journal = None if log is None else log.append
    rules = Rules("lab", local={"a": 0.0, "b": 0.1}, axes=[axis], policy=policy, journal=journal, **options)
    rules.add_peer("hq", 0.05)
    return rules


def question(request: int, *, training: bool = True, x: Any = 0.5) -> Question:
    return Question(request, None, (x,), training, training)


def point(x: float = 0.5) -> Any:
    return np.array([[x]])


def assert_unchanged(rules: Rules, log: list[Event], act: Callable[[], Any], error: type[CosendError]) -> None:
    before, written = whole(rules), len(log)
    with pytest.raises(error):
        act()
    assert whole(rules) == before
    assert len(log) == written
    assert whole(fold(log)) == before
    rules.set_cost("a", 0.0)  # it goes on


@pytest.mark.parametrize("others", [[], [question(2)]], ids=["alone", "among others"])
def test_a_request_that_is_asked_again_without_a_label_waits_no_longer_in_the_log_either(others: Any) -> None:
    log: list[Event] = []
    rules = new_rules(log)
    rules.serve("hq", [question(1)])
    rules.serve("hq", [question(1, training=False), *others])
    assert len(rules.open()) == len(others)
    assert whole(fold(log)) == whole(rules)
    assert verify(log) == []


def test_a_duplicate_call_takes_back_the_first_answer_whether_or_not_it_was_given() -> None:
    log: list[Event] = []
    rules = new_rules(log)
    (first,) = rules.serve("hq", [question(1)]).tickets
    (second,) = rules.serve("hq", [question(1)]).tickets
    rules.complete([first], [1])  # the first classifier comes back late
    assert list(rules.open()) == [second]
    assert not rules.open()[second].answered
    rules.complete([second], [0])
    rules.teach("hq", [1], [1], [0.0])
    assert rules.open() == {}
    assert whole(fold(log)) == whole(rules)


def test_a_label_for_what_is_still_being_answered_is_refused_and_changes_nothing() -> None:
    log: list[Event] = []
    rules = new_rules(log)
    rules.serve("hq", [question(1)])
    assert_unchanged(rules, log, lambda: rules.teach("hq", [1], [1], [1.0]), UnansweredDecision)


@pytest.mark.parametrize("requests", [[2], [2, 1], [1, 2], [1, 1]])
def test_labels_for_requests_that_are_not_awaited_are_refused_and_change_nothing(requests: list[int]) -> None:
    """Whoever drives the rules passes over those first; here a label could go to the wrong request."""
    log: list[Event] = []
    rules = new_rules(log)
    rules.complete(rules.serve("hq", [question(1)]).tickets, [1])
    assert_unchanged(rules, log, lambda: rules.teach("hq", requests, [1], [1.0]), CosendError)
    assert_unchanged(rules, log, lambda: rules.teach("hq", requests, [1] * len(requests), [1.0, 1.0]), CosendError)


def test_labels_of_another_number_than_decisions_are_refused_and_change_nothing() -> None:
    log: list[Event] = []
    rules = new_rules(log)
    ids = [rules.choose(point(), without=["hq"]).first for _ in range(2)]
    rules.complete(ids, [1, 1])
    assert_unchanged(rules, log, lambda: rules.settle(ids, [1], [1.0, 1.0]), SettingError)
    assert_unchanged(rules, log, lambda: rules.settle(ids, [1, 1], [1.0]), SettingError)
    assert_unchanged(rules, log, lambda: rules.settle([ids[0]] * 2, [1, 1], [1.0, 1.0]), SettledDecision)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("x", [1.5, -0.1, float("nan")])
def test_a_point_outside_its_axis_is_refused_and_changes_nothing(x: float, count: int) -> None:
    """An axis of the user may place an item anywhere."""
    log: list[Event] = []
    rules = new_rules(log)
    points = np.array([[0.5]] * (count - 1) + [[x]])
    assert_unchanged(rules, log, lambda: rules.choose(points, without=["hq"]), ContextError)


def test_a_category_that_equals_nothing_is_refused_and_changes_nothing() -> None:
    log: list[Event] = []
    rules = new_rules(log, axis=Context.category("kind"))
    nothing = float("nan")
    assert_unchanged(rules, log, lambda: rules.serve("hq", [question(1, x=nothing)]), ContextError)
    assert_unchanged(rules, log, lambda: rules.serve("hq", [question(1, training=False, x=nothing)]), ContextError)
    assert_unchanged(rules, log, lambda: rules.report((nothing,)), ContextError)


class Stops:
    """A journal that is interrupted before or after it has written an event."""

    def __init__(self, at: int, error: type[BaseException], *, written: bool) -> None:
        self.log: list[Event] = []
        self.at, self.error, self.written = at, error, written

    def __call__(self, event: Event) -> None:
        if len(self.log) != self.at:
            self.log.append(event)
            return
        self.log += [event] if self.written else []
        raise self.error("disk full")


def play(rules: Rules) -> None:
    """Go through every transition once."""
    rules.place([[0.2, 0.7]])
    rules.choose(np.array([[0.2], [0.7]]), without=["hq"])
    assert rules.choose(np.array([[0.2], [0.7]])).ask is not None
    step = rules.choose(np.array([[0.2], [0.7]]), told={"hq": LabelledData(0, 0)})
    assert step.arms == ["hq"]
    assert step.ask is not None  # two events of one transition
    rules.complete([1, 2], [1, 0])
    rules.fail([step.first], "hq", "broken")
    served = rules.serve("hq", [question(1), question(2)])
    rules.complete(served.tickets, [1, 1])
    rules.teach("hq", [1], [1], [1.0])
    rules.serve("hq", [question(2, training=False)])
    rules.settle([1], [1], [1.0])
    rules.withdraw([2])
    rules.add_local("c")
    rules.pause("a")
    rules.resume("a")
    rules.set_cost("a", 0.2)
    rules.remove("hq")


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_whenever_the_journal_stops_nothing_goes_on_but_what_is_folded_from_it(
    error: type[BaseException], written: bool
) -> None:
    kinds = set()
    complete: list[Event] = []
    play(new_rules(complete, axis=Context("x", window=4)))
    for at in range(2, len(complete)):
        journal = Stops(at, error, written=written)
        rules = Rules("lab", local={"a": 0.0, "b": 0.1}, axes=[Context("x", window=4)], policy=TRAINING_FIRST)
        rules.journal = journal
        journal(rules._started())
        rules.add_peer("hq", 0.05)
        with pytest.raises(error, match="disk full"):
            play(rules)
        kinds.add(type(complete[at]))
        goes_on = partial(rules.withdraw, [1]), partial(rules.set_cost, "a", 0.5), partial(rules.complete, [1], [1])
        for act in goes_on:
            with pytest.raises(StateError, match="recover from the journal"):
                act()
        assert journal.log == complete[: at + written]
        assert verify(journal.log) == []
        fold(journal.log, axes=rules.axes, journal=journal.log.append).set_cost("a", 0.5)
    assert {Chosen, Asked} <= kinds


def test_what_the_journal_does_not_know_is_not_saved() -> None:
    journal = Stops(3, OSError, written=False)
    rules = new_rules(None)
    rules.journal = journal
    for cost in (0.1, 0.2, 0.3):
        rules.set_cost("a", cost)
    assert whole(restored(rules)) == whole(rules)
    with pytest.raises(OSError, match="disk full"):
        rules.set_cost("a", 0.4)
    with pytest.raises(StateError, match="recover from the journal"):
        whole(rules)


def test_an_interrupt_in_the_journal_of_a_peer_is_no_failure_of_the_peer() -> None:
    """Ctrl-C stops the program, wherever it comes."""
    lab = Site("lab", classifiers={"one": always(1)}, context=UNIT, policy=TRAINING_FIRST)
    hq = Site("hq", classifiers={"high": high}, context=UNIT, journal=Stops(2, KeyboardInterrupt, written=False))
    Network([lab, hq])
    with pytest.raises(KeyboardInterrupt):
        lab.classify_many(items(20))
    assert lab.open == {}


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


class Astray:
    """An axis of the user that places an item outside [0, 1]."""

    description, is_category, ranked = "astray", False, 0

    def read(self, items: Any) -> list[float]:
        return [item["x"] for item in items]

    def place(self, column: Any, past: Any, arrivals: int) -> Any:
        return column

    def check_labels(self, labels: Any) -> None:
        """Accept any label."""


@pytest.mark.parametrize("count", [1, 3])
def test_an_axis_that_places_an_item_outside_is_an_error_of_the_item_and_nothing_is_decided(count: int) -> None:
    site = Site("lab", classifiers={"one": always(1)}, context=Astray())
    with pytest.raises(ContextError, match=r"axis 0 of a context of site 'lab' must be in \[0, 1\], got 2"):
        site.classify_many([{"x": 0.5}] * (count - 1) + [{"x": 2.0}])
    assert site.open == {}
    assert site.learner.arrivals == 0
    assert site.classify({"x": 0.5}).label == 1


def test_a_withdrawal_that_overtakes_its_call_leaves_an_answer_that_waits_until_patience_ends() -> None:
    """Whoever carries calls and posts must keep their order; else only patience ends this wait."""
    log: list[Event] = []
    rules = new_rules(log, patience=Patience(wait_limit=2))
    assert rules.served_tickets("hq", [1]) == []  # the withdrawal: there is nothing to take back yet
    rules.complete(rules.serve("hq", [question(1)]).tickets, [1])
    for _ in range(3):
        assert len(rules.open()) >= 1
        rules.withdraw([rules.choose(point(), without=["hq"]).first])
    assert rules.open() == {}
    assert whole(fold(log)) == whole(rules)


def test_a_peer_that_leaves_and_comes_back_gets_no_reply_from_its_former_life() -> None:
    log: list[Event] = []
    rules = new_rules(log, ZoomingKLUCB())
    first = rules.choose(np.full((8, 1), 0.5))
    lost = [first.first + place for place in first.uses()["hq"]]
    told = rules.remove("hq")
    assert [(each.request, each.withdrawn) for each in told] == [(ticket, True) for ticket in lost]
    rules.add_peer("hq", 0.05)
    before = whole(rules)
    rules.complete(lost, [1] * len(lost))
    assert rules.fail(lost, "hq", "too late") == ({}, [])
    assert rules.withdraw(lost) == []
    assert whole(rules) == before
    assert whole(fold(log)) == before


def test_answers_of_one_call_that_are_overdue_at_once_leave_only_the_last() -> None:
    log: list[Event] = []
    rules = new_rules(log, CoS(slices=1), patience=Patience(max_waiting=1))
    own = rules.choose(point(), without=["hq"]).first
    served = rules.serve("hq", [question(n) for n in range(1, 200)])
    assert list(rules.open()) == [served.tickets[-1]]
    assert rules.served.rows() == [[served.tickets[-1], "hq", 199]]
    rules.complete([own, *served.tickets], [1] * 200)
    assert list(rules.learner.registry.notes) == [served.tickets[-1]]
    assert whole(fold(log)) == whole(rules)
