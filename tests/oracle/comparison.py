"""What the learners of a network have learnt and what its slow twins have, compared number by number."""

from __future__ import annotations

import math

import numpy as np

from cosend.core.kernel import columns as col
from cosend.core.kernel.changes import ERRORS, LAST_USE, LOOK_ERRORS
from cosend.core.learner.inspection import place_of
from cosend.core.learner.learner import Learner
from cosend.core.learner.values import Cell
from tests.oracle.mixed_twin import MixedTwin
from tests.oracle.networks import Network
from tests.oracle.thompson_twin import ThompsonTwin
from tests.oracle.twin import Twin
from tests.oracle.twin_values import TwinArm, TwinCell, net_mean
from tests.oracle.views_twin import ViewsTwin


def compare_ledgers(network: Network) -> None:
    """Compare everything that was learnt, number by number."""
    for site, learner in network.learners.items():
        twin = network.twins[site]
        if isinstance(twin, MixedTwin):
            compare_mixed(learner, twin)
            continue
        views = twin.views()
        overall = len(views)  # the view of the one cell that holds the rewards over all cells
        cells = [view.cells() for view in views]
        costs = {arm: twin.cost(arm) for arm in learner.arms.names}
        seen: list[tuple[int, int, tuple[int, ...]]] = []
        for row, cell in enumerate(learner.cells().values()):
            seen.append((cell.view, cell.slices, cell.axes))
            if cell.view == overall:
                compare_overall(learner, row, views)
            else:
                compare_cell(learner, row, cell, cells[cell.view][cell.slices, cell.axes], costs)
        expected = [(number, *key) for number in range(len(views)) for key in cells[number]]
        has_overall = isinstance(views[0], ThompsonTwin) and len(expected) > 0
        assert sorted(key for key in seen if key[0] < overall) == sorted(expected)
        assert sum(key[0] == overall for key in seen) == has_overall
        compare_views(learner, twin)
        compare_waiting(learner, views)


def compare_mixed(learner: Learner, twin: MixedTwin) -> None:
    """Compare the rows of all views, their weights, and the pattern."""
    ledger = learner.ledger
    assert [view.share for view in learner.views()] == twin.weights
    assert [view.axes for view in learner.views()] == [view.axes for view in twin.mixed]
    assert (ledger.site[col.PATTERN], ledger.site[col.NEWEST]) == (twin.pattern, twin.newest)
    cells = learner.cells()
    assert len(cells) == sum(map(len, twin.rows))
    costs = {arm: twin.cost(arm) for arm in learner.arms.names}
    for row, cell in enumerate(cells.values()):
        expected = twin.rows[cell.view][cell.axes]
        assert ledger.cells[row, col.CELL_LABELS] == expected.labels
        compare_cell(learner, row, cell, expected, costs)
        evidence = [expected.arms[arm].evidence for arm in learner.arms.names]
        assert ledger.rewards[row, : len(evidence), col.EVIDENCE].tolist() == evidence
    compare_waiting(learner, [twin])


def where_is(learner: Learner, key: int) -> tuple[int, int, tuple[int, ...]]:
    """Return the view, the slices and the indices of one cell, without reading all the others for it."""
    ledger = learner.ledger
    (row,) = np.flatnonzero(ledger.cells[: ledger.site[col.ROWS], col.CELL_KEY] == key)
    view, axes, slices = place_of(ledger, int(row))
    return view, slices, axes


def compare_waiting(learner: Learner, views: list[Twin]) -> None:
    """Compare what waits for a label, with the arrival number of each, and how many items have come."""
    waiting = {entry.id: entry.arrival for entry in learner.registry.entries()}
    for view in views:
        assert waiting == view.waiting_arrivals()
        assert learner.arrivals == view.arrivals()


def compare_cell(learner: Learner, row: int, cell: Cell, expected: TwinCell, costs: dict[str, float]) -> None:
    """Compare one cell of a learner with that of the twin of its view."""
    assert cell.labelled == (expected.arrivals, expected.taught)
    assert not learner.ledger.site[col.ZOOMS] or learner.ledger.cells[row, col.CELL_LABELS] == expected.labels
    for number, arm in enumerate(learner.arms.names):
        numbers = expected.arms[arm]
        assert core_numbers(learner, row, number) == twin_numbers(numbers)
        if learner.ledger.site[col.RISING]:
            used = learner.ledger.rewards[row, number, [ERRORS, LOOK_ERRORS, LAST_USE]].tolist()
            assert used == [numbers.errors, numbers.look_errors, numbers.last]
        if numbers.reward_count > 0:
            assert cell.estimates[arm].mean_reward == net_mean(numbers, costs[arm])


def compare_overall(learner: Learner, row: int, views: list[Twin]) -> None:
    """Compare the rewards over all cells, which are the same for every view."""
    for view in views:
        assert isinstance(view, ThompsonTwin)
        overall = view.overall()
        for number, arm in enumerate(learner.arms.names):
            assert core_numbers(learner, row, number)[:2] == twin_numbers(overall[arm])[:2]


def compare_views(learner: Learner, twin: Twin | ViewsTwin) -> None:
    """Compare which view is trusted, and how much."""
    if not isinstance(twin, ViewsTwin):
        return
    assert [view.axes for view in learner.views()] == twin.axes()
    for number, view in enumerate(learner.views()):
        assert (view.trusted, view.decided) == (number == twin.trusted, twin.decided[number])
        assert math.isclose(view.share, twin.share(number), rel_tol=0, abs_tol=1e-9)


def core_numbers(learner: Learner, row: int, number: int) -> list[float]:
    """Return what a learner keeps of one arm in one cell."""
    return [*learner.ledger.rewards[row, number, :2].tolist(), *learner.ledger.counts[row, number].tolist()]


def twin_numbers(arm: TwinArm) -> list[float]:
    """Return the same of a twin, in the same order."""
    return [
        arm.reward_sum,
        arm.reward_count,
        arm.waiting_count,
        arm.training_count,
        arm.my_training_count,
        arm.training_waiting_count,
    ]
