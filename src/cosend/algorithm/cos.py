"""CoS, "classify or send": the paper's quotas, and which arm an item gets by them.

D1 = D3 = t^z ln t for exploration, D2 = F_max t^z ln t for the training of a peer. An arm is owed a sample while its
count is <= the quota: at t = 1 the quota is 0, and 0 <= 0 explores. The figure "Pseudocode for the CoS algorithm":

    1. a local model with count <= D1             -> explore it
    2. a peer with training count <= D2           -> ask it; if that is still so, train it
    3. a peer with count <= D3                    -> explore it
    4. otherwise                                  -> exploit the arm with the best mean

The order `train_first` is 2, 1, 3, 4. The order `random` draws once from everything that is owed a sample.
Several candidates: one of them uniformly. The caller of these functions asks the peer and calls again: `asked` says
which peers have been asked for this item, so nothing has to be remembered in between.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from cosend.algorithm import draws
from cosend.algorithm import layout as col
from cosend.algorithm.draws import draw_one, update_argmax
from cosend.algorithm.layout import EMPTY, EXPLOIT, EXPLORE, OUT, TRAIN, Ledger, net_mean, sample_count
from cosend.compiled import compiled, compiled_apart

Asked = npt.NDArray[np.bool_]

ASK: Final = 0  # the outcome of a rule that must ask a peer first; else it is TRAIN, EXPLORE or EXPLOIT

# The order of CoS.
PSEUDOCODE: Final = 0
RANDOM: Final = 1
TRAIN_FIRST: Final = 2


def exponent_for(alpha: float, dimensions: int) -> float:
    """Return z = 2 alpha / (3 alpha + d), the exponent of Theorem 1."""
    return 2 * alpha / (3 * alpha + dimensions)


@compiled
def exploration_quota(step: int, exponent: float) -> float:
    """Return D1(t) = D3(t) = t^z ln t; the power by way of the logarithm, which is needed anyway."""
    log_step = math.log(float(step))
    return math.exp(exponent * log_step) * log_step  # exactness.md, "Arithmetic": in this order


@compiled
def _steps_until_it_matters(step: int, quota: float, exponent: float, max_peer_functions: int) -> float:
    """Return for how many more steps no count can tell the quotas from those of this step.

    Counts are whole numbers, so a quota matters only when it reaches the next one. Where t^z ln t is concave it stays
    below its tangent, which therefore reaches the next whole number first; a thousandth is left for rounding.
    """
    log_step = math.log(float(step))
    if log_step <= 0.0 or exponent * (1.0 - exponent) * log_step <= 2.0 * exponent - 1.0:
        return 0.0
    slope = quota / step * (exponent + 1.0 / log_step)
    training = max_peer_functions * quota
    explore_steps = (math.floor(quota) + 1.0 - quota) / slope
    train_steps = (math.floor(training) + 1.0 - training) / (max_peer_functions * slope)
    return 0.999 * min(explore_steps, train_steps)


@compiled
def current_quota(ledger: Ledger, step: int) -> float:
    """Return D1 of this step, or of an earlier one if no count can tell the difference."""
    known = ledger.parameters
    if not known[col.QUOTA_FROM] <= step <= known[col.QUOTA_UNTIL]:
        functions = ledger.site[col.MAX_PEER_FUNCTIONS]
        quota = exploration_quota(step, known[col.EXPONENT])
        known[col.QUOTA], known[col.QUOTA_FROM] = quota, step
        known[col.QUOTA_UNTIL] = step + _steps_until_it_matters(step, quota, known[col.EXPONENT], functions)
    return float(known[col.QUOTA])


@compiled
def training_quota(exploration: float, max_peer_functions: int) -> float:
    """Return D2(t) = F_max D1(t)."""
    return max_peer_functions * exploration


@compiled
def quota_of(ledger: Ledger, row: int, step: int) -> float:
    """Return D1 of this step in a cell: the same in equal cells, 2^(2 alpha p) ln t in a cube of level p."""
    if not ledger.site[col.ZOOMS]:
        return current_quota(ledger, step)
    level = ledger.cells[row, col.CELL_LEVEL] if row != EMPTY else 0
    if level < 0:
        level = -1 - level  # a split cube still serves until its children are visited
    # DCZA of the longer version: D1 = 2^(2 alpha p) ln t.
    return math.exp(ledger.parameters[col.ZOOM_RATE] * level) * math.log(float(step))


@compiled
def _may_be_chosen(ledger: Ledger, arm: int) -> bool:
    """Tell whether an arm is neither paused nor left out of this choice; asked where costs are not compared."""
    return bool(ledger.costs[arm] < OUT)


@compiled
def _lacks_samples(ledger: Ledger, row: int, arm: int, quota: float) -> bool:
    """Tell whether an arm is owed an exploration: lines 6 and 15 of the figure, count <= D1 (D3 for a peer)."""
    return bool(sample_count(ledger, row, arm) <= quota and _may_be_chosen(ledger, arm))


@compiled
def _lacks_training(ledger: Ledger, row: int, peer: int, quota: float) -> bool:
    """Tell whether a peer is owed a training: line 8 of the figure, training count <= D2."""
    return bool(ledger.counts[row, peer, col.TRAINING] <= quota and _may_be_chosen(ledger, peer))


@compiled
def count_owed(ledger: Ledger, row: int, first: int, last: int, quota: float) -> int:
    """Return how many of the arms first .. last-1 have count <= quota."""
    owed = 0
    for arm in range(first, last):
        owed += sample_count(ledger, row, arm) <= quota
    return _count_still_owed(ledger, row, first, last, quota) if owed > 0 else 0


@compiled_apart
def _count_still_owed(ledger: Ledger, row: int, first: int, last: int, quota: float) -> int:
    """Return what `count_owed` does, without the arms that may not be chosen: rarely needed."""
    owed = 0
    for arm in range(first, last):
        owed += _lacks_samples(ledger, row, arm, quota)
    return owed


@compiled
def nth_owed(ledger: Ledger, row: int, first: int, quota: float, n: int) -> int:
    """Return the n-th arm, counted from `first` on, with count <= quota."""
    arm = first - 1
    while n >= 0:
        arm += 1
        n -= _lacks_samples(ledger, row, arm, quota)
    return arm


@compiled
def explore_among(ledger: Ledger, row: int, first: int, last: int, quota: float, purpose: int) -> tuple[int, int]:
    """Return an arm among first .. last-1 that is owed a sample, and among how many it was drawn, or (EMPTY, 0)."""
    owed = count_owed(ledger, row, first, last, quota)
    if owed == 0:
        return EMPTY, 0
    return nth_owed(ledger, row, first, quota, draw_one(ledger, purpose, owed)), owed


@compiled
def train_or_ask(ledger: Ledger, row: int, quota: float, asked: Asked) -> tuple[int, int, int]:
    """Return (TRAIN, peer, candidates), (ASK, peer, candidates), or (EXPLOIT, EMPTY, 0) if all peers are trained."""
    site = ledger.site
    stale, asked_count = 0, 0
    for peer in range(site[col.OWN_COUNT], site[col.ARM_COUNT]):
        asked_count += asked[peer]
        stale += _lacks_training(ledger, row, peer, quota)
    if stale == 0:
        return EXPLOIT, EMPTY, 0
    # Lines 9-13: the count of a drawn peer is refreshed by asking; if it is still <= D2 the peer is trained, else "go
    # to line 15" means the next stale peer. One that was asked and is still stale is the one that was drawn.
    n = draw_one(ledger, draws.PEER_TRAINING + draws.PER_ASKED_PEER * asked_count, stale)
    drawn = EMPTY
    for peer in range(site[col.OWN_COUNT], site[col.ARM_COUNT]):
        if _lacks_training(ledger, row, peer, quota):
            if asked[peer]:
                return TRAIN, peer, stale
            if n == 0:
                drawn = peer
            n -= 1
    return ASK, drawn, stale


@compiled
def best_among(ledger: Ledger, row: int, last: int) -> tuple[int, int]:
    """Return the first of the arms 0 .. last-1 with the best net mean, and how many share that mean."""
    first, ties, best = 0, 1, net_mean(ledger, row, 0)
    for arm in range(1, last):
        first, ties, best = update_argmax(first, ties, best, arm, net_mean(ledger, row, arm))
    return first, ties


@compiled
def nth_tie(ledger: Ledger, row: int, first: int, n: int) -> int:
    """Return the n-th arm, counted from `first` on, that has the same net mean as `first`."""
    best, arm = net_mean(ledger, row, first), first
    while n > 0:
        arm += 1
        n -= net_mean(ledger, row, arm) == best
    return arm


@compiled
def best_arm(ledger: Ledger, row: int) -> tuple[int, int]:
    """Return the arm with the best mean, ties at random, and among how many it was drawn."""
    # Lines 17-18, the equation "maximizer": the best mean net of its cost, ties at random (draw 4).
    first, ties = best_among(ledger, row, ledger.site[col.ARM_COUNT])
    return nth_tie(ledger, row, first, draw_one(ledger, draws.BEST_ARM, ties)), ties


@compiled
def in_order(ledger: Ledger, row: int, explore_quota: float, train_quota: float, asked: Asked) -> tuple[int, int, int]:
    """Return what is owed a sample first in the order of the paper's figure, or with training first; else EXPLOIT."""
    own, arms = ledger.site[col.OWN_COUNT], ledger.site[col.ARM_COUNT]
    train_first = own < arms and ledger.site[col.ORDER] == TRAIN_FIRST
    if not train_first:  # lines 6-7: a local function with N <= D1 is explored
        arm, owed = explore_among(ledger, row, 0, own, explore_quota, draws.OWN_EXPLORATION)
        if owed > 0:
            return EXPLORE, arm, owed
    if own == arms:  # there is no peer
        return EXPLOIT, EMPTY, 0
    phase, peer, stale = train_or_ask(ledger, row, train_quota, asked)  # lines 8-14
    if stale > 0:
        return phase, peer, stale
    if train_first:
        arm, owed = explore_among(ledger, row, 0, own, explore_quota, draws.OWN_EXPLORATION)
        if owed > 0:
            return EXPLORE, arm, owed
    # Lines 15-16: a peer with N <= D3 is explored.
    arm, owed = explore_among(ledger, row, own, arms, explore_quota, draws.PEER_EXPLORATION)
    if owed > 0:
        return EXPLORE, arm, owed
    return EXPLOIT, EMPTY, 0


