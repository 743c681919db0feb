"""What mixed views remember, in Python's hands: arms that join or leave, and whether a saved state can be theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger
from cosend.core.kernel.mixed_labels import PATTERN_BITS
from cosend.core.kernel.mixed_rows import PATTERNS, kept_width
from cosend.core.kernel.mixed_scratch import with_scratch
from cosend.core.learner.registry import Registry
from cosend.core.policy.mixed_features import Handed


def for_other_arms(ledger: Ledger, registry: Registry, own: int, change: Callable[[Any, int], Any]) -> Ledger:
    """Return the ledger with room for the forecasts of its arms, after one of them has joined or left.

    Nobody has forecast a new arm for what waits already.
    """
    _reshape_kept(registry, len(ledger.views), own, change)
    return with_scratch(ledger)


def for_more_views(registry: Registry, before: int, views: int, own: int, handed: Handed) -> None:
    """Give what waits the width that it has with so many views."""
    table = registry.table
    registry.table = table._replace(contexts=with_more_views(table.contexts, before, views, own, handed))


def with_more_views(kept: Floats, before: int, views: int, own: int, handed: Handed) -> Floats:
    """Return what was kept of items as if there had been more views: they had no rows, and forecast as the first does.

    kept    [..., number], with room for `before` views at least
    handed  views to which another one hands what it knows had rows where that one had, and forecast the same
    """
    numbers = kept[..., : kept_width(before, own)].reshape(*kept.shape[:-1], 2 + own, before)
    new = np.repeat(numbers[..., :1], views - before, axis=-1)
    new[..., 0, :] = EMPTY
    for view, row in zip(handed.views, handed.rows, strict=True):
        given = numbers[..., handed.giver]
        new[..., view - before] = given
        new[..., 0, view - before] = np.where(given[..., 0] == EMPTY, EMPTY, row)
    return np.concatenate([numbers, new], axis=-1).reshape(*kept.shape[:-1], kept_width(views, own))


def forget_patterns(ledger: Ledger, number: int, own: int, arms: int) -> None:
    """Forget what was learnt of patterns, before an arm leaves that is part of them or moves the numbers of others."""
    rows = int(ledger.site[col.ROWS])
    is_last = number in (own - 1, arms - 1)
    if rows and (not is_last or ledger.rewards[0, number, col.REWARD_COUNT] > 0.0):  # the first row is of all items
        kinds = ledger.views[ledger.cells[:rows, col.CELL_KEY] % len(ledger.views), col.VIEW_KIND]
        ledger.rewards[:rows][kinds == PATTERNS] = 0.0
        ledger.site[col.PATTERN] = 0


def _reshape_kept(registry: Registry, views: int, own: int, change: Callable[[Any, int], Any]) -> None:
    """Give what waits the width that it has with so many local classifiers."""
    table = registry.table
    before = table.contexts.shape[1] // views - 2
    if own == before:  # it was a peer
        return
    rows, forecasts = table.contexts[:, :views], table.contexts[:, views:].reshape(-1, before + 1, views)
    local = change(forecasts[:, :-1], 1)
    if own > before:
        local[:, -1] = np.nan  # it joined behind the other local ones
    kept = np.concatenate([local, forecasts[:, -1:]], axis=1).reshape(len(rows), -1)
    registry.table = table._replace(contexts=np.ascontiguousarray(np.hstack([rows, kept])))


def fits_kept(kept: Floats, ledger: Ledger, rows: int, own: int) -> bool:
    """Tell whether this may have been kept of what waits: rows that are there, and forecasts."""
    views = len(ledger.views)
    places = kept[:, :views]
    return (
        kept.shape[1] == kept_width(views, own)
        and bool(np.isin(places, np.arange(EMPTY, rows)).all())
        and not places[:, 0].any()  # the first row is of all items
        and not np.isinf(kept).any()
        and not np.isnan(kept[:, views * (1 + own) :]).any()
    )


def fits_pattern(pattern: int, arms: int) -> bool:
    """Tell whether this may be a pattern: 0, bits of local classifiers that were right, or the used arm and how."""
    return 0 <= pattern <= max(2**PATTERN_BITS, 4 * arms)


def fits_mixture(views: Floats, ledger: Ledger) -> bool:
    """Tell whether saved views are those that are laid for this context, with weights that sum up to one."""
    laid, weights = ledger.views, views[:, col.VIEW_WEIGHT :]
    return (
        views.shape == laid.shape
        and np.array_equal(views[:, : col.VIEW_WEIGHT], laid[:, : col.VIEW_WEIGHT])
        and bool((weights[laid[:, col.VIEW_MORE] >= 0.0] > 0.0).all())  # it may stand for none any more
        and bool((weights >= 0.0).all())
        and abs(float(weights.sum()) - 1.0) < 1e-6
    )
