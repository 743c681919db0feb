"""How the arms of a site are doing: what each has decided, gained and failed at, and which are skipped meanwhile.

A circuit breaker skips an arm that keeps failing, probes it with one call, and closes if that works:

    closed       the arm is used
    open         it is skipped, for `first`, twice, four times as long, ... up to `longest`, as long as it keeps failing
    half open    the time is over: one call may find out whether it works again

An arm that asks for a pause is skipped at once, and at least until the pause ends: calls that are
already in flight may still succeed, which does not end it.

Time is whatever the driver counts in: items for a `Site`, so that the same items and failures give the same decisions,
seconds for a service. Which arms were skipped in a choice is part of its event, so a log gives the same decisions
either way. The counts change no decision: they are for summaries and metrics.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from cosend.algorithm.learner import PHASES

Position = Literal["closed", "open", "half open"]
OPENS_AFTER: Final = 3  # failures in a row: one alone may be the item's fault
NO_ARMS: Final[frozenset[str]] = frozenset()
PHASE_NAMES: Final = {kind: phase.name.lower() for kind, phase in PHASES.items()}
RECENT: Final = 0.001  # weight of the newest label in the running error and reward


class BackOff(NamedTuple):
    """How long an arm is skipped at first, and at most, in the driver's time."""

    first: float
    longest: float
    second: float = 0.0  # what a second is in that time; 0 where it knows none


IN_ITEMS: Final = BackOff(2, 64)  # so an arm that has recovered is soon found out
IN_SECONDS: Final = BackOff(1.0, 60.0, 1.0)


class Breaker:
    """The breaker of one arm."""

    __slots__ = ("failures", "held", "probing", "reason", "skipped", "until")

    def __init__(self) -> None:
        self.failures = 0  # in a row
        self.reason = ""  # of the last failure
        self.skipped = 0.0  # for how long now, 0 while closed
        self.until = 0.0
        self.probing = False
        self.held = False  # the arm has asked for it


class Breakers:
    """The breakers of all arms; those that never failed have none."""

    def __init__(self, back_off: BackOff, rows: Iterable[Sequence[Any]] = ()) -> None:
        self.back_off = back_off
        self._breakers: dict[str, Breaker] = {}
        for arm, failures, skipped, until, reason in rows:
            breaker = self._breakers[str(arm)] = Breaker()
            breaker.failures, breaker.skipped, breaker.until = int(failures), float(skipped), float(until)
            breaker.reason = str(reason)

    def rows(self) -> list[list[Any]]:
        """Return [arm, failures in a row, how long it is skipped, until when, why] of every arm that has failed."""
        return [[arm, b.failures, b.skipped, b.until, b.reason] for arm, b in self._breakers.items()]

    def position(self, arm: str, now: float) -> Position:
        breaker = self._breakers.get(arm)
        if breaker is None or not breaker.skipped:
            return "closed"
        return "open" if now < breaker.until else "half open"

    def skipped(self, now: float) -> frozenset[str]:
        if not self._breakers:
            return NO_ARMS
        return frozenset(
            arm for arm, each in self._breakers.items() if each.skipped and (each.probing or now < each.until)
        )

    def reasons(self, now: float) -> dict[str, str]:
        return {arm: self._breakers[arm].reason for arm in self.skipped(now)}

    def is_failing(self, arm: str) -> bool:
        return arm in self._breakers

    def used(self, arms: Iterable[str], now: float) -> None:
        """Take note that arms are called: while half open, no second call follows before the first is back.

        A call before that, because no other arm is left, is not a probe.
        """
        if self._breakers:
            for breaker in filter(None, map(self._breakers.get, arms)):
                breaker.probing = bool(breaker.skipped) and now >= breaker.until

    def forget_probe(self, arm: str) -> None:
        """Take note that the call said nothing about the arm."""
        if arm in self._breakers:
            self._breakers[arm].probing = False

    def forget_probes(self) -> None:
        """Take note that the results of all calls in flight are lost."""
        for breaker in self._breakers.values():
            breaker.probing = False

    def worked(self, arm: str) -> None:
        if self._breakers:
            breaker = self._breakers.get(arm)
            if breaker is not None and (breaker.probing or not breaker.held):
                del self._breakers[arm]

    def forget(self, arm: str) -> None:
        self._breakers.pop(arm, None)

    def failed(self, arm: str, now: float, reason: str, wait_s: float = 0.0) -> bool:
        """Take note that a call has failed; returns whether the breaker has just opened.

        wait_s  how long a pause the arm asks for
        """
        breaker = self._breakers.setdefault(arm, Breaker())
        breaker.failures += 1
        breaker.reason = reason
        breaker.held = breaker.held or wait_s > 0
        if not breaker.skipped and breaker.failures < OPENS_AFTER and not wait_s:
            return False
        opened = not breaker.skipped
        if opened or now >= breaker.until:  # calls that were in flight when it opened say nothing new
            breaker.skipped = min(self.back_off.longest, 2 * breaker.skipped or self.back_off.first)
            breaker.until, breaker.probing = now + breaker.skipped, False
        breaker.until = max(breaker.until, now + wait_s * self.back_off.second)
        return opened


