"""The window of one estimate: sums of rewards, and where they changed (exactness: Arms that change)."""

import math
from dataclasses import dataclass, field

LONGEST = 2**23  # of a sum, in rewards
FEWEST = 4  # rewards in a window before a change is looked for
MARGIN = 6.0


def nh(s: float, n: int) -> float:
    """Return the entropy of n rewards that add up to s, times n."""
    if s <= 0 or s >= n:
        return 0.0
    return n * math.log(n) - s * math.log(s) - (n - s) * math.log(n - s)


@dataclass
class Window:
    """Sums of 1, 2, 4, ... consecutive rewards as pairs (length, sum), newest first, at most two of each length."""

    sums: list[tuple[int, float]] = field(default_factory=list)
    count: int = 0  # H
    total: float = 0.0  # G

    def enter(self, x: float) -> bool:
        """Take one more reward; tell whether the arm has changed, so that only the newest rewards are kept."""
        self.count += 1
        self.total += x
        top = self._append(x)
        split = self._find_change(top) if self.count >= FEWEST else None
        if split is not None:
            self._keep(split / 2)
        return split is not None

    def gain(self, n2: int, s2: float) -> float:
        """Return how much better two coins explain the window than one: the newest n2 rewards add up to s2."""
        return nh(self.total, self.count) - nh(self.total - s2, self.count - n2) - nh(s2, n2)

    def rise(self) -> tuple[float, int] | None:
        """Return the mean that the newer half promises, and its length, if it is clearly better than the older half."""
        if self.count < FEWEST:
            return None
        n2, s2 = 0, 0.0
        for length, value in self.sums:
            if 2 * n2 >= self.count:
                break
            n2, s2 = n2 + length, s2 + value
        if n2 >= self.count:
            return None
        newer, older = s2 / n2, (self.total - s2) / (self.count - n2)
        if newer > older and self.gain(n2, s2) > 1:
            return min(1.0, newer + (newer - older)), n2
        return None

    def _append(self, x: float) -> int:
        """Add a sum of length 1, add up older ones as long as there is a third; return the longest that is new."""
        new = (1, x)
        while True:
            length = new[0]
            shorter = [pair for pair in self.sums if pair[0] < length]
            same = [new, *(pair for pair in self.sums if pair[0] == length)]
            longer = [pair for pair in self.sums if pair[0] > length]
            self.sums = [*shorter, *same[:1], *longer] if len(same) == 3 else [*shorter, *same, *longer]
            if len(same) < 3:
                return length
            older = (2 * length, same[2][1] + same[1][1])
            if length == LONGEST:
                self.count -= older[0]
                self.total -= older[1]
                return length
            new = older

    def _find_change(self, top: int) -> int | None:
        best, split = 2 * math.log(self.count) + MARGIN, None
        n2, s2 = 0, 0.0
        for length, value in self.sums:
            n2, s2 = n2 + length, s2 + value
            if length > top or n2 >= self.count:
                break
            g = self.gain(n2, s2)
            if g > best:
                best, split = g, n2
        return split

    def _keep(self, most: float) -> None:
        """Forget all but the newest sums, no longer than this together."""
        sums, self.sums, self.count, self.total = self.sums, [], 0, 0.0
        for length, value in sums:
            if self.count + length > most:
                break
            self.sums.append((length, value))
            self.count += length
            self.total += value
