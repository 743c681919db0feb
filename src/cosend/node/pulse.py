"""How long the event loop was held: while something holds it, nobody is answered."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from typing import Final

BEAT_S: Final = 0.01
LIMITS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Pulse:
    """Beats in the loop, and counts how late every beat comes: as late as whatever held the loop took."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LIMITS_S) + 1)  # of beats by how late they were, behind the last limit all others
        self.sum_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def begin(self) -> None:
        """Beat from now on, in the loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._next()

    def _next(self) -> None:
        self._due = self._loop.time() + BEAT_S
        self._timer = self._loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        late_s = max(0.0, self._loop.time() - self._due)
        self.counts[bisect_left(LIMITS_S, late_s)] += 1
        self.sum_s += late_s
        self._next()

    def end(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()
