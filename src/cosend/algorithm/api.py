"""From Python into the compiled rules: each entry point is one step that nothing can interrupt.

There are two families of policies: those that go by cells (`cell_rules`), and the mixture of views
(`mixture`, `mixture_learning`). Which one a site has is decided in this module and nowhere else in compiled code.

The arrays come in as a plain tuple: Numba needs half a microsecond more to unpack a named one. What is called from here
is the same code that a simulation runs. `again` is 0 for a new item; for one that was counted when it came, and whose
arm has failed, it is the number of its arrival.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from cosend.algorithm import layout as col
from cosend.algorithm.cell_rules import (
    answer_by_cell,
    enter_answer,
    enter_item,
    enter_report,
    learn_in_cell,
    select_arm,
    undo_in_cell,
)
from cosend.algorithm.cells import find_cell, visit_cell
from cosend.algorithm.cos import ASK, Asked
from cosend.algorithm.layout import (
    BY_MIXTURE,
    EMPTY,
    TAUGHT,
    TRAIN,
    Floats,
    Ints,
    Ledger,
    Words,
    epoch_is_over,
    first_bad_axis,
    has_room,
)
from cosend.algorithm.mixture import (
    answer_mixed,
    choose_mixed,
    enter_mixed,
    enter_mixed_answer,
    find_mixed_row,
    forecast,
    weigh_arms,
)
from cosend.algorithm.mixture_learning import learn_mixed, undo_mixed
from cosend.algorithm.pending import (
    PendingTable,
    add_pending,
    can_add,
    fill_slot,
    find_pending,
    next_spot,
    oldest_pending,
    remove_pending,
    slot_of,
)
from cosend.compiled import compiled, compiled_apart, entry_point

Arrays: TypeAlias = tuple[Ints, Floats, Floats, Words, Ints, Floats, Words, Floats, Ints, Floats]
Flags: TypeAlias = Words  # [question, 2]: whether it is a training, and whether its label will follow

# The outcome of a step when something must be done first.
READY: Final = 1
NO_ROOM: Final = -1  # take the expired ids, grow the arrays, and call again
EPOCH_OVER: Final = -2  # lay out the cells again, and call again
BAD_CONTEXT: Final = -3


# What both families do


@compiled
def mixes(ledger: Ledger) -> bool:
    """Tell which family a site has."""
    return bool(ledger.site[col.RULE] == BY_MIXTURE)


@compiled
def learn(ledger: Ledger, context: Floats, row: int, id: int, arm: int, kind: int, gain: float, others: Floats) -> None:
    """Enter a reward; `context` is that of the item, or its memo, and `others` the gains of all local models.

    `others` is empty if no other model was run to be scored.
    """
    if mixes(ledger):
        learn_mixed(ledger, id, arm, kind, gain, others, context)
    else:
        learn_in_cell(ledger, context, row, id, arm, kind, gain, others)


@compiled
def _undo(ledger: Ledger, context: Floats, row: int, id: int, arm: int, kind: int) -> None:
    """Take back a choice or answer whose label will never come."""
    if mixes(ledger):
        undo_mixed(ledger, arm, kind, context)
    else:
        undo_in_cell(ledger, context, row, id, arm, kind)


@compiled
def answer(
    ledger: Ledger, context: Floats, caller: int, request: int, training: bool, labelled: bool, memo: Floats
) -> tuple[int, int]:
    """Return the local model with which to answer a peer, and its row; mixed views write what they need to `memo`."""
    if mixes(ledger):
        return answer_mixed(ledger, context, caller, request, labelled, memo)
    return answer_by_cell(ledger, context, caller, request, training, labelled)


@compiled
def report(ledger: Ledger, context: Floats) -> tuple[int, int]:
    """Return how much labelled data there is around a context: own arrivals, and labels it was taught."""
    row = find_mixed_row(ledger, context) if mixes(ledger) else find_cell(ledger, context)
    if row == EMPTY:
        return 0, 0
    return ledger.cells[row, col.CELL_ARRIVALS], ledger.cells[row, col.CELL_TAUGHT]


@compiled
def record_report(ledger: Ledger, context: Floats, peer: int, arrivals: int, taught: int) -> None:
    """Enter what a peer reports around a context; there must be room."""
    if not mixes(ledger):  # mixed views train no peer
        enter_report(ledger, visit_cell(ledger, context), peer, arrivals, taught)


# Decisions that expire: pending for too long, or one too many. They are dropped or get a default gain.


@compiled
def _drop_expired(ledger: Ledger, table: PendingTable) -> bool:
    """Drop what has been pending for too long when the next item comes; false without room for the ids."""
    arrival, limit = ledger.site[col.ARRIVALS] + 1, table.counters[col.PENDING_LIMIT]  # exactness.md, "Waiting"
    while table.counters[col.PENDING_COUNT] > 0 and arrival > limit:
        slot = oldest_pending(table)
        if arrival - table.entries[slot, col.PENDING_ARRIVAL] <= limit:
            break
        if not can_add(table):
            return False
        _drop(ledger, table, slot)
    return True


@compiled
def _drop_if_too_many(ledger: Ledger, table: PendingTable) -> None:
    """Drop the oldest if more are pending than may be; there must be room for its id."""
    if table.counters[col.PENDING_COUNT] > table.counters[col.PENDING_MOST]:
        _drop(ledger, table, oldest_pending(table))


@compiled_apart
def _drop(ledger: Ledger, table: PendingTable, slot: int) -> None:
    """Take a decision back, or give it the default gain. Answers and trainings never get one."""
    counters, entry, gain = table.counters, table.entries[slot], ledger.parameters[col.EXPIRED_GAIN]
    place, kind = col.EXPIRED + 3 * counters[col.EXPIRED_COUNT], entry[col.PENDING_KIND]
    counters[place], counters[place + 1], counters[place + 2] = entry[col.PENDING_ID], entry[col.PENDING_ARM], kind
    counters[col.EXPIRED_COUNT] += 1
    if math.isnan(gain) or kind in (TRAIN, TAUGHT):
        _undo_slot(ledger, table, slot)
    else:
        _learn_slot(ledger, table, slot, gain, table.contexts[0, :0])


@compiled
def _learn_slot(ledger: Ledger, table: PendingTable, slot: int, gain: float, others: Floats) -> None:
    id, row, arm, kind, _, spot = table.entries[slot, : col.PENDING_FREE]
    learn(ledger, table.contexts[spot], row, id, arm, kind, gain, others)
    remove_pending(table, slot)


@compiled
def _undo_slot(ledger: Ledger, table: PendingTable, slot: int) -> None:
    id, row, arm, kind, _, spot = table.entries[slot, : col.PENDING_FREE]
    _undo(ledger, table.contexts[spot], row, id, arm, kind)
    remove_pending(table, slot)


# Choosing


@compiled
def _prepare(ledger: Ledger, table: PendingTable, again: int) -> int:
    """Drop what expires when an item comes, and return READY, or what must be done before an arm can be chosen."""
    if not has_room(ledger) or not can_add(table):
        return NO_ROOM
    if again == 0:
        if not _drop_expired(ledger, table) or not can_add(table):
            return NO_ROOM
        if epoch_is_over(ledger.site):
            return EPOCH_OVER
    return READY


@compiled
def _arrival_of(ledger: Ledger, again: int) -> int:
    """Return the number of an item's arrival."""
    return again if again > 0 else int(ledger.site[col.ARRIVALS] + 1)


