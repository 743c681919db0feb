"""Two workers beside one, with a model that takes a millisecond for an item: `python -m benchmarks.workers`.

The model sleeps, as one does that works outside of Python. Workers are processes with one thread each; so twice as many
should do twice as much, and what is missing is what it costs to share.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any

from tests.links.worlds import Broker

from benchmarks.network import AXES, FREE, ITEM, as_in_the_service, other_process, rate, run
from benchmarks.rows import Row, show, yes
from cosend.models.adapters import RunsElsewhere
from cosend.runtime.model_threads import Worker
from cosend.runtime.remote_workers import Elsewhere, lend, worker_name
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions

ITEM_S = 0.001
GOAL = 1.7
ROUNDS = 5
ROUND_S = 1.0


class Sleeps:
    """A model that takes its time, outside of Python."""

    learns = False

    def predict(self, items: Sequence[Any]) -> list[Any]:
        time.sleep(ITEM_S * len(items))
        return ["well"] * len(items)

    def learn(self, item: Any, label: Any) -> None:
        pass


def link(url: str, name: str) -> NatsLink:
    return NatsLink(name, NatsOptions(servers=(url,), workers_of="north"), FREE)


def work(url: str, number: str) -> None:
    """Be a worker until ended."""
    name = worker_name("north", "slow", number)
    with suppress(KeyboardInterrupt):
        run(lend({name: Worker("slow", Sleeps(), 10.0, 1)}, {name: link(url, name)}))


async def measured(url: str, folder: Path, workers: int, seconds: float) -> float:
    """Return how many items a second a site decides that has so many workers."""
    setup = Setup(name="north", classifiers={"slow": RunsElsewhere()}, axes=AXES, limits_s={"slow": 10.0})
    node = RunningSite(setup, folder, workers=link(url, "north"))
    await node.start()
    try:
        remote = node.workers["slow"]
        while not isinstance(remote, Elsewhere) or len(remote.there()) < workers:
            await asyncio.sleep(0.05)

        async def ask() -> object:
            return await node.classify([ITEM] * 16)

        await rate(16, seconds / 2, ask)
        return 16 * await rate(16, seconds, ask)
    finally:
        await node.stop(patience_s=0.5)


def rows(rounds: int, seconds: float) -> list[Row]:
    """Measure a site with one worker and with two, in turns."""
    as_in_the_service()
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, rates in found.items():
            with ExitStack() as stack:
                broker = Broker()
                broker.start()
                stack.callback(broker.kill)
                inside = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                for number in range(count):
                    stack.enter_context(other_process(work, broker.url, str(number)))
                rates.append(run(measured(broker.url, inside, count, seconds)))
    more = median(two / one for one, two in zip(*found.values(), strict=True))
    one, two = (median(rates) for rates in found.values())
    told = f"{two:,.0f} items/s, one {one:,.0f}: {more:.2f} times"
    return [Row("two workers, 1 ms an item", told, f">= {GOAL}", yes(more >= GOAL))]


if __name__ == "__main__":
    show(rows(ROUNDS, ROUND_S), "workers")
