"""Arms that fail: the item gets another arm, the others go on, and no failure is ever a reward."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from cosend import Context, CoS, LabelledData, Network, Patience, Phase, Site, ZoomingKLUCB
from cosend.core.policy.parts import Policy
from cosend.errors import NetworkError, NoAnswer, SettingError, SomeUnanswered
from cosend.site.backoff import LONGEST
from cosend.site.messages import Call, Forward, Question, Reply
from tests.site.test_site import (
    ONE_CELL,
    TRAINING_FIRST,
    always,
    assert_nothing_leaks,
    assert_nothing_open,
    broken,
    high,
    items,
    pair,
    until,
)

UNIT = Context("x", range=(0, 1))


class Line:
    """A peer behind a line that may be down; it counts how often somebody tries."""

    def __init__(self, site: Site, error: BaseException | None = None) -> None:
        self.site, self.error = site, error
        self.attempts = 0
        self.tamper: Callable[[list[Reply]], Any] = lambda replies: replies

    def _pass(self) -> None:
        if self.error is not None:
            self.attempts += 1
            raise self.error

    def report(self, context: tuple[float, ...]) -> LabelledData:
        self._pass()
        return self.site.report(context)

    def serve(self, call: Call) -> list[Reply]:
        self._pass()
        replies: list[Reply] = self.tamper(self.site.serve(call))
        return replies

    def teach(self, forward: Forward) -> None:
        self._pass()
        self.site.teach(forward)


def wired(policy: Policy | None = None, error: BaseException | None = None, **options: Any) -> tuple[Site, Site, Line]:
    """Return a site with two poor classifiers, a good peer, and the line between them."""
    lab = Site("lab", classifiers={"one": always(1), "zero": always(0)}, context=UNIT, policy=policy, **options)
    hq = Site("hq", classifiers={"high": high}, context=UNIT)
    line = Line(hq, error)
    lab.add_peer("hq", line)
    return lab, hq, line


@pytest.mark.parametrize(
    "policy", [None, ZoomingKLUCB(), CoS(slices=1, exploration_exponent=0.05)], ids=["default", "ZoomingKLUCB", "CoS"]
)
def test_a_peer_that_is_dead_from_the_start_costs_few_attempts_and_no_item(policy: Policy | None) -> None:
    lab, hq, line = wired(policy, NetworkError("dead"))
    for item in items(300):
        lab.learn(lab.classify(item), high(item))
        assert_nothing_open(lab, hq)
    assert 2 <= line.attempts <= 12
    assert lab.learner.arrivals == 300
    assert all(cell.estimates["hq"].reward_count == 0 for cell in lab.learner.cells().values())


@pytest.mark.parametrize("policy", [None, ZoomingKLUCB()], ids=["default", "ZoomingKLUCB"])
def test_a_peer_that_dies_comes_back_by_itself_and_is_used_again_with_what_was_known_of_it(
    policy: Policy | None,
) -> None:
    lab, _, line = wired(policy)
    lab.add_classifier("never", always(2))
    lab.remove("one")
    lab.remove("zero")
    for item in items(200):
        lab.learn(lab.classify(item), high(item))
    known = {key: cell.estimates["hq"] for key, cell in lab.learner.cells().items()}
    assert sum(each.reward_count for each in known.values()) > 150
    line.error = ConnectionError("gone")
    for item in items(300, seed=2):
        lab.learn(lab.classify(item), high(item))
    assert 2 <= line.attempts <= 12
    if policy is None:  # the short memory of all items fades
        assert 0 < lab.learner.cells()[0].estimates["hq"].reward_count < known.pop(0).reward_count
    assert all(lab.learner.cells()[key].estimates["hq"] == each for key, each in known.items())
    line.error = None
    used = [lab.classify(item).arm for item in items(600, seed=3)]
    assert used.index("hq") <= LONGEST
    assert set(used[used.index("hq") :]) == {"hq"}


def test_one_failing_arm_leaves_the_rest_of_a_batch_as_it_is() -> None:
    """Of three sites one fails: its items are labelled by others, in the same call."""
    settings: dict[str, Any] = {"context": UNIT, "policy": TRAINING_FIRST}
    lab = Site("lab", classifiers={"one": always(1)}, **settings)
    good = Site("good", classifiers={"high": high}, **settings)
    bad = Site("bad", classifiers={"broken": broken}, **settings)
    Network([lab, good, bad])
    made = lab.classify_many(items(64))
    assert {decision.arm for decision in made} <= {"one", "good"}
    assert len({decision.id for decision in made}) == 64
    assert lab.learner.arrivals == 64
    lab.learn_many(made, [1] * 64)
    assert_nothing_open(lab, good, bad)
    trained = sum(cell.estimates["bad"].training_count for cell in lab.learner.cells().values())
    assert trained == 0


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (lambda replies: replies[:-1], r"it gave \d replies to \d questions"),
        (lambda replies: [*replies, Reply(1)], r"it gave \d replies to \d questions"),
        (lambda _: None, "it must give a list of replies"),
        (lambda replies: [("label", None)] * len(replies), "it must give a list of replies"),
    ],
    ids=["too short", "too long", "nothing", "something else"],
)
def test_a_reply_that_is_none_is_a_failure_of_the_peer(tamper: Any, reason: str) -> None:
    log: list[Any] = []
    lab, hq, line = wired(TRAINING_FIRST, journal=log.append)
    line.tamper = tamper
    made = lab.classify_many(items(9))
    assert {decision.arm for decision in made} <= {"one", "zero"}
    failed = [event for event in log if type(event).__name__ == "Failed"]
    assert {event.arm for event in failed} == {"hq"}
    assert re.search(reason, failed[0].reason)
    assert len(failed) <= 3
    lab.learn_many(made, [1] * 9)
    line.tamper = lambda replies: replies
    lab.learn_many(lab.classify_many(items(9)), [1] * 9)
    assert_nothing_open(lab, hq)


def test_a_classifier_that_fails_on_one_item_keeps_the_others_of_the_batch() -> None:
    def moody(item: Any) -> int:
        return 1 if item["x"] != 0.25 else broken(item)

    site = Site(
        "lab", classifiers={"moody": moody, "two": always(2)}, context=UNIT, policy=ONE_CELL, costs={"two": 0.9}
    )
    made = site.classify_many([{"x": n / 8} for n in range(8)])
    arms = [decision.arm for decision in made]
    assert arms[2] == "two"
    assert "moody" in arms
    assert_nothing_leaks(site)


def test_an_item_that_no_arm_can_label_gets_an_error_of_its_own() -> None:
    def moody(item: Any) -> int:
        return 1 if item["x"] < 0.5 else broken(item)

    site = Site("lab", classifiers={"a": moody, "b": moody}, context=UNIT)
    sentence = "2 of 5 items could not be labelled, the first is item 1 of the batch"
    with pytest.raises(SomeUnanswered, match=sentence) as caught:
        site.classify_many([{"x": x} for x in (0.1, 0.9, 0.2, 0.8, 0.3)])
    assert [decision is None for decision in caught.value.decisions] == [False, True, False, True, False]
    assert set(caught.value.errors) == {1, 3}
    assert set(caught.value.errors[1].reasons) == {"a", "b"}
    site.learn_many([decision for decision in caught.value.decisions if decision is not None], [1, 1, 1])
    assert_nothing_open(site)
    with pytest.raises(
        NoAnswer, match=r"'lab' could label the item: .*classifier 'a' failed: ZeroDivisionError: broken"
    ):
        site.classify({"x": 0.9})
    assert_nothing_open(site)
    assert site.learner.arrivals == 6


def test_the_last_try_is_among_local_classifiers_only() -> None:
    """Three dead peers, one retry: the second attempt goes home and not to the next dead peer."""
    lab = Site("lab", classifiers={"one": always(1)}, context=UNIT, policy=TRAINING_FIRST, retries=1)
    lines = [Line(Site(f"hq{n}", classifiers={"high": high}, context=UNIT), NetworkError("dead")) for n in range(3)]
    for n, line in enumerate(lines):
        lab.add_peer(f"hq{n}", line)
    for item in items(12):
        before = sum(line.attempts for line in lines)
        assert lab.classify(item).arm == "one"
        assert sum(line.attempts for line in lines) <= before + 3  # asked, not called again


def test_without_retries_the_first_failure_is_an_error() -> None:
    lab, hq, _ = wired(ZoomingKLUCB(), NetworkError("dead"), retries=0)
    failed = []
    for item in items(40):
        try:
            lab.classify(item)
        except NoAnswer as error:
            failed.append(set(error.reasons))
    assert 0 < len(failed) < 40
    assert all(reasons <= {"hq"} for reasons in failed)
    with pytest.raises(SettingError, match="retries must be a whole number of at least 0"):
        Site("lab", classifiers={"one": always(1)}, context=UNIT, retries=-1)
    assert_nothing_leaks(lab, hq)


@pytest.mark.parametrize("share_labels", ["training", "always"])
def test_a_peer_answers_with_another_classifier_when_one_fails(share_labels: Any) -> None:
    lab, hq = pair(
        lab={"poor": always(None)},
        hq={"broken": broken, "high": high},
        policy=CoS(slices=1, exploration_exponent=0.05, share_labels=share_labels),
    )
    for item in items(60):
        lab.learn(lab.classify(item), high(item))
        assert_nothing_open(lab, hq)
    decision, _ = until(lab, Phase.EXPLOIT)
    assert decision.arm == "hq"
    assert all(cell.estimates["broken"].reward_count == 0 for cell in hq.learner.cells().values())


def test_a_peer_whose_classifiers_all_fail_replies_so_and_waits_for_no_label() -> None:
    _, hq = pair(hq={"a": broken, "b": broken})
    asked = [Question(n, {"x": 0.5}, (0.5,), training, True) for n, training in ((1, True), (2, False))]
    replies = hq.serve(Call("hq", "lab", asked))
    assert all("no arm of site 'hq' could label the item" in (reply.failed or "") for reply in replies)
    assert_nothing_open(hq)


def test_an_answer_that_got_lost_is_withdrawn_though_the_caller_never_had_it() -> None:
    lab, hq, line = wired(TRAINING_FIRST)

    def lose(_: list[Reply]) -> list[Reply]:
        raise NetworkError("the reply was lost")

    line.tamper = lose
    for item in items(50):
        lab.learn(lab.classify(item), high(item))
    line.tamper = lambda replies: replies
    for item in items(200, seed=2):
        lab.learn(lab.classify(item), high(item))
    assert_nothing_open(lab, hq)


def test_what_a_peer_could_not_be_told_is_told_when_it_is_back() -> None:
    lab, hq, line = wired(TRAINING_FIRST)
    made = lab.classify_many(items(30))
    waiting = len(hq.open)
    assert waiting > 3
    line.error = NetworkError("down")
    lab.learn_many(made, [1] * 30)
    assert len(hq.open) == len(lab.outbox) == waiting
    line.error = None
    lab.learn(lab.classify({"x": 0.5}), 1)
    for item in items(LONGEST):
        if not lab.outbox:
            break
        lab.learn(lab.classify(item), 1)
    assert_nothing_open(lab, hq)
    assert not lab.outbox


def test_a_withdrawal_that_fails_does_not_fail_a_new_item() -> None:
    lab, hq, line = wired(TRAINING_FIRST, patience=Patience(wait_limit=3))
    lab.classify_many(items(4))
    line.error = NetworkError("down")
    for item in items(30):
        lab.classify(item)
    assert lab.outbox
    line.error = None
    for item in items(60):
        lab.learn(lab.classify(item), 1)
    assert not lab.outbox
    assert set(hq.open.values()) == set()


class Stopped(BaseException):
    """What Ctrl-C is to a program."""


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, Stopped])
def test_an_interrupt_in_a_classifier_or_at_a_peer_takes_the_whole_call_back(interrupt: type[BaseException]) -> None:
    stops = [False]

    def stopping(item: Any) -> int:
        if stops[0] and item["x"] > 0.5:
            raise interrupt
        return 1

    lab = Site("lab", classifiers={"stopping": stopping, "one": always(1)}, context=UNIT, policy=TRAINING_FIRST)
    hq = Site("hq", classifiers={"stopping": stopping, "high": high}, context=UNIT)
    Network([lab, hq])
    lab.learn_many(lab.classify_many(items(30)), [1] * 30)
    stops[0] = True
    stopped = 0
    for _ in range(30):
        try:
            made = lab.classify_many(items(20))
        except interrupt:
            stopped += 1
        else:
            lab.learn_many(made, [1] * 20)
        assert_nothing_open(lab, hq)
    assert stopped > 0


def test_what_became_overdue_before_a_failure_is_not_open_any_more() -> None:
    fails = [False]
    site = Site(
        "lab",
        classifiers={"moody": lambda item: broken(item) if fails[0] else 1},
        context=UNIT,
        policy=ZoomingKLUCB(),
        patience=Patience(wait_limit=1),
    )
    site.classify_many(items(2))
    fails[0] = True
    with pytest.raises(NoAnswer):
        site.classify({"x": 0})
    assert_nothing_leaks(site)


def test_peers_that_cannot_read_an_item_fail_with_the_reason_and_nothing_leaks() -> None:
    log: list[Any] = []
    lab = Site("lab", classifiers={"one": always(1)}, context=UNIT, policy=TRAINING_FIRST, journal=log.append)
    both = [UNIT, Context("y", range=(0, 1))]
    flat = Site("flat", classifiers={"high": high}, context=both, policy=ZoomingKLUCB())
    lab.add_peer("flat", flat)
    assert lab.classify({"x": 0.5}).arm == "one"
    assert any("the item has no feature 'y'" in event.reason for event in log if type(event).__name__ == "Failed")
    assert {entry.caller for entry in flat.open.values()} == set()


def test_a_paused_arm_is_not_used_and_comes_back_with_what_was_known() -> None:
    lab, hq, _ = wired(ZoomingKLUCB())
    for item in items(200):
        lab.learn(lab.classify(item), high(item))
    known = {key: cell.estimates["hq"] for key, cell in lab.learner.cells().items()}
    lab.pause("hq")
    assert {key: cell.estimates["hq"] for key, cell in lab.learner.cells().items()} == known
    made = [lab.classify(item) for item in items(50, seed=2)]
    assert {decision.arm for decision in made} <= {"one", "zero"}
    lab.learn_many(made, [1] * 50)
    lab.resume("hq")
    after = {key: cell.estimates["hq"] for key, cell in lab.learner.cells().items()}
    assert all(after[key] == each for key, each in known.items())
    assert "hq" in {lab.classify(item).arm for item in items(60, seed=3)}
    lab.pause("one")
    lab.pause("zero")
    lab.pause("hq")
    with pytest.raises(NoAnswer, match="all of them are paused"):
        lab.classify({"x": 0.5})
    assert hq.serve(Call("hq", "lab", []))[:1] == []


def test_failures_leave_the_same_decisions_whatever_happened_to_run_first() -> None:
    """The same items and the same failures give the same decisions: no clock is involved."""

    def run() -> list[Any]:
        draw, made = random.Random(3), []
        lab, _, line = wired(ZoomingKLUCB())
        for n, item in enumerate(items(300)):
            line.error = NetworkError("down") if 50 < n < 120 else None
            decision = lab.classify(item)
            made.append(decision)
            if draw.random() < 0.8:
                lab.learn(decision, high(item))
        return made

    assert run() == run()


def test_an_error_in_a_model_names_it() -> None:
    site = Site("lab", classifiers={"broken": broken}, context=UNIT)
    with pytest.raises(NoAnswer, match="classifier 'broken' failed: ZeroDivisionError: broken"):
        site.classify({"x": 0.1})
