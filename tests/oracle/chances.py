"""How likely mixed views hold what labels say (exactness: Mixed views)."""

import math


def logistic(total: float) -> float:
    """Return how likely a gain is by what adds up to this."""
    return 1 / (1 + math.exp(-min(max(total, -30.0), 30.0)))


def sureness(mean: float) -> float:
    """Return by what the share is multiplied when all views together forecast this of the used arm."""
    certain = 2 * min(max(mean, 0.01), 0.99) - 1
    return max(0.01, (certain * certain) * (certain * certain))


def chance(forecast: float, gain: float) -> float:
    """Return how likely a gain was held to be."""
    q = min(max(forecast, 0.01), 0.99)
    if gain >= 1:
        return q
    if gain <= 0:
        return 1 - q
    return math.exp(gain * math.log(q) + (1 - gain) * math.log(1 - q))
