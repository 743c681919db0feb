"""What the learners of a network have learnt and what its slow twins have, compared number by number."""

from __future__ import annotations

import numpy as np

from cosend.core.kernel import columns as col
from cosend.core.learner.inspection import place_of
from cosend.core.learner.learner import Learner
from cosend.core.learner.values import Cell
from tests.oracle.mixed_twin import MixedTwin
from tests.oracle.networks import Network
from tests.oracle.twin import Twin
from tests.oracle.twin_values import TwinArm, TwinCell, net_mean


def compare_ledgers(network: Network) -> None:
    """Compare everything that was learnt, number by number."""
    for site, learner in network.learners.items():
        twin = network.twins[site]
        if isinstance(twin, MixedTwin):
            compare_mixed(learner, twin)
            continue
        cells = twin.cells()
        costs = {arm: twin.cost(arm) for arm in learner.arms.names}
        seen = learner.cells().values()
        assert sorted((cell.slices, cell.axes) for cell in seen) == sorted(cells)
        for row, cell in enumerate(seen):
            compare_cell(learner, row, cell, cells[cell.slices, cell.axes], costs)
        compare_waiting(learner, twin)


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
    compare_waiting(learner, twin)


def where_is(learner: Learner, key: int) -> tuple[int, int, tuple[int, ...]]:
    """Return the view, the slices and the indices of one cell, without reading all the others for it."""
    ledger = learner.ledger
    (row,) = np.flatnonzero(ledger.cells[: ledger.site[col.ROWS], col.CELL_KEY] == key)
    view, axes, slices = place_of(ledger, int(row))
    return view, slices, axes


def compare_waiting(learner: Learner, twin: Twin) -> None:
    """Compare what waits for a label, with the arrival number of each, and how many items have come."""
    waiting = {entry.id: entry.arrival for entry in learner.registry.entries()}
    assert waiting == twin.waiting_arrivals()
    assert learner.arrivals == twin.arrivals()


def compare_cell(learner: Learner, row: int, cell: Cell, expected: TwinCell, costs: dict[str, float]) -> None:
    """Compare one cell of a learner with that of its twin."""
    assert cell.labelled == (expected.arrivals, expected.taught)
    assert not learner.ledger.site[col.ZOOMS] or learner.ledger.cells[row, col.CELL_LABELS] == expected.labels
    for number, arm in enumerate(learner.arms.names):
        numbers = expected.arms[arm]
        assert core_numbers(learner, row, number) == twin_numbers(numbers)
        if numbers.reward_count > 0:
            assert cell.estimates[arm].mean_reward == net_mean(numbers, costs[arm])


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
