"""From a context to the row of its cell: [0, 1]^d cut into equal cells, or into cubes that split.

`slices` is m_T of the paper. An axis may be a category: it is not cut, and has a cell of its own for every code 0, 1,
2, ... that stands for a value.

Cubes: the root is the whole of [0, 1]^d. A cube of level p has sides of 2^-p. One that was split stays as the parent of
its 2^d children, and a child gets its row when it is visited: memory follows the visited part, in any number of
dimensions. Where some axes are categories there is a root for every combination of their codes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from cosend.algorithm import layout as col
from cosend.algorithm.layout import EMPTY, MOST_CODES, Floats, Ints, Ledger, find_row, net_mean, row_for, slice_of
from cosend.compiled import compiled, compiled_apart

# 81 ** 0.25 is 3.0000000000000004 in floating point and must give 3 slices, not 4.
ROUNDING: Final = 1e-9
LARGEST_KEY: Final = 2**56
DEEPEST: Final = 50  # a number in [0, 1] has no more binary places to tell two cubes apart
ROOTS: Final = 2**56  # the keys of roots of categories begin here, above those of all children

# When a cube splits: values of the column ZOOMS.
NEVER: Final = 0
BY_ARRIVALS: Final = 1
IF_UNRESOLVED: Final = 2  # by labels that have come, and only while two arms may each be the best somewhere in it


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
    """Return the number of cells along every axis of a view; `axes` and `categories` are bits."""
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
    """Return the key of the cell that holds each point of [0, 1]^d, for equal cells."""
    indices: Ints = np.minimum((points * slices).astype(np.int64), slices - 1)
    return indices @ np.array([slices**place for place in reversed(range(points.shape[1]))], np.int64)


@compiled
def find_cell(ledger: Ledger, context: Floats) -> int:
    """Return the row of the cell that holds an item, the smallest one that was visited, or EMPTY."""
    if ledger.site[col.ZOOMS]:
        return _find_cube(ledger, context)
    return find_row(ledger, cell_of(ledger, context))


@compiled
def visit_cell(ledger: Ledger, context: Floats) -> int:
    """Return the row of the cell that holds an item, begun if this is the first; there must be room for it."""
    if ledger.site[col.ZOOMS]:
        return _visit_cube(ledger, context)
    return row_for(ledger, cell_of(ledger, context))


# Equal cells


@compiled
def cell_of(ledger: Ledger, context: Floats) -> int:
    """Return the key of the equal cell that holds an item."""
    site = ledger.site
    if site[col.CATEGORIES]:
        return _cell_with_codes(ledger, context)
    slices, key = int(ledger.views[0, col.VIEW_SLICES]), 0
    for axis in range(site[col.DIMENSIONS]):
        key = key * slices + slice_of(context[axis], slices)
    return key


@compiled_apart
def _cell_with_codes(ledger: Ledger, context: Floats) -> int:
    """Return what `cell_of` does where some axes are categories: the code of a value in place of a slice."""
    site = ledger.site
    slices, key = int(ledger.views[0, col.VIEW_SLICES]), 0
    for axis in range(site[col.DIMENSIONS]):
        if (site[col.CATEGORIES] >> axis) & 1:
            key = key * MOST_CODES + int(context[axis])
        else:
            key = key * slices + slice_of(context[axis], slices)
    return key


# Cubes that split


@compiled_apart
def _find_cube(ledger: Ledger, context: Floats) -> int:
    """Return the row of the smallest cube that holds an item and was visited, or EMPTY."""
    child = find_row(ledger, _root_of(ledger, context))
    row = child
    while child != EMPTY:
        row = child
        if ledger.cells[row, col.CELL_LEVEL] >= 0:
            break
        child = find_row(ledger, _child_of(ledger, row, context))
    return row


@compiled_apart
def _visit_cube(ledger: Ledger, context: Floats) -> int:
    """Return the row of the cube that an item belongs to; a child of a split one is begun when it is visited."""
    row = _find_cube(ledger, context)
    if row == EMPTY:
        return row_for(ledger, _root_of(ledger, context))
    level = ledger.cells[row, col.CELL_LEVEL]
    if level < 0 and ledger.site[col.ROWS] < ledger.site[col.MAX_ROWS]:
        parent = row
        row = row_for(ledger, _child_of(ledger, parent, context))
        ledger.cells[row, col.CELL_LEVEL] = -level
        _inherit(ledger, parent, row)
    return row


@compiled
def _root_of(ledger: Ledger, context: Floats) -> int:
    site, number = ledger.site, 0
    if site[col.CATEGORIES]:
        for axis in range(site[col.DIMENSIONS]):
            if (site[col.CATEGORIES] >> axis) & 1:
                number = number * MOST_CODES + int(context[axis])
        if number > 0:
            number += ROOTS
    return number


@compiled
def _child_of(ledger: Ledger, row: int, context: Floats) -> int:
    """Return the key of the child of a split cube that holds an item: one bit for every axis that is cut."""
    site, key = ledger.site, row
    slices = 1 << -int(ledger.cells[row, col.CELL_LEVEL])  # of the children's level, which is one more
    for axis in range(site[col.DIMENSIONS]):
        if not (site[col.CATEGORIES] >> axis) & 1:
            key = (key << 1) | (slice_of(context[axis], slices) & 1)
    return key + 1  # the root has 0 in place of that


@compiled
def _inherit(ledger: Ledger, parent: int, child: int) -> None:
    """Start a new cube from what its parent knows, as if that were a few rewards at most."""
    level = ledger.cells[child, col.CELL_LEVEL] - 1
    most = ledger.parameters[col.INHERITED] * math.exp(ledger.parameters[col.ZOOM_RATE] * level)
    for arm in range(ledger.site[col.ARM_COUNT]):
        taken = min(ledger.rewards[parent, arm, col.REWARD_COUNT], most)
        if taken > 0.0:
            total = taken * ledger.rewards[parent, arm, col.MEAN_REWARD]
            ledger.rewards[child, arm, col.REWARD_COUNT] = taken
            ledger.rewards[child, arm, col.REWARD_SUM] = total
            ledger.rewards[child, arm, col.MEAN_REWARD] = total / taken


@compiled
def split_if_due(ledger: Ledger, row: int) -> None:
    """Split a cube once its width causes more error than sampling noise does, unless all its axes are categories."""
    site, known = ledger.site, ledger.parameters
    level = ledger.cells[row, col.CELL_LEVEL]
    if not 0 <= level < DEEPEST or ledger.views[0, col.VIEW_AXIS_COUNT] == 0.0:
        return
    # DCZA of the longer version: a cube of level p is split after A 2^(rho p) arrivals.
    enough = known[col.SPLIT_AFTER] * math.exp(known[col.SPLIT_RATE] * level)
    if site[col.ZOOMS] == BY_ARRIVALS:
        due = ledger.cells[row, col.CELL_ARRIVALS] >= enough
    else:  # by labels: late ones must not find a cube in small parts about which nothing is known
        due = ledger.cells[row, col.CELL_LABELS] + 1 >= max(enough, 2.0) and _has_close_rival(ledger, row)
    if due:
        ledger.cells[row, col.CELL_LEVEL] = -1 - level


@compiled
def _has_close_rival(ledger: Ledger, row: int) -> bool:
    """Tell whether another arm comes so close to the best one that it may be the best in a part of the cube."""
    best, second = -np.inf, -np.inf
    for arm in range(ledger.site[col.ARM_COUNT]):
        mean = net_mean(ledger, row, arm)
        second = max(second, min(best, mean))
        best = max(best, mean)
    known = ledger.parameters
    # exactness.md, "Cubes that split": the second best net mean is within 2 L 2^(-alpha p) of the best.
    within = known[col.STEEPNESS] * math.exp(-known[col.SIDE_RATE] * ledger.cells[row, col.CELL_LEVEL])
    return bool(second >= best - within)
