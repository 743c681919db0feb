"""Arms that fail: the item gets another arm, the others go on, and no failure is ever a reward."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cosend import CoS, Network, Site
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import LabelledData, Phase
from cosend.axes import Feature
from cosend.engine.needs import Call, Forward, Question, Reply
from cosend.errors import NetworkError, NoAnswer, SomeUnanswered
from tests.site.test_site import (
    TRAINING_FIRST,
    always,
    assert_nothing_open,
    broken,
    high,
    items,
    pair,
    until,
)

UNIT = Feature("x", range=(0, 1))


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


def test_an_item_that_no_arm_can_label_gets_an_error_of_its_own() -> None:
    def moody(item: Any) -> int:
        return 1 if item["x"] < 0.5 else broken(item)

    site = Site("lab", classifiers={"a": moody, "b": moody}, context=UNIT, learnt=False)
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
    waiting = len(hq.pending())
    assert waiting > 3
    line.error = NetworkError("down")
    lab.learn_many(made, [1] * 30)
    assert len(hq.pending()) == len(lab.engine.state.outbox["hq"]) == waiting
    line.error = None
    lab.learn(lab.classify({"x": 0.5}), 1)
    for item in items(64):
        if not lab.engine.state.outbox:
            break
        lab.learn(lab.classify(item), 1)
    assert_nothing_open(lab, hq)
    assert not lab.engine.state.outbox


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


@pytest.mark.parametrize(
    "said", [[1], {"label": 1}, np.array([1, 2]), ([], 1)], ids=["list", "dict", "array", "in a tuple"]
)
def test_what_cannot_be_hashed_is_no_label(said: Any) -> None:
    site = Site("lab", classifiers={"bad": always(said)}, context=UNIT)
    with pytest.raises(
        NoAnswer, match=r"bad: 'bad' returned .*; a label is anything that can be hashed: text, a number"
    ):
        site.classify({"x": 0.5})
    site.add_classifier("good", always((1, Phase.TRAIN)))
    assert site.classify({"x": 0.5}).label == (1, Phase.TRAIN)
