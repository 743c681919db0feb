"""Late labels: what waits for its label, by id, until the label comes or the wait is over."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from cosend.core.checks import check_unit, check_whole, make_plain
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import Floats, Ints
from cosend.core.kernel.waiting import (
    find_waiting,
    grown_waiting,
    new_waiting,
    oldest_waiting,
    remove_waiting,
    slot_of,
)
from cosend.errors import SettingError


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long, and for how many labels, a site waits.

    wait_limit   arrivals after which a decision is overdue, or None to wait for ever
    max_waiting  how many may wait at once; one more makes the oldest overdue
    overdue      "drop" an overdue decision as if it had not been made, or the gain in [0, 1] that it gets instead

    >>> from cosend import Learner
    >>> learner = Learner("edge", own={"one": 0.0}, patience=Patience(wait_limit=2))
    >>> for _ in range(5):
    ...     choice = learner.choose(0.5)
    >>> learner.waiting_count  # the last choice, and those of the two arrivals before it
    3
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


GONE: Final = -1  # the arm of what became overdue, when that arm has left


class Waits(NamedTuple):
    """A choice, or an answer to a peer, whose label has not come."""

    id: int
    row: int
    arm: int
    kind: int  # TRAIN, EXPLORE, EXPLOIT or TAUGHT
    arrival: int  # the site's arrivals by then
    context: tuple[float, ...]  # empty if a late label needs none


class Registry:
    """The one place where it stands what waits: a table that the compiled rules keep, and a note beside each id.

    A note is whatever the owner of the learner needs when the label comes. It is only as good as its id: one whose id
    does not wait is nothing, so the two cannot contradict each other.
    """

    def __init__(self, desk: Ints, patience: Patience, axes: int) -> None:
        self.patience = patience
        self.table = new_waiting(desk, axes, patience.wait_limit, patience.max_waiting)
        self.notes: dict[int, Any] = {}
        self._overdue: list[tuple[int, int, int]] = []

    def draft(self) -> Registry:
        """Return a copy that can be changed while this one stays as it is."""
        other = copy(self)
        other.table = self.table._replace(entries=self.table.entries.copy(), contexts=self.table.contexts.copy())
        other.notes, other._overdue = self.notes.copy(), self._overdue.copy()
        return other

    def __len__(self) -> int:
        return int(self.table.desk[col.WAIT_COUNT])

    def __contains__(self, ticket: object) -> bool:
        if not isinstance(ticket, int | np.integer) or not 0 < ticket < 2**63:
            return False
        return find_waiting(self.table.entries, int(ticket)) >= 0

    def ids(self) -> list[int]:
        """Return the ids of all that waits, the oldest first."""
        ids: list[int] = self.arrays()[0][:, col.WAIT_ID].tolist()
        return ids

    def entries(self) -> list[Waits]:
        """Return all that waits, the oldest first."""
        numbers, contexts = self.arrays()
        points = [tuple(context) for context in contexts.tolist()]
        rows: list[Any] = [(*entry, point) for entry, point in zip(numbers.tolist(), points, strict=True)]
        return [Waits(*row) for row in rows]

    def of_arm(self, arm: int) -> list[Waits]:
        """Return what waits for the reward of an arm."""
        return [entry for entry in self.entries() if entry.arm == arm]

    def arrays(self) -> tuple[Ints, Floats]:
        """Return all that waits as numbers and contexts, the oldest first."""
        slots = np.flatnonzero(self.table.entries[:, col.WAIT_ID])
        slots = slots[np.argsort(self.table.entries[slots, col.WAIT_ID])]
        entries = self.table.entries[slots]
        return entries[:, : col.WAIT_FACTS], self.table.contexts[entries[:, col.WAIT_SPOT]]

    def fill(self, numbers: Ints, contexts: Floats) -> None:
        """Enter what waited when a state was saved; the registry must be empty."""
        if 2 * len(numbers) >= len(self.table.entries):
            self.table = grown_waiting(self.table, len(numbers))
        self.table.contexts[: len(contexts)] = contexts
        for spot, entry in enumerate(numbers):
            slot = slot_of(self.table.entries, int(entry[col.WAIT_ID]))
            self.table.entries[slot, : col.WAIT_FREE] = *entry, spot
        self.table.desk[col.WAIT_COUNT] = len(numbers)

    def has_room(self) -> bool:
        """Tell whether one more can be entered before the table must grow."""
        return bool(2 * self.table.desk[col.WAIT_COUNT] < len(self.table.entries))

    def take_overdue(self) -> list[tuple[int, int, int]]:
        """Return (id, arm, kind) of what became overdue since the last call."""
        if not self._overdue and not self.table.desk[col.OVERDUE_COUNT]:
            return []
        self.collect_overdue()
        taken, self._overdue = self._overdue, []
        return taken

    def collect_overdue(self) -> None:
        """Take what became overdue off the desk, where there is room for a few only."""
        desk = self.table.desk
        count = int(desk[col.OVERDUE_COUNT])
        if count:
            columns = desk[col.OVERDUE : col.OVERDUE + 3 * count].reshape(-1, 3).T.tolist()
            self._overdue += zip(*columns, strict=True)
            desk[col.OVERDUE_COUNT] = 0

    def may_overflow(self, count: int, arrivals: int) -> bool:
        """Tell whether anything could become overdue during the next `count` arrivals."""
        limit = self.patience.wait_limit
        if len(self) + count > self.patience.max_waiting:
            return True
        if limit is None or not len(self):
            return limit is not None and count > limit
        oldest = self.table.entries[oldest_waiting(self.table), col.WAIT_ARRIVAL]
        return count > limit or bool(arrivals + count - oldest > limit)

    def forget(self, tickets: list[int]) -> None:
        """Take ids out of the table without touching any count: their arm is gone."""
        for ticket in tickets:
            remove_waiting(self.table, find_waiting(self.table.entries, ticket))

    def renumber(self, arm: int, by: int) -> None:
        """Add to the numbers of all arms from `arm` on, because one has joined or left before them."""
        numbers = self.table.entries[:, col.WAIT_ARM]
        numbers[numbers >= arm] += by
        self.collect_overdue()
        self._overdue = [(ticket, old + by * (old >= arm), kind) for ticket, old, kind in self._overdue]

    def forget_arm(self, arm: int) -> None:
        """Forget of which arm something was that became overdue, because that arm is gone."""
        self.collect_overdue()
        self._overdue = [(ticket, GONE if old == arm else old, kind) for ticket, old, kind in self._overdue]
