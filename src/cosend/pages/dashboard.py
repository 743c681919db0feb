"""The routes of the dashboard, an ASGI app that the service mounts at /dashboard.

    GET /              the page: it says nothing about the site but its name
    GET /live          server-sent events with the parts of the page, `?axes=0,1` for the axes that are shown
    GET /why/{id}      why a decision was made
    GET /static/...    the style and the script

The script changes arms and mode through the routes under /v1, as any client does. It sends the token as a header and
keeps it for as long as the tab is open; the site keeps nothing. Browsers are told to load nothing from other hosts, and
web pages of other hosts are refused before they get here (`service/visitors.py`).
"""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Send
from starlette.types import Scope as Asked

from cosend.charts.drawing import CSS
from cosend.errors import CosendError
from cosend.pages.board import Board
from cosend.pages.rendering import render_why, templates
from cosend.pages.site_view import SiteView
from cosend.runtime.running_site import RunningSite
from cosend.server.auth import Tokens
from cosend.server.problems import Refused, problem, problem_of
from cosend.server.schema import Scope

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


class Dashboard:
    """The pages of a site."""

    def __init__(self, node: RunningSite, tokens: Tokens) -> None:
        self._view, self._tokens = SiteView(node), tokens
        self.board = Board(self._view)
        self._router = Router(
            [
                Route("/", self._page),
                Route("/live", self._live),
                Route("/why/{id}", self._why),
                Route("/static/dashboard.css", _style),
                Route("/static/dashboard.js", _script),
            ]
        )

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            await self._router(scope, receive, guarded)
        except (Refused, CosendError) as error:
            await problem_of(error)(scope, receive, guarded)

    async def close(self) -> None:
        """End all streams."""
        self.board.close()

    async def _check(self, request: Request, scope: Scope) -> None:
        try:
            self._tokens.check(request.headers.get("authorization"), scope)
        except Refused:
            await asyncio.sleep(WRONG_TOKEN_S)
            raise

    def _may_change(self, request: Request) -> bool:
        try:
            self._tokens.check(request.headers.get("authorization"), "admin")
        except Refused:
            return False
        return True

    async def _page(self, _: Request) -> Response:
        page = templates().get_template("dashboard.html")
        return HTMLResponse(page.render(site=self._view.name, needs_token=bool(self._tokens)))

    async def _live(self, request: Request) -> Response:
        await self._check(request, "read")
        if len(self.board.pages) >= MOST_PAGES:
            return problem(503, f"{MOST_PAGES} pages are open; close one")
        told = {"cosend-may-change": "yes" if self._may_change(request) else "no", "x-accel-buffering": "no"}
        events = self.board.stream(request.query_params.get("axes", ""))
        return StreamingResponse(events, media_type="text/event-stream", headers=told)

    async def _why(self, request: Request) -> Response:
        await self._check(request, "read")
        return HTMLResponse(await render_why(self._view, request.path_params["id"]))


def _static(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text(encoding="utf-8")


async def _style(_: Request) -> Response:
    return Response(CSS + _static("dashboard.css"), media_type="text/css")


async def _script(_: Request) -> Response:
    return Response(_static("dashboard.js"), media_type="text/javascript")
