"""Events on their way to the disk: no client is answered before they are there.

While one transaction is being written, in a separate thread, the events of all that happens meanwhile gather for the
next. So the busier a site is, the more share a commit. Events that no client waits for linger a moment, because an
answer usually follows. Once a commit has failed, the state in memory is ahead of the log, and nothing more is written:
the site must be rebuilt from its log. An unexpected error anywhere in the site ends the same way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

from cosend.engine.events import Answered, Chosen, Event, Shown, encode
from cosend.errors import Unavailable, in_one_line
from cosend.store.event_log import NO_SPAN, EventLog, Span
from cosend.store.log_index import FORGET_LABELS, FORGET_NAMES, LABEL, NAME, SET, Change, Statement

LINGER_S: Final = 0.02  # how long events that no client waits for may linger
CHANGES: Final = (NAME, LABEL, SET, FORGET_NAMES, FORGET_LABELS)  # in the order of their writing
Waiters = list[tuple["asyncio.Future[Any]", Any]]  # with what each gets when it is done
Rows = dict[Change, list[Sequence[Any]]]
Together = tuple[list[bytes], list[Span], list[Statement], Waiters]


class Commits:
    """Gathers events and rows, writes them together, and tells who waits; all but the writing in the loop's thread."""

    def __init__(self, log: EventLog, broken: Callable[[str], None]) -> None:
        self.log, self._broken = log, broken
        self.position = log.position  # with what is still on its way
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Together | None] = SimpleQueue()
        self._fresh()
        self._busy = self._scheduled = self._lingers = False
        self._error: str | None = None
        self.written = 0  # transactions that have ended, so that a disk that hangs is noticed
        self._unfit: str | None = None  # what is wrong with an event that cannot be written
        self._thread = threading.Thread(target=self._write_all, name="commits", daemon=True)
        self._thread.start()

    def _fresh(self) -> None:
        self._events: list[bytes] = []
        self._spans: list[Span] = []
        self._rows: Rows = {change: [] for change in CHANGES}
        self._waiters: Waiters = []

    @property
    def is_busy(self) -> bool:
        return self._busy

    def event(self, event: Event) -> None:
        """Take an event: this is the journal of the rules."""
        try:  # now, and not all together; here, and not in the thread, which would have to wait for Python's lock
            self._events.append(encode(event))
            self._spans.append(span(event))
        except Exception as failure:  # the log would be behind
            self._unfit = self._unfit or in_one_line(failure)
        self.position += 1
        self._linger()

    def also(self, change: Change, rows: Iterable[Sequence[Any]]) -> None:
        self._rows[change].extend(rows)
        self._linger()

    def when_done(self, future: asyncio.Future[Any], result: Any = None) -> None:
        """Give a future its result when all that was taken so far is on the disk."""
        if self._error is not None:
            _fail([(future, result)], self._error)
            return
        self._waiters.append((future, result))
        self._wake()

    async def done(self) -> None:
        """Wait until all that was taken so far is on the disk."""
        future = self._loop.create_future()
        self.when_done(future)
        await future

    def _linger(self) -> None:
        """Write what was taken soon, even if no client waits for it."""
        if not self._lingers:
            self._lingers = True
            self._loop.call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self._lingers = False
        self._send()

    def _wake(self) -> None:
        if not self._busy and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._scheduled = False
        if self._busy or self._error is not None:
            return
        events, spans, rows, waiters = self._events, self._spans, self._rows, self._waiters
        self._fresh()
        if self._unfit is not None:
            self._written(waiters, self._unfit)
        elif not events and not any(rows.values()):
            _resolve(waiters)
        else:
            self._busy = True
            also = [made for change, changed in rows.items() if changed for made in change.statements(changed)]
            self._queue.put((events, spans, also, waiters))

    def _write_all(self) -> None:
        while (together := self._queue.get()) is not None:
            events, spans, also, waiters = together
            error = None
            try:
                self.log.append(events, spans, also)
            except Exception as failure:  # the log is behind now
                error = in_one_line(failure)
            with suppress(RuntimeError):  # the loop is closed: no client waits
                self._loop.call_soon_threadsafe(self._written, waiters, error)

    def _written(self, waiters: Waiters, error: str | None) -> None:
        self._busy = False
        self.written += 1
        if error is None:
            _resolve(waiters)
            if self._waiters:
                self._send()
            elif self._events or any(self._rows.values()):
                self._linger()
            return
        self.fail(error, waiters)
        self._broken(f"its log could not be written ({error})")

    def give_up(self, reason: str) -> None:
        """Write nothing more, as after a failed commit: the state in memory cannot be relied on."""
        self.fail(reason)
        self._broken(reason)

    def fail(self, error: str, waiters: Sequence[tuple[asyncio.Future[Any], Any]] = ()) -> None:
        """Accept nothing more, and fail all that wait: it is not known what was written."""
        self._error = error
        waiting = [*waiters, *self._waiters]
        self._fresh()
        _fail(waiting, error)

    def close(self) -> None:
        """End the thread when it has written all events."""
        self._queue.put(None)
        self._thread.join()


def _resolve(waiters: Waiters) -> None:
    for future, result in waiters:
        if not future.done():
            future.set_result(result)


def _fail(waiters: Waiters, error: str) -> None:
    for future, _ in waiters:
        if not future.done():
            future.set_exception(Unavailable(f"it could not be saved, so nothing is promised: {error}"))


def span(event: Event) -> Span:
    """Return the smallest and the largest id of the decisions in an event, for the index."""
    match event:
        case Chosen():
            return event.first, event.first + len(event.arms) - 1
        case Answered() | Shown():
            return min(event.ids), max(event.ids)
    return NO_SPAN
