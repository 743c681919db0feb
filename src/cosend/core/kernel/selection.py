"""Which view of a context to trust: the one that foretells rewards best.

Every view has cells of its own, and every reward is entered in all of them. Before it is, each view is judged by how
likely it held that reward to be. So every label tells something about every view, whichever of them decided. The view
that is trusted keeps that place until another one has become e^16 times as likely. That is much, because rewards of a
real stream come in bursts, and a view that takes over has its own cells to explore.
"""

from __future__ import annotations

import math
from typing import Final

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Ledger

LEAD: Final = 16.0


@compiled
def judge(ledger: Ledger, view: int, row: int, arm: int, gain: float) -> None:
    """Judge a view by a reward that is not entered yet: its loss is the logarithm of how unlikely it held it."""
    # exactness.md, "Views": p = (sum + 1/2) / (count + 1), before the reward is entered.
    right, count = 0.0, 0.0
    if row != EMPTY:
        right, count = ledger.rewards[row, arm, col.REWARD_SUM], ledger.rewards[row, arm, col.REWARD_COUNT]
    gain = min(max(gain, 0.0), 1.0)
    chance = (min(max(right, 0.0), count) + 0.5) / (count + 1.0)
    loss = -gain * math.log(chance) - (1.0 - gain) * math.log(1.0 - chance)
    ledger.views[view, col.VIEW_LOSS] += loss


@compiled
def reconsider(ledger: Ledger) -> None:
    """Trust the most likely view, the first of several, if it is much more likely than the one that decides."""
    best = 0
    for view in range(1, ledger.site[col.CANDIDATES]):
        if ledger.views[view, col.VIEW_LOSS] < ledger.views[best, col.VIEW_LOSS]:
            best = view
    if ledger.views[best, col.VIEW_LOSS] + LEAD < ledger.views[ledger.site[col.TRUSTED], col.VIEW_LOSS]:
        ledger.site[col.TRUSTED] = best
