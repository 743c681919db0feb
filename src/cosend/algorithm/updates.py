"""Who learns what in a cell: the one place where its counts and means move.

    a choice of ...            at the moment of the choice            when its label comes
    local model j              j is pending; the cell has an arrival  count and mean of j
    peer k, explore/exploit    k is pending; the cell has an arrival  count and mean of k
    peer k, training           training count of k; an arrival        my trainings of k, and nothing else of k
    local j, to answer a peer  j is pending                           count and mean of j; the cell was taught
    other local models         nothing                                count and mean of those that were run to be scored

The last line but one is the peer's side of a training. Cubes count their labels too, because they split by them.

Between a choice and its label the cells may have been laid out again, or a cube may have split. A row remembers what
the last id was when it was begun, so it can tell which decisions were entered in it and which came before it.
"""

from __future__ import annotations

import math

from cosend.algorithm import layout as col
from cosend.algorithm.cells import find_cell
from cosend.algorithm.layout import EMPTY, EXPLORE, MOST, TAUGHT, TRAIN, Floats, Ledger
from cosend.compiled import compiled, compiled_apart


@compiled
def enter_choice(ledger: Ledger, row: int, arm: int, phase: int, arrivals: int) -> None:
    """Enter a choice for an own item in a cell: as 1 arrival whatever arm is used, or 0 if it was counted before."""
    ledger.cells[row, col.CELL_ARRIVALS] += arrivals
    if phase == TRAIN:  # figure "Train": N_1 of the peer, and neither its mean nor its count
        ledger.counts[row, arm, col.TRAINING] += 1
        ledger.counts[row, arm, col.TRAINING_PENDING] += 1
    else:  # exactness.md, "Arithmetic": a pending choice counts from the moment it is made
        ledger.counts[row, arm, col.PENDING] += 1


@compiled
def enter_answer(ledger: Ledger, row: int, function: int) -> None:
    """Enter an answer that a label will follow."""
    ledger.counts[row, function, col.PENDING] += 1
    ledger.cells[row, col.CELL_ANSWERING] += 1
    ledger.site[col.LAST_ID] += 1


@compiled
def enter_report(ledger: Ledger, row: int, peer: int, arrivals: int, taught: int) -> None:
    """Refresh the cached training count of a peer from what it reports."""
    pending = int(ledger.counts[row, peer, col.TRAINING_PENDING])
    if ledger.site[col.COUNTS_MINE_ONLY]:  # exactness.md, "Asking and training"
        count = arrivals + int(ledger.counts[row, peer, col.MY_TRAINING]) + pending
    else:
        # Pending ones were sent but have not been taught: without them a slow label would train the peer again.
        count = arrivals + taught + pending
    ledger.counts[row, peer, col.TRAINING] = min(count, MOST)


@compiled
def enter_reward(ledger: Ledger, row: int, arm: int, kind: int, gain: float, was_pending: bool) -> None:
    """Enter the reward of a choice or answer; `was_pending` is false if the row does not know it as pending."""
    if kind == TRAIN:
        ledger.counts[row, arm, col.MY_TRAINING] += 1
        if was_pending:
            ledger.counts[row, arm, col.TRAINING_PENDING] -= 1
        return
    # Figures "Explore" and "Exploit": the sample mean of the arm in the cell.
    reward_sum = ledger.rewards[row, arm, col.REWARD_SUM] + gain
    reward_count = ledger.rewards[row, arm, col.REWARD_COUNT] + 1
    ledger.rewards[row, arm, col.REWARD_SUM] = reward_sum
    ledger.rewards[row, arm, col.REWARD_COUNT] = reward_count
    ledger.rewards[row, arm, col.MEAN_REWARD] = reward_sum / reward_count
    if was_pending:
        ledger.counts[row, arm, col.PENDING] -= 1
    if kind == TAUGHT:
        ledger.cells[row, col.CELL_TAUGHT] += 1
        ledger.cells[row, col.CELL_ANSWERING] -= was_pending


@compiled_apart
def _score_others(ledger: Ledger, row: int, used: int, gains: Floats) -> None:
    """Enter the gains of local models that were not used; not a number stands for a model that was not run."""
    for arm in range(gains.shape[0]):
        if arm != used and not math.isnan(gains[arm]):
            enter_reward(ledger, row, arm, EXPLORE, gains[arm], False)


@compiled
def learn_in_cell(
    ledger: Ledger,
    context: Floats,
    row: int,
    id: int,
    arrival: int,
    arm: int,
    kind: int,
    gain: float,
    others: Floats,
) -> None:
    """Enter a reward where it belongs now; `row` is where it was entered when that cannot have changed.

    `others` are the gains of all local models, of which some were run to be scored; it is empty if none was.
    """
    if ledger.site[col.STEADY]:
        enter_reward(ledger, row, arm, kind, gain, True)
        if others.shape[0] > 0:
            _score_others(ledger, row, arm, others)
    else:
        _learn_where_it_lies(ledger, context, id, arrival, arm, kind, gain, others)


@compiled_apart
def _learn_where_it_lies(
    ledger: Ledger, context: Floats, id: int, arrival: int, arm: int, kind: int, gain: float, others: Floats
) -> None:
    """Enter a reward in the cell that holds its context by now."""
    row = find_cell(ledger, context, arrival)
    if row == EMPTY:
        return
    # exactness.md, "Doubling" and "Cubes that split": where the cell of the choice was replaced.
    was_pending = id > ledger.cells[row, col.CELL_BORN]
    if was_pending or ledger.site[col.KEEPS]:
        enter_reward(ledger, row, arm, kind, gain, was_pending)
        _score_others(ledger, row, arm, others)
        ledger.cells[row, col.CELL_LABELS] += kind != TAUGHT


@compiled_apart
def undo_in_cell(ledger: Ledger, context: Floats, row: int, id: int, arrival: int, arm: int, kind: int) -> None:
    """Take back a choice or answer whose label will never come, if its cell still knows it as pending."""
    if not ledger.site[col.STEADY]:
        row = find_cell(ledger, context, arrival)
        if row == EMPTY or id <= ledger.cells[row, col.CELL_BORN]:
            return
    if kind == TRAIN:
        ledger.counts[row, arm, col.TRAINING] -= 1
        ledger.counts[row, arm, col.TRAINING_PENDING] -= 1
    else:
        ledger.counts[row, arm, col.PENDING] -= 1
        ledger.cells[row, col.CELL_ANSWERING] -= kind == TAUGHT
