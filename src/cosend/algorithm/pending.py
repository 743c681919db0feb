"""Pending decisions and answers, by id, until their label comes or they expire.

A hash table in flat arrays, which the same compiled calls fill and empty that choose and learn: a choice and its place
here are one step, which nothing can interrupt. At most half of the slots are used. Consecutive ids are scattered so
that removals do not scan one long run; groups of 8 stay adjacent, because memory near what was just touched is fast.
The context (or the memo of mixed views) of an entry can be long, so it is in a row of its own: one more row than may be
pending, and free rows are reused, so that little memory is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from cosend.algorithm import layout as col
from cosend.algorithm.layout import EMPTY, Floats, Ints
from cosend.checks import check_unit, check_whole, make_plain
from cosend.compiled import compiled, entry_point
from cosend.errors import SettingError

FIRST_CAPACITY: Final = 64
TOGETHER: Final = 8  # adjacent ids; a power of two, as the table is
SPREAD: Final = 2_654_435_761  # odd, so that different ids stay different, and far from a simple share of any table
NO_LIMIT: Final = 2**62

AT_ONCE: Final = 5_000  # rows that are copied in one step
WIDENED: Final = 500  # memos that are made wider in one step,
LOOKED_FOR: Final = 20_000  # and ids among which they are looked for
LARGE: Final = 2**15  # slots of a table that takes a while to grow
MOST_NEW: Final = 10_000  # ids since the last copy of a table that fills up; then it is copied again
GONE: Final = -1  # the arm of an expired decision, when that arm has left


class PendingTable(NamedTuple):
    """The table; the last axis of `entries` is a column of `layout`."""

    entries: Ints  # [slot, column]; a power of two of slots, at most half full
    contexts: Floats  # [spot, axis]; no axes if a late label needs no context; the memo where views are mixed
    counters: Ints  # [column]: `Ledger.site`, because every array that is passed takes time


def new_table(counters: Ints, axes: int, wait_limit: int | None, max_pending: int) -> PendingTable:
    """Return an empty table."""
    counters[col.PENDING_OLDEST], counters[col.PENDING_NARROW] = 1, 0
    counters[col.PENDING_LIMIT] = NO_LIMIT if wait_limit is None else min(wait_limit, NO_LIMIT)
    counters[col.PENDING_MOST] = min(max_pending, NO_LIMIT)
    return _empty_table(FIRST_CAPACITY, axes, counters)


def _empty_table(slots: int, axes: int, counters: Ints) -> PendingTable:
    return PendingTable(np.zeros((slots, col.PENDING_COLUMNS), np.int64), np.zeros((slots // 2 + 1, axes)), counters)


def grown_table(table: PendingTable, capacity: int = 0) -> PendingTable:
    """Return the same table with twice the room, or with room for `capacity` entries."""
    spots, axes = table.contexts.shape
    slots = 1 << (max(2 * len(table.entries), 2 * capacity, FIRST_CAPACITY) - 1).bit_length()
    larger = _empty_table(slots, axes, table.counters)
    larger.contexts[:spots] = table.contexts
    return _moved_to(larger, table)


def _moved_to(larger: PendingTable, table: PendingTable) -> PendingTable:
    """Enter everything in a larger table, which is empty but for the contexts."""
    spots = len(table.contexts)
    larger.entries[:spots, col.PENDING_FREE] = table.entries[:spots, col.PENDING_FREE]
    _copy_entries(table.entries, larger.entries)
    return larger


@entry_point
def _copy_entries(entries: Ints, larger: Ints) -> None:
    for slot in range(entries.shape[0]):
        if entries[slot, col.PENDING_ID]:
            _move_entry(entries, slot, larger, slot_of(larger, entries[slot, col.PENDING_ID]))


@compiled
def _move_entry(entries: Ints, slot: int, others: Ints, free: int) -> None:
    """Copy an entry to a free slot of the same table, or of another; its context stays in its row."""
    for column in range(col.PENDING_SPOT + 1):
        others[free, column] = entries[slot, column]


@compiled
def home_of(id: int, last: int) -> int:
    """Return the slot where the search for an id begins."""
    place = id & last
    return int(((place & -TOGETHER) * SPREAD + place % TOGETHER) & last)


@entry_point
def slot_of(entries: Ints, id: int) -> int:
    """Return the slot of an id, or the free one where it would be."""
    last = entries.shape[0] - 1
    slot = home_of(id, last)
    while entries[slot, col.PENDING_ID] != 0 and entries[slot, col.PENDING_ID] != id:
        slot = (slot + 1) & last
    return slot


@entry_point
def find_pending(entries: Ints, id: int) -> int:
    """Return the slot of an id, or EMPTY if it is not pending."""
    slot = slot_of(entries, id)
    return slot if entries[slot, col.PENDING_ID] != 0 else EMPTY


@entry_point
def spots_of(entries: Ints, ids: Ints, spots: Ints) -> None:
    """Write down the row of the context of each id, or EMPTY if it is not pending."""
    for n in range(ids.shape[0]):
        slot = find_pending(entries, ids[n])
        spots[n] = EMPTY if slot == EMPTY else entries[slot, col.PENDING_SPOT]


@compiled
def can_add(table: PendingTable) -> bool:
    """Tell whether there is room for one more entry, and for the ids that expire because of it."""
    counters = table.counters
    is_half_empty = 2 * counters[col.PENDING_COUNT] < table.entries.shape[0]
    return bool(is_half_empty and counters[col.EXPIRED_COUNT] < col.EXPIRED_AT_ONCE and not _may_not_expire(table))


@compiled
def _may_not_expire(table: PendingTable) -> bool:
    """Tell whether the oldest entry has a memo that must be made wider before anything can expire."""
    counters = table.counters
    if counters[col.PENDING_NARROW] == 0 or counters[col.PENDING_COUNT] == 0:
        return False
    return bool(table.entries[oldest_pending(table), col.PENDING_ID] >= counters[col.PENDING_NARROW])


@compiled
def next_spot(table: PendingTable) -> int:
    """Return the row for the context of the next entry; there is always one more than may be pending."""
    count = table.counters[col.PENDING_COUNT]
    return int(count + table.entries[count, col.PENDING_FREE])


@compiled
def add_pending(table: PendingTable, id: int, row: int, arm: int, kind: int, arrival: int, context: Floats) -> None:
    """Add a choice or an answer; there must be room."""
    spot = next_spot(table)
    for axis in range(table.contexts.shape[1]):
        table.contexts[spot, axis] = context[axis]
    fill_slot(table, slot_of(table.entries, id), id, row, arm, kind, arrival)


@compiled
def fill_slot(table: PendingTable, slot: int, id: int, row: int, arm: int, kind: int, arrival: int) -> None:
    """Add a choice or an answer in a free slot; its context is in the next spot already."""
    entry = table.entries[slot]
    entry[col.PENDING_ID], entry[col.PENDING_ROW], entry[col.PENDING_ARM] = id, row, arm
    entry[col.PENDING_KIND], entry[col.PENDING_ARRIVAL] = kind, arrival
    entry[col.PENDING_SPOT] = next_spot(table)
    table.counters[col.PENDING_COUNT] += 1


@entry_point
def remove_pending(table: PendingTable, slot: int) -> None:
    """Remove the entry of a slot, and move up later entries that are not in their home slot because of it."""
    entries = table.entries
    last, spot = entries.shape[0] - 1, entries[slot, col.PENDING_SPOT]
    hole, probe = slot, (slot + 1) & last
    while entries[probe, col.PENDING_ID] != 0:
        home = home_of(entries[probe, col.PENDING_ID], last)
        if ((probe - home) & last) >= ((probe - hole) & last):
            _move_entry(entries, probe, entries, hole)
            hole = probe
        probe = (probe + 1) & last
    entries[hole, col.PENDING_ID] = 0
    count = table.counters[col.PENDING_COUNT] - 1
    entries[count, col.PENDING_FREE] = spot - count
    table.counters[col.PENDING_COUNT] = count


@entry_point
def oldest_pending(table: PendingTable) -> int:
    """Return the slot of the smallest pending id; there must be one."""
    counters = table.counters
    slot = find_pending(table.entries, counters[col.PENDING_OLDEST])
    while slot == EMPTY:
        counters[col.PENDING_OLDEST] += 1
        slot = find_pending(table.entries, counters[col.PENDING_OLDEST])
    return slot


# The table in Python's hands


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long, and for how many labels, a site waits.

    wait_limit   arrivals after which a decision expires, or None to wait for ever
    max_pending  how many may be pending at once; with one more the oldest expires
    overdue      "drop" an expired decision as if it had not been made, or the gain in [0, 1] that it gets instead

    >>> from cosend import Learner
    >>> learner = Learner("edge", own={"one": 0.0}, patience=Patience(wait_limit=2))
    >>> for _ in range(5):
    ...     choice = learner.choose(0.5)
    >>> learner.pending_count  # the last choice, and those of the two arrivals before it
    3
    """

    wait_limit: int | None = None
    max_pending: int = 1_000_000
    overdue: Literal["drop"] | float = "drop"

    def __post_init__(self) -> None:
        make_plain(self)
        if self.wait_limit is not None:
            check_whole("wait_limit", self.wait_limit)
        check_whole("max_pending", self.max_pending)
        if self.overdue != "drop":
            if isinstance(self.overdue, str):
                raise SettingError("overdue", self.overdue, "'drop' or a gain in [0, 1]")
            check_unit("overdue", self.overdue, "decisions whose label never comes")


