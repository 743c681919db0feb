"""Mixed views: a label that comes. The views learn, are weighed by what they forecast, then the pattern moves.

weight      times the geometric mean of the likelihoods that the view gave to the observed gains (the order of the root
            is rounded up to a power of two, so that only square roots are needed); renormalised; then a uniform share
            is mixed in, which shrinks with the uncertainty about the used arm
every row   N = g N + 1 and S = g S + gain for each arm that is scored, g the memory of the view
view 0      N = .9995 N and S = .9995 S for all others
view 2      the numbers of all rows together += gain - p, with p as it is when the label comes; a row takes the more of
            it the fewer labels it has had, because what is new explains it better
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.algorithm import layout as col
from cosend.algorithm.layout import EMPTY, TAUGHT, Floats, Ledger
from cosend.algorithm.mixture import Scratch, adds_up, chance_of, same_view, scratch_of, take_column, weighted_sum
from cosend.compiled import compiled, compiled_apart

LEAST_CHANCE: Final = 0.01  # a forecast is never taken for surer than this
LEAST_SPREAD: Final = 0.01  # of the share, when an arm is used that is right as often as a coin
LEAST_RATE: Final = 1e-300  # there may be no row that adds, and then nothing moves
MOST_JUDGES: Final = 128  # local models that weigh views: the product of more chances might be 0
PATTERN_BITS: Final = 4
UNUSED_MEMORY: Final = 0.9995  # per label: half of what is known about an arm is forgotten in 1,386 others


@compiled_apart
def learn_mixed(ledger: Ledger, id: int, arm: int, kind: int, gain: float, others: Floats, memo: Floats) -> None:
    """Enter a label in the rows of its item, weigh the views by it, and take the pattern if it is the newest."""
    scratch = scratch_of(ledger)
    _write_gains(scratch, arm, gain, others)
    take_column(ledger, col.VIEW_MEMORY, scratch.memories)
    _count_in_rows(ledger, scratch, arm, kind, memo)
    if adds_up(ledger):
        _find_steps(ledger, scratch, memo)
    for scored in range(ledger.site[col.ARM_COUNT]):
        if scratch.counted[scored] > 0.0:
            rates = scratch.rates if _goes_by_labels(ledger, scored) else scratch.rates_of_used
            _enter_gain(ledger, scratch, scored, rates, memo)
        else:
            _decay_unused(ledger, scored)
    _weigh_views(ledger, arm, gain, others, memo)
    if id > ledger.site[col.NEWEST]:
        ledger.site[col.NEWEST] = id
        ledger.site[col.PATTERN] = 1 + _pattern_of(ledger, arm, gain, others)


@compiled
def _write_gains(scratch: Scratch, arm: int, gain: float, others: Floats) -> None:
    """Write down what a label adds to the sums and counts of the arms, 0 for arms that it does not score."""
    scratch.gains[:] = 0.0
    scratch.counted[:] = 0.0
    scratch.steps[:] = 0.0
    for function in range(others.shape[0]):
        if not math.isnan(others[function]):
            scratch.gains[function], scratch.counted[function] = others[function], 1.0
    scratch.gains[arm], scratch.counted[arm] = gain, 1.0


@compiled
def _count_in_rows(ledger: Ledger, scratch: Scratch, arm: int, kind: int, memo: Floats) -> None:
    """Count a label in the rows of its item, and write down how many each row of long memory has had by now."""
    for view in range(ledger.site[col.VIEWS]):
        row = int(memo[view])
        scratch.rates[view] = np.inf
        if row != EMPTY:
            ledger.cells[row, col.CELL_LABELS] += 1
            if scratch.memories[view] == 1.0:
                scratch.rates[view] = ledger.cells[row, col.CELL_LABELS]
            if kind == TAUGHT:
                ledger.cells[row, col.CELL_TAUGHT] += 1
            else:
                ledger.counts[row, arm, col.PENDING] -= 1


@compiled
def _enter_gain(ledger: Ledger, scratch: Scratch, arm: int, rates: Floats, memo: Floats) -> None:
    """Add a gain to what the rows of an item know about an arm; those of short memory are not part of the sum."""
    gain, step = scratch.gains[arm], scratch.steps[arm]
    for view in range(ledger.site[col.VIEWS]):
        row, memory = int(memo[view]), scratch.memories[view]
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
def _decay_unused(ledger: Ledger, arm: int) -> None:
    """Decay the short memory of an arm that a label does not score: an arm that was bad may be good by now."""
    known = ledger.rewards[0, arm]  # the first row is of all items, in the first view
    known[col.REWARD_SUM] *= UNUSED_MEMORY
    known[col.REWARD_COUNT] *= UNUSED_MEMORY


@compiled_apart
def undo_mixed(ledger: Ledger, arm: int, kind: int, memo: Floats) -> None:
    """Take back a choice whose label will never come; an answer was entered nowhere."""
    if kind == TAUGHT:
        return
    for view in range(ledger.site[col.VIEWS]):
        row = int(memo[view])
        if row != EMPTY:
            ledger.counts[row, arm, col.PENDING] -= 1


@compiled
def _pattern_of(ledger: Ledger, arm: int, gain: float, others: Floats) -> int:
    """Return which local models were right, as bits; where only the used arm is scored, which it was and how.

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


# The weights of the views


