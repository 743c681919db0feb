"""From a context to its cell: [0, 1]^d cut into equal cubes.

`slices` is m_T of the paper. A time axis, if there is one, is the last.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import Floats, Ints, Ledger

# 81 ** 0.25 is 3.0000000000000004 in floating point and must give 3 slices, not 4.
ROUNDING: Final = 1e-9
LARGEST_KEY: Final = 2**56  # and some bits for the view


def slices_for(horizon: int, root: float) -> int:
    """Return ceil(T^(1/root)); with root 3 alpha + d it balances exploration against coarse cells (Theorem 1)."""
    return max(1, math.ceil(math.pow(horizon, 1 / root) - ROUNDING))


def slices_within(max_cells: int, dimensions: int) -> int:
    """Return the largest number of slices that makes at most `max_cells` cells."""
    slices = round(math.pow(max_cells, 1 / dimensions)) + 1
    while slices**dimensions > max_cells:
        slices -= 1
    return slices


def axes_of(key: int, slices: int, dimensions: int) -> tuple[int, ...]:
    """Return the index on every axis of the cell with this key."""
    indices = []
    for _ in range(dimensions):
        key, index = divmod(key, slices)
        indices.append(index)
    return tuple(reversed(indices))


def key_of(axes: tuple[int, ...], slices: int) -> int:
    """Return the key of the cell with this index on every axis."""
    key = 0
    for index in axes:
        key = key * slices + index
    return key


def keys_of(points: Floats, slices: int) -> Ints:
    """Return the key of the cell that holds each point of [0, 1]^d, for a partition without a time axis."""
    return np.array([key_of(tuple(slice_of(x, slices) for x in point), slices) for point in points.tolist()], np.int64)


def finer_slices(slices: int, finer: int) -> list[list[int]]:
    """Return for every slice of an old partition the slices of a new one whose centres lie in it, on one axis."""
    within: list[list[int]] = [[] for _ in range(slices)]
    for index in range(finer):
        within[slice_of((index + 0.5) / finer, slices)].append(index)
    return within


@compiled
def first_bad_axis(context: Floats) -> int:
    """Return the first axis on which a context leaves [0, 1] or is not a number, or -1."""
    for axis in range(context.shape[0]):
        if not 0.0 <= context[axis] <= 1.0:
            return axis
    return -1


@compiled
def slice_of(x: float, slices: int) -> int:
    """Return the slice of one axis that holds x; 1.0 belongs to the last."""
    return min(int(x * slices), slices - 1)


@compiled
def epoch_is_over(site: Ints) -> bool:
    """Tell whether the next item of a site starts a new phase; only a guessed horizon ends one."""
    return bool(site[col.DOUBLING] and site[col.ARRIVALS] - site[col.EPOCH_START] >= site[col.EPOCH_LENGTH])


@compiled
def place_on(ledger: Ledger, context: Floats, axis: int, arrival: int) -> float:
    """Return where an item that is the site's `arrival`-th lies on an axis."""
    site = ledger.site
    if axis < site[col.DIMENSIONS]:
        return float(context[axis])
    # Functions that learn make time one more dimension, t/T (Theorem 2).
    step = max(1, arrival - site[col.EPOCH_START])
    return float(min(1.0, step / site[col.EPOCH_LENGTH]))


@compiled
def cell_of(ledger: Ledger, view: int, context: Floats, arrival: int) -> int:
    """Return the key of the equal cube of a view that holds an item."""
    site, seen = ledger.site, ledger.views[view]
    axes, slices = int(seen[col.VIEW_AXES]), int(seen[col.VIEW_SLICES])
    key = 0
    for axis in range(site[col.DIMENSIONS] + site[col.TIMED]):
        if (axes >> axis) & 1:
            key = key * slices + slice_of(place_on(ledger, context, axis, arrival), slices)
    return key * int(site[col.VIEWS]) + view
