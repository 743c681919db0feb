"""Sites that ask each other over NATS, beside bare request and reply of nats-py: `python -m benchmarks.network`.

Every item that one site gets is sent to the other, which is a process of its own. Both write down what they do before
they answer: in memory (`/dev/shm`, for what it costs to do so) and on the disk (`out/`, where the disk sets the pace of
small batches), or where `--folder` says. Bare requests carry the same bytes, between the same two
processes, and are measured in turns with the sites. So the ratio is what all the rest costs: deciding, the log of both
sites, and with labels shared also the label of every item: one more client gives those that have gathered, they are
learnt here, posted, and learnt there, and the time goes on until the last of them is.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import nats
import uvloop
from tests.links.worlds import Broker

from benchmarks.rows import Row, show, yes
from cosend import Patience, ZoomingKLUCB
from cosend.algorithm.values import LabelledData
from cosend.axes import Feature
from cosend.engine.needs import Call, Question, Reply
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.server.http_server import COLLECT_AFTER, SWITCH_S
from cosend.transport.answering import Limits
from cosend.transport.codec import Answered, answered_bytes, call_bytes
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions

PLACES = {"memory": Path("/dev/shm"), "disk": Path("out")}  # noqa: S108 - whoever has no such folder does without
ROUNDS = 5
ROUND_S = 1.0
FREE = Limits(in_flight=10**6, per_second=1e9)
AXES = [Feature("age", range=(0, 100)), Feature("pulse", range=(0, 200))]
ITEM = {"age": 61, "pulse": 72.5, "kind": "tcp", "bytes": 1_234}


class Load(NamedTuple):
    """What is asked: so many items at once, by so many at once, and the share of bare requests to be reached.

    calls   only what a call takes: its bytes there, what the other site does for it, and its bytes back
    """

    size: int
    in_flight: int
    shared: bool
    goal: float | None
    calls: bool = False

    @property
    def what(self) -> str:
        of = "calls of a site" if self.calls else f"sites, labels {'shared' if self.shared else 'not shared'}"
        return f"{of}, batch {self.size}, {self.in_flight} in flight"


LOADS = (
    Load(1, 64, False, 0.6),
    Load(1, 64, True, 0.5),
    Load(64, 8, False, 0.2),
    Load(64, 8, True, None),
    Load(64, 8, False, 0.2, calls=True),
)


class Quick:
    """A model that costs nothing."""

    learns = False

    def predict(self, items: Sequence[Any]) -> list[Any]:
        return ["well"] * len(items)

    def learn(self, item: Any, label: Any) -> None:
        pass


def node_of(name: str, peer: str, folder: Path, url: str, shared: bool) -> RunningSite:
    """Return a site that knows one other."""
    network = "shared" if shared else "apart"
    setup = Setup(
        name=name,
        classifiers={f"model-{name}": Quick()},
        axes=AXES,
        policy=ZoomingKLUCB(share_labels="always" if shared else "training"),
        patience=Patience(max_pending=50_000),
        peers={peer: (0.0, 1)},
        deadline_s=20.0,
    )
    link = NatsLink(name, NatsOptions(servers=(url,), network=network), FREE)
    return RunningSite(setup, folder / f"{name}-{network}", link=link)


def call_of(size: int) -> Call:
    """Return a call as sites send it."""
    return Call("south", "north", [Question(n + 1_000, ITEM, (0.61, 0.3625), False, False) for n in range(size)])


def as_in_the_service() -> None:
    """Let Python do as in `cosend serve`."""
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECT_AFTER)


def run(work: Any) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def answer(url: str, folder: Path) -> None:
    """Be the other site, and the other side of bare requests, until ended."""

    async def main() -> None:
        for shared in (False, True):
            await node_of("south", "north", folder, url, shared).start()
        bare = await nats.connect(url)
        for size in {load.size for load in LOADS}:
            reply = answered_bytes(Answered([Reply("well")] * size, [LabelledData(1_000, 10)] * 0))

            async def respond(message: Any, reply: bytes = reply) -> None:
                await message.respond(reply)

            await bare.subscribe(f"bare.{size}", cb=respond)
        await asyncio.Event().wait()

    as_in_the_service()
    with suppress(KeyboardInterrupt):
        run(main())


async def nothing() -> None:
    pass


async def rate(
    in_flight: int, seconds: float, ask: Callable[[], Awaitable[object]], end: Callable[[], Awaitable[object]] = nothing
) -> float:
    """Return how many a second, with so many at once; `end` is what is left to do after the last."""
    start, count = time.perf_counter(), 0

    async def some() -> None:
        nonlocal count
        while time.perf_counter() - start < seconds:
            await ask()
            count += 1

    await asyncio.gather(*[some() for _ in range(in_flight)])
    await end()
    return count / (time.perf_counter() - start)


class Asking:
    """The side that asks: sites, and bare requests."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.nodes = {shared: node_of("north", "south", folder, url, shared) for shared in (False, True)}
        self.due: list[Given] = []  # labels that nobody has given yet
        self.giving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.bare = await nats.connect(self.url)
        for node in self.nodes.values():
            await node.start()
            while node.peers.offline:
                await asyncio.sleep(0.05)
            await node.change_arm("model-north", paused=True)

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.stop(patience_s=0.5)
        await self.bare.close()

    def by_site(self, load: Load) -> Callable[[], Awaitable[object]]:
        if load.calls:
            return self.by_calls(load)
        node, items = self.nodes[load.shared], [ITEM] * load.size

        async def ask() -> None:
            results = await node.classify(items)
            if [getattr(each, "arm", "") for each in results].count("south") < len(items):
                raise AssertionError(f"not answered by the peer: {results[0]}")
            if load.shared:
                self.due += [Given(each.id, "well") for each in results if isinstance(each, Decided)]
                if self.giving is None:
                    self.giving = asyncio.create_task(self.give(node))

        return ask

    async def give(self, node: RunningSite) -> None:
        """Give the labels that have gathered, until there are none."""
        while self.due:
            given, self.due = self.due, []
            await node.label(given)
        self.giving = None

    async def all_taught(self) -> None:
        """Wait until the peer has learnt all labels."""
        while self.giving is not None or any(len(node.running.posting) for node in self.nodes.values()):
            await asyncio.sleep(0.001)

    def by_calls(self, load: Load) -> Callable[[], Awaitable[object]]:
        link, call = self.nodes[load.shared].link, call_of(load.size)

        async def ask() -> object:
            return None if link is None else await link.call("south", call, 20.0)

        return ask

    def by_bare_requests(self, load: Load) -> Callable[[], Awaitable[object]]:
        data = call_bytes(call_of(load.size))

        async def ask() -> None:
            await self.bare.request(f"bare.{load.size}", data, timeout=20.0)

        return ask

    async def measured(self, load: Load, rounds: int, seconds: float) -> list[tuple[float, float]]:
        """Return how many a second by bare requests and by the sites, once for each round."""
        bare, site = self.by_bare_requests(load), self.by_site(load)
        for ask in (bare, site):
            await rate(load.in_flight, seconds / 2, ask, self.all_taught)  # to warm up
        return [
            (await rate(load.in_flight, seconds, bare), await rate(load.in_flight, seconds, site, self.all_taught))
            for _ in range(rounds)
        ]


