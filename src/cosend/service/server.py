"""The process that serves one site: uvicorn, with what it needs to stay quick and to end when it is told to."""

from __future__ import annotations

import gc
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from cosend.errors import SettingError, in_one_line
from cosend.node.node import Node
from cosend.service.app import Pages, build_app
from cosend.service.connections import Connection
from cosend.service.tokens import Tokens
from cosend.service.visitors import is_loopback

SWITCH_S: Final = 0.0005  # how long one thread may keep Python before another gets it; ten times less than usual
COLLECT_AFTER: Final = (
    50_000,
    20,
    100,
)  # looking at all that waits for its label more often would cost a tenth of the time
SHUTDOWN_S: Final = 10
MOST_CONNECTIONS: Final = 4_096
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


class Server(uvicorn.Server):
    """A server that says when it can be reached."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            self._listening()


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
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECT_AFTER)
    errors: list[Exception] = []

    def failed(error: Exception) -> None:
        errors.append(error)
        server.should_exit = True

    app = build_app(node, tokens, failed, pages, address.host)
    server = Server(config_of(app, address, with_pages=pages is not None), listening)
    with listener, suppress(KeyboardInterrupt):  # Ctrl-C is how a service ends, not a failure
        server.run(sockets=[listener])
    for error in errors:
        raise error


def config_of(app: ASGIApp, address: Address, *, with_pages: bool = False) -> uvicorn.Config:
    """Return how uvicorn serves a site; only pages need web sockets, and these carry a few words towards the site."""
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
        limit_concurrency=MOST_CONNECTIONS,
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
