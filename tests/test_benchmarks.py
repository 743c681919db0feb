"""The benchmarks run. Speed is not asserted, because machines are noisy; regret is the same on all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks import core, dashboard, endpoints, network, workers
from benchmarks.rows import Row, save

from tests.links.worlds import server_binary

pytestmark = pytest.mark.compiled


def test_rows_are_written_for_the_tables(tmp_path: Path) -> None:
    save([Row("a site", "3 us", "<= 4", "yes")], tmp_path / "bench")
    (row,) = json.loads((tmp_path / "bench" / "results.json").read_text())["rows"]
    assert row == {"what": "a site", "measured": "3 us", "goal": "<= 4", "reached": "yes"}


def test_benchmarks_run_at_small_size() -> None:
    measured = {row.what: row.measured for row in core.rows(0.001)}
    assert len(measured) == 8 + 2 + 6
    assert all(measured.values())


@pytest.mark.skipif(server_binary() is None, reason="there is no nats-server")
@pytest.mark.claims
def test_the_benchmarks_of_networks_run_at_small_size(tmp_path: Path) -> None:
    found = network.measured(1, 0.05, tmp_path) + workers.rows(1, 0.1)
    assert len(found) == len(network.LOADS) + 1
    assert all(row.measured for row in found)


@pytest.mark.claims
def test_the_benchmark_of_endpoints_runs_at_small_size() -> None:
    found = endpoints.ratios(1, 0.1)
    assert found.keys() == endpoints.GOALS.keys()
    assert all(min(rates) > 0 for each in found.values() for rates in each)


@pytest.mark.claims
def test_the_benchmark_of_open_pages_runs_at_small_size() -> None:
    found = dashboard.ratios(1, 0.3, count=2)
    assert all(min(ratio) > 0 for each in found.values() for ratio in each)
