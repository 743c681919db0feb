"""Notices that a site is stuck: its event loop, its decisions, or its disk."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from typing import Final

from cosend.runtime.durations import Durations

LOG: Final = logging.getLogger("cosend.runtime")
STUCK_S: Final = 30.0  # beyond what models and peers may take: a disk may be slow, but not for so long
HELD_S: Final = 5.0  # that one callback may hold the event loop before that is said

BEAT_S: Final = 0.01
LIMITS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # of the histogram


class Standstill:
    """How long something has made no progress while a client waits for it."""

    def __init__(self) -> None:
        self._moves, self._since = -1, 0.0

    def seconds(self, moves: int, *, awaited: bool) -> float:
        """Return how long the number of moves has been the same, 0 if no client waits."""
        now = time.monotonic()
        if not awaited or moves != self._moves:
            self._moves, self._since = moves, now
        return now - self._since


class Pulse:
    """Beats in the event loop: it counts how late every beat comes, and a thread says in the log what holds the loop.

    A beat is as late as the loop was held. While the loop is held, only another thread can log it.
    """

    def __init__(self) -> None:
        self.late = Durations(LIMITS_S)  # of every beat
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()

    def begin(self) -> None:
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._next()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _next(self) -> None:
        self._last = self._loop.time()
        self._timer = self._loop.call_at(self._last + BEAT_S, self._beat)

    def _beat(self) -> None:
        self.late.add(max(0.0, self._loop.time() - self._last - BEAT_S))
        self._next()

    def end(self) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        said = 0.0  # the beat after which the loop was held, when that was said
        while not self._ended.wait(HELD_S / 4) and not self._loop.is_closed():
            last = self._last
            if said and last != said:
                LOG.warning("the event loop continues", extra={"held_s": round(last - said, 1)})
                said = 0.0
            elif not said and self._loop.time() - last > HELD_S:
                said = last
                frame = sys._current_frames().get(self._loop_thread)
                stack = "".join(traceback.format_stack(frame)) if frame is not None else "not known"
                LOG.error("the event loop is blocked: the site answers no requests", extra={"stack": stack})
