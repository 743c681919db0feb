"""What sites know, as flat arrays.

A ledger holds one or several sites. Every site has rows, one for each cell it has visited, and every row one
estimate for each arm: own classifiers first, then peers. A cell that was never visited costs nothing: a hash table
finds the row of a cell. A `Learner` is a ledger of one site; a replay holds a whole network in one ledger.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.core import columns as col
from cosend.core.compiled import compiled
from cosend.core.draws import WORD

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

MOST: Final = 2**31 - 1  # a training count saturates here, far above any quota
EMPTY: Final = -1


class Ledger(NamedTuple):
    """The arrays of one or several sites; the first axis is the site, the last one a column of `columns`."""

    sites: Ints  # [site, column]
    parameters: Floats  # [site, column]
    costs: Floats  # [site, arm]
    slots: Words  # [site, slot]: row or EMPTY; a power of two of slots, at most half full
    cells: Ints  # [site, row, column]
    rewards: Floats  # [site, row, arm, column]
    counts: Words  # [site, row, arm, column]


def new_ledger(site_count: int, arm_count: int, capacity: int = 16) -> Ledger:
    """Return an empty ledger with room for `capacity` cells of every site."""
    slot_count = 1 << (2 * capacity - 1).bit_length()
    return Ledger(
        sites=np.zeros((site_count, col.SITE_COLUMNS), np.int64),
        parameters=np.zeros((site_count, col.PARAMETER_COLUMNS)),
        costs=np.zeros((site_count, arm_count)),
        slots=np.full((site_count, slot_count), EMPTY, np.int32),
        cells=np.zeros((site_count, capacity, col.CELL_COLUMNS), np.int64),
        rewards=np.zeros((site_count, capacity, arm_count, col.REWARD_COLUMNS)),
        counts=np.zeros((site_count, capacity, arm_count, col.COUNT_COLUMNS), np.int32),
    )


def grown(ledger: Ledger, capacity: int = 0) -> Ledger:
    """Return the same ledger with a quarter more room, or with room for `capacity` cells."""
    sites, rows, arms, _ = ledger.rewards.shape
    capacity = capacity or rows + max(16, rows // 4)
    larger = new_ledger(sites, arms, capacity)
    larger.cells[:, :rows] = ledger.cells
    larger.rewards[:, :rows] = ledger.rewards
    larger.counts[:, :rows] = ledger.counts
    ledger = larger._replace(sites=ledger.sites, parameters=ledger.parameters, costs=ledger.costs)
    for site in range(sites):
        reindex(ledger, site)
    return ledger


def clear(ledger: Ledger, s: int) -> None:
    """Forget all cells of a site."""
    ledger.slots[s] = EMPTY
    for array in (ledger.cells, ledger.rewards, ledger.counts):
        array[s] = 0
    ledger.sites[s, col.ROWS] = 0


def bytes_per_estimate(ledger: Ledger) -> float:
    """Return the memory in use for every (visited cell, arm), unused room included."""
    pairs = int(ledger.sites[:, col.ROWS].sum()) * ledger.costs.shape[1]
    used = ledger.slots.nbytes + ledger.cells.nbytes + ledger.rewards.nbytes + ledger.counts.nbytes
    return float(used / max(1, pairs))


@compiled
def first_slot(key: int, last: int) -> int:
    """Return where the search for a cell begins."""
    word = (((key ^ (key >> 32)) & WORD) * 0x61C88647) & WORD
    return (word ^ (word >> 15)) & last


@compiled
def find_row(ledger: Ledger, s: int, key: int) -> int:
    """Return the row of a cell, or EMPTY if it was never visited."""
    last = ledger.slots.shape[1] - 1
    slot = first_slot(key, last)
    row: Any = ledger.slots[s, slot]
    while row != EMPTY and ledger.cells[s, row, col.CELL_KEY] != key:
        slot = (slot + 1) & last
        row = ledger.slots[s, slot]
    return int(row)


@compiled
def place_row(ledger: Ledger, s: int, key: int, row: int) -> None:
    """Enter a row that is not in the table yet."""
    last = ledger.slots.shape[1] - 1
    slot = first_slot(key, last)
    while ledger.slots[s, slot] != EMPTY:
        slot = (slot + 1) & last
    ledger.slots[s, slot] = row


@compiled
def row_for(ledger: Ledger, s: int, key: int) -> int:
    """Return the row of a cell, a new one if it was never visited, or EMPTY if there is no room for it."""
    row = find_row(ledger, s, key)
    if row == EMPTY and ledger.sites[s, col.ROWS] < ledger.cells.shape[1]:
        row = int(ledger.sites[s, col.ROWS])
        ledger.sites[s, col.ROWS] = row + 1
        ledger.cells[s, row, col.CELL_KEY] = key
        place_row(ledger, s, key, row)
    return row


@compiled
def reindex(ledger: Ledger, s: int) -> None:
    """Build the table of a site anew from its rows."""
    for row in range(ledger.sites[s, col.ROWS]):
        place_row(ledger, s, ledger.cells[s, row, col.CELL_KEY], row)
