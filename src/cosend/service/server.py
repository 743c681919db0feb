"""The process that serves one site: uvicorn, with what it needs to stay quick and to end when it is told to."""

from __future__ import annotations

import gc
import os
import signal
import socket
import ssl
import sys
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
from cosend.node.node import Node
from cosend.service.app import Pages, build_app
from cosend.service.connections import Connection
from cosend.service.tokens import Tokens
from cosend.service.visitors import is_loopback

SWITCH_S: Final = 0.0005  # how long one thread may keep Python before another gets it; ten times less than usual
# Looking at all that waits for its label more often would cost a tenth of the time; at more at once, 50 ms.
COLLECT_AFTER: Final = (20_000, 3, 1_600)
SHUTDOWN_S: Final = 10
MOST_CONNECTIONS: Final = 4_096
MOST_FILES: Final = 2**16  # open files that a process asks for: each costs the system something
SPARE_FILES: Final = 128  # that connections leave to the log, snapshots, models and peers
LONGEST_WORDS: Final = 2**16  # bytes of a message from a page


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a site is served, and how."""

    host: str = "127.0.0.1"
    port: int = 8800
    certificate: Path | None = None
    key: Path | None = None

    @property
    def url(self) -> str:
        """The address as a client writes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}"


def check_address(address: Address, tokens: Tokens, *, insecure: bool) -> None:
    """Raise if others could reach the site without a token, or if the files of the address are not there."""
    if not is_loopback(address.host) and not tokens and not insecure:
        allowed = "127.0.0.1, unless there are tokens (--tokens FILE), or --insecure is given"
        raise SettingError("the address of a site that everybody may use", address.host, allowed)
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
    node: Node,
    address: Address,
    tokens: Tokens,
    pages: Pages | None = None,
    listening: Callable[[], None] = lambda: None,
) -> None:
    """Serve a site until the process is told to stop, with pages for people or without; raises if it cannot start.

    listening  is called when clients can reach the address, which is before the site is ready
    """
    listener = _bound(address)
    raise_file_limit()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECT_AFTER)
    errors: list[Exception] = []

    def failed(error: Exception) -> None:
        errors.append(error)
        server.should_exit = True

    app = build_app(node, tokens, failed, pages, address.host)
    server = Server(config_of(app, address, with_pages=pages is not None), node, listening)
    with listener, suppress(KeyboardInterrupt):
        server.run(sockets=[listener])
    for error in errors:
        raise error


class Server(uvicorn.Server):
    """A server that says when it can be reached, and that Ctrl-C ends: that is how a service ends, and no failure.

    Pressed once, it lets requests end first; pressed again, it waits for none, and leaves what the site knows in order
    all the same; pressed a third time, the process is gone. uvicorn would leave it to whoever cancels its tasks to end
    the site, and raise every signal once more.
    """

    def __init__(self, config: uvicorn.Config, node: Node, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._node, self._listening, self._interrupted = node, listening, 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, or go on with it faster."""
        super().handle_exit(sig, frame)
        if sig == signal.SIGINT:
            self._captured_signals.remove(sig)
            self._interrupted += 1
        if self.force_exit:
            self._node.hurry()
        if self._interrupted > 2:
            os._exit(130)  # as a shell says it of a process that Ctrl-C has ended

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: the connections, the requests, and then the site."""
        await super().shutdown(sockets)
        if self.force_exit:
            for task in self.server_state.tasks:
                task.cancel()
            await self.lifespan.shutdown()


def file_limit() -> int:
    """Return how many files this process may have open at once."""
    with suppress(ImportError, OSError, ValueError):  # not every system has limits
        resource: Any = import_module("resource")
        limit: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return MOST_FILES if limit == resource.RLIM_INFINITY else limit
    return MOST_FILES


def raise_file_limit() -> None:
    """Let this process have as many files open as it may: every connection is one."""
    with suppress(ImportError, OSError, ValueError):  # not every system has limits, or lets us change them
        resource: Any = import_module("resource")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections(files: int) -> int:
    """Return how many clients may be connected at once if so many files may be open."""
    return min(MOST_CONNECTIONS, max(files // 4, files - SPARE_FILES))


def config_of(app: ASGIApp, address: Address, *, with_pages: bool = False) -> uvicorn.Config:
    """Return how uvicorn serves a site; only pages need web sockets, and these carry a few words towards the site."""
    files = file_limit()
    connections = most_connections(files)
    return uvicorn.Config(
        app,
        http=Connection,
        ws="websockets-sansio" if with_pages else "none",
        ws_max_size=LONGEST_WORDS,
        ws_per_message_deflate=False,  # it would take time off decisions
        log_config=None,
        access_log=False,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        timeout_graceful_shutdown=SHUTDOWN_S,
        limit_concurrency=connections + 1,  # `Connection` lets in one less, so that all who are in are served
        backlog=min(2_048, max(8, (files - connections) // 2)),  # as many may be accepted before any is refused
        server_header=False,
        proxy_headers=False,  # nobody here asks where a request comes from
        lifespan="on",
    )


def _bound(address: Address) -> socket.socket:
    """Return a socket of the address: one that is taken is found out before anything else is done."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        with ExitStack() as on_error:
            listener = on_error.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address.host, address.port))
            on_error.pop_all()
    except (OSError, OverflowError) as error:
        allowed = f"one that is free ({in_one_line(error)})"
        raise SettingError("the address of the site", f"{address.host}:{address.port}", allowed) from error
    return listener
