"""Mixed views: a label that comes. The views learn, are weighed by what they forecast, then the pattern moves.

weight      times the root of how likely the view held the gains of all arms that are scored: their number, rounded up
            to a power of two, says which root, because square roots are quick; then as shares of one, of which a
            little is spread over all views, the less of it the less sure it was what the used arm gains
every row   N = g N + 1 and S = g S + gain for each arm that is scored, g the memory of the view
view 0      N = .9995 N and S = .9995 S for all others
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import TAUGHT
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger
from cosend.core.kernel.mixed_scratch import Scratch, same_view, scratch_of, take_column, weighted_sum
from cosend.core.kernel.mixed_sum import adds_up, find_steps, goes_by_labels

LEAST_CHANCE: Final = 0.01  # a forecast is never taken for surer than this
LEAST_SPREAD: Final = 0.01  # of the share, when an arm is used that is right as often as a coin
MOST_JUDGES: Final = 128  # local classifiers that weigh views: the product of more chances might be 0
PATTERN_BITS: Final = 4
UNUSED_MEMORY: Final = 0.9995  # a label: half of what is known of an arm is forgotten in 1,386 others


@compiled
def hold(likely: Floats, forecasts: Floats, gain: float) -> None:
    """Multiply how likely views hold all that is known by how likely each held a gain, from its forecast.

    Plain loops over arrays from their start, which the compiler makes wide instructions of.
    """
    if gain >= 1.0:
        for n in range(likely.shape[0]):
            likely[n] *= within_reason(forecasts[n])
    elif gain <= 0.0:
        for n in range(likely.shape[0]):
            likely[n] *= 1.0 - within_reason(forecasts[n])
    else:
        for n in range(likely.shape[0]):
            chance = within_reason(forecasts[n])
            likely[n] *= math.exp(gain * math.log(chance) + (1.0 - gain) * math.log(1.0 - chance))


@compiled
def within_reason(forecast: float) -> float:
    """Return a forecast that is not too sure of anything."""
    chance = LEAST_CHANCE if forecast < LEAST_CHANCE else forecast
    return 1.0 - LEAST_CHANCE if chance > 1.0 - LEAST_CHANCE else chance


@compiled
def is_scored(others: Floats, function: int, used: int) -> bool:
    """Tell whether a local classifier that was not used is scored by a label."""
    return function != used and not math.isnan(others[function])


@compiled
def weigh_views(ledger: Ledger, arm: int, gain: float, others: Floats, kept: Floats) -> None:
    """Weigh the views by how likely each held the gains of a label to be, when the item was decided.

    The rows of the item are not needed in `kept` any more when this is done: what is likely takes their places.
    """
    views, count, own = ledger.views, ledger.site[col.VIEWS], ledger.site[col.OWN_COUNT]
    likely, used, judges = kept[:count], kept[count * (1 + own) : count * (2 + own)], 1
    # exactness.md, "Mixed views", a label: L, and then w.
    likely[:] = 1.0
    hold(likely, used, gain)
    for function in range(min(others.shape[0], MOST_JUDGES)):
        held = kept[count * (1 + function) : count * (2 + function)]
        if is_scored(others, function, arm) and not math.isnan(held[0]):
            hold(likely, held, others[function])
            judges += 1
    take_roots(likely, judges)
    weights, same = scratch_of(ledger).weights, same_view(ledger)
    take_column(ledger, col.VIEW_WEIGHT, weights)
    share = ledger.parameters[col.SHARE] * part_to_spread(weighted_sum(weights, used))
    total = weighted_sum(weights, likely)
    np.multiply(weights, likely, weights)
    np.divide(weights, total, weights)
    more = views[same, col.VIEW_MORE]
    each = share / (count + more)
    for view in range(count):
        views[view, col.VIEW_WEIGHT] = (1.0 - share) * weights[view] + each
    views[same, col.VIEW_WEIGHT] += each * more


@compiled
def part_to_spread(mean: float) -> float:
    """Return which part of the share a label spreads, from what all views together forecast of the arm that was used.

    Where gains are luck a label says little of the views: what is spread there would stay with views that say nothing.
    """
    sure = 2.0 * within_reason(mean) - 1.0  # 0 is a coin; it is taken to the fourth power
    return max(LEAST_SPREAD, (sure * sure) * (sure * sure))


@compiled
def take_roots(likely: Floats, judges: int) -> None:
    """Take the roots of products of so many chances: about their geometric means."""
    power = 1
    while power < judges:
        power *= 2
        for n in range(likely.shape[0]):
            likely[n] = math.sqrt(likely[n])


@compiled_apart
def learn_mixed(ledger: Ledger, ticket: int, arm: int, kind: int, gain: float, others: Floats, kept: Floats) -> None:
    """Enter a label in the rows that were kept, weigh the views by it, and take the pattern if it is the newest."""
    scratch = scratch_of(ledger)
    write_gains(scratch, arm, gain, others)
    take_column(ledger, col.VIEW_MEMORY, scratch.memories)
    count_label(ledger, scratch, arm, kind, kept)
    if adds_up(ledger):
        find_steps(ledger, scratch, kept)
    for scored in range(ledger.site[col.ARM_COUNT]):
        if scratch.counted[scored] > 0.0:
            rates = scratch.rates if goes_by_labels(ledger, scored) else scratch.rates_of_used
            enter_gain(ledger, scratch, scored, rates, kept)
        else:
            fade(ledger, scored)
    weigh_views(ledger, arm, gain, others, kept)
    if ticket > ledger.site[col.NEWEST]:
        ledger.site[col.NEWEST] = ticket
        ledger.site[col.PATTERN] = 1 + pattern_of(ledger, arm, gain, others)


@compiled
def write_gains(scratch: Scratch, arm: int, gain: float, others: Floats) -> None:
    """Write down what a label says of the arms: what it adds to their sums and counts, 0 where it says nothing."""
    scratch.gains[:] = 0.0
    scratch.counted[:] = 0.0
    scratch.steps[:] = 0.0
    for function in range(others.shape[0]):
        if not math.isnan(others[function]):
            scratch.gains[function], scratch.counted[function] = others[function], 1.0
    scratch.gains[arm], scratch.counted[arm] = gain, 1.0


@compiled
def count_label(ledger: Ledger, scratch: Scratch, arm: int, kind: int, kept: Floats) -> None:
    """Count a label in the rows that were kept, and write down how many those that add up have had by now."""
    for view in range(ledger.site[col.VIEWS]):
        row = int(kept[view])
        scratch.rates[view] = np.inf
        if row != EMPTY:
            ledger.cells[row, col.CELL_LABELS] += 1
            if scratch.memories[view] == 1.0:
                scratch.rates[view] = ledger.cells[row, col.CELL_LABELS]
            if kind == TAUGHT:
                ledger.cells[row, col.CELL_TAUGHT] += 1
            else:
                ledger.counts[row, arm, col.WAITING] -= 1


@compiled
def enter_gain(ledger: Ledger, scratch: Scratch, arm: int, rates: Floats, kept: Floats) -> None:
    """Add a gain to what the rows that were kept know of an arm; those with a short memory do not add up."""
    gain, step = scratch.gains[arm], scratch.steps[arm]
    for view in range(ledger.site[col.VIEWS]):
        row, memory = int(kept[view]), scratch.memories[view]
        if row != EMPTY:
            known = ledger.rewards[max(0, row), arm]  # the compiler need not look whether it is negative
            if memory == 1.0:
                known[col.REWARD_SUM] += gain
                known[col.REWARD_COUNT] += 1.0
                known[col.EVIDENCE] += step * rates[view]
            else:
                known[col.REWARD_SUM] = memory * known[col.REWARD_SUM] + gain
                known[col.REWARD_COUNT] = memory * known[col.REWARD_COUNT] + 1.0


@compiled
def fade(ledger: Ledger, arm: int) -> None:
    """Let the short memory of an arm fade that a label says nothing of: who was bad long ago may be good by now."""
    known = ledger.rewards[0, arm]  # the first row is of all items, in the first view
    known[col.REWARD_SUM] *= UNUSED_MEMORY
    known[col.REWARD_COUNT] *= UNUSED_MEMORY


@compiled
def pattern_of(ledger: Ledger, arm: int, gain: float, others: Floats) -> int:
    """Return which local classifiers were right, as bits; where only the used arm is scored, which it was and how.

    Arms that join are the last local one or the last peer: the numbers of the others stay.
    """
    # exactness.md, "Mixed views", the pattern.
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
