"""Arms that have failed and are left alone for a while: for 1 item, 2, 4, ... as long as they go on failing.

The while is counted in items and not in seconds, so that the same items and failures give the same decisions.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = 64  # items: so an arm that has recovered is soon found out
NOBODY: Final[frozenset[str]] = frozenset()


class Backoff:
    """Which arms are left alone now."""

    def __init__(self) -> None:
        self._rests: dict[str, tuple[int, int]] = {}  # arm -> failures in a row, the item with which it may come back

    def failed(self, arm: str, items: int) -> None:
        """Leave an arm alone that has failed when so many items had come: twice as long as the last time."""
        failures = self._rests.get(arm, (0, 0))[0] + 1
        self._rests[arm] = failures, items + min(LONGEST, 1 << min(failures, 30))

    def worked(self, arm: str) -> None:
        """Trust an arm again that has answered."""
        if self._rests:
            self._rests.pop(arm, None)

    def resting(self, items: int) -> frozenset[str]:
        """Return the arms that are left alone when so many items have come."""
        if not self._rests:
            return NOBODY
        return frozenset(arm for arm, (_, until) in self._rests.items() if items < until)
