"""What a site does with an item, with a peer's question and with a peer's call, whatever its policy."""

from __future__ import annotations

import math

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel import draws
from cosend.core.kernel.bookkeeping import (
    BY_KL_INDEX,
    BY_MIXTURE,
    BY_QUOTA,
    EXPLOIT,
    LOOK,
    enter_choice,
    enter_report,
)
from cosend.core.kernel.changes import arm_to_look_at
from cosend.core.kernel.cos import ASK, Asked, best_among, by_quota, count_owed, nth_owed, nth_tie, train_or_ask
from cosend.core.kernel.cubes import split_if_due
from cosend.core.kernel.indices import best_by_kl_index, by_kl_index, nth_with_kl_index
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger
from cosend.core.kernel.location import find_cell, visit_cell
from cosend.core.kernel.mixed_steps import answer_mixed, find_mixed_row
from cosend.core.kernel.quotas import quota_of, training_budget
from cosend.core.kernel.thompson import by_sample


@compiled
def choose(ledger: Ledger, context: Floats, asked: Asked) -> tuple[int, int, int, int]:
    """Choose an arm for the next item and enter the choice; nothing is entered unless it is a phase.

    Returns (outcome, arm, row, candidates): a phase, or ASK (the arm is the peer to ask). There must be room, and the
    epoch must not be over. Sites that mix views do so by `choose_mixed`.
    """
    arrival = ledger.site[col.ARRIVALS] + 1
    phase, arm, row, candidates = name_arm(ledger, context, asked, arrival)
    if phase != ASK:
        enter_item(ledger, context, row, arm, phase, arrival, 1)
    return phase, arm, row, candidates


@compiled
def name_arm(ledger: Ledger, context: Floats, asked: Asked, arrival: int) -> tuple[int, int, int, int]:
    """Return what `choose` does, for an item that is the site's `arrival`-th; its cell is visited, no count moves."""
    row = visit_cell(ledger, ledger.site[col.TRUSTED], context, arrival)
    phase, arm, candidates = named(ledger, row, context, arrival, asked)
    return phase, arm, row, candidates


@compiled
def enter_item(ledger: Ledger, context: Floats, row: int, arm: int, phase: int, arrival: int, arrivals: int) -> None:
    """Enter a choice for the `arrival`-th item; `row` is its cell in the view that is trusted.

    It counts as 1 arrival, or as 0 if it was counted when it came and its arm has failed.
    """
    site = ledger.site
    view = site[col.TRUSTED]
    if site[col.STEADY]:
        enter_choice(ledger, row, arm, phase, arrival, arrivals)
    else:
        enter_in_all_views(ledger, context, row, arm, phase, arrival, arrivals)
    if arrivals:
        ledger.views[view, col.VIEW_DECIDED] += 1.0
        site[col.ARRIVALS] = arrival
    site[col.TICKETS] += 1


@compiled_apart
def enter_in_all_views(
    ledger: Ledger, context: Floats, row: int, arm: int, phase: int, arrival: int, arrivals: int
) -> None:
    """Enter a choice in the cell of every view; a new arrival splits cells that have seen enough."""
    for view in range(ledger.site[col.VIEWS]):
        place = row if view == ledger.site[col.TRUSTED] else visit_cell(ledger, view, context, arrival)
        enter_choice(ledger, place, arm, phase, arrival, arrivals)
        if arrivals:
            split_if_due(ledger, place)


@compiled
def named(ledger: Ledger, row: int, context: Floats, arrival: int, asked: Asked) -> tuple[int, int, int]:
    """Return (phase, arm, candidates) that the rule of the site names for an item in a cell."""
    if ledger.site[col.RULE] == BY_QUOTA:
        return by_quota(ledger, row, arrival - ledger.site[col.QUOTA_START], asked)
    return named_by_index(ledger, row, context, arrival, asked)


@compiled_apart
def named_by_index(ledger: Ledger, row: int, context: Floats, arrival: int, asked: Asked) -> tuple[int, int, int]:
    """Return (phase, arm, candidates) of an index policy; peers that are owed training come first, then looks."""
    if ledger.parameters[col.PEER_TRAINING] > 0.0:
        phase, peer, stale = train_or_ask(ledger, row, training_budget(ledger, row), asked)
        if phase != EXPLOIT:
            return phase, peer, stale
    if ledger.site[col.RISING]:
        look = arm_to_look_at(ledger, row)
        if look != EMPTY:
            return LOOK, look, 1
    if ledger.site[col.RULE] == BY_KL_INDEX:
        return by_kl_index(ledger, row)
    return by_sample(ledger, row, find_cell(ledger, ledger.site[col.VIEWS] - 1, context, arrival))


@compiled
def hear(ledger: Ledger, context: Floats, peer: int, arrivals: int, taught: int, arrival: int) -> None:
    """Enter what a peer reports around the context of the site's `arrival`-th item; there must be room."""
    if ledger.site[col.RULE] == BY_MIXTURE:
        return  # nobody is trained, whatever they have
    for view in range(ledger.site[col.VIEWS]):
        row = visit_cell(ledger, view, context, arrival)
        enter_report(ledger, row, peer, arrivals, taught)


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
        row = visit_cell(ledger, ledger.site[col.TRUSTED], context, ledger.site[col.ARRIVALS])
    else:
        row = find_cell(ledger, ledger.site[col.TRUSTED], context, ledger.site[col.ARRIVALS])
    function = own_function(ledger, row, caller, request, training, labelled)
    if labelled:
        enter_answer(ledger, context, row, function)
    return function, row


@compiled
def enter_answer(ledger: Ledger, context: Floats, row: int, function: int) -> None:
    """Enter an answer that a label will follow; `row` is the item's cell in the view that is trusted."""
    site = ledger.site
    for view in range(site[col.VIEWS]):
        place = row if view == site[col.TRUSTED] else visit_cell(ledger, view, context, site[col.ARRIVALS])
        ledger.counts[place, function, col.WAITING] += 1
        ledger.cells[place, col.CELL_ANSWERING] += 1
    site[col.TICKETS] += 1


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
        row = find_cell(ledger, ledger.site[col.TRUSTED], context, ledger.site[col.ARRIVALS])
    if row == EMPTY:
        return 0, 0
    return ledger.cells[row, col.CELL_ARRIVALS], ledger.cells[row, col.CELL_TAUGHT]
