"""What a site knows, as flat arrays.

There is a row for each cell that the site has visited, and in every row one estimate for each arm: local classifiers
first, then peers. A cell that was never visited costs nothing: a hash table finds the row of a cell.

A view is some of the axes of a context. Most policies have one, of all axes. One that mixes views has many, each with
cells of its own.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.compiled import compiled, entry_point
from cosend.core.kernel import columns as col
from cosend.core.kernel.draws import WORD

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

MOST: Final = 2**31 - 1  # a training count saturates here, far above any quota
EMPTY: Final = -1


class Ledger(NamedTuple):
    """The arrays of a site; the last axis is a column of `columns`."""

    site: Ints  # [column]; behind them, what is counted of what waits for labels
    parameters: Floats  # [column]; behind them, room for mixed views to work in
    costs: Floats  # [arm]
    slots: Words  # [slot]: row or EMPTY; a power of two of slots, at most half full, or a quarter with several views
    cells: Ints  # [row, column]
    rewards: Floats  # [row, arm, column]
    counts: Words  # [row, arm, column]
    views: Floats  # [view, column]


def new_ledger(
    arm_count: int,
    capacity: int = 16,
    views: int = 1,
    parameters: int = col.PARAMETER_COLUMNS,
) -> Ledger:
    """Return an empty ledger with room for `capacity` cells.

    With several views small keys crowd the first slots, and others collide with them: there are twice as many slots.
    """
    slots = capacity * (2 if views == 1 else 4)
    return Ledger(
        site=np.zeros(col.DESK_END, np.int64),
        parameters=np.zeros(parameters),
        costs=np.zeros(arm_count),
        slots=np.full(1 << (slots - 1).bit_length(), EMPTY, np.int32),
        cells=np.zeros((capacity, col.CELL_COLUMNS), np.int64),
        rewards=np.zeros((capacity, arm_count, col.REWARD_COLUMNS)),
        counts=np.zeros((capacity, arm_count, col.COUNT_COLUMNS), np.int32),
        views=np.zeros((views, col.VIEW_COLUMNS)),
    )


def grown(ledger: Ledger, capacity: int = 0) -> Ledger:
    """Return the same ledger with an eighth more room, or with room for `capacity` cells."""
    rows, arms, _ = ledger.rewards.shape
    room = max(16, rows // 8, len(ledger.views))
    larger = new_ledger(arms, capacity or rows + room, len(ledger.views))
    larger.cells[:rows] = ledger.cells
    larger.rewards[:rows] = ledger.rewards
    larger.counts[:rows] = ledger.counts
    larger = larger._replace(site=ledger.site, parameters=ledger.parameters, costs=ledger.costs, views=ledger.views)
    reindex(larger)
    return larger


def clear(ledger: Ledger) -> None:
    """Forget all cells."""
    ledger.slots[:] = EMPTY
    ledger.cells[:] = 0
    ledger.rewards[:] = 0
    ledger.counts[:] = 0
    ledger.site[col.ROWS] = 0


def bytes_per_estimate(ledger: Ledger) -> float:
    """Return the memory in use for every (visited cell, arm), unused room included."""
    pairs = int(ledger.site[col.ROWS]) * len(ledger.costs)
    used = ledger.slots.nbytes + ledger.cells.nbytes + ledger.rewards.nbytes + ledger.counts.nbytes
    return float(used / max(1, pairs))


@compiled
def first_slot(key: int, last: int) -> int:
    """Return where the search for a cell begins; small keys have a place of their own."""
    if key <= last:
        return key
    word = (((key ^ (key >> 32)) & WORD) * 0x61C88647) & WORD
    return (word ^ (word >> 15)) & last


@compiled
def find_row(ledger: Ledger, key: int) -> int:
    """Return the row of a cell, or EMPTY if it was never visited."""
    last = ledger.slots.shape[0] - 1
    slot = first_slot(key, last)
    row: Any = ledger.slots[slot]
    while row != EMPTY and ledger.cells[row, col.CELL_KEY] != key:
        slot = (slot + 1) & last
        row = ledger.slots[slot]
    return int(row)


@compiled
def place_row(ledger: Ledger, key: int, row: int) -> None:
    """Enter a row that is not in the table yet."""
    last = ledger.slots.shape[0] - 1
    slot = first_slot(key, last)
    while ledger.slots[slot] != EMPTY:
        slot = (slot + 1) & last
    ledger.slots[slot] = row


@entry_point
def row_for(ledger: Ledger, key: int) -> int:
    """Return the row of a cell, a new one if it was never visited; there must be room for it."""
    row = find_row(ledger, key)
    if row == EMPTY:
        row = int(ledger.site[col.ROWS])
        ledger.site[col.ROWS] = row + 1
        ledger.cells[row, col.CELL_KEY] = key
        ledger.cells[row, col.CELL_BORN] = ledger.site[col.TICKETS]
        place_row(ledger, key, row)
    return row


@entry_point
def has_room(ledger: Ledger) -> bool:
    """Tell whether every view can have a new cell."""
    return bool(ledger.site[col.ROWS] + ledger.site[col.VIEWS] <= ledger.cells.shape[0])


@entry_point
def reindex(ledger: Ledger) -> None:
    """Fill the empty hash table from the rows."""
    for row in range(ledger.site[col.ROWS]):
        place_row(ledger, ledger.cells[row, col.CELL_KEY], row)
