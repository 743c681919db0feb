"""From Python into the compiled rules, for one site: each call is one step that nothing can interrupt.

The arrays come in as a plain tuple: Numba needs half a microsecond more to unpack a named one. What is called from here
is the same code that a replay runs. `again` is 0 for a new item; for one that was counted when it came, and whose arm
has failed, it is the number of its arrival.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from cosend.compiled import compiled, compiled_apart, entry_point
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import BY_MIXTURE, TAUGHT
from cosend.core.kernel.cos import ASK, Asked
from cosend.core.kernel.ledger import EMPTY, Floats, Ints, Ledger, Words, has_room
from cosend.core.kernel.location import visit_cell
from cosend.core.kernel.mixed_rows import forecast
from cosend.core.kernel.mixed_steps import choose_mixed, enter_mixed, enter_mixed_answer
from cosend.core.kernel.overdue import drop_if_too_many, drop_overdue, learn_slot, strike_slot
from cosend.core.kernel.partition import epoch_is_over, first_bad_axis
from cosend.core.kernel.steps import answer, enter_answer, enter_item, hear, name_arm, report
from cosend.core.kernel.waiting import Waiting, add_waiting, can_wait, fill_slot, find_waiting, next_spot, slot_of

Arrays: TypeAlias = tuple[Ints, Floats, Floats, Words, Ints, Floats, Words, Floats, Ints, Floats]
Flags: TypeAlias = Words  # [question, 2]: whether it is a training, and whether its label will follow

# What a step comes to when something must be done first.
READY: Final = 1
NO_ROOM: Final = -1  # take the overdue ids, grow the arrays, and call again
EPOCH_OVER: Final = -2  # lay the partition anew, and call again
BAD_CONTEXT: Final = -3


@compiled
def prepare(ledger: Ledger, waiting: Waiting, arrival: int, again: int) -> int:
    """Drop what is overdue when an item comes, and tell whether it can be chosen for: READY, or what must be done."""
    if not has_room(ledger) or not can_wait(waiting):
        return NO_ROOM
    if again == 0:
        if not drop_overdue(ledger, waiting, arrival) or not can_wait(waiting):
            return NO_ROOM
        if epoch_is_over(ledger.site):
            return EPOCH_OVER
    return READY


@compiled
def arrival_of(ledger: Ledger, again: int) -> int:
    """Return the number of an item's arrival; one that came in an earlier epoch is as the first of this one."""
    site = ledger.site
    return int(max(again, site[col.QUOTA_START] + 1) if again > 0 else site[col.ARRIVALS] + 1)


@compiled
def admit(ledger: Ledger, waiting: Waiting, context: Floats, row: int, arm: int, phase: int, again: int) -> None:
    """Enter a choice and let it wait for its label."""
    arrival = again if again > 0 else ledger.site[col.ARRIVALS] + 1
    enter_item(ledger, row, arm, phase, arrival, int(again == 0))
    add_waiting(waiting, ledger.site[col.TICKETS], row, arm, phase, arrival, context)
    drop_if_too_many(ledger, waiting)


@compiled_apart
def choose_and_wait(
    ledger: Ledger, waiting: Waiting, context: Floats, arrival: int, again: int
) -> tuple[int, int, int, int]:
    """Choose by mixed views; what they keep is written where the choice will wait."""
    ticket = ledger.site[col.TICKETS] + 1
    slot = slot_of(waiting.entries, ticket)
    kept = waiting.contexts[next_spot(waiting)]
    phase, arm, row, candidates = choose_mixed(ledger, context, arrival, int(again == 0), kept)
    fill_slot(waiting, slot, ticket, row, arm, phase, arrival)
    drop_if_too_many(ledger, waiting)
    return phase, arm, row, candidates


@compiled_apart
def enter_and_wait(
    ledger: Ledger, waiting: Waiting, context: Floats, arm: int, phase: int, arrival: int, again: int
) -> None:
    """Enter a choice of mixed views that was made before, and let it wait."""
    ticket = ledger.site[col.TICKETS] + 1
    slot = slot_of(waiting.entries, ticket)
    row = enter_mixed(ledger, context, arm, arrival, int(again == 0), waiting.contexts[next_spot(waiting)])
    fill_slot(waiting, slot, ticket, row, arm, phase, arrival)
    drop_if_too_many(ledger, waiting)


