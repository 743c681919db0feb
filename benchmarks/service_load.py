"""Clients of the service's benchmark, in a process of their own that does as little as possible.

    python -m benchmarks.service_load PORT --batch 64 --clients 8 --seconds 3 [--labels] [--pause 0.1] [--features 20]

Every client sends a request when the one before is answered, over one connection. Requests are made beforehand, and of
a reply only its length is read. With --labels every decision is labelled in a second request: then ids are read too.
With --pause a client waits so many seconds before it classifies again.
Prints, as JSON, items per second and the latency in seconds of requests to classify.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
from time import perf_counter
from typing import Any, NamedTuple

WARM_S = 0.3  # before anything is counted
VARIANTS = 64  # requests that are made beforehand
NAMES = ("age", "pressure", "pulse", "weight")  # of features; further ones have numbers
HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
LENGTH = b"content-length: "
IDS = re.compile(rb'"id":"([^"]+)"')


def request(path: str, body: bytes) -> bytes:
    return HEAD.format(path=path, length=len(body)).encode() + body


class Asked(NamedTuple):
    """A request, and the true labels of its items."""

    request: bytes
    labels: list[bytes]


def classify_requests(batch: int, width: int = len(NAMES)) -> list[Asked]:
    """Return requests with items of so many features; the first two tell the label."""
    draw = random.Random(0)  # noqa: S311 - nothing secret
    made = []
    for _ in range(VARIANTS):
        items = [features(draw, width) for _ in range(batch)]
        body = json.dumps({"items": [{"features": item} for item in items]}, separators=(",", ":")).encode()
        labels = [b"well" if item[NAMES[0]] + item[NAMES[1]] < 100 else b"ill" for item in items]
        made.append(Asked(request("/v1/classify", body), labels))
    return made


def features(draw: random.Random, width: int) -> dict[str, float]:
    names = [*NAMES, *(f"feature{n}" for n in range(len(NAMES), width))]
    return {name: round(draw.uniform(0, 100), 3) for name in names}


def label_request(reply: bytes, labels: list[bytes]) -> bytes:
    """Return the request that labels all decisions of a reply."""
    named = zip(IDS.findall(reply), labels, strict=True)
    return request("/v1/labels", b'{"labels":[%b]}' % b",".join(b'{"id":"%b","label":"%b"}' % each for each in named))


class Load:
    """What all clients have in common, and what they have seen."""

    def __init__(self, batch: int, *, labels: bool = False, pause: float = 0.0, width: int = len(NAMES)) -> None:
        self.batch, self.labels, self.pause = batch, labels, pause
        self.requests = classify_requests(batch, width)
        self.counting = self.over = False
        self.latencies: list[float] = []
        self.answers = 0  # also those that are not counted
        self.wrong = b""


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, load: Load, number: int) -> None:
        self.load, self.number = load, number
        self.labelling = False
        self.gathered = b""
        self.needs = 0  # bytes of the whole reply, once that is known

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.classify()

    def classify(self) -> None:
        self.number += 1
        self.sent = perf_counter()
        self.transport.write(self.asked.request)

    @property
    def asked(self) -> Asked:
        return self.load.requests[self.number % VARIANTS]

    def data_received(self, data: bytes) -> None:
        self.gathered += data
        if not self.needs:
            self.needs = whole_length(self.gathered)
        if self.needs and len(self.gathered) >= self.needs:
            reply, self.gathered, self.needs = self.gathered, b"", 0
            self.answered(reply)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.load.over:
            self.load.wrong = f"connection lost: {error}".encode()

    def answered(self, reply: bytes) -> None:
        load = self.load
        if not reply.startswith(b"HTTP/1.1 200"):
            load.wrong = reply
        if not self.labelling:
            load.answers += 1
            if load.counting:
                load.latencies.append(perf_counter() - self.sent)
        if load.over or load.wrong:
            self.transport.close()
        elif load.labels and not self.labelling:
            self.labelling = True
            self.transport.write(label_request(reply, self.asked.labels))
        else:
            self.labelling = False
            self.go_on()

    def go_on(self) -> None:
        if self.load.pause:
            asyncio.get_running_loop().call_later(self.load.pause, self.classify)
        else:
            self.classify()


def whole_length(begun: bytes) -> int:
    """Return how long a reply is, 0 if that is not known yet."""
    head = begun.find(b"\r\n\r\n")
    if head < 0:
        return 0
    start = begun.index(LENGTH) + len(LENGTH)
    return head + 4 + int(begun[start : begun.index(b"\r", start)])


async def run(port: int, clients: int, seconds: float, load: Load) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    for number in range(clients):
        await loop.create_connection(lambda number=number: Client(load, number * 7), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.sleep(WARM_S)
    load.counting, begun = True, perf_counter()
    await asyncio.sleep(seconds)
    load.counting, spent = False, perf_counter() - begun
    load.over = True
    await asyncio.sleep(0.1)
    if load.wrong or not load.latencies:
        sys.exit(f"a client was not answered: {load.wrong[:500]!r}")
    return summary(load, spent)


def summary(load: Load, spent: float) -> dict[str, float]:
    seen = sorted(load.latencies)
    return {
        "items": load.answers * load.batch,
        "items_per_s": len(seen) * load.batch / spent,
        "p50": seen[len(seen) // 2],
        "p99": seen[int(len(seen) * 0.99)],
        "slowest": seen[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--labels", action="store_true")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--features", type=int, default=len(NAMES))
    given = parser.parse_args()
    load = Load(given.batch, labels=given.labels, pause=given.pause, width=given.features)
    work = run(given.port, given.clients, given.seconds, load)
    try:
        import uvloop

        found = uvloop.run(work)
    except ImportError:  # there is none for Windows
        found = asyncio.run(work)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
