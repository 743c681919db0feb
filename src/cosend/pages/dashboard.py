"""The routes of the dashboard, an ASGI app that the service mounts at /dashboard, and the live board behind them.

    GET /              the page: it says nothing about the site but its name
    GET /live          server-sent events with the parts of the page; `?axes=0,1&range=1h&only=sent` says what is shown
    GET /why/{id}      why a decision was made
    GET /static/...    the style and the script

The script changes arms and mode through the routes under /v1, as any client does. It sends the token as a header and
keeps it for as long as the tab is open; the site keeps nothing. Browsers are told to load nothing from other hosts, and
web pages of other hosts are refused before they get here (`server/auth.py`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Send
from starlette.types import Scope as Asked

from cosend.charts.figures import CSS
from cosend.errors import CosendError, in_one_line
from cosend.pages import rendering
from cosend.pages.over_time import DEFAULT, RANGES, Series
from cosend.pages.site_view import KINDS, Choice, SiteView, Snapshot, rest_s
from cosend.runtime.running_site import RunningSite
from cosend.server.auth import Tokens
from cosend.server.problems import problem, problem_of
from cosend.server.schema import Scope

LOG: Final = logging.getLogger("cosend.pages")
TICK_S: Final = 1.0
REST: Final = 40  # a tick is followed by a rest of at least this many times its length
CELLS_S: Final = 10.0  # between two drawings of the cells
MOST_LOGGED: Final = 100  # different problems
MOST_PAGES: Final = 100  # that are open at once
WRONG_TOKEN_S: Final = 0.5  # after a wrong token, before another may be tried
POLICY: Final = (
    "default-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class Wanted(NamedTuple):
    """The view of a page, as its query says."""

    axes: str = ""  # as in "0,1"
    range: str = DEFAULT
    only: str = KINDS[0]  # which decisions


FIRST: Final = Wanted()


class Board:
    """The content of the pages of a site: one snapshot for all of them, made while a page is open and never otherwise.

    A page gets every part at once and then those that have changed. A browser that reads slowly gets the newest version
    of each part when it is ready for more, so that no queue grows for it. A snapshot that takes long is followed by a
    longer rest, so that decisions hardly notice it.
    """

    def __init__(self, view: SiteView) -> None:
        self.view, self.pages = view, 0
        self._snapshot: Snapshot | None = None
        self._due = 0.0  # when the next snapshot is made
        self._parts: dict[str, str] = {}  # the same for every page
        self._chosen: dict[Any, dict[str, str]] = {}  # by the axes, the range and the decisions that a page shows
        self._charts: dict[str, tuple[Series, dict[str, str]]] = {}  # by range
        self._figures: dict[Choice, tuple[float, dict[str, str]]] = {}  # with when each is drawn again
        self._closing = asyncio.Event()
        self._logged: set[str] = set()

    async def stream(self, wanted: Wanted = FIRST) -> AsyncIterator[bytes]:
        """Yield the events of a page until the board closes."""
        range_ = wanted.range if wanted.range in RANGES else DEFAULT
        only = wanted.only if wanted.only in KINDS else KINDS[0]
        axes = {rendering.as_value(choice): choice for choice in self.view.choices()}
        choice: Choice = axes.get(wanted.axes, ())
        shown = dict[str, str]()
        self.pages += 1
        try:
            while not self._closing.is_set():
                choice = choice or next(iter(self.view.choices()), ())
                parts = self.parts(choice, range_, only)
                if news := {name: html for name, html in parts.items() if shown.get(name) != html}:
                    yield f"data: {json.dumps(news, separators=(',', ':'))}\n\n".encode()
                shown = parts
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), max(0.0, self._due - time.monotonic()))
        finally:
            self.pages -= 1

    def close(self) -> None:
        self._closing.set()

    def parts(self, choice: Choice, range_: str = DEFAULT, only: str = KINDS[0]) -> dict[str, str]:
        """Return all parts of a page that shows these axes, range and decisions, as new as they may be."""
        began = time.monotonic()
        try:
            if began >= self._due:
                self._look(began)
            if self._snapshot is not None:
                self._render(self._snapshot, choice, range_, only)
        except Exception as error:  # the next moment may be better
            why = in_one_line(error)
            self._log_once("the dashboard could not look at the site", reason=why, error=error)
            self._say(f"It cannot be shown now: {why}")
        if began >= self._due:
            now = time.monotonic()
            self._due = now + max(TICK_S, REST * (now - began))
        chosen = (self._chosen.get(key, {}) for key in (choice, range_, only))
        return {name: html for parts in (self._parts, *chosen) for name, html in parts.items()}

    def _render(self, snapshot: Snapshot, choice: Choice, range_: str, only: str) -> None:
        """Render what this page has chosen, unless another page has chosen the same."""
        if choice not in self._chosen:
            self._chosen[choice] = self._cells(snapshot, choice)
        if range_ not in self._chosen:
            self._chosen[range_] = self._over_time(snapshot, range_)
        if only not in self._chosen:
            self._chosen[only] = rendering.render_decisions(self.view.rows(only), only, snapshot)

    def _cells(self, snapshot: Snapshot, choice: Choice) -> dict[str, str]:
        """Render which arm wins where, less often than the rest: it is large and changes slowly."""
        due, drawn = self._figures.get(choice, (0.0, {}))
        if (now := time.monotonic()) >= due:
            drawn = rendering.render_where(self.view, snapshot, choice)
            self._figures[choice] = now + rest_s(snapshot.facts["up_s"], CELLS_S) * bool(drawn), drawn
        return drawn

    def _over_time(self, snapshot: Snapshot, range_: str) -> dict[str, str]:
        """Render the charts of a range, if they have changed."""
        series = self.view.series(range_, snapshot.local)
        drawn, charts = self._charts.get(range_, (None, {}))
        if drawn is not series:
            charts = rendering.render_charts(series, snapshot, self.view.moment)
            self._charts[range_] = series, charts
        return {**charts, **rendering.render_events(series, self.view.moment)}

    def _look(self, now: float) -> None:
        if not self.view.is_started:
            self._say("It is starting.")
            return
        self._snapshot = self.view.snapshot(now)
        for site in self._snapshot.unreadable:
            self._log_once("the news of a peer cannot be read and are not shown", peer=site)
        self._parts, self._chosen = rendering.render_parts(self._snapshot), {}

    def _say(self, why: str) -> None:
        self._parts["head"] = rendering.render_part("problem", site=self.view.name, why=why)

    def _log_once(self, what: str, error: Exception | None = None, **facts: str) -> None:
        key = f"{what} {facts}"
        if key not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add(key)
            is_known = error is None or isinstance(error, CosendError | sqlite3.Error | OSError)
            LOG.warning(what, extra=facts, exc_info=None if is_known else error)


class Dashboard:
    """The pages of a site; `addresses` name other sites, whose pages it links."""

    def __init__(self, site: RunningSite, tokens: Tokens, addresses: Mapping[str, str] | None = None) -> None:
        self._view, self._tokens = SiteView(site, addresses), tokens
        self.board = Board(self._view)
        self._router = Router(
            [
                Route("/", self._page),
                Route("/live", self._live),
                Route("/why/{id}", self._why),
                Route(
                    "/static/dashboard.css", lambda _: Response(CSS + _static("dashboard.css"), media_type="text/css")
                ),
                Route(
                    "/static/dashboard.js", lambda _: Response(_static("dashboard.js"), media_type="text/javascript")
                ),
            ]
        )

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            await self._router(scope, receive, guarded)
        except (HTTPException, CosendError) as error:
            await problem_of(error)(scope, receive, guarded)

    def close(self) -> None:
        self.board.close()

    async def _check_may_read(self, request: Request) -> None:
        if not self._may(request, "read"):
            await asyncio.sleep(WRONG_TOKEN_S)
            self._tokens.check(request.headers.get("authorization"), "read")

    def _may(self, request: Request, scope: Scope) -> bool:
        try:
            self._tokens.check(request.headers.get("authorization"), scope)
        except HTTPException:
            return False
        return True

    async def _page(self, _: Request) -> Response:
        return HTMLResponse(rendering.render_page(self._view.name, needs_token=bool(self._tokens)))

    async def _live(self, request: Request) -> Response:
        await self._check_may_read(request)
        if self.board.pages >= MOST_PAGES:
            return problem(503, f"{MOST_PAGES} pages are open; close one")
        told = {"cosend-may-change": "yes" if self._may(request, "admin") else "no", "x-accel-buffering": "no"}
        query = request.query_params
        wanted = Wanted(**{name: query[name] for name in Wanted._fields if name in query})
        events = self.board.stream(wanted)
        return StreamingResponse(events, media_type="text/event-stream", headers=told)

    async def _why(self, request: Request) -> Response:
        await self._check_may_read(request)
        facts = await self._view.decision(request.path_params["id"])
        return HTMLResponse(rendering.render_why(*facts, self._view.currency))


def _static(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")
