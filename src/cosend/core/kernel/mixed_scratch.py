"""Mixed views: room to work in, behind the parameters of a site. Nothing in it is needed after a step.

Whoever explains reads there what was forecast last. Numbers of many views stand side by side, so that the compiler can
make wide instructions of a loop over them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import Floats, Ledger

BLOCKS: Final = 2  # numbers for every arm and view
COLUMNS: Final = 4  # numbers for every view
LINES: Final = 5  # numbers for every arm


class Scratch(NamedTuple):
    """Where to write what. A block has the numbers of all views for the first arm, then those for the second, ..."""

    forecasts: Floats  # block: what a view forecasts of an arm; before that, what is to be divided
    bottoms: Floats  # block: by what it is divided
    weights: Floats  # [view]
    memories: Floats  # [view]
    rates: Floats  # [view]: labels of its row, then its part of a step, for arms that go by all labels
    rates_of_used: Floats  # [view]: the same for the arm that was used, if it is none of these
    means: Floats  # [arm]: what all views together forecast
    evidence: Floats  # [arm]: what the rows of an item add up to
    gains: Floats  # [arm]: what a label adds to the sum of an arm,
    counted: Floats  # [arm]: to its count, 0 if it says nothing of the arm,
    steps: Floats  # [arm]: and to its evidence


def with_scratch(ledger: Ledger) -> Ledger:
    """Return the ledger with room to work in for as many views and arms as it has now."""
    views, arms = len(ledger.views), len(ledger.costs)
    room = np.zeros(BLOCKS * arms * views + COLUMNS * views + LINES * arms)
    return ledger._replace(parameters=np.concatenate([ledger.parameters[: col.PARAMETER_COLUMNS], room]))


def forecasts_by_arm(ledger: Ledger) -> Floats:
    """Return what was forecast last, [arm, view], to whoever is not compiled."""
    arms, views, first = len(ledger.costs), len(ledger.views), col.PARAMETER_COLUMNS
    return ledger.parameters[first : first + arms * views].reshape(arms, views)


@compiled
def scratch_of(ledger: Ledger) -> Scratch:
    """Return the room of a site, divided."""
    views, arms, room = ledger.site[col.VIEWS], ledger.site[col.ARM_COUNT], ledger.parameters
    block, first = arms * views, col.PARAMETER_COLUMNS
    lines = first + BLOCKS * block + COLUMNS * views
    return Scratch(
        room[first : first + block],
        room[first + block : first + 2 * block],
        room[lines - 4 * views : lines - 3 * views],
        room[lines - 3 * views : lines - 2 * views],
        room[lines - 2 * views : lines - views],
        room[lines - views : lines],
        room[lines : lines + arms],
        room[lines + arms : lines + 2 * arms],
        room[lines + 2 * arms : lines + 3 * arms],
        room[lines + 3 * arms : lines + 4 * arms],
        room[lines + 4 * arms : lines + 5 * arms],
    )


@compiled
def take_column(ledger: Ledger, column: int, line: Floats) -> None:
    """Write what a column of the views holds side by side."""
    for view in range(line.shape[0]):
        line[view] = ledger.views[view, column]


@compiled
def same_view(ledger: Ledger) -> int:
    """Return the number of the view that stands for more than itself; without one it is the first, which does not."""
    return int(ledger.parameters[col.SAME_VIEW])


@compiled
def weighted_sum(weights: Floats, values: Floats) -> float:
    """Return the sum of products."""
    # exactness.md, "Mixed views", sums: four side by side, and what is left goes to the first.
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    rest = weights.shape[0] - weights.shape[0] % 4
    for n in range(0, rest, 4):
        first += weights[n] * values[n]
        second += weights[n + 1] * values[n + 1]
        third += weights[n + 2] * values[n + 2]
        fourth += weights[n + 3] * values[n + 3]
    for n in range(rest, weights.shape[0]):
        first += weights[n] * values[n]
    return (first + second) + (third + fourth)
