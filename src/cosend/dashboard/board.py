"""One summary for all open pages: it is found out a few times a second while there is a page, and never otherwise.

A moment in which that takes long is followed by a longer rest, so that decisions hardly notice it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from html import escape
from itertools import combinations
from typing import Final, Protocol

from cosend.dashboard import figures, parts
from cosend.dashboard.flows import Window
from cosend.dashboard.summary import Summary, look, network_of
from cosend.dashboard.where import squares
from cosend.errors import CosendError, in_one_line
from cosend.node.node import Node
from cosend.reports.text import short_text
from cosend.site.features import Feature
from cosend.site.scales import AnyAxis, name_of, ticks_of, value_at

LOG: Final = logging.getLogger("cosend.dashboard")
TICK_S: Final = 0.5
SLOW_TICKS: Final = 4  # figures are drawn once in so many
REST: Final = 40  # a tick is followed by a rest of so many times its length at least
MOST_SAID: Final = 100  # different things that go wrong
MOST_PAIRED: Final = 6  # axes: the pairs of more would be a long list
Choice = tuple[int, ...]  # one or two axes, none where there are none yet


class Page(Protocol):
    """What is shown to somebody."""

    choice: Choice

    def show(self, code: str) -> None:
        """Run some JavaScript."""
        ...


class Board:
    """What the pages of a site show."""

    def __init__(self, node: Node, clock: Callable[[], float] = time.monotonic) -> None:
        self.node, self._clock = node, clock
        self.pages: set[Page] = set()
        self.parts: dict[str, str] = {}
        self.ticks = 0
        self._said: set[str] = set()  # in the log: once is enough
        self._where: dict[Choice, dict[str, str]] = {}  # the figure, and the menu of the axes
        self._window, self._items = Window(), Speed()
        self._summary: Summary | None = None
        self._task: asyncio.Task[None] | None = None

    # Pages that come and go

    def open(self, page: Page) -> None:
        """Show everything on a page, and from now on whatever changes."""
        if not self.pages:
            self.tick()
        self.pages.add(page)
        page.show(_code({**self.parts, **self._where_parts(page.choice)}))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self, page: Page) -> None:
        """Forget a page."""
        self.pages.discard(page)

    def choose(self, page: Page, choice: Choice) -> None:
        """Let a page show other axes of the context."""
        page.choice = choice
        page.show(_code(self._where_parts(choice)))

    async def _run(self) -> None:
        while self.pages:
            await asyncio.sleep(max(TICK_S, REST * self.tick()))

    # One moment

    def tick(self) -> float:
        """Find out what has changed, show it on all pages, and return how many seconds that took."""
        began = self._clock()
        is_slow = self.ticks % SLOW_TICKS == 0 or not self.pages
        self.ticks += 1
        try:
            self._show(self._made(with_figures=is_slow))
            if is_slow:
                self._draw_where()
        except Exception as error:  # whatever is wrong now, the next moment may be better
            self._say_once("the dashboard could not look at the site", reason=in_one_line(error), error=error)
            name = escape(self.node.setup.name)
            self._show({"head": f"<h1>{name}</h1> <p>It cannot be shown now: {escape(in_one_line(error))}</p>"})
        return self._clock() - began

    def _show(self, made: dict[str, str]) -> None:
        """Show on all pages what has changed."""
        changed = {name: html for name, html in made.items() if self.parts.get(name) != html}
        self.parts.update(changed)
        if changed:
            code = _code(changed)
            for page in self.pages:
                page.show(code)

    def _say_once(self, what: str, error: Exception | None = None, **facts: str) -> None:
        key = f"{what} {facts}"
        if key not in self._said and len(self._said) < MOST_SAID:
            self._said.add(key)
            is_known = error is None or isinstance(error, CosendError | sqlite3.Error | OSError)
            LOG.warning(what, extra=facts, exc_info=None if is_known else error)

    def _made(self, *, with_figures: bool) -> dict[str, str]:
        node = self.node
        if not hasattr(node, "rules"):
            return {"head": f"<h1>{escape(node.setup.name)}</h1> <p>It is starting.</p>"}
        told, unread = network_of(node)
        for site in unread:
            self._say_once("the news of a peer cannot be read, and are not shown", peer=site)
        self._window.add(self._clock(), told)
        before = self._summary if self.ticks % 2 else None
        summary = look(node, self._window.newest, self._window.flows(), self._window.seconds, before)
        self._summary = summary
        made = parts.parts(summary, self._items.per_second(self._clock(), summary.facts["decisions"]))
        return made | (parts.drawn(summary) if with_figures else {})

    # Which arm wins where

    def _where_parts(self, choice: Choice) -> dict[str, str]:
        if choice not in self._where and self._summary is not None:
            names = tuple(arm["name"] for arm in self._summary.arms)
            if names == tuple(self.node.rules.learner.arms.names):  # else one has come or gone since
                self._where[choice] = {"where": self._drawn(choice), "axes": axes_menu(self.node, choice)}
        return self._where.get(choice, {})

    def _draw_where(self) -> None:
        """Draw what pages have chosen, once for each choice; where the first axes have come, those."""
        before, self._where = self._where, {}
        for page in self.pages:
            shown, page.choice = before.get(page.choice, {}), page.choice or first_choice(self.node)
            parts = self._where_parts(page.choice)
            changed = {name: html for name, html in parts.items() if shown.get(name) != html}
            if changed:
                page.show(_code(changed))

    def _drawn(self, choice: Choice) -> str:
        assert self._summary is not None  # noqa: S101 - for the type checker
        if not choice:
            return '<p class="soft">No feature of the items is an axis yet.</p>'
        arms = figures.arms_of(self._summary)
        ledger = self.node.rules.learner.ledger
        found = squares(ledger, choice, len(arms))
        if not any(map(sum, (square.labels for square in found))):
            return '<p class="soft">No label has come yet.</p>'
        return figures.where(found, [self._scale(axis) for axis in choice], arms).inline()

    def _scale(self, number: int) -> figures.Scale:
        axis, past = axes_of(self.node)[number], self.node.rules.past
        if not isinstance(axis, Feature) and axis.is_category:
            known = past.codes[number].values if number in past.codes else []
            return figures.Scale(name_of(axis), [], [short_text(value) for value in known])
        recent = past.recent[number].values if number in past.recent else [0.0]
        return figures.Scale(name_of(axis), ticks_of(axis, lambda: list(recent)), value_at=partial(value_at, axis))


def axes_of(node: Node) -> list[AnyAxis]:
    """Return the axes of the context that items have now: those that were given, and features that have got one."""
    if not hasattr(node, "rules"):  # it is starting
        return []
    features = node.rules.past.features
    return [*node.rules.given, *(features.laid if features is not None else ())]


def choices(node: Node) -> list[Choice]:
    """Return the axes, and the pairs of them if these are few, that can be looked at; a pair first, if there is one."""
    axes = range(len(axes_of(node)))
    pairs = combinations(axes, 2) if len(axes) <= MOST_PAIRED else ()
    return [*pairs, *((axis,) for axis in axes)]


def first_choice(node: Node) -> Choice:
    """Return what is looked at until somebody chooses."""
    return next(iter(choices(node)), ())


def axes_menu(node: Node, chosen: Choice) -> str:
    """Return what chooses the axes; nothing if there is only one."""
    names = [name_of(axis) for axis in axes_of(node)]
    if len(names) < 2:
        return ""
    options = "".join(
        f'<option value="{",".join(map(str, choice))}"{" selected" if choice == chosen else ""}>'
        f"{escape(' and '.join(names[axis] for axis in choice))}</option>"
        for choice in choices(node)
    )
    return f'<label class="axes">by <select data-choose="axes">{options}</select></label>'


class Speed:
    """How many items come in a second, over the last few."""

    def __init__(self, window_s: float = 5.0) -> None:
        self._window_s = window_s
        self._seen: list[tuple[float, int]] = []

    def per_second(self, now: float, count: int) -> float | None:
        """Return the speed by a count that only grows; None before it is known."""
        self._seen = [each for each in self._seen if each[0] >= now - self._window_s and each[1] <= count]
        self._seen.append((now, count))
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first) if last - first >= 1.0 else None


def _code(made: dict[str, str]) -> str:
    return f"cosendShow({json.dumps(made, separators=(',', ':'))})"
