"""What a site does by cells: it chooses, answers peers, and learns. The one place where counts and means move.

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

from cosend.algorithm import draws
from cosend.algorithm import layout as col
from cosend.algorithm.cells import find_cell, split_if_due, visit_cell
from cosend.algorithm.cos import ASK, Asked, best_among, by_quota, count_owed, nth_owed, nth_tie, quota_of
from cosend.algorithm.layout import BY_QUOTA, EMPTY, EXPLORE, MOST, TAUGHT, TRAIN, Floats, Ledger
from cosend.algorithm.ucb import by_kl_index, local_by_kl_index
from cosend.compiled import compiled, compiled_apart

# What is entered when


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
    ledger: Ledger, context: Floats, row: int, id: int, arm: int, kind: int, gain: float, others: Floats
) -> None:
    """Enter a reward where it belongs now; `row` is where it was entered when that cannot have changed.

    `others` are the gains of all local models, of which some were run to be scored; it is empty if none was.
    """
    if ledger.site[col.STEADY]:
        enter_reward(ledger, row, arm, kind, gain, True)
        if others.shape[0] > 0:
            _score_others(ledger, row, arm, others)
    else:
        _learn_where_it_lies(ledger, context, id, arm, kind, gain, others)


@compiled_apart
def _learn_where_it_lies(
    ledger: Ledger, context: Floats, id: int, arm: int, kind: int, gain: float, others: Floats
) -> None:
    """Enter a reward in the cell that holds its context by now."""
    row = find_cell(ledger, context)
    if row == EMPTY:
        return
    # exactness.md, "Doubling" and "Cubes that split": where the cell of the choice was replaced.
    was_pending = id > ledger.cells[row, col.CELL_BORN]
    if was_pending or ledger.site[col.KEEPS]:
        enter_reward(ledger, row, arm, kind, gain, was_pending)
        _score_others(ledger, row, arm, others)
        ledger.cells[row, col.CELL_LABELS] += kind != TAUGHT


@compiled_apart
def undo_in_cell(ledger: Ledger, context: Floats, row: int, id: int, arm: int, kind: int) -> None:
    """Take back a choice or answer whose label will never come, if its cell still knows it as pending."""
    if not ledger.site[col.STEADY]:
        row = find_cell(ledger, context)
        if row == EMPTY or id <= ledger.cells[row, col.CELL_BORN]:
            return
    if kind == TRAIN:
        ledger.counts[row, arm, col.TRAINING] -= 1
        ledger.counts[row, arm, col.TRAINING_PENDING] -= 1
    else:
        ledger.counts[row, arm, col.PENDING] -= 1
        ledger.cells[row, col.CELL_ANSWERING] -= kind == TAUGHT


# Choosing, and answering peers


@compiled
def choose(ledger: Ledger, context: Floats, asked: Asked) -> tuple[int, int, int, int]:
    """Choose an arm for the next item and enter the choice, unless a peer must be asked first.

    Returns (outcome, arm, row, candidates): a phase, or ASK (the arm is the peer to ask). There must be room, and the
    epoch must not be over.
    """
    phase, arm, row, candidates = select_arm(ledger, context, asked, ledger.site[col.ARRIVALS] + 1)
    if phase != ASK:
        enter_item(ledger, row, arm, phase, 1)
    return phase, arm, row, candidates


@compiled
def select_arm(ledger: Ledger, context: Floats, asked: Asked, arrival: int) -> tuple[int, int, int, int]:
    """Return what `choose` does, for an item that is the site's `arrival`-th; its cell is visited, no count moves."""
    row = visit_cell(ledger, context)
    if ledger.site[col.RULE] == BY_QUOTA:
        phase, arm, candidates = by_quota(ledger, row, arrival - ledger.site[col.QUOTA_START], asked)
    else:
        phase, arm, candidates = by_kl_index(ledger, row)
    return phase, arm, row, candidates


@compiled
def enter_item(ledger: Ledger, row: int, arm: int, phase: int, arrivals: int) -> None:
    """Enter a choice for an item; `row` is its cell.

    It counts as 1 arrival, or as 0 if it was counted when it came and its arm has failed. A new arrival splits a cell
    that has seen enough.
    """
    site = ledger.site
    enter_choice(ledger, row, arm, phase, arrivals)
    if arrivals and site[col.ZOOMS]:
        split_if_due(ledger, row)
    site[col.ARRIVALS] += arrivals
    site[col.LAST_ID] += 1


@compiled
def answer_by_cell(
    ledger: Ledger, context: Floats, caller: int, request: int, training: bool, labelled: bool
) -> tuple[int, int]:
    """Return the local model with which to answer a peer, and the row it is entered in.

    In training it answers as if the item were its own: a model still owed samples, else its best. `labelled` says that
    the label will follow; without it nothing is entered. There must be room.
    """
    row = visit_cell(ledger, context) if labelled else find_cell(ledger, context)
    function = _local_model(ledger, row, caller, request, training, labelled)
    if labelled:
        enter_answer(ledger, row, function)
    return function, row


@compiled
def _local_model(ledger: Ledger, row: int, caller: int, request: int, training: bool, labelled: bool) -> int:
    """Return the local model with which to answer: as for an own item if a label will follow, else the best."""
    site = ledger.site
    own = site[col.OWN_COUNT]
    if labelled and site[col.RULE] != BY_QUOTA:  # docs/contributing/0001
        return local_by_kl_index(ledger, row, caller, request)
    if training:  # figure "Train": a peer in training answers as if the item were its own
        quota = quota_of(ledger, row, max(1, site[col.ARRIVALS] - site[col.QUOTA_START]))
        owed = count_owed(ledger, row, 0, own, quota)
        if owed > 0:
            n = draws.pick(site[col.KEY0], site[col.KEY1], caller, request, draws.ANSWER_TRAINING, owed)
            return nth_owed(ledger, row, 0, quota, n)
    first, ties = best_among(ledger, row, own)
    n = draws.pick(site[col.KEY0], site[col.KEY1], caller, request, draws.ANSWER_BEST, ties)
    return nth_tie(ledger, row, first, n)
