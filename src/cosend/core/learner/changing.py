"""What changes under a learner: arms that join and leave, pause and resume, and axes that come."""

from __future__ import annotations

from typing import Final

import numpy as np

from cosend.core.checks import check_whole
from cosend.core.kernel.cos import Asked
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.arms import Arms
from cosend.core.learner.memory import Memory
from cosend.core.policy.parts import Policy
from cosend.errors import SettingError

MOST_FEATURES: Final = 900  # that get axes: a view of one of them is a bit of a double, however high


class Changing:
    """The part of a learner that changes its arms and axes; what is known of the others stays."""

    policy: Policy
    arms: Arms
    memory: Memory
    dimensions: int
    features: list[int]
    _context: Floats
    _asked: Asked

    def add_own(self, name: str, cost: float = 0.0) -> None:
        """Add a local classifier; what is known of the other arms stays."""
        self._joined(self.arms.add_own(name, cost))

    def add_peer(self, name: str, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that announces this many classifiers; what is known of the other arms stays."""
        self._joined(self.arms.add_peer(name, cost, functions))

    def _joined(self, number: int) -> None:
        self.memory.insert(number)
        self._asked = np.zeros(len(self.arms), np.bool_)

    def remove(self, name: str) -> list[int]:
        """Remove an arm; decisions that wait for its reward are dropped, and their ids returned."""
        gone = self.memory.delete(self.arms.remove(name))
        self._asked = np.zeros(len(self.arms), np.bool_)
        for ticket in gone:
            self.memory.registry.notes.pop(ticket, None)
        return gone

    def set_cost(self, name: str, cost: float) -> None:
        """Change the cost of an arm from now on."""
        self.arms.set_cost(name, cost)
        self.memory.costs_changed()

    def pause(self, name: str) -> None:
        """Choose an arm no longer until `resume`; what was learnt of it is kept, and what waits for it goes on."""
        self.arms.number(name)
        self.arms.paused.add(name)
        self.memory.costs_changed()

    def resume(self, name: str) -> None:
        """Let an arm be chosen again, with what was known of it."""
        self.arms.number(name)
        self.arms.paused.discard(name)
        self.memory.costs_changed()

    def add_axes(self, count: int) -> None:
        """Add so many axes behind the others, of features that are known now; what is known stays."""
        check_whole("axes", count)
        if not self.policy.mixes or sum(self.features) + count > MOST_FEATURES:
            allowed = f"added to MixedViews, and at most {MOST_FEATURES} in all"
            raise SettingError("axes", count, allowed)
        self.memory.add_axes(self.dimensions, count)
        self.features.append(count)
        self.dimensions += count
        self._context = np.zeros(self.dimensions)
