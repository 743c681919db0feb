"""What a site does with an item, a peer's question and a peer's call when its policy goes by cells."""

from __future__ import annotations

from cosend.algorithm import draws
from cosend.algorithm import layout as col
from cosend.algorithm.cells import find_cell, split_if_due, visit_cell
from cosend.algorithm.cos import ASK, Asked, best_among, by_quota, count_owed, nth_owed, nth_tie, quota_of
from cosend.algorithm.layout import BY_QUOTA, Floats, Ledger
from cosend.algorithm.ucb import by_kl_index, local_by_kl_index
from cosend.algorithm.updates import enter_answer, enter_choice
from cosend.compiled import compiled


@compiled
def choose(ledger: Ledger, context: Floats, asked: Asked) -> tuple[int, int, int, int]:
    """Choose an arm for the next item and enter the choice, unless a peer must be asked first.

    Returns (outcome, arm, row, candidates): a phase, or ASK (the arm is the peer to ask). There must be room, and the
    epoch must not be over.
    """
    arrival = ledger.site[col.ARRIVALS] + 1
    phase, arm, row, candidates = select_arm(ledger, context, asked, arrival)
    if phase != ASK:
        enter_item(ledger, row, arm, phase, arrival, 1)
    return phase, arm, row, candidates


@compiled
def select_arm(ledger: Ledger, context: Floats, asked: Asked, arrival: int) -> tuple[int, int, int, int]:
    """Return what `choose` does, for an item that is the site's `arrival`-th; its cell is visited, no count moves."""
    row = visit_cell(ledger, context, arrival)
    if ledger.site[col.RULE] == BY_QUOTA:
        phase, arm, candidates = by_quota(ledger, row, arrival - ledger.site[col.QUOTA_START], asked)
    else:
        phase, arm, candidates = by_kl_index(ledger, row)
    return phase, arm, row, candidates


@compiled
def enter_item(ledger: Ledger, row: int, arm: int, phase: int, arrival: int, arrivals: int) -> None:
    """Enter a choice for the `arrival`-th item; `row` is its cell.

    It counts as 1 arrival, or as 0 if it was counted when it came and its arm has failed. A new arrival splits a cell
    that has seen enough.
    """
    site = ledger.site
    enter_choice(ledger, row, arm, phase, arrivals)
    if arrivals:
        if site[col.ZOOMS]:
            split_if_due(ledger, row)
        site[col.ARRIVALS] = arrival
    site[col.LAST_ID] += 1


@compiled
def answer_by_cell(
    ledger: Ledger, context: Floats, caller: int, request: int, training: bool, labelled: bool
) -> tuple[int, int]:
    """Return the local model with which to answer a peer, and the row it is entered in.

    In training it answers as if the item were its own: a model still owed samples, else its best. `labelled` says that
    the label will follow; without it nothing is entered. There must be room.
    """
    if labelled:
        row = visit_cell(ledger, context, ledger.site[col.ARRIVALS])
    else:
        row = find_cell(ledger, context, ledger.site[col.ARRIVALS])
    function = _local_model(ledger, row, caller, request, training, labelled)
    if labelled:
        enter_answer(ledger, row, function)
    return function, row


@compiled
def _local_model(ledger: Ledger, row: int, caller: int, request: int, training: bool, labelled: bool) -> int:
    """Return the local model with which to answer: as for an own item if a label will follow, else the best."""
    site = ledger.site
    own = site[col.OWN_COUNT]
    if labelled and site[col.RULE] != BY_QUOTA:  # docs/decisions/0001
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
