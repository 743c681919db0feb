"""The columns of the ledger's arrays, by name.

Plain arrays with named columns and not structured ones: Numba takes a plain array from Python four times as fast.
"""

from __future__ import annotations

from typing import Final

# Ledger.site: whole numbers of the site.
KEY0: Final = 0  # the two words of the site's draws
KEY1: Final = 1
ARRIVALS: Final = 2  # own items so far
TICKETS: Final = 3  # decisions and answers that a label was promised for
ROWS: Final = 4  # visited cells
OWN_COUNT: Final = 5
ARM_COUNT: Final = 6
MAX_PEER_FUNCTIONS: Final = 7
DIMENSIONS: Final = 8  # axes of a context, without the time axis
TIMED: Final = 9  # 1: time is one more axis
ORDER: Final = 10
COUNTS_MINE_ONLY: Final = 11  # 1: a peer's trainings by others do not count
DOUBLING: Final = 12  # 1: the horizon is unknown, epochs double
EPOCH: Final = 13  # how often the partition was laid anew
EPOCH_START: Final = 14  # arrivals before the current epoch
EPOCH_LENGTH: Final = 15  # 0: no horizon
QUOTA_START: Final = 16  # arrivals that the step of the quotas does not count
RULE: Final = 17  # by quota, or by which index
STEADY: Final = 18  # 1: a cell that was visited stays; else a late label looks for its cell
KEEPS: Final = 19  # 1: a label that comes after its cell was replaced counts where its context lies now
VIEWS: Final = 20  # how many views there are
ZOOMS: Final = 21  # whether cells are cubes that split, and when
MAX_ROWS: Final = 22  # cubes are not split into more than so many
REPORTS: Final = 23  # the mixed view whose cells tell peers how much labelled data there is
CATEGORIES: Final = 24  # which axes are categories, as bits
SCORES: Final = 25  # 1: a label scores every local classifier that costs nothing, 0: only the arm that was used
PATTERN: Final = 26  # which local classifiers were right about the newest labelled item; 0 before there is one
NEWEST: Final = 27  # the ticket of that item
SITE_COLUMNS: Final = 28

# Ledger.parameters: real numbers of a site; behind them, room in which mixed views work.
EXPONENT: Final = 0
QUOTA: Final = 1  # of the steps from QUOTA_FROM to QUOTA_UNTIL, as far as a whole number can tell
QUOTA_FROM: Final = 2
QUOTA_UNTIL: Final = 3
ZOOM_RATE: Final = 4  # quotas of a cube of level p grow with exp(rate * p)
SPLIT_AFTER: Final = 5  # arrivals, or labels, after which a cube of level 0 splits
SPLIT_RATE: Final = 6  # and how that grows with the level
SIDE_RATE: Final = 7  # how the difference within a cube shrinks with the level
INHERITED: Final = 8  # how many rewards of its parent a new cube starts with at most
STEEPNESS: Final = 9  # the difference that the cube of level 0 may hide between two arms
OVERDUE_GAIN: Final = 10  # what an overdue decision gets in place of its label; not a number: it is dropped
SHARE: Final = 11  # of the weight that is spread over all views at a label, at most
BONUS: Final = 12  # how much is hoped of arms that are not scored by every label
MARGIN: Final = 13  # by how much a peer must be better than a local classifier
SAME_VIEW: Final = 14  # the number of the view of features that never changed; 0: there is none
PARAMETER_COLUMNS: Final = 16  # one to spare: what mixed views work in begins at an even place, about 2 % faster

# Ledger.views: one row for each way to look at a context.
VIEW_AXES: Final = 0  # which axes it sees, as bits
VIEW_AXIS_COUNT: Final = 1
VIEW_SLICES: Final = 2
# Of views that are mixed:
VIEW_MORE: Final = 3  # for how many others it stands: those of features that never changed are one
VIEW_KIND: Final = 4  # what its cells are: the whole, slices of an axis, of two, of all, patterns, or none
VIEW_FIRST: Final = 5  # the number of its axis, if it has one or two
VIEW_SECOND: Final = 6
VIEW_UP: Final = 7  # the next coarser view of the same axes; the first view if there is none
VIEW_FINE: Final = 8  # 1: it has cells only where that one has seen enough labels
VIEW_MEMORY: Final = 9  # by what its sums are multiplied before a reward is added
VIEW_WEIGHT: Final = 10
VIEW_COLUMNS: Final = 11

# Ledger.cells: one row for each visited cell.
CELL_KEY: Final = 0
CELL_ARRIVALS: Final = 1  # own items
CELL_TAUGHT: Final = 2  # items of peers whose label was passed on
CELL_BORN: Final = 3  # tickets when the row was begun: what has a smaller one was not entered here
CELL_LEVEL: Final = 4  # of a cube that may split, or -1 - level once it was split
CELL_LABELS: Final = 5  # own items whose label has come here; not counted where cells cannot change
CELL_ANSWERING: Final = 6  # answers for peers that wait for their label
CELL_COLUMNS: Final = 7

# Ledger.rewards: of each arm in each visited cell. The count is a double too: exact up to 2^53.
REWARD_SUM: Final = 0  # gains, without the known cost of the arm
REWARD_COUNT: Final = 1
MEAN_REWARD: Final = 2  # one divided by the other: read at every choice, written at every label
EVIDENCE: Final = 2  # in its place in mixed views: what the row adds to the view that adds up
REWARD_COLUMNS: Final = 3

# Ledger.counts: of each arm in each visited cell, 32 bits wide.
WAITING: Final = 0  # choices whose reward has not come yet
TRAINING: Final = 1  # labelled data the peer is believed to have here
MY_TRAINING: Final = 2  # of which this site has sent so much
TRAINING_WAITING: Final = 3  # trainings whose label has not come yet
COUNT_COLUMNS: Final = 4

# Waiting.entries: whole numbers of each choice or answer that waits for its label.
WAIT_ID: Final = 0  # 0 where nothing waits
WAIT_ROW: Final = 1  # where it was entered
WAIT_ARM: Final = 2
WAIT_KIND: Final = 3  # TRAIN, EXPLORE, EXPLOIT or TAUGHT
WAIT_ARRIVAL: Final = 4  # the site's arrivals by then
WAIT_FACTS: Final = 5  # those before say what waits; those behind, where more of it stands
WAIT_SPOT: Final = 5  # the row of `Waiting.contexts`
WAIT_FREE: Final = 6  # of no entry: in slot n, from WAIT_COUNT on, a row that is free, less n, so that it begins as 0
WAIT_COLUMNS: Final = 7

# Waiting.desk, which is Ledger.site behind its own columns: what is counted, the limits, and what became overdue.
WAIT_COUNT: Final = SITE_COLUMNS
WAIT_OLDEST: Final = SITE_COLUMNS + 1  # no smaller id waits
WAIT_LIMIT: Final = SITE_COLUMNS + 2  # arrivals after which a label is overdue
WAIT_MOST: Final = SITE_COLUMNS + 3  # how many may wait at once
OVERDUE_COUNT: Final = SITE_COLUMNS + 4
OVERDUE: Final = SITE_COLUMNS + 5  # id, arm and kind of each
OVERDUE_AT_ONCE: Final = 64  # how many there may be before Python must take them
DESK_END: Final = OVERDUE + 3 * OVERDUE_AT_ONCE
