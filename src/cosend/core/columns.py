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
SLICES: Final = 10
ORDER: Final = 11
COUNTS_MINE_ONLY: Final = 12  # 1: a peer's trainings by others do not count
DOUBLING: Final = 13  # 1: the horizon is unknown, phases double
EPOCH: Final = 14  # how often the partition was laid anew
PHASE_START: Final = 15  # arrivals before the current phase
PHASE_LENGTH: Final = 16  # 0: no horizon
QUOTA_START: Final = 17  # arrivals that the step of the quotas does not count
RULE: Final = 18  # by quota, or by which index
SITE_COLUMNS: Final = 19

# Ledger.parameters: real numbers of a site.
EXPONENT: Final = 0
QUOTA: Final = 1  # of the steps from QUOTA_FROM to QUOTA_UNTIL, as far as a whole number can tell
QUOTA_FROM: Final = 2
QUOTA_UNTIL: Final = 3
PARAMETER_COLUMNS: Final = 4

# Ledger.cells: one row for each visited cell.
CELL_KEY: Final = 0
CELL_ARRIVALS: Final = 1  # own items
CELL_TAUGHT: Final = 2  # items of peers whose label was passed on
CELL_COLUMNS: Final = 3

# Ledger.rewards: of each arm in each visited cell. The count is a double too: exact up to 2^53.
REWARD_SUM: Final = 0  # gains, without the known cost of the arm
REWARD_COUNT: Final = 1
MEAN_REWARD: Final = 2  # one divided by the other: read at every choice, written at every label
REWARD_COLUMNS: Final = 3

# Ledger.counts: of each arm in each visited cell, 32 bits wide.
WAITING: Final = 0  # choices whose reward has not come yet
TRAINING: Final = 1  # labelled data the peer is believed to have here
MY_TRAINING: Final = 2  # of which this site has sent so much
TRAINING_WAITING: Final = 3  # trainings whose label has not come yet
COUNT_COLUMNS: Final = 4
