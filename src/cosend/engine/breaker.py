"""Circuit breakers: an arm that keeps failing is skipped for a while, probed with one call, and used again if it works.

    closed       the arm is used
    open         it is skipped, for `first`, twice, four times as long, ... up to `longest`, as long as it keeps failing
    half open    the time is over: one call may find out whether it works again

Time is whatever the driver counts in: items for a `Site`, so that the same items and failures give the same decisions,
seconds for a service. Which arms were skipped in a choice is part of its event, so a log gives the same decisions
either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

Position = Literal["closed", "open", "half open"]
OPENS_AFTER: Final = 3  # failures in a row: one alone may be the item's fault
NO_ARMS: Final[frozenset[str]] = frozenset()


class BackOff(NamedTuple):
    """How long an arm is skipped at first, and at most, in the driver's time."""

    first: float
    longest: float


IN_ITEMS: Final = BackOff(2, 64)  # so an arm that has recovered is soon found out
IN_SECONDS: Final = BackOff(1.0, 60.0)


class Breaker:
    """The breaker of one arm."""

    __slots__ = ("failures", "probing", "reason", "skipped", "until")

    def __init__(self) -> None:
        self.failures = 0  # in a row
        self.reason = ""  # of the last failure
        self.skipped = 0.0  # for how long now, 0 while closed
        self.until = 0.0
        self.probing = False


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
        """Take note that nobody will hear the end of any call."""
        for breaker in self._breakers.values():
            breaker.probing = False

    def worked(self, arm: str) -> None:
        if self._breakers:
            self._breakers.pop(arm, None)

    def failed(self, arm: str, now: float, reason: str) -> bool:
        """Take note that a call has failed; returns whether the breaker has just opened."""
        breaker = self._breakers.setdefault(arm, Breaker())
        breaker.failures += 1
        breaker.reason = reason
        if not breaker.skipped and breaker.failures < OPENS_AFTER:
            return False
        opened = not breaker.skipped
        if opened or now >= breaker.until:  # calls that were in flight when it opened say nothing new
            breaker.skipped = min(self.back_off.longest, 2 * breaker.skipped or self.back_off.first)
            breaker.until, breaker.probing = now + breaker.skipped, False
        return opened
