"""Which arm wins where: from the cells of a ledger to squares on one or two axes of the context, as they split.

A policy may look at the context in several views. Those of exactly the chosen axes are taken, coarse ones first, so
that finer ones lie over them; if there are none, the cells of all axes are added up along the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from cosend.algorithm import layout as col
from cosend.algorithm.cells import bits_of
from cosend.algorithm.layout import Ledger
from cosend.algorithm.mixture import PATTERNS
from cosend.algorithm.readout import place_of

MOST_SQUARES: Final = 400  # cells that are looked at, those with most items
NORMAL_95: Final = 1.96
SURE: Final = 0.975  # an end of a 95% interval
TOLERATED: Final = 0.05  # arms that are equally good would never be told apart
Span: TypeAlias = tuple[float, float]  # on an axis: from 0 to 1, or from a category's code to the next


class Square(NamedTuple):
    """A place on the chosen axes, and what is known about every arm there."""

    spans: tuple[Span, ...]
    items: int
    labels: tuple[float, ...]  # by arm
    gains: tuple[float, ...]  # by arm: the sum over its labels

    def mean(self, arm: int) -> float:
        return self.gains[arm] / self.labels[arm]

    @property
    def size(self) -> float:
        return math.prod(high - low for low, high in self.spans)


class Winner(NamedTuple):
    """The arm with the best mean reward in a square."""

    arm: int
    reward: float  # its mean, net of its cost
    half: float  # half the width of its 95% interval
    certainty: float  # the probability that no other arm with labels here is better by more than what is tolerated

    @property
    def is_sure(self) -> bool:
        return self.certainty >= SURE


def interval(mean: float, count: float) -> Span:
    """Return Wilson's 95% interval of a mean of numbers in [0, 1]."""
    z2 = NORMAL_95**2
    middle = (mean + z2 / (2 * count)) / (1 + z2 / count)
    half = NORMAL_95 / (1 + z2 / count) * math.sqrt(mean * (1 - mean) / count + z2 / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def winner(square: Square, costs: Sequence[float]) -> Winner | None:
    """Return the best arm of a square net of costs; None before the first label."""
    ends: dict[int, Span] = {}
    for arm, cost in enumerate(costs):
        if square.labels[arm] > 0:
            low, high = interval(min(1.0, square.mean(arm)), square.labels[arm])
            ends[arm] = low - cost, high - cost
    if not ends:
        return None
    best = max(ends, key=lambda arm: square.mean(arm) - costs[arm])
    certainty = min((_certainty(other, ends[best]) for arm, other in ends.items() if arm != best), default=1.0)
    return Winner(best, square.mean(best) - costs[best], (ends[best][1] - ends[best][0]) / 2, certainty)


def _certainty(other: Span, best: Span) -> float:
    """Return how likely a mean is not better than another by more than what is tolerated, each with its interval."""
    difference = (sum(other) - sum(best)) / 2
    half = math.hypot(best[1] - best[0], other[1] - other[0]) / 2
    return NormalDist().cdf(NORMAL_95 * (TOLERATED - difference) / half)


def squares(ledger: Ledger, chosen: Sequence[int], arms: int) -> list[Square]:
    """Return the squares of the chosen axes, the largest first."""
    rows = _rows_of(ledger, _views_of(ledger, set(chosen)))
    arrivals = ledger.cells[rows, col.CELL_ARRIVALS]
    found: dict[tuple[Span, ...], list[Any]] = {}
    for row in rows[np.argsort(-arrivals, kind="stable")][:MOST_SQUARES].tolist():
        sums = found.setdefault(_spans(ledger, row, chosen), [0, np.zeros(arms), np.zeros(arms)])
        sums[0] += int(ledger.cells[row, col.CELL_ARRIVALS])
        sums[1] += ledger.rewards[row, :arms, col.REWARD_COUNT]
        sums[2] += ledger.rewards[row, :arms, col.REWARD_SUM]
    made = [Square(at, items, tuple(n.tolist()), tuple(g.tolist())) for at, (items, n, g) in found.items()]
    return sorted(made, key=lambda square: -square.size)


def _rows_of(ledger: Ledger, views: Sequence[int]) -> Any:
    """Return the rows of the cells of some views that items have reached."""
    cells = ledger.cells[: int(ledger.site[col.ROWS])]
    is_taken = np.isin(cells[:, col.CELL_KEY] % len(ledger.views), views) & (cells[:, col.CELL_ARRIVALS] > 0)
    if ledger.site[col.ZOOMS]:
        is_taken &= cells[:, col.CELL_LEVEL] >= 0  # cells that were split are covered by their parts
    return np.flatnonzero(is_taken)


def _views_of(ledger: Ledger, chosen: set[int]) -> list[int]:
    """Return the views of exactly these axes, or else one that sees them among others."""
    seen = {
        view: set(bits_of(int(ledger.views[view, col.VIEW_AXES])))
        for view in range(len(ledger.views))
        if ledger.views[view, col.VIEW_KIND] != PATTERNS
    }
    exact = [view for view, axes in seen.items() if axes == chosen]
    wider = sorted((view for view, axes in seen.items() if axes > chosen), key=lambda view: len(seen[view]))
    return exact or wider[:1]


def _spans(ledger: Ledger, row: int, chosen: Sequence[int]) -> tuple[Span, ...]:
    view, indices, slices = place_of(ledger, row)
    axes, categories = bits_of(int(ledger.views[view, col.VIEW_AXES])), int(ledger.site[col.CATEGORIES])
    place = dict(zip(axes, indices, strict=True))
    return tuple(
        (float(place[axis]), float(place[axis] + 1))
        if categories >> axis & 1
        else (place[axis] / slices, (place[axis] + 1) / slices)
        for axis in chosen
    )
