"""What arms, labels and scores have done since the process started, for metrics, charts and the log of the process.

A bucket of the history is a second long at first. When there are too many, every two become one, so that the memory it
takes does not grow, and adding to it costs the same for ever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Final

from cosend.engine.arm_health import Counts
from cosend.engine.needs import Scored

LOG: Final = logging.getLogger("cosend.runtime")
MOST: Final = 240  # buckets, an even number


@dataclass
class Stretch:
    """The labels and scores of a stretch of time; what local models would have gained, where all are scored."""

    labels: int = 0
    gain: float = 0.0
    cost: float = 0.0
    local: dict[str, tuple[float, int]] = field(default_factory=dict)  # by model: its gains, and of how many

    def add(self, labels: int, gain: float, cost: float, local: Mapping[str, tuple[float, int]]) -> None:
        self.labels, self.gain, self.cost = self.labels + labels, self.gain + gain, self.cost + cost
        for name, (more, count) in local.items():
            before, of = self.local.get(name, (0.0, 0))
            self.local[name] = before + more, of + count


class History:
    """The stretches since the process started."""

    def __init__(self, clock: Callable[[], float], most: int = MOST) -> None:
        self._clock, self._most = clock, most
        self._began = clock()
        self.each_s = 1.0
        self.stretches: list[Stretch] = []

    def learnt(
        self, gains: Sequence[float], costs: Sequence[float], local: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        """Add what decisions gained and cost; `local` is what each local model gains on them, as far as known."""
        sums = {name: (fsum(values), len(values)) for name, values in (local or {}).items()}
        self._now().add(len(gains), fsum(gains), fsum(costs), sums)

    def _now(self) -> Stretch:
        place = int((self._clock() - self._began) / self.each_s)
        while place >= self._most:
            self._halve()
            place //= 2
        while len(self.stretches) <= place:
            self.stretches.append(Stretch())
        return self.stretches[place]

    def _halve(self) -> None:
        both = [*self.stretches, Stretch()] if len(self.stretches) % 2 else self.stretches
        for first, second in zip(both[::2], both[1::2], strict=True):
            first.add(second.labels, second.gain, second.cost, second.local)
        self.stretches, self.each_s = both[::2], 2 * self.each_s


@dataclass
class RunningCounts(Counts):
    """Counts that are also written to the log of the process, and kept over time."""

    history: History = field(default_factory=lambda: History(time.monotonic))

    def failed(self, arm: str, kinds: Sequence[str], reason: str) -> None:
        """Count failures of an arm; the same reason again and again would only fill the log."""
        if self.last_failures.get(arm) != reason:
            LOG.warning("arm failed", extra={"arm": arm, "reason": reason})
        super().failed(arm, kinds, reason)

    def opened(self, arm: str, reason: str) -> None:
        super().opened(arm, reason)
        LOG.warning("arm is skipped: back-off", extra={"arm": arm, "reason": reason})

    def keep(self, learnt: Scored, free: Mapping[str, float]) -> None:
        """Keep over time what labels have said, and what local models gained that cost nothing."""
        known = [n for n, gain in enumerate(learnt.gains) if gain == gain]
        if not known:
            return
        local = {name: list[float]() for name, cost in free.items() if not cost} if learnt.scores else {}
        for name, column in learnt.scores.items():
            if name in local:
                local[name] = [gain for gain in column if gain == gain]
        self.history.learnt([learnt.gains[n] for n in known], [learnt.costs[n] for n in known], local)