@compiled
def _admit(ledger: Ledger, table: PendingTable, context: Floats, row: int, arm: int, phase: int, again: int) -> None:
    """Enter a choice by cells as pending."""
    arrival = _arrival_of(ledger, again)
    enter_item(ledger, row, arm, phase, int(again == 0))
    add_pending(table, ledger.site[col.LAST_ID], row, arm, phase, arrival, context)
    _drop_if_too_many(ledger, table)


@compiled_apart
def _admit_mixed(ledger: Ledger, table: PendingTable, context: Floats, again: int) -> tuple[int, int, int, int]:
    """Choose by mixed views and enter the choice as pending; they write its memo where it will be."""
    arrival, id = _arrival_of(ledger, again), ledger.site[col.LAST_ID] + 1
    slot, memo = slot_of(table.entries, id), table.contexts[next_spot(table)]
    phase, arm, row, candidates = choose_mixed(ledger, context, int(again == 0), memo)
    fill_slot(table, slot, id, row, arm, phase, arrival)
    _drop_if_too_many(ledger, table)
    return phase, arm, row, candidates


@compiled_apart
def _admit_mixed_again(ledger: Ledger, table: PendingTable, context: Floats, arm: int, phase: int, again: int) -> None:
    """Enter a choice by mixed views that was made before as pending."""
    arrival, id = _arrival_of(ledger, again), ledger.site[col.LAST_ID] + 1
    slot, memo = slot_of(table.entries, id), table.contexts[next_spot(table)]
    row = enter_mixed(ledger, context, arm, phase, int(again == 0), memo)
    fill_slot(table, slot, id, row, arm, phase, arrival)
    _drop_if_too_many(ledger, table)


