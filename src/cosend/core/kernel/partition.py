"""From a context to its cell: [0, 1]^d cut into equal cubes.

`slices` is m_T of the paper. A time axis, if there is one, is the last. An axis may be a category: it is not cut, and
has a cell of its own for every code 0, 1, 2, ... that stands for a value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from cosend.compiled import compiled, compiled_apart, entry_point
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import Floats, Ints, Ledger

# 81 ** 0.25 is 3.0000000000000004 in floating point and must give 3 slices, not 4.
ROUNDING: Final = 1e-9
LARGEST_KEY: Final = 2**56
MOST_AXES: Final = 52  # that are given: those of a view, with that of time, are bits of a double
MOST_CODES: Final = 4096  # of a category


def slices_for(horizon: int, root: float) -> int:
    """Return ceil(T^(1/root)); with root 3 alpha + d it balances exploration against coarse cells (Theorem 1)."""
    return max(1, math.ceil(math.pow(horizon, 1 / root) - ROUNDING))


def slices_within(max_cells: int, dimensions: int) -> int:
    """Return the largest number of slices that makes at most `max_cells` cells."""
    slices = round(math.pow(max_cells, 1 / dimensions)) + 1
    while slices**dimensions > max_cells:
        slices -= 1
    return slices


def radices_of(axes: int, categories: int, slices: int) -> list[int]:
    """Return how many cells there are along every axis of a view; `axes` and `categories` are bits."""
    return [MOST_CODES if categories >> axis & 1 else slices for axis in bits_of(axes)]


def bits_of(axes: int) -> list[int]:
    """Return the numbers of the axes that are given as bits."""
    return [axis for axis in range(axes.bit_length()) if axes >> axis & 1]


def axes_of(key: int, radices: Sequence[int]) -> tuple[int, ...]:
    """Return the index on every axis of the cell with this key."""
    indices = []
    for radix in reversed(radices):
        key, index = divmod(key, radix)
        indices.append(index)
    return tuple(reversed(indices))


def key_of(axes: Sequence[int], radices: Sequence[int]) -> int:
    """Return the key of the cell with this index on every axis."""
    key = 0
    for index, radix in zip(axes, radices, strict=True):
        key = key * radix + index
    return key


def keys_of(points: Floats, slices: int) -> Ints:
    """Return the key of the cell that holds each point of [0, 1]^d, for a partition without a time axis."""
    indices: Ints = np.minimum((points * slices).astype(np.int64), slices - 1)
    return indices @ np.array([slices**place for place in reversed(range(points.shape[1]))], np.int64)


def finer_slices(slices: int, finer: int) -> list[list[int]]:
    """Return for every slice of an old partition the slices of a new one whose centres lie in it, on one axis."""
    within: list[list[int]] = [[] for _ in range(slices)]
    for index in range(finer):
        within[slice_of((index + 0.5) / finer, slices)].append(index)
    return within


@entry_point
def first_bad_axis(context: Floats, categories: int, may_lack: bool) -> int:
    """Return the first axis on which a context leaves [0, 1], or is no code of a category, or -1.

    One that is not a number lacks a value, which only mixed views can do without.
    """
    for axis in range(context.shape[0]):
        x, is_code = context[axis], axis < MOST_AXES and (categories >> axis) & 1
        if may_lack and math.isnan(x):
            continue
        if not 0.0 <= x <= (MOST_CODES - 1.0 if is_code else 1.0) or (is_code and x != math.floor(x)):
            return axis
    return -1


@entry_point
def first_bad_context(contexts: Floats, categories: int, may_lack: bool) -> int:
    """Return the first of many contexts that has a bad axis, or -1."""
    for n in range(contexts.shape[0]):
        if first_bad_axis(contexts[n], categories, may_lack) >= 0:
            return n
    return -1


@entry_point
def slice_of(x: float, slices: int) -> int:
    """Return the slice of one axis that holds x; 1.0 belongs to the last."""
    return min(int(x * slices), slices - 1)


@compiled
def epoch_is_over(site: Ints) -> bool:
    """Tell whether the next item of a site starts a new epoch; only a guessed horizon ends one."""
    return bool(site[col.DOUBLING] and site[col.ARRIVALS] - site[col.EPOCH_START] >= site[col.EPOCH_LENGTH])


@compiled
def place_on(ledger: Ledger, context: Floats, axis: int, arrival: int) -> float:
    """Return where an item that is the site's `arrival`-th lies on an axis."""
    site = ledger.site
    if axis < site[col.DIMENSIONS]:
        return float(context[axis])
    # Theorem 2: functions that learn make time one more dimension, t/T.
    step = max(1, arrival - site[col.EPOCH_START])
    return float(min(1.0, step / site[col.EPOCH_LENGTH]))


@compiled
def cell_of(ledger: Ledger, context: Floats, arrival: int) -> int:
    """Return the key of the equal cube that holds an item."""
    site = ledger.site
    if site[col.CATEGORIES]:
        return cell_with_codes(ledger, context, arrival)
    slices, key = int(ledger.views[0, col.VIEW_SLICES]), 0
    for axis in range(site[col.DIMENSIONS] + site[col.TIMED]):
        key = key * slices + slice_of(place_on(ledger, context, axis, arrival), slices)
    return key


@compiled_apart
def cell_with_codes(ledger: Ledger, context: Floats, arrival: int) -> int:
    """Return what `cell_of` does where some axes are categories: the code of a value in place of a slice."""
    site = ledger.site
    slices, key = int(ledger.views[0, col.VIEW_SLICES]), 0
    for axis in range(site[col.DIMENSIONS] + site[col.TIMED]):
        if (site[col.CATEGORIES] >> axis) & 1:
            key = key * MOST_CODES + int(context[axis])
        else:
            key = key * slices + slice_of(place_on(ledger, context, axis, arrival), slices)
    return key
