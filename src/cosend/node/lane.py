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

STALLED_S: Final = 0.01  # of one visit: then another thread goes on with the others


class Lane:
    """A thread that visits models; it is replaced if it does not come back from one."""

    def __init__(self) -> None:
        self._visits: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._since = 0.0  # when the visit began that goes on, 0 between visits

    def visit(self, visit: Callable[[], None]) -> None:
        """Have a visit made soon, in the thread."""
        if self._thread is None:
            self._start()
        self._visits.put(visit)

    @property
    def is_stalled(self) -> bool:
        """Whether a visit takes so long that others should not wait for it."""
        since = self._since
        return bool(since) and time.monotonic() - since > STALLED_S

    def look(self) -> None:
        """Let another thread go on if this one does not come back; its last visit ends whenever it does."""
        if self.is_stalled:
            self._since = 0.0
            self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="quick models", daemon=True)
        self._thread.start()

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
