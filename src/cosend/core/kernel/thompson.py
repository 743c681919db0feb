"""Thompson sampling: an arm is as likely to be chosen as it is to be the best.

The belief about an arm in a cell is a Beta distribution. Its prior is weak and comes from the arm's mean over all
cells, so a new cell begins with what is known elsewhere.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel import draws
from cosend.core.kernel.indices import burst_of, explore_unless_best, own_waiting
from cosend.core.kernel.ledger import EMPTY, Ledger

PRIOR_WEIGHT: Final = 1.0  # as many rewards as the prior counts for
TWO_PI: Final = 2.0 * math.pi


@compiled
def by_sample(ledger: Ledger, row: int, overall: int) -> tuple[int, int, int]:
    """Choose the arm whose sampled value is the highest, net of its cost; row `overall` is all cells together."""
    site = ledger.site
    best, chosen, waiting = -np.inf, 0, own_waiting(ledger, row)
    for arm in range(site[col.ARM_COUNT]):
        purpose = draws.SAMPLE + draws.PER_ASKED_PEER * arm
        word = draws.draw(site[col.KEY0], site[col.KEY1], 0, site[col.TICKETS] + 1, purpose)
        burst = burst_of(ledger, row, arm, waiting)
        value = sampled(ledger, row, overall, arm, burst, word) - ledger.costs[arm]
        if value > best:
            best, chosen = value, arm
    return explore_unless_best(ledger, row, chosen), chosen, 0


@compiled
def sampled(ledger: Ledger, row: int, overall: int, arm: int, burst: float, word: int) -> float:
    """Return a draw from the belief about an arm in a cell; so many rewards of it count as one."""
    prior = 0.5
    if overall != EMPTY:
        total, count = ledger.rewards[overall, arm, col.REWARD_SUM], ledger.rewards[overall, arm, col.REWARD_COUNT]
        prior = (min(max(total, 0.0), count) + 1.0) / (count + 2.0)
    count = ledger.rewards[row, arm, col.REWARD_COUNT]
    right = min(max(ledger.rewards[row, arm, col.REWARD_SUM], 0.0), count)
    # exactness.md, "Index policies": a Beta variable from two gammas, each of which goes on from the word of the last.
    one, word = gamma_draw(PRIOR_WEIGHT * prior + right / burst, word)
    other, word = gamma_draw(PRIOR_WEIGHT * (1.0 - prior) + count / burst - right / burst, word)
    return one / (one + other)


@compiled
def gamma_draw(shape: float, word: int) -> tuple[float, int]:
    """Return a draw from the gamma distribution and the word after it (Marsaglia and Tsang, 2000)."""
    scale = 1.0
    if shape < 1.0:
        word = draws.following(word)
        scale = math.exp(math.log(draws.unit(word)) / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x, word = normal_draw(word)
        word = draws.following(word)
        v = 1.0 + c * x
        v = v * v * v
        if v > 0.0 and math.log(draws.unit(word)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v * scale, word


@compiled
def normal_draw(word: int) -> tuple[float, int]:
    """Return a draw from the normal distribution and the word after it (Box and Muller, 1958)."""
    first = draws.following(word)
    second = draws.following(first)
    return math.sqrt(-2.0 * math.log(draws.unit(first))) * math.cos(TWO_PI * draws.unit(second)), second
