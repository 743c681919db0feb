"""Who learns what: the one place where counts and means move.

    a choice of ...            at the moment of the choice            when its label comes
    local classifier j           j waits; the cell has an arrival       count and mean of j
    peer k, explore/exploit    k waits; the cell has an arrival       count and mean of k
    peer k, training           training count of k; an arrival        my trainings of k, and nothing else of k
    own j, to answer a peer    j waits                                count and mean of j; the cell was taught
    other own functions        nothing                                count and mean of those that were run to be scored

The last line but one is the peer's side of a training. Cubes count their labels too (`count_label`), because they
split by them.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, MOST, Floats, Ledger

# Which rule a site follows.
BY_QUOTA: Final = 0
BY_KL_INDEX: Final = 1
BY_MIXTURE: Final = 2

TRAIN: Final = 1
EXPLORE: Final = 2
EXPLOIT: Final = 3
TAUGHT: Final = 4
OUT: Final = np.inf  # the cost of an arm that may not be chosen now: it loses every comparison by itself


@compiled
def sample_count(ledger: Ledger, row: int, arm: int) -> float:
    """Return how many rewards an arm has or will have: what waits counts from the moment of the choice."""
    return float(ledger.rewards[row, arm, col.REWARD_COUNT] + ledger.counts[row, arm, col.WAITING])


@compiled
def net_mean(ledger: Ledger, row: int, arm: int) -> float:
    """Return the mean reward of an arm net of its cost; nothing received yet counts as never right."""
    mean = ledger.rewards[row, arm, col.MEAN_REWARD] if row != EMPTY else 0.0
    return float(mean - ledger.costs[arm])


@compiled
def may_be_chosen(ledger: Ledger, arm: int) -> bool:
    """Tell whether an arm is neither paused nor left out of this choice; asked where costs are not compared."""
    return bool(ledger.costs[arm] < OUT)


@compiled
def enter_choice(ledger: Ledger, row: int, arm: int, phase: int, arrivals: int) -> None:
    """Enter a choice for an own item in a cell: as 1 arrival whatever arm is used, or 0 if it was counted before."""
    ledger.cells[row, col.CELL_ARRIVALS] += arrivals
    if phase == TRAIN:  # figure "Train": N_1 of the peer, and neither its mean nor its count
        ledger.counts[row, arm, col.TRAINING] += 1
        ledger.counts[row, arm, col.TRAINING_WAITING] += 1
    else:  # exactness.md, "Arithmetic": what waits counts from the moment of the choice
        ledger.counts[row, arm, col.WAITING] += 1


@compiled
def enter_report(ledger: Ledger, row: int, peer: int, arrivals: int, taught: int) -> None:
    """Refresh the cached training count of a peer from what it reports."""
    waiting = int(ledger.counts[row, peer, col.TRAINING_WAITING])
    if ledger.site[col.COUNTS_MINE_ONLY]:  # exactness.md, "Asking and training"
        count = arrivals + int(ledger.counts[row, peer, col.MY_TRAINING]) + waiting
    else:
        # What waits was sent but has not been taught: without it a slow label would train the peer again and again.
        count = arrivals + taught + waiting
    ledger.counts[row, peer, col.TRAINING] = min(count, MOST)


@compiled
def enter_reward(ledger: Ledger, row: int, arm: int, kind: int, gain: float, waited: bool) -> None:
    """Enter the reward of a choice or answer; `waited` is false if the row does not know that it waited."""
    if kind == TRAIN:
        ledger.counts[row, arm, col.MY_TRAINING] += 1
        if waited:
            ledger.counts[row, arm, col.TRAINING_WAITING] -= 1
        return
    # Figures "Explore" and "Exploit": the sample mean of the arm in the cell.
    reward_sum = ledger.rewards[row, arm, col.REWARD_SUM] + gain
    reward_count = ledger.rewards[row, arm, col.REWARD_COUNT] + 1
    ledger.rewards[row, arm, col.REWARD_SUM] = reward_sum
    ledger.rewards[row, arm, col.REWARD_COUNT] = reward_count
    ledger.rewards[row, arm, col.MEAN_REWARD] = reward_sum / reward_count
    if waited:
        ledger.counts[row, arm, col.WAITING] -= 1
    if kind == TAUGHT:
        ledger.cells[row, col.CELL_TAUGHT] += 1
        ledger.cells[row, col.CELL_ANSWERING] -= waited


@compiled_apart
def score_others(ledger: Ledger, row: int, used: int, gains: Floats) -> None:
    """Enter what a label says of local classifiers that were not used; one that was not run has no number as gain."""
    for arm in range(gains.shape[0]):
        if arm != used and not math.isnan(gains[arm]):
            enter_reward(ledger, row, arm, EXPLORE, gains[arm], False)


@compiled
def count_label(ledger: Ledger, row: int, kind: int) -> None:
    """Count a label that has come to a cell; those of answers are counted as taught."""
    ledger.cells[row, col.CELL_LABELS] += kind != TAUGHT


@compiled
def strike(ledger: Ledger, row: int, arm: int, kind: int) -> None:
    """Strike out a choice or answer whose label will never come: it no longer counts."""
    if kind == TRAIN:
        ledger.counts[row, arm, col.TRAINING] -= 1
        ledger.counts[row, arm, col.TRAINING_WAITING] -= 1
    else:
        ledger.counts[row, arm, col.WAITING] -= 1
        ledger.cells[row, col.CELL_ANSWERING] -= kind == TAUGHT
