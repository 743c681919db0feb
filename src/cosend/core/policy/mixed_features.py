"""Features that get axes while `MixedViews` runs: their views, and what they know from the start.

A feature that never changed says of an item what is known of all items. It gets no axis: one view stands for the views
of all such features, with their weight, and its row adds up as often. When one of them changes it gets an axis. The
views of that axis alone are as if they had always been there: they take their part of that weight, and begin with what
the common one knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger, grown, has_room, reindex, row_for
from cosend.core.kernel.mixed_rows import ENOUGH_LABELS
from cosend.core.kernel.mixed_scratch import same_view, with_scratch
from cosend.core.kernel.partition import slice_of
from cosend.core.policy.mixed import LEVELS_OF_FEATURES, NewAxes, lay_plans, plans_for_features

PER_FEATURE: Final = len(LEVELS_OF_FEATURES)  # views


class Handed(NamedTuple):
    """What the view of features that never changed hands on to views of those that do."""

    giver: int
    views: list[int]
    rows: list[int]  # of these views, EMPTY where there is none


def same_count(ledger: Ledger) -> int:
    """Return how many features there are that never changed."""
    return (1 + int(ledger.views[same_view(ledger), col.VIEW_MORE])) // PER_FEATURE


def add_views(ledger: Ledger, dimensions: int, new: NewAxes) -> tuple[Ledger, Handed]:
    """Return the ledger with the views of more features, and what those of them know that were the same until now.

    The others have seen nothing yet. They get as much weight as if they had been there from the start.
    """
    before, giver = len(ledger.views), same_view(ledger)
    plans = plans_for_features(dimensions, new, int(ledger.site[col.CATEGORIES]), before, same_count(ledger))
    first = dimensions + new.axes - len(new.places)
    heirs = [before + n for n, plan in enumerate(plans) if len(plan.axes) == 1 and plan.axes[0] >= first]
    laid = np.zeros((len(plans), ledger.views.shape[1]))
    lay_plans(laid, plans, len(plans))
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
    """Let heirs begin with what their giver knows, where the value lies that their features had."""
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
