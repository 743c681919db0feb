"""The pages as a part of the service: loaded when somebody opens them, and no more open to others than the service is.

Browsers are told to load nothing from elsewhere. Pages that come from elsewhere cannot talk to these ones (see
`service/visitors.py`), and there are only so many of them at once.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosend.dashboard.board import Board
from cosend.node.node import Node
from cosend.service.problems import problem
from cosend.service.tokens import Tokens

MOST_PAGES: Final = 100
# NiceGUI's page has scripts and styles in it, and compiles its templates in the browser.
POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class Pages:
    """An ASGI app that loads the pages at the first request."""

    def __init__(self, node: Node, tokens: Tokens) -> None:
        self._tokens, self.board = tokens, Board(node)
        self._app: ASGIApp | None = None
        self._loading, self._running = asyncio.Lock(), AsyncExitStack()
        self._make_room: Callable[[int], bool]  # among the pages that there are

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        app = self._app or await self._load()
        is_page = scope["type"] == "http" and scope["path"].rstrip("/") == scope.get("root_path", "").rstrip("/")
        if is_page and not self._make_room(MOST_PAGES):
            await problem(503, f"{MOST_PAGES} pages are open; close one")(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        await app(scope, receive, guarded)

    async def _load(self) -> ASGIApp:
        async with self._loading:
            if self._app is None:
                self._make_room, app = await asyncio.to_thread(_loaded, self.board, self._tokens)
                gc.freeze()  # NiceGUI looks through all that the collector of garbage knows, which can be millions
                await self._running.enter_async_context(app.router.lifespan_context(app))
                self._app = app
        return self._app

    async def close(self) -> None:
        """End all pages."""
        self.board.pages.clear()
        await self._running.aclose()


def _loaded(board: Board, tokens: Tokens) -> tuple[Callable[[int], bool], Any]:
    """Import NiceGUI, which takes a while, and make the pages; returns what makes room for one more, and their app."""
    from cosend.dashboard.pages import build_pages, make_room

    return partial(make_room, board), build_pages(board, tokens)
