"""What the arms of a site have done since it was built, loaded or started: for summaries and metrics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cosend.algorithm.learner import PHASES

PHASE_NAMES: Final = {kind: phase.name.lower() for kind, phase in PHASES.items()}
RECENT: Final = 0.001  # weight of the newest label in the running error and reward


@dataclass(slots=True)
class Scores:
    """Decisions of one arm whose true label has come: how many, how many were right, what they gained and cost."""

    labels: int = 0
    right: int = 0
    gain: float = 0.0
    cost: float = 0.0


@dataclass
class Counts:
    """Counted in this process; a saved state does not have it."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)  # by arm and phase
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # by arm and kind: error, label, time, ...
    last_failures: dict[str, str] = field(default_factory=dict)  # by arm: why
    openings: Counter[str] = field(default_factory=Counter)  # of breakers, by arm
    labels: Counter[str] = field(default_factory=Counter)  # learnt, duplicate, unknown, expired, missing
    scores: defaultdict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))  # by arm
    opinions: Counter[str] = field(default_factory=Counter)  # by model: labels that scored what it said beside the arm
    served: Counter[str] = field(default_factory=Counter)  # answers, by the peer that asked
    taught: Counter[str] = field(default_factory=Counter)  # labels of these that have come
    unanswered: int = 0
    rebuilt: int = 0
    error: float | None = None  # of about the last thousand labels
    reward: float | None = None

    def decided(self, arm: str, kinds: Sequence[int]) -> None:
        if len(kinds) == 1:
            self.decisions[arm, PHASE_NAMES[kinds[0]]] += 1
            return
        for kind, count in Counter(kinds).items():
            self.decisions[arm, PHASE_NAMES[kind]] += count

    def failed(self, arm: str, kinds: Sequence[str], reason: str) -> None:
        for kind in kinds:
            self.failures[arm, kind] += 1
        self.last_failures[arm] = reason

    def opened(self, arm: str, reason: str) -> None:
        self.openings[arm] += 1

    def decisions_of(self, arms: Iterable[str]) -> int:
        names = {*arms}
        return sum(count for (arm, _), count in self.decisions.items() if arm in names)

    def failures_of(self, arm: str) -> int:
        return sum(count for (name, _), count in self.failures.items() if name == arm)

    def learnt(
        self, arms: Sequence[str], right: Iterable[bool], gains: Sequence[float], costs: Sequence[float]
    ) -> None:
        """Count by arm which decisions were right, and what they gained and cost; no answer does not count."""
        before = self.labels["learnt"]
        self.labels["learnt"] = before + len(gains)
        count, gained, paid, scores = 0, 0.0, 0.0, self.scores
        for arm, is_right, gain, cost in zip(arms, right, gains, costs, strict=True):
            if gain == gain:
                each = scores[arm]
                each.labels += 1
                each.right += is_right
                each.gain += gain
                each.cost += cost
                count, gained, paid = count + 1, gained + gain, paid + cost
        if count:
            weight = max(1 - (1 - RECENT) ** count, count / (before + count))
            self.error = _moved(self.error, 1.0 - gained / count, weight)
            self.reward = _moved(self.reward, (gained - paid) / count, weight)

    def scored(self, arms: Sequence[str], scores: Mapping[str, Sequence[float]]) -> None:
        """Count by model the labels that scored its opinion while another arm was used."""
        for model, gains in scores.items():
            for arm, gain in zip(arms, gains, strict=True):
                if gain == gain and arm != model:
                    self.opinions[model] += 1

    def labels_of(self, arm: str) -> int:
        """Return how many decisions of an arm have got their label."""
        return self.scores[arm].labels if arm in self.scores else 0

    def mean_reward(self, arms: Iterable[str]) -> float | None:
        """Return the mean reward of all labels of these arms; None without any."""
        found = [self.scores[arm] for arm in [*arms] if arm in self.scores]
        labels = sum(each.labels for each in found)
        return sum(each.gain - each.cost for each in found) / labels if labels else None


def _moved(mean: float | None, value: float, weight: float) -> float:
    return value if mean is None else mean + weight * (value - mean)
