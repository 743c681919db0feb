"""Counts of arms, labels and scores since the process started, for metrics, charts and the log of the process.

It is kept in stretches of time: fine ones of the last minutes, coarser ones of the last hours and of the last day, and
as many for all of the time. When those are too many, every two become one. So its memory does not grow, and
adding to it always costs the same.
"""

from __future__ import annotations

import logging
import math
import time
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Final, NamedTuple

from cosend.algorithm.layout import EXPLOIT
from cosend.engine.arm_health import Counts
from cosend.engine.engine import Batch
from cosend.engine.needs import Scored

LOG: Final = logging.getLogger("cosend.runtime")
MOST: Final = 240  # stretches of all of the time, an even number
TIERS: Final = ((5, 60), (30, 120), (180, 120), (720, 120))  # seconds of a stretch, and how many are kept
MOST_MARKS: Final = 200
MOST_NOTED: Final = 20  # decisions of a kind
QUICKEST_S: Final = 50e-6
PER_OCTAVE, OCTAVES = 3, 21  # of times to answer: to about 100 s, each class a quarter wider than the one before
WRONG: Final = 0.5  # a decision that gains less is listed as an incorrect one


class Times:
    """How long requests took, as counts by class."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = array("L", bytes(array("L").itemsize * PER_OCTAVE * OCTAVES))

    def add(self, seconds: float) -> None:
        place = int(PER_OCTAVE * math.log2(seconds / QUICKEST_S)) if seconds > QUICKEST_S else 0
        self.counts[min(place, len(self.counts) - 1)] += 1

    def merge(self, other: Times) -> None:
        for place, count in enumerate(other.counts):
            if count:
                self.counts[place] += count

    def quantile(self, share: float) -> float | None:
        """Return the time in which this share of requests was answered; None without any."""
        left = share * sum(self.counts)
        for place, count in enumerate(self.counts):
            if count and left <= count:
                return float(QUICKEST_S * 2 ** ((place + left / count) / PER_OCTAVE))
            left -= count
        return None


@dataclass
class Stretch:
    """A stretch of time: its labels and scores, what local models would have gained where all are scored, its items."""

    labels: int = 0
    gain: float = 0.0
    cost: float = 0.0
    local: dict[str, tuple[float, int]] = field(default_factory=dict)  # by model: its gains, and of how many
    items: int = 0  # that were decided
    sent: int = 0  # of these, to peers
    explored: int = 0
    times: Times | None = None  # of requests

    def add(self, labels: int, gain: float, cost: float, local: Mapping[str, tuple[float, int]]) -> None:
        self.labels, self.gain, self.cost = self.labels + labels, self.gain + gain, self.cost + cost
        for name, (more, count) in local.items():
            before, of = self.local.get(name, (0.0, 0))
            self.local[name] = before + more, of + count

    def merge(self, other: Stretch) -> None:
        self.add(other.labels, other.gain, other.cost, other.local)
        self.items, self.sent = self.items + other.items, self.sent + other.sent
        self.explored += other.explored
        if other.times is not None:
            self.times = self.times or Times()
            self.times.merge(other.times)


class Mark(NamedTuple):
    """Something that has happened at a site."""

    at_s: float  # since the process started
    kind: str  # offline, back, backing off, works, cost, paused, resumed, mode, budget, fitted, rebuilt, joined, left
    about: str = ""  # mostly an arm
    before: str = ""
    after: str = ""


class Tier:
    """The last stretches of one length."""

    def __init__(self, each_s: int, most: int) -> None:
        self.each_s, self.first = each_s, 0  # the number of the oldest stretch
        self.stretches: deque[Stretch] = deque(maxlen=most)

    def add(self, second: int, stretch: Stretch) -> None:
        missing = second // self.each_s - self.first - len(self.stretches) + 1
        if missing > self.stretches.maxlen:  # type: ignore[operator]  # it has a length
            self.first, missing = second // self.each_s, 1
            self.stretches.clear()
        for _ in range(missing):
            self.first += len(self.stretches) == self.stretches.maxlen
            self.stretches.append(Stretch())
        self.stretches[-1].merge(stretch)


class History:
    """Counts since the process started."""

    def __init__(self, clock: Callable[[], float], most: int = MOST) -> None:
        self._clock, self._most = clock, most
        self._began = clock()
        self._all = list[Stretch]()
        self._tiers = [Tier(*each) for each in TIERS]
        self._second, self._new = 0, Stretch()  # of this second, and not entered yet
        self.each_s = 1.0
        self.marks: deque[Mark] = deque(maxlen=MOST_MARKS)
        self.fits: deque[Mark] = deque(maxlen=MOST_MARKS)  # there may be many, which must not drive out the others

    @property
    def up_s(self) -> float:
        return self._clock() - self._began

    @property
    def stretches(self) -> list[Stretch]:
        """The stretches of all of the time, each of them `each_s` long."""
        self._enter()
        return self._all

    def last(self, seconds: float) -> Tier:
        """Return the finest stretches that reach back so far."""
        self._enter()
        fine = [tier for tier in self._tiers if tier.each_s * (tier.stretches.maxlen or 0) >= seconds]
        return fine[0] if fine else self._tiers[-1]

    def learnt(
        self, gains: Sequence[float], costs: Sequence[float], local: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        """Add what decisions gained and cost; `local` is what each local model gains on them, as far as known."""
        sums = {name: (fsum(values), len(values)) for name, values in (local or {}).items()}
        self._now().add(len(gains), fsum(gains), fsum(costs), sums)

    def decided(self, items: int, sent: int, explored: int) -> None:
        now = self._now()
        now.items, now.sent, now.explored = now.items + items, now.sent + sent, now.explored + explored

    def answered(self, seconds: float) -> None:
        """Add how long a request took."""
        now = self._now()
        if now.times is None:
            now.times = Times()
        now.times.add(seconds)

    def mark(self, kind: str, about: str = "", before: str = "", after: str = "") -> None:
        made = Mark(self.up_s, kind, about, before, after)
        (self.fits if kind == "fitted" else self.marks).append(made)

    def _now(self) -> Stretch:
        second = int(self.up_s)
        if second != self._second:
            self._enter()
            self._second = second
        return self._new

    def _enter(self) -> None:
        """Enter what was added since the last time."""
        if self._new == Stretch():
            return
        for tier in self._tiers:
            tier.add(self._second, self._new)
        place = int(self._second / self.each_s)
        while place >= self._most:
            self._halve()
            place //= 2
        while len(self._all) <= place:
            self._all.append(Stretch())
        self._all[place].merge(self._new)
        self._new = Stretch()

    def _halve(self) -> None:
        both = [*self._all, Stretch()] if len(self._all) % 2 else self._all
        for first, second in zip(both[::2], both[1::2], strict=True):
            first.merge(second)
        self._all, self.each_s = both[::2], 2 * self.each_s


class Notable:
    """The numbers of the newest decisions of some kinds, so that people can look at them."""

    def __init__(self) -> None:
        self.explored: deque[int] = deque(maxlen=MOST_NOTED)
        self.sent: deque[int] = deque(maxlen=MOST_NOTED)
        self.wrong: deque[int] = deque(maxlen=MOST_NOTED)

    def decided(self, batch: Batch, rows: Sequence[int], own: Mapping[str, float]) -> None:
        """Note decisions that were answered; `own` are the local models."""
        ids, arms, kinds, errors = batch.ids, batch.arms, batch.kinds, batch.errors
        for row in rows:
            if errors and row in errors:
                continue
            if kinds[row] != EXPLOIT:
                self.explored.append(ids[row])
            if arms[row] not in own:
                self.sent.append(ids[row])

    def learnt(self, ids: Sequence[int], gains: Sequence[float]) -> None:
        self.wrong.extend(id_ for id_, gain in zip(ids, gains, strict=True) if gain < WRONG)


@dataclass
class RunningCounts(Counts):
    """Counts that are also written to the log of the process, and kept over time."""

    history: History = field(default_factory=lambda: History(time.monotonic))
    notable: Notable = field(default_factory=Notable)

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
