"""What waits for its label, by id: a hash table in flat arrays.

The same compiled calls that choose and learn fill and empty it, so a choice and its place here are one step, which
nothing can interrupt. Ids are given out one after the other, and what waits is at most half of the table. So ids that
follow each other are spread over it: side by side they would be one long row, to the end of which every removal had to
look.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cosend.compiled import compiled, entry_point
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ints

FIRST_CAPACITY: Final = 64
SPREAD: Final = 2_654_435_761  # odd, so that different ids stay different, and far from a simple share of any table
NO_LIMIT: Final = 2**62


class Waiting(NamedTuple):
    """The table; the last axis of `entries` is a column of `columns`."""

    entries: Ints  # [slot, column]; a power of two of slots, at most half full
    contexts: Floats  # [slot, axis]; no axes if a late label needs no context; what mixed views keep, in place of it
    desk: Ints  # [column]: `Ledger.site`, because every array that is handed over takes its time


def new_waiting(desk: Ints, axes: int, wait_limit: int | None, max_waiting: int) -> Waiting:
    """Return an empty table."""
    desk[col.WAIT_OLDEST] = 1
    desk[col.WAIT_LIMIT] = NO_LIMIT if wait_limit is None else min(wait_limit, NO_LIMIT)
    desk[col.WAIT_MOST] = min(max_waiting, NO_LIMIT)
    return Waiting(np.zeros((FIRST_CAPACITY, col.WAIT_COLUMNS), np.int64), np.zeros((FIRST_CAPACITY, axes)), desk)


def grown_waiting(waiting: Waiting, capacity: int = 0) -> Waiting:
    """Return the same table with twice the room, or with room for `capacity` entries."""
    slots = 1 << max(2 * len(waiting.entries), 2 * capacity, FIRST_CAPACITY).bit_length() - 1
    axes = waiting.contexts.shape[1]
    larger = Waiting(np.zeros((slots, col.WAIT_COLUMNS), np.int64), np.zeros((slots, axes)), waiting.desk)
    copy_waiting(waiting, larger)
    return larger


@entry_point
def copy_waiting(waiting: Waiting, larger: Waiting) -> None:
    """Enter all that waits in one table in another, which is empty."""
    for slot in range(waiting.entries.shape[0]):
        if waiting.entries[slot, col.WAIT_ID]:
            free = slot_of(larger.entries, waiting.entries[slot, col.WAIT_ID])
            move_entry(waiting, slot, larger, free)


@compiled
def move_entry(waiting: Waiting, slot: int, other: Waiting, free: int) -> None:
    """Write what stands in a slot into a slot of the same table, or of another."""
    for column in range(col.WAIT_COLUMNS):
        other.entries[free, column] = waiting.entries[slot, column]
    for axis in range(waiting.contexts.shape[1]):
        other.contexts[free, axis] = waiting.contexts[slot, axis]


@compiled
def home_of(ticket: int, last: int) -> int:
    """Return the slot where an id is looked for first."""
    return int(((ticket & last) * SPREAD) & last)


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
def add_waiting(waiting: Waiting, ticket: int, row: int, arm: int, kind: int, arrival: int, context: Floats) -> None:
    """Let a choice or an answer wait for its label; there must be room."""
    slot = slot_of(waiting.entries, ticket)
    fill_slot(waiting, slot, ticket, row, arm, kind, arrival)
    for axis in range(waiting.contexts.shape[1]):
        waiting.contexts[slot, axis] = context[axis]


@compiled
def fill_slot(waiting: Waiting, slot: int, ticket: int, row: int, arm: int, kind: int, arrival: int) -> None:
    """Let a choice or an answer wait in a free slot; what its label needs beside the context may stand there before."""
    entry = waiting.entries[slot]
    entry[col.WAIT_ID], entry[col.WAIT_ROW], entry[col.WAIT_ARM] = ticket, row, arm
    entry[col.WAIT_KIND], entry[col.WAIT_ARRIVAL] = kind, arrival
    waiting.desk[col.WAIT_COUNT] += 1


@entry_point
def remove_waiting(waiting: Waiting, slot: int) -> None:
    """Take out what stands in a slot, and move up what stood behind it only because that slot was taken."""
    entries = waiting.entries
    last = entries.shape[0] - 1
    hole, probe = slot, (slot + 1) & last
    while entries[probe, col.WAIT_ID] != 0:
        home = home_of(entries[probe, col.WAIT_ID], last)
        if ((probe - home) & last) >= ((probe - hole) & last):
            move_entry(waiting, probe, waiting, hole)
            hole = probe
        probe = (probe + 1) & last
    entries[hole, col.WAIT_ID] = 0
    waiting.desk[col.WAIT_COUNT] -= 1


@entry_point
def oldest_waiting(waiting: Waiting) -> int:
    """Return the slot of the smallest id that waits; something must."""
    desk = waiting.desk
    slot = find_waiting(waiting.entries, desk[col.WAIT_OLDEST])
    while slot == EMPTY:
        desk[col.WAIT_OLDEST] += 1
        slot = find_waiting(waiting.entries, desk[col.WAIT_OLDEST])
    return slot
