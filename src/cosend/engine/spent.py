"""The cost of all decisions by arm, added up without any rounding.

A decision counts from the choice of its arm, with the expected cost. The real cost replaces it as soon as the answer or
the label names it; a failure, and a missing answer, cost nothing. Sums of floats would depend on
the order in which all of this happens, and every replacement would leave a rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PARTS: Final = 1 << 1074  # of 1: every float is a whole number of these

MOST: Final = PARTS << 64


class Spent:
    """Sums by arm, of those that have left too."""

    def __init__(self, parts: Mapping[str, int] | None = None) -> None:
        self._parts = {} if parts is None else dict(parts)

    def add(self, arm: str, cost: float, count: int = 1) -> None:
        """Count decisions of an arm that cost this much each."""
        if cost:
            self._parts[arm] = self._parts.get(arm, 0) + count * _in_parts(cost)

    def replace(self, arm: str, before: float | None, after: float) -> None:
        """Count another cost of a decision than before; None: it had none."""
        if before != after:
            self.add(arm, after)
            self.add(arm, before or 0.0, -1)

    def of(self, arm: str) -> float:
        return self._parts.get(arm, 0) / PARTS

    def by_arm(self) -> dict[str, float]:
        return {arm: parts / PARTS for arm, parts in self._parts.items()}

    def total(self) -> float:
        return sum(self._parts.values()) / PARTS

    def copy(self) -> Spent:
        return Spent(self._parts)

    def facts(self) -> dict[str, str]:
        """Return everything as plain data: whole numbers that many a reader of JSON would round."""
        return {arm: hex(parts) for arm, parts in sorted(self._parts.items()) if parts}

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Spent:
        """Return the sums that `facts` were taken from."""
        sums = {str(arm): int(parts, 16) for arm, parts in facts.items()}
        if not all(0 <= parts < MOST for parts in sums.values()):
            raise ValueError("it has spent less than nothing, or more than can be")
        return cls(sums)


def _in_parts(cost: float) -> int:
    numerator, denominator = float(cost).as_integer_ratio()
    return numerator * (PARTS // denominator)
