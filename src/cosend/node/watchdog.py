"""What notices that a site does not move, though it should: its event loop, its decisions, or its disk."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from typing import Final

LOG: Final = logging.getLogger("cosend.node")
STUCK_S: Final = 30.0  # beyond what models and peers may take: a disk may be slow, but not for so long
HELD_S: Final = 5.0  # that one callback may hold the event loop before that is said


class Standstill:
    """How long something has not moved while somebody waits for it."""

    def __init__(self) -> None:
        self._moves, self._since = -1, 0.0

    def seconds(self, moves: int, *, awaited: bool) -> float:
        """Return how long the number of moves has been the same, 0 if nobody waits."""
        now = time.monotonic()
        if not awaited or moves != self._moves:
            self._moves, self._since = moves, now
        return now - self._since


class LoopWatch:
    """A thread that says in the log what holds the event loop: as long as it is held, nobody else could say it.

    `beat` is called in the thread of the loop, again and again.
    """

    def __init__(self) -> None:
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._last = time.monotonic()
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def beat(self) -> None:
        """Take note that the loop moves."""
        self._last = time.monotonic()

    def close(self) -> None:
        """Watch no longer."""
        self._ended.set()

    def _watch(self) -> None:
        said = 0.0  # the beat after which the loop was held, when that was said
        while not self._ended.wait(HELD_S / 4) and not self._loop.is_closed():
            last = self._last
            if said and last != said:
                LOG.warning("the event loop moves again", extra={"held_s": round(last - said, 1)})
                said = 0.0
            elif not said and time.monotonic() - last > HELD_S:
                said = last
                frame = sys._current_frames().get(self._loop_thread)
                stack = "".join(traceback.format_stack(frame)) if frame is not None else "not known"
                LOG.error("the event loop is held: the site answers nobody meanwhile", extra={"stack": stack})
