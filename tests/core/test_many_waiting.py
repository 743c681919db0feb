"""Decisions that wait, very many of them: what has nothing to do with them takes no longer because of them."""

from __future__ import annotations

import time

import pytest

from cosend import Learner

MANY = 300_000


def with_waiting(count: int) -> Learner:
    learner = Learner("edge", own={"one": 0.0, "two": 0.0})
    learner.choose_many([0.5] * count)
    assert learner.waiting_count == count
    return learner


def seconds_to_add_a_peer(learner: Learner) -> float:
    """Return how long it takes in the best of several attempts."""
    best = float("inf")
    for number in range(8):
        begun = time.perf_counter()
        learner.add_peer(f"peer {number}", 0.1)
        best = min(best, time.perf_counter() - begun)
    return best


@pytest.mark.compiled
def test_a_peer_joins_as_fast_whatever_waits() -> None:
    few, many = with_waiting(100), with_waiting(MANY)
    assert seconds_to_add_a_peer(many) < 20 * seconds_to_add_a_peer(few)
    assert many.waiting_count == MANY
    many.learn(1, 1.0)
    many.remove("peer 3")
    many.learn(MANY, 1.0)
    assert many.waiting_count == MANY - 2
