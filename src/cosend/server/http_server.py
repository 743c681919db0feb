"""The process that serves one site: uvicorn, set up to stay responsive and to stop when it is told to."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from cosend.errors import SettingError, in_one_line
from cosend.runtime.running_site import RunningSite
from cosend.server.auth import Tokens, is_loopback
from cosend.server.connections import Connection
from cosend.server.routes import Pages, Service
from cosend.text import counted

LOG: Final = logging.getLogger("cosend.server")
SWITCH_S: Final = 0.0005  # a thread yields to another after this time; the default is ten times longer
# Collections by default would cost 10% of the time. None of them looks at pending decisions.
COLLECT_AFTER: Final = (50_000, 20, 100)
SHUTDOWN_S: Final = 10
HURRIED_S: Final = 3.0  # for a snapshot after a second Ctrl-C
MAX_CONNECTIONS: Final = 4_096
MAX_FILES: Final = 2**16  # open files that a process asks for: each costs the system something
SPARE_FILES: Final = 128  # files that connections leave to the log, snapshots, models and peers


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a site is served, and how."""

    host: str = "127.0.0.1"
    port: int = 8800
    certificate: Path | None = None
    key: Path | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}"


def check_address(address: Address, tokens: Tokens, *, insecure: bool) -> None:
    """Raise if others could reach the site without a token, or if the files of the address are not there."""
    if not is_loopback(address.host) and not tokens and not insecure:
        allowed = "127.0.0.1, unless there are tokens (--tokens FILE), or --insecure is given"
        raise SettingError("the address of a site that is open to all", address.host, allowed)
    if (address.certificate is None) != (address.key is None):
        raise SettingError("--certificate and --key", "one of them", "given together, or not at all")
    for file in (address.certificate, address.key):
        if file is not None and not file.is_file():
            raise SettingError("the file of a certificate or key", str(file), "a file")
    if address.certificate is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(address.certificate, address.key)
        except OSError as error:  # which those of ssl are too
            allowed = f"a certificate and its key, as PEM ({in_one_line(error)})"
            raise SettingError("--certificate and --key", f"{address.certificate}, {address.key}", allowed) from error


def serve(
    site: RunningSite,
    address: Address,
    tokens: Tokens,
    pages: Pages | None = None,
    listening: Callable[[], None] = lambda: None,
) -> None:
    """Serve a site until the process is told to stop, with pages for people or without; raises if it cannot start.

    listening  is called when clients can reach the address, which is before the site is ready
    """
    listener = _bound(address)
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECT_AFTER)
    config = config_of(Service(site, tokens, pages, address.host), address)
    server = Server(config, site, listening, pages)
    with listener, suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    if server.error is not None:
        raise server.error


class Server(uvicorn.Server):
    """A server that starts and stops its site, and answers requests meanwhile.

    Ctrl-C stops it without an error. Pressed once, it finishes requests first; pressed again, it waits for nothing but
    a snapshot, and for that not long; pressed a third time, the process exits. uvicorn alone would raise every signal
    once more.
    """

    error: Exception | None = None  # why the site could not start

    def __init__(
        self, config: uvicorn.Config, site: RunningSite, listening: Callable[[], None], pages: Pages | None = None
    ) -> None:
        super().__init__(config)
        self._site, self._listening, self._pages, self._interrupted = site, listening, pages, 0
        self._starting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._listening()
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        try:
            await self._site.start()
        except Exception as error:
            self.error, self.should_exit = error, True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if sig == signal.SIGINT:
            self._captured_signals.remove(sig)
            self._interrupted += 1
        if self._interrupted > 2:
            _exit()
        if self.force_exit:
            self._site.hurry()
            starts = self._starting is not None and not self._starting.done()
            late = threading.Timer(0.0 if starts else HURRIED_S, _exit)
            late.daemon = True
            late.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: the live pages, the connections, the requests, and then the site."""
        if self.error is None:
            again = "; press Ctrl-C again to stop at once" if self._interrupted else ""
            LOG.info("stopping, after %s%s", self._awaited(), again)
        if self._pages is not None:
            self._pages.close()
        await super().shutdown(sockets)
        if self.force_exit:
            for task in self.server_state.tasks:
                task.cancel()
        if self._starting is not None:
            await self._starting
            await self._site.stop()
        if self.error is None:
            LOG.info("stopped")

    def _awaited(self) -> str:
        """Return in words what it waits for before it stops."""
        if self._starting is not None and not self._starting.done():
            return "its start"
        requests = len(self.server_state.tasks)
        return f"{counted(requests, 'open request')} and a snapshot" if requests else "a snapshot"


def _exit() -> None:
    os._exit(130)  # the exit code that shells use for Ctrl-C


def _open_files() -> int:
    """Raise the limit of open files as far as this process may, because every connection is one, and return it."""
    with suppress(ImportError, OSError, ValueError):  # not every system has limits, or lets us change them
        resource: Any = import_module("resource")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return int(wanted)
    return MAX_FILES


def config_of(app: ASGIApp, address: Address) -> uvicorn.Config:
    files = _open_files()
    connections = min(MAX_CONNECTIONS, max(files // 4, files - SPARE_FILES))
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        timeout_graceful_shutdown=SHUTDOWN_S,
        limit_concurrency=connections + 1,  # `Connection` accepts one less, so that all accepted ones are served
        backlog=min(2_048, max(8, (files - connections) // 2)),  # these may be accepted before any is refused
        server_header=False,
        proxy_headers=False,  # the address of a client is not used
        lifespan="off",
    )


def _bound(address: Address) -> socket.socket:
    """Return a socket bound to the address, so that a port in use is found before anything else is done."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        with ExitStack() as on_error:
            listener = on_error.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address.host, address.port))
            on_error.pop_all()
            return listener
    except (OSError, OverflowError) as error:
        allowed = f"one that is free ({in_one_line(error)})"
        raise SettingError("the address of the site", f"{address.host}:{address.port}", allowed) from error