@dataclass(slots=True)
class Scores:
    """Decisions of one arm whose label or score has come: how many, what they gained and cost, and how many were right.

    Whether one was right is known by a label only.
    """

    labels: int = 0  # and scores
    scores: int = 0  # these alone
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
    labels: Counter[str] = field(default_factory=Counter)  # learnt, duplicate, unknown, expired, missing; scores too
    scored_by_hand: int = 0  # of those that were learnt: scores instead of labels
    scores: defaultdict[str, Scores] = field(default_factory=lambda: defaultdict(Scores))  # by arm
    opinions: Counter[str] = field(default_factory=Counter)  # by model: labels that scored its opinion too
    served: Counter[str] = field(default_factory=Counter)  # answers, by the peer that asked
    taught: Counter[str] = field(default_factory=Counter)  # labels of these that have come
    unanswered: int = 0
    rebuilt: int = 0
    error: float | None = None  # of about the last thousand labels
    score: float | None = None  # the mean of about the last thousand scores
    gain: float | None = None  # of both
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
        self, arms: Sequence[str], right: Iterable[bool | None], gains: Sequence[float], costs: Sequence[float]
    ) -> None:
        """Count by arm which decisions were right, and what they gained and cost; no answer does not count.

        right  None for a score
        """
        before = self.labels["learnt"]
        scores_before = self.scored_by_hand
        count, gained, paid, labels, was_right, by_hand, scored = 0, 0.0, 0.0, 0, 0, 0, 0.0
        for arm, is_right, gain, cost in zip(arms, right, gains, costs, strict=True):
            self.scored_by_hand += is_right is None
            if gain == gain:
                each = self.scores[arm]
                each.labels += 1
                each.gain += gain
                each.cost += cost
                count, gained, paid = count + 1, gained + gain, paid + cost
                if is_right is None:
                    each.scores += 1
                    by_hand, scored = by_hand + 1, scored + gain
                else:
                    each.right += is_right
                    labels, was_right = labels + 1, was_right + is_right
        self.labels["learnt"] = before + len(gains)
        if count:
            self.gain = _moved(self.gain, gained / count, count, before)
            self.reward = _moved(self.reward, (gained - paid) / count, count, before)
        if labels:
            self.error = _moved(self.error, 1.0 - was_right / labels, labels, before - scores_before)
        if by_hand:
            self.score = _moved(self.score, scored / by_hand, by_hand, scores_before)

    @property
    def only_scores(self) -> bool:
        """Whether nothing but scores has come, and no label."""
        return 0 < self.scored_by_hand == self.labels["learnt"]

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


def _moved(mean: float | None, value: float, count: int, before: int) -> float:
    """Return the mean of about the last thousand after `count` more, whose own mean this is, and `before` others."""
    weight = max(1 - (1 - RECENT) ** count, count / (before + count))
    return value if mean is None else mean + weight * (value - mean)
