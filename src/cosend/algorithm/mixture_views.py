"""Which views `MixedViews` has, how features get further ones while it runs, and what is kept when that changes.

Views, for d axes of which some are categories:

    no context, with short and with long memory
    unless the policy does without: the sum of what the cells of all views with long memory say about an item
    each axis, each two axes (3 to 12 of them), all axes together (2 to 12): in 4, 16 and 64 slices each
    the pattern of the local models that were right about the newest labelled item, with short and with long memory
    each feature that has got an axis: in 4, 16 and 2^20 slices, of which every value has one to itself
    with each axis before it, if there are not more than 12 by then: in 4, 16 and 64 slices
    features that never changed, all together: one view that stands for those that each of them would have

A category has one cell per value in place of slices. With more than 12 axes there are no views of several of them, and
the finest slices are so fine that every value that repeats has one of its own.

A feature that never changed says about an item only what is known about all items. It gets no axis: one view stands for
the views of all such features, with their weight, and its row adds up as often. When one of them changes it gets an
axis. The views of that axis alone are as if they had always been there: they take their part of that weight, and begin
with what the common one knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.algorithm import layout as col
from cosend.algorithm.layout import EMPTY, MOST_CODES, Floats, Ledger, grown, has_room, reindex, row_for, slice_of
from cosend.algorithm.mixture import (
    ALL_AXES,
    ENOUGH_LABELS,
    ONE_AXIS,
    ONE_CODE,
    PATTERNS,
    SAME,
    SUM,
    TWO_AXES,
    WHOLE,
    memo_width,
    same_view,
    with_scratch,
)

LEVELS: Final = (4, 16, 64)  # slices per axis
LEVELS_OF_MANY: Final = (4, 16, 1024)  # values that repeat, as sizes and counts do, mostly have a slice of their own
EXACT: Final = 2**20  # slices of a feature: every value has one of its own
LEVELS_OF_FEATURES: Final = (4, 16, EXACT)
PER_FEATURE: Final = len(LEVELS_OF_FEATURES)  # views
MOST_TOGETHER: Final = 12  # axes that are also looked at two by two, and all together
MOST_KEYS: Final = 2**48  # of a view, so that there are bits for its number
SHORT_MEMORY: Final = 0.9


class Plan(NamedTuple):
    """A view before it is laid out."""

    kind: int
    axes: tuple[int, ...] = ()
    slices: int = 1
    memory: float = 1.0
    up: int = 0
    fine: bool = False


class NewAxes(NamedTuple):
    """Features that are known now."""

    axes: int  # how many get one behind the others
    same: int = 0  # that never changed so far, and get none; this can happen once
    places: tuple[float, ...] = ()  # of the old constant values, if the last axes are of features that were such


class Handed(NamedTuple):
    """What the view of features that never changed hands on to views of those that do."""

    giver: int
    views: list[int]
    rows: list[int]  # of these views, EMPTY where there is none


def plans_for(dimensions: int, categories: int, adds_up: bool) -> list[Plan]:
    """Return all views of a context of `dimensions` axes; `categories` are those that have codes, as bits."""
    plans = [Plan(WHOLE, memory=SHORT_MEMORY), Plan(WHOLE), *([Plan(SUM)] if adds_up else [])]
    levels = LEVELS if dimensions <= MOST_TOGETHER else LEVELS_OF_MANY
    for axes in _seen_together(dimensions):
        plans += _levels_of(axes, levels, categories, len(plans))
    return [*plans, Plan(PATTERNS, memory=SHORT_MEMORY), Plan(PATTERNS)]


def _seen_together(dimensions: int) -> Iterator[tuple[int, ...]]:
    every = range(dimensions)
    yield from ((axis,) for axis in every)
    if 2 < dimensions <= MOST_TOGETHER:
        yield from combinations(every, 2)
    if 1 < dimensions <= MOST_TOGETHER:
        yield tuple(every)


def _levels_of(axes: tuple[int, ...], levels: Sequence[int], categories: int, first: int) -> Iterator[Plan]:
    """Yield the views of some axes, the coarsest first, which has the number `first`."""
    numbers = [axis for axis in axes if not categories >> axis & 1]
    kind = (ONE_AXIS if numbers else ONE_CODE) if len(axes) == 1 else TWO_AXES if len(axes) == 2 else ALL_AXES
    for level, slices in enumerate(levels if numbers else (1,)):
        if slices ** len(numbers) * MOST_CODES ** (len(axes) - len(numbers)) > MOST_KEYS:
            return
        yield Plan(kind, axes, slices, up=first + level - 1 if level else 0, fine=level > 0)


def plans_for_features(dimensions: int, new: NewAxes, categories: int, views: int, same: int) -> list[Plan]:
    """Return the views of new features, numbered from `views` on; `same` features had never changed before."""
    total, plans = dimensions + new.axes, [Plan(SAME)] if new.same else []
    together = total + same + new.same - len(new.places) <= MOST_TOGETHER
    for axis in range(dimensions, total):
        plans += _levels_of((axis,), LEVELS_OF_FEATURES, categories, views + len(plans))
        for other in range(axis) if together else ():
            plans += _levels_of((other, axis), LEVELS, categories, views + len(plans))
    return plans


def view_that_reports(plans: Sequence[Plan], dimensions: int) -> int:
    """Return the view that tells peers how much labelled data there is: that of all axes, or of the whole."""
    return next((n for n, plan in enumerate(plans) if len(plan.axes) == dimensions > 0), 1)


def lay_plans(views: Floats, plans: Sequence[Plan]) -> None:
    """Write plans into rows of `Ledger.views`, all with the same weight."""
    for view, plan in zip(views, plans, strict=True):
        view[col.VIEW_AXES] = sum(1 << axis for axis in plan.axes)
        view[col.VIEW_KIND], view[col.VIEW_SLICES], view[col.VIEW_MEMORY] = plan.kind, plan.slices, plan.memory
        view[[col.VIEW_FIRST, col.VIEW_SECOND]] = (*plan.axes, 0, 0)[:2]
        view[col.VIEW_UP], view[col.VIEW_FINE] = plan.up, plan.fine
        view[col.VIEW_WEIGHT] = 1.0 / len(plans)


# Features that get axes


def _same_count(ledger: Ledger) -> int:
    return (1 + int(ledger.views[same_view(ledger), col.VIEW_MORE])) // PER_FEATURE


def add_views(ledger: Ledger, dimensions: int, new: NewAxes) -> tuple[Ledger, Handed]:
    """Return the ledger with the views of more features, and what is handed on to features that had never changed.

    The others have seen nothing yet. They get as much weight as if they had been there from the start.
    """
    before, giver = len(ledger.views), same_view(ledger)
    plans = plans_for_features(dimensions, new, int(ledger.site[col.CATEGORIES]), before, _same_count(ledger))
    first = dimensions + new.axes - len(new.places)
    heirs = [before + n for n, plan in enumerate(plans) if len(plan.axes) == 1 and plan.axes[0] >= first]
    laid = np.zeros((len(plans), ledger.views.shape[1]))
    lay_plans(laid, plans)
    ledger = with_scratch(ledger._replace(views=np.vstack([ledger.views, laid])))
    if new.same:
        ledger.views[before, col.VIEW_MORE] = PER_FEATURE * new.same - 1
    _share_weight(ledger.views, before, giver, heirs)
    keys = ledger.cells[: int(ledger.site[col.ROWS]), col.CELL_KEY]
    keys[:] = keys // before * len(ledger.views) + keys % before
    ledger.slots[:] = EMPTY
    ledger.site[col.VIEWS] = len(ledger.views)
    reindex(ledger)
    return _hand_rows(ledger, giver, heirs, new.places)


def _share_weight(views: Floats, before: int, giver: int, heirs: list[int]) -> None:
    """Give heirs their parts of what their giver has, and all other new views as much as they are owed."""
    weight, more = views[:, col.VIEW_WEIGHT], views[:, col.VIEW_MORE]
    count = before + more[:before].sum()
    if heirs:
        each = weight[giver] / (1.0 + more[giver])
        more[giver] -= len(heirs)
        weight[giver] = each * (1.0 + more[giver])
        weight[heirs] = each
    known = [*range(before), *heirs]
    new = np.setdiff1d(np.arange(len(views)), known)
    total = count + (1.0 + more[new]).sum()
    weight[known] *= count / total
    weight[new] = (1.0 + more[new]) / total


def _hand_rows(ledger: Ledger, giver: int, heirs: list[int], places: Sequence[float]) -> tuple[Ledger, Handed]:
    """Let heirs begin with what their giver knows, in the cell of the value that their features had."""
    known = np.flatnonzero(ledger.cells[: int(ledger.site[col.ROWS]), col.CELL_KEY] == giver)
    if not heirs or not len(known):
        return ledger, Handed(giver, heirs, [EMPTY] * len(heirs))
    ledger, row = ledger if has_room(ledger) else grown(ledger), int(known[0])
    left = 1.0 + ledger.views[giver, col.VIEW_MORE]
    each = ledger.rewards[row, :, col.EVIDENCE] / (left + len(heirs))
    ledger.rewards[row, :, col.EVIDENCE] = each
    rows = [_heir_row(ledger, row, heir, places[n // PER_FEATURE]) for n, heir in enumerate(heirs)]
    ledger.rewards[row, :, col.EVIDENCE] = each * left
    return ledger, Handed(giver, heirs, rows)


def _heir_row(ledger: Ledger, row: int, heir: int, place: float) -> int:
    """Return a new row of a view, with what another row knows; EMPTY if it may have none."""
    view = ledger.views[heir]
    may_be_fine = ledger.cells[row, col.CELL_LABELS] >= ENOUGH_LABELS
    if ledger.site[col.ROWS] >= ledger.site[col.MAX_ROWS] or (view[col.VIEW_FINE] and not may_be_fine):
        return EMPTY
    new = row_for(ledger, slice_of(place, int(view[col.VIEW_SLICES])) * len(ledger.views) + heir)
    ledger.cells[new, col.CELL_ARRIVALS :] = ledger.cells[row, col.CELL_ARRIVALS :]
    ledger.rewards[new], ledger.counts[new] = ledger.rewards[row], ledger.counts[row]
    return new


# Memos of pending decisions, and patterns, when views or arms change


def with_more_views(memos: Floats, before: int, views: int, own: int, handed: Handed) -> Floats:
    """Return memos as if there had been more views: they had no rows, and forecast as the first does.

    memos   [..., number], with room for `before` views at least
    handed  views to which another one hands what it knows had rows where that one had, and forecast the same
    """
    numbers = memos[..., : memo_width(before, own)].reshape(*memos.shape[:-1], 2 + own, before)
    new = np.repeat(numbers[..., :1], views - before, axis=-1)
    new[..., 0, :] = EMPTY
    for view, row in zip(handed.views, handed.rows, strict=True):
        given = numbers[..., handed.giver]
        new[..., view - before] = given
        new[..., 0, view - before] = np.where(given[..., 0] == EMPTY, EMPTY, row)
    return np.concatenate([numbers, new], axis=-1).reshape(*memos.shape[:-1], memo_width(views, own))


def with_other_models(memos: Floats, views: int, own: int, change: Callable[[Any, int], Any]) -> Floats:
    """Return memos with the width for `own` local models; nobody has forecast a new one for what is pending."""
    before = memos.shape[1] // views - 2
    if own == before:  # it was a peer that joined or left
        return memos
    rows, forecasts = memos[:, :views], memos[:, views:].reshape(-1, before + 1, views)
    local = change(forecasts[:, :-1], 1)
    if own > before:
        local[:, -1] = np.nan  # it joined behind the other local models
    kept = np.concatenate([local, forecasts[:, -1:]], axis=1).reshape(len(rows), -1)
    return np.ascontiguousarray(np.hstack([rows, kept]))


def forget_patterns(ledger: Ledger, number: int) -> None:
    """Forget what was learnt about patterns, before an arm leaves that is part of them or renumbers others."""
    rows, site = int(ledger.site[col.ROWS]), ledger.site
    is_last = number in (site[col.OWN_COUNT] - 1, site[col.ARM_COUNT] - 1)
    if rows and (not is_last or ledger.rewards[0, number, col.REWARD_COUNT] > 0.0):  # the first row is of all items
        kinds = ledger.views[ledger.cells[:rows, col.CELL_KEY] % len(ledger.views), col.VIEW_KIND]
        ledger.rewards[:rows][kinds == PATTERNS] = 0.0
        site[col.PATTERN] = 0
