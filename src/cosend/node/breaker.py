"""Breakers: an arm that keeps failing is left out for a while, then tried with one call, and trusted again if it works.

    closed       the arm is used
    open         it is left out, for 1 s, 2 s, 4 s, ... up to a minute, as long as it goes on failing
    half open    the time is over: one call may find out whether it works again

Time is the only thing here that a log does not tell. So which arms were left out of a choice stands in its event, and
a log gives the same decisions again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

Position = Literal["closed", "open", "half open"]
OPENS_AFTER: Final = 3  # failures in a row: one alone may be the item's fault
FIRST_REST_S: Final = 1.0
LONGEST_REST_S: Final = 60.0


class Breaker:
    """The breaker of one arm."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.failures = 0  # in a row
        self.reason = ""  # of the last failure
        self.rest_s = 0.0
        self._until = 0.0
        self._trying = False

    @property
    def position(self) -> Position:
        """Where it stands."""
        if not self.rest_s:
            return "closed"
        return "open" if self._clock() < self._until else "half open"

    def lets_through(self) -> bool:
        """Tell whether the arm may be chosen now."""
        return not self.rest_s or (not self._trying and self._clock() >= self._until)

    def used(self) -> None:
        """Take note that the arm is called: while it is half open, no second call follows before the first is back.

        A call before that, because no other arm is left, is none that finds out.
        """
        self._trying = bool(self.rest_s) and self._clock() >= self._until

    def forget_try(self) -> None:
        """Take note that nobody will hear what became of the call."""
        self._trying = False

    def worked(self) -> None:
        """Take note that the arm has answered."""
        self.failures, self.rest_s, self._trying = 0, 0.0, False

    def failed(self, reason: str) -> bool:
        """Take note that a call has failed; returns whether the breaker has opened just now."""
        self.failures += 1
        self.reason = reason
        if not self.rest_s and self.failures < OPENS_AFTER:
            return False
        opened, half_open = not self.rest_s, self._clock() >= self._until
        if opened or half_open:  # calls that were under way when it opened say nothing new
            self.rest_s = min(LONGEST_REST_S, 2 * self.rest_s or FIRST_REST_S)
            self._until, self._trying = self._clock() + self.rest_s, False
        return opened


class Breakers:
    """The breakers of all arms."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._breakers: dict[str, Breaker] = {}

    def of(self, arm: str) -> Breaker:
        """Return the breaker of an arm."""
        if arm not in self._breakers:
            self._breakers[arm] = Breaker(self._clock)
        return self._breakers[arm]

    def forget_tries(self) -> None:
        """Take note that nobody will hear what became of any call."""
        for breaker in self._breakers.values():
            breaker.forget_try()

    def out(self, arms: Iterable[str]) -> frozenset[str]:
        """Return those of the arms that are left out now."""
        return frozenset(arm for arm in arms if arm in self._breakers and not self._breakers[arm].lets_through())
