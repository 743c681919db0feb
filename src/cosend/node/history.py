"""What labels have said since the process started, in a few hundred stretches of time.

A stretch is a second long at first. When there are too many, every two become one, so that the memory it takes does not
grow, and adding to it costs the same for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Final

MOST: Final = 240  # stretches, an even number


@dataclass
class Stretch:
    """The labels that came in a stretch of time; what local classifiers would have gained, where all are scored."""

    labels: int = 0
    gain: float = 0.0
    cost: float = 0.0
    local: dict[str, tuple[float, int]] = field(default_factory=dict)  # by classifier: its gains, and of how many

    def add(self, labels: int, gain: float, cost: float, local: Mapping[str, tuple[float, int]]) -> None:
        """Add what labels have said."""
        self.labels, self.gain, self.cost = self.labels + labels, self.gain + gain, self.cost + cost
        for name, (more, count) in local.items():
            before, of = self.local.get(name, (0.0, 0))
            self.local[name] = before + more, of + count


class History:
    """The stretches since the process started."""

    def __init__(self, clock: Callable[[], float], most: int = MOST) -> None:
        self._clock, self._most = clock, most
        self._began = clock()
        self.each_s = 1.0
        self.stretches: list[Stretch] = []

    def learnt(
        self, gains: Sequence[float], costs: Sequence[float], local: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        """Add what decisions gained and cost; `local` is what each local classifier gains on them, as far as known."""
        sums = {name: (fsum(values), len(values)) for name, values in (local or {}).items()}
        self._now().add(len(gains), fsum(gains), fsum(costs), sums)

    def _now(self) -> Stretch:
        place = int((self._clock() - self._began) / self.each_s)
        while place >= self._most:
            self._halve()
            place //= 2
        while len(self.stretches) <= place:
            self.stretches.append(Stretch())
        return self.stretches[place]

    def _halve(self) -> None:
        both = [*self.stretches, Stretch()] if len(self.stretches) % 2 else self.stretches
        for first, second in zip(both[::2], both[1::2], strict=True):
            first.add(second.labels, second.gain, second.cost, second.local)
        self.stretches, self.each_s = both[::2], 2 * self.each_s
