"""What only the engine shows: in which order things happen to items, and what is needed next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cosend import CoS, MixedViews, ZoomingKLUCB, fold, verify
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import LabelledData
from cosend.axes import Axis, Confidence, Feature, Says, read_columns
from cosend.engine import engine as rules
from cosend.engine import learnt_arms
from cosend.engine.arm_health import IN_SECONDS
from cosend.engine.engine import LATE, NO_TIME, Batch, Engine
from cosend.engine.events import Answered, Chosen, Encoded, Event, Fitted, Opined, PeerTold, Shown
from cosend.engine.learnt_arms import Seen
from cosend.engine.needs import (
    SILENT,
    AskPeer,
    Call,
    CallPeer,
    Done,
    Failure,
    FitTrees,
    Forward,
    Question,
    RunModel,
    TellPeer,
    TrainModel,
)
from cosend.engine.site_state import SiteState
from cosend.errors import ContextError, RewardError
from tests.engine.world import spent_by, whole
from tests.oracle import spent_twin

UNIT = Feature("x", range=(0, 1))
ITEM = {"x": 0.5}
FREE = {"fast": 0.0, "slow": 0.0}


class Driven:
    """An engine whose needs are executed by hand."""

    def __init__(
        self,
        local: dict[str, float] = FREE,
        *,
        policy: Policy | None = None,
        peers: Sequence[str] = (),
        learnt: dict[str, str] | None = None,
        score_local: Any = "all",
        context: Any = UNIT,
        more: Sequence[Axis] = (),
        fits_at_once: bool = True,
        **options: Any,
    ) -> None:
        self.log: list[Event] = []
        policy = MixedViews() if policy is None else policy
        settings: Any = {"policy": policy, "score_local": score_local, "journal": self.log.append, "learnt": learnt}
        self.state = SiteState("here", local=local, axes=[context, *more], fits_at_once=fits_at_once, **settings)
        for peer in peers:
            self.state.add_peer(peer, 0.05)
        self.engine = Engine(self.state, back_off=IN_SECONDS, **options)
        self.needs: list[Any] = []

    def submit(self, *items: Any) -> Batch:
        batch = self.engine.submit(items or [ITEM], read_columns(self.state.encoder.axes, items or [ITEM]))
        self.take()
        return batch

    def take(self) -> None:
        self.needs += self.engine.take()

    def next(self, kind: type, arm: str = "") -> Any:
        """Return the first need of a kind, of an arm if given, which is then done."""
        for need in self.needs:
            if isinstance(need, kind) and arm in ("", getattr(need, "model", None) or getattr(need, "peer", None)):
                self.needs.remove(need)
                return need
        raise AssertionError((kind, arm, self.needs))

    def hear(self, model: str, *answers: Any, start: int = 0, need: Any = None) -> Any:
        need = need or self.next(RunModel, model)
        (self.engine.heard if need.is_opinion else self.engine.answered)(need, start, answers)
        self.take()
        return need

    def at(self, now: float) -> None:
        self.engine.now = now
        self.engine.tick()
        self.take()

    def is_done(self, batch: Batch) -> bool:
        return any(isinstance(need, Done) and need.batch is batch for need in self.needs)

    def check(self) -> None:
        """Fold the log to the live state, and decide everything again."""
        assert whole(fold(self.log)) == whole(self.state)
        assert spent_by(self.state) == spent_twin.spent(self.log)
        assert verify(self.log) == []

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.log]


def known_times(**options: Any) -> Driven:
    """Return a site that knows how long its models take: a second."""
    driven = Driven(**options)
    driven.submit()
    driven.engine.now = 1.0
    for model in ("fast", "slow"):
        driven.hear(model, "a")
    driven.needs.clear()
    return driven


# Opinions


def test_a_choice_waits_for_opinions_and_one_that_is_there_is_the_answer() -> None:
    driven = Driven()
    batch = driven.submit(ITEM, ITEM)
    slow = driven.hear("slow", "b")  # on the first item only
    assert driven.kinds() == ["Started"]
    driven.hear("fast", "a", Failure("odd"))
    assert (batch.released, driven.kinds()) == (1, ["Started", "Chosen"])
    driven.hear("slow", "c", start=1, need=slow)
    first, second = (batch.decision(row) for row in (0, 1))
    assert first.label == {"fast": "a", "slow": "b"}[first.arm]
    assert (second.arm, second.label) == ("slow", "c")  # the other one has failed
    assert driven.engine.counts.failures == {("fast", "error"): 1}
    assert Answered not in map(type, driven.log)
    assert not any(isinstance(need, RunModel) for need in driven.needs)
    driven.check()


def test_an_opinion_that_is_late_is_not_waited_for_and_is_scored_if_it_comes_before_the_label() -> None:
    driven = known_times()
    batch = driven.submit(ITEM, ITEM, ITEM)
    driven.hear("fast", "a", "a", "a")
    driven.at(4.9)
    assert not driven.is_done(batch)
    driven.at(5.1)
    assert driven.is_done(batch)
    assert [batch.decision(row).arm for row in range(3)] == ["fast"] * 3
    assert batch.silent == {row: {"slow": LATE} for row in range(3)}
    driven.hear("slow", "b", None, "b")
    late = driven.log[-1]
    assert late == Opined("slow", (batch.ids[0], batch.ids[2]), ("b", "b"))
    learnt = driven.engine.learn(batch.ids, ["b"] * 3)
    assert learnt.scores["slow"][::2] == [1.0, 1.0]
    assert learnt.scores["slow"][1] != learnt.scores["slow"][1]
    driven.check()


def test_an_opinion_that_came_after_the_choice_is_missing_in_the_context() -> None:
    driven = known_times(more=[Says("slow"), Says("fast"), Confidence("fast")])
    batch = driven.submit(ITEM, ITEM)
    driven.engine.heard(driven.next(RunModel, "fast"), 0, ["a", "b"], [0.75, math.nan])
    driven.at(5.1)
    assert batch.contexts == [(0.5, None, "a", 0.75), (0.5, None, "b", None)]
    driven.hear("slow", "b", "b")
    assert isinstance(driven.log[-1], Opined)
    driven.engine.learn(batch.ids, ["b", "b"])
    assert batch.decision(0).context == (0.5, None, "a", 0.75)
    assert [event.codes for event in driven.log if isinstance(event, Encoded)] == [
        {1: ("a",), 2: ("a",)},
        {1: (), 2: ("b",)},
    ]
    driven.check()


def test_an_observer_is_heard_before_the_choice_even_if_it_costs_something_by_now() -> None:
    driven = Driven(more=[Says("slow")])
    driven.state.set_cost("slow", 0.5)
    driven.engine.observer = "slow"
    batch = driven.submit()
    driven.hear("fast", "a")
    driven.hear("slow", "b")
    assert (batch.labels, batch.contexts) == (["b"], [(0.5, "b")])
    driven.engine.learn(batch.ids, ["a"])
    driven.check()


def test_an_opinion_that_is_late_is_passed_over_where_it_is_none_or_nobody_scores_it() -> None:
    for driven, said in ((known_times(), None), (with_a_stack(score_local="used"), "b")):
        driven.engine._usual = dict.fromkeys(FREE, 1.0)
        driven.engine.now = 1.0
        batch = driven.submit()
        driven.hear("fast", "a")
        driven.at(5.1)
        assert driven.is_done(batch)
        before = len(driven.log)
        driven.hear("slow", said)
        assert len(driven.log) == before
        driven.check()


def test_what_was_given_up_may_still_come_in_time_while_another_model_is_waited_for() -> None:
    """One that is late is not counted twice: the third model must still be heard."""
    driven = Driven({"fast": 0.0, "slow": 0.0, "new": 0.0})
    driven.submit()
    driven.engine.now = 1.0
    for model in ("fast", "slow", "new"):
        driven.hear(model, "a")
    driven.state.remove("new")
    driven.state.add_model("third")  # nobody knows how long it takes
    batch = driven.submit(ITEM, ITEM)
    driven.hear("fast", "a", "a")
    third = driven.hear("third", "a")
    driven.at(9.0)
    assert (batch.given_up, batch.released) == ({"slow"}, 1)
    driven.hear("slow", "late", "in time")
    assert (batch.released, batch.silent[1], batch.opinions["slow"]) == (1, {}, [None, "in time"])
    driven.hear("third", "a", start=1, need=third)
    assert batch.released == 2
    opinions = [event.opinions.get("slow") for event in driven.log if isinstance(event, Chosen)]
    assert opinions == [("a",), None, ("in time",)]
    driven.check()


def test_a_model_that_backs_off_is_not_asked_for_opinions_until_it_is_probed() -> None:
    driven = Driven()
    for _ in range(3):
        driven.submit()
        driven.hear("fast", Failure("broken"))
        driven.hear("slow", "b")
    assert driven.engine.counts.openings == {"fast": 1}
    driven.needs.clear()
    driven.submit()
    assert [need.model for need in driven.needs] == ["slow"]
    driven.engine.now = 1.5
    driven.submit()
    driven.submit()  # while it is being probed, no second item goes to it
    assert [need.model for need in driven.needs] == ["slow", "fast", "slow", "slow"]
    driven.hear("fast", Failure("too large", "item"))  # which says nothing about the model
    assert driven.engine.breakers.position("fast", 1.5) == "half open"
    assert driven.engine.breakers.position("slow", 1.5) == "closed"
    assert driven.engine.counts.failures_of("fast") == 4
    driven.engine.breakers.forget_probes()
    driven.engine.breakers.forget_probe("slow")
    assert [arm for arm, *_ in driven.engine.breakers.rows()] == ["fast"]


# Peers that must report first

TRAINS = CoS(slices=1, exploration_exponent=0.9, order="train_first")
ASKS = CoS(slices=1, exploration_exponent=0.05, order="train_first")


def asking(**options: Any) -> Driven:
    return Driven({"home": 0.1}, policy=ASKS, peers=["near", "far"], score_local="used", **options)


def test_a_batch_waits_in_order_while_a_peer_is_asked() -> None:
    driven = asking()
    batch = driven.submit(ITEM, ITEM)
    ask = driven.next(AskPeer)
    assert (batch.blocked, batch.chosen, driven.needs) == (True, 1, [])
    driven.engine.reported(ask, [LabelledData(1000, 1000)])
    driven.take()
    second = driven.next(AskPeer)
    assert [row for _, row in second.waiting] == [0]  # the same item needs the other peer
    driven.engine.reported(second, [LabelledData(1000, 1000)])
    driven.take()
    assert batch.ids == [1, 2]  # and what was reported is enough for the next one
    driven.check()


def test_items_whose_arm_has_failed_wait_for_the_report_of_a_peer_each() -> None:
    driven = asking()
    for peer in ("near", "far"):
        driven.state.pause(peer)
    batch = driven.submit(ITEM, ITEM)
    driven.state.resume("near")
    driven.hear("home", Failure("broken"), Failure("broken"))
    ask = driven.next(AskPeer)
    assert [row for _, row in ask.waiting] == [0, 1]
    driven.engine.reported(ask, [LabelledData(1000, 1000)] * 2)
    driven.take()
    assert batch.arms == ["near", "near"]
    driven.check()


def test_a_report_that_rides_along_with_a_reply_is_used_for_a_second() -> None:
    driven = Driven({"home": 0.1}, policy=TRAINS, peers=["near", "far"], score_local="used", in_order=False)
    times = []
    for now in (0.0, 0.1, 0.2, 0.3, 0.4, 2.0):
        driven.engine.now = now
        driven.submit(ITEM, ITEM)
        times.append(asked_for_reports(driven))
    assert times == [1, 1, 0, 0, 0, 1]  # each peer once, and again when that is too long ago
    driven.engine.forget_peer("near")
    assert {peer for peer, _ in driven.engine._reports} == {"far"}
    driven.check()


def asked_for_reports(driven: Driven) -> int:
    """Let peers train until nothing is left to do; returns how often one was asked for a report."""
    asked, nothing = 0, LabelledData(0, 0)
    while driven.needs:
        need = driven.needs.pop(0)
        if isinstance(need, AskPeer):
            asked += 1
            driven.engine.reported(need, [nothing] * len(need.waiting))
        elif isinstance(need, CallPeer):
            assert need.promised
            driven.engine.answered(need, 0, ["a"] * len(need.rows), [nothing] * len(need.rows))
        driven.take()
    return asked


def test_reports_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_REPORTS", 0)
    driven = asking(in_order=False)
    for _ in range(2):
        driven.submit()
        driven.engine.reported(driven.next(AskPeer), [LabelledData(0, 0)])
        driven.take()
        driven.engine.answered(driven.next(CallPeer), 0, ["a"], [LabelledData(1, 0)])
        driven.take()
    assert len(driven.engine._reports) == 1


def test_when_reports_take_too_long_the_other_peers_are_left_out() -> None:
    driven = asking(report_limit=1.0)
    batch = driven.submit()
    driven.engine.now = 1.0
    driven.engine.reported(driven.next(AskPeer), [LabelledData(1000, 1000)])
    driven.take()
    driven.engine.now = 2.5
    driven.engine.reported(driven.next(AskPeer), [LabelledData(1000, 1000)])
    assert NO_TIME not in batch.reasons[0].values()  # both have reported
    late = asking()
    batch = late.submit()
    late.engine.reported(late.next(AskPeer), Failure("too late", "time"))
    late.take()
    assert batch.reasons[0] == {"near": "too late", "far": NO_TIME}
    late.hear("home", "a")
    assert late.is_done(batch)
    limited = asking(report_limit=0.0)
    batch = limited.submit()
    limited.engine.now = 1.0
    limited.engine.reported(limited.next(AskPeer), [LabelledData(1000, 1000)])
    limited.take()
    limited.engine.now = 2.0
    batch.told_since = 1.0
    limited.engine.reported(limited.next(AskPeer), [LabelledData(1000, 1000)])
    limited.take()
    limited.check()


def test_what_a_peer_reported_that_has_left_since_is_forgotten() -> None:
    driven = asking()
    batch = driven.submit()
    first = driven.next(AskPeer)
    driven.engine.reported(first, [LabelledData(1000, 1000)])
    driven.take()
    second = driven.next(AskPeer)
    assert second.peer != first.peer
    driven.engine.remove(first.peer)
    driven.engine.reported(second, [LabelledData(1000, 1000)])
    driven.take()
    driven.hear("home", "a")
    assert driven.is_done(batch)


def test_an_observer_that_has_left_answers_nothing_more() -> None:
    driven = Driven()
    driven.engine.observer = "fast"
    batch = driven.submit()
    driven.hear("fast", "a")
    driven.engine.remove("fast")
    driven.hear("slow", Failure("broken"))
    assert driven.is_done(batch)
    assert "broken" in str(batch.errors[0])


# Questions of peers


def asked(driven: Driven, *requests: int, labelled: bool = True, context: Any = (0.5,), axes: Any = None) -> Batch:
    questions = [Question(request, ITEM, context, False, labelled) for request in requests]
    batch = driven.engine.asked(Call("here", "there", questions, axes))
    driven.take()
    return batch


def tell(driven: Driven, *forwards: tuple[int, Any, bool]) -> list[Any]:
    errors = driven.engine.taught("there", [Forward("here", "there", *each) for each in forwards])
    driven.take()
    return errors


@pytest.mark.parametrize("when", ["before it came", "while it waits for opinions", "with a truth"])
def test_a_question_that_has_ended_is_not_answered_and_leaves_nothing(when: str) -> None:
    driven = Driven()
    if when == "before it came":
        tell(driven, (1, None, True))
    batch = asked(driven, 1, 2)
    if when != "before it came":
        tell(driven, (1, "a", False) if when == "with a truth" else (1, None, True))
    driven.hear("fast", "a", "a")
    driven.hear("slow", "a", "a")
    assert [reply.failed is None for reply in batch.replies()] == [False, True]
    assert "'there' wants no answer any more" in (batch.replies()[0].failed or "")
    assert [entry.caller for entry in driven.state.pending().values()] == ["there"]
    tell(driven, (2, "a", False))
    assert driven.state.pending() == {}
    driven.check()


def test_questions_that_cannot_be_understood_are_refused_and_the_others_answered() -> None:
    other = Feature("y", range=(0, 1))
    driven = Driven({"only": 0.1}, policy=ZoomingKLUCB(), score_local="used", context=other)
    items = [{"y": 0.1}, {"x": 1}, {"y": 0.9}, {"y": 7}]
    questions = [Question(n, item, (0.5,), False, True) for n, item in enumerate(items, 1)]
    batch = driven.engine.asked(Call("here", "there", questions, ("x",)))
    driven.take()
    while batch.left:
        need = driven.next(RunModel)
        driven.engine.answered(need, 0, ["a"] * len(need.rows))
        driven.take()
    assert [reply.label for reply in batch.replies()] == ["a", None, "a", None]
    assert "no feature 'y'" in (batch.replies()[1].failed or "")
    with pytest.raises(ContextError, match="no feature 'y'"):
        driven.engine.asked(Call("here", "there", questions[1:2], ("x",)))
    assert [row[2] for row in driven.state.answering.rows()] == [1, 3]
    driven.check()
    lenient = Driven({"only": 0.1}, score_local="used", context=other)  # which can do without an axis
    batch = lenient.engine.asked(Call("here", "there", questions, ("x",)))
    lenient.take()
    lenient.hear("only", *["a"] * 4)
    assert [reply.label for reply in batch.replies()] == ["a"] * 4


def test_a_label_that_cannot_be_scored_ends_its_wait_and_the_others_are_learnt() -> None:
    def picky(label: Any, truth: Any) -> float:
        if truth == "bad":
            raise ValueError("bad")
        return float(label == truth)

    driven = Driven({"only": 0.1}, score_local="used", reward=picky, learning={"only"})
    asked(driven, 1, 2, 3)
    driven.hear("only", "a", "a", "a")
    errors = tell(driven, (1, "a", False), (2, "bad", False), (3, None, False), (9, "a", False))
    assert [type(error) for error in errors] == [RewardError]
    assert driven.state.pending() == {}
    assert driven.engine.counts.taught == {"there": 1}
    assert driven.next(TrainModel).examples == [(ITEM, "a")]
    asked(driven, 4)
    driven.hear("only", "a")
    assert len(tell(driven, (4, "bad", False))) == 1
    assert driven.state.pending() == {}
    driven.check()


# Arms that answer, fail, or are never heard


def test_an_answer_that_has_expired_is_shown_to_the_client_all_the_same() -> None:
    driven = Driven({"a": 0.1}, score_local="used")
    batch = driven.submit()
    driven.state.withdraw(batch.ids)
    driven.hear("a", "x")
    assert driven.is_done(batch)
    assert driven.log[-1] == Shown((1,), ("x",))
    driven.check()


def test_a_peer_that_takes_nothing_is_asked_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_OWED", 2)
    driven = Driven({"home": 0.9}, policy=ZoomingKLUCB(share_labels="always"), peers=["far"], score_local="used")
    driven.state.pause("home")
    for _ in range(2):
        batch = driven.submit()
        driven.engine.answered(driven.next(CallPeer), 0, ["a"])
        driven.engine.learn(batch.ids, ["a"])
    driven.take()
    driven.state.resume("home")
    assert {need.peer for need in driven.needs if isinstance(need, TellPeer)} == {"far"}
    assert len(driven.state.forwards("far")) == 2
    driven.submit()
    assert driven.next(RunModel).model == "home"
    driven.state.peer_told("far", 5)  # more than there is
    assert (driven.log[-1], driven.state.outbox) == (PeerTold("far", 2), {})
    driven.state.peer_told("far", 1)
    driven.state.pause("home")
    driven.submit()
    driven.next(CallPeer, "far")
    driven.check()


# Shadow mode


def test_an_observer_answers_and_the_arm_learns() -> None:
    driven = Driven({"shown": 0.3, "a": 0.1}, score_local="used", policy=ZoomingKLUCB())
    driven.engine.observer = "shown"
    batch = driven.submit(ITEM, ITEM)
    driven.hear("shown", "s", None)
    assert (batch.labels[0], batch.answered_by, [*batch.done]) == ("s", {0: "shown"}, [1, 0])
    assert driven.engine.in_flight == 1
    assert Shown((batch.ids[0],), ("s",), "shown") in driven.log
    assert {entry.answered for entry in driven.state.pending().values()} <= {True, False}
    while any(isinstance(need, RunModel) for need in driven.needs):
        need = driven.next(RunModel)
        driven.engine.answered(need, 0, ["x"] * len(need.rows))
        driven.take()
    assert (batch.labels, driven.engine.in_flight, driven.engine.shown_early) == (["s", "x"], 0, set())
    driven.check()


def test_where_no_arm_is_left_the_observer_is_the_arm_even_if_it_is_paused() -> None:
    driven = Driven({"shown": 0.3, "a": 0.1}, score_local="used", policy=ZoomingKLUCB())
    driven.engine.observer = "shown"
    for name in ("shown", "a"):
        driven.state.pause(name)
    batch = driven.submit()
    driven.hear("shown", "s")
    assert (batch.arms, batch.labels, driven.is_done(batch)) == (["shown"], ["s"], True)
    assert driven.state.learner.arms.paused == {"shown", "a"}
    driven.check()


def test_the_observer_is_shown_where_only_an_arm_that_has_learnt_nothing_is_left() -> None:
    driven = Driven({"shown": 0.0, "trees": 0.0}, learnt={"trees": "grown"})
    driven.engine.observer = "shown"
    driven.state.pause("shown")
    batch = driven.submit()
    driven.hear("shown", "s")
    assert (batch.arms, batch.labels, batch.answered_by) == (["trees"], ["s"], {0: "shown"})
    assert driven.is_done(batch)
    driven.check()


def test_where_no_try_is_left_the_observer_is_the_arm_and_without_one_the_item_is_given_up() -> None:
    for observer, labels in (("home", ["s"]), (None, [None])):
        driven = asking(retries=0)
        driven.engine.observer = observer
        batch = driven.submit()
        if observer is not None:
            driven.hear("home", "s")
        driven.engine.reported(driven.next(AskPeer), Failure("gone", "network"))
        driven.take()
        assert driven.is_done(batch)
        assert (batch.labels, driven.engine.counts.unanswered) == (labels, int(observer is None))
        driven.check()


def test_nobody_waits_for_a_slow_model_while_an_observer_answers() -> None:
    driven = with_a_stack()
    driven.engine.observer = "fast"
    batch = driven.submit(ITEM, ITEM)
    driven.hear("fast", "a", "a")
    slow = driven.hear("slow", "b")  # the first item is released, and the stack has spoken
    driven.at(0.1)
    assert batch.given_up == {"slow"}
    assert driven.is_done(batch)
    driven.hear("slow", "b", start=1, need=slow)
    assert batch.labels == ["a", "a"]
    driven.check()


# True labels


def test_labels_that_cannot_be_compared_count_as_wrong_where_a_reward_of_the_user_scores_them() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError("no")

        def __hash__(self) -> int:
            return 1

    driven = Driven({"a": 0.1}, score_local="used", reward=lambda label, truth: 0.25)
    driven.state.journal = None
    batch = driven.submit(ITEM, ITEM)
    driven.hear("a", Odd(), "x")
    assert driven.engine.learn(batch.ids[:1], ["x"]).gains == [0.25]
    driven.engine.learn(batch.ids[1:], ["x"])
    scores = driven.engine.counts.scores["a"]
    assert (scores.labels, scores.right) == (2, 1)


# Arms that the site learns itself


def with_a_stack(**options: Any) -> Driven:
    """Return a site that has learnt a label, and has an arm that combines what its models say."""
    driven = Driven({**FREE, "stack": 0.0}, learnt={"stack": "stack"}, **options)
    batch = driven.submit()
    for model in FREE:
        driven.hear(model, "a")
    driven.engine.learn(batch.ids, ["a"])
    driven.needs.clear()
    return driven


def test_the_stack_hears_what_was_said_before_the_choice() -> None:
    driven = with_a_stack()
    batch = driven.submit(ITEM, ITEM)
    assert not any(isinstance(need, RunModel) and need.model == "stack" for need in driven.needs)
    driven.hear("fast", "a", None)
    driven.hear("slow", None, None)
    assert batch.opinions["stack"] == ["a", "a"]
    assert batch.silent[1] == dict.fromkeys(FREE, SILENT)
    assert batch.arms[1] == "stack"  # the others have said nothing
    driven.state.pause("stack")
    batch = driven.submit()
    driven.hear("fast", "a")
    driven.hear("slow", "b")
    assert "stack" not in batch.opinions
    driven.check()


def test_how_sure_models_are_is_kept_with_what_they_said() -> None:
    driven = with_a_stack()
    driven.submit(ITEM, ITEM)
    slow = driven.next(RunModel, "slow")
    driven.engine.heard(slow, 0, ["b"], [0.25])
    driven.engine.heard(slow, 1, ["b"])
    driven.hear("fast", "a", "a")
    chosen = driven.log[-1]
    assert isinstance(chosen, Chosen)
    known = {model: np.frombuffer(column, np.float32).tolist() for model, column in chosen.sure.items()}
    assert known.keys() == {"slow", "stack"}
    assert known["slow"][0] == 0.25
    assert math.isnan(known["slow"][1])
    assert known["stack"] == [1.0, 1.0]  # it knows one label
    driven.check()


def test_what_learnt_arms_see_belongs_to_its_item_though_the_first_of_them_comes_later() -> None:
    driven = Driven()
    batch = driven.submit(*({"x": n / 4} for n in range(4)))
    slow = driven.hear("slow", "a", "a")
    driven.hear("fast", "a", "a", "a", "a")
    assert batch.chosen == 2
    driven.state.add_model("stack", 0.0, "stack")
    driven.hear("slow", "a", "a", start=2, need=slow)
    assert batch.chosen == 4
    notes = [driven.state.learner.registry.notes[id_] for id_ in batch.ids]
    assert [note.seen for note in notes[:2]] == [b"", b""]
    assert Seen.unpacked([note.seen for note in notes[2:]]).values.tolist() == [[0.5], [0.75]]
    driven.engine.learn(batch.ids, ["a"] * 4)
    driven.check()


def test_what_has_failed_is_not_hidden_by_arms_that_have_learnt_nothing() -> None:
    driven = Driven({"fast": 0.0, "stack": 0.0, "grown": 0.0}, learnt={"stack": "stack", "grown": "grown"})
    batch = driven.submit(ITEM, ITEM)
    driven.hear("fast", Failure("broken"), None)
    assert "broken" in str(batch.errors[0])
    assert (batch.labels[1], batch.arms[1] in ("fast", "stack", "grown")) == (None, True)
    driven.engine.learn(batch.ids[1:], ["a"])  # one that just had no answer waits for its label
    batch = driven.submit()
    driven.hear("fast", Failure("broken"))
    assert (batch.errors, batch.arms, batch.labels) == ({}, ["stack"], ["a"])
    driven.check()


def test_a_fit_that_failed_is_begun_again_with_the_next_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt_arms, "FIRST_FIT", 3)
    driven = Driven({"a": 0.1, "trees": 0.0}, learnt={"trees": "grown"}, fits_at_once=False)

    def label(count: int) -> None:
        batch = driven.submit(*[ITEM] * count)
        if "a" in batch.arms:
            driven.hear("a", *["yes"] * batch.arms.count("a"))
        driven.engine.learn(batch.ids, ["yes"] * count)
        driven.take()

    label(3)
    need = driven.next(FitTrees)
    assert need.window.labels == 3
    label(1)
    assert not any(isinstance(each, FitTrees) for each in driven.needs)  # one at a time
    driven.engine.fitted(need, None)
    driven.take()
    assert not any(isinstance(each, FitTrees) for each in driven.needs)
    label(1)
    again = driven.next(FitTrees)
    assert again.window is need.window
    driven.engine.fitted(again, learnt_arms.grow(again.window))
    driven.take()
    assert isinstance(driven.log[-1], Fitted)
    assert driven.log[-1].count == 3
    assert driven.next(FitTrees).window.labels == 5  # meanwhile more labels have come
    assert driven.submit().opinions["trees"] == ["yes"]
    driven.needs.clear()
    driven.check()
    (need,) = Engine(fold(driven.log)).take()
    assert isinstance(need, FitTrees)
    assert need.window.labels == 5  # a restart begins it again


# What peers and clients have ended


def test_that_a_question_has_ended_is_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = Driven({"only": 0.1}, score_local="used")
    tell(driven, (1, None, True))
    driven.engine.now = rules.ENDED_FOR + 1
    tell(driven, (2, None, True))
    assert [*driven.engine._ended] == [("there", 2)]
    monkeypatch.setattr(rules, "MOST_ENDED", 2)
    tell(driven, (3, None, True), (4, None, True), (5, None, True))
    assert [*driven.engine._ended] == [("there", 4), ("there", 5)]


def test_a_batch_of_labels_may_have_opinions_of_different_models() -> None:
    driven = Driven()
    first = driven.submit()
    driven.hear("fast", "a")
    driven.hear("slow", "b")
    driven.state.add_model("new")
    second = driven.submit()
    for model in ("fast", "slow", "new"):
        driven.hear(model, "b")
    learnt = driven.engine.learn([*first.ids, *second.ids], ["b", "b"])
    assert {model: [*map(str, column)] for model, column in learnt.scores.items()} == {
        "fast": ["0.0", "1.0"],
        "slow": ["1.0", "1.0"],
        "new": ["nan", "1.0"],
    }
    driven.check()


def test_an_abandoned_batch_is_taken_back_and_what_its_arms_say_later_is_passed_over() -> None:
    for batch_of in (lambda driven: driven.submit(ITEM, ITEM), lambda driven: asked(driven, 1, 2)):
        free, dear, peers = Driven(), Driven({"a": 0.1}, score_local="used"), asking()
        for driven in (free, dear, peers):
            batch = batch_of(driven)
            needs = [need for need in driven.needs if not isinstance(need, Done)]
            driven.engine.abandon(batch)
            for need in needs:
                if isinstance(need, AskPeer):
                    driven.engine.reported(need, [LabelledData(0, 0)])
                else:
                    driven.hear(need.model, "x", "x", need=need)
            driven.take()
            assert driven.state.pending() == {}
            assert driven.engine.in_flight == 0
            assert not [need for need in driven.needs if isinstance(need, Done)]
            driven.check()
