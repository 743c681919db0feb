"""The benchmark and the regret, for problems whose true accuracies are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints


def peer_value(accuracies: Floats, costs: Sequence[float]) -> Floats:
    """Return the accuracy of the function that a peer itself would pick, for every item.

    It picks by accuracy minus its own cost; what the caller gets is the accuracy. `accuracies` is [item, function].
    """
    picked = np.argmax(accuracies - np.asarray(costs), axis=1)
    return np.take_along_axis(accuracies, picked[:, None], axis=1)[:, 0]


def arm_values(own: Floats, own_costs: Sequence[float], peers: Sequence[Floats], peer_costs: Sequence[float]) -> Floats:
    """Return what every arm is worth for every item, accuracy minus cost: [item, arm].

    `own` is [item, function]; `peers` has what each peer is worth, from `peer_value`.
    """
    columns = [own - np.asarray(own_costs)]
    columns += [(value - cost)[:, None] for value, cost in zip(peers, peer_costs, strict=True)]
    return np.hstack(columns)


def benchmark_arm(values: Floats) -> Ints:
    """Return the best arm for every item: the optimal choice with complete knowledge."""
    best: Ints = np.argmax(values, axis=1).astype(np.int64)
    return best


def cumulative_regret(values: Floats, obtained: npt.ArrayLike) -> Floats:
    """Return how far the learner is behind the benchmark after every item.

    `obtained` is what the learner got: the true accuracy of the function it used, or 1 and 0 for right and wrong,
    minus the cost of the arm. The first has the same mean and less noise.
    """
    return np.cumsum(values.max(axis=1) - np.asarray(obtained))
