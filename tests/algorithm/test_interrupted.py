"""Ctrl-C at any moment: between any two lines of Python, what is left is whole and can be saved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from cosend import CellKLUCB, CoS, Learner, MixedViews, Patience, ZoomingKLUCB
from cosend.algorithm import layout as col
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import LabelledData
from tests.policies import everything

pytestmark = pytest.mark.compiled  # a compiled call is what nothing can interrupt


class InterruptAt:
    """Raises KeyboardInterrupt at the n-th line that is run of cosend's own Python."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if "cosend" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def interrupted(work: Callable[[], object], line: int) -> bool:
    """Do something that is interrupted at a line; returns whether it came that far."""
    before = sys.gettrace()
    sys.settrace(InterruptAt(line))
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def at_every_line(prepare: Callable[[], Learner], work: Callable[[Learner], object]) -> int:
    """Interrupt some work at every line, and check each time that what is left is whole; returns how many lines."""
    line = 1
    while True:
        learner = prepare()
        if not interrupted(partial(work, learner), line):
            return line - 1
        again = Learner.from_state(learner.state())
        assert again.registry.ids() == learner.registry.ids()
        waiting = learner.ledger.counts[..., [col.PENDING, col.TRAINING_PENDING]].sum()
        assert waiting == learner.pending_count
        learner.withdraw_many(learner.registry.ids())
        assert not learner.ledger.counts[..., [col.PENDING, col.TRAINING_PENDING]].any()
        learner.choose(0.5)
        line += 1


def prepared() -> Learner:
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, policy=CoS(slices=3), patience=Patience(max_pending=9))
    learner.choose_many([0.1, 0.5, 0.9])
    return learner


@pytest.mark.parametrize(
    "work",
    [
        lambda learner: learner.choose_many([n / 20 for n in range(20)]),
        lambda learner: learner.choose(0.3),
        lambda learner: learner.learn_many([1, 2], [1.0, 0.0]),
        lambda learner: learner.withdraw_many([1, 3]),
        lambda learner: learner.answer_many([0.2] * 9, caller="x", requests=range(9), flags=[(True, True)] * 9),
    ],
    ids=["choose_many", "choose", "learn_many", "withdraw_many", "answer_many"],
)
def test_a_learner_that_is_interrupted_anywhere_is_whole(work: Callable[[Learner], object]) -> None:
    assert at_every_line(prepared, work) > 5


def test_a_learner_is_whole_that_is_interrupted_while_its_arrays_grow() -> None:
    contexts = [n / 100 for n in range(100)]  # each in a cell of its own

    def small() -> Learner:
        return Learner("here", own={"a": 0.0}, policy=CoS(slices=100))

    before, after = small(), small()
    after.choose_many(contexts)
    assert len(after.ledger.cells) > len(before.ledger.cells)
    assert len(after.registry.table.entries) > len(before.registry.table.entries)
    assert at_every_line(small, lambda learner: learner.choose_many(contexts)) > 30


@pytest.mark.parametrize("policy", [CoS(), CellKLUCB(), CoS(slices=100)], ids=["reset", "keep", "cells"])
def test_a_learner_that_was_interrupted_goes_on_as_if_it_had_not_been(policy: CoS | CellKLUCB) -> None:
    """Also between two epochs, and while its arrays grow."""
    contexts = [n / 20 for n in range(20)]

    def new() -> Learner:
        return Learner("here", own={"a": 0.0, "b": 0.1}, policy=policy)

    steady, line = new(), 1
    steady.choose_many(contexts)
    assert policy.slices or steady.ledger.site[col.EPOCH] > 2
    while interrupted(partial((learner := new()).choose_many, contexts), line):
        learner.choose_many(contexts[learner.arrivals :])
        assert everything(learner) == everything(steady)
        line += 1
    assert line > 30


CHANGES: dict[str, Callable[[Learner], object]] = {
    "a classifier joins": lambda learner: learner.add_own("c", 0.1),
    "a peer joins": lambda learner: learner.add_peer("far", 0.1, 3),
    "a classifier leaves": lambda learner: learner.remove("a"),
    "a peer leaves": lambda learner: learner.remove("there"),
    "cost": lambda learner: learner.set_cost("b", 0.3),
    "pause": lambda learner: learner.pause("a"),
    "resume": lambda learner: learner.resume("b"),
}


@pytest.mark.parametrize("policy", [CoS(slices=3), MixedViews(), ZoomingKLUCB()], ids=["CoS", "MixedViews", "Zooming"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_arms_is_made_wholly_or_not_at_all(change: Callable[[Learner], object], policy: Policy) -> None:
    def new() -> Learner:
        learner = Learner("here", own={"a": 0.0, "b": 0.0}, peers={"there": 0.1}, policy=policy)
        learner.pause("b")
        for n in range(9):
            told = {"there": LabelledData(9, 9)}
            learner.registry.notes[learner.choose(n / 9, told).id] = n  # type: ignore[union-attr]
        learner.answer(0.2, caller="there", request=1, training=True)
        learner.learn(2, 1.0)
        return learner

    old, changed, line = new(), new(), 1
    change(changed)
    before, after = ((everything(each), each.registry.notes) for each in (old, changed))
    assert before != after
    seen = [0, 0]
    while interrupted(partial(change, learner := new()), line):
        left = everything(learner), learner.registry.notes
        assert left in (before, after)
        seen[left == after] += 1
        if left == before:
            change(learner)
            assert (everything(learner), learner.registry.notes) == after
        learner.choose(0.4, {peer: LabelledData(9, 9) for peer in learner.arms.peers})
        line += 1
    assert seen[0] > 5


def test_axes_come_wholly_or_not_at_all() -> None:
    def new() -> Learner:
        learner = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=2, policy=MixedViews())
        learner.choose_many([(0.1, 0.9), (0.5, 0.5)])
        return learner

    changed, line = new(), 1
    changed.add_axes(2)
    before, after = everything(new()), everything(changed)
    while interrupted(partial((learner := new()).add_axes, 2), line):
        assert everything(learner) in (before, after)
        learner.choose((0.3,) * learner.dimensions)
        line += 1
    assert line > 5


def test_what_waits_is_whole_if_it_is_interrupted_while_it_becomes_wider() -> None:
    def new() -> Learner:
        learner = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=1, policy=MixedViews())
        learner.choose_many([(0.1,), (0.5,), (0.9,)])
        learner.add_axes(2)
        return learner

    whole, line = everything(new()), 1
    while interrupted((learner := new()).registry.widen_some, line):
        assert everything(learner) == whole
        learner.choose((0.3, 0.3, 0.3))
        line += 1
    assert line > 10
