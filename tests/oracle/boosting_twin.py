"""The slow twin of `algorithm/boosting.py`, written from exactness: Learnt arms. Every split of every leaf is tried."""

import math
from collections.abc import Sequence
from typing import Any

BINS = 64
SMALL = 15, 20  # leaves, items in a leaf at least
LARGE = 63, 10
LEAST_CURVATURE = 0.001
NOTHING = (0.0, 0.0, 0)

Sums = dict[tuple[int, int], tuple[float, float, int]]  # by axis and bin: gradients, curvatures, items
Split = tuple[float, int, int, bool]  # its gain, the axis, the last bin on the left, whether missing values go there


class Leaf:
    """Some items, and what they come to; a tree is its root, whose leaves may have become splits."""

    def __init__(self, items: Sequence[int], sums: Sums, axes: int, least_items: int) -> None:
        self.items, self.sums, self.axes, self.least_items = items, sums, axes, least_items
        self.children: tuple[Leaf, Leaf] | None = None
        self.best: Split | None = None
        gradient = curvature = 0.0
        for place in range(BINS + 1):  # of the first axis
            own = sums.get((0, place), NOTHING)
            gradient, curvature = gradient + own[0], curvature + own[1]
        self.gradient, self.curvature = gradient, curvature
        self.value = 0.1 * gradient / max(curvature, LEAST_CURVATURE)

    def gain_of(self, axis: int, cut: int, *, missing_left: bool) -> float:
        """Return what a split gains; nothing if one side is too small."""
        gradient, curvature, count = 0.0, 0.0, 0
        for place in ([BINS] if missing_left else []) + [*range(cut + 1)]:
            if self.has(axis, place):
                own = self.sums[axis, place]
                gradient, curvature, count = gradient + own[0], curvature + own[1], count + own[2]
        right_gradient, right_curvature = self.gradient - gradient, self.curvature - curvature
        if min(count, len(self.items) - count) < self.least_items or min(curvature, right_curvature) < LEAST_CURVATURE:
            return 0.0
        whole = self.gradient * self.gradient / max(self.curvature, LEAST_CURVATURE)
        left, right = gradient * gradient / curvature, right_gradient * right_gradient / right_curvature
        return left + right - whole

    def has(self, axis: int, place: int) -> bool:
        return self.sums.get((axis, place), NOTHING)[2] > 0

    def best_split(self) -> Split:
        best: Split = (0.0, 0, 0, False)
        for axis in range(self.axes):
            for missing_left in (False, True):
                if missing_left and not self.has(axis, BINS):
                    continue
                for cut in range(BINS):
                    if self.has(axis, cut):
                        gain = self.gain_of(axis, cut, missing_left=missing_left)
                        if gain > best[0]:
                            best = (gain, axis, cut, missing_left)
        return best

    def shape(self) -> Any:
        """Return the tree: a value, or the split and what is left and right of it."""
        if self.children is None or self.best is None:
            return self.value
        return (*self.best[1:], self.children[0].shape(), self.children[1].shape())


def bins_of(cuts: Sequence[float], column: Sequence[float]) -> list[int]:
    def bin_of(value: float) -> int:
        if math.isnan(value):
            return BINS
        return BINS - 1 if value == math.inf else sum(cut <= value for cut in cuts)

    return [*map(bin_of, column)]


