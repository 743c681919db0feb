"""The benchmark is the best arm by what it is really worth, and regret is measured against it."""

from __future__ import annotations

import numpy as np
from research.benchmark import arm_values, benchmark_arm, cumulative_regret, peer_value


def test_peer_is_worth_the_function_that_it_would_pick_itself() -> None:
    """The peer prefers its cheap function though the dear one is more accurate; the caller gets that accuracy."""
    accuracies = np.array([[0.9, 0.8], [0.9, 0.3]])
    assert peer_value(accuracies, [0.2, 0.0]).tolist() == [0.8, 0.9]


def test_arms_are_valued_net_of_cost() -> None:
    own = np.array([[0.5, 0.7], [0.5, 0.7]])
    values = arm_values(own, [0.0, 0.1], [np.array([0.9, 0.4])], [0.25])
    np.testing.assert_allclose(values, [[0.5, 0.6, 0.65], [0.5, 0.6, 0.15]])
    assert benchmark_arm(values).tolist() == [2, 1]


def test_regret_is_what_was_missed() -> None:
    values = np.array([[0.5, 0.65], [0.6, 0.15]])
    np.testing.assert_allclose(cumulative_regret(values, [0.5, 0.6]), [0.15, 0.15])
