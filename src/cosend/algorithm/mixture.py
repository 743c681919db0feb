"""Mixed views: what every view forecasts about every arm, which arm an item gets, how a peer's call is answered.

    view 0     no context, short memory        p = (S + 1/2) / (N + 1)
    view 1     no context
    view 2     unless the policy does without: a logistic regression over all cells, p = 1 / (1 + exp(-z)), where z is
               the sum of the numbers that the rows of an item have for the arm, in views of long memory
    others     slices of an axis, of two, of all, each in several finenesses, and patterns
                                               p = (S + p of view 0) / (N + 1); that of the coarser view without a row

A pattern is which local models were right about the newest labelled item. The index by which an arm is chosen:

    of a local model that every label scores    mu - cost
    of all others                               kl_upper_bound(mu, b ln(seen) / n) - cost, 3 - cost if n = 0
    of one that costs something                 mu - cost, once 50 items and 1% of all were paid for to learn about arms
    of a peer                                   h less

mu is what all views together forecast, n the rewards that are known or pending, seen the items that came, b the
policy's bonus and h its home margin. exactness.md, "Mixed views", has the rules.

What a label needs of an item when it comes is one line of numbers, its `memo`: the row in every view, then what all
views forecast about the first local model, about the second, and so on, and about the arm that was used.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from cosend.algorithm import draws
from cosend.algorithm import layout as col
from cosend.algorithm.draws import draw_one, update_argmax
from cosend.algorithm.layout import EMPTY, EXPLOIT, EXPLORE, MOST_CODES, Floats, Ledger, find_row, row_for, slice_of
from cosend.algorithm.ucb import NEVER_TRIED, kl_upper_bound
from cosend.compiled import compiled, compiled_apart

# What the cells of a view are: values of the column VIEW_KIND.
WHOLE: Final = 0
ONE_AXIS: Final = 1
TWO_AXES: Final = 2
ALL_AXES: Final = 3
PATTERNS: Final = 4
ONE_CODE: Final = 5
SUM: Final = 6  # no cells of its own: it adds up what those of the others say
SAME: Final = 7  # one cell for all items, since features were found that never changed

ALL_ITEMS: Final = 1  # the number of the view without a context that forgets nothing
SUM_VIEW: Final = 2  # the number of the view that adds up
IMPROVING_MEMORY: Final = 0.98  # of an arm that learns: the factor of its sums before a gain, in views of long memory
EXPLORED_FREELY: Final = 50.0  # items that may be paid for to learn about arms,
EXPLORED_SHARE: Final = 0.01  # and which share of all items besides
LARGEST_SUM: Final = 30.0  # beyond this a chance is 0 or 1
ENOUGH_LABELS: Final = 32  # in a row, before finer views have rows there
MISSING: Final = -1  # the key of an item that lacks a value on an axis
NOTHING_SEEN: Final = 0.001  # fewer rewards count as none

# The scratch: room to work in, behind the parameters of a site. Nothing in it is needed after a step.
BLOCKS: Final = 2  # numbers for every arm and view
COLUMNS: Final = 4  # numbers for every view
LINES: Final = 6  # numbers for every arm


def memo_width(views: int, own: int) -> int:
    """Return the length of a memo."""
    return views * (2 + own)


class Scratch(NamedTuple):
    """Where to write what. A block has the numbers of all views for the first arm, then those for the second, ...

    The numbers of the views are adjacent, so that the compiler can make wide instructions of a loop over them.
    """

    forecasts: Floats  # block: what a view forecasts about an arm; before that, the dividend
    bottoms: Floats  # block: the divisor
    weights: Floats  # [view]
    memories: Floats  # [view]
    rates: Floats  # [view]: labels of its row, then its part of a step, for arms that go by all labels
    rates_of_used: Floats  # [view]: the same for the arm that was used, if it does not
    means: Floats  # [arm]: what all views together forecast
    evidence: Floats  # [arm]: what the rows of an item add up to
    gains: Floats  # [arm]: what a label adds to the sum of an arm,
    counted: Floats  # [arm]: to its count, 0 if it says nothing of the arm,
    steps: Floats  # [arm]: and to its evidence
    keeps: Floats  # [arm], a setting: the factor of its sums before a gain, in views of long memory


def with_scratch(ledger: Ledger) -> Ledger:
    """Return the ledger with room to work in for as many views and arms as it has now; settings are to be written."""
    views, arms = len(ledger.views), len(ledger.costs)
    room = np.zeros(BLOCKS * arms * views + COLUMNS * views + LINES * arms)
    return ledger._replace(parameters=np.concatenate([ledger.parameters[: col.PARAMETER_COLUMNS], room]))


def forecasts_by_arm(ledger: Ledger) -> Floats:
    """Return what was forecast last, [arm, view]."""
    arms, views, first = len(ledger.costs), len(ledger.views), col.PARAMETER_COLUMNS
    return ledger.parameters[first : first + arms * views].reshape(arms, views)


@compiled
def scratch_of(ledger: Ledger) -> Scratch:
    """Return the parts of the scratch of a site."""
    views, arms, room = ledger.site[col.VIEWS], ledger.site[col.ARM_COUNT], ledger.parameters
    block, first = arms * views, col.PARAMETER_COLUMNS
    lines = first + BLOCKS * block + COLUMNS * views
    return Scratch(
        room[first : first + block],
        room[first + block : first + 2 * block],
        room[lines - 4 * views : lines - 3 * views],
        room[lines - 3 * views : lines - 2 * views],
        room[lines - 2 * views : lines - views],
        room[lines - views : lines],
        room[lines : lines + arms],
        room[lines + arms : lines + 2 * arms],
        room[lines + 2 * arms : lines + 3 * arms],
        room[lines + 3 * arms : lines + 4 * arms],
        room[lines + 4 * arms : lines + 5 * arms],
        room[lines + 5 * arms : lines + 6 * arms],
    )


@compiled
def take_column(ledger: Ledger, column: int, line: Floats) -> None:
    """Copy a column of the views to a line, in which its numbers are adjacent."""
    for view in range(line.shape[0]):
        line[view] = ledger.views[view, column]


@compiled
def same_view(ledger: Ledger) -> int:
    """Return the number of the view that stands for further ones; without one it is the first, which does not."""
    return int(ledger.parameters[col.SAME_VIEW])


def means_of_arms(ledger: Ledger) -> Floats:
    """Return what all views together have forecast last, [arm]."""
    arms, views = len(ledger.costs), len(ledger.views)
    first = col.PARAMETER_COLUMNS + BLOCKS * arms * views + COLUMNS * views
    return ledger.parameters[first : first + arms]


@compiled
def weighted_sum(weights: Floats, values: Floats) -> float:
    """Return the sum of products."""
    # exactness.md, "Mixed views", sums: four side by side, and what is left goes to the first.
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    rest = weights.shape[0] - weights.shape[0] % 4
    for n in range(0, rest, 4):
        first += weights[n] * values[n]
        second += weights[n + 1] * values[n + 1]
        third += weights[n + 2] * values[n + 2]
        fourth += weights[n + 3] * values[n + 3]
    for n in range(rest, weights.shape[0]):
        first += weights[n] * values[n]
    return (first + second) + (third + fourth)


# Rows


@compiled
def _key_in_view(ledger: Ledger, view: int, context: Floats) -> int:
    """Return the key of the cell of a view that holds an item, or MISSING if it lacks a value there."""
    seen, kind, number = ledger.views[view], ledger.views[view, col.VIEW_KIND], 0
    slices = int(seen[col.VIEW_SLICES])
    if kind in (ONE_AXIS, ONE_CODE):
        x = context[int(seen[col.VIEW_FIRST])]
        if math.isnan(x):
            return MISSING
        number = slice_of(x, slices) if kind == ONE_AXIS else int(x)
    elif kind == TWO_AXES:
        one, two = int(seen[col.VIEW_FIRST]), int(seen[col.VIEW_SECOND])
        if math.isnan(context[one]) or math.isnan(context[two]):
            return MISSING
        number = _index_on(ledger, one, context[one], slices) * _radix_of(ledger, two, slices)
        number += _index_on(ledger, two, context[two], slices)
    elif kind == ALL_AXES:
        for axis in range(ledger.site[col.DIMENSIONS]):
            if math.isnan(context[axis]):
                return MISSING
            number = number * _radix_of(ledger, axis, slices) + _index_on(ledger, axis, context[axis], slices)
    elif kind == PATTERNS:
        number = ledger.site[col.PATTERN]
    return number * int(ledger.site[col.VIEWS]) + view


@compiled
def _index_on(ledger: Ledger, axis: int, x: float, slices: int) -> int:
    return int(x) if (ledger.site[col.CATEGORIES] >> axis) & 1 else slice_of(x, slices)


@compiled
def _radix_of(ledger: Ledger, axis: int, slices: int) -> int:
    return MOST_CODES if (ledger.site[col.CATEGORIES] >> axis) & 1 else slices


@compiled
def _find_rows(ledger: Ledger, context: Floats, begins: bool, memo: Floats) -> None:
    views, without_rows = ledger.views, SUM_VIEW if adds_up(ledger) else EMPTY
    for view in range(ledger.site[col.VIEWS]):
        # exactness.md, "Mixed views", rows.
        row, up = EMPTY, int(views[view, col.VIEW_UP])
        if view != without_rows and (not views[view, col.VIEW_FINE] or _has_enough(ledger, int(memo[up]))):
            row = _row_in_view(ledger, view, context, begins)
        memo[view] = row


@compiled
def _row_in_view(ledger: Ledger, view: int, context: Floats, begins: bool) -> int:
    """Return the row of an item in a view, or EMPTY; with `begins` a missing one is begun while there is room."""
    key = _key_in_view(ledger, view, context)
    if key == MISSING:
        return EMPTY
    row = find_row(ledger, key)
    if row == EMPTY and begins and ledger.site[col.ROWS] < ledger.site[col.MAX_ROWS]:
        row = row_for(ledger, key)
    return row


@compiled
def _has_enough(ledger: Ledger, row: int) -> bool:
    return row != EMPTY and ledger.cells[row, col.CELL_LABELS] >= ENOUGH_LABELS


# Forecasts


@compiled
def forecast(ledger: Ledger, context: Floats, begins: bool, memo: Floats) -> float:
    """Find the rows of an item, and what every view forecasts about every arm; returns how many items came there.

    The rows go into `memo`, the forecasts into the scratch. All rows are found before one is read, so that the
    processor can fetch several at once.
    """
    scratch, views = scratch_of(ledger), ledger.site[col.VIEWS]
    _find_rows(ledger, context, begins, memo)
    take_column(ledger, col.VIEW_WEIGHT, scratch.weights)
    _read_rows(ledger, scratch, memo)
    np.divide(scratch.forecasts, scratch.bottoms, scratch.forecasts)  # one after the other would take far longer
    _borrow_forecasts(ledger, scratch, memo)
    if adds_up(ledger):
        _forecast_sum(ledger, scratch)
    for arm in range(ledger.site[col.ARM_COUNT]):
        said = scratch.forecasts[arm * views : (arm + 1) * views]
        scratch.means[arm] = weighted_sum(scratch.weights, said)
    return _items_seen(ledger, scratch, memo)


@compiled
def _read_rows(ledger: Ledger, scratch: Scratch, memo: Floats) -> None:
    """Write down dividends and divisors of all forecasts, and for the view that adds up, the sum of the rows.

    The loop over the views is the inner one, because it is the longer one. Numbers of views without a row are not
    used.
    """
    views, first = ledger.site[col.VIEWS], int(memo[0])
    for arm in range(ledger.site[col.ARM_COUNT]):
        start, end, prior = arm * views, (arm + 1) * views, _prior_of(ledger, first, arm)
        evidence, other, tops, bottoms = 0.0, 0.0, scratch.forecasts[start:end], scratch.bottoms[start:end]
        for view in range(views):
            row = int(memo[view])
            known = ledger.rewards[max(0, row), arm]
            # exactness.md, "Mixed views", forecasts.
            tops[view] = known[col.REWARD_SUM] + prior
            bottoms[view] = known[col.REWARD_COUNT] + 1.0
            # The same, z: views of even and of odd numbers are summed apart, as in `add_up`.
            evidence, other = other + (known[col.EVIDENCE] if row != EMPTY else 0.0), evidence
        tops[0], bottoms[0] = prior, 1.0
        scratch.evidence[arm] = evidence + other


@compiled
def _prior_of(ledger: Ledger, row: int, arm: int) -> float:
    """Return what the first view forecasts about an arm: the prior of all others."""
    if row == EMPTY:
        return 0.5
    known = ledger.rewards[row, arm]
    return float((known[col.REWARD_SUM] + 0.5) / (known[col.REWARD_COUNT] + 1.0))


@compiled
def _borrow_forecasts(ledger: Ledger, scratch: Scratch, memo: Floats) -> None:
    """Let views without a row forecast what the next coarser one does."""
    for view in range(ledger.site[col.VIEWS]):
        if int(memo[view]) == EMPTY:
            _borrow_forecast(ledger, scratch, view, int(ledger.views[view, col.VIEW_UP]))


@compiled_apart
def _borrow_forecast(ledger: Ledger, scratch: Scratch, view: int, up: int) -> None:
    """Let a view forecast what another does. Apart, because with this in its loop every other view took longer."""
    views = ledger.site[col.VIEWS]
    for arm in range(ledger.site[col.ARM_COUNT]):
        scratch.forecasts[arm * views + view] = scratch.forecasts[arm * views + up]


@compiled
def adds_up(ledger: Ledger) -> bool:
    """Tell whether there is a view that adds up."""
    return bool(ledger.views[SUM_VIEW, col.VIEW_KIND] == SUM)


@compiled
def chance_of(z: float) -> float:
    """Return the probability of a gain for a sum, as in logistic regression."""
    z = -LARGEST_SUM if z < -LARGEST_SUM else z
    return 1.0 / (1.0 + math.exp(-(LARGEST_SUM if z > LARGEST_SUM else z)))


@compiled
def _forecast_sum(ledger: Ledger, scratch: Scratch) -> None:
    """Write down what the view that adds up forecasts."""
    for arm in range(ledger.site[col.ARM_COUNT]):
        scratch.forecasts[arm * ledger.site[col.VIEWS] + SUM_VIEW] = chance_of(scratch.evidence[arm])


@compiled
def _items_seen(ledger: Ledger, scratch: Scratch, memo: Floats) -> float:
    """Return how many items came to the rows of an item, by the weights of the views."""
    seen = 0.0
    for view in range(ledger.site[col.VIEWS]):
        row = int(memo[view])
        if row != EMPTY:
            seen += scratch.weights[view] * ledger.cells[row, col.CELL_ARRIVALS]
    return seen


@compiled
def _rewards_seen(ledger: Ledger, arm: int, memo: Floats) -> float:
    """Return how many rewards of an arm are known or pending in the rows of an item, by the weights of the views."""
    seen = 0.0
    for view in range(ledger.site[col.VIEWS]):
        row = int(memo[view])
        if row != EMPTY:
            count = ledger.rewards[row, arm, col.REWARD_COUNT] + ledger.counts[row, arm, col.PENDING]
            seen += ledger.views[view, col.VIEW_WEIGHT] * count
    return seen


@compiled
def _write_memo(ledger: Ledger, arm: int, memo: Floats) -> None:
    """Write the forecasts for the local models and for the arm that is used into `memo`."""
    said, views, own = scratch_of(ledger).forecasts, ledger.site[col.VIEWS], ledger.site[col.OWN_COUNT]
    _copy_to(memo[views : (1 + own) * views], said[: own * views])  # local models are the first arms
    _copy_to(memo[(1 + own) * views : (2 + own) * views], said[arm * views : (arm + 1) * views])


@compiled
def _copy_to(there: Floats, here: Floats) -> None:
    """Copy numbers: an index that cannot be negative lets the compiler make wide instructions of the loop."""
    for n in range(there.shape[0]):
        there[n] = here[n]


# Choosing


@compiled_apart
def choose_mixed(ledger: Ledger, context: Floats, arrivals: int, memo: Floats) -> tuple[int, int, int, int]:
    """Choose an arm for an item and enter the choice: (phase, arm, row, candidates).

    It counts as 1 arrival, or as 0 if it was counted when it came and its arm has failed.
    """
    level = _level_of_mixture(ledger, forecast(ledger, context, True, memo))
    first, ties, index = _best_by_mixture(ledger, ledger.site[col.ARM_COUNT], level, memo)
    arm = _nth_by_mixture(ledger, first, level, index, draw_one(ledger, draws.BEST_ARM, ties), memo)
    phase = _phase_of_mixture(ledger, arm, memo)
    _enter_forecast_choice(ledger, arm, phase, arrivals, memo)
    return phase, arm, _shown_row(ledger, memo), ties


@compiled_apart
def enter_mixed(ledger: Ledger, context: Floats, arm: int, phase: int, arrivals: int, memo: Floats) -> int:
    """Enter a choice that was made before; returns its row."""
    forecast(ledger, context, True, memo)
    _enter_forecast_choice(ledger, arm, phase, arrivals, memo)
    return _shown_row(ledger, memo)


@compiled
def _enter_forecast_choice(ledger: Ledger, arm: int, phase: int, arrivals: int, memo: Floats) -> None:
    """Enter a choice in the rows of all views, and complete its memo."""
    site = ledger.site
    _write_memo(ledger, arm, memo)
    for view in range(site[col.VIEWS]):
        row = int(memo[view])
        if row != EMPTY:
            ledger.cells[row, col.CELL_ARRIVALS] += arrivals
            ledger.counts[row, arm, col.PENDING] += 1
    site[col.ARRIVALS] += arrivals
    site[col.LAST_ID] += 1
    site[col.PAID_EXPLORED] += int(phase == EXPLORE and ledger.costs[arm] > 0.0)


@compiled
def _level_of_mixture(ledger: Ledger, seen: float) -> float:
    """Return the confidence level of the index: bonus * ln(seen)."""
    return float(ledger.parameters[col.BONUS] * math.log(max(1.0, seen)))


@compiled
def _best_by_mixture(ledger: Ledger, last: int, level: float, memo: Floats) -> tuple[int, int, float]:
    """Return the first of the arms 0 .. last-1 with the highest index, how many share it, and the index."""
    first, ties, best = 0, 0, -np.inf
    for arm in range(last):
        first, ties, best = update_argmax(first, ties, best, arm, _mixed_index(ledger, arm, level, best, memo))
    return first, ties, best


@compiled
def _nth_by_mixture(ledger: Ledger, first: int, level: float, best: float, n: int, memo: Floats) -> int:
    """Return the n-th arm, counted from `first` on, that has this index."""
    arm = first
    while n > 0:
        arm += 1
        n -= _mixed_index(ledger, arm, level, best, memo) == best
    return arm


@compiled
def _mixed_index(ledger: Ledger, arm: int, level: float, least: float, memo: Floats) -> float:
    """Return how good an arm could be net of its cost, or minus infinity if that is certainly less than `least`."""
    cost = ledger.costs[arm]
    if cost == np.inf:
        return -np.inf
    # exactness.md, "Mixed views", Index.
    mean = scratch_of(ledger).means[arm]
    if _is_always_scored(ledger, arm):
        return float(mean - cost)
    is_dear = cost > 0.0
    if arm >= ledger.site[col.OWN_COUNT]:
        cost += ledger.parameters[col.MARGIN]
    if is_dear and ledger.site[col.PAID_EXPLORED] > EXPLORED_FREELY + EXPLORED_SHARE * ledger.site[col.ARRIVALS]:
        return float(mean - cost)
    mean, count = max(0.0, mean), _rewards_seen(ledger, arm, memo)
    if count <= NOTHING_SEEN:
        return float(NEVER_TRIED - cost)
    if mean + math.sqrt(level / (2.0 * count)) - cost < least:
        return -np.inf  # Pinsker: the index is not above this
    return float(kl_upper_bound(mean, level / count) - cost)


@compiled
def _is_always_scored(ledger: Ledger, arm: int) -> bool:
    """Tell whether every label scores an arm: then there is no need to explore it."""
    return bool(
        ledger.site[col.SCORES] == col.ALL_FREE and arm < ledger.site[col.OWN_COUNT] and ledger.costs[arm] == 0.0
    )


@compiled
def _phase_of_mixture(ledger: Ledger, arm: int, memo: Floats) -> int:
    """Return EXPLOIT for an arm that is known and forecast to be the best, else EXPLORE."""
    # exactness.md, "Mixed views", the phase.
    worth = _net_forecast(ledger, arm)
    for other in range(ledger.site[col.ARM_COUNT]):
        if _net_forecast(ledger, other) > worth:
            return EXPLORE
    known = _is_always_scored(ledger, arm) or _rewards_seen(ledger, arm, memo) > NOTHING_SEEN
    return EXPLOIT if known else EXPLORE


@compiled
def _net_forecast(ledger: Ledger, arm: int) -> float:
    """Return what an arm is worth by all views together; a peer must be better by a margin."""
    margin = ledger.parameters[col.MARGIN] if arm >= ledger.site[col.OWN_COUNT] else 0.0
    return float(scratch_of(ledger).means[arm] - ledger.costs[arm] - margin)


@compiled
def _shown_row(ledger: Ledger, memo: Floats) -> int:
    """Return the row that is shown for an item: of all axes together, or of all items."""
    row = int(memo[ledger.site[col.REPORTS]])
    return row if row != EMPTY else int(memo[0])


@compiled
def weigh_arms(ledger: Ledger, context: Floats, memo: Floats, worths: Floats) -> None:
    """Write down the index by which each arm would be chosen; rows are begun as by a choice, and no count moves."""
    level = _level_of_mixture(ledger, forecast(ledger, context, True, memo))
    for arm in range(ledger.site[col.ARM_COUNT]):
        worths[arm] = _mixed_index(ledger, arm, level, -np.inf, memo)


# Answering peers


@compiled_apart
def answer_mixed(
    ledger: Ledger, context: Floats, caller: int, request: int, labelled: bool, memo: Floats
) -> tuple[int, int]:
    """Return the local model with which to answer a peer, and its row; no count moves before its label comes."""
    site = ledger.site
    level = _level_of_mixture(ledger, forecast(ledger, context, labelled, memo))
    first, ties, index = _best_by_mixture(ledger, site[col.OWN_COUNT], level, memo)
    n = draws.pick(site[col.KEY0], site[col.KEY1], caller, request, draws.ANSWER_BEST, ties)
    function = _nth_by_mixture(ledger, first, level, index, n, memo)
    if labelled:
        _write_memo(ledger, function, memo)
        site[col.LAST_ID] += 1
    return function, _shown_row(ledger, memo)


@compiled_apart
def enter_mixed_answer(ledger: Ledger, context: Floats, function: int, memo: Floats) -> int:
    """Enter an answer that was given before and that a label will follow; returns its row."""
    forecast(ledger, context, True, memo)
    _write_memo(ledger, function, memo)
    ledger.site[col.LAST_ID] += 1
    return _shown_row(ledger, memo)


@compiled_apart
def find_mixed_row(ledger: Ledger, context: Floats) -> int:
    """Return the row of all axes together that holds a context, of all items if it lacks a value, or EMPTY."""
    key = _key_in_view(ledger, ledger.site[col.REPORTS], context)
    return find_row(ledger, key if key != MISSING else _key_in_view(ledger, ALL_ITEMS, context))
