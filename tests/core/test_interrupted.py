"""Ctrl-C at any moment: between any two lines of Python, what is left is whole and can be saved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from cosend import CoS, Learner, Patience, ZoomingKLUCB
from cosend.core.kernel import columns as col

pytestmark = pytest.mark.compiled  # a compiled call is what nothing can interrupt


class InterruptAt:
    """Raises KeyboardInterrupt at the n-th line that is run of cosend's own Python."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if "cosend" not in frame.f_code.co_filename or "kernel" in frame.f_code.co_filename:
            return None  # compiled code is not interrupted: the signal waits for the next line of Python
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
        waiting = learner.ledger.counts[..., [col.WAITING, col.TRAINING_WAITING]].sum()
        assert waiting == learner.waiting_count
        learner.withdraw_many(learner.registry.ids())
        assert not learner.ledger.counts[..., [col.WAITING, col.TRAINING_WAITING]].any()
        learner.choose(0.5)
        line += 1


def prepared() -> Learner:
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, policy=CoS(slices=3), patience=Patience(max_waiting=9))
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
    def crowded() -> Learner:
        return Learner("here", own={"a": 0.0}, policy=ZoomingKLUCB(split_after=0.1, lipschitz=9.0))

    assert at_every_line(crowded, lambda learner: learner.choose_many([n / 300 for n in range(300)])) > 30
