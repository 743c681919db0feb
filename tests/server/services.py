"""A site as a service, for tests: called without a network, or listening on a port of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosend.axes import Feature
from cosend.models.adapters import as_classifier
from cosend.pages.dashboard import Dashboard
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.server.auth import Tokens
from cosend.server.http_server import Address, Server, config_of
from cosend.server.routes import Service
from tests.node.sites import running

NOBODY = Tokens({})
JSON = {"content-type": "application/json"}


def young(item: dict[str, Any]) -> str:
    return "ill" if item["age"] > 60 else "well"


def a_setup(**options: Any) -> Setup:
    models = {"young": as_classifier(young), "any": as_classifier(lambda item: "well")}
    given: dict[str, Any] = {"name": "north", "classifiers": models, "axes": [Feature("age", range=(0, 100))]}
    return Setup(**{**given, **options})


class Caller(httpx.AsyncClient):
    """A client of the service of a site, without a network between them; what it does with these verbs must succeed."""

    def __init__(self, site: RunningSite, tokens: Tokens = NOBODY, **headers: str) -> None:
        transport = httpx.ASGITransport(app=Service(site, tokens), raise_app_exceptions=False)
        super().__init__(transport=transport, base_url="http://127.0.0.1", headers=headers)

    async def ask(self, path: str, body: Any = None) -> Any:
        reply = await (self.get(path) if body is None else self.post(path, json=body))
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def summary(self) -> Any:
        return await self.ask("/v1/summary")

    async def decide(self, *ids: str | None, age: float = 50.0) -> Any:
        items = [{"features": {"age": age}, "id": id} for id in ids]
        return (await self.ask("/v1/classify", {"items": items}))["decisions"]

    async def learn(self, label: Any, *ids: str) -> Any:
        return await self.ask("/v1/labels", {"labels": [{"id": id, "label": label} for id in ids]})


@asynccontextmanager
async def called(
    setup: Setup, folder: Path, tokens: Tokens = NOBODY, **headers: str
) -> AsyncIterator[tuple[Caller, RunningSite]]:
    """Run a site; give a caller of its service, and the site."""
    async with running(setup, folder) as site, Caller(site, tokens, **headers) as client:
        yield client, site


class Trouble:
    """Stands before a service and counts requests; `answers` come instead of its first replies, `losses` are lost.

    Of a loss, the service has done its work, and nobody hears of it: the connection is closed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.requests: list[str] = []
        self.losses = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.requests.append(scope["path"])
            if self.answers:
                status, headers = self.answers.pop(0)
                lines = [(name.encode(), value.encode()) for name, value in headers.items()]
                await send({"type": "http.response.start", "status": status, "headers": lines})
                await send({"type": "http.response.body", "body": b"<p>trouble</p>"})
                return
            if self.losses:
                self.losses -= 1
                await self.app(scope, receive, _nowhere)
                await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
                return
        await self.app(scope, receive, send)


async def _nowhere(_: Message) -> None: ...


@contextmanager
def served(
    folder: Path, setup: Setup | None = None, tokens: Tokens = NOBODY, *, with_pages: bool = False
) -> Iterator[tuple[str, Trouble]]:
    """Serve a site in a thread, as a process would; give its address, and what can get into the way."""
    site = RunningSite(setup or a_setup(), folder)
    pages = Dashboard(site, tokens) if with_pages else None
    app = Trouble(Service(site, tokens, pages=pages))
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**15)  # what the system keeps of a reply
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server = Server(config_of(app, Address(port=port)), site, lambda: None, pages)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not site.is_ready and thread.is_alive():
            time.sleep(0.01)
        assert server.started
        try:
            yield f"http://127.0.0.1:{port}", app
        finally:
            server.should_exit = True
            thread.join()
