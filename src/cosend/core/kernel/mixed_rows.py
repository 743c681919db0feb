"""Mixed views: the rows of an item in all views, and what each view forecasts of every arm.

    view 0     no context, short memory        p = (S + 1/2) / (N + 1)
    view 1     no context
    view 2     only if the policy adds up: see `mixed_sum`
    others     slices of an axis, of two, of all, each in several finenesses, and patterns
                                               p = (S + p of view 0) / (N + 1); that of the coarser view without a row

A pattern is which local classifiers were right about the newest labelled item. What a label needs of an item when it
comes stands in one line of numbers, `kept`: the row in every view, then what all views forecast of the first local
classifier, of the second, and so on, and of the arm that was used. SPEC 7, "MixedViews", is the source.
"""

from __future__ import annotations

import math
from typing import Final

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger, find_row, row_for
from cosend.core.kernel.mixed_sum import SUM_VIEW, adds_up, forecast_sum
from cosend.core.kernel.partition import MOST_CODES, slice_of

# What the cells of a view are.
WHOLE: Final = 0
ONE_AXIS: Final = 1
TWO_AXES: Final = 2
ALL_AXES: Final = 3
PATTERNS: Final = 4
ONE_CODE: Final = 5

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

    The rows go into `kept`, the forecasts behind the columns of the views, and behind those of the first what all views
    together forecast. All rows are found before one is read, so that the processor can fetch several at once.
    """
    find_rows(ledger, context, begins, kept)
    forecast_whole(ledger, int(kept[0]))
    seen = read_rows(ledger, kept)
    if adds_up(ledger):
        forecast_sum(ledger)
    return seen


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
def read_rows(ledger: Ledger, kept: Floats) -> float:
    """Write what every view but the first forecasts, and add it up; returns how many items came where this one lies."""
    views, first, arms, up = ledger.views, col.VIEW_COLUMNS, ledger.site[col.ARM_COUNT], 0
    whole, sums, added = views[0, first : first + arms], views[0, first + arms :], views[SUM_VIEW, first + arms :]
    row = int(kept[0])
    seen = views[0, col.VIEW_WEIGHT] * ledger.cells[row, col.CELL_ARRIVALS] if row != EMPTY else 0.0
    added[:] = 0.0
    without_rows = SUM_VIEW if adds_up(ledger) else EMPTY
    for view in range(1, ledger.site[col.VIEWS]):
        # exactness.md, "Mixed views", forecasts.
        row, weight, said = int(kept[view]), views[view, col.VIEW_WEIGHT], views[view, first:]
        if row != EMPTY:
            seen += weight * ledger.cells[row, col.CELL_ARRIVALS]
            known = ledger.rewards[row]
            for arm in range(arms):
                chance = (known[arm, col.REWARD_SUM] + whole[arm]) / (known[arm, col.REWARD_COUNT] + 1.0)
                said[arm] = chance
                sums[arm] += weight * chance
                added[arm] += known[arm, col.EVIDENCE]
        elif view != without_rows:
            up = int(views[view, col.VIEW_UP])
            for arm in range(arms):
                said[arm] = views[up, first + arm]
                sums[arm] += weight * said[arm]
    return float(seen)


@compiled
def has_enough(ledger: Ledger, row: int) -> bool:
    """Tell whether finer views may have rows below one."""
    return row != EMPTY and ledger.cells[row, col.CELL_LABELS] >= ENOUGH_LABELS


@compiled
def forecast_whole(ledger: Ledger, row: int) -> None:
    """Write what the first view forecasts, and begin the sums of all together with it."""
    views, first, arms = ledger.views, col.VIEW_COLUMNS, ledger.site[col.ARM_COUNT]
    for arm in range(arms):
        chance = 0.5
        if row != EMPTY:
            known = ledger.rewards[row, arm]
            chance = (known[col.REWARD_SUM] + 0.5) / (known[col.REWARD_COUNT] + 1.0)
        views[0, first + arm] = chance
        views[0, first + arms + arm] = views[0, col.VIEW_WEIGHT] * chance


@compiled
def keep_forecasts(ledger: Ledger, arm: int, kept: Floats) -> None:
    """Write the forecasts of the local classifiers, and of the arm that is used, into `kept`."""
    views, count, own = ledger.views, ledger.site[col.VIEWS], ledger.site[col.OWN_COUNT]
    for function in range(own + 1):
        place, what = count * (1 + function), col.VIEW_COLUMNS + (function if function < own else arm)
        for view in range(count):
            kept[place + view] = views[view, what]


@compiled
def mean_forecast(ledger: Ledger, arm: int) -> float:
    """Return what all views together forecast of an arm."""
    return float(ledger.views[0, col.VIEW_COLUMNS + ledger.site[col.ARM_COUNT] + arm])


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
