"""Orders of regret, and a bound for index policies in equal cells, in the notation of `core.bounds`: docs/theory.md."""

from __future__ import annotations

import math

from cosend.algorithm.cells import slices_for
from research.bounds import Setting


def index_exponent(setting: Setting) -> float:
    """Return the order of the bound below: regret grows as T to this power, up to the root of a logarithm."""
    return (setting.alpha + setting.dimensions) / (2 * setting.alpha + setting.dimensions)


def zooming_exponent(setting: Setting, contexts: str) -> float:
    """Return the order that the authors of DCZA give, for the two rates at which its cubes split."""
    if contexts == "concentrated":
        return 2 / 3
    alpha, d = setting.alpha, setting.dimensions
    rate = (3 * alpha + math.sqrt(9 * alpha**2 + 8 * alpha * d)) / 2
    return (d + rate - alpha) / (d + rate)


def index_bound(setting: Setting, horizon: int) -> float:
    """Bound the regret of KL-UCB in cells, m = ceil(T^(1/(2 alpha + d))) on each axis, for settled peers.

    Settled: a peer answers with the function that is its best for the item. A peer with one function always is.
    """
    slices = slices_for(horizon, 2 * setting.alpha + setting.dimensions)
    cells, log_t = slices**setting.dimensions, math.log(horizon)
    half_diagonal = math.sqrt(setting.dimensions) / (2 * slices)
    coarse = 4 * setting.lipschitz * math.pow(half_diagonal, setting.alpha) * horizon
    explored = math.sqrt(8 * setting.arms * cells * horizon * log_t)
    underrated = 2 + math.e * (log_t**3 / 3 + log_t)
    return float(coarse + explored + cells * (2 * setting.arms + underrated) * setting.largest_loss)
