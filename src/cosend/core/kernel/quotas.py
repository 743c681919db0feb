"""How many samples an arm is owed: the control functions D1, D2 and D3 of the paper.

D1 = D3 = t^z ln t for exploration, D2 = F_max t^z ln t for the training of a peer. An arm is owed a sample
while its count is <= the quota: at t = 1 the quota is 0, and 0 <= 0 explores.
"""

from __future__ import annotations

import math

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Ledger


def exponent_for(alpha: float, dimensions: int) -> float:
    """Return z = 2 alpha / (3 alpha + d), the exponent of Theorem 1."""
    return 2 * alpha / (3 * alpha + dimensions)


@compiled
def exploration_quota(step: int, exponent: float) -> float:
    """Return D1(t) = D3(t) = t^z ln t; the power by way of the logarithm, which is needed anyway."""
    log_step = math.log(float(step))
    return math.exp(exponent * log_step) * log_step  # exactness.md, "Arithmetic": in this order


@compiled
def steps_until_it_matters(step: int, quota: float, exponent: float, max_peer_functions: int) -> float:
    """Return for how many more steps no count can tell the quotas from those of this step.

    Counts are whole numbers, so a quota matters only when it reaches the next one. Where t^z ln t is concave it stays
    below its tangent, which therefore reaches the next whole number first; a thousandth is left for rounding.
    """
    log_step = math.log(float(step))
    if log_step <= 0.0 or exponent * (1.0 - exponent) * log_step <= 2.0 * exponent - 1.0:
        return 0.0
    slope = quota / step * (exponent + 1.0 / log_step)
    training = max_peer_functions * quota
    explore_steps = (math.floor(quota) + 1.0 - quota) / slope
    train_steps = (math.floor(training) + 1.0 - training) / (max_peer_functions * slope)
    return 0.999 * min(explore_steps, train_steps)


@compiled
def current_quota(ledger: Ledger, step: int) -> float:
    """Return D1 of this step, or of an earlier one if no count can tell the difference."""
    known = ledger.parameters
    if not known[col.QUOTA_FROM] <= step <= known[col.QUOTA_UNTIL]:
        functions = ledger.site[col.MAX_PEER_FUNCTIONS]
        quota = exploration_quota(step, known[col.EXPONENT])
        known[col.QUOTA], known[col.QUOTA_FROM] = quota, step
        known[col.QUOTA_UNTIL] = step + steps_until_it_matters(step, quota, known[col.EXPONENT], functions)
    return float(known[col.QUOTA])


@compiled
def training_quota(exploration: float, max_peer_functions: int) -> float:
    """Return D2(t) = F_max D1(t)."""
    return max_peer_functions * exploration


@compiled
def quota_of(ledger: Ledger, row: int, step: int) -> float:
    """Return D1 of this step in a cell: the same in equal cells, 2^(2 alpha p) ln t in a cube of level p."""
    if not ledger.site[col.ZOOMS]:
        return current_quota(ledger, step)
    level = ledger.cells[row, col.CELL_LEVEL] if row != EMPTY else 0
    if level < 0:
        level = -1 - level  # a cube that was split and goes on serving
    # DCZA of the longer version: D1 = 2^(2 alpha p) ln t.
    return math.exp(ledger.parameters[col.ZOOM_RATE] * level) * math.log(float(step))
