"""A snapshot that is taken while a site goes on deciding and learning is its state at one moment, to the last bit."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from cosend import Patience
from cosend.core.learner import registry
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.site import snapshot
from cosend.site.fold import fold
from cosend.site.recovery import read_events
from cosend.site.snapshot import restore_rules
from cosend.stores.state_file import read_state
from tests.node.sites import run, running, setup_of
from tests.site.test_fold import everything

MOST_WAITING = 90


async def go_on(node: Node, seed: int) -> None:
    """Decide, learn and change arms, one after the other, as clients and operators do."""
    draw, waiting = random.Random(seed), list[str]()
    for n in range(30):
        count = draw.choice([1, 2, 30])
        names: list[str | None] = [f"{seed}-{n}-{place}" if place % 2 else None for place in range(count)]
        found: list[Any] = await node.classify([{"age": draw.uniform(0, 100)} for _ in names], names)
        waiting += [each.id for each in found]
        draw.shuffle(waiting)
        some, waiting = waiting[: count // 2], waiting[count // 2 :]
        await node.label([Given(name, draw.choice(["ill", "well"])) for name in some])
        if n % 20 == 7:
            await node.change_arm("old", paused=n % 40 == 7)


def test_a_snapshot_is_the_state_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "AT_ONCE", 3)  # so that much happens while it is taken
    monkeypatch.setattr(registry, "LARGE", 1)
    monkeypatch.setattr(registry, "MOST_NEW", 5)
    monkeypatch.setattr("cosend.node.node.TICK_S", 0.001)
    kept = dict[int, Any]()

    async def work() -> None:
        setup = setup_of(patience=Patience(max_waiting=MOST_WAITING))
        async with running(setup, tmp_path) as node:
            clients = [asyncio.create_task(go_on(node, seed)) for seed in range(2)]
            while not all(client.done() for client in clients):
                await node.snapshot()
                for file in tmp_path.glob("state-*.npz"):
                    kept[int(file.stem.removeprefix("state-"))] = read_state(file)
            await asyncio.gather(*clients)
            assert node.rules.learner.waiting_count > MOST_WAITING // 2
            happened = [event for _, event in read_events(node.store.log)]
            for position, state in kept.items():
                expected, found = fold(happened[:position]), fold(happened[:1])
                restore_rules(found, state)()
                assert everything(found) == everything(expected), position

    run(work())
    assert len(kept) > 3
