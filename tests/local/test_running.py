"""Processes that end, that cannot be started, and that do not want to stop."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from cosend.local import running
from cosend.local.log import Log
from cosend.local.plan import Part, Plan
from cosend.local.processes import Family
from cosend.local.running import Running, described


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "FIRST_REST_S", 0.05)
    monkeypatch.setattr(running, "LONGEST_REST_S", 0.2)
    monkeypatch.setattr(running, "STOP_S", 2.0)
    monkeypatch.setattr(running, "is_compiled", lambda: True)


def played(scripts: dict[str, str], enough: Callable[[str], bool]) -> tuple[bool, str, Running]:
    """Run scripts until enough was said; returns whether any could be run, and all that was said."""
    out = StringIO()
    log = Log(Console(file=out, width=200), list(scripts), "text")
    plan = Plan([Part(name, ["/bin/sh", "-c", script], "") for name, script in scripts.items()], None, [])

    async def play() -> tuple[bool, Running]:
        with Family() as family:
            network = Running(plan, family, log)
            task = asyncio.create_task(network.run())
            async with asyncio.timeout(30):
                while not task.done() and not enough(out.getvalue()):
                    await asyncio.sleep(0.01)
                network.stop()
                return await task, network

    has_run, network = asyncio.run(play())
    return has_run, out.getvalue(), network


def test_who_ends_is_started_again_after_pauses_that_grow() -> None:
    has_run, said, _ = played({"north": "echo here; exit 3"}, lambda said: said.count("has ended") == 5)
    assert has_run
    assert re.findall(r"\(exit code 3\), and is started again in ([\d.]+) s", said) == [
        "0.05",
        "0.1",
        "0.2",
        "0.2",
        "0.2",
    ]
    assert said.count("north  | here") >= 5


def test_who_cannot_work_as_it_was_given_is_left_out() -> None:
    has_run, said, _ = played({"north": "exit 2", "south": "sleep 60"}, lambda said: "left out" in said)
    assert has_run
    assert "north cannot be started, and is left out" in said
    assert not played({"north": "exit 2", "south": "exit 2"}, lambda _: False)[0]


def test_a_program_that_is_not_there_is_told() -> None:
    out = StringIO()

    async def play() -> None:
        with Family() as family:
            plan = Plan([Part("north", ["/nowhere/cosend"], "")], None, [])
            network = Running(plan, family, Log(Console(file=out, width=200), ["north"], "text"))
            task = asyncio.create_task(network.run())
            async with asyncio.timeout(30):
                while "has ended" not in out.getvalue():
                    await asyncio.sleep(0.01)
            network.stop()
            await task

    asyncio.run(play())
    assert "north has ended (FileNotFoundError" in out.getvalue()


def test_who_does_not_stop_is_killed() -> None:
    start = time.monotonic()
    scripts = {"north": "trap '' TERM; echo here; sleep 60 & wait; sleep 60", "south": "echo here; exec sleep 60"}
    _, _, network = played(scripts, lambda said: said.count("here") == 2)
    assert network.killed == ["north"]
    assert time.monotonic() - start < 50.0


def test_a_line_without_an_end_does_not_stop_the_log() -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo after; sleep 60"
    assert "north  | after" in played({"north": script}, lambda said: "after" in said)[1]


def test_how_a_process_ended_in_words() -> None:
    assert [described(code) for code in (0, 3, -9, -15, -77)] == [
        "exit code 0",
        "exit code 3",
        "SIGKILL",
        "SIGTERM",
        "signal 77",
    ]


def test_rules_are_compiled_first_where_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "is_compiled", lambda: False)
    monkeypatch.setattr(running.sys, "executable", "/bin/echo")  # type: ignore[attr-defined]
    said = played({"north": "echo here; sleep 60"}, lambda said: "here" in said)[1]
    assert said.index("compiling the rules") < said.index("-m cosend.local.compiling") < said.index("north  | here")


def test_who_is_held_stays_down_until_released() -> None:
    out = StringIO()
    log = Log(Console(file=out, width=200), ["north", "south"], "text")
    parts = [Part(name, ["/bin/sh", "-c", "echo here; sleep 30"], "") for name in ("north", "south")]

    async def play() -> None:
        with Family() as family:
            network = Running(Plan(parts, None, []), family, log)
            task = asyncio.create_task(network.run())

            async def until(said: str, count: int) -> None:
                async with asyncio.timeout(30):
                    while out.getvalue().count(said) < count:
                        await asyncio.sleep(0.01)

            await until("| here", 2)
            network.hold("north")
            await until("north was killed", 1)
            assert network.is_held("north")
            await asyncio.sleep(0.3)  # longer than any rest
            assert out.getvalue().count("north  | here") == 1
            network.release("north")
            await until("north  | here", 2)
            assert not network.is_held("north")
            network.release("north")  # nothing is to be done
            network.hold("south")
            network.stop()  # also with one that is held
            async with asyncio.timeout(30):
                assert await task

    asyncio.run(play())
