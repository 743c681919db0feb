"""From Python into the compiled rules, for a ledger of one site.

The ledger comes in as a plain tuple: Numba needs half a microsecond more to unpack a named one. What is called from
here is the same code that a replay runs.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.cos import Asked
from cosend.core.kernel.labels import learn, strike_everywhere
from cosend.core.kernel.ledger import EMPTY, Floats, Ints, Ledger, Words, has_room
from cosend.core.kernel.partition import first_bad_axis
from cosend.core.kernel.steps import answer, choose, hear, report

Arrays: TypeAlias = tuple[Ints, Floats, Floats, Words, Ints, Floats, Words, Floats]

BAD_CONTEXT: Final = -3


@compiled
def choose_one(arrays: Arrays, context: Floats, asked: Asked) -> tuple[int, int, int, int, int, int]:
    """Choose for one context: (outcome, arm, row, arrival, cell, candidates).

    With the outcome BAD_CONTEXT, the place of the arm has the axis.
    """
    ledger = Ledger(*arrays)
    arrival = ledger.site[col.ARRIVALS] + 1
    bad = first_bad_axis(context)
    if bad >= 0:
        return BAD_CONTEXT, bad, EMPTY, arrival, 0, 0
    outcome, arm, row, candidates = choose(ledger, context, asked)
    cell = ledger.cells[row, col.CELL_KEY] if row != EMPTY else 0
    return outcome, arm, row, arrival, cell, candidates


@compiled
def choose_many(arrays: Arrays, contexts: Floats, asked: Asked, first: int, made: Ints) -> int:
    """Choose for contexts from `first` on, as `choose_one` does, until one of them cannot be chosen for yet.

    Each row of `made` gets what `choose_one` returns. Returns how far it came.
    """
    for n in range(first, contexts.shape[0]):
        result = choose_one(arrays, contexts[n], asked)
        for column in range(6):
            made[n, column] = result[column]
        if result[0] <= 0:
            return n
        asked[:] = False
    return len(contexts)


@compiled
def hear_one(arrays: Arrays, context: Floats, peer: int, arrivals: int, taught: int) -> bool:
    """Enter what a peer reports for a context; false if the ledger must grow first."""
    ledger = Ledger(*arrays)
    if not has_room(ledger):
        return False
    hear(ledger, context, peer, arrivals, taught)
    return True


@compiled
def answer_one(
    arrays: Arrays, context: Floats, caller: int, request: int, training: bool, labelled: bool
) -> tuple[int, int]:
    """Answer a peer: (function, row), (NO_ROOM, EMPTY) or (BAD_CONTEXT, axis)."""
    bad = first_bad_axis(context)
    if bad >= 0:
        return BAD_CONTEXT, bad
    return answer(Ledger(*arrays), context, caller, request, training, labelled)


@compiled
def report_one(arrays: Arrays, context: Floats) -> tuple[int, int]:
    """Report the labelled data around a context: (arrivals, taught), or (BAD_CONTEXT, axis)."""
    bad = first_bad_axis(context)
    if bad >= 0:
        return BAD_CONTEXT, bad
    return report(Ledger(*arrays), context)


@compiled
def learn_one(
    arrays: Arrays, context: Floats, row: int, ticket: int, arrival: int, arm: int, kind: int, gain: float
) -> None:
    """Enter one reward."""
    learn(Ledger(*arrays), context, row, ticket, arrival, arm, kind, gain)


@compiled
def learn_many(arrays: Arrays, contexts: Floats, entries: Ints, gains: Floats) -> None:
    """Enter many rewards; a row of `entries` is (row, ticket, arrival, arm, kind)."""
    ledger = Ledger(*arrays)
    for n in range(gains.shape[0]):
        row, ticket, arrival, arm, kind = entries[n]
        learn(ledger, contexts[n], row, ticket, arrival, arm, kind, gains[n])


@compiled
def strike_one(arrays: Arrays, context: Floats, row: int, ticket: int, arrival: int, arm: int, kind: int) -> None:
    """Strike out one choice or answer."""
    strike_everywhere(Ledger(*arrays), context, row, ticket, arrival, arm, kind)