@entry_point
def choose_one(arrays: Arrays, context: Floats, asked: Asked, again: int) -> tuple[int, int, int, int, int]:
    """Choose for one context by cells: (outcome, arm, cell, candidates, id).

    With the outcome BAD_CONTEXT, the axis is in the place of the arm.
    """
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    bad = first_bad_axis(context, ledger.site[col.CATEGORIES], False)
    if bad >= 0:
        return BAD_CONTEXT, bad, 0, 0, 0
    status = _prepare(ledger, table, again)
    if status != READY:
        return status, EMPTY, 0, 0, 0
    arrival = max(_arrival_of(ledger, again), ledger.site[col.QUOTA_START] + 1)  # the first of this epoch at least
    phase, arm, row, candidates = select_arm(ledger, context, asked, arrival)
    if phase != ASK:
        _admit(ledger, table, context, row, arm, phase, again)
    return phase, arm, int(ledger.cells[row, col.CELL_KEY]), candidates, int(ledger.site[col.LAST_ID])


@entry_point
def choose_one_mixed(
    arrays: Arrays,
    context: Floats,
    asked: Asked,  # noqa: ARG001 - called as `choose_one` is, but mixed views ask no peer
    again: int,
) -> tuple[int, int, int, int, int]:
    """Choose as `choose_one` does, by mixed views; apart, so that a first decision by them compiles no other rule."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    bad = first_bad_axis(context, ledger.site[col.CATEGORIES], True)
    if bad >= 0:
        return BAD_CONTEXT, bad, 0, 0, 0
    status = _prepare(ledger, table, again)
    if status != READY:
        return status, EMPTY, 0, 0, 0
    phase, arm, row, candidates = _admit_mixed(ledger, table, context, again)
    return phase, arm, int(ledger.cells[row, col.CELL_KEY]), candidates, int(ledger.site[col.LAST_ID])


@entry_point
def choose_many(arrays: Arrays, contexts: Floats, asked: Asked, again: Ints, first: int, made: Ints) -> int:
    """Choose for contexts from `first` on, until one of them cannot be chosen for yet; returns how far it came.

    Each row of `made` gets what `choose_one` returns, but for the id.
    """
    mixture = arrays[0][col.RULE] == BY_MIXTURE
    for n in range(first, contexts.shape[0]):
        if mixture:
            result = choose_one_mixed(arrays, contexts[n], asked, again[n])
        else:
            result = choose_one(arrays, contexts[n], asked, again[n])
        for column in range(4):
            made[n, column] = result[column]
        if result[0] <= 0:
            return n
        asked[:] = False
    return len(contexts)


@entry_point
def enter_many(arrays: Arrays, contexts: Floats, arms: Ints, phases: Ints, again: Ints, first: int) -> tuple[int, int]:
    """Enter choices that were made before, from `first` on: (how far it came, READY or what must be done first)."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    for n in range(first, contexts.shape[0]):
        status = _prepare(ledger, table, again[n])
        if status != READY:
            return n, status
        if mixes(ledger):
            _admit_mixed_again(ledger, table, contexts[n], arms[n], phases[n], again[n])
        else:
            row = visit_cell(ledger, contexts[n])
            _admit(ledger, table, contexts[n], row, arms[n], phases[n], again[n])
    return len(contexts), READY


@entry_point
def visit_one(arrays: Arrays, context: Floats, again: int) -> int:
    """Visit the cell of an item as `choose_one` does before a peer is asked: READY, or what must be done first."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    status = _prepare(ledger, table, again)
    if status == READY:
        visit_cell(ledger, context)
    return status


@entry_point
def forecast_one(arrays: Arrays, context: Floats) -> int:
    """Let mixed views forecast every arm for a context: the axis that is bad, or -1; nothing is entered."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    bad = first_bad_axis(context, ledger.site[col.CATEGORIES], True)
    if bad < 0:
        forecast(ledger, context, False, table.contexts[next_spot(table)])
    return bad


