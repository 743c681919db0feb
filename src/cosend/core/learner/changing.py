"""What changes under a learner: arms that join and leave, pause and resume, and axes that come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from typing import Final, Self

import numpy as np

from cosend.alone import Alone, one_at_a_time
from cosend.core.checks import check_whole
from cosend.core.kernel.cos import Asked
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.arms import Arms
from cosend.core.learner.memory import Memory
from cosend.core.learner.registry import Registry
from cosend.core.policy.mixed import NewAxes
from cosend.core.policy.mixed_features import Handed
from cosend.core.policy.parts import Policy
from cosend.errors import SettingError

MOST_FEATURES: Final = 900  # that get axes: a view of one of them is a bit of a double, however high


class Changing:
    """The part of a learner that changes its arms and axes; what is known of the others stays.

    A change is made in a draft, a copy that nobody else knows, and the learner becomes the draft in one statement that
    calls nothing: Ctrl-C comes before or after it. Where only costs change, all else is shared with the draft.
    """

    alone: Alone
    policy: Policy
    arms: Arms
    memory: Memory
    registry: Registry
    dimensions: int
    features: list[tuple[int, int, int]]  # axes, features that never changed, and that did, whenever some came
    _context: Floats
    _asked: Asked

    @one_at_a_time
    def add_own(self, name: str, cost: float = 0.0) -> None:
        """Add a local classifier; what is known of the other arms stays."""
        self._join(lambda arms: arms.add_own(name, cost))

    @one_at_a_time
    def add_peer(self, name: str, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that announces this many classifiers; what is known of the other arms stays."""
        self._join(lambda arms: arms.add_peer(name, cost, functions))

    def _join(self, add: Callable[[Arms], int]) -> None:
        arms = deepcopy(self.arms)
        number = add(arms)
        draft = self._draft(arms)
        draft.memory.insert(number)
        self.__dict__ = draft.__dict__

    def _draft(self, arms: Arms) -> Self:
        draft = copy(self)
        draft.arms, draft.memory, draft.features = arms, self.memory.draft(arms), self.features.copy()
        draft.registry, draft._asked = draft.memory.registry, np.zeros(len(arms), np.bool_)
        return draft

    def _with_costs(self, arms: Arms) -> Self:
        draft = copy(self)
        draft.arms, draft.memory = arms, self.memory.with_costs(arms)
        return draft

    @one_at_a_time
    def remove(self, name: str) -> list[int]:
        """Remove an arm; decisions that wait for its reward are dropped, and their ids returned."""
        arms = deepcopy(self.arms)
        number = arms.remove(name)
        draft = self._draft(arms)
        gone = draft.memory.delete(number)
        for ticket in gone:
            draft.registry.notes.pop(ticket, None)
        self.__dict__ = draft.__dict__
        return gone

    @one_at_a_time
    def set_cost(self, name: str, cost: float) -> None:
        """Change the cost of an arm from now on."""
        arms = deepcopy(self.arms)
        arms.set_cost(name, cost)
        self.__dict__ = self._with_costs(arms).__dict__

    @one_at_a_time
    def pause(self, name: str) -> None:
        """Choose an arm no longer until `resume`; what was learnt of it is kept, and what waits for it goes on."""
        arms = deepcopy(self.arms)
        arms.paused.add(arms.names[arms.number(name)])
        self.__dict__ = self._with_costs(arms).__dict__

    @one_at_a_time
    def resume(self, name: str) -> None:
        """Let an arm be chosen again, with what was known of it."""
        arms = deepcopy(self.arms)
        arms.paused.discard(arms.names[arms.number(name)])
        self.__dict__ = self._with_costs(arms).__dict__

    @one_at_a_time
    def add_axes(self, count: int, same: int = 0, places: Sequence[float] = ()) -> Handed:
        """Add so many axes behind the others, of features that are known now; what is known stays.

        `same` features never changed so far: they get none, and are looked at together. The last axes are of such
        ones that change now, with the `places` where the value lies that they had.
        """
        new = NewAxes(count, same, tuple(places))
        self._check_new(new)
        draft = self._draft(deepcopy(self.arms))
        handed = draft.memory.add_axes(self.dimensions, new)
        draft.features.append((count, same, len(places)))
        draft.dimensions += count
        draft._context = np.zeros(draft.dimensions)
        self.__dict__ = draft.__dict__
        return handed

    @property
    def unchanged(self) -> int:
        """How many features have no axis because they never changed."""
        return sum(same - changed for _, same, changed in self.features)

    def _check_new(self, new: NewAxes) -> None:
        """Raise unless features can get axes, or be looked at together."""
        check_whole("axes", new.axes, least=0 if new.same else 1)
        check_whole("features that never changed", new.same, least=0)
        features = sum(count for count, _, _ in self.features) + self.unchanged + new.axes + new.same - len(new.places)
        if not self.policy.mixes or features > MOST_FEATURES:
            raise SettingError("axes", new.axes, f"added to MixedViews, and at most {MOST_FEATURES} in all")
        if new.same and any(same for _, same, _ in self.features):
            raise SettingError("features that never changed", new.same, "found once")
        if len(new.places) > min(new.axes, self.unchanged):
            raise SettingError("features that changed", len(new.places), "axes of features that never had")
        if not all(0.0 <= place <= 1.0 for place in new.places):
            raise SettingError("places", new.places, "within [0, 1]")
