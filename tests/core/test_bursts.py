"""Labels that come late: rewards that come together count for less, so that a bad start is no trap."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cosend import AskPeer, CellKLUCB, Learner, replay
from cosend.core.kernel import columns as col

pytestmark = pytest.mark.compiled


def bursty(items: int, burst: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return gains of two arms: the second is right in most bursts, the first in every fifth, and in the first one."""
    good = np.arange(items) // burst % 5 == 0
    return np.stack([good, ~good], axis=1).astype(np.float64)


def test_a_burst_that_misleads_is_no_trap() -> None:
    """Labels come 100 items late, in bursts of 100: the arm that fails in the first burst is the better one."""
    gains = bursty(6_000, 100)
    late = []
    for seed in range(5):
        learner = Learner("here", own={"a": 0.0, "b": 0.0}, policy=CellKLUCB(slices=1), seed=seed)
        arms = replay([learner], np.zeros((6_000, 1)), gains, delay=100).arms[:, 0]
        late.append((arms[3_000:] == 1).mean())
    assert min(late) > 0.5


def test_answers_for_peers_that_wait_make_no_burst() -> None:
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, policy=CellKLUCB(slices=1), seed=3)
    draw = random.Random(2)
    tickets = []
    for n in range(60):
        choice = learner.choose(0.5)
        assert not isinstance(choice, AskPeer)
        learner.learn(choice.id, float(draw.random() < 0.5))
        answer = learner.answer(0.5, caller="there", request=n, training=False, labelled=True)
        assert answer.ticket is not None
        tickets.append(answer.ticket)
    ledger = learner.ledger
    assert ledger.counts[0, :, col.WAITING].sum() == ledger.cells[0, col.CELL_ANSWERING] == 60
    learner.learn(tickets.pop(), 1.0)
    learner.withdraw(tickets.pop())
    assert ledger.counts[0, :, col.WAITING].sum() == ledger.cells[0, col.CELL_ANSWERING] == 58
    learner.remove("a")
    left = learner.ledger
    assert left.counts[0, :, col.WAITING].sum() == left.cells[0, col.CELL_ANSWERING] == learner.waiting_count < 58