class PendingEntry(NamedTuple):
    """A choice, or an answer to a peer, whose label has not come."""

    id: int
    row: int
    arm: int
    kind: int  # TRAIN, EXPLORE, EXPLOIT or TAUGHT
    arrival: int  # the site's arrivals by then
    context: tuple[float, ...]  # empty if a late label needs none


class Narrow(NamedTuple):
    """Memos as they were written before there were more views: of ids up to `last`, but for those before `done`."""

    contexts: Floats
    widen: Callable[[Floats], Floats]  # for this many views more
    last: int
    done: int = 0  # the first id that may not be in the next table yet


class Room(NamedTuple):
    """Room for twice as many entries, into which the contexts of those of now were copied."""

    of: Floats
    contexts: Floats
    entries: Ints  # empty
    last: int  # the newest id when the copy was begun


def arrays_of(entries: Ints, contexts: Floats) -> tuple[Ints, Floats]:
    """Return copies of all entries as numbers and contexts, the oldest first."""
    slots = np.flatnonzero(entries[:, col.PENDING_ID])
    slots = slots[np.argsort(entries[slots, col.PENDING_ID])]
    facts, kept = np.empty((len(slots), col.PENDING_FACTS), np.int64), np.empty((len(slots), contexts.shape[1]))
    for start in range(0, len(slots), AT_ONCE):  # else all other threads would wait for it
        some = slice(start, start + AT_ONCE)
        found = entries[slots[some]]
        facts[some], kept[some] = found[:, : col.PENDING_FACTS], contexts[found[:, col.PENDING_SPOT]]
    return facts, kept


