"""CoS, "classify or send": which arm an item gets. The figure "Pseudocode for the CoS algorithm".

    1. a local classifier with count <= D1        -> explore it
    2. a peer with training count <= D2          -> ask it; if that is still so, train it
    3. a peer with count <= D3                   -> explore it
    4. otherwise                                 -> exploit the arm with the best mean

The order `train_first` is 2, 1, 3, 4. The order `random` draws once from everything that is owed a sample.
Several candidates: one of them uniformly. Whoever calls these functions asks the peer and calls again: `asked` says
which peers have been asked for this item, so nothing has to be remembered in between.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel import draws
from cosend.core.kernel.bookkeeping import EXPLOIT, EXPLORE, TRAIN, may_be_chosen, net_mean, sample_count
from cosend.core.kernel.ledger import EMPTY, Ledger
from cosend.core.kernel.quotas import quota_of, training_quota

Asked = npt.NDArray[np.bool_]

ASK: Final = 0  # what a rule comes to, beside the phases TRAIN, EXPLORE and EXPLOIT

# The order of CoS.
PSEUDOCODE: Final = 0
RANDOM: Final = 1
TRAIN_FIRST: Final = 2


@compiled
def draw_one(ledger: Ledger, purpose: int, candidates: int) -> int:
    """Return one of several candidates for the decision that is being made."""
    site = ledger.site
    return draws.pick(site[col.KEY0], site[col.KEY1], 0, site[col.TICKETS] + 1, purpose, candidates)


@compiled
def lacks_samples(ledger: Ledger, row: int, arm: int, quota: float) -> bool:
    """Tell whether an arm is owed an exploration: lines 6 and 15 of the figure, count <= D1 (D3 for a peer)."""
    return bool(sample_count(ledger, row, arm) <= quota and may_be_chosen(ledger, arm))


@compiled
def lacks_training(ledger: Ledger, row: int, peer: int, quota: float) -> bool:
    """Tell whether a peer is owed a training: line 8 of the figure, training count <= D2."""
    return bool(ledger.counts[row, peer, col.TRAINING] <= quota and may_be_chosen(ledger, peer))


@compiled
def count_owed(ledger: Ledger, row: int, first: int, last: int, quota: float) -> int:
    """Return how many of the arms first .. last-1 have count <= quota."""
    owed = 0
    for arm in range(first, last):
        owed += sample_count(ledger, row, arm) <= quota
    return count_still_owed(ledger, row, first, last, quota) if owed > 0 else 0


@compiled_apart
def count_still_owed(ledger: Ledger, row: int, first: int, last: int, quota: float) -> int:
    """Return what `count_owed` does, without the arms that may not be chosen: rarely needed."""
    owed = 0
    for arm in range(first, last):
        owed += lacks_samples(ledger, row, arm, quota)
    return owed


@compiled
def nth_owed(ledger: Ledger, row: int, first: int, quota: float, n: int) -> int:
    """Return the n-th arm, counted from `first` on, with count <= quota."""
    arm = first - 1
    while n >= 0:
        arm += 1
        n -= lacks_samples(ledger, row, arm, quota)
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
        stale += lacks_training(ledger, row, peer, quota)
    if stale == 0:
        return EXPLOIT, EMPTY, 0
    # Lines 9-13: the count of a drawn peer is refreshed by asking; if it is still <= D2 the peer is trained, else "go
    # to line 15" means the next stale peer. One that was asked and is still stale is the one that was drawn.
    n = draw_one(ledger, draws.PEER_TRAINING + draws.PER_ASKED_PEER * asked_count, stale)
    drawn = EMPTY
    for peer in range(site[col.OWN_COUNT], site[col.ARM_COUNT]):
        if lacks_training(ledger, row, peer, quota):
            if asked[peer]:
                return TRAIN, peer, stale
            if n == 0:
                drawn = peer
            n -= 1
    return ASK, drawn, stale


@compiled
def leader(first: int, ties: int, best: float, arm: int, value: float) -> tuple[int, int, float]:
    """Return the first arm with the highest value, how many share it, and the value, when one more arm is known."""
    if value > best:
        return arm, 1, value
    return first, ties + (value == best), best


@compiled
def best_among(ledger: Ledger, row: int, last: int) -> tuple[int, int]:
    """Return the first of the arms 0 .. last-1 with the best net mean, and how many share that mean."""
    first, ties, best = 0, 1, net_mean(ledger, row, 0)
    for arm in range(1, last):
        first, ties, best = leader(first, ties, best, arm, net_mean(ledger, row, arm))
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
def is_owed(ledger: Ledger, row: int, arm: int, explore_quota: float, train_quota: float) -> bool:
    """Tell whether an arm is in the paper's set S of arms that are owed a sample."""
    if lacks_samples(ledger, row, arm, explore_quota):
        return True
    return bool(arm >= ledger.site[col.OWN_COUNT] and lacks_training(ledger, row, arm, train_quota))


@compiled
def at_random(ledger: Ledger, row: int, explore_quota: float, train_quota: float, asked: Asked) -> tuple[int, int, int]:
    """Return one draw from everything that is owed a sample (the paper's prose), or EXPLOIT if nothing is."""
    # The set S of the paper's prose; exactness.md, "Order random".
    arms = ledger.site[col.ARM_COUNT]
    owed, asked_count, drawn = 0, 0, EMPTY
    for arm in range(arms):
        asked_count += asked[arm]
        if is_owed(ledger, row, arm, explore_quota, train_quota):
            owed += 1
            if asked[arm]:
                drawn = arm  # it was drawn before it was asked, and it is still owed
    if owed == 0:
        return EXPLOIT, EMPTY, 0
    if drawn == EMPTY:
        n = draw_one(ledger, draws.ANYTHING_OWED + draws.PER_ASKED_PEER * asked_count, owed)
        while n >= 0:
            drawn += 1
            n -= is_owed(ledger, row, drawn, explore_quota, train_quota)
    if drawn >= ledger.site[col.OWN_COUNT] and lacks_training(ledger, row, drawn, train_quota):
        return (TRAIN if asked[drawn] else ASK), drawn, owed
    return EXPLORE, drawn, owed


@compiled
def by_quota(ledger: Ledger, row: int, step: int, asked: Asked) -> tuple[int, int, int]:
    """Choose as the paper does: who is owed a sample by the quotas of this step, else the best."""
    explore_quota = quota_of(ledger, row, step)
    train_quota = training_quota(explore_quota, ledger.site[col.MAX_PEER_FUNCTIONS])
    if ledger.site[col.ORDER] == RANDOM:
        phase, arm, candidates = at_random(ledger, row, explore_quota, train_quota, asked)
    else:
        phase, arm, candidates = in_order(ledger, row, explore_quota, train_quota, asked)
    if phase == EXPLOIT:
        arm, candidates = best_arm(ledger, row)
    return phase, arm, candidates
