"""One snapshot for all open pages: made a few times a second while a page is open, and never otherwise.

A page is a stream of server-sent events. It gets every part at once and then those that have changed. A browser that
reads slowly gets the newest version of each part when it is ready for more, so that no queue grows for it. A snapshot
that takes long is followed by a longer rest, so that decisions hardly notice it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from cosend.errors import CosendError, in_one_line
from cosend.pages import rendering
from cosend.pages.site_view import Choice, SiteView, Snapshot, Speed, TrafficWindow

LOG: Final = logging.getLogger("cosend.pages")
TICK_S: Final = 0.5
SLOW_TICKS: Final = 4  # figures are drawn in one of this many ticks
REST: Final = 40  # a tick is followed by a rest of at least this many times its length
MOST_LOGGED: Final = 100  # different problems


class Page:
    """One open page: the axes that it shows, and the version up to which it has got everything."""

    def __init__(self, choice: Choice = ()) -> None:
        self.choice, self.seen = choice, 0


class Board:
    """What the pages of a site show."""

    def __init__(self, view: SiteView, clock: Callable[[], float] = time.monotonic) -> None:
        self.view, self._clock = view, clock
        self.pages: set[Page] = set()
        self.ticks = 0
        self.is_closed = False
        self._parts: dict[tuple[str, Choice | None], tuple[int, str]] = {}  # with the version at which it changed
        self._version = 0
        self._drawn: set[Choice] = set()  # since figures were last drawn
        self._messages: dict[tuple[int, Choice], bytes] = {}  # of this version, by what a page has seen
        self._changed = asyncio.Event()
        self._logged: set[str] = set()
        self._window, self._speed = TrafficWindow(), Speed()
        self._snapshot: Snapshot | None = None
        self._task: asyncio.Task[None] | None = None

    # Pages

    async def stream(self, axes: str = "") -> AsyncIterator[bytes]:
        """Yield the events of a page until the board closes; `axes` are those that it shows, as in "0,1"."""
        known = {",".join(map(str, choice)): choice for choice in self.view.choices()}
        page = Page(known.get(axes, ()))
        try:
            self.open(page)
            while not self.is_closed:
                message = self.news_for(page)
                if message:
                    yield message
                else:
                    await self._changed.wait()
        finally:
            self.pages.discard(page)

    def open(self, page: Page) -> None:
        """Keep a page live from now on."""
        self.pages.add(page)
        if len(self.pages) == 1:
            self.tick(with_figures=True)
        else:
            self._show_where(page)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def news_for(self, page: Page) -> bytes:
        """Return the parts that a page has not got yet as an event; empty if it has them all."""
        key = page.seen, page.choice
        if key not in self._messages:
            parts = {
                name: html
                for (name, choice), (version, html) in self._parts.items()
                if version > page.seen and choice in (None, page.choice)
            }
            self._messages[key] = f"data: {json.dumps(parts, separators=(',', ':'))}\n\n".encode() if parts else b""
        page.seen = self._version
        return self._messages[key]

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        self._changed.set()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        rest = TICK_S
        while await asyncio.sleep(rest, self.pages):
            rest = max(TICK_S, REST * self.tick(with_figures=self.ticks % SLOW_TICKS == 0))

    # One moment

    def tick(self, *, with_figures: bool) -> float:
        """Look at the site, tell the pages what has changed, and return how many seconds that took."""
        began = self._clock()
        self.ticks += 1
        try:
            self._look(with_figures=with_figures)
        except Exception as error:  # the next moment may be better
            why = in_one_line(error)
            self._log_once("the dashboard could not look at the site", reason=why, error=error)
            self._put(rendering.render_problem(self.view.name, f"It cannot be shown now: {why}"))
        self._changed.set()
        self._changed = asyncio.Event()
        return self._clock() - began

    def _look(self, *, with_figures: bool) -> None:
        if not self.view.is_started:
            self._put(rendering.render_problem(self.view.name, "It is starting."))
            return
        traffic, unreadable = self.view.traffic()
        for site in unreadable:
            self._log_once("the news of a peer cannot be read and are not shown", peer=site)
        now = self._clock()
        self._window.add(now, traffic)
        before = self._snapshot if self.ticks % 2 else None
        snapshot = self.view.snapshot(traffic, self._window.flows(), self._window.seconds, before)
        self._snapshot = snapshot
        self._put(rendering.render_parts(snapshot, self._speed.per_second(now, snapshot.facts["decisions"])))
        if with_figures:
            self._put(rendering.render_figures(snapshot))
            shown = {None, *(page.choice for page in self.pages)}
            self._parts = {key: part for key, part in self._parts.items() if key[1] in shown}
            self._drawn.clear()
            for page in self.pages:
                self._show_where(page)

    def _show_where(self, page: Page) -> None:
        """Draw which arm wins along the axes of a page, unless it is drawn already; the first ones by default."""
        if not page.choice:
            page.choice, page.seen = next(iter(self.view.choices()), ()), 0
        if self._snapshot is not None and page.choice not in self._drawn:
            self._drawn.add(page.choice)
            self._put(rendering.render_where(self.view, self._snapshot, page.choice), page.choice)

    def _put(self, made: dict[str, str], choice: Choice | None = None) -> None:
        """Replace parts that have changed."""
        changed = {name: html for name, html in made.items() if self._parts.get((name, choice), (0, ""))[1] != html}
        if changed:
            self._version += 1
            self._messages.clear()
            for name, html in changed.items():
                self._parts[name, choice] = self._version, html

    def _log_once(self, what: str, error: Exception | None = None, **facts: str) -> None:
        key = f"{what} {facts}"
        if key not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add(key)
            is_known = error is None or isinstance(error, CosendError | sqlite3.Error | OSError)
            LOG.warning(what, extra=facts, exc_info=None if is_known else error)
