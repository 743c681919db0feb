"""The slow twins of `CellKLUCB`, `Zooming` and `ZoomingKLUCB`: the twin of CoS, with other choices or other cells."""

import math
from dataclasses import dataclass

from tests.oracle.twin import (
    ANSWER_OWED,
    BEST_TIE,
    Ask,
    CellKey,
    Context,
    Pick,
    Twin,
    TwinArm,
    TwinCell,
    TwinSettings,
    count_of,
    hash_words,
    mean_of,
    net_mean,
)

LN2 = math.log(2)
MAX_LEVEL = 50


@dataclass(frozen=True, kw_only=True)
class IndexTwinSettings(TwinSettings):
    """What an index twin is told (exactness: Index policies)."""

    share_labels: str = "always"


def kl(mean: float, q: float) -> float:
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

    keeps = True

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

    def _pick_answer(self, cell: TwinCell, caller: str, request: int, training: bool) -> str:
        """Choose the own function that answers: the one that may be the best if a label will follow."""
        if not training and not self.shares_all():
            return super()._pick_answer(cell, caller, request, training)
        seen = cell.arrivals + cell.taught
        indices = {name: self._index(seen, cell.arms[name]) - cost for name, cost in self._in(self._own).items()}
        largest = max(indices.values())
        candidates = [name for name, index in indices.items() if index == largest]
        return self._one_of(candidates, ANSWER_OWED, request, hash_words(caller)[0])

    def _burst(self, cell: TwinCell, arm: str) -> float:
        """Return how many rewards of an arm count as one while items of its cell wait for theirs."""
        waiting = sum(each.pending_count - each.answering_count for each in cell.arms.values())
        share = min(1.0, waiting / max(1.0, cell.arms[arm].reward_count))
        return math.sqrt(1 + waiting * share * share)

    def _index(self, items: int, arm: TwinArm, burst: float = 1.0) -> float:
        if count_of(arm) == 0:
            return 3.0
        return bound(max(0.0, mean_of(arm)), math.log(max(1, items)) * burst / count_of(arm))

    def _phase_of(self, cell: TwinCell, arm: str) -> str:
        is_best = arm in self._best(cell, self._in(self._own, self._peers))
        return "exploit" if is_best and count_of(cell.arms[arm]) > 0 else "explore"

    def _slices_now(self, alphas: int = 2) -> int:
        return super()._slices_now(alphas)


@dataclass(frozen=True, kw_only=True)
class ZoomingIndexTwinSettings(TwinSettings):
    """What a twin of `ZoomingKLUCB` is told: it splits later than `Zooming`, and children inherit."""

    split_after: float = 16.0
    inherit: float = 8.0
    lipschitz: float = 2.0
    share_labels: str = "always"


class CubesTwin(Twin):
    """One learner whose cells are cubes. A cube of level p is a cell of the partition into 2^p slices."""

    def __init__(self, settings: TwinSettings) -> None:
        super().__init__(settings)
        self._is_doubling = False
        self._keeps_late_labels = settings.inherit > 0

    def _rate(self) -> float:
        return 2 * self._settings.alpha

    def _is_unresolved(self, cell: TwinCell) -> bool:
        return True

    def _quota(self, cell: TwinCell) -> float:
        return math.exp((2 * self._settings.alpha * LN2) * cell.level) * math.log(self._step())

    def _find(self, point: Context) -> CellKey:
        """Return the smallest visited cube that holds a point, split or not; the root if none was visited."""
        level = 0
        while self._cell_of(point, 2 ** (level + 1)) in self.cells:
            level += 1
        return self._cell_of(point, 2**level)

    def _enter(self, point: Context) -> CellKey:
        key = super()._enter(point)
        parent = self.cells[key]
        limit = math.inf if self._settings.max_cells is None else self._settings.max_cells
        if not parent.is_split or len(self.cells) >= limit:
            return key
        child = self._cell_of(point, 2 ** (parent.level + 1))
        self.cells[child] = self._begin_child(parent)
        return child

    def _per_steepness(self, number: float) -> float:
        """Return a number as it is for accuracies this steep; `Zooming` has no steepness but 1."""
        return number / self._settings.lipschitz / self._settings.lipschitz

    def _begin_child(self, parent: TwinCell) -> TwinCell:
        cap = self._per_steepness(self._settings.inherit) * math.exp((2 * self._settings.alpha * LN2) * parent.level)
        child = self._blank()
        child.level = parent.level + 1
        for name, arm in parent.arms.items():
            count = min(arm.reward_count, cap)
            if count > 0:
                child.arms[name] = TwinArm(reward_count=count, reward_sum=count * mean_of(arm))
        return child

    def _after_choice(self, cell: TwinCell) -> None:
        if self._settings.categories and self._axes == 0:  # nothing to cut (exactness: Categories)
            return
        needed = self._per_steepness(self._settings.split_after) * math.exp((self._rate() * LN2) * cell.level)
        if cell.level < MAX_LEVEL and self._evidence(cell) >= needed and self._is_unresolved(cell):
            cell.is_split = True

    def _evidence(self, cell: TwinCell) -> float:
        return cell.arrivals


class ZoomingTwin(CubesTwin):
    """One learner that chooses as CoS does, with quotas that grow with the level."""

    def _rate(self) -> float:
        alpha = self._settings.alpha
        if self._settings.contexts == "concentrated":
            return 3 * alpha
        return (3 * alpha + math.sqrt(9 * alpha**2 + 8 * alpha * self._axes)) / 2


class ZoomingIndexTwin(CubesTwin, IndexTwin):
    """One learner that chooses as `CellKLUCB` does, and splits while two arms may still be the best."""

    def _burst(self, cell: TwinCell, arm: str) -> float:
        return 1.0

    def _evidence(self, cell: TwinCell) -> float:
        return cell.labels + 1 if cell.labels > 0 else -math.inf

    def _is_unresolved(self, cell: TwinCell) -> bool:
        costs = self._in(self._own, self._peers)
        means = sorted((net_mean(cell.arms[name], cost) for name, cost in costs.items()), reverse=True)
        width = 2 * self._settings.lipschitz * math.exp((-self._settings.alpha * LN2) * cell.level)
        return len(means) > 1 and means[1] >= means[0] - width
