"""A demonstration: items and late labels go to every site of a network, and a table tells how the sites fare.

A key kills a site or starts it again. Another lets the traffic drift: all byte counters break and read 0. The tree at
campus, to which others like to send, sees nothing else; the model at gateway hardly needs them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from itertools import islice
from typing import Any, Final, TypeVar

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from cosend.client import AsyncClient, Decision
from cosend.errors import CosendError
from cosend.local.keys import listening
from cosend.local.plan import Part
from cosend.local.running import Running
from cosend.streams.traffic import traffic

FILE: Final = files(__package__).joinpath("demo.toml")
TOGETHER: Final = 5  # items of one request
EVERY_S: Final = 0.1
LATE_S: Final = 2.0  # how long after an item its label comes
LOOK_S: Final = 1.0
TELL_S: Final = 5.0  # how often the table is printed where it cannot be drawn again
ROWS: Final = 2_000  # of traffic that are generated at once
BROKEN: Final = {"src_bytes": 0, "dst_bytes": 0}  # what counters say that are broken
DRIFT_KEY: Final = "d"
T = TypeVar("T")


@dataclass
class Fares:
    """How a site fares."""

    state: str = "starting"
    items: int = 0
    error: float | None = None
    used: dict[str, int] = field(default_factory=dict)  # how often each arm was chosen since the process started
    peers: frozenset[str] = frozenset()

    def cells(self) -> list[str]:
        """Return what stands in the row of the site."""
        sent = {peer: count for peer, count in self.used.items() if peer in self.peers and count}
        own = sum(self.used.values()) - sum(sent.values())
        told = ", ".join(f"{peer} {count:,}" for peer, count in sorted(sent.items(), key=lambda each: -each[1]))
        error = "" if self.error is None else f"{100 * self.error:.1f} %"
        return [self.state, f"{self.items:,}", error, f"{own:,}", told]


Late = tuple[float, list[Decision], list[str]]  # when labels come, of which decisions, and the labels


class Demo:
    """Traffic for the sites of a plan, until it is cancelled or so many seconds are over."""

    _limit: asyncio.Timeout
    running: Running

    def __init__(
        self, sites: list[Part], console: Console, seconds: float | None, ready: Callable[[], None] = lambda: None
    ) -> None:
        self._sites, self._console, self._seconds, self._ready = sites, console, seconds, ready
        self.drifts, self._has_keys, self._has_begun = False, False, False
        self.fares = {site.name: Fares() for site in sites}
        self._waiting: list[deque[Late]] = [deque() for _ in sites]

    async def run(self, running: Running) -> None:
        """Send items and labels, look at the sites and show how they do."""
        self.running = running
        live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else nullcontext()
        with live as drawn, listening(self.pressed) as self._has_keys:
            try:
                async with asyncio.timeout(None) as self._limit, asyncio.TaskGroup() as tasks:
                    for number, site in enumerate(self._sites):
                        tasks.create_task(_again(site, partial(self._feed, number)))
                        tasks.create_task(_again(site, partial(self._look, self.fares[site.name])))
                    tasks.create_task(self._show(drawn))
            except TimeoutError:
                pass
            if drawn is None:
                self._console.print(self.table())

    def pressed(self, key: str) -> None:
        """Do what a key stands for: a number kills the site at this place or starts it again."""
        if key.lower() == DRIFT_KEY:
            self.drifts = not self.drifts
        elif key.isdecimal() and 0 < int(key) <= len(self._sites):
            site = self._sites[int(key) - 1].name
            (self.running.release if self.running.is_held(site) else self.running.hold)(site)

    async def _feed(self, number: int, client: AsyncClient) -> None:
        """Send what arrives at a site, and the labels of what came before; also those that came before a crash."""
        waiting = self._waiting[number]
        for items, truths in arriving(number):
            decisions = await client.classify_many([{**item, **BROKEN} for item in items] if self.drifts else items)
            waiting.append((time.monotonic() + LATE_S, decisions, truths))
            while waiting and waiting[0][0] < time.monotonic():
                await client.learn_many(waiting[0][1], waiting[0][2])
                waiting.popleft()
            await asyncio.sleep(EVERY_S)

    async def _look(self, fares: Fares, client: AsyncClient) -> None:
        while True:
            try:
                summary, arms = await client.summary(), await client.arms()
                self._begin()
                fares.state, fares.items, fares.error = "up", summary.items, summary.recent_error
                fares.used = {arm.name: sum(arm.decisions.values()) for arm in arms}
                fares.peers = frozenset(arm.name for arm in arms if arm.kind == "peer")
            except CosendError:
                fares.state = "down" if fares.items else "starting"
            await asyncio.sleep(LOOK_S)

    def _begin(self) -> None:
        """Tell that the first site is there, and count the seconds from then on."""
        if not self._has_begun:
            self._has_begun = True
            self._ready()
        if self._seconds is not None and self._limit.when() is None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def _show(self, drawn: Live | None) -> None:
        while True:
            await asyncio.sleep(LOOK_S if drawn is not None else TELL_S)
            if drawn is not None:
                drawn.update(self.table(), refresh=True)
            elif any(fares.items for fares in self.fares.values()):
                self._console.print(self.table())

    @property
    def keys(self) -> str:
        """What the keys do, in words; nothing where there is no keyboard."""
        sites = ", ".join(f"{n} {site.name}" for n, site in enumerate(self._sites, start=1))
        drift = "the byte counters are broken" if self.drifts else "break all byte counters"
        return f"keys: {sites}: kill or start; {DRIFT_KEY}: {drift}; Ctrl-C ends" if self._has_keys else ""

    def table(self) -> Table:
        """Return how all sites fare."""
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=self.keys or None, caption_justify="left")
        for heading in ("site", "state", "items", "recent error", "used its own", "sent to"):
            table.add_column(
                heading, justify="right" if heading in ("items", "recent error", "used its own") else "left"
            )
        for name, fares in self.fares.items():
            table.add_row(name, *fares.cells())
        return table


def arriving(seed: int) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
    """Yield traffic without an end, some items and their true labels at a time; every seed has its own."""
    while True:
        for rows in batched(traffic(ROWS, seed=seed).rows(), TOGETHER):
            yield [item for item, _ in rows], [label for _, label in rows]
        seed += 1_000


def batched(rows: Iterator[T], count: int) -> Iterator[list[T]]:
    """Yield rows, so many at a time; itertools has it from Python 3.12 on."""
    while some := list(islice(rows, count)):
        yield some


async def _again(site: Part, work: Callable[[AsyncClient], Awaitable[None]]) -> None:
    """Do something with a site for ever: one that is not there now may come back."""
    while True:
        async with AsyncClient(site.url, retries=0) as client:
            try:
                await work(client)
            except CosendError:
                await asyncio.sleep(LOOK_S)
