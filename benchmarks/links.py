"""Calls over NATS beside bare request and reply of nats-py, of the same bytes: `python -m benchmarks.links`.

The peer that answers is a process of its own, as it is in a network.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import nats
from tests.links.worlds import Broker

from cosend.algorithm.values import LabelledData
from cosend.engine.needs import Call, Forward, Question, Reply
from cosend.transport.answering import Limits
from cosend.transport.codec import Announcement, Answered, answered_bytes, call_bytes
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions

SETTINGS = ((1, 64, 20_000), (64, 8, 3_000))  # questions of a call, calls in flight, calls
FREE = Limits(in_flight=10**6, per_second=1e9)


class Quick:
    """Answers at once."""

    async def call(self, call: Call) -> Answered:
        return Answered([Reply("well")] * len(call.questions), [LabelledData(1_000, 10)] * len(call.questions))

    async def report(self, caller: str, contexts: Sequence[Any]) -> list[LabelledData]:
        return []

    async def post(self, caller: str, forwards: Sequence[Forward]) -> None:
        pass


def peer(url: str) -> None:
    """Answer calls and bare requests until ended."""

    async def main() -> None:
        link = NatsLink("south", NatsOptions(servers=(url,)), FREE)
        await link.start(within_s=10.0)
        await link.serve(Announcement("south", ("age",), 1), Quick())
        bare = await nats.connect(url)
        for size, _, _ in SETTINGS:
            answer = answered_bytes(await Quick().call(call_of(size)))

            async def respond(message: Any, answer: bytes = answer) -> None:
                await message.respond(answer)

            await bare.subscribe(f"bare.{size}", cb=respond)
        await asyncio.Event().wait()

    asyncio.run(main())


def call_of(size: int) -> Call:
    item = {"age": 61, "pulse": 72.5, "kind": "tcp", "bytes": 1_234}
    return Call("south", "north", [Question(n + 1_000, item, (0.5, 0.25), False, True) for n in range(size)])


async def rate(count: int, in_flight: int, ask: Callable[[], Awaitable[object]]) -> float:
    """Return how many a second, with so many at once."""

    async def some() -> None:
        for _ in range(count // in_flight):
            await ask()

    start = time.perf_counter()
    await asyncio.gather(*[some() for _ in range(in_flight)])
    return count / (time.perf_counter() - start)


async def measure(url: str) -> None:
    link = NatsLink("north", NatsOptions(servers=(url,)))
    await link.start(within_s=10.0)
    bare = await nats.connect(url)
    while "south" not in link.peers():
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    for size, in_flight, count in SETTINGS:
        call = call_of(size)
        data = call_bytes(call)

        async def ask_link(call: Call = call) -> object:
            return await link.call("south", call, 10.0)

        async def ask_bare(size: int = size, data: bytes = data) -> object:
            return await bare.request(f"bare.{size}", data, timeout=10.0)

        rates: dict[str, list[float]] = {"link": [], "bare": []}
        for _ in range(4):  # by turns, so that both meet the same disturbances; the first is there to warm up
            rates["bare"].append(await rate(count, in_flight, ask_bare))
            rates["link"].append(await rate(count, in_flight, ask_link))
        ours, theirs = max(rates["link"][1:]), max(rates["bare"][1:])
        told = f"batch {size}, {in_flight} in flight, {len(data):,} bytes: {ours:,.0f} calls/s"
        sys.stdout.write(f"{told}, bare {theirs:,.0f}, {ours / theirs:.2f} of bare\n")
    await link.close()
    await bare.close()


def main() -> None:
    """Measure."""
    broker = Broker()
    broker.start()
    process = multiprocessing.get_context("spawn").Process(target=peer, args=(broker.url,), daemon=True)
    process.start()
    try:
        asyncio.run(measure(broker.url))
    finally:
        process.kill()
        process.join()
        broker.kill()


if __name__ == "__main__":
    main()
