"""A service that runs: in a thread of the tests, on a port of its own, with trouble on the way if that is wanted."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from cosend import Context
from cosend.classifiers.adapters import as_classifier
from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.service.app import build_app
from cosend.service.tokens import Tokens


def young(item: dict[str, Any]) -> str:
    return "ill" if item["age"] > 60 else "well"


def broken_for_some(item: dict[str, Any]) -> str:
    if item.get("odd"):
        raise ValueError("too odd")
    return "well"


def slow(item: dict[str, Any]) -> str:
    time.sleep(0.5)
    return young(item)


def a_setup(**options: Any) -> Setup:
    models = {"young": as_classifier(young), "any": as_classifier(lambda item: "well")}
    given: dict[str, Any] = {"name": "north", "classifiers": models, "axes": [Context("age", range=(0, 100))]}
    return Setup(**{**given, **options})


class Trouble:
    """Answers the first requests with a status in place of the app, and counts all of them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.requests: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.requests.append(scope["path"])
            if self.answers:
                status, headers = self.answers.pop(0)
                lines = [(name.encode(), value.encode()) for name, value in headers.items()]
                await send({"type": "http.response.start", "status": status, "headers": lines})
                await send({"type": "http.response.body", "body": b"<p>trouble</p>"})
                return
        await self.app(scope, receive, send)


@contextmanager
def served(folder: Path, setup: Setup | None = None, tokens: Tokens | None = None) -> Iterator[tuple[str, Trouble]]:
    """Serve a site; gives its address, and what can get into the way."""
    app = Trouble(build_app(Node(setup or a_setup(), folder), tokens or Tokens({})))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        assert server.started
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", app
        finally:
            server.should_exit = True
            thread.join()


class Lossy:
    """Stands between a client and a service, and drops replies: the service has done its work, nobody hears of it."""

    def __init__(self, upstream: str, drops: int) -> None:
        self._port, self.drops = int(upstream.rpartition(":")[2]), drops
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> str:
        self._thread.start()
        self._started.wait()
        return f"http://127.0.0.1:{self.port}"

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._open: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._port)
        there = asyncio.create_task(_copy(reader, upstream_writer))
        try:
            while data := await upstream_reader.read(2**16):
                if self.drops:
                    self.drops -= 1
                    break
                writer.write(data)
                await writer.drain()
        finally:
            there.cancel()
            self._open.discard(task)
            for each in (writer, upstream_writer):
                each.close()
                with suppress(OSError, asyncio.CancelledError):
                    await each.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()
