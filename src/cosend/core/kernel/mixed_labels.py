"""Mixed views: a label that comes. The views are weighed by what they forecast, then learn, then the pattern moves.

weight      times the root of how likely the view held the gains of all arms that are scored: their number, rounded up
            to a power of two, says which root, because square roots are quick; then as shares of one, of which a
            little is spread over all views
every row   N = g N + 1 and S = g S + gain for each arm that is scored, g the memory of the view
"""

from __future__ import annotations

import math
from typing import Final

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import TAUGHT
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger

LEAST_CHANCE: Final = 0.01  # a forecast is never taken for surer than this
MOST_JUDGES: Final = 128  # local classifiers that weigh views: the product of more chances might be 0
PATTERN_BITS: Final = 4


@compiled
def chance_of(forecast: float, gain: float) -> float:
    """Return how likely a gain was held to be."""
    chance = min(max(forecast, LEAST_CHANCE), 1.0 - LEAST_CHANCE)
    if gain >= 1.0:
        return chance
    if gain <= 0.0:
        return 1.0 - chance
    return math.exp(gain * math.log(chance) + (1.0 - gain) * math.log(1.0 - chance))


@compiled
def is_scored(others: Floats, function: int, used: int) -> bool:
    """Tell whether a local classifier that was not used is scored by a label."""
    return function != used and not math.isnan(others[function])


@compiled
def weigh_views(ledger: Ledger, arm: int, gain: float, others: Floats, kept: Floats) -> None:
    """Weigh the views by how likely each held the gains of a label to be, when the item was decided."""
    views, count, own = ledger.views, ledger.site[col.VIEWS], ledger.site[col.OWN_COUNT]
    total = 0.0
    for view in range(count):
        place = count + view * (own + 1)
        chance, judges = chance_of(kept[place + own], gain), 1.0
        for function in range(min(others.shape[0], MOST_JUDGES)):
            held = kept[place + function]
            if is_scored(others, function, arm) and not math.isnan(held):
                chance *= chance_of(held, others[function])
                judges += 1.0
        views[view, col.VIEW_WEIGHT] *= root_of_chance(chance, judges)
        total += views[view, col.VIEW_WEIGHT]
    share = ledger.parameters[col.SHARE]
    for view in range(count):
        views[view, col.VIEW_WEIGHT] = (1.0 - share) * (views[view, col.VIEW_WEIGHT] / total) + share / count


@compiled
def root_of_chance(chance: float, judges: float) -> float:
    """Return the root of a product of so many chances: about their geometric mean."""
    while judges > 1.0:
        chance, judges = math.sqrt(chance), judges / 2.0
    return chance


@compiled
def add_gain(ledger: Ledger, row: int, arm: int, memory: float, gain: float) -> None:
    """Add a gain to what a row knows of an arm."""
    known = ledger.rewards[row, arm]  # nobody reads the mean of it but people, who divide themselves
    known[col.REWARD_SUM] = memory * known[col.REWARD_SUM] + gain
    known[col.REWARD_COUNT] = memory * known[col.REWARD_COUNT] + 1.0


@compiled_apart
def learn_mixed(ledger: Ledger, ticket: int, arm: int, kind: int, gain: float, others: Floats, kept: Floats) -> None:
    """Weigh the views by a label, enter it in the rows that were kept, and take the pattern if it is the newest."""
    weigh_views(ledger, arm, gain, others, kept)
    for view in range(ledger.site[col.VIEWS]):
        row = int(kept[view])
        if row != EMPTY:
            memory = ledger.views[view, col.VIEW_MEMORY]
            ledger.cells[row, col.CELL_LABELS] += 1
            if kind == TAUGHT:
                ledger.cells[row, col.CELL_TAUGHT] += 1
            else:
                ledger.counts[row, arm, col.WAITING] -= 1
            add_gain(ledger, row, arm, memory, gain)
            for function in range(others.shape[0]):
                if is_scored(others, function, arm):
                    add_gain(ledger, row, function, memory, others[function])
    if ticket > ledger.site[col.NEWEST]:
        ledger.site[col.NEWEST] = ticket
        ledger.site[col.PATTERN] = 1 + pattern_of(ledger, arm, gain, others)


@compiled
def pattern_of(ledger: Ledger, arm: int, gain: float, others: Floats) -> int:
    """Return which local classifiers were right, as bits; where only the used arm is scored, which it was and how.

    Arms that join are the last local one or the last peer: the numbers of the others stay.
    """
    is_right, own = int(gain >= 0.5), ledger.site[col.OWN_COUNT]
    if not ledger.site[col.SCORES]:
        return int(4 * arm + is_right if arm < own else 4 * (arm - own) + 2 + is_right)
    pattern = 0
    for function in range(min(own, PATTERN_BITS)):
        if function == arm:
            pattern |= is_right << function
        elif others.shape[0] > 0 and others[function] >= 0.5:
            pattern |= 1 << function
    return pattern


@compiled_apart
def strike_mixed(ledger: Ledger, arm: int, kind: int, kept: Floats) -> None:
    """Strike out a choice whose label will never come; an answer was entered nowhere."""
    if kind == TAUGHT:
        return
    for view in range(ledger.site[col.VIEWS]):
        row = int(kept[view])
        if row != EMPTY:
            ledger.counts[row, arm, col.WAITING] -= 1
