"""The doors from Python into the compiled rules, for a ledger of one site.

The ledger comes in as a plain tuple: Numba needs half a microsecond more to unpack a named one. Everything behind
a door is the same code that a replay runs.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from cosend.compiled import compiled
from cosend.core import columns as col
from cosend.core.bookkeeping import enter_report, enter_reward, strike
from cosend.core.ledger import EMPTY, Floats, Ints, Ledger, Words, row_for
from cosend.core.partition import cell_of, first_bad_axis
from cosend.core.rules import Asked, answer, choose, report

Arrays: TypeAlias = tuple[Ints, Floats, Floats, Words, Ints, Floats, Words]

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
    row = row_for(ledger, cell_of(ledger, context, ledger.site[col.ARRIVALS] + 1))
    if row != EMPTY:
        enter_report(ledger, row, peer, arrivals, taught)
    return row != EMPTY


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
def learn_one(arrays: Arrays, row: int, arm: int, kind: int, gain: float) -> None:
    """Enter one reward."""
    enter_reward(Ledger(*arrays), row, arm, kind, gain, True)


@compiled
def learn_many(arrays: Arrays, entries: Ints, gains: Floats) -> None:
    """Enter many rewards; a row of `entries` is (row, arm, kind)."""
    ledger = Ledger(*arrays)
    for n in range(gains.shape[0]):
        enter_reward(ledger, entries[n, 0], entries[n, 1], entries[n, 2], gains[n], True)


@compiled
def learn_elsewhere(arrays: Arrays, context: Floats, arm: int, kind: int, gain: float) -> bool:
    """Enter a reward of an earlier phase where its context lies now; false if the ledger must grow first."""
    ledger = Ledger(*arrays)
    row = row_for(ledger, cell_of(ledger, context, ledger.site[col.ARRIVALS]))
    if row != EMPTY:
        enter_reward(ledger, row, arm, kind, gain, False)
    return row != EMPTY


@compiled
def strike_one(arrays: Arrays, row: int, arm: int, kind: int) -> None:
    """Strike out one choice or answer."""
    strike(Ledger(*arrays), row, arm, kind)
