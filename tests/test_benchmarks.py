"""The benchmarks run. Speed is not asserted, because machines are noisy; regret is the same on all of them."""

from __future__ import annotations

import pytest
from benchmarks import peer_training
from benchmarks.__main__ import rows


def test_benchmarks_run_at_small_size() -> None:
    measured = {row.what: row.measured for row in rows(0.001)}
    assert len(measured) == 5
    assert all(measured.values())


def test_the_training_of_peers_is_measured_at_small_size() -> None:
    found = list(peer_training.rows(["apart"], seeds=2, items=2_000))
    assert [(row.policy, row.option) for row in found] == [
        (policy, option) for policy in peer_training.MAKERS for option in peer_training.OPTIONS
    ]
    assert all(row.worst >= row.regret > 0 for row in found)
    assert all(peer_training.line(row).count("|") == 8 for row in found)


@pytest.mark.slow
def test_labels_end_what_peers_that_nobody_teaches_cost() -> None:
    """docs/decisions/0001: most of the regret where peers see other items, and little is lost where they do not."""
    found = {
        (row.problem, row.policy, row.option): row for row in peer_training.rows(["apart", "hot-line"], 8, 200_000)
    }
    for policy in peer_training.MAKERS:
        assert found["apart", policy, "always"].regret < found["apart", policy, "nobody"].regret / 4
        assert found["hot-line", policy, "always"].regret < 1.3 * found["hot-line", policy, "nobody"].regret
