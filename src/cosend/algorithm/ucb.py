"""Indices: how good an arm could be, given the rewards it has had (KL-UCB)."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.algorithm import draws
from cosend.algorithm import layout as col
from cosend.algorithm.cos import best_among
from cosend.algorithm.draws import draw_one, update_argmax
from cosend.algorithm.layout import EXPLOIT, EXPLORE, Ledger, net_mean, sample_count
from cosend.compiled import compiled, compiled_apart

PRECISION: Final = 1e-9
NEVER_TRIED: Final = 3.0  # above every index of an arm that was tried


@compiled
def kl(p: float, q: float) -> float:
    """Return the divergence of a coin that falls right with probability q from one of p, for 0 < p < q < 1."""
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))


@compiled
def kl_upper_bound(mean: float, level: float) -> float:
    """Return the largest q with kl(mean, q) <= level, to within a millionth.

    Newton's method from the right: kl is convex in q, so it comes down to the solution and does not pass it. Two bounds
    say where to begin: Pinsker's, and kl(p, q) >= -(1 - p) ln(1 - q) - entropy(p), which keeps away from the pole at 1.
    """
    if mean >= 1.0 or level <= 0.0:
        return min(mean, 1.0)
    if mean <= 0.0:
        return 1.0 - math.exp(-level)
    entropy = -mean * math.log(mean) - (1.0 - mean) * math.log(1.0 - mean)
    start = min(mean + math.sqrt(level / 2.0), 1.0 - math.exp(-(level + entropy) / (1.0 - mean)))
    q, step = start, 1.0
    while step > PRECISION and mean < q < 1.0:
        step = (kl(mean, q) - level) * q * (1.0 - q) / (q - mean)
        q -= step
    return max(mean, min(q, start, 1.0))


@compiled
def _kl_index(ledger: Ledger, row: int, arm: int, level: float, pending: float, least: float) -> float:
    """Return how good an arm could be net of its cost, or minus infinity if that is certainly less than `least`.

    An arm that was never tried comes before all others, the cheapest first. Pending choices count as tried.
    """
    # exactness.md, "Index policies".
    count, cost = sample_count(ledger, row, arm), ledger.costs[arm]
    if count == 0.0:
        return float(NEVER_TRIED - cost)
    mean = max(0.0, ledger.rewards[row, arm, col.MEAN_REWARD])
    if pending > 0.0:
        level *= _burst_of(ledger, row, arm, pending)
    if mean + math.sqrt(level / (2.0 * count)) - cost < least:
        return -np.inf  # Pinsker: the index is not above this
    return float(kl_upper_bound(mean, level / count) - cost)


@compiled
def _level_of(ledger: Ledger, row: int) -> float:
    """Return the confidence level of the index: the logarithm of the items seen in the cell."""
    return math.log(max(1.0, float(ledger.cells[row, col.CELL_ARRIVALS])))


@compiled
def _pending_items(ledger: Ledger, row: int) -> float:
    """Return the number of pending own items of a cell; 0 in cubes that split.

    Those split by labels that have come, and begin with what the larger one knows: a bad start does not last.
    """
    if ledger.site[col.ZOOMS]:
        return 0.0
    pending = -ledger.cells[row, col.CELL_ANSWERING]
    for arm in range(ledger.site[col.ARM_COUNT]):
        pending += ledger.counts[row, arm, col.PENDING]
    return float(pending)


@compiled
def _burst_of(ledger: Ledger, row: int, arm: int, pending: float) -> float:
    """Return how many rewards of an arm count as one while `pending` items of its cell wait for theirs.

    Late labels come in bursts that say less than the same number that come one by one. An arm with many more rewards
    than pending items is known from many bursts.
    """
    # exactness.md, "Index policies".
    known = ledger.rewards[row, arm, col.REWARD_COUNT]
    share = min(1.0, pending / max(1.0, known))
    return math.sqrt(1.0 + pending * share * share)


@compiled
def _best_by_kl_index(ledger: Ledger, row: int, last: int, level: float, pending: float) -> tuple[int, int, float]:
    first, ties, best = 0, 0, -np.inf
    for arm in range(last):
        first, ties, best = update_argmax(first, ties, best, arm, _kl_index(ledger, row, arm, level, pending, best))
    return first, ties, best


@compiled
def _nth_with_kl_index(ledger: Ledger, row: int, first: int, best: float, level: float, pending: float, n: int) -> int:
    """Return the n-th arm, counted from `first` on, that has this index."""
    arm = first
    while n > 0:
        arm += 1
        n -= _kl_index(ledger, row, arm, level, pending, best) == best
    return arm


@compiled
def by_kl_index(ledger: Ledger, row: int) -> tuple[int, int, int]:
    """Choose the arm that could be the best; it is an exploration unless its mean is the best too."""
    level, pending = _level_of(ledger, row), _pending_items(ledger, row)
    first, ties, index = _best_by_kl_index(ledger, row, ledger.site[col.ARM_COUNT], level, pending)
    n = draw_one(ledger, draws.BEST_ARM, ties)
    arm = _nth_with_kl_index(ledger, row, first, index, level, pending, n)
    return _explore_unless_best(ledger, row, arm), arm, ties


@compiled
def _explore_unless_best(ledger: Ledger, row: int, arm: int) -> int:
    """Return EXPLOIT for an arm whose mean is the best and that was tried, else EXPLORE."""
    best, _ = best_among(ledger, row, ledger.site[col.ARM_COUNT])
    tried = sample_count(ledger, row, arm) > 0.0
    return EXPLOIT if tried and net_mean(ledger, row, arm) == net_mean(ledger, row, best) else EXPLORE


@compiled_apart
def local_by_kl_index(ledger: Ledger, row: int, caller: int, request: int) -> int:
    """Return the local model that could be the best, to answer a call that will be followed by its label.

    With its best so far a peer could be stuck: a label says nothing about a model that was not used.
    """
    site = ledger.site
    seen = float(ledger.cells[row, col.CELL_ARRIVALS] + ledger.cells[row, col.CELL_TAUGHT])
    level = math.log(max(1.0, seen))
    first, ties, index = _best_by_kl_index(ledger, row, site[col.OWN_COUNT], level, 0.0)
    n = draws.pick(site[col.KEY0], site[col.KEY1], caller, request, draws.ANSWER_TRAINING, ties)
    return _nth_with_kl_index(ledger, row, first, index, level, 0.0, n)
