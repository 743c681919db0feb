"""The slow twins of `Zooming` and `ZoomingKLUCB`: the same choices in other cells (exactness: Cubes that split)."""

import math
from dataclasses import dataclass

from tests.oracle.index_twin import IndexTwin
from tests.oracle.twin import Twin
from tests.oracle.twin_values import CellKey, Context, TwinArm, TwinCell, TwinSettings, mean_of, net_mean

LN2 = math.log(2)
MAX_LEVEL = 50


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
        """Start with no cube, not even the root. Cubes never double."""
        super().__init__(settings)
        self._is_doubling = False
        self._keeps_late_labels = settings.inherit > 0

    def _rate(self) -> float:
        """Return how fast the arrivals that a cube needs to split grow with its level."""
        return 2 * self._settings.alpha

    def _is_unresolved(self, cell: TwinCell) -> bool:
        """Tell whether a smaller cube may help."""
        return True

    def _quota(self, cell: TwinCell) -> float:
        return math.exp((2 * self._settings.alpha * LN2) * cell.level) * math.log(self._step())

    def _find(self, point: Context) -> CellKey:
        """Return the smallest visited cube that holds a point, split or not; the root if none was visited."""
        level = 0
        while self._cell_of(point, 2 ** (level + 1)) in self._cells:
            level += 1
        return self._cell_of(point, 2**level)

    def _enter(self, point: Context) -> CellKey:
        """Return the cube that a point belongs to, which may be a child begun for it."""
        key = super()._enter(point)
        parent = self._cells[key]
        limit = math.inf if self._settings.max_cells is None else self._settings.max_cells
        if not parent.is_split or len(self._cells) >= limit:
            return key
        child = self._cell_of(point, 2 ** (parent.level + 1))
        self._cells[child] = self._begin_child(parent)
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
        """Return the items that count for a split."""
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
