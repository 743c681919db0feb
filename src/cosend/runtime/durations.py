"""How long things took, as counts by class and their sum: what a histogram of Prometheus shows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

CALL_LIMITS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Durations:
    """Counts of durations up to each of these limits, in seconds, and of all that were longer."""

    __slots__ = ("counts", "limits_s", "sum_s")

    def __init__(self, limits_s: Sequence[float] = CALL_LIMITS_S) -> None:
        self.limits_s, self.sum_s = limits_s, 0.0
        self.counts = [0] * (len(limits_s) + 1)

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.limits_s, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return how many were not longer than each limit."""
        return [*zip([*map(str, self.limits_s), "+Inf"], accumulate(self.counts), strict=True)]
