"""What open pages cost: a site under load with ten pages and with none, in turns: `python -m benchmarks.dashboard`.

The pages are real: each reads the events that a browser reads, and only draws nothing.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

from benchmarks.rows import Row, show, yes
from benchmarks.service import Place
from benchmarks.service_processes import Load, Server, put_under, server, start_load

PAGES = 10
LOADS = (Load(1, 32, labels=True), Load(64, 8, labels=True))
ROUNDS, ROUND_S = 12, 2.0
SETTLE_S = 0.3  # after pages were opened or closed
LONGEST_S = 600.0
STALL_S = 30.0  # after which a site that decides nothing is a failure
LEAST = 0.95


@contextmanager
def open_pages(running: Server, count: int) -> Iterator[None]:
    """Open pages of a site until the block ends; each reads what comes, in a thread of its own."""
    with ExitStack() as stack:
        pages = [stack.enter_context(_Page(running.port)) for _ in range(count)]
        for page in pages:
            if not page.has_shown.wait(60.0):
                raise SystemExit("a page was closed before it showed anything")
        yield
        if not all(page.thread.is_alive() for page in pages):
            raise SystemExit("a page was closed")


class _Page:
    """One page that is open."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60.0)
        self.has_shown = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> _Page:
        self.socket.sendall(b"GET /dashboard/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(20.0)
        self.socket.close()

    def _read(self) -> None:
        with suppress(OSError):
            for line in self.socket.makefile("rb"):
                if line.startswith(b"data: "):
                    self.has_shown.set()


class Ratio(NamedTuple):
    """A site with open pages beside itself without any."""

    items_per_s: float
    busy_s: float  # of the processor, for an item


def ratios(rounds: int, seconds: float, count: int = PAGES) -> dict[Load, list[Ratio]]:
    """Return for every load how a site with open pages compares with itself without any, once for each round."""
    with Place() as place, server("pages", place / "site") as running:
        put_under(LOADS[1], running, 0.5)  # compiled code is loaded now
        with open_pages(running, 1):
            pass  # and the templates
        return {load: _under(load, running, rounds, seconds, count) for load in LOADS}


def _under(load: Load, running: Server, rounds: int, seconds: float, count: int) -> list[Ratio]:
    """Open and close pages while the load goes on: what is compared lies seconds apart."""
    with start_load(load, running, LONGEST_S) as process:
        try:
            return [_pair(running, seconds, count, pages_first=bool(number % 2)) for number in range(rounds)]
        finally:
            process.kill()


def _pair(running: Server, seconds: float, count: int, *, pages_first: bool) -> Ratio:
    """Measure a site with pages and without, in this order or the other: its log grows meanwhile."""
    seen = {}
    for has_pages in (pages_first, not pages_first):
        with open_pages(running, count) if has_pages else nullcontext():
            time.sleep(SETTLE_S)
            seen[has_pages] = _speed(running, seconds)
    return Ratio(*(with_pages / without for with_pages, without in zip(seen[True], seen[False], strict=True)))


def _speed(running: Server, seconds: float) -> Ratio:
    """Return how many items a site decides in a second now, and how long the processor takes for one."""
    items, busy, began = _decided(running), running.busy_s(), time.perf_counter()
    time.sleep(seconds)
    while _decided(running) == items and time.perf_counter() - began < STALL_S:  # a machine with a lot to do
        time.sleep(seconds)
    items, busy = _decided(running) - items, running.busy_s() - busy
    return Ratio(items / (time.perf_counter() - began), busy / items)


def _decided(running: Server) -> int:
    with urlopen(f"http://127.0.0.1:{running.port}/v1/summary", timeout=60) as reply:
        return int(json.load(reply)["decisions"])


def rows(rounds: int, seconds: float) -> list[Row]:
    """Measure what open pages cost."""
    found = []
    for load, each in ratios(rounds, seconds).items():
        speed, busy = (median(values) for values in zip(*each, strict=True))
        shown = f"{speed:.2f} x items/s, {busy:.2f} x processor"
        found.append(Row(f"{PAGES} pages / none, {load}", shown, f">= {LEAST}", yes(speed >= LEAST)))
    return found


if __name__ == "__main__":
    show(rows(ROUNDS, ROUND_S), "the dashboard")
