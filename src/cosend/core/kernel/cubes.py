"""Cubes that split where many items come: the partition of a policy that zooms.

The root is the whole of [0, 1]^d. A cube of level p has sides of 2^-p. One that was split stays as the parent of its
2^d children, and a child gets its row when it is visited: memory follows the visited part, in any number of dimensions.
Where some axes are categories there is a root for every combination of their codes.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import net_mean
from cosend.core.kernel.ledger import Floats, Ledger
from cosend.core.kernel.partition import MOST_CODES, place_on, slice_of

DEEPEST: Final = 50  # a number in [0, 1] has no more binary places to tell two cubes apart
ROOTS: Final = 2**56  # the numbers of roots of categories begin here, above those of all children

# When a cube splits.
NEVER: Final = 0
BY_ARRIVALS: Final = 1
IF_UNRESOLVED: Final = 2  # by labels that have come, and only while two arms may each be the best somewhere in it


@compiled
def root_of(ledger: Ledger, context: Floats) -> int:
    """Return the key of the root that holds an item."""
    site, number = ledger.site, 0
    if site[col.CATEGORIES]:
        for axis in range(site[col.DIMENSIONS]):
            if (site[col.CATEGORIES] >> axis) & 1:
                number = number * MOST_CODES + int(context[axis])
        if number > 0:
            number += ROOTS
    return number


@compiled
def child_of(ledger: Ledger, row: int, context: Floats, arrival: int) -> int:
    """Return the key of the child of a split cube that holds an item: one bit for every axis that is cut."""
    site, key = ledger.site, row
    slices = 1 << -int(ledger.cells[row, col.CELL_LEVEL])  # of the children's level, which is one more
    for axis in range(site[col.DIMENSIONS] + site[col.TIMED]):
        if not (site[col.CATEGORIES] >> axis) & 1:
            key = (key << 1) | (slice_of(place_on(ledger, context, axis, arrival), slices) & 1)
    return key + 1  # the root has 0 in place of that


@compiled
def inherit(ledger: Ledger, parent: int, child: int) -> None:
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
    else:  # by labels: late ones must not find a cube in small parts that nobody knows anything of
        due = ledger.cells[row, col.CELL_LABELS] + 1 >= max(enough, 2.0) and unresolved(ledger, row)
    if due:
        ledger.cells[row, col.CELL_LEVEL] = -1 - level


@compiled
def unresolved(ledger: Ledger, row: int) -> bool:
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
