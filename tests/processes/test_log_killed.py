"""Nothing that was acknowledged is lost: whenever a process is killed, its log has it, once, and the state follows.

As `python -m tests.processes.test_log_killed FOLDER KILLS` this is a process that starts others, which run a site and
log it, kills each of them, looks at what is left, and prints what it has seen as JSON. The others are forked from it,
so that what takes long, importing and compiling, is done once. They acknowledge each commit through a pipe: the
position of its first event, and the events.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosend import Patience
from cosend.axes import Axis, Category, Feature
from cosend.engine import events
from cosend.engine.events import decode, encode
from cosend.engine.fold import fold
from cosend.engine.site_state import Heard, SiteState
from cosend.engine.snapshot import state_of
from cosend.store.event_log import EventLog
from cosend.store.recovery import recover, write_snapshot
from tests.node.sites import everything

LONGEST_LIFE_S = 0.15
SLOWEST_START_S = 60
SNAPSHOT_EVERY, PRUNE_EVERY = 7, 21  # cycles
AXES: list[Axis] = [Feature("x", range=(0, 1)), Category("kind")]

Acknowledge = Callable[[int, list[bytes]], object]


def commit(log: EventLog, cycle: list[events.Event], acknowledge: Acknowledge) -> None:
    """Log the events of a cycle, and say so."""
    first, data = log.position, [encode(event) for event in cycle]
    log.append(data)
    acknowledge(first, data)
    cycle.clear()


def opened(log: EventLog, cycle: list[events.Event], acknowledge: Acknowledge) -> SiteState:
    """Return the state of a log, or a new one."""
    if log.position:
        state, _ = recover(log, AXES)
        state.journal = cycle.append
    else:
        patience = Patience(wait_limit=200)
        state = SiteState("lab", local={"a": 0, "b": 0.1}, axes=AXES, patience=patience, journal=cycle.append, seed=5)
        commit(log, cycle, acknowledge)
    return state


def one_cycle(state: SiteState, draw: random.Random) -> None:
    """Decide on a few items, and learn some labels of those that wait."""
    count = draw.randint(1, 5)
    points, _ = state.encode([[draw.random() for _ in range(count)], draw.choices("abc", k=count)])
    heard = Heard({"a": [True] * count}, items=[{"x": n} for n in range(count)])
    step = state.choose(points, heard=heard)
    used = [step.first + n for n, arm in enumerate(step.arms) if arm == "b"]
    state.complete(used, [False] * len(used))
    waiting = [id_ for id_, entry in state.pending().items() if entry.answered]
    late = draw.sample(waiting, len(waiting) // 2)
    state.settle(late, [True] * len(late), [float(draw.random() < 0.7) for _ in late])


def run(folder: Path, acknowledge: Acknowledge, cycles: int) -> None:
    """Run a site for some cycles; after some of them, take a snapshot and remove what it covers."""
    cycle: list[events.Event] = []
    with EventLog(folder, site="lab") as log:
        state = opened(log, cycle, acknowledge)
        draw = random.Random(log.position)
        for n in range(1, cycles + 1):
            one_cycle(state, draw)
            commit(log, cycle, acknowledge)
            if n % SNAPSHOT_EVERY == 0:
                write_snapshot(log, state_of(state), log.position)
            if n % PRUNE_EVERY == 0:
                log.remove(log.position)


def forked(folder: Path) -> tuple[int, int]:
    """Start a process that runs the site for ever; returns its id, and where to read what it acknowledges."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)

        def acknowledge(first: int, data: list[bytes]) -> None:
            os.write(writing, json.dumps([first, [event.hex() for event in data]]).encode() + b"\n")

        run(folder, acknowledge, 10**9)
    finally:
        os._exit(1)


def killed(folder: Path, life_s: float, *, at_work: bool) -> dict[int, bytes]:
    """Kill a process that runs the site after some time, which begins with its first commit if it is to be at work.

    Returns the events that it acknowledged.
    """
    child, pipe = forked(folder)
    os.set_blocking(pipe, False)
    end, told = time.monotonic() + life_s, b""
    while time.monotonic() < end or (at_work and not told and time.monotonic() < end + SLOWEST_START_S):
        if at_work and not told and (told := drained(pipe)):
            end = time.monotonic() + life_s
        told += drained(pipe)
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
        raise RuntimeError(f"the process ended by itself: {status}")
    told += drained(pipe)
    os.close(pipe)
    lines = [json.loads(line) for line in told.split(b"\n")[:-1]]  # a kill may have cut the last one
    return {first + n: bytes.fromhex(event) for first, data in lines for n, event in enumerate(data)}


def drained(pipe: int) -> bytes:
    """Return all that is in a pipe."""
    told = b""
    try:
        while more := os.read(pipe, 2**16):
            told += more
    except BlockingIOError:
        pass
    return told


def look(folder: Path, known: dict[int, bytes], acknowledged: dict[int, bytes]) -> dict[str, Any]:
    """Return what is in the log of a process that was killed; `known` is what was in it before, and is completed."""
    with EventLog(folder, site="lab") as log:
        there = dict(log.read(log.oldest))
        position, oldest = log.position, log.oldest
        changed = sum(there[number] != event for number, event in known.items() if number in there)
        known |= acknowledged | there
        lost = [n for n, event in acknowledged.items() if n >= position or known[n] != event]
        same = position == 0 or everything(recover(log)[0]) == everything(
            fold(decode(known[n]) for n in range(position))
        )
    return {
        "acknowledged": len(acknowledged),
        "lost": len(lost),
        "changed": changed,
        "gaps": len(set(range(position)) - known.keys()),
        "position": position,
        "oldest": oldest,
        "same": same,
    }


def main(folder: Path, kills: int) -> None:
    draw, known = random.Random(7), dict[int, bytes]()
    run(folder / "warm", lambda first, data: None, 2 * SNAPSHOT_EVERY)  # compiles whatever the others will need
    found = []
    for n in range(kills):
        acknowledged = killed(folder / "lab", draw.uniform(0.0, LONGEST_LIFE_S), at_work=n % 2 == 1)
        found.append(look(folder / "lab", known, acknowledged))
    went_on: dict[int, bytes] = {}
    run(folder / "lab", lambda first, data: went_on.update(enumerate(data, first)), PRUNE_EVERY)
    json.dump({"found": found, "after": look(folder / "lab", known, went_on)}, sys.stdout)


ROOT = Path(__file__).parents[2]
PATIENCE_S = 240  # on a slow machine, with nothing compiled yet


@pytest.mark.parametrize("kills", [6, pytest.param(30, marks=pytest.mark.claims)])
def test_every_acknowledged_event_is_there_once_and_the_state_is_that_of_the_log(kills: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.processes.test_log_killed", str(tmp_path), str(kills)]
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
