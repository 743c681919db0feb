"""The slow twin of `CellKLUCB`: everything as in the twin of CoS, except how it chooses and how fine its cells are."""

import math
from dataclasses import dataclass

from tests.oracle.twin import Twin
from tests.oracle.twin_draws import ANSWER_OWED, BEST_TIE, hash_words
from tests.oracle.twin_values import Ask, Pick, Place, TwinArm, TwinCell, TwinSettings, count_of, mean_of


@dataclass(frozen=True, kw_only=True)
class IndexTwinSettings(TwinSettings):
    """What an index twin is told; counts are kept unless said otherwise (exactness: Index policies)."""

    doubling: str = "keep"
    share_labels: str = "always"


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


class IndexTwin(Twin):
    """One learner that follows the largest index. It asks and trains nobody."""

    def _pick(self, cell: TwinCell, ask: Ask) -> Pick:
        costs = self._in(self._own, self._peers)
        indices = {
            name: self._index(cell.arrivals, cell.arms[name], self._burst(cell, name)) - cost
            for name, cost in costs.items()
        }
        largest = max(indices.values())
        candidates = [name for name, index in indices.items() if index == largest]
        arm = self._one_of(candidates, BEST_TIE, self._next_id)
        return self._phase_of(cell, arm), arm, len(candidates)

    def pick_answer(self, place: Place, caller: str, request: int, training: bool) -> str:
        """Choose the own function that answers: the one that may be the best if a label will follow."""
        if not training and not self.shares_all():
            return super().pick_answer(place, caller, request, training)
        cell = self._look(place[1])
        seen = cell.arrivals + cell.taught
        indices = {name: self._index(seen, cell.arms[name]) - cost for name, cost in self._in(self._own).items()}
        largest = max(indices.values())
        candidates = [name for name, index in indices.items() if index == largest]
        return self._one_of(candidates, ANSWER_OWED, request, hash_words(caller)[0])

    def _burst(self, cell: TwinCell, arm: str) -> float:
        """Return how many rewards of an arm count as one while items of its cell wait for theirs."""
        waiting = sum(each.waiting_count - each.answering_count for each in cell.arms.values())
        share = min(1.0, waiting / max(1.0, cell.arms[arm].reward_count))
        return math.sqrt(1 + waiting * share * share)

    def _index(self, items: int, arm: TwinArm, burst: float = 1.0) -> float:
        """Return how good an arm may be, before its cost."""
        if count_of(arm) == 0:
            return 3.0
        return bound(max(0.0, mean_of(arm)), math.log(max(1, items)) * burst / count_of(arm))

    def _phase_of(self, cell: TwinCell, arm: str) -> str:
        is_best = arm in self._best(cell, self._in(self._own, self._peers))
        return "exploit" if is_best and count_of(cell.arms[arm]) > 0 else "explore"

    def _slices_now(self, alphas: int = 2) -> int:
        return super()._slices_now(alphas)
