"""The routes of the dashboard, an ASGI app that the service mounts at /dashboard, and the live board behind them.

    GET /              the page: it says nothing about the site but its name
    GET /live          server-sent events with the parts of the page, `?axes=0,1` for the axes that are shown
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
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Send
from starlette.types import Scope as Asked

from cosend.charts.figures import CSS
from cosend.errors import CosendError, in_one_line
from cosend.pages import rendering
from cosend.pages.site_view import Choice, SiteView
from cosend.runtime.running_site import RunningSite
from cosend.server.auth import Tokens
from cosend.server.problems import Refused, problem, problem_of
from cosend.server.schema import Scope

LOG: Final = logging.getLogger("cosend.pages")
TICK_S: Final = 1.0
REST: Final = 40  # a tick is followed by a rest of at least this many times its length
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


class Page:
    """An open page: the axes that it shows, and every part that it has got."""

    def __init__(self, choice: Choice = ()) -> None:
        self.choice, self.shown = choice, dict[str, str]()


class Board:
    """What the pages of a site show: one snapshot for all of them, made while a page is open and never otherwise.

    A page gets every part at once and then those that have changed. A browser that reads slowly gets the newest version
    of each part when it is ready for more, so that no queue grows for it. A snapshot that takes long is followed by a
    longer rest, so that decisions hardly notice it.
    """

    def __init__(self, view: SiteView) -> None:
        self.view, self.pages, self.is_closed = view, set[Page](), False
        self._parts: dict[str, str] = {}  # the same for every page
        self._where: dict[Choice, dict[str, str]] = {}  # by the axes that a page shows
        self._changed = asyncio.Event()
        self._logged: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def stream(self, axes: str = "") -> AsyncIterator[bytes]:
        """Yield the events of a page until the board closes; `axes` are those that it shows, as in "0,1"."""
        page = Page(next((choice for choice in self.view.choices() if rendering.as_value(choice) == axes), ()))
        try:
            self.open(page)
            while not self.is_closed:
                if news := self.news_for(page):
                    yield f"data: {json.dumps(news, separators=(',', ':'))}\n\n".encode()
                else:
                    await self._changed.wait()
        finally:
            self.pages.discard(page)

    def open(self, page: Page) -> None:
        self.pages.add(page)
        if len(self.pages) == 1 or page.choice not in self._where:
            self.tick()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def news_for(self, page: Page) -> dict[str, str]:
        """Return the parts that a page has not got yet."""
        now = {**self._parts, **self._where.get(page.choice, {})}
        news = {name: html for name, html in now.items() if page.shown.get(name) != html}
        page.shown = now
        return news

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        self._changed.set()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        rest = TICK_S
        while await asyncio.sleep(rest, self.pages):
            rest = max(TICK_S, REST * self.tick())

    def tick(self) -> float:
        """Look at the site, tell the pages what has changed, and return how many seconds that took."""
        began = time.monotonic()
        try:
            self._look(began)
        except Exception as error:  # the next moment may be better
            why = in_one_line(error)
            self._log_once("the dashboard could not look at the site", reason=why, error=error)
            self._parts |= rendering.render_problem(self.view.name, f"It cannot be shown now: {why}")
        self._changed.set()
        self._changed = asyncio.Event()
        return time.monotonic() - began

    def _look(self, now: float) -> None:
        if not self.view.is_started:
            self._parts |= rendering.render_problem(self.view.name, "It is starting.")
            return
        snapshot, first = self.view.snapshot(now), next(iter(self.view.choices()), ())
        for site in snapshot.unreadable:
            self._log_once("the news of a peer cannot be read and are not shown", peer=site)
        self._parts = rendering.render_parts(snapshot)
        for page in self.pages:
            page.choice = page.choice or first
        self._where = {
            choice: self._where.get(choice, {}) | rendering.render_where(self.view, snapshot, choice)
            for choice in {page.choice for page in self.pages}
        }

    def _log_once(self, what: str, error: Exception | None = None, **facts: str) -> None:
        key = f"{what} {facts}"
        if key not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add(key)
            is_known = error is None or isinstance(error, CosendError | sqlite3.Error | OSError)
            LOG.warning(what, extra=facts, exc_info=None if is_known else error)


class Dashboard:
    """The pages of a site."""

    def __init__(self, site: RunningSite, tokens: Tokens) -> None:
        self._view, self._tokens = SiteView(site), tokens
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
        except (Refused, CosendError) as error:
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
        except Refused:
            return False
        return True

    async def _page(self, _: Request) -> Response:
        return HTMLResponse(rendering.render_page(self._view.name, needs_token=bool(self._tokens)))

    async def _live(self, request: Request) -> Response:
        await self._check_may_read(request)
        if len(self.board.pages) >= MOST_PAGES:
            return problem(503, f"{MOST_PAGES} pages are open; close one")
        told = {"cosend-may-change": "yes" if self._may(request, "admin") else "no", "x-accel-buffering": "no"}
        events = self.board.stream(request.query_params.get("axes", ""))
        return StreamingResponse(events, media_type="text/event-stream", headers=told)

    async def _why(self, request: Request) -> Response:
        await self._check_may_read(request)
        return HTMLResponse(rendering.render_why(*await self._view.decision(request.path_params["id"])))


def _static(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")
