"""The benchmarks run. Speed is not asserted, because machines are noisy; regret is the same on all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import dashboard, mixed, network, peer_training, workers
from benchmarks.__main__ import rows

from tests.links.worlds import server_binary

pytestmark = pytest.mark.compiled


def test_benchmarks_run_at_small_size() -> None:
    measured = {row.what: row.measured for row in rows(0.001)}
    measured |= {row.what: row.measured for row in mixed.rows(0.001)}
    assert len(measured) == 9 + 6
    assert all(measured.values())


@pytest.mark.skipif(server_binary() is None, reason="there is no nats-server")
@pytest.mark.claims
def test_the_benchmarks_of_networks_run_at_small_size(tmp_path: Path) -> None:
    found = network.measured(1, 0.05, tmp_path) + workers.rows(1, 0.1)
    assert len(found) == len(network.LOADS) + 1
    assert all(row.measured for row in found)


@pytest.mark.claims
def test_the_benchmark_of_open_pages_runs_at_small_size() -> None:
    found = dashboard.ratios(1, 0.3, count=2)
    assert all(min(ratio) > 0 for each in found.values() for ratio in each)


def test_the_training_of_peers_is_measured_at_small_size() -> None:
    found = list(peer_training.rows(["apart"], seeds=2, items=2_000))
    assert [(row.policy, row.option) for row in found] == [
        (policy, option) for policy in peer_training.MAKERS for option in peer_training.OPTIONS
    ]
    assert all(row.worst >= row.regret > 0 for row in found)
    assert all(peer_training.line(row).count("|") == 8 for row in found)


@pytest.mark.claims
@pytest.mark.parametrize(("problem", "most"), [("apart", 1 / 4), ("hot-line", 1.3)])
def test_labels_end_what_peers_that_nobody_teaches_cost(problem: str, most: float) -> None:
    """docs/decisions/0001: most of the regret where peers see other items, and little is lost where they do not."""
    found = {(row.policy, row.option): row.regret for row in peer_training.rows([problem], 8, 200_000)}
    for policy in peer_training.MAKERS:
        assert found[policy, "always"] < most * found[policy, "nobody"]
