"""A label that comes: into which cells it goes by then.

Between a choice and its label the partition may have been laid anew, or a cube may have split. A row remembers how
many tickets there were when it was begun, so it can tell what was entered in it and what came before it.
"""

from __future__ import annotations

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import TRAIN, count_label, enter_reward, score_others, strike
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger
from cosend.core.kernel.location import find_cell
from cosend.core.kernel.selection import judge, reconsider


@compiled
def learn(
    ledger: Ledger,
    context: Floats,
    row: int,
    ticket: int,
    arrival: int,
    arm: int,
    kind: int,
    gain: float,
    others: Floats,
) -> None:
    """Enter a reward where it belongs now; `row` is where it was entered when that cannot have changed.

    `others` are the gains of all local classifiers, of which some were run to be scored; it is empty if none was.
    """
    if ledger.site[col.STEADY]:
        enter_reward(ledger, row, arm, kind, gain, True)
        if others.shape[0] > 0:
            score_others(ledger, row, arm, others)
    else:
        learn_in_all_views(ledger, context, ticket, arrival, arm, kind, gain, others)


@compiled_apart
def learn_in_all_views(
    ledger: Ledger, context: Floats, ticket: int, arrival: int, arm: int, kind: int, gain: float, others: Floats
) -> None:
    """Judge the views by a reward, and enter it in the cell of each that holds its context by now."""
    site = ledger.site
    candidates = site[col.CANDIDATES] if site[col.CANDIDATES] > 1 else 0  # there is nothing to judge
    for view in range(site[col.VIEWS]):
        row = find_cell(ledger, view, context, arrival)
        if kind != TRAIN and view < candidates:
            judge(ledger, view, row, arm, gain)
        if row != EMPTY:
            # exactness.md, "Doubling" and "Cubes that split": where the cell of the choice was replaced.
            waited = ticket > ledger.cells[row, col.CELL_BORN]
            if waited or site[col.KEEPS]:
                enter_reward(ledger, row, arm, kind, gain, waited)
                score_others(ledger, row, arm, others)
                count_label(ledger, row, kind)
    reconsider(ledger)


@compiled_apart
def strike_everywhere(
    ledger: Ledger, context: Floats, row: int, ticket: int, arrival: int, arm: int, kind: int
) -> None:
    """Strike out a choice or answer in every cell that still knows that it waits."""
    site = ledger.site
    if site[col.STEADY]:
        strike(ledger, row, arm, kind)
        return
    for view in range(site[col.VIEWS]):
        row = find_cell(ledger, view, context, arrival)
        if row != EMPTY and ticket > ledger.cells[row, col.CELL_BORN]:
            strike(ledger, row, arm, kind)
