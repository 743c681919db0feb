"""The slow twin of `CellKLUCB`: everything as in the twin of CoS, except how it chooses and how fine its cells are."""

import math
from dataclasses import dataclass

from tests.oracle.twin import BEST_TIE, Ask, Pick, Twin, TwinArm, TwinCell, TwinSettings


@dataclass(frozen=True, kw_only=True)
class IndexTwinSettings(TwinSettings):
    """What an index twin is told; counts are kept unless said otherwise (exactness: Index policies)."""

    doubling: str = "keep"


def kl(mean: float, q: float) -> float:
    """Return the divergence of a coin with this mean from a coin with mean q."""
    return mean * math.log(mean / q) + (1 - mean) * math.log((1 - mean) / (1 - q))


def bound(mean: float, level: float) -> float:
    """Return how large the true mean may still be (exactness: Index policies)."""
    if mean >= 1 or level <= 0:
        return min(mean, 1.0)
    if mean <= 0:
        return 1 - math.exp(-level)
    entropy = -mean * math.log(mean) - (1 - mean) * math.log(1 - mean)
    start = min(mean + math.sqrt(level / 2), 1 - math.exp(-(level + entropy) / (1 - mean)))
    q, step = start, math.inf
    while step > 1e-9 and mean < q < 1:
        step = (kl(mean, q) - level) * q * (1 - q) / (q - mean)
        q = q - step
    return max(mean, min(q, start, 1.0))


def count_of(arm: TwinArm) -> int:
    """Return the rewards received plus the choices that still wait for theirs."""
    return arm.reward_count + arm.waiting_count


def index_of(arm: TwinArm, cost: float, arrivals: int) -> float:
    """Return the index of an arm in a cell with so many own arrivals before this item."""
    if count_of(arm) == 0:
        return 3 - cost
    mean = max(0.0, arm.reward_sum / arm.reward_count) if arm.reward_count > 0 else 0.0
    return bound(mean, math.log(max(1, arrivals)) / count_of(arm)) - cost


class IndexTwin(Twin):
    """One learner that follows the largest index. It asks and trains nobody."""

    def _pick(self, cell: TwinCell, ask: Ask) -> Pick:
        costs = {**self._own, **self._peers}
        indices = {name: index_of(cell.arms[name], cost, cell.arrivals) for name, cost in costs.items()}
        largest = max(indices.values())
        candidates = [name for name, index in indices.items() if index == largest]
        arm = self._one_of(candidates, BEST_TIE, self._next_id)
        explores = count_of(cell.arms[arm]) == 0 or arm not in self._best(cell, costs)
        return "explore" if explores else "exploit", arm, len(candidates)

    def _slices_now(self, alphas: int = 2) -> int:
        return super()._slices_now(alphas)