@contextmanager
def other_process(work: Callable[..., None], *arguments: Any) -> Any:
    """Let another process do something for as long as the block takes."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def rows(rounds: int, seconds: float) -> list[Row]:
    """Measure all loads in all places; goals are for the first, as disks differ."""
    PLACES["disk"].mkdir(exist_ok=True)
    places = {where: folder for where, folder in PLACES.items() if folder.is_dir()}
    found: list[Row] = []
    for where, folder in places.items():
        for row in measured(rounds, seconds, folder):
            told = row._replace(what=f"{row.what}, log in {where}" if where == "memory" else f"{row.what}, log on disk")
            found.append(told if len(found) < len(LOADS) else told._replace(goal="", reached=""))
    return found


def measured(rounds: int, seconds: float, place: Path, loads: Sequence[Load] = LOADS) -> list[Row]:
    """Measure loads between sites that keep their logs in a place."""
    place.mkdir(exist_ok=True, parents=True)

    async def all_of_them(url: str, inside: Path) -> list[Row]:
        asking = Asking(url, inside)
        await asking.start()
        try:
            return [row_of(load, await asking.measured(load, rounds, seconds)) for load in loads]
        finally:
            await asking.close()

    as_in_the_service()
    broker = Broker()
    broker.start()
    try:
        with tempfile.TemporaryDirectory(dir=place) as inside, other_process(answer, broker.url, Path(inside)):
            found: list[Row] = run(all_of_them(broker.url, Path(inside)))
    finally:
        broker.kill()
    return found


def row_of(load: Load, seen: list[tuple[float, float]]) -> Row:
    share = median(site / bare for bare, site in seen)
    bare, site = (median(each) * load.size for each in zip(*seen, strict=True))
    measured = f"{site:,.0f} items/s, bare {bare:,.0f}: {share:.2f}"
    goal = "" if load.goal is None else f">= {load.goal}"
    return Row(load.what, measured, goal, "" if load.goal is None else yes(share >= load.goal))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=ROUND_S, help="of each measurement")
    parser.add_argument("--folder", type=Path, help="where the sites keep their logs")
    given = parser.parse_args()
    both = given.rounds, given.seconds
    show(rows(*both) if given.folder is None else measured(*both, given.folder), "sites over NATS")


if __name__ == "__main__":
    main()
