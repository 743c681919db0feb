"""Looking at what a learner knows; nothing changes by it."""

from __future__ import annotations

from cosend.core.kernel import entry_points
from cosend.core.learner.arms import Arms
from cosend.core.learner.inspection import compare_views, explained, look_inside
from cosend.core.learner.memory import Memory
from cosend.core.learner.points import PointLike, bad_context, read_point
from cosend.core.learner.values import Cell, Explanation, View
from cosend.core.policy.parts import Policy
from cosend.errors import SettingError


class Looking:
    """The part of a learner that shows what it knows."""

    name: str
    dimensions: int
    policy: Policy
    arms: Arms
    memory: Memory

    def cells(self) -> dict[int, Cell]:
        """Return what is known of every visited cell, by the cell's key as in `Choice.cell`."""
        return look_inside(self.memory.ledger, {**self.arms.own, **self.arms.peers})

    def views(self) -> list[View]:
        """Return the parts of the context that compete to be trusted, and how each of them fares."""
        return compare_views(self.memory.ledger)

    def explain(self, context: PointLike) -> list[Explanation]:
        """Return what every view of `MixedViews` forecasts for a context, the largest weight first."""
        if not self.policy.mixes:
            raise SettingError("policy", self.policy, "one that mixes views, to be explained")
        point = read_point(self.name, context, self.dimensions)
        axis = entry_points.forecast_one(self.memory.arrays, point)
        if axis >= 0:
            raise bad_context(self.name, point, axis)
        return explained(self.memory.ledger, self.arms.names)
