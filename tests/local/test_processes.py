"""Processes that end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PARENT = """
import asyncio, sys
from cosend.local.processes import Family

async def main():
    with Family() as family:
        for script in sys.argv[1:]:
            child = await family.start(["/bin/sh", "-c", script])
            print(child.process.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""
STUBBORN = "trap '' TERM INT HUP; sleep 60 & wait; sleep 60"


def is_alive(process: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(processes: list[int], within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while any(map(is_alive, processes)):
        assert time.monotonic() < end, "some are still there"
        time.sleep(0.02)


def family_of(*scripts: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Return a process that has started others, and the ids of these."""
    parent = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-c", PARENT, *scripts], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, [int(parent.stdout.readline()) for _ in scripts]


def test_they_are_gone_when_their_parent_was_killed() -> None:
    parent, children = family_of("sleep 60", "sleep 60; sleep 60")
    assert all(map(is_alive, children))
    parent.kill()
    parent.communicate()
    wait_until_gone(children)


def test_they_are_a_group_that_a_terminal_does_not_reach() -> None:
    parent, children = family_of("sleep 60", STUBBORN)
    groups = {os.getpgid(child) for child in children}
    assert len(groups) == 1
    assert os.getpgid(parent.pid) not in groups
    parent.send_signal(signal.SIGINT)  # it leaves the block: also the one that hears nothing is ended, and its own
    parent.communicate(timeout=10)
    wait_until_gone(children)
