"""How many samples an arm is owed: the control functions D1, D2 and D3 of the paper.

D1 = D3 = t^z ln t for exploration, D2 = F_max t^z ln t for the training of a peer. An arm is owed a sample
while its count is <= the quota: at t = 1 the quota is 0, and 0 <= 0 explores.
"""

from __future__ import annotations

import math

from cosend.core.compiled import compiled


def exponent_for(alpha: float, dimensions: int) -> float:
    """Return z = 2 alpha / (3 alpha + d), the exponent of Theorem 1."""
    return 2 * alpha / (3 * alpha + dimensions)


@compiled
def exploration_quota(step: int, exponent: float) -> float:
    """Return D1(t) = D3(t) = t^z ln t; the power by way of the logarithm, which is needed anyway."""
    log_step = math.log(float(step))
    return math.exp(exponent * log_step) * log_step


@compiled
def training_quota(exploration: float, max_peer_functions: int) -> float:
    """Return D2(t) = F_max D1(t)."""
    return max_peer_functions * exploration
