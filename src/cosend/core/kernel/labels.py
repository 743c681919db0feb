"""Which cell a late label updates when cells have split or been laid anew since the choice.

Between a choice and its label the partition may have been laid anew, or a cube may have split. A row remembers how
many tickets there were when it was begun, so it can tell what was entered in it and what came before it.
"""

from __future__ import annotations

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import BY_MIXTURE, count_label, enter_reward, score_others, strike
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger
from cosend.core.kernel.location import find_cell
from cosend.core.kernel.mixed_labels import learn_mixed, strike_mixed


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

    `others` are the gains of all local classifiers, of which some were run to be scored; it is empty if none was. For
    mixed views, `context` is what they kept.
    """
    if ledger.site[col.STEADY]:
        enter_reward(ledger, row, arm, kind, gain, True)
        if others.shape[0] > 0:
            score_others(ledger, row, arm, others)
    elif ledger.site[col.RULE] == BY_MIXTURE:
        learn_mixed(ledger, ticket, arm, kind, gain, others, context)
    else:
        learn_where_it_lies(ledger, context, ticket, arrival, arm, kind, gain, others)


@compiled_apart
def learn_where_it_lies(
    ledger: Ledger, context: Floats, ticket: int, arrival: int, arm: int, kind: int, gain: float, others: Floats
) -> None:
    """Enter a reward in the cell that holds its context by now."""
    row = find_cell(ledger, context, arrival)
    if row == EMPTY:
        return
    # exactness.md, "Doubling" and "Cubes that split": where the cell of the choice was replaced.
    waited = ticket > ledger.cells[row, col.CELL_BORN]
    if waited or ledger.site[col.KEEPS]:
        enter_reward(ledger, row, arm, kind, gain, waited)
        score_others(ledger, row, arm, others)
        count_label(ledger, row, kind)


@compiled_apart
def strike_where_it_lies(
    ledger: Ledger, context: Floats, row: int, ticket: int, arrival: int, arm: int, kind: int
) -> None:
    """Strike out a choice or answer in the cell that holds its context, if that still knows that it waits."""
    site = ledger.site
    if site[col.STEADY]:
        strike(ledger, row, arm, kind)
        return
    if site[col.RULE] == BY_MIXTURE:
        strike_mixed(ledger, arm, kind, context)
        return
    row = find_cell(ledger, context, arrival)
    if row != EMPTY and ticket > ledger.cells[row, col.CELL_BORN]:
        strike(ledger, row, arm, kind)
