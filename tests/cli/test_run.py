"""`cosend run` as a user types it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest


def cosend(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cosend.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own


def test_run_shows_a_row_for_every_site_twice_the_same() -> None:
    first, second = cosend("run", "--items", "300"), cosend("run", "--items", "300")
    assert first.returncode == 0, first.stderr
    for site in ("gateway", "branch", "campus", "cloud"):
        assert re.search(rf"{site}\s+│\s+\d+\.\d\d │", first.stdout)
    table = first.stdout[first.stdout.index("┏") :]
    assert table == second.stdout[second.stdout.index("┏") :]


def test_help_and_version() -> None:
    assert "generated network traffic" in cosend("run", "--help").stdout
    assert "Usage" in cosend("--help").stdout
    assert re.match(r"cosend \d+\.\d+", cosend("--version").stdout)


def test_bad_options_say_what_is_allowed() -> None:
    result = cosend("run", "--items", "0")
    assert result.returncode == 2
    assert "greater than or equal to 1" in result.stderr


@pytest.mark.slow
def test_interrupt_ends_cleanly_with_the_results_so_far() -> None:
    command = [sys.executable, "-m", "cosend.cli", "run", "--items", "1000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    time.sleep(8)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "these are the results so far" in output
    assert "gateway" in output
