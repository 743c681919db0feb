"""The partition of a site: laid once when the horizon is known, laid anew at every doubling when it is not."""

from __future__ import annotations

from itertools import product
from typing import Final

from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import Ledger, clear, grown, row_for
from cosend.core.kernel.partition import (
    LARGEST_KEY,
    MOST_CODES,
    axes_of,
    bits_of,
    finer_slices,
    key_of,
    radices_of,
    slices_within,
)
from cosend.core.policy.mixed import MixedViews, lay_views
from cosend.core.policy.parts import Policy
from cosend.errors import SettingError

FIRST_EPOCH: Final = 2


def lay_partition(ledger: Ledger, policy: Policy) -> None:
    """Lay the first partition of a site that has seen nothing yet."""
    site = ledger.site
    site[col.EPOCH_LENGTH] = FIRST_EPOCH if policy.doubles else policy.first_horizon
    views = policy.views(int(site[col.DIMENSIONS]), int(site[col.CATEGORIES]))
    ledger.views[:, col.VIEW_AXES] = views
    ledger.views[:, col.VIEW_AXIS_COUNT] = [(axes & ~int(site[col.CATEGORIES])).bit_count() for axes in views]
    _cut(ledger, policy)
    if isinstance(policy, MixedViews):
        lay_views(ledger, policy)


def next_epoch(ledger: Ledger, policy: Policy) -> Ledger:
    """Start the next epoch, twice as long; returns the ledger, which may have grown."""
    site = ledger.site
    site[col.EPOCH_START] = site[col.ARRIVALS]
    site[col.EPOCH_LENGTH] *= 2
    site[col.EPOCH] += 1
    old_slices = int(ledger.views[0, col.VIEW_SLICES])
    _cut(ledger, policy)
    if policy.keeps:
        return _carried_over(ledger, old_slices)
    site[col.QUOTA_START] = site[col.ARRIVALS]
    clear(ledger)
    return ledger


def _cut(ledger: Ledger, policy: Policy) -> None:
    ledger.views[:, col.VIEW_SLICES] = cut_for(ledger, policy, int(ledger.site[col.EPOCH_LENGTH]))


def cut_for(ledger: Ledger, policy: Policy, horizon: int) -> list[int]:
    """Return the slices per axis of every view for a horizon: as the policy wants, but no more than there are keys."""
    slices = []
    for view in ledger.views:
        codes = (int(view[col.VIEW_AXES]) & int(ledger.site[col.CATEGORIES])).bit_count()
        axes, cells = int(view[col.VIEW_AXIS_COUNT]), LARGEST_KEY // MOST_CODES**codes
        if cells == 0:
            raise SettingError("categories", codes, "fewer: there are not enough keys for their cells")
        wanted = policy.slices_at(horizon, axes)
        slices.append(min(wanted, slices_within(cells, axes)) if codes and axes else wanted)
    return slices


def radices(ledger: Ledger, view: int, slices: int | None = None) -> list[int]:
    """Return how many cells there are along every axis of a view."""
    axes, own = int(ledger.views[view, col.VIEW_AXES]), int(ledger.views[view, col.VIEW_SLICES])
    return radices_of(axes, int(ledger.site[col.CATEGORIES]), own if slices is None else slices)


def _carried_over(ledger: Ledger, old_slices: int) -> Ledger:
    """Start every cell whose centre lies in a visited cell of the old partition from that cell's numbers."""
    rows = int(ledger.site[col.ROWS])
    cells, rewards, counts = (array[:rows].copy() for array in (ledger.cells, ledger.rewards, ledger.counts))
    counts[..., [col.WAITING, col.TRAINING_WAITING]] = 0
    children = [_children(ledger, key, old_slices) for key in cells[:, col.CELL_KEY].tolist()]
    clear(ledger)
    needed = sum(len(keys) for keys in children)
    if needed > ledger.cells.shape[0]:
        ledger = grown(ledger, needed)
    for parent, keys in enumerate(children):
        for key in keys:
            row = row_for(ledger, key)
            ledger.cells[row, col.CELL_ARRIVALS : col.CELL_BORN] = cells[parent, col.CELL_ARRIVALS : col.CELL_BORN]
            ledger.rewards[row] = rewards[parent]
            ledger.counts[row] = counts[parent]
    return ledger


def _children(ledger: Ledger, key: int, old_slices: int) -> list[int]:
    """Return the keys of the cells of the new partition whose centres lie in a cell of the old one."""
    old, new = radices(ledger, 0, old_slices), radices(ledger, 0)
    finer = finer_slices(old_slices, int(ledger.views[0, col.VIEW_SLICES]))
    axes, categories = bits_of(int(ledger.views[0, col.VIEW_AXES])), int(ledger.site[col.CATEGORIES])
    parts = [
        [index] if categories >> axis & 1 else finer[index]  # a category has the same codes in every partition
        for axis, index in zip(axes, axes_of(key, old), strict=True)
    ]
    return [key_of(cell, new) for cell in product(*parts)]