@entry_point
def weigh_one(arrays: Arrays, context: Floats, again: int, worths: Floats) -> int:
    """Do what `choose_one_mixed` does before it enters an arm, and write down the index of each: what it returns."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    if first_bad_axis(context, ledger.site[col.CATEGORIES], True) >= 0:
        return BAD_CONTEXT
    status = _prepare(ledger, table, again)
    if status == READY:
        weigh_arms(ledger, context, table.contexts[next_spot(table)], worths)
    return status


# Being a peer, and asking one


@entry_point
def record_one(arrays: Arrays, context: Floats, peer: int, arrivals: int, taught: int) -> bool:
    """Enter what a peer reports for a context; false if the ledger must grow first."""
    ledger = Ledger(*arrays[:8])
    if not has_room(ledger):
        return False
    record_report(ledger, context, peer, arrivals, taught)
    return True


@entry_point
def report_one(arrays: Arrays, context: Floats) -> tuple[int, int]:
    """Report the labelled data around a context: (arrivals, taught), or (BAD_CONTEXT, axis)."""
    ledger = Ledger(*arrays[:8])
    bad = first_bad_axis(context, ledger.site[col.CATEGORIES], mixes(ledger))
    if bad >= 0:
        return BAD_CONTEXT, bad
    return report(ledger, context)


@entry_point
def answer_many(
    arrays: Arrays, contexts: Floats, caller: int, requests: Ints, flags: Flags, first: int, made: Ints
) -> int:
    """Answer questions of a peer from `first` on, until there is no room; returns how far it came.

    Each row of `made` gets the local model, and the id under which its label is pending, 0 if none will follow.
    """
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    site = ledger.site
    for n in range(first, contexts.shape[0]):
        training, labelled = flags[n, 0] != 0, flags[n, 1] != 0
        if labelled and not (has_room(ledger) and can_add(table)):
            return n
        slot, memo = slot_of(table.entries, site[col.LAST_ID] + 1), table.contexts[next_spot(table)]
        function, row = answer(ledger, contexts[n], caller, requests[n], training, labelled, memo)
        made[n, 0], made[n, 1] = function, 0
        if labelled:
            made[n, 1] = site[col.LAST_ID]
            _admit_answer(ledger, table, slot, row, function, contexts[n])
    return len(contexts)


@entry_point
def enter_answers(arrays: Arrays, contexts: Floats, functions: Ints, first: int) -> int:
    """Enter answers that were given before and that a label will follow, until there is no room."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    site = ledger.site
    for n in range(first, contexts.shape[0]):
        if not (has_room(ledger) and can_add(table)):
            return n
        slot, memo = slot_of(table.entries, site[col.LAST_ID] + 1), table.contexts[next_spot(table)]
        if mixes(ledger):
            row = enter_mixed_answer(ledger, contexts[n], functions[n], memo)
        else:
            row = visit_cell(ledger, contexts[n])
            enter_answer(ledger, row, functions[n])
        _admit_answer(ledger, table, slot, row, functions[n], contexts[n])
    return len(contexts)


@compiled
def _admit_answer(ledger: Ledger, table: PendingTable, slot: int, row: int, function: int, context: Floats) -> None:
    """Enter an answer as pending in a free slot; the memo of mixed views is there already."""
    site = ledger.site
    if mixes(ledger):
        fill_slot(table, slot, site[col.LAST_ID], row, function, TAUGHT, site[col.ARRIVALS])
    else:
        add_pending(table, site[col.LAST_ID], row, function, TAUGHT, site[col.ARRIVALS], context)
    _drop_if_too_many(ledger, table)


# Labels


@entry_point
def learn_one(arrays: Arrays, id: int, gain: float) -> bool:
    """Enter the reward of an id; false if it is not pending."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    slot = find_pending(table.entries, id)
    if slot == EMPTY:
        return False
    _learn_slot(ledger, table, slot, gain, table.contexts[0, :0])
    return True


@entry_point
def learn_many(arrays: Arrays, ids: Ints, gains: Floats, others: Floats) -> None:
    """Enter the rewards of ids, all of which must be pending, and the gains of local models: [id, model] or [id, 0]."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    for n in range(ids.shape[0]):
        _learn_slot(ledger, table, find_pending(table.entries, ids[n]), gains[n], others[n])


@entry_point
def undo_many(arrays: Arrays, ids: Ints) -> None:
    """Take back choices or answers, all of which must be pending."""
    ledger, table = Ledger(*arrays[:8]), PendingTable(arrays[8], arrays[9], arrays[0])
    for n in range(ids.shape[0]):
        _undo_slot(ledger, table, find_pending(table.entries, ids[n]))


@entry_point
def look_one(entries: Ints, id: int) -> tuple[int, int, int]:
    """Return (arm, kind, arrival) of a pending id; the arm is EMPTY if it is not pending."""
    slot = find_pending(entries, id)
    if slot == EMPTY:
        return EMPTY, 0, 0
    entry = entries[slot]
    return int(entry[col.PENDING_ARM]), int(entry[col.PENDING_KIND]), int(entry[col.PENDING_ARRIVAL])


@entry_point
def look_up(entries: Ints, ids: Ints, found: Ints) -> int:
    """Write what `look_one` returns for each id into `found`; returns the place of the first not pending, or -1."""
    missing = -1
    for n in range(ids.shape[0]):
        found[n, 0], found[n, 1], found[n, 2] = look_one(entries, ids[n])
        if missing < 0 and found[n, 0] == EMPTY:
            missing = n
    return missing