def ids_among(entries: Ints, last: int) -> Ints:
    """Return the ids in a table up to `last`, in order."""
    ids = entries[:, col.PENDING_ID].copy()
    return np.sort(ids[(ids > 0) & (ids <= last)])


def not_among(ids: Ints, others: Ints) -> Ints:
    """Return those ids that are not among others, both in order; NumPy lets other threads run meanwhile."""
    if not len(others):
        return ids
    places = np.minimum(np.searchsorted(others, ids), len(others) - 1)
    found: Ints = ids[others[places] != ids]
    return found


class Registry:
    """Everything that is pending: a table that the compiled rules fill, and a note for each id.

    A note is whatever the owner of the learner needs when the label comes. It is only as good as its id: the note of an
    id that is not pending means nothing, so the two cannot contradict each other.
    """

    def __init__(self, counters: Ints, patience: Patience, axes: int) -> None:
        self.patience = patience
        self.table = new_table(counters, axes, patience.wait_limit, patience.max_pending)
        self.notes: dict[int, Any] = {}
        self._expired: list[tuple[int, int, int]] = []
        self._room: Room | None = None
        self.narrow: tuple[Narrow, ...] = ()  # the oldest first

    def draft(self) -> Registry:
        """Return a copy for a change; it shares the table, and `part` comes before any change of that."""
        other = copy(self)
        other._expired = self._expired.copy()
        return other

    def part(self) -> None:
        """Share the table with no other registry any more; a million decisions take a while to copy."""
        self.table = self.table._replace(entries=self.table.entries.copy(), contexts=self.table.contexts.copy())
        self.notes = self.notes.copy()

    def __len__(self) -> int:
        return int(self.table.counters[col.PENDING_COUNT])

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, int | np.integer) or not 0 < id < 2**63:
            return False
        return find_pending(self.table.entries, int(id)) >= 0

    def ids(self) -> list[int]:
        """Return all pending ids, the oldest first."""
        ids: list[int] = self.arrays()[0][:, col.PENDING_ID].tolist()
        return ids

    def entries(self) -> list[PendingEntry]:
        """Return all entries, the oldest first."""
        numbers, contexts = self.arrays()
        points = [tuple(context) for context in contexts.tolist()]
        rows: list[Any] = [(*entry, point) for entry, point in zip(numbers.tolist(), points, strict=True)]
        return [PendingEntry(*row) for row in rows]

    def of_arm(self, arm: int) -> Ints:
        """Return [n, (id, row, arm, kind, arrival)] of the entries of an arm, the oldest first."""
        entries = self.table.entries
        found = entries[(entries[:, col.PENDING_ID] > 0) & (entries[:, col.PENDING_ARM] == arm), : col.PENDING_FACTS]
        return found[np.argsort(found[:, col.PENDING_ID])]

    def arrays(self) -> tuple[Ints, Floats]:
        """Return copies of all entries as numbers and contexts, the oldest first."""
        self.widen_all()
        return arrays_of(self.table.entries, self.table.contexts)

    def fill(self, numbers: Ints, contexts: Floats) -> None:
        """Enter what was pending when a state was saved; the registry must be empty."""
        if 2 * len(numbers) >= len(self.table.entries):
            self.table = grown_table(self.table, len(numbers))
        self.table.contexts[: len(contexts)] = contexts
        for spot, entry in enumerate(numbers):
            self.table.entries[slot_of(self.table.entries, int(entry[col.PENDING_ID])), : col.PENDING_FREE] = (
                *entry,
                spot,
            )
        self.table.counters[col.PENDING_COUNT] = len(numbers)

    # Memos that become wider. A million take seconds: a few are done at a time, and first those that are needed.

    def begin_to_widen(self, width: int, widen: Callable[[Floats], Floats]) -> None:
        """Go on with memos of another width; `widen` returns those that were written before as wide as they must be."""
        table, counters = self.table, self.table.counters
        step = Narrow(table.contexts, widen, int(counters[col.LAST_ID]))
        self.narrow = (*self.narrow, step) if len(self) else ()
        counters[col.PENDING_NARROW] = len(self.narrow) > 0
        self.table = table._replace(contexts=np.zeros((len(table.contexts), width)))

    def widen(self, ids: Ints) -> None:
        """Make the memos of those ids that are pending as wide as they must be by now."""
        spots = np.empty_like(ids)
        spots_of(self.table.entries, ids, spots)
        ids, spots = ids[spots != EMPTY], spots[spots != EMPTY]
        tables = np.zeros(len(ids), np.int64)  # in which of them each was written last
        for n, step in enumerate(self.narrow, 1):
            tables[(ids > step.last) | (ids < step.done)] = n
        for n, step in enumerate(self.narrow):
            some = spots[tables == n]
            memos = step.contexts[some]
            for later in self.narrow[n:]:
                memos = later.widen(memos)
            self.table.contexts[some] = memos

    def widen_some(self) -> None:
        """Make a few memos wider, those of the smallest ids, so that others get their turn."""
        counters, end = self.table.counters, 0
        if self.narrow and len(self):
            newest = self.narrow[-1]
            first = max(newest.done, int(counters[col.PENDING_OLDEST]))
            ids = np.arange(first, min(first + LOOKED_FOR, newest.last + 1))
            spots = np.empty_like(ids)
            spots_of(self.table.entries, ids, spots)
            found = ids[spots != EMPTY][:WIDENED]
            self.widen(found)
            end = int(found[-1]) + 1 if len(found) == WIDENED else first + LOOKED_FOR
            end = end if end <= newest.last else 0
        # In this order: a memo that is widened again stays as it is.
        counters[col.PENDING_NARROW] = end
        self.narrow = (*self.narrow[:-1], newest._replace(done=end)) if end else ()

    def widen_all(self) -> None:
        while self.narrow:
            self.widen_some()

    # Room

    def has_room(self) -> bool:
        """Tell whether one more can be entered before the table must grow."""
        return bool(2 * self.table.counters[col.PENDING_COUNT] < len(self.table.entries))

    @property
    def is_filling_up(self) -> bool:
        """Whether more room should be made now, in a table that is so large that this takes a while."""
        slots, room = len(self.table.entries), self._room
        if slots < LARGE or 4 * len(self) <= slots or 2 * self.patience.max_pending <= slots or self.narrow:
            return False
        last = self.table.counters[col.LAST_ID]
        return room is None or room.of is not self.table.contexts or last - room.last > MOST_NEW

    def make_room(self) -> None:
        """Copy the contexts to where there is more room, before it is needed; another thread may do this."""
        table, room, last = self.table, self._room, int(self.table.counters[col.LAST_ID])
        if room is None or room.of is not table.contexts:  # the first touch of memory takes longer than any other
            larger = np.full((len(table.entries) + 1, table.contexts.shape[1]), 0.0)
            room = Room(
                table.contexts, larger, np.full((2 * len(table.entries), col.PENDING_COLUMNS), 0, np.int64), last
            )
        room.contexts[: len(table.contexts)] = table.contexts
        self._room = room._replace(last=last)

    def grown(self) -> PendingTable:
        """Return the table with twice the room."""
        room, self._room = self._room, None
        if room is None or room.of is not self.table.contexts:
            return grown_table(self.table)
        entries = self.table.entries
        spots = entries[entries[:, col.PENDING_ID] > room.last, col.PENDING_SPOT]  # rows that were used since
        room.contexts[spots] = room.of[spots]
        return _moved_to(PendingTable(room.entries, room.contexts, self.table.counters), self.table)

    # Expiry

    def take_overdue(self) -> list[tuple[int, int, int]]:
        """Return (id, arm, kind) of what has expired since the last call."""
        if not self._expired and not self.table.counters[col.EXPIRED_COUNT]:
            return []
        self.collect_expired()
        taken, self._expired = self._expired, []
        return taken

    def collect_expired(self) -> None:
        """Take what has expired out of the counters, where there is room for a few only."""
        counters = self.table.counters
        count = int(counters[col.EXPIRED_COUNT])
        if count:
            columns = counters[col.EXPIRED : col.EXPIRED + 3 * count].reshape(-1, 3).T.tolist()
            self._expired += zip(*columns, strict=True)
            counters[col.EXPIRED_COUNT] = 0

    def may_overflow(self, count: int, arrivals: int) -> bool:
        """Tell whether anything could expire during the next `count` arrivals."""
        limit = self.patience.wait_limit
        if len(self) + count > self.patience.max_pending:
            return True
        if limit is None or not len(self):
            return limit is not None and count > limit
        oldest = self.table.entries[oldest_pending(self.table), col.PENDING_ARRIVAL]
        return count > limit or bool(arrivals + count - oldest > limit)

    # Arms that join and leave

    def forget(self, ids: list[int]) -> None:
        """Remove ids from the table without touching any count: their arm is gone."""
        for id in ids:
            remove_pending(self.table, find_pending(self.table.entries, id))

    def renumber(self, arm: int, by: int) -> None:
        """Add to the numbers of all arms from `arm` on, because one has joined or left before them."""
        numbers = self.table.entries[:, col.PENDING_ARM]
        numbers[numbers >= arm] += by
        self.collect_expired()
        self._expired = [(id, old + by * (old >= arm), kind) for id, old, kind in self._expired]

    def forget_arm(self, arm: int) -> None:
        """Forget that expired decisions were of an arm that is gone now."""
        self.collect_expired()
        self._expired = [(id, GONE if old == arm else old, kind) for id, old, kind in self._expired]