@compiled
def _weigh_views(ledger: Ledger, arm: int, gain: float, others: Floats, memo: Floats) -> None:
    """Weigh the views by the likelihood that each gave to the gains of a label when the item was decided.

    The rows in `memo` are not needed any more: the likelihoods take their places.
    """
    views, count, own = ledger.views, ledger.site[col.VIEWS], ledger.site[col.OWN_COUNT]
    likely, used, judges = memo[:count], memo[count * (1 + own) : count * (2 + own)], 1
    # exactness.md, "Mixed views", a label: L, and then w.
    likely[:] = 1.0
    _multiply_likelihood(likely, used, gain)
    for function in range(min(others.shape[0], MOST_JUDGES)):
        held = memo[count * (1 + function) : count * (2 + function)]
        if _is_scored(others, function, arm) and not math.isnan(held[0]):
            _multiply_likelihood(likely, held, others[function])
            judges += 1
    _geometric_mean(likely, judges)
    weights, same = scratch_of(ledger).weights, same_view(ledger)
    take_column(ledger, col.VIEW_WEIGHT, weights)
    share = ledger.parameters[col.SHARE] * _part_to_spread(weighted_sum(weights, used))
    total = weighted_sum(weights, likely)
    np.multiply(weights, likely, weights)
    np.divide(weights, total, weights)
    more = views[same, col.VIEW_MORE]
    each = share / (count + more)
    for view in range(count):
        views[view, col.VIEW_WEIGHT] = (1.0 - share) * weights[view] + each
    views[same, col.VIEW_WEIGHT] += each * more


@compiled
def _is_scored(others: Floats, function: int, used: int) -> bool:
    return function != used and not math.isnan(others[function])


@compiled
def _multiply_likelihood(likely: Floats, forecasts: Floats, gain: float) -> None:
    """Multiply the likelihood of every view by that of one more gain, from its forecast.

    Plain loops over arrays from their start, which the compiler makes wide instructions of.
    """
    if gain >= 1.0:
        for n in range(likely.shape[0]):
            likely[n] *= _clip_probability(forecasts[n])
    elif gain <= 0.0:
        for n in range(likely.shape[0]):
            likely[n] *= 1.0 - _clip_probability(forecasts[n])
    else:
        for n in range(likely.shape[0]):
            chance = _clip_probability(forecasts[n])
            likely[n] *= math.exp(gain * math.log(chance) + (1.0 - gain) * math.log(1.0 - chance))


@compiled
def _clip_probability(forecast: float) -> float:
    chance = LEAST_CHANCE if forecast < LEAST_CHANCE else forecast
    return 1.0 - LEAST_CHANCE if chance > 1.0 - LEAST_CHANCE else chance


@compiled
def _geometric_mean(likely: Floats, judges: int) -> None:
    """Turn products of `judges` chances into about their geometric means."""
    power = 1
    while power < judges:
        power *= 2
        for n in range(likely.shape[0]):
            likely[n] = math.sqrt(likely[n])


@compiled
def _part_to_spread(mean: float) -> float:
    """Return the part of the share that a label spreads, from what all views together forecast about the used arm.

    Where gains are luck a label says little about the views: weight that is spread there would stay with useless ones.
    """
    sure = 2.0 * _clip_probability(mean) - 1.0  # 0 is a coin; it is taken to the fourth power
    return max(LEAST_SPREAD, (sure * sure) * (sure * sure))


# The view that adds up


@compiled
def _find_steps(ledger: Ledger, scratch: Scratch, memo: Floats) -> None:
    """Find by how much a label moves the numbers that the rows of an item add, for every arm that it scores.

    The label is counted by now, and the rates are how many labels each row has had.
    """
    total = _sum_of_rates(ledger, scratch.rates)
    for arm in range(ledger.site[col.ARM_COUNT]):
        if scratch.counted[arm] > 0.0:
            gain = min(max(scratch.gains[arm], 0.0), 1.0)
            parts = total if _goes_by_labels(ledger, arm) else _find_rates_of(ledger, scratch, arm, memo)
            scratch.steps[arm] = (gain - chance_of(_add_up(ledger, arm, memo))) / max(LEAST_RATE, parts)


@compiled
def _find_rates_of(ledger: Ledger, scratch: Scratch, arm: int, memo: Floats) -> float:
    """Find the part of every row in the step of an arm that goes by its own labels, and the sum of the parts.

    There is one such arm at most, the one that was used.
    """
    for view in range(scratch.rates_of_used.shape[0]):
        row = int(memo[view])
        labels = ledger.rewards[max(0, row), arm, col.REWARD_COUNT] + 1.0
        scratch.rates_of_used[view] = labels if row != EMPTY and scratch.memories[view] == 1.0 else np.inf
    return _sum_of_rates(ledger, scratch.rates_of_used)


@compiled
def _sum_of_rates(ledger: Ledger, rates: Floats) -> float:
    """Turn numbers of labels into parts; returns the sum over views of even and that over views of odd numbers."""
    same, total, other = same_view(ledger), 0.0, 0.0
    np.divide(1.0, rates, rates)
    rates[same] *= 1.0 + ledger.views[same, col.VIEW_MORE]
    for view in range(rates.shape[0]):
        total, other = other + rates[view], total
    return total + other


@compiled
def _add_up(ledger: Ledger, arm: int, memo: Floats) -> float:
    evidence, other = 0.0, 0.0
    for view in range(ledger.site[col.VIEWS]):
        row = int(memo[view])
        adds = ledger.rewards[max(0, row), arm, col.EVIDENCE]
        evidence, other = other + (adds if row != EMPTY else 0.0), evidence
    return evidence + other


@compiled
def _goes_by_labels(ledger: Ledger, arm: int) -> bool:
    """Tell whether the steps of an arm go by all labels of a row, or by those that came when the arm was used."""
    return bool(ledger.site[col.SCORES] and arm < ledger.site[col.OWN_COUNT])
