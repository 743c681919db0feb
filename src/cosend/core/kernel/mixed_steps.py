"""Mixed views: which arm an item gets, and how a peer's call is answered.

    index of a local classifier that every label scores    mu - cost
    of all others                                          kl_upper_bound(mu, b ln(seen) / n) - cost, 3 - cost if n = 0
    of a peer                                              h less

mu is what all views together forecast, n the rewards that are known or awaited, seen the items that came, b the
policy's bonus and h its home margin.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel import draws
from cosend.core.kernel.bookkeeping import EXPLOIT, EXPLORE
from cosend.core.kernel.cos import draw_one, leader
from cosend.core.kernel.indices import NEVER_TRIED, kl_upper_bound
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger, find_row
from cosend.core.kernel.mixed_rows import (
    MISSING,
    forecast,
    keep_forecasts,
    mean_forecast,
    mixed_key,
    rewards_seen,
)

NOTHING_SEEN: Final = 0.001  # rewards: fewer are none


@compiled
def is_always_scored(ledger: Ledger, arm: int) -> bool:
    """Tell whether every label scores an arm: there is nothing to hope for that would not be found out anyway."""
    return bool(ledger.site[col.SCORES] and arm < ledger.site[col.OWN_COUNT] and ledger.costs[arm] == 0.0)


@compiled
def net_forecast(ledger: Ledger, arm: int) -> float:
    """Return what an arm is worth by all views together; a peer must be better by a margin."""
    margin = ledger.parameters[col.MARGIN] if arm >= ledger.site[col.OWN_COUNT] else 0.0
    return float(mean_forecast(ledger, arm) - ledger.costs[arm] - margin)


@compiled
def mixed_index(ledger: Ledger, arm: int, level: float, least: float, kept: Floats) -> float:
    """Return how good an arm could be net of its cost, or minus infinity if that is certainly less than `least`."""
    cost = ledger.costs[arm]
    if cost == np.inf:
        return -np.inf
    # exactness.md, "Mixed views", Index.
    mean = mean_forecast(ledger, arm)
    if is_always_scored(ledger, arm):
        return float(mean - cost)
    if arm >= ledger.site[col.OWN_COUNT]:
        cost += ledger.parameters[col.MARGIN]
    mean, count = max(0.0, mean), rewards_seen(ledger, arm, kept)
    if count <= NOTHING_SEEN:
        return float(NEVER_TRIED - cost)
    if mean + math.sqrt(level / (2.0 * count)) - cost < least:
        return -np.inf  # Pinsker: the index is not above this
    return float(kl_upper_bound(mean, level / count) - cost)


@compiled
def best_by_mixture(ledger: Ledger, last: int, level: float, kept: Floats) -> tuple[int, int, float]:
    """Return the first of the arms 0 .. last-1 with the highest index, how many share it, and the index."""
    first, ties, best = 0, 0, -np.inf
    for arm in range(last):
        first, ties, best = leader(first, ties, best, arm, mixed_index(ledger, arm, level, best, kept))
    return first, ties, best


@compiled
def nth_by_mixture(ledger: Ledger, first: int, level: float, best: float, n: int, kept: Floats) -> int:
    """Return the n-th arm, counted from `first` on, that has this index."""
    arm = first
    while n > 0:
        arm += 1
        n -= mixed_index(ledger, arm, level, best, kept) == best
    return arm


@compiled
def level_of_mixture(ledger: Ledger, seen: float) -> float:
    """Return how unlikely a mean is held to be before it is ruled out, where so many items came."""
    return float(ledger.parameters[col.BONUS] * math.log(max(1.0, seen)))


@compiled
def phase_of_mixture(ledger: Ledger, arm: int, kept: Floats) -> int:
    """Return EXPLOIT for an arm that is known and forecast to be the best, else EXPLORE."""
    # exactness.md, "Mixed views", the phase.
    worth = net_forecast(ledger, arm)
    for other in range(ledger.site[col.ARM_COUNT]):
        if net_forecast(ledger, other) > worth:
            return EXPLORE
    known = is_always_scored(ledger, arm) or rewards_seen(ledger, arm, kept) > NOTHING_SEEN
    return EXPLOIT if known else EXPLORE


@compiled
def shown_row(ledger: Ledger, kept: Floats) -> int:
    """Return the row that stands for an item where only one can: of all axes together, or the whole."""
    row = int(kept[ledger.site[col.REPORTS]])
    return row if row != EMPTY else int(kept[0])


@compiled_apart
def choose_mixed(
    ledger: Ledger, context: Floats, arrival: int, arrivals: int, kept: Floats
) -> tuple[int, int, int, int]:
    """Choose an arm for the `arrival`-th item and enter the choice: (phase, arm, row, candidates)."""
    level = level_of_mixture(ledger, forecast(ledger, context, True, kept))
    first, ties, index = best_by_mixture(ledger, ledger.site[col.ARM_COUNT], level, kept)
    arm = nth_by_mixture(ledger, first, level, index, draw_one(ledger, draws.BEST_ARM, ties), kept)
    phase = phase_of_mixture(ledger, arm, kept)
    enter_forecast_choice(ledger, arm, arrival, arrivals, kept)
    return phase, arm, shown_row(ledger, kept), ties


@compiled_apart
def enter_mixed(ledger: Ledger, context: Floats, arm: int, arrival: int, arrivals: int, kept: Floats) -> int:
    """Enter a choice that was made before; returns its row."""
    forecast(ledger, context, True, kept)
    enter_forecast_choice(ledger, arm, arrival, arrivals, kept)
    return shown_row(ledger, kept)


@compiled
def enter_forecast_choice(ledger: Ledger, arm: int, arrival: int, arrivals: int, kept: Floats) -> None:
    """Enter a choice in the rows of all views, and keep what they forecast."""
    site = ledger.site
    keep_forecasts(ledger, arm, kept)
    for view in range(site[col.VIEWS]):
        row = int(kept[view])
        if row != EMPTY:
            ledger.cells[row, col.CELL_ARRIVALS] += arrivals
            ledger.counts[row, arm, col.WAITING] += 1
    if arrivals:
        site[col.ARRIVALS] = arrival
    site[col.TICKETS] += 1


@compiled_apart
def answer_mixed(
    ledger: Ledger, context: Floats, caller: int, request: int, labelled: bool, kept: Floats
) -> tuple[int, int]:
    """Return the local function with which to answer a peer, and its row; no count moves before its label comes."""
    site = ledger.site
    level = level_of_mixture(ledger, forecast(ledger, context, labelled, kept))
    first, ties, index = best_by_mixture(ledger, site[col.OWN_COUNT], level, kept)
    n = draws.pick(site[col.KEY0], site[col.KEY1], caller, request, draws.ANSWER_BEST, ties)
    function = nth_by_mixture(ledger, first, level, index, n, kept)
    if labelled:
        keep_forecasts(ledger, function, kept)
        site[col.TICKETS] += 1
    return function, shown_row(ledger, kept)


@compiled_apart
def enter_mixed_answer(ledger: Ledger, context: Floats, function: int, kept: Floats) -> int:
    """Enter an answer that was given before and that a label will follow; returns its row."""
    forecast(ledger, context, True, kept)
    keep_forecasts(ledger, function, kept)
    ledger.site[col.TICKETS] += 1
    return shown_row(ledger, kept)


@compiled_apart
def find_mixed_row(ledger: Ledger, context: Floats) -> int:
    """Return the row of all axes together that holds a context, or EMPTY."""
    key = mixed_key(ledger, ledger.site[col.REPORTS], context)
    return find_row(ledger, key) if key != MISSING else EMPTY
