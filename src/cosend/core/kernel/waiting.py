"""What waits for its label, by id: a hash table in flat arrays.

The same compiled calls that choose and learn fill and empty it, so a choice and its place here are one step, which
nothing can interrupt. Ids are given out one after the other, and what waits is at most half of the table. So ids that
follow each other are spread over it: side by side they would be one long row, to the end of which every removal had to
look. A few stay together, because memory is slow where nothing near has just been touched. What is kept of each can be
long, so it stands in rows of its own, as many as may wait and one more, and the free ones are used again: only so much
memory is ever touched.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cosend.compiled import compiled, entry_point
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ints

FIRST_CAPACITY: Final = 64
TOGETHER: Final = 8  # ids that stand side by side; a power of two, as the table is
SPREAD: Final = 2_654_435_761  # odd, so that different ids stay different, and far from a simple share of any table
NO_LIMIT: Final = 2**62


class Waiting(NamedTuple):
    """The table; the last axis of `entries` is a column of `columns`."""

    entries: Ints  # [slot, column]; a power of two of slots, at most half full
    contexts: Floats  # [spot, axis]; no axes if a late label needs no context; what mixed views keep, in place of it
    desk: Ints  # [column]: `Ledger.site`, because every array that is handed over takes its time


def new_waiting(desk: Ints, axes: int, wait_limit: int | None, max_waiting: int) -> Waiting:
    """Return an empty table."""
    desk[col.WAIT_OLDEST] = 1
    desk[col.WAIT_LIMIT] = NO_LIMIT if wait_limit is None else min(wait_limit, NO_LIMIT)
    desk[col.WAIT_MOST] = min(max_waiting, NO_LIMIT)
    return _empty(FIRST_CAPACITY, axes, desk)


def _empty(slots: int, axes: int, desk: Ints) -> Waiting:
    return Waiting(np.zeros((slots, col.WAIT_COLUMNS), np.int64), np.zeros((slots // 2 + 1, axes)), desk)


def grown_waiting(waiting: Waiting, capacity: int = 0) -> Waiting:
    """Return the same table with twice the room, or with room for `capacity` entries."""
    spots, axes = waiting.contexts.shape
    slots = 1 << (max(2 * len(waiting.entries), 2 * capacity, FIRST_CAPACITY) - 1).bit_length()
    larger = _empty(slots, axes, waiting.desk)
    larger.contexts[:spots] = waiting.contexts
    return moved_waiting(waiting, larger)


def moved_waiting(waiting: Waiting, larger: Waiting) -> Waiting:
    """Return a larger table, which is empty but for the contexts, with all that waits in another."""
    spots = len(waiting.contexts)
    larger.entries[:spots, col.WAIT_FREE] = waiting.entries[:spots, col.WAIT_FREE]
    copy_entries(waiting.entries, larger.entries)
    return larger


@entry_point
def copy_entries(entries: Ints, larger: Ints) -> None:
    """Enter all that waits in one table in another, which is empty."""
    for slot in range(entries.shape[0]):
        if entries[slot, col.WAIT_ID]:
            move_entry(entries, slot, larger, slot_of(larger, entries[slot, col.WAIT_ID]))


@compiled
def move_entry(entries: Ints, slot: int, others: Ints, free: int) -> None:
    """Write what stands in a slot into a slot of the same table, or of another; what is kept of it stays in its row."""
    for column in range(col.WAIT_SPOT + 1):
        others[free, column] = entries[slot, column]


@compiled
def home_of(ticket: int, last: int) -> int:
    """Return the slot where an id is looked for first."""
    place = ticket & last
    return int(((place & -TOGETHER) * SPREAD + place % TOGETHER) & last)


@entry_point
def slot_of(entries: Ints, ticket: int) -> int:
    """Return the slot of an id, or the free one where it would stand."""
    last = entries.shape[0] - 1
    slot = home_of(ticket, last)
    while entries[slot, col.WAIT_ID] != 0 and entries[slot, col.WAIT_ID] != ticket:
        slot = (slot + 1) & last
    return slot


@entry_point
def find_waiting(entries: Ints, ticket: int) -> int:
    """Return the slot of an id, or EMPTY if it does not wait."""
    slot = slot_of(entries, ticket)
    return slot if entries[slot, col.WAIT_ID] != 0 else EMPTY


@compiled
def can_wait(waiting: Waiting) -> bool:
    """Tell whether one more may wait, and the ids that this makes overdue have a place."""
    desk = waiting.desk
    return bool(2 * desk[col.WAIT_COUNT] < waiting.entries.shape[0] and desk[col.OVERDUE_COUNT] < col.OVERDUE_AT_ONCE)


@compiled
def next_spot(waiting: Waiting) -> int:
    """Return the row in which what is kept of the next one will stand; there is always one more than may wait."""
    count = waiting.desk[col.WAIT_COUNT]
    return int(count + waiting.entries[count, col.WAIT_FREE])


@compiled
def add_waiting(waiting: Waiting, ticket: int, row: int, arm: int, kind: int, arrival: int, context: Floats) -> None:
    """Let a choice or an answer wait for its label; there must be room."""
    spot = next_spot(waiting)
    for axis in range(waiting.contexts.shape[1]):
        waiting.contexts[spot, axis] = context[axis]
    fill_slot(waiting, slot_of(waiting.entries, ticket), ticket, row, arm, kind, arrival)


@compiled
def fill_slot(waiting: Waiting, slot: int, ticket: int, row: int, arm: int, kind: int, arrival: int) -> None:
    """Let a choice or an answer wait in a free slot; what is kept of it stands in its row already."""
    entry = waiting.entries[slot]
    entry[col.WAIT_ID], entry[col.WAIT_ROW], entry[col.WAIT_ARM] = ticket, row, arm
    entry[col.WAIT_KIND], entry[col.WAIT_ARRIVAL] = kind, arrival
    entry[col.WAIT_SPOT] = next_spot(waiting)
    waiting.desk[col.WAIT_COUNT] += 1


@entry_point
def remove_waiting(waiting: Waiting, slot: int) -> None:
    """Take out what stands in a slot, and move up what stood behind it only because that slot was taken."""
    entries = waiting.entries
    last, spot = entries.shape[0] - 1, entries[slot, col.WAIT_SPOT]
    hole, probe = slot, (slot + 1) & last
    while entries[probe, col.WAIT_ID] != 0:
        home = home_of(entries[probe, col.WAIT_ID], last)
        if ((probe - home) & last) >= ((probe - hole) & last):
            move_entry(entries, probe, entries, hole)
            hole = probe
        probe = (probe + 1) & last
    entries[hole, col.WAIT_ID] = 0
    count = waiting.desk[col.WAIT_COUNT] - 1
    entries[count, col.WAIT_FREE] = spot - count
    waiting.desk[col.WAIT_COUNT] = count


@entry_point
def oldest_waiting(waiting: Waiting) -> int:
    """Return the slot of the smallest id that waits; something must."""
    desk = waiting.desk
    slot = find_waiting(waiting.entries, desk[col.WAIT_OLDEST])
    while slot == EMPTY:
        desk[col.WAIT_OLDEST] += 1
        slot = find_waiting(waiting.entries, desk[col.WAIT_OLDEST])
    return slot
