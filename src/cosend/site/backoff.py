"""Arms that have failed and are left alone for a while: for 2 items, 4, 8, ... as long as they go on failing.

The while is counted in items and not in seconds, so that the same items and failures give the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

LONGEST: Final = 64  # items: so an arm that has recovered is soon found out
NO_ARMS: Final[frozenset[str]] = frozenset()


class Backoff:
    """Which arms are left alone now."""

    def __init__(self, rows: Iterable[Sequence[Any]] = ()) -> None:
        # arm -> failures in a row, the item with which it may come back, and why it failed the last time
        self._rests = {str(arm): (int(failures), int(until), str(reason)) for arm, failures, until, reason in rows}

    def failed(self, arm: str, items: int, reason: str) -> None:
        """Leave an arm alone that has failed when so many items had come: twice as long as the last time."""
        failures = self._rests.get(arm, (0, 0, ""))[0] + 1
        self._rests[arm] = failures, items + min(LONGEST, 1 << min(failures, 30)), reason

    def reason(self, arm: str) -> str:
        """Return why an arm failed the last time."""
        return self._rests[arm][2]

    def rows(self) -> list[list[Any]]:
        """Return [arm, failures in a row, the item with which it may come back, why] of every arm."""
        return [[arm, *rest] for arm, rest in self._rests.items()]

    def worked(self, arm: str) -> None:
        """Trust an arm again that has answered."""
        if self._rests:
            self._rests.pop(arm, None)

    def resting(self, items: int) -> frozenset[str]:
        """Return the arms that are left alone when so many items have come."""
        if not self._rests:
            return NO_ARMS
        return frozenset(arm for arm, (_, until, _) in self._rests.items() if items < until)