@entry_point
def choose_one(arrays: Arrays, context: Floats, asked: Asked, again: int) -> tuple[int, int, int, int, int]:
    """Choose for one context by any rule but mixed views: (outcome, arm, cell, candidates, id).

    With the outcome BAD_CONTEXT, the place of the arm has the axis.
    """
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    bad = first_bad_axis(context, ledger.site[col.CATEGORIES], False)
    if bad >= 0:
        return BAD_CONTEXT, bad, 0, 0, 0
    arrival = arrival_of(ledger, again)
    status = prepare(ledger, waiting, arrival, again)
    if status != READY:
        return status, EMPTY, 0, 0, 0
    phase, arm, row, candidates = name_arm(ledger, context, asked, arrival)
    if phase != ASK:
        admit(ledger, waiting, context, row, arm, phase, again)
    return phase, arm, int(ledger.cells[row, col.CELL_KEY]), candidates, int(ledger.site[col.TICKETS])


@entry_point
def choose_one_mixed(
    arrays: Arrays,
    context: Floats,
    asked: Asked,  # noqa: ARG001 - called as `choose_one` is, but mixed views ask nobody
    again: int,
) -> tuple[int, int, int, int, int]:
    """Choose as `choose_one` does, by mixed views: a first decision by them compiles no other rule."""
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    bad = first_bad_axis(context, ledger.site[col.CATEGORIES], True)
    if bad >= 0:
        return BAD_CONTEXT, bad, 0, 0, 0
    arrival = arrival_of(ledger, again)
    status = prepare(ledger, waiting, arrival, again)
    if status != READY:
        return status, EMPTY, 0, 0, 0
    phase, arm, row, candidates = choose_and_wait(ledger, waiting, context, arrival, again)
    return phase, arm, int(ledger.cells[row, col.CELL_KEY]), candidates, int(ledger.site[col.TICKETS])


@entry_point
def choose_many(arrays: Arrays, contexts: Floats, asked: Asked, again: Ints, first: int, made: Ints) -> int:
    """Choose for contexts from `first` on, as `choose_one` does, until one of them cannot be chosen for yet.

    Each row of `made` gets what `choose_one` returns, but for the id. Returns how far it came.
    """
    for n in range(first, contexts.shape[0]):
        if arrays[0][col.RULE] == BY_MIXTURE:
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
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    for n in range(first, contexts.shape[0]):
        arrival = arrival_of(ledger, again[n])
        status = prepare(ledger, waiting, arrival, again[n])
        if status != READY:
            return n, status
        if ledger.site[col.RULE] == BY_MIXTURE:
            enter_and_wait(ledger, waiting, contexts[n], arms[n], phases[n], arrival, again[n])
        else:
            row = visit_cell(ledger, contexts[n], arrival)
            admit(ledger, waiting, contexts[n], row, arms[n], phases[n], again[n])
    return len(contexts), READY


@entry_point
def visit_one(arrays: Arrays, context: Floats, again: int) -> int:
    """Visit the cell of an item as `choose_one` does before a peer is asked: READY, or what must be done first."""
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    arrival = arrival_of(ledger, again)
    status = prepare(ledger, waiting, arrival, again)
    if status == READY:
        visit_cell(ledger, context, arrival)
    return status


@entry_point
def hear_one(arrays: Arrays, context: Floats, peer: int, arrivals: int, taught: int, again: int) -> bool:
    """Enter what a peer reports for a context; false if the ledger must grow first."""
    ledger = Ledger(*arrays[:8])
    if not has_room(ledger):
        return False
    hear(ledger, context, peer, arrivals, taught, arrival_of(ledger, again))
    return True


@entry_point
def answer_many(
    arrays: Arrays, contexts: Floats, caller: int, requests: Ints, flags: Flags, first: int, made: Ints
) -> int:
    """Answer questions of a peer from `first` on, until there is no room; returns how far it came.

    Each row of `made` gets the function and the id under which it waits for the label, 0 if none will follow.
    """
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    site = ledger.site
    for n in range(first, contexts.shape[0]):
        training, labelled = flags[n, 0] != 0, flags[n, 1] != 0
        if labelled and not (has_room(ledger) and can_wait(waiting)):
            return n
        slot = slot_of(waiting.entries, site[col.TICKETS] + 1)
        kept = waiting.contexts[next_spot(waiting)]
        function, row = answer(ledger, contexts[n], caller, requests[n], training, labelled, kept)
        made[n, 0], made[n, 1] = function, 0
        if labelled:
            made[n, 1] = site[col.TICKETS]
            await_lesson(ledger, waiting, slot, row, function, contexts[n])
    return len(contexts)


