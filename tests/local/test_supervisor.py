"""Processes that end, that cannot be started, that do not want to stop, and whose supervisor is killed; their log."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import pytest
from rich.console import Console

from cosend.local import supervisor
from cosend.local.plan import Part, Plan
from cosend.local.supervisor import ProcessGroup, ProcessLog, Supervisor


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_DELAY_S", 0.05)
    monkeypatch.setattr(supervisor, "LONGEST_DELAY_S", 0.2)
    monkeypatch.setattr(supervisor, "STOP_S", 1.0)
    monkeypatch.setattr(supervisor, "is_ready", lambda url: True)


Until = Callable[[str, int], None]


def run(scripts: dict[str, str], work: Callable[[Supervisor, Until], None]) -> tuple[bool, str]:
    """Run scripts while something is done; return whether any could be run, and all that was said."""
    out = StringIO()
    log = ProcessLog(Console(file=out, width=200), list(scripts))
    commands = {name: ["/bin/sh", "-c", each] if " " in each else [each] for name, each in scripts.items()}
    plan = Plan([Part(name, command, "") for name, command in commands.items()], None, [])
    with ProcessGroup() as group, ThreadPoolExecutor(1) as executor:
        network = Supervisor(plan, group, log)
        running = executor.submit(network.run)

        def until(said: str, count: int = 1) -> None:
            end = time.monotonic() + 30
            while out.getvalue().count(said) < count and not running.done():
                assert time.monotonic() < end, out.getvalue()
                time.sleep(0.01)

        try:
            work(network, until)
        finally:
            network.stop()  # its thread would run for ever
        return running.result(30), out.getvalue()


def run_until(scripts: dict[str, str], said: str, count: int = 1) -> tuple[bool, str]:
    return run(scripts, lambda _, until: until(said, count))


def test_a_process_that_ends_is_restarted_after_delays_that_grow() -> None:
    has_run, said = run_until({"north": "echo here; exit 3"}, "has ended", 5)
    assert has_run
    assert re.findall(r"\(exit code 3\), and restarts in ([\d.]+) s", said) == ["0.05", "0.1", "0.2", "0.2", "0.2"]
    assert said.count("north  | here") >= 5


def test_a_command_that_cannot_work_is_skipped() -> None:
    has_run, said = run_until({"north": "exit 2", "south": "sleep 60"}, "is skipped")
    assert has_run
    assert "north cannot be started, and is skipped" in said
    assert not run_until({"north": "exit 2", "south": "exit 2"}, "never")[0]
    assert "north has ended (FileNotFoundError" in run_until({"north": "/nowhere/cosend"}, "has ended")[1]


def test_a_process_that_does_not_stop_is_killed() -> None:
    start = time.monotonic()
    scripts = {"north": "trap '' TERM; echo here; sleep 60 & wait; sleep 60", "south": "echo here; exec sleep 60"}
    _, said = run_until(scripts, "| here", 2)
    assert re.findall(r"(\w+) took too long to stop, and was killed", said) == ["north"]
    assert time.monotonic() - start < 50.0


def test_the_others_start_when_the_first_is_ready_or_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "is_ready", lambda url: False)
    said = run_until({"north": "sleep 0.2; echo done; exit 3", "south": "echo here; sleep 60"}, "south  | here")[1]
    assert said.index("| done") < said.index("| here")


def test_a_process_that_a_person_killed_stays_down_until_it_is_started_again() -> None:
    def work(network: Supervisor, until: Until) -> None:
        until("| here", 2)
        network.toggle("north")
        until("north was killed", 1)
        time.sleep(0.3)  # longer than any delay
        network.toggle("north")
        until("north  | here", 2)
        network.toggle("south")  # stopping works with one that is down

    has_run, said = run(dict.fromkeys(("north", "south"), "echo here; sleep 30"), work)
    assert has_run
    assert said.count("north  | here") == 2


# The group ends with its parent

PARENT = """
import sys, time
from cosend.local import supervisor
from cosend.local.supervisor import ProcessGroup

supervisor.GUARD = supervisor.GUARD.replace("sleep 5", "sleep 1")

with ProcessGroup() as group:
    for script in sys.argv[1:]:
        print(group.start(["/bin/sh", "-c", script]).pid, flush=True)
    time.sleep(60)
"""
STUBBORN = "trap '' TERM INT HUP; sleep 60 & wait; sleep 60"


def is_alive(process: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(processes: list[int], within_s: float = 20.0) -> None:
    end = time.monotonic() + within_s
    while any(map(is_alive, processes)):
        assert time.monotonic() < end, "some are still there"
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_group_ends_with_its_parent_and_a_terminal_does_not_reach_it(how: signal.Signals) -> None:
    scripts = ["sleep 60; sleep 60", STUBBORN]
    command = [sys.executable, "-c", PARENT, *scripts]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603
    assert parent.stdout is not None
    children = [int(parent.stdout.readline()) for _ in scripts]
    groups = {os.getpgid(child) for child in children}
    assert len(groups) == 1
    assert os.getpgid(parent.pid) not in groups
    parent.send_signal(how)
    parent.communicate(timeout=20)
    wait_until_gone(children)


# The log


def printed(form: Literal["json", "text"], lines: list[tuple[str, str]], **options: Any) -> list[str]:
    out = StringIO()
    log = ProcessLog(Console(file=out, markup=False, emoji=False, width=20, **options), ["north", "se"], form)
    for name, line in lines:
        log.line(name, line)
    log.say("stopped")
    return out.getvalue().splitlines()


def test_every_line_has_its_name_and_colour_and_stays_one_line() -> None:
    lines = printed("text", [("north", "ready [1] :smile: " * 3), ("se", "a\x1b[2Jb")])
    expected = [f"north  | {'ready [1] :smile: ' * 3}", "se     | a\N{REPLACEMENT CHARACTER}[2Jb", "cosend | stopped"]
    assert lines == expected
    north, south, _ = printed("text", [("north", "x"), ("se", "x")], force_terminal=True, color_system="standard")
    assert north.split("m")[0] != south.split("m")[0]


def test_for_programs_every_line_is_json() -> None:
    lines = printed("json", [("north", '{"event": "ready", "site": "north"}'), ("north", "starting")])
    assert [json.loads(line) for line in lines] == [
        {"event": "ready", "site": "north"},
        {"site": "north", "event": "starting"},
        {"site": "cosend", "event": "stopped"},
    ]


class Unread(Console):
    def print(self, *_: Any, **__: Any) -> None:
        raise SystemExit(1)  # as rich does when a pipe is broken


def test_the_log_knows_when_nobody_reads_it() -> None:
    log = ProcessLog(Unread(), ["north"])
    log.line("north", "x")
    assert log.is_closed
