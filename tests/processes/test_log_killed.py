"""Nothing that was acknowledged is lost: whenever a process is killed, its log has it, once, and the state follows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240  # on a slow machine, with nothing compiled yet


@pytest.mark.parametrize(
    "kills", [pytest.param(6, marks=pytest.mark.compiled), pytest.param(30, marks=pytest.mark.claims)]
)
def test_every_acknowledged_event_is_there_once_and_the_state_is_that_of_the_log(kills: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.processes.logger", str(tmp_path), str(kills)]
    done = subprocess.run(  # noqa: S603 - our own
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    found = [*told["found"], told["after"]]
    assert len(found) == kills + 1
    for each in found:
        assert (each["lost"], each["changed"], each["gaps"], each["same"]) == (0, 0, 0, True), each
    positions = [each["position"] for each in found]
    assert positions == sorted(positions)
    assert sum(each["acknowledged"] > 0 for each in found) >= kills // 2  # so many were killed at work
    assert told["after"]["acknowledged"] > 0
    assert kills < 30 or found[-1]["oldest"] > 1  # snapshots were taken, and old events removed
