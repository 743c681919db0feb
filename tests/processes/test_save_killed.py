"""A save is one whole: whenever a process that saves is killed, what is loaded is the last save or the one before.

Two sites always have seen the same number of items when they are saved. A load that finds two numbers has found a
mixture of two saves.

As `python -m tests.processes.test_save_killed FOLDER KILLS` this is a process that starts others, which save, kills
each of them, and prints what could be loaded as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cosend import CoS, Network, Site
from cosend.axes import Feature
from cosend.errors import StateError

LONGEST_LIFE_S = 0.03
FRESH_EVERY = 10  # kills, so that first saves are killed too


def two_sites() -> Network:
    sites = [
        Site(name, classifiers={f"{name} says 1": lambda _: 1}, context=Feature("x"), policy=CoS(slices=4), seed=1)
        for name in ("a", "b")
    ]
    return Network(sites)


def count(network: Network) -> None:
    """Let both sites see one more item: what they have seen must always agree."""
    for site in network.sites.values():
        site.learn(site.classify({"x": 0.5}).id, 1)


def seen(network: Network) -> list[int]:
    return [site.learner.arrivals for site in network.sites.values()]


def save_for_ever(folder: Path) -> None:
    network = two_sites()
    if (folder / "network.npz").exists():
        network.load(folder)
    while True:
        count(network)
        network.save(folder)


def loaded(folder: Path) -> list[int] | None:
    """Return what both sites had seen in the save of a folder; None if there is no save yet."""
    network = two_sites()
    try:
        network.load(folder)
    except StateError as error:
        if "no such file" in str(error):
            return None
        raise
    return seen(network)


def killed_at_some_time(folder: Path, draw: random.Random, *, watch: bool) -> list[list[int] | None]:
    """Start one that saves, kill it after some time, and return what was loaded meanwhile, if at all, and then."""
    child = os.fork()
    if child == 0:
        try:
            save_for_ever(folder)
        finally:
            os._exit(1)
    found: list[list[int] | None] = []
    end = time.monotonic() + draw.uniform(0.0, LONGEST_LIFE_S)
    while time.monotonic() < end:
        if watch:
            found.append(loaded(folder))
        else:
            time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WTERMSIG(status) != signal.SIGKILL:
        raise RuntimeError(f"the process ended by itself: {status}")
    return [*found, loaded(folder)]


def warm_up(folder: Path) -> None:
    """Compile whatever the others will need."""
    network = two_sites()
    for _ in range(5):
        count(network)
        network.save(folder)
        network.load(folder)


def main(folder: Path, kills: int) -> None:
    draw = random.Random(7)
    warm_up(folder / "warm")
    left_over, found = 0, []
    for n in range(kills):
        place = folder / str(n // FRESH_EVERY)
        found.append(killed_at_some_time(place, draw, watch=n % 2 == 0))
        left_over += (place / "network.npz.part").exists()
    json.dump({"found": found, "left_over": left_over}, sys.stdout)


ROOT = Path(__file__).parents[2]
KILLS = 300
PATIENCE_S = 240  # on a slow machine, with nothing compiled yet


@pytest.mark.claims
def test_after_300_kills_every_load_was_one_whole_save(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.processes.test_save_killed", str(tmp_path), str(KILLS)]
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
