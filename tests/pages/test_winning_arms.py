"""Which arm wins where: squares from ledgers of all kinds of policies."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import CellKLUCB, CoS, Learner, MixedViews, ZoomingKLUCB
from cosend.algorithm import layout as col
from cosend.pages.winning_arms import MOST_SQUARES, Square, interval, squares, winner

POLICIES = [CoS(horizon=2_000, slices=4), CellKLUCB(slices=4), ZoomingKLUCB(), MixedViews()]
NAMES = [type(policy).__name__ for policy in POLICIES]


@cache
def taught(policy: Any, items: int = 400) -> Learner:
    """Return a learner for whom arm a is right on the left half of the first axis, and arm b on the right."""
    learner = Learner("north", own={"a": 0.0, "b": 0.0}, dimensions=2, policy=policy, score_local="all")
    for point in np.random.default_rng(1).random((items, 2)).tolist():
        choice: Any = learner.choose(point)
        gains = {"a": float(point[0] < 0.5), "b": float(point[0] >= 0.5)}
        learner.learn(choice.id, gains[choice.arm], others={n: g for n, g in gains.items() if n != choice.arm})
    return learner


@pytest.mark.parametrize("policy", POLICIES, ids=NAMES)
def test_squares_hold_all_items_once_in_every_view_and_the_winner_is_right_there(policy: object) -> None:
    learner = taught(policy, 1_500)
    for chosen in ((0,), (1,), (0, 1), (1, 0)):
        found = squares(learner.ledger, chosen, 2)
        assert all(0.0 <= low < high <= 1.0 for square in found for low, high in square.spans)
        assert all(len(square.spans) == len(chosen) for square in found)
        sizes = [square.size for square in found]
        assert sizes == sorted(sizes, reverse=True)
        if type(policy).__name__ != "ZoomingKLUCB":  # its cubes are of different sizes, and none lies over another
            assert sum(square.items for square in found if square.size == max(sizes)) == 1_500
        else:
            assert sum(sizes) <= 1.0 + 1e-9
    inside = [each for each in squares(learner.ledger, (0,), 2) if each.spans[0][1] <= 0.5 or each.spans[0][0] >= 0.5]
    best = [(square, winner(square, [0.0, 0.0])) for square in inside]
    sure = [(square, found.arm) for square, found in best if found is not None and found.is_sure]
    assert sure
    assert all(arm == int(square.spans[0][0] >= 0.5) for square, arm in sure)


def test_there_are_not_more_squares_than_can_be_seen() -> None:
    learner = taught(CoS(horizon=5_000, slices=40), items=2_500)
    assert int(learner.ledger.site[col.ROWS]) > MOST_SQUARES
    assert len(squares(learner.ledger, (0, 1), 2)) == MOST_SQUARES


def test_categories_have_a_square_for_every_value() -> None:
    learner = Learner("north", own={"a": 0.0}, dimensions=2, categories=[1])
    for point in ((0.2, 3.0), (0.7, 3.0), (0.7, 5.0)):
        learner.learn(learner.choose(point).id, 1.0)  # type: ignore[union-attr]
    assert sorted(square.spans[0] for square in squares(learner.ledger, (1,), 1)) == [(3.0, 4.0), (5.0, 6.0)]


@pytest.mark.parametrize(
    ("labels", "gains", "costs", "arm", "is_sure"),
    [
        ((20, 20, 0), (18, 19, 0), (0.0, 0.0, 0.0), 1, False),
        ((20, 20, 0), (18, 19, 0), (0.0, 0.5, 0.0), 0, True),
        ((4_000, 4_000), (3_600, 3_600), (0.0, 0.0), 0, True),  # whichever it is, no other is much better
    ],
)
def test_costs_decide_which_arm_wins_and_how_sure_that_is(
    labels: tuple[float, ...], gains: tuple[float, ...], costs: tuple[float, ...], arm: int, is_sure: bool
) -> None:
    best = winner(Square(((0.0, 1.0),), 300, labels, gains), costs)
    assert best is not None
    assert (best.arm, best.is_sure) == (arm, is_sure)
    assert best.reward == pytest.approx(gains[arm] / labels[arm] - costs[arm])
    assert winner(Square(((0.0, 1.0),), 3, (0.0,), (0.0,)), [0.0]) is None


@given(st.floats(0.0, 1.0), st.floats(1.0, 1e6))
def test_intervals_hold_the_mean_and_shrink(mean: float, count: float) -> None:
    low, high = interval(mean, count)
    assert 0.0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1.0
    narrower = interval(mean, 4 * count)
    assert narrower[1] - narrower[0] <= high - low + 1e-12