@entry_point
def enter_answers(arrays: Arrays, contexts: Floats, functions: Ints, first: int) -> int:
    """Enter answers that were given before and that a label will follow, until there is no room."""
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    site = ledger.site
    for n in range(first, contexts.shape[0]):
        if not (has_room(ledger) and can_wait(waiting)):
            return n
        slot = slot_of(waiting.entries, site[col.TICKETS] + 1)
        if site[col.RULE] == BY_MIXTURE:
            row = enter_mixed_answer(ledger, contexts[n], functions[n], waiting.contexts[next_spot(waiting)])
        else:
            row = visit_cell(ledger, contexts[n], site[col.ARRIVALS])
            enter_answer(ledger, row, functions[n])
        await_lesson(ledger, waiting, slot, row, functions[n], contexts[n])
    return len(contexts)


@compiled
def await_lesson(ledger: Ledger, waiting: Waiting, slot: int, row: int, function: int, context: Floats) -> None:
    """Let an answer that was entered wait for its label in a free slot."""
    site = ledger.site
    if site[col.RULE] == BY_MIXTURE:
        fill_slot(waiting, slot, site[col.TICKETS], row, function, TAUGHT, site[col.ARRIVALS])
    else:
        add_waiting(waiting, site[col.TICKETS], row, function, TAUGHT, site[col.ARRIVALS], context)
    drop_if_too_many(ledger, waiting)


@entry_point
def forecast_one(arrays: Arrays, context: Floats) -> int:
    """Let mixed views forecast every arm for a context: the axis that is bad, or -1; nothing is entered."""
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    bad = first_bad_axis(context, ledger.site[col.CATEGORIES], ledger.site[col.RULE] == BY_MIXTURE)
    if bad < 0:
        forecast(ledger, context, False, waiting.contexts[next_spot(waiting)])
    return bad


@entry_point
def report_one(arrays: Arrays, context: Floats) -> tuple[int, int]:
    """Report the labelled data around a context: (arrivals, taught), or (BAD_CONTEXT, axis)."""
    ledger = Ledger(*arrays[:8])
    bad = first_bad_axis(context, ledger.site[col.CATEGORIES], ledger.site[col.RULE] == BY_MIXTURE)
    if bad >= 0:
        return BAD_CONTEXT, bad
    return report(ledger, context)


@entry_point
def learn_one(arrays: Arrays, ticket: int, gain: float) -> bool:
    """Enter the reward of an id; false if it does not wait."""
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    slot = find_waiting(waiting.entries, ticket)
    if slot == EMPTY:
        return False
    learn_slot(ledger, waiting, slot, gain, waiting.contexts[0, :0])
    return True


@entry_point
def learn_many(arrays: Arrays, tickets: Ints, gains: Floats) -> None:
    """Enter the rewards of ids, all of which must wait."""
    for n in range(tickets.shape[0]):
        learn_one(arrays, tickets[n], gains[n])


@entry_point
def learn_scored(arrays: Arrays, tickets: Ints, gains: Floats, others: Floats) -> None:
    """Enter the rewards of ids, all of which must wait, and the gains of local classifiers: [id, function]."""
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    for n in range(tickets.shape[0]):
        learn_slot(ledger, waiting, find_waiting(waiting.entries, tickets[n]), gains[n], others[n])


@entry_point
def strike_many(arrays: Arrays, tickets: Ints) -> None:
    """Strike out choices or answers, all of which must wait: they no longer count, and wait no longer."""
    ledger, waiting = Ledger(*arrays[:8]), Waiting(arrays[8], arrays[9], arrays[0])
    for n in range(tickets.shape[0]):
        strike_slot(ledger, waiting, find_waiting(waiting.entries, tickets[n]))


@entry_point
def look_one(entries: Ints, ticket: int) -> tuple[int, int, int]:
    """Return (arm, kind, arrival) of what waits under an id; the arm is EMPTY if it does not wait."""
    slot = find_waiting(entries, ticket)
    if slot == EMPTY:
        return EMPTY, 0, 0
    return int(entries[slot, col.WAIT_ARM]), int(entries[slot, col.WAIT_KIND]), int(entries[slot, col.WAIT_ARRIVAL])


@entry_point
def look_up(entries: Ints, tickets: Ints, found: Ints) -> int:
    """Write what `look_one` returns for each id into `found`; returns the first that does not wait, by place, or -1."""
    missing = -1
    for n in range(tickets.shape[0]):
        found[n, 0], found[n, 1], found[n, 2] = look_one(entries, tickets[n])
        if missing < 0 and found[n, 0] == EMPTY:
            missing = n
    return missing
