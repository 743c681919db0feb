"""Late labels: what waits for its label, by id, until the label comes or the wait is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from cosend.core.checks import check_unit, check_whole, make_plain
from cosend.errors import SettingError, SettledDecision, UnknownDecision

# A choice, or an answer to a peer, whose label has not come: (row, arm, kind, arrival, context).
# `kind` is TRAIN, EXPLORE, EXPLOIT or TAUGHT; `arrival` the site's arrivals by then; `context` is empty if the row is
# the only one and stays. A plain tuple, because millions may wait and the garbage collector passes over these.
Waiting: TypeAlias = tuple[int, int, int, int, tuple[float, ...]]
ARM: Final = 1
KIND: Final = 2
ARRIVAL: Final = 3
CONTEXT: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long, and for how many labels, a site waits.

    wait_limit   arrivals after which a decision is overdue, or None to wait for ever
    max_waiting  how many may wait at once; one more makes the oldest overdue
    overdue      "drop" an overdue decision as if it had not been made, or the gain in [0, 1] that it gets instead
    """

    wait_limit: int | None = None
    max_waiting: int = 1_000_000
    overdue: Literal["drop"] | float = "drop"

    def __post_init__(self) -> None:
        make_plain(self)
        if self.wait_limit is not None:
            check_whole("wait_limit", self.wait_limit)
        check_whole("max_waiting", self.max_waiting)
        if self.overdue != "drop":
            if isinstance(self.overdue, str):
                raise SettingError("overdue", self.overdue, "'drop' or a gain in [0, 1]")
            check_unit("overdue", self.overdue, "decisions whose label never comes")


class WaitingRoom:
    """What waits, in the order of the ids, which are given out one after the other."""

    def __init__(self, site: str, patience: Patience) -> None:
        self.site = site
        self.patience = patience
        self.entries: dict[int, Waiting] = {}
        self.last = 0
        self._oldest = 1  # no smaller id waits; walking up costs less than searching the dictionary's front

    def require(self, decision: int) -> Waiting:
        """Return what waits under an id, or raise."""
        if type(decision) is int or isinstance(decision, np.integer):  # 1.0 and True equal 1, but are no ids
            entry = self.entries.get(decision)
            if entry is not None:
                return entry
            if 1 <= decision <= self.last:
                raise SettledDecision(self.site, decision)
        raise UnknownDecision(self.site, decision, self.last)

    def overdue(self, arrival: int) -> int | None:
        """Return the oldest id if it has waited too long when the `arrival`-th item comes, else None."""
        limit = self.patience.wait_limit
        if limit is None or not self.entries:
            return None
        oldest = self.oldest()
        return oldest if arrival - self.entries[oldest][ARRIVAL] > limit else None

    def oldest(self) -> int:
        """Return the smallest id that waits."""
        while self._oldest not in self.entries:
            self._oldest += 1
        return self._oldest

    def may_overflow(self, count: int, arrivals: int) -> bool:
        """Tell whether anything could become overdue during the next `count` arrivals."""
        limit = self.patience.wait_limit
        if len(self.entries) + count > self.patience.max_waiting:
            return True
        return limit is not None and (count > limit or self.overdue(arrivals + count) is not None)

    def leave(self, arm: int) -> list[int]:
        """Forget what waits for an arm that leaves, and close the gap it leaves in the numbers of the arms."""
        gone = [id_ for id_, entry in self.entries.items() if entry[ARM] == arm]
        for id_ in gone:
            del self.entries[id_]
        self._renumber(lambda number: number - (number > arm))
        return gone

    def make_space(self, arm: int) -> None:
        """Make space for a new arm in the numbers of the arms."""
        self._renumber(lambda number: number + (number >= arm))

    def _renumber(self, number_of: Callable[[int], int]) -> None:
        self.entries = {
            id_: (row, number_of(arm), kind, arrival, context)
            for id_, (row, arm, kind, arrival, context) in self.entries.items()
        }
