"""Labels that never come: what waited too long, or makes too many wait, is dropped or gets a default gain."""

from __future__ import annotations

import math

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import TAUGHT, TRAIN
from cosend.core.kernel.labels import learn, strike_where_it_lies
from cosend.core.kernel.ledger import Floats, Ledger
from cosend.core.kernel.waiting import Waiting, can_wait, oldest_waiting, remove_waiting


@compiled
def drop_overdue(ledger: Ledger, waiting: Waiting, arrival: int) -> bool:
    """Drop what has waited too long when the `arrival`-th item comes; false if there is no place for the ids."""
    limit = waiting.desk[col.WAIT_LIMIT]  # exactness.md, "Waiting"
    while waiting.desk[col.WAIT_COUNT] > 0 and arrival > limit:
        slot = oldest_waiting(waiting)
        if arrival - waiting.entries[slot, col.WAIT_ARRIVAL] <= limit:
            break
        if not can_wait(waiting):
            return False
        drop(ledger, waiting, slot)
    return True


@compiled
def drop_if_too_many(ledger: Ledger, waiting: Waiting) -> None:
    """Drop the oldest if more wait than may; there must be a place for its id."""
    if waiting.desk[col.WAIT_COUNT] > waiting.desk[col.WAIT_MOST]:
        drop(ledger, waiting, oldest_waiting(waiting))


@compiled_apart
def drop(ledger: Ledger, waiting: Waiting, slot: int) -> None:
    """End a wait: the choice no longer counts, or gets the default gain. Answers and trainings never get one."""
    desk, kind, gain = waiting.desk, waiting.entries[slot, col.WAIT_KIND], ledger.parameters[col.OVERDUE_GAIN]
    place = col.OVERDUE + 3 * desk[col.OVERDUE_COUNT]
    desk[place], desk[place + 1] = waiting.entries[slot, col.WAIT_ID], waiting.entries[slot, col.WAIT_ARM]
    desk[place + 2] = kind
    desk[col.OVERDUE_COUNT] += 1
    if math.isnan(gain) or kind in (TRAIN, TAUGHT):
        strike_slot(ledger, waiting, slot)
    else:
        learn_slot(ledger, waiting, slot, gain, waiting.contexts[0, :0])


@compiled
def learn_slot(ledger: Ledger, waiting: Waiting, slot: int, gain: float, others: Floats) -> None:
    """Enter the reward of what stands in a slot, and of others that were scored; it then waits no longer."""
    ticket, row, arm, kind, arrival, spot = waiting.entries[slot, : col.WAIT_FREE]
    learn(ledger, waiting.contexts[spot], row, ticket, arrival, arm, kind, gain, others)
    remove_waiting(waiting, slot)


@compiled
def strike_slot(ledger: Ledger, waiting: Waiting, slot: int) -> None:
    """Strike out what stands in a slot: it no longer counts, and waits no longer."""
    ticket, row, arm, kind, arrival, spot = waiting.entries[slot, : col.WAIT_FREE]
    strike_where_it_lies(ledger, waiting.contexts[spot], row, ticket, arrival, arm, kind)
    remove_waiting(waiting, slot)
