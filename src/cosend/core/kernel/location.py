"""Where an item belongs: the row of the cell, equal or split, that holds it."""

from __future__ import annotations

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.cubes import child_of, inherit, root_of
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger, find_row, row_for
from cosend.core.kernel.partition import cell_of


@compiled
def find_cell(ledger: Ledger, context: Floats, arrival: int) -> int:
    """Return the row of the cell that holds an item, the smallest one that was visited, or EMPTY."""
    if ledger.site[col.ZOOMS]:
        return find_cube(ledger, context, arrival)
    return find_row(ledger, cell_of(ledger, context, arrival))


@compiled
def visit_cell(ledger: Ledger, context: Floats, arrival: int) -> int:
    """Return the row of the cell that holds an item, begun if this is the first; there must be room for it."""
    if ledger.site[col.ZOOMS]:
        return visit_cube(ledger, context, arrival)
    return row_for(ledger, cell_of(ledger, context, arrival))


@compiled_apart
def find_cube(ledger: Ledger, context: Floats, arrival: int) -> int:
    """Return the row of the smallest cube that holds an item and was visited, or EMPTY."""
    child = find_row(ledger, root_of(ledger, context))
    row = child
    while child != EMPTY:
        row = child
        if ledger.cells[row, col.CELL_LEVEL] >= 0:
            break
        child = find_row(ledger, child_of(ledger, row, context, arrival))
    return row


@compiled_apart
def visit_cube(ledger: Ledger, context: Floats, arrival: int) -> int:
    """Return the row of the cube that an item belongs to; a child of a split one is begun when it is visited."""
    row = find_cube(ledger, context, arrival)
    if row == EMPTY:
        return row_for(ledger, root_of(ledger, context))
    level = ledger.cells[row, col.CELL_LEVEL]
    if level < 0 and ledger.site[col.ROWS] < ledger.site[col.MAX_ROWS]:
        parent = row
        row = row_for(ledger, child_of(ledger, parent, context, arrival))
        ledger.cells[row, col.CELL_LEVEL] = -level
        inherit(ledger, parent, row)
    return row
