"""What a running site has done since it was started: numbers for metrics, summaries and logs."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from operator import ne
from typing import Final

from cosend.node.flight import PHASE_NAMES
from cosend.node.history import History

LOG: Final = logging.getLogger("cosend.node")
RECENT: Final = 0.001  # weight of the newest label in the running error and reward


@dataclass(slots=True)
class Scores:
    """Of decisions of one arm whose label has come: how many, how many were right, what they gained and cost."""

    labels: int = 0
    right: int = 0
    gain: float = 0.0
    cost: float = 0.0


@dataclass
class Counts:
    """Counted since the process started, not since the site was made."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)  # by arm and phase
    failures: Counter[str] = field(default_factory=Counter)  # by arm
    failures_by_kind: Counter[tuple[str, str]] = field(
        default_factory=Counter
    )  # by arm, and error, label, time, network, item or lesson
    openings: Counter[str] = field(default_factory=Counter)  # of breakers, by arm
    labels: Counter[str] = field(default_factory=Counter)  # learnt, duplicate, unknown, expired, missing
    scores: defaultdict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))  # by arm
    served: Counter[str] = field(default_factory=Counter)  # items that were answered, by the peer that asked
    taught: Counter[str] = field(default_factory=Counter)  # labels of these that have come
    unanswered: int = 0
    rebuilt: int = 0
    error: float | None = None  # of the last thousand labels or so
    reward: float | None = None
    last_failures: dict[str, str] = field(default_factory=dict)
    history: History = field(default_factory=lambda: History(time.monotonic))

    def decided(self, arm: str, kinds: Sequence[int]) -> None:
        """Count decisions that an arm has labelled."""
        for kind, count in Counter(kinds).items():
            self.decisions[arm, PHASE_NAMES[kind]] += count

    def failed(self, arm: str, count: int, kind: str, reason: str) -> None:
        """Count failures of an arm: with an error, a label that is none, by taking too much time, or in learning."""
        self.failures[arm] += count
        self.failures_by_kind[arm, kind] += count
        if self.last_failures.get(arm) != reason:  # the same one again and again would only fill the log
            LOG.warning("arm failed", extra={"arm": arm, "reason": reason})
        self.last_failures[arm] = reason

    def opened(self, arm: str, reason: str) -> None:
        """Count that the breaker of an arm has opened."""
        self.openings[arm] += 1
        LOG.warning("arm left out for a while", extra={"arm": arm, "reason": reason})

    def learnt(
        self, gains: Sequence[float], costs: Sequence[float], local: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        """Count what decisions gained and cost, and what local classifiers gain on them, as far as that is known.

        Of those that nobody had an answer for, it is known only that their labels came.
        """
        before = self.labels["learnt"]
        self.labels["learnt"] += len(gains)
        if any(map(ne, gains, gains)):
            costs = [cost for gain, cost in zip(gains, costs, strict=True) if gain == gain]
            gains = [gain for gain in gains if gain == gain]
            if not gains:
                return
        count, gain, cost = len(gains), fsum(gains) / len(gains), fsum(costs) / len(costs)
        weight = max(1 - (1 - RECENT) ** count, count / (before + count))
        self.error = _moved(self.error, 1.0 - gain, weight)
        self.reward = _moved(self.reward, gain - cost, weight)
        self.history.learnt(gains, costs, local)

    def scored(
        self, arms: Iterable[str], right: Iterable[bool], gains: Iterable[float], costs: Iterable[float]
    ) -> None:
        """Count by arm which decisions were right, and what they gained and cost; no answer does not count."""
        for arm, is_right, gain, cost in zip(arms, right, gains, costs, strict=True):
            if gain != gain:
                continue
            scores = self.scores[arm]
            scores.labels += 1
            scores.right += is_right
            scores.gain += gain
            scores.cost += cost


def _moved(mean: float | None, value: float, weight: float) -> float:
    """Return a running mean after a new value."""
    return value if mean is None else mean + weight * (value - mean)
