"""One thread that does what quick models have to do, one model after the other.

To wake a thread, and to have it wait for Python's lock, takes longer than a quick model needs for hundreds of items. So
the items of one moment wake one thread, and not one for each model. Who is not so quick, must be asked in one thread at
a time, or hangs, has threads of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from cosend.errors import CosendError

STALLED_S: Final = 0.01  # of one visit: then another thread goes on with the others


class Lane:
    """A thread that visits models; it is replaced if it does not come back from one."""

    def __init__(self) -> None:
        self._visits: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._since = 0.0  # when the visit began that goes on, 0 between visits

    def begin(self) -> None:
        """Start the thread; raises if that is not possible."""
        if self._thread is None and not self._start():
            raise CosendError("models cannot be run: the system starts no more threads")

    def visit(self, visit: Callable[[], None]) -> bool:
        """Have a visit made soon, in the thread; returns whether there is a thread."""
        if (self._thread is None or not self._thread.is_alive()) and not self._start():
            return False
        self._visits.put(visit)
        return True

    @property
    def is_stalled(self) -> bool:
        """Whether a visit takes so long that others should not wait for it."""
        since = self._since
        return bool(since) and time.monotonic() - since > STALLED_S

    def look(self) -> None:
        """Let another thread go on if this one does not come back; its last visit ends whenever it does."""
        if self.is_stalled:
            since, self._since = self._since, 0.0
            if not self._start():
                self._since = since  # the next time, unless it comes back before
        elif not self._visits.empty() and self._thread is not None and not self._thread.is_alive():
            self._start()

    def _start(self) -> bool:
        """Start a thread in place of the one that there is; returns whether the system has let us."""
        before = self._thread
        self._thread = threading.Thread(target=self._run, name="quick models", daemon=True)
        if not started(self._thread):
            self._thread = before
            return False
        return True

    def _run(self) -> None:
        while (visit := self._visits.get()) is not None:
            self._since = time.monotonic()
            visit()
            if threading.current_thread() is not self._thread:
                return
            self._since = 0.0

    def close(self) -> None:
        """Let the thread end when it has nothing left to do."""
        if self._thread is not None:
            self._visits.put(None)


def started(thread: threading.Thread) -> bool:
    """Start a thread; returns whether there is one, because systems have limits."""
    try:
        thread.start()
    except RuntimeError:  # "can't start new thread": later there may be room for it
        return False
    return True
