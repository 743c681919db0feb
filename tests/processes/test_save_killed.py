"""A save is one whole: whenever a process that saves is killed, what is loaded is the last save or the one before.

Two sites always have seen the same number of items when they are saved. A load that finds two numbers has found a
mixture of two saves.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.saver import FRESH_EVERY

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parents[2]
KILLS = 300
PATIENCE_S = 240  # on a slow machine, with nothing compiled yet


@pytest.mark.claims
def test_after_300_kills_every_load_was_one_whole_save(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.processes.saver", str(tmp_path), str(KILLS)]
    done = subprocess.run(  # noqa: S603 - our own
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["found"]) == KILLS
    assert told["left_over"] > 20  # so many kills came in the middle of a save
    for start in range(0, KILLS, FRESH_EVERY):
        newest = 0
        for loads in told["found"][start : start + FRESH_EVERY]:
            for seen in loads:
                assert seen is not None or newest == 0, "a save was lost"
                if seen is not None:
                    assert seen[0] == seen[1], "two saves were mixed"
                    assert seen[0] >= newest, "an older save came back"
                    newest = seen[0]