@compiled
def _is_owed(ledger: Ledger, row: int, arm: int, explore_quota: float, train_quota: float) -> bool:
    """Tell whether an arm is in the paper's set S of arms that are owed a sample."""
    if _lacks_samples(ledger, row, arm, explore_quota):
        return True
    return bool(arm >= ledger.site[col.OWN_COUNT] and _lacks_training(ledger, row, arm, train_quota))


@compiled
def at_random(ledger: Ledger, row: int, explore_quota: float, train_quota: float, asked: Asked) -> tuple[int, int, int]:
    """Return one draw from everything that is owed a sample (the paper's prose), or EXPLOIT if nothing is."""
    # The set S of the paper's prose; exactness.md, "Order random".
    arms = ledger.site[col.ARM_COUNT]
    owed, asked_count, drawn = 0, 0, EMPTY
    for arm in range(arms):
        asked_count += asked[arm]
        if _is_owed(ledger, row, arm, explore_quota, train_quota):
            owed += 1
            if asked[arm]:
                drawn = arm  # it was drawn before it was asked, and it is still owed
    if owed == 0:
        return EXPLOIT, EMPTY, 0
    if drawn == EMPTY:
        n = draw_one(ledger, draws.ANYTHING_OWED + draws.PER_ASKED_PEER * asked_count, owed)
        while n >= 0:
            drawn += 1
            n -= _is_owed(ledger, row, drawn, explore_quota, train_quota)
    if drawn >= ledger.site[col.OWN_COUNT] and _lacks_training(ledger, row, drawn, train_quota):
        return (TRAIN if asked[drawn] else ASK), drawn, owed
    return EXPLORE, drawn, owed


@compiled
def by_quota(ledger: Ledger, row: int, step: int, asked: Asked) -> tuple[int, int, int]:
    """Choose as the paper does: an arm that is owed a sample by the quotas of this step, else the best."""
    explore_quota = quota_of(ledger, row, step)
    train_quota = training_quota(explore_quota, ledger.site[col.MAX_PEER_FUNCTIONS])
    if ledger.site[col.ORDER] == RANDOM:
        phase, arm, candidates = at_random(ledger, row, explore_quota, train_quota, asked)
    else:
        phase, arm, candidates = in_order(ledger, row, explore_quota, train_quota, asked)
    if phase == EXPLOIT:
        arm, candidates = best_arm(ledger, row)
    return phase, arm, candidates
