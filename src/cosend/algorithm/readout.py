"""What a site knows, read out of its ledger as values: cell by cell, view by view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cosend.algorithm import layout as col
from cosend.algorithm.cells import ROOTS, axes_of, bits_of, radices_of
from cosend.algorithm.layout import BY_MIXTURE, Floats, Ledger
from cosend.algorithm.memory import radices
from cosend.algorithm.mixture import PATTERNS, SUM, SUM_VIEW, forecasts_by_arm
from cosend.algorithm.values import Cell, Estimate, LabelledData, View, ViewForecast


def look_inside(ledger: Ledger, costs: Mapping[str, float], rows: range | None = None) -> dict[int, Cell]:
    """Return what is known about every visited cell, by the cell's key; `costs` are those of the arms, in their order.

    `rows` are the places of some of them, in the order in which they were first visited.
    """
    visited = range(int(ledger.site[col.ROWS]))
    rows = visited if rows is None else visited[rows.start : rows.stop]
    return {int(ledger.cells[row, col.CELL_KEY]): _cell(ledger, row, costs) for row in rows}


def look_at(ledger: Ledger, costs: Mapping[str, float], key: int) -> Cell | None:
    """Return what is known about one cell; None if it is not there, or no longer."""
    found = np.flatnonzero(ledger.cells[: int(ledger.site[col.ROWS]), col.CELL_KEY] == key)
    return _cell(ledger, int(found[-1]), costs) if len(found) else None


def _cell(ledger: Ledger, row: int, costs: Mapping[str, float]) -> Cell:
    view, axes, slices = place_of(ledger, row)
    labelled = LabelledData(*ledger.cells[row, [col.CELL_ARRIVALS, col.CELL_TAUGHT]].tolist())
    estimates = {name: _estimate(ledger, row, arm, cost) for arm, (name, cost) in enumerate(costs.items())}
    return Cell(axes, slices, view, labelled, estimates)


def place_of(ledger: Ledger, row: int) -> tuple[int, tuple[int, ...], int]:
    """Return the view of a cell, its index on every axis of that view, and how many slices the axes have."""
    return _cube(ledger, row) if ledger.site[col.ZOOMS] else _equal_cell(ledger, row)


def _equal_cell(ledger: Ledger, row: int) -> tuple[int, tuple[int, ...], int]:
    key, view = divmod(int(ledger.cells[row, col.CELL_KEY]), len(ledger.views))
    if ledger.views[view, col.VIEW_KIND] == PATTERNS:
        return view, (key,), 1
    return view, axes_of(key, radices(ledger, view)), int(ledger.views[view, col.VIEW_SLICES])


def _cube(ledger: Ledger, row: int) -> tuple[int, tuple[int, ...], int]:
    """Follow a cube up to its root: every level adds a bit to the index on every axis that is a number."""
    level, number = int(ledger.cells[row, col.CELL_LEVEL]), int(ledger.cells[row, col.CELL_KEY])
    level = level if level >= 0 else -1 - level
    axis_count = int(ledger.views[0, col.VIEW_AXIS_COUNT])
    indices = [0] * axis_count
    for depth in range(level):
        bits = (number - 1) & ((1 << axis_count) - 1)
        indices = [index | ((bits >> (axis_count - 1 - axis)) & 1) << depth for axis, index in enumerate(indices)]
        number = int(ledger.cells[(number - 1) >> axis_count, col.CELL_KEY])
    axes, categories = int(ledger.views[0, col.VIEW_AXES]), int(ledger.site[col.CATEGORIES])
    codes = axes_of(number % ROOTS, radices_of(axes & categories, categories, 1))
    both = dict(zip([*bits_of(axes & ~categories), *bits_of(axes & categories)], [*indices, *codes], strict=True))
    return 0, tuple(both[axis] for axis in bits_of(axes)), 1 << level


def _estimate(ledger: Ledger, row: int, arm: int, cost: float) -> Estimate:
    counts = ledger.counts[row, arm].tolist()
    known = ledger.rewards[row, arm]
    mean = known[col.REWARD_SUM] / known[col.REWARD_COUNT] if known[col.REWARD_COUNT] else 0.0
    return Estimate(
        mean_reward=float(mean) - cost,
        reward_count=int(ledger.rewards[row, arm, col.REWARD_COUNT]),
        pending_count=counts[col.PENDING],
        training_count=counts[col.TRAINING],
    )


def compare_views(ledger: Ledger) -> list[View]:
    """Return the views and the weight of each; a policy that mixes none has one, of all axes."""
    if ledger.site[col.RULE] == BY_MIXTURE:
        adds_up = ledger.views[SUM_VIEW, col.VIEW_KIND] == SUM
        parts = _parts_of_sum(ledger) if adds_up else np.zeros(len(ledger.views))
        return [_mixed_view(ledger, number)._replace(added=part) for number, part in enumerate(parts.tolist())]
    return [View(axes=tuple(bits_of(int(ledger.views[0, col.VIEW_AXES]))), is_heaviest=True, share=1.0)]


def _parts_of_sum(ledger: Ledger) -> Floats:
    """Return the part of every view in the sum: the variance of the numbers that its rows add, weighted by labels."""
    rows, count = int(ledger.site[col.ROWS]), len(ledger.views)
    views, labels = ledger.cells[:rows, col.CELL_KEY] % count, ledger.cells[:rows, col.CELL_LABELS]
    known, varied = np.maximum(1, np.bincount(views, labels, count)), np.zeros(count)
    for evidence in ledger.rewards[:rows, :, col.EVIDENCE].T:
        mean = np.bincount(views, labels * evidence, count) / known
        varied += np.bincount(views, labels * (evidence - mean[views]) ** 2, count) / known
    total = float(varied.sum())
    return varied / total if total else varied


def _mixed_view(ledger: Ledger, number: int) -> View:
    view = ledger.views[number]
    heaviest = bool(number == int(ledger.views[:, col.VIEW_WEIGHT].argmax()))
    return View(
        axes=tuple(bits_of(int(view[col.VIEW_AXES]))),
        is_heaviest=heaviest,
        share=float(view[col.VIEW_WEIGHT]),
        slices=int(view[col.VIEW_SLICES]),
        memory=float(view[col.VIEW_MEMORY]),
        is_pattern=bool(view[col.VIEW_KIND] == PATTERNS),
        is_sum=bool(view[col.VIEW_KIND] == SUM),
    )


def explained(ledger: Ledger, arms: Sequence[str]) -> list[ViewForecast]:
    """Return what every mixed view has forecast last, the largest weight first."""
    said = forecasts_by_arm(ledger).T.tolist()
    views = [
        ViewForecast(_mixed_view(ledger, n), dict(zip(arms, said[n], strict=True))) for n in range(len(ledger.views))
    ]
    return sorted(views, key=lambda each: -each.view.share)
