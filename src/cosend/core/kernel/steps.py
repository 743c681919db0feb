"""What a site does with an item, with a peer's question and with a peer's call, whatever its policy."""

from __future__ import annotations

import math

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel import draws
from cosend.core.kernel.bookkeeping import (
    BY_MIXTURE,
    BY_QUOTA,
    enter_choice,
    enter_report,
)
from cosend.core.kernel.cos import ASK, Asked, best_among, by_quota, count_owed, nth_owed, nth_tie
from cosend.core.kernel.cubes import split_if_due
from cosend.core.kernel.indices import best_by_kl_index, by_kl_index, nth_with_kl_index
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger
from cosend.core.kernel.location import find_cell, visit_cell
from cosend.core.kernel.mixed_steps import answer_mixed, find_mixed_row
from cosend.core.kernel.quotas import quota_of


@compiled
def choose(ledger: Ledger, context: Floats, asked: Asked) -> tuple[int, int, int, int]:
    """Choose an arm for the next item and enter the choice; nothing is entered unless it is a phase.

    Returns (outcome, arm, row, candidates): a phase, or ASK (the arm is the peer to ask). There must be room, and the
    epoch must not be over. Sites that mix views do so by `choose_mixed`.
    """
    arrival = ledger.site[col.ARRIVALS] + 1
    phase, arm, row, candidates = name_arm(ledger, context, asked, arrival)
    if phase != ASK:
        enter_item(ledger, row, arm, phase, arrival, 1)
    return phase, arm, row, candidates


@compiled
def name_arm(ledger: Ledger, context: Floats, asked: Asked, arrival: int) -> tuple[int, int, int, int]:
    """Return what `choose` does, for an item that is the site's `arrival`-th; its cell is visited, no count moves."""
    row = visit_cell(ledger, context, arrival)
    phase, arm, candidates = named(ledger, row, arrival, asked)
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
    site[col.TICKETS] += 1


@compiled
def named(ledger: Ledger, row: int, arrival: int, asked: Asked) -> tuple[int, int, int]:
    """Return (phase, arm, candidates) that the rule of the site names for an item in a cell."""
    if ledger.site[col.RULE] == BY_QUOTA:
        return by_quota(ledger, row, arrival - ledger.site[col.QUOTA_START], asked)
    return by_kl_index(ledger, row)


@compiled
def hear(ledger: Ledger, context: Floats, peer: int, arrivals: int, taught: int, arrival: int) -> None:
    """Enter what a peer reports around the context of the site's `arrival`-th item; there must be room."""
    if ledger.site[col.RULE] == BY_MIXTURE:
        return  # nobody is trained, whatever they have
    enter_report(ledger, visit_cell(ledger, context, arrival), peer, arrivals, taught)


@compiled
def answer(
    ledger: Ledger, context: Floats, caller: int, request: int, training: bool, labelled: bool, kept: Floats
) -> tuple[int, int]:
    """Return the local function with which to answer a peer, and the row it is entered in.

    In training it answers as if the item were its own: a function still owed samples, else its best. `labelled` says
    that the label will follow; without it nothing is entered. There must be room.
    """
    if ledger.site[col.RULE] == BY_MIXTURE:
        return answer_mixed(ledger, context, caller, request, labelled, kept)
    if labelled:
        row = visit_cell(ledger, context, ledger.site[col.ARRIVALS])
    else:
        row = find_cell(ledger, context, ledger.site[col.ARRIVALS])
    function = own_function(ledger, row, caller, request, training, labelled)
    if labelled:
        enter_answer(ledger, row, function)
    return function, row


@compiled
def enter_answer(ledger: Ledger, row: int, function: int) -> None:
    """Enter an answer that a label will follow; `row` is the item's cell."""
    ledger.counts[row, function, col.WAITING] += 1
    ledger.cells[row, col.CELL_ANSWERING] += 1
    ledger.site[col.TICKETS] += 1


@compiled
def own_function(ledger: Ledger, row: int, caller: int, request: int, training: bool, labelled: bool) -> int:
    """Return the local function with which to answer: as for an own item if a label will follow, else the best."""
    site = ledger.site
    own = site[col.OWN_COUNT]
    if labelled and site[col.RULE] != BY_QUOTA:  # docs/decisions/0001
        return own_function_by_index(ledger, row, caller, request)
    if training:  # figure "Train": a peer in training answers as if the item were its own
        quota = quota_of(ledger, row, max(1, site[col.ARRIVALS] - site[col.QUOTA_START]))
        owed = count_owed(ledger, row, 0, own, quota)
        if owed > 0:
            n = draws.pick(site[col.KEY0], site[col.KEY1], caller, request, draws.ANSWER_TRAINING, owed)
            return nth_owed(ledger, row, 0, quota, n)
    first, ties = best_among(ledger, row, own)
    n = draws.pick(site[col.KEY0], site[col.KEY1], caller, request, draws.ANSWER_BEST, ties)
    return nth_tie(ledger, row, first, n)


@compiled_apart
def own_function_by_index(ledger: Ledger, row: int, caller: int, request: int) -> int:
    """Return the local function that could be the best, to answer a call that will be followed by its label.

    With its best so far a peer could be stuck: a label tells it nothing of a function that it did not use.
    """
    site = ledger.site
    seen = float(ledger.cells[row, col.CELL_ARRIVALS] + ledger.cells[row, col.CELL_TAUGHT])
    level = math.log(max(1.0, seen))
    first, ties, index = best_by_kl_index(ledger, row, site[col.OWN_COUNT], level, 0.0)
    n = draws.pick(site[col.KEY0], site[col.KEY1], caller, request, draws.ANSWER_TRAINING, ties)
    return nth_with_kl_index(ledger, row, first, index, level, 0.0, n)


@compiled
def report(ledger: Ledger, context: Floats) -> tuple[int, int]:
    """Return how much labelled data there is around a context: own arrivals, and labels it was taught."""
    if ledger.site[col.RULE] == BY_MIXTURE:
        row = find_mixed_row(ledger, context)
    else:
        row = find_cell(ledger, context, ledger.site[col.ARRIVALS])
    if row == EMPTY:
        return 0, 0
    return ledger.cells[row, col.CELL_ARRIVALS], ledger.cells[row, col.CELL_TAUGHT]
