"""Mixed views: the rows of an item in all views, and what each view forecasts of every arm.

    view 0     no context, short memory        p = (S + 1/2) / (N + 1)
    view 1     no context
    view 2     unless the policy does without: see `mixed_sum`
    others     slices of an axis, of two, of all, each in several finenesses, and patterns
                                               p = (S + p of view 0) / (N + 1); that of the coarser view without a row

A pattern is which local classifiers were right about the newest labelled item. What a label needs of an item when it
comes stands in one line of numbers, `kept`: the row in every view, then what all views forecast of the first local
classifier, of the second, and so on, and of the arm that was used. exactness.md, "Mixed views", has the rules.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger, find_row, row_for
from cosend.core.kernel.mixed_scratch import Scratch, scratch_of, take_column, weighted_sum
from cosend.core.kernel.mixed_sum import SUM_VIEW, adds_up, forecast_sum
from cosend.core.kernel.partition import MOST_CODES, slice_of

# What the cells of a view are.
WHOLE: Final = 0
ONE_AXIS: Final = 1
TWO_AXES: Final = 2
ALL_AXES: Final = 3
PATTERNS: Final = 4
ONE_CODE: Final = 5
SAME: Final = 7  # one cell, as that of the whole, from when features were found that never changed

ENOUGH_LABELS: Final = 32  # in a row, before finer views have rows there
MISSING: Final = -1  # the key of an item that lacks a value on an axis


def kept_width(views: int, own: int) -> int:
    """Return how many numbers are kept of an item until its label comes."""
    return views * (2 + own)


@compiled
def index_on(ledger: Ledger, axis: int, x: float, slices: int) -> int:
    """Return the slice or the code of a value on an axis."""
    return int(x) if (ledger.site[col.CATEGORIES] >> axis) & 1 else slice_of(x, slices)


@compiled
def radix_of(ledger: Ledger, axis: int, slices: int) -> int:
    """Return how many cells an axis has."""
    return MOST_CODES if (ledger.site[col.CATEGORIES] >> axis) & 1 else slices


@compiled
def mixed_key(ledger: Ledger, view: int, context: Floats) -> int:
    """Return the key of the cell of a view that holds an item, or MISSING if it lacks a value there."""
    seen, kind, number = ledger.views[view], ledger.views[view, col.VIEW_KIND], 0
    slices = int(seen[col.VIEW_SLICES])
    if kind in (ONE_AXIS, ONE_CODE):
        x = context[int(seen[col.VIEW_FIRST])]
        if math.isnan(x):
            return MISSING
        number = slice_of(x, slices) if kind == ONE_AXIS else int(x)
    elif kind == TWO_AXES:
        one, two = int(seen[col.VIEW_FIRST]), int(seen[col.VIEW_SECOND])
        if math.isnan(context[one]) or math.isnan(context[two]):
            return MISSING
        number = index_on(ledger, one, context[one], slices) * radix_of(ledger, two, slices)
        number += index_on(ledger, two, context[two], slices)
    elif kind == ALL_AXES:
        for axis in range(ledger.site[col.DIMENSIONS]):
            if math.isnan(context[axis]):
                return MISSING
            number = number * radix_of(ledger, axis, slices) + index_on(ledger, axis, context[axis], slices)
    elif kind == PATTERNS:
        number = ledger.site[col.PATTERN]
    return number * int(ledger.site[col.VIEWS]) + view


@compiled
def find_mixed_row_of(ledger: Ledger, view: int, context: Floats, begins: bool) -> int:
    """Return the row of an item in a view, or EMPTY; one that is not there is begun if it may and there is room."""
    key = mixed_key(ledger, view, context)
    if key == MISSING:
        return EMPTY
    row = find_row(ledger, key)
    if row == EMPTY and begins and ledger.site[col.ROWS] < ledger.site[col.MAX_ROWS]:
        row = row_for(ledger, key)
    return row


@compiled
def forecast(ledger: Ledger, context: Floats, begins: bool, kept: Floats) -> float:
    """Find the rows of an item, and what every view forecasts of every arm; returns how many items came where it lies.

    The rows go into `kept`, what is forecast into the scratch. All rows are found before one is read, so that the
    processor can fetch several at once.
    """
    scratch, views = scratch_of(ledger), ledger.site[col.VIEWS]
    find_rows(ledger, context, begins, kept)
    take_column(ledger, col.VIEW_WEIGHT, scratch.weights)
    read_rows(ledger, scratch, kept)
    np.divide(scratch.forecasts, scratch.bottoms, scratch.forecasts)  # one after the other would take far longer
    borrow_forecasts(ledger, scratch, kept)
    if adds_up(ledger):
        forecast_sum(ledger, scratch)
    for arm in range(ledger.site[col.ARM_COUNT]):
        said = scratch.forecasts[arm * views : (arm + 1) * views]
        scratch.means[arm] = weighted_sum(scratch.weights, said)
    return items_seen(ledger, scratch, kept)


@compiled
def find_rows(ledger: Ledger, context: Floats, begins: bool, kept: Floats) -> None:
    """Find the rows of an item in all views, or begin them."""
    views, without_rows = ledger.views, SUM_VIEW if adds_up(ledger) else EMPTY
    for view in range(ledger.site[col.VIEWS]):
        # exactness.md, "Mixed views", rows.
        row, up = EMPTY, int(views[view, col.VIEW_UP])
        if view != without_rows and (not views[view, col.VIEW_FINE] or has_enough(ledger, int(kept[up]))):
            row = find_mixed_row_of(ledger, view, context, begins)
        kept[view] = row


@compiled
def read_rows(ledger: Ledger, scratch: Scratch, kept: Floats) -> None:
    """Write down what every view is to divide by what, and for the view that adds up, what the rows add up to.

    The loop over the views is the inner one, because it is the longer one. Where there is no row, what is written is
    not used.
    """
    views, first = ledger.site[col.VIEWS], int(kept[0])
    for arm in range(ledger.site[col.ARM_COUNT]):
        start, end, prior = arm * views, (arm + 1) * views, prior_of(ledger, first, arm)
        evidence, other, tops, bottoms = 0.0, 0.0, scratch.forecasts[start:end], scratch.bottoms[start:end]
        for view in range(views):
            row = int(kept[view])
            known = ledger.rewards[max(0, row), arm]
            # exactness.md, "Mixed views", forecasts.
            tops[view] = known[col.REWARD_SUM] + prior
            bottoms[view] = known[col.REWARD_COUNT] + 1.0
            # The same, z: views of even and of odd numbers are summed apart, as in `add_up`.
            evidence, other = other + (known[col.EVIDENCE] if row != EMPTY else 0.0), evidence
        tops[0], bottoms[0] = prior, 1.0
        scratch.evidence[arm] = evidence + other


@compiled
def prior_of(ledger: Ledger, row: int, arm: int) -> float:
    """Return what the first view forecasts of an arm, with which all others begin."""
    if row == EMPTY:
        return 0.5
    known = ledger.rewards[row, arm]
    return float((known[col.REWARD_SUM] + 0.5) / (known[col.REWARD_COUNT] + 1.0))


@compiled
def items_seen(ledger: Ledger, scratch: Scratch, kept: Floats) -> float:
    """Return how many items came where an item lies, by the weights of the views."""
    seen = 0.0
    for view in range(ledger.site[col.VIEWS]):
        row = int(kept[view])
        if row != EMPTY:
            seen += scratch.weights[view] * ledger.cells[row, col.CELL_ARRIVALS]
    return seen


@compiled
def borrow_forecasts(ledger: Ledger, scratch: Scratch, kept: Floats) -> None:
    """Let views without a row forecast what the next coarser one does."""
    for view in range(ledger.site[col.VIEWS]):
        if int(kept[view]) == EMPTY:
            borrow_forecast(ledger, scratch, view, int(ledger.views[view, col.VIEW_UP]))


@compiled_apart
def borrow_forecast(ledger: Ledger, scratch: Scratch, view: int, up: int) -> None:
    """Let a view forecast what another does. Apart, because with this in its loop every other view took longer."""
    views = ledger.site[col.VIEWS]
    for arm in range(ledger.site[col.ARM_COUNT]):
        scratch.forecasts[arm * views + view] = scratch.forecasts[arm * views + up]


@compiled
def has_enough(ledger: Ledger, row: int) -> bool:
    """Tell whether finer views may have rows below one."""
    return row != EMPTY and ledger.cells[row, col.CELL_LABELS] >= ENOUGH_LABELS


@compiled
def keep_forecasts(ledger: Ledger, arm: int, kept: Floats) -> None:
    """Write the forecasts of the local classifiers, and of the arm that is used, into `kept`."""
    said, views, own = scratch_of(ledger).forecasts, ledger.site[col.VIEWS], ledger.site[col.OWN_COUNT]
    copy_to(kept[views : (1 + own) * views], said[: own * views])  # local classifiers are the first arms
    copy_to(kept[(1 + own) * views : (2 + own) * views], said[arm * views : (arm + 1) * views])


@compiled
def copy_to(there: Floats, here: Floats) -> None:
    """Copy numbers: an index that cannot be negative lets the compiler make wide instructions of the loop."""
    for n in range(there.shape[0]):
        there[n] = here[n]


@compiled
def mean_forecast(ledger: Ledger, arm: int) -> float:
    """Return what all views together forecast of an arm."""
    return float(scratch_of(ledger).means[arm])


@compiled
def rewards_seen(ledger: Ledger, arm: int, kept: Floats) -> float:
    """Return how many rewards of an arm are known or awaited where an item lies, by the weights of the views."""
    seen = 0.0
    for view in range(ledger.site[col.VIEWS]):
        row = int(kept[view])
        if row != EMPTY:
            count = ledger.rewards[row, arm, col.REWARD_COUNT] + ledger.counts[row, arm, col.WAITING]
            seen += ledger.views[view, col.VIEW_WEIGHT] * count
    return seen