def cuts_of(column: Sequence[float]) -> list[float]:
    known = sorted(value for value in column if not math.isnan(value))
    return sorted({known[k * len(known) // BINS] for k in range(1, BINS)}) if known else []


def chances_of(scores: Sequence[float]) -> list[float]:
    if len(scores) == 1:
        return [1.0 / (1.0 + math.exp(-scores[0]))]
    powers = [math.exp(score - max(scores)) for score in scores]
    total = 0.0
    for power in powers:
        total += power
    return [power / total for power in powers]


def grow(
    rows: Sequence[Sequence[int]], gradients: Sequence[float], curvatures: Sequence[float], size: tuple[int, int]
) -> Leaf:
    """Grow a tree on items whose values are in these bins."""
    axes, (most_leaves, least_items) = len(rows[0]), size

    def sums_of(items: Sequence[int]) -> Sums:
        sums: Sums = {}
        for n in items:
            for axis in range(axes):
                old = sums.get((axis, rows[n][axis]), NOTHING)
                sums[axis, rows[n][axis]] = (old[0] + gradients[n], old[1] + curvatures[n], old[2] + 1)
        return sums

    everything = range(len(rows))
    root = Leaf(everything, sums_of(everything), axes, least_items)
    leaves = [root]  # the oldest first
    while sum(leaf.children is None for leaf in leaves) < most_leaves:
        for leaf in leaves:
            leaf.best = leaf.best or leaf.best_split()
        splits = [(leaf.best[0], leaf) for leaf in leaves if leaf.children is None and leaf.best]
        gain = max(gain for gain, _ in splits)
        if gain <= 1e-9:
            break
        chosen = next(leaf for own, leaf in splits if own == gain)
        assert chosen.best is not None
        _, axis, cut, missing_left = chosen.best

        def goes_left(n: int, axis: int = axis, cut: int = cut, also: bool = missing_left) -> bool:
            return also if rows[n][axis] == BINS else rows[n][axis] <= cut

        left, right = [n for n in chosen.items if goes_left(n)], [n for n in chosen.items if not goes_left(n)]
        small = sums_of(left if len(left) <= len(right) else right)
        rest: Sums = {}
        for key, own in chosen.sums.items():
            less = small.get(key, NOTHING)
            rest[key] = (own[0] - less[0], own[1] - less[1], own[2] - less[2])
        both = (small, rest) if len(left) <= len(right) else (rest, small)
        chosen.children = Leaf(left, both[0], axes, least_items), Leaf(right, both[1], axes, least_items)
        leaves += chosen.children
    return root


def value_of(tree: Leaf, row: Sequence[int]) -> float:
    while tree.children is not None and tree.best is not None:
        _, axis, cut, missing_left = tree.best
        is_left = missing_left if row[axis] == BINS else row[axis] <= cut
        tree = tree.children[0 if is_left else 1]
    return tree.value


class BoostingTwin:
    """Trees that are fitted to values, one list for each item, and what they say."""

    def __init__(
        self,
        values: Sequence[Sequence[float]],
        codes: Sequence[int],
        classes: int,
        rounds: int,
        size: tuple[int, int] | None = None,
        compared_from: int = 1000,
        compared: int = 2500,
    ) -> None:
        """Fit them; of which size, the newest items decide if there are enough."""
        if size is None:
            size = SMALL
            if len(codes) >= compared_from:
                rows, truths = values[-compared:], codes[-compared:]
                older = len(truths) - len(truths) // 5
                small, large = (
                    BoostingTwin(rows[:older], truths[:older], classes, rounds, each).loss(rows[older:], truths[older:])
                    for each in (SMALL, LARGE)
                )
                size = LARGE if large < small else SMALL
        counts = [codes.count(k) + 1.0 for k in range(classes)]
        self.first = (
            [math.log(counts[1] / counts[0])] if classes == 2 else [math.log(count / sum(counts)) for count in counts]
        )
        self.cuts = [cuts_of([row[axis] for row in values]) for axis in range(len(values[0]))]
        self.trees: list[Leaf] = []
        rows = self.rows_of(values)
        scores = [[*self.first] for _ in rows]
        for _ in range(rounds):
            chances = [chances_of(own) for own in scores]
            for output in range(len(self.first)):
                aim = 1 if classes == 2 else output
                gradients = [(code == aim) - own[output] for code, own in zip(codes, chances, strict=True)]
                curvatures = [own[output] * (1.0 - own[output]) for own in chances]
                tree = grow(rows, gradients, curvatures, size)
                self.trees.append(tree)
                for row, own in zip(rows, scores, strict=True):
                    own[output] += value_of(tree, row)

    def loss(self, values: Sequence[Sequence[float]], codes: Sequence[int]) -> float:
        chances = self.chances(values)
        return sum(-math.log(max(own[code], 0.001)) for own, code in zip(chances, codes, strict=True))

    def rows_of(self, values: Sequence[Sequence[float]]) -> list[list[int]]:
        columns = [bins_of(cuts, [row[axis] for row in values]) for axis, cuts in enumerate(self.cuts)]
        return [list(row) for row in zip(*columns, strict=True)]

    def chances(self, values: Sequence[Sequence[float]]) -> list[list[float]]:
        """Return the probability of every class for every item."""
        found = []
        for row in self.rows_of(values):
            scores = [*self.first]
            for n, tree in enumerate(self.trees):
                scores[n % len(scores)] += value_of(tree, row)
            chances = chances_of(scores)
            found.append([1.0 - chances[0], chances[0]] if len(chances) == 1 else chances)
        return found
