"""A demonstration: items and late labels go to every site of a network, and a table shows how the sites are doing.

A key kills a site or restarts it. Another lets the traffic drift: all byte counters break and read 0. The tree at
campus, which others like to ask, sees nothing else; the model at gateway hardly needs them.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from itertools import islice
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from cosend.client import AsyncClient, Decision
from cosend.errors import CosendError
from cosend.local.plan import Part
from cosend.local.supervisor import Supervisor
from cosend.streams.traffic import traffic

FILE: Final = files(__package__).joinpath("demo.toml")
BATCH: Final = 5  # items of one request
EVERY_S: Final = 0.1
LATE_S: Final = 2.0  # between an item and its label
LOOK_S: Final = 1.0
PRINT_S: Final = 5.0  # how often the table is printed where it cannot be redrawn
ROWS: Final = 2_000  # generated at once
BROKEN: Final = {"src_bytes": 0, "dst_bytes": 0}
DRIFT_KEY: Final = "d"


@dataclass
class SiteStatus:
    """How a site is doing."""

    state: str = "starting"
    items: int = 0
    error: float | None = None
    used: dict[str, int] = field(default_factory=dict)  # how often each arm was chosen since the process started
    peers: frozenset[str] = frozenset()

    def cells(self) -> list[str]:
        sent = {peer: count for peer, count in self.used.items() if peer in self.peers and count}
        own = sum(self.used.values()) - sum(sent.values())
        to = ", ".join(f"{peer} {count:,}" for peer, count in sorted(sent.items(), key=lambda each: -each[1]))
        error = "" if self.error is None else f"{100 * self.error:.1f}%"
        return [self.state, f"{self.items:,}", error, f"{own:,}", to]


Late = tuple[float, list[Decision], list[str]]  # when labels arrive, for which decisions, and the labels


class Demo:
    """Traffic for the sites of a plan, for `seconds` or until all stops; calls `ready` at the first reply."""

    _supervisor: Supervisor
    _limit: asyncio.Timeout

    def __init__(
        self, sites: list[Part], console: Console, seconds: float | None, ready: Callable[[], None] = lambda: None
    ) -> None:
        self._sites, self._console, self._seconds, self._ready = sites, console, seconds, ready
        self.drifts, self._has_keys, self._has_begun = False, False, False
        self.status = {site.name: SiteStatus() for site in sites}
        self._late: list[deque[Late]] = [deque() for _ in sites]

    def run(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        asyncio.run(self._run())

    async def _run(self) -> None:
        live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else nullcontext()
        with live as drawn, listening_to_keys(self.pressed) as self._has_keys:
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as self._limit, asyncio.TaskGroup() as tasks:
                    for number, site in enumerate(self._sites):
                        tasks.create_task(_keep_trying(site, partial(self._feed, number)))
                        tasks.create_task(_keep_trying(site, partial(self._look, self.status[site.name])))
                    tasks.create_task(self._show(drawn))
                    while not self._supervisor.is_stopping:
                        await asyncio.sleep(EVERY_S)
                    self._limit.reschedule(0)
            if drawn is None:
                self._console.print(self.table())

    def pressed(self, key: str) -> None:
        """Do what a key stands for: a digit kills that site or restarts it."""
        if key.lower() == DRIFT_KEY:
            self.drifts = not self.drifts
        elif key.isdecimal() and 0 < int(key) <= len(self._sites):
            self._supervisor.toggle(self._sites[int(key) - 1].name)

    async def _feed(self, number: int, client: AsyncClient) -> None:
        """Send items to a site, and the labels of earlier ones, also of those before a crash."""
        late = self._late[number]
        for items, truths in arriving(number):
            decisions = await client.classify_many([{**item, **BROKEN} for item in items] if self.drifts else items)
            late.append((time.monotonic() + LATE_S, decisions, truths))
            while late and late[0][0] < time.monotonic():
                await client.learn_many(late[0][1], late[0][2])
                late.popleft()
            await asyncio.sleep(EVERY_S)

    async def _look(self, status: SiteStatus, client: AsyncClient) -> None:
        while True:
            try:
                summary, arms = await client.summary(), await client.arms()
                self._begin()
                status.state, status.items, status.error = "up", summary.items, summary.recent_error
                status.used = {arm.name: sum(arm.decisions.values()) for arm in arms}
                status.peers = frozenset(arm.name for arm in arms if arm.kind == "peer")
            except CosendError:
                status.state = "down" if status.items else "starting"
            await asyncio.sleep(LOOK_S)

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._ready()
        if self._seconds is not None and self._limit.when() is None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def _show(self, drawn: Live | None) -> None:
        while True:
            await asyncio.sleep(LOOK_S if drawn is not None else PRINT_S)
            if drawn is not None:
                drawn.update(self.table(), refresh=True)
            elif any(each.items for each in self.status.values()):
                self._console.print(self.table())

    @property
    def keys(self) -> str:
        """The meaning of the keys; empty without a keyboard."""
        sites = ", ".join(f"{n} {site.name}" for n, site in enumerate(self._sites, start=1))
        drift = "the byte counters are broken" if self.drifts else "break all byte counters"
        return f"keys: {sites}: kill or start; {DRIFT_KEY}: {drift}; Ctrl-C ends" if self._has_keys else ""

    def table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=self.keys or None, caption_justify="left")
        for heading in ("site", "state", "items", "recent error", "used its own", "sent to"):
            table.add_column(
                heading, justify="right" if heading in ("items", "recent error", "used its own") else "left"
            )
        for name, status in self.status.items():
            table.add_row(name, *status.cells())
        return table


def arriving(seed: int) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
    """Yield batches of generated items and their true labels for ever; every seed has its own."""
    while True:
        rows = traffic(ROWS, seed=seed).rows()
        while some := list(islice(rows, BATCH)):
            yield [item for item, _ in some], [label for _, label in some]
        seed += 1_000


async def _keep_trying(site: Part, work: Callable[[AsyncClient], Awaitable[None]]) -> None:
    """Do something with a site for ever: one that is down may come back."""
    while True:
        async with AsyncClient(site.url, retries=0) as client:
            try:
                await work(client)
            except CosendError:
                await asyncio.sleep(LOOK_S)


@contextmanager
def listening_to_keys(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Call a function with every key that is pressed; gives whether there is a keyboard. Ctrl-C still works."""
    if not _in_foreground():  # a background job that touches the terminal would be stopped
        yield False
        return
    import termios
    import tty

    keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(keyboard)

    def read() -> None:
        data = os.read(keyboard, 100)
        if not data:  # the terminal is gone
            loop.remove_reader(keyboard)
        for key in data.decode(errors="ignore"):
            pressed(key)

    tty.setcbreak(keyboard, termios.TCSANOW)
    loop.add_reader(keyboard, read)
    try:
        yield True
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


def _in_foreground() -> bool:
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # closed, or not a terminal
        return False
