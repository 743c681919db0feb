"""The partition of a site: laid once when the horizon is known, laid anew at every doubling when it is not."""

from __future__ import annotations

from itertools import product
from typing import Final

from cosend.core import columns as col
from cosend.core.ledger import Ledger, clear, grown, row_for
from cosend.core.partition import axes_of, finer_slices, key_of
from cosend.core.policy import CellPolicy

FIRST_PHASE: Final = 2


def lay_partition(ledger: Ledger, policy: CellPolicy) -> None:
    """Lay the first partition of a site that has seen nothing yet."""
    site = ledger.site
    horizon = FIRST_PHASE if policy.doubles else policy.horizon or 0
    site[col.PHASE_LENGTH] = horizon
    site[col.SLICES] = policy.slices_at(horizon, int(site[col.DIMENSIONS]))


def next_phase(ledger: Ledger, policy: CellPolicy) -> Ledger:
    """Start the next phase, twice as long; returns the ledger, which may have grown."""
    site = ledger.site
    site[col.PHASE_START] = site[col.ARRIVALS]
    site[col.PHASE_LENGTH] *= 2
    site[col.EPOCH] += 1
    old_slices = int(site[col.SLICES])
    site[col.SLICES] = policy.slices_at(int(site[col.PHASE_LENGTH]), int(site[col.DIMENSIONS]))
    if policy.doubling == "keep":
        return _carried_over(ledger, old_slices)
    site[col.QUOTA_START] = site[col.ARRIVALS]
    clear(ledger)
    return ledger


def _carried_over(ledger: Ledger, old_slices: int) -> Ledger:
    """Start every cell whose centre lies in a visited cell of the old partition from that cell's numbers."""
    site = ledger.site
    rows, dimensions, slices = int(site[col.ROWS]), int(site[col.DIMENSIONS]), int(site[col.SLICES])
    cells, rewards, counts = (array[:rows].copy() for array in (ledger.cells, ledger.rewards, ledger.counts))
    counts[..., [col.WAITING, col.TRAINING_WAITING]] = 0
    finer = finer_slices(old_slices, slices)
    children = [
        [key_of(axes, slices) for axes in product(*(finer[i] for i in axes_of(int(key), old_slices, dimensions)))]
        for key in cells[:, col.CELL_KEY]
    ]
    clear(ledger)
    needed = sum(len(keys) for keys in children)
    if needed > ledger.cells.shape[0]:
        ledger = grown(ledger, needed)
    for parent, keys in enumerate(children):
        for key in keys:
            row = row_for(ledger, key)
            ledger.cells[row] = cells[parent]
            ledger.cells[row, col.CELL_KEY] = key
            ledger.rewards[row] = rewards[parent]
            ledger.counts[row] = counts[parent]
    return ledger
