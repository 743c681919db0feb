"""Limits for connections: how long a client may take to ask and to read, and how much memory it may hold.

uvicorn waits without limit for the head of a request, and buffers whatever comes. A client that opens connections and
sends nothing, or half a line, would use up all connections; one whose headers never end would fill the memory, and so
would clients that do not read their replies. `bodies.py` limits bodies that are read; a body that continues after its
request was refused is limited here. Clients beyond the maximum are told to come back later and closed at once, so that
silent connections cannot use up the files that the process may open.

uvicorn also writes the head of a reply alone, which costs as much as writing all of it: here it waits for the body.
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
CONTINUE: Final = b"HTTP/1.1 100"  # not the reply yet: the client may send its body
MAX_HEAD: Final = 2**16  # bytes of the first line and all headers
READ_S: Final = 30.0  # a client must read within this time
MIN_READ: Final = 2**16  # at least this many bytes of its reply, or all that is left
MAX_UNREAD: Final = 2**27  # bytes of replies that are not read yet, of all clients together


class Connection(HttpToolsProtocol):
    """A connection with limits."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head, self._head_length, self._unread_since = True, 0, 0.0
        self._patience: asyncio.TimerHandle | None = None  # until it is closed, unless a request comes
        self._reading: asyncio.TimerHandle | None = None  # until the next check that the client reads

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency - 1:
            self.transport = transport
            transport.write(FULL)
            transport.close()
            return
        super().connection_made(transport)
        self._be_patient()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        self._watch_no_longer()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._in_head, self._head_length = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, before = False, self.cycle
        super().on_headers_complete()
        if self.cycle is not before and self.scope["method"] == "POST":  # others may have replies without a body
            self.cycle.transport = WholeReplies(self.transport)  # type: ignore[assignment]  # all that a cycle uses of it

    def data_received(self, data: bytes) -> None:
        """Read on; time and length are limited before a request is complete, and after it was answered."""
        super().data_received(data)
        if not self._in_head and (self.cycle is None or not self.cycle.response_complete):
            self._cancel()
            return
        if self._in_head:
            self._head_length += len(data)
        if self._head_length > MAX_HEAD:
            self._give_up()
        else:
            self._be_patient()

    # Replies

    def on_response_complete(self) -> None:
        """Continue with the next request; an unwanted rest of a body, and the client's reading, have their limits."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_reading()
        elif self.cycle.more_body and self.cycle.response_complete:
            self._be_patient()

    def timeout_keep_alive_handler(self) -> None:
        self._give_up()

    def pause_writing(self) -> None:
        """Wait until the client has read; if all clients together have too much to read, the slowest one is cut off."""
        super().pause_writing()
        self._unread_since = self.loop.time()
        self._watch_reading()
        self.loop.call_soon(self._make_room)

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._watch_no_longer()

    def _make_room(self) -> None:
        slow = [each for each in self.connections if isinstance(each, Connection) and each.flow.write_paused]
        unread = sum(each.transport.get_write_buffer_size() for each in slow)
        for each in sorted(slow, key=lambda each: each._unread_since):
            if unread <= MAX_UNREAD:
                break
            unread -= each.transport.get_write_buffer_size()
            each.transport.abort()

    def _watch_reading(self) -> None:
        """Check from time to time that the client reads."""
        if self._reading is None:
            self._reading = self.loop.call_later(READ_S, self._check_reading, self.transport.get_write_buffer_size())

    def _check_reading(self, before: int) -> None:
        self._reading = None
        if self.transport.get_write_buffer_size() > before - MIN_READ:
            self.transport.abort()
        else:
            self._watch_reading()

    def _watch_no_longer(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _be_patient(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(HEAD_S, self._give_up)

    def _cancel(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._cancel()
        if not self.transport.is_closing():
            self.transport.close()  # which waits until the client has read what was written
            self._watch_reading()


class WholeReplies:
    """A transport for one reply, whose head is kept until something follows."""

    __slots__ = ("_head", "_write", "close", "is_closing")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._write, self.close, self.is_closing = transport.write, transport.close, transport.is_closing
        self._head: bytes | None = b""  # None once it is written

    def write(self, data: bytes) -> None:
        if self._head:
            self._write(self._head + data)
            self._head = None
        elif self._head is None or data.startswith(CONTINUE):
            self._write(data)
        else:
            self._head = data
