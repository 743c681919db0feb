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
    Waiting,
    find_waiting,
    grown_waiting,
    moved_waiting,
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


AT_ONCE: Final = 5_000  # rows that are copied in one step
LARGE: Final = 2**15  # slots of a table that is not grown in no time
MOST_NEW: Final = 10_000  # ids since what waits was copied; then it is copied again
GONE: Final = -1  # the arm of what became overdue, when that arm has left


class Waits(NamedTuple):
    """A choice, or an answer to a peer, whose label has not come."""

    id: int
    row: int
    arm: int
    kind: int  # TRAIN, EXPLORE, EXPLOIT or TAUGHT
    arrival: int  # the site's arrivals by then
    context: tuple[float, ...]  # empty if a late label needs none


class Room(NamedTuple):
    """Room for twice as much that waits, into which the contexts of what waits now were copied."""

    of: Floats
    contexts: Floats
    entries: Ints  # empty
    last: int  # the newest id when the copy was begun


def arrays_of(entries: Ints, contexts: Floats) -> tuple[Ints, Floats]:
    """Return copies of what stands in a table as numbers and contexts, the oldest first."""
    slots = np.flatnonzero(entries[:, col.WAIT_ID])
    slots = slots[np.argsort(entries[slots, col.WAIT_ID])]
    facts, kept = np.empty((len(slots), col.WAIT_FACTS), np.int64), np.empty((len(slots), contexts.shape[1]))
    for start in range(0, len(slots), AT_ONCE):  # else all other threads would wait for it
        some = slice(start, start + AT_ONCE)
        found = entries[slots[some]]
        facts[some], kept[some] = found[:, : col.WAIT_FACTS], contexts[found[:, col.WAIT_SPOT]]
    return facts, kept


def ids_among(entries: Ints, last: int) -> Ints:
    """Return the ids in a table up to one, in their order."""
    ids = entries[:, col.WAIT_ID].copy()
    return np.sort(ids[(ids > 0) & (ids <= last)])


def not_among(ids: Ints, others: Ints) -> Ints:
    """Return those ids that are not among others, both in their order; other threads can go on meanwhile."""
    if not len(others):
        return ids
    places = np.minimum(np.searchsorted(others, ids), len(others) - 1)
    found: Ints = ids[others[places] != ids]
    return found


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
        self._room: Room | None = None

    def draft(self) -> Registry:
        """Return a copy for a change; what waits is shared with it, and `part` comes before any change of that."""
        other = copy(self)
        other._overdue = self._overdue.copy()
        return other

    def part(self) -> None:
        """Share what waits with no other any more; a million decisions take a while to copy."""
        self.table = self.table._replace(entries=self.table.entries.copy(), contexts=self.table.contexts.copy())
        self.notes = self.notes.copy()

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

    def of_arm(self, arm: int) -> Ints:
        """Return [id, (id, row, arm, kind, arrival)] of what waits for the reward of an arm, the oldest first."""
        entries = self.table.entries
        found = entries[(entries[:, col.WAIT_ID] > 0) & (entries[:, col.WAIT_ARM] == arm), : col.WAIT_FACTS]
        return found[np.argsort(found[:, col.WAIT_ID])]

    def arrays(self) -> tuple[Ints, Floats]:
        """Return copies of all that waits as numbers and contexts, the oldest first."""
        return arrays_of(self.table.entries, self.table.contexts)

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

    @property
    def is_filling_up(self) -> bool:
        """Whether more room should be made now, in a table that is so large that this takes a while."""
        slots, room = len(self.table.entries), self._room
        if slots < LARGE or 4 * len(self) <= slots or 2 * self.patience.max_waiting <= slots:
            return False
        return room is None or room.of is not self.table.contexts or self.table.desk[col.TICKETS] - room.last > MOST_NEW

    def make_room(self) -> None:
        """Copy what is large to where there is more room, before it is needed; another thread may do this."""
        table, room, last = self.table, self._room, int(self.table.desk[col.TICKETS])
        if room is None or room.of is not table.contexts:  # the first touch of memory takes longer than any other
            larger = np.full((len(table.entries) + 1, table.contexts.shape[1]), 0.0)
            room = Room(table.contexts, larger, np.full((2 * len(table.entries), col.WAIT_COLUMNS), 0, np.int64), last)
        room.contexts[: len(table.contexts)] = table.contexts
        self._room = room._replace(last=last)

    def grown(self) -> Waiting:
        """Return the table with twice the room."""
        room, self._room = self._room, None
        if room is None or room.of is not self.table.contexts:
            return grown_waiting(self.table)
        entries = self.table.entries
        spots = entries[entries[:, col.WAIT_ID] > room.last, col.WAIT_SPOT]  # rows that were used since
        room.contexts[spots] = room.of[spots]
        return moved_waiting(self.table, Waiting(room.entries, room.contexts, self.table.desk))

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
