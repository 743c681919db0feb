"""The slow twins of `ChangeAware` around every policy (exactness: Arms that change)."""

from tests.oracle.index_twin import IndexTwin
from tests.oracle.thompson_twin import ThompsonTwin
from tests.oracle.twin import Twin
from tests.oracle.twin_values import Pick, Place, TwinArm, TwinCell, TwinChoice, TwinSettings, Waiting
from tests.oracle.zooming_twin import ZoomingIndexTwin, ZoomingTwin

LOOK_SHARE = 0.05  # of all errors may be errors of looks


def clamped(reward: float) -> float:
    """Return what a window takes a reward for."""
    return min(max(reward, 0.0), 1.0)


def has_changed(arm: TwinArm, reward: float) -> bool:
    """Enter a reward in the window; at a change, which is told, the rewards start again from what is kept."""
    is_change = arm.window.enter(clamped(reward))
    if is_change:
        arm.reward_count, arm.reward_sum = arm.window.count, arm.window.total
    return is_change


class ChangesTwin(Twin):
    """A learner that forgets the rewards from before a change. Alone it is the twin around CoS."""

    def __init__(self, settings: TwinSettings) -> None:
        """Start with no change and no look."""
        super().__init__(settings)
        self.changes = 0  # for tests that want to know whether there were any
        self.looks = 0

    def enter_choice(self, place: Place, pick: Pick) -> TwinChoice:
        """Note when the arm was used last."""
        phase, arm, _ = pick
        used = self._cells[place[1]].arms[arm]
        used.last = max(used.last, self._number())
        self.looks += phase == "look"
        return super().enter_choice(place, pick)

    def _add_reward(self, cell: TwinCell | None, waited: Waiting, reward: float) -> None:
        super()._add_reward(cell, waited, reward)
        if cell is None:
            return
        arm = cell.arms[waited.arm]
        arm.errors += 1 - clamped(reward)
        if waited.kind == "look":
            arm.look_errors += 1 - clamped(reward)
        self.changes += has_changed(arm, reward)


class LooksTwin(ChangesTwin, IndexTwin):
    """A learner that also looks at arms it left, and expects more of arms that rise, if told so."""

    def _pick_by_index(self, cell: TwinCell) -> Pick:
        return self._look_at(cell) or super()._pick_by_index(cell)

    def _look_at(self, cell: TwinCell) -> Pick | None:
        arms = {name: cell.arms[name] for name in (*self._own, *self._peers)}
        errors = look_errors = 0.0
        for arm in arms.values():
            errors += arm.errors
            look_errors += arm.look_errors
        tried = [name for name, arm in arms.items() if arm.reward_count > 0 and not self._is_out(name)]
        if not self._settings.rising or not look_errors + 1 <= LOOK_SHARE * errors or not tried:
            return None
        return "look", min(tried, key=lambda name: arms[name].last), 1  # the first of equals

    def _known(self, arm: TwinArm) -> tuple[float, float]:
        rise = arm.window.rise() if self._settings.rising else None
        return super()._known(arm) if rise is None else (rise[0], rise[1] + arm.waiting_count)


class ChangesThompsonTwin(LooksTwin, ThompsonTwin):
    """Around `CellThompson`. The rewards over all cells have windows of their own."""

    def _add_reward(self, cell: TwinCell | None, waited: Waiting, reward: float) -> None:
        super()._add_reward(cell, waited, reward)
        has_changed(self._overall[waited.arm], reward)  # looks too, and also if the cell was never visited


class ChangesZoomingTwin(ChangesTwin, ZoomingTwin):
    """Around `Zooming`."""


class ChangesZoomingIndexTwin(LooksTwin, ZoomingIndexTwin):
    """Around `ZoomingKLUCB`."""
