"""What a site knows, as flat arrays with named columns.

There is a row for each cell that the site has visited, and in every row one estimate for each arm: local models first,
then peers. A cell that was never visited costs nothing: a hash table finds the row of a cell.

A context has a number for each axis: where an item lies in [0, 1], or for a category the code 0, 1, 2, ... of a value.
A view is some of the axes. Most policies have one, of all axes. One that mixes views has many, each with cells of its
own.

Plain arrays with named columns and not structured ones: Numba takes a plain array from Python four times as fast.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.compiled import compiled, entry_point

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

# Ledger.site: whole numbers of the site.
KEY0: Final = 0  # the two words of the site's draws
KEY1: Final = 1
ARRIVALS: Final = 2  # own items so far
LAST_ID: Final = 3  # ids are given to decisions, and to answers whose label was promised
ROWS: Final = 4  # visited cells
OWN_COUNT: Final = 5
ARM_COUNT: Final = 6
MAX_PEER_FUNCTIONS: Final = 7
DIMENSIONS: Final = 8  # axes of a context
ORDER: Final = 9
COUNTS_MINE_ONLY: Final = 10  # 1: a peer's trainings by others do not count
DOUBLING: Final = 11  # 1: the horizon is unknown, epochs double
EPOCH: Final = 12  # how often the cells were laid out again
EPOCH_START: Final = 13  # arrivals before the current epoch
EPOCH_LENGTH: Final = 14  # 0: no horizon
QUOTA_START: Final = 15  # arrivals that the step of the quotas does not count
RULE: Final = 16  # BY_QUOTA, BY_KL_INDEX or BY_MIXTURE
STEADY: Final = 17  # 1: a cell that was visited stays; else a late label looks for its cell
KEEPS: Final = 18  # 1: a label whose cell was replaced counts where its context lies now
VIEWS: Final = 19
ZOOMS: Final = 20  # whether cells are cubes that split, and when
MAX_ROWS: Final = 21
REPORTS: Final = 22  # the mixed view whose cells tell peers how much labelled data there is
CATEGORIES: Final = 23  # which axes are categories, as bits
SCORES: Final = 24  # whom labels score: ONLY_USED, ALL_FREE or SOME_FREE
PATTERN: Final = 25  # which local models were right about the newest labelled item; 0 before there is one
NEWEST: Final = 26  # the id of that item
PAID_EXPLORED: Final = 27  # choices of arms that cost something, made to learn about them
SITE_COLUMNS: Final = 28

# Behind them in Ledger.site, because every array that is passed takes time: the counters of pending decisions.
PENDING_COUNT: Final = SITE_COLUMNS
PENDING_OLDEST: Final = SITE_COLUMNS + 1  # no smaller id is pending
PENDING_LIMIT: Final = SITE_COLUMNS + 2  # arrivals after which a decision expires
PENDING_MOST: Final = SITE_COLUMNS + 3  # how many may be pending at once
PENDING_NARROW: Final = SITE_COLUMNS + 4  # the first id whose memo may be of before there were more views; 0: none is
EXPIRED_COUNT: Final = SITE_COLUMNS + 5
EXPIRED: Final = SITE_COLUMNS + 6  # id, arm and kind of each
EXPIRED_AT_ONCE: Final = 64  # how many there may be before Python must take them
SITE_END: Final = EXPIRED + 3 * EXPIRED_AT_ONCE

# Values of SCORES.
ONLY_USED: Final = 0  # the arm that was used
ALL_FREE: Final = 1  # also every local model that costs nothing
SOME_FREE: Final = 2  # the same, but some labels did not score all of them: they are tried, as other arms are

# Values of RULE.
BY_QUOTA: Final = 0
BY_KL_INDEX: Final = 1
BY_MIXTURE: Final = 2

# Ledger.parameters: real numbers of a site; behind them, room in which mixed views work.
EXPONENT: Final = 0
QUOTA: Final = 1  # exact for QUOTA_FROM, and for later steps up to QUOTA_UNTIL no count can tell the difference
QUOTA_FROM: Final = 2
QUOTA_UNTIL: Final = 3
ZOOM_RATE: Final = 4  # quotas of a cube of level p grow with exp(rate * p)
SPLIT_AFTER: Final = 5  # arrivals, or labels, after which a cube of level 0 splits
SPLIT_RATE: Final = 6  # and how that grows with the level
SIDE_RATE: Final = 7  # how the difference within a cube shrinks with the level
INHERITED: Final = 8  # how many rewards of its parent a new cube starts with at most
STEEPNESS: Final = 9  # the difference that the cube of level 0 may hide between two arms
EXPIRED_GAIN: Final = 10  # what an expired decision gets in place of its label; not a number: it is dropped
SHARE: Final = 11  # of the weight that is spread over all views at a label, at most
BONUS: Final = 12  # optimism for arms that are not scored by every label
MARGIN: Final = 13  # by how much a peer must be better than a local model
SAME_VIEW: Final = 14  # the number of the view of features that never changed; 0: there is none
PARAMETER_COLUMNS: Final = 16  # one to spare: what mixed views work in begins at an even place, about 2% faster

# Ledger.views: one row for each view.
VIEW_AXES: Final = 0  # which axes it sees, as bits
VIEW_AXIS_COUNT: Final = 1
VIEW_SLICES: Final = 2
# Of mixed views:
VIEW_MORE: Final = 3  # how many further views it stands for: those of features that never changed are one
VIEW_KIND: Final = 4  # what its cells are: WHOLE, ONE_AXIS, ...
VIEW_FIRST: Final = 5  # the number of its axis, if it has one or two
VIEW_SECOND: Final = 6
VIEW_UP: Final = 7  # the next coarser view of the same axes; the first view if there is none
VIEW_FINE: Final = 8  # 1: it has cells only where that one has seen enough labels
VIEW_MEMORY: Final = 9  # the factor of its sums before a reward is added
VIEW_WEIGHT: Final = 10
VIEW_COLUMNS: Final = 11

# Ledger.cells: one row for each visited cell.
CELL_KEY: Final = 0
CELL_ARRIVALS: Final = 1  # own items
CELL_TAUGHT: Final = 2  # items of peers whose label was forwarded
CELL_BORN: Final = 3  # the last id when the row was begun: decisions up to it were not entered here
CELL_LEVEL: Final = 4  # of a cube that may split, or -1 - level once it was split
CELL_LABELS: Final = 5  # own items whose label has come here; not counted where cells cannot change
CELL_ANSWERING: Final = 6  # pending answers to peers
CELL_COLUMNS: Final = 7

# Ledger.rewards: of each arm in each visited cell. The count is a double too: exact up to 2^53.
REWARD_SUM: Final = 0  # gains, without the known cost of the arm
REWARD_COUNT: Final = 1
MEAN_REWARD: Final = 2  # one divided by the other: read at every choice, written at every label
EVIDENCE: Final = 2  # in its place in mixed views: what the row adds to the view that adds up
REWARD_COLUMNS: Final = 3

# Ledger.counts: of each arm in each visited cell, 32 bits wide.
PENDING: Final = 0  # choices whose reward has not come yet
TRAINING: Final = 1  # labelled data the peer is believed to have here
MY_TRAINING: Final = 2  # the part of it that this site has sent
TRAINING_PENDING: Final = 3  # trainings whose label has not come yet
COUNT_COLUMNS: Final = 4

# PendingTable.entries: whole numbers of each choice or answer whose label has not come.
PENDING_ID: Final = 0  # 0 in a free slot
PENDING_ROW: Final = 1  # where it was entered
PENDING_ARM: Final = 2
PENDING_KIND: Final = 3  # TRAIN, EXPLORE, EXPLOIT or TAUGHT
PENDING_ARRIVAL: Final = 4  # the site's arrivals by then
PENDING_FACTS: Final = 5  # columns that say what is pending; the others say where more of it is
PENDING_SPOT: Final = 5  # the row of `PendingTable.contexts`
PENDING_FREE: Final = 6  # the free list: slot n >= PENDING_COUNT has (free row - n), so in zeros all rows are free
PENDING_COLUMNS: Final = 7

# Why a decision is pending, in PENDING_KIND.
TRAIN: Final = 1
EXPLORE: Final = 2
EXPLOIT: Final = 3
TAUGHT: Final = 4  # an answer to a peer that will forward the label

WORD: Final = 0xFFFFFFFF  # the 32 bits of a draw, or of a hash
MOST_AXES: Final = 52  # of a given context: those of a view are bits of a double
MOST_CODES: Final = 4096  # of a category
MOST: Final = 2**31 - 1  # a training count saturates here, far above any quota
EMPTY: Final = -1
OUT: Final = np.inf  # the cost of an arm that may not be chosen now: it loses every comparison by itself


class Ledger(NamedTuple):
    """The arrays of a site; the last axis is a column of this module."""

    site: Ints  # [column]; behind them, the counters of pending decisions
    parameters: Floats  # [column]; behind them, room for mixed views to work in
    costs: Floats  # [arm]
    slots: Words  # [slot]: row or EMPTY; a power of two of slots, at most half full, or a quarter with several views
    cells: Ints  # [row, column]
    rewards: Floats  # [row, arm, column]
    counts: Words  # [row, arm, column]
    views: Floats  # [view, column]


def new_ledger(arm_count: int, capacity: int = 16, views: int = 1, parameters: int = PARAMETER_COLUMNS) -> Ledger:
    """Return an empty ledger with room for `capacity` cells.

    With several views small keys crowd the first slots, and others collide with them: there are twice as many slots.
    """
    slots = capacity * (2 if views == 1 else 4)
    return Ledger(
        site=np.zeros(SITE_END, np.int64),
        parameters=np.zeros(parameters),
        costs=np.zeros(arm_count),
        slots=np.full(1 << (slots - 1).bit_length(), EMPTY, np.int32),
        cells=np.zeros((capacity, CELL_COLUMNS), np.int64),
        rewards=np.zeros((capacity, arm_count, REWARD_COLUMNS)),
        counts=np.zeros((capacity, arm_count, COUNT_COLUMNS), np.int32),
        views=np.zeros((views, VIEW_COLUMNS)),
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
    ledger.site[ROWS] = 0


# Contexts


@entry_point
def first_bad_axis(context: Floats, categories: int, may_lack: bool) -> int:
    """Return the first axis on which a context leaves [0, 1] or is not the code of a category, or -1.

    Not a number means that the value is missing, which only mixed views can do without.
    """
    for axis in range(context.shape[0]):
        x, is_code = context[axis], axis < MOST_AXES and (categories >> axis) & 1
        if may_lack and math.isnan(x):
            continue
        if not 0.0 <= x <= (MOST_CODES - 1.0 if is_code else 1.0) or (is_code and x != math.floor(x)):
            return axis
    return -1


@entry_point
def first_bad_context(contexts: Floats, categories: int, may_lack: bool) -> int:
    """Return the first of many contexts that has a bad axis, or -1."""
    for n in range(contexts.shape[0]):
        if first_bad_axis(contexts[n], categories, may_lack) >= 0:
            return n
    return -1


@entry_point
def slice_of(x: float, slices: int) -> int:
    """Return the slice of one axis that holds x; 1.0 belongs to the last."""
    return min(int(x * slices), slices - 1)


# Rows


@compiled
def _first_slot(key: int, last: int) -> int:
    """Return where the search for a cell begins; small keys have a place of their own."""
    if key <= last:
        return key
    word = (((key ^ (key >> 32)) & WORD) * 0x61C88647) & WORD
    return (word ^ (word >> 15)) & last


@compiled
def find_row(ledger: Ledger, key: int) -> int:
    """Return the row of a cell, or EMPTY if it was never visited."""
    last = ledger.slots.shape[0] - 1
    slot = _first_slot(key, last)
    row: Any = ledger.slots[slot]
    while row != EMPTY and ledger.cells[row, CELL_KEY] != key:
        slot = (slot + 1) & last
        row = ledger.slots[slot]
    return int(row)


@compiled
def _place_row(ledger: Ledger, key: int, row: int) -> None:
    last = ledger.slots.shape[0] - 1
    slot = _first_slot(key, last)
    while ledger.slots[slot] != EMPTY:
        slot = (slot + 1) & last
    ledger.slots[slot] = row


@entry_point
def row_for(ledger: Ledger, key: int) -> int:
    """Return the row of a cell, a new one if it was never visited; there must be room for it."""
    row = find_row(ledger, key)
    if row == EMPTY:
        row = int(ledger.site[ROWS])
        ledger.site[ROWS] = row + 1
        ledger.cells[row, CELL_KEY] = key
        ledger.cells[row, CELL_BORN] = ledger.site[LAST_ID]
        _place_row(ledger, key, row)
    return row


@entry_point
def has_room(ledger: Ledger) -> bool:
    """Tell whether every view can have a new cell."""
    return bool(ledger.site[ROWS] + ledger.site[VIEWS] <= ledger.cells.shape[0])


@compiled
def epoch_is_over(site: Ints) -> bool:
    """Tell whether the next item of a site starts a new epoch; only a guessed horizon ends one."""
    return bool(site[DOUBLING] and site[ARRIVALS] - site[EPOCH_START] >= site[EPOCH_LENGTH])


@entry_point
def reindex(ledger: Ledger) -> None:
    """Fill the empty hash table from the rows."""
    for row in range(ledger.site[ROWS]):
        _place_row(ledger, ledger.cells[row, CELL_KEY], row)


@compiled
def sample_count(ledger: Ledger, row: int, arm: int) -> float:
    """Return how many rewards an arm has or will have: pending ones count from the moment of the choice."""
    return float(ledger.rewards[row, arm, REWARD_COUNT] + ledger.counts[row, arm, PENDING])


@compiled
def net_mean(ledger: Ledger, row: int, arm: int) -> float:
    """Return the mean reward of an arm net of its cost; an arm without rewards counts as never right."""
    mean = ledger.rewards[row, arm, MEAN_REWARD] if row != EMPTY else 0.0
    return float(mean - ledger.costs[arm])
