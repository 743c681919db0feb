"""Connections that must say what they want: within some seconds, and without going on for ever.

uvicorn waits as long as a client likes for the head of a request, and keeps whatever comes. A client that opens
connections and says nothing, or half a word, would hold all those there may be; one whose headers never end would fill
the memory. What comes after the head is limited by `service/bodies.py`.

More clients than there may be are told to come back later, and let go at once: connections that say nothing must not
use up the files that the process may open.

It also writes the head of a reply alone, which costs as much as writing all of it. Here the head waits for the body.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S: Final = 10.0
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: 107\r\n\r\n"
    b'{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"too many clients are connected"}'
)
GO_ON: Final = b"HTTP/1.1 100"  # no reply yet: the client may send its body
LONGEST_HEAD: Final = 2**16  # bytes of the first line and all headers


class Connection(HttpToolsProtocol):
    """A connection of a client."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = True
        self._head_length = 0
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for a request, unless too many clients are connected."""
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency - 1:
            self.transport = transport
            transport.write(FULL)
            transport.close()
            return
        super().connection_made(transport)
        self._patience = self.loop.call_later(HEAD_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin with a head."""
        self._in_head, self._head_length = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End a head."""
        self._in_head, before = False, self.cycle
        super().on_headers_complete()
        if self.cycle is not before and self.scope["method"] == "POST":  # others may have replies without a body
            self.cycle.transport = WholeReplies(self.transport)  # type: ignore[assignment]  # all that a cycle uses of it

    def data_received(self, data: bytes) -> None:
        """Read on; while it is not known what is asked for, time and length are limited."""
        super().data_received(data)
        if not self._in_head:
            self._cancel()
            return
        self._head_length += len(data)
        if self._head_length > LONGEST_HEAD:
            self._give_up()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_S, self._give_up)

    def _cancel(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._cancel()
        self.transport.close()


class WholeReplies:
    """What one reply is written to: its head is kept until something follows."""

    __slots__ = ("_head", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = b""  # None once it is written
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write what comes after the head, and before it the head."""
        if self._head:
            self._transport.write(self._head + data)
            self._head = None
        elif self._head is None or data.startswith(GO_ON):
            self._transport.write(data)
        else:
            self._head = data

    def close(self) -> None:
        """Write a head that nothing has followed, and close."""
        if self._head:
            self._transport.write(self._head)
            self._head = None
        self._transport.close()
