"""Mixed views: the view that adds up, unless a policy does without. A mixture chooses among views; here they add up.

    p = 1 / (1 + exp(-z))     z the sum of numbers that the rows of an item have for the arm, in views of long memory
    label                     all of them together += gain - p, with p as it is when the label comes; a row takes the
                              more of it the fewer labels it has had, because what is new explains it better

That is a logistic regression over all cells. exactness.md, "Mixed views", the last paragraph.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger
from cosend.core.kernel.mixed_scratch import Scratch, same_view

SUM: Final = 6  # what the cells of this view are: it has none of its own
SUM_VIEW: Final = 2  # its number
LEAST_RATE: Final = 1e-300  # there may be no row that adds, and then nothing moves
LARGEST_SUM: Final = 30.0  # beyond this a chance is 0 or 1


@compiled
def adds_up(ledger: Ledger) -> bool:
    """Tell whether there is a view that adds up."""
    return bool(ledger.views[SUM_VIEW, col.VIEW_KIND] == SUM)


@compiled
def chance_of(z: float) -> float:
    """Return how likely a gain is by what was added up."""
    z = -LARGEST_SUM if z < -LARGEST_SUM else z
    return 1.0 / (1.0 + math.exp(-(LARGEST_SUM if z > LARGEST_SUM else z)))


@compiled
def forecast_sum(ledger: Ledger, scratch: Scratch) -> None:
    """Write down what the view that adds up forecasts."""
    for arm in range(ledger.site[col.ARM_COUNT]):
        scratch.forecasts[arm * ledger.site[col.VIEWS] + SUM_VIEW] = chance_of(scratch.evidence[arm])


@compiled
def add_up(ledger: Ledger, arm: int, kept: Floats) -> float:
    """Return what the rows of an item add up to by now."""
    evidence, other = 0.0, 0.0
    for view in range(ledger.site[col.VIEWS]):
        row = int(kept[view])
        adds = ledger.rewards[max(0, row), arm, col.EVIDENCE]
        evidence, other = other + (adds if row != EMPTY else 0.0), evidence
    return evidence + other


@compiled
def goes_by_labels(ledger: Ledger, arm: int) -> bool:
    """Tell whether the steps of an arm go by all labels of a row, or by those that came when the arm was used."""
    return bool(ledger.site[col.SCORES] and arm < ledger.site[col.OWN_COUNT])


@compiled
def find_steps(ledger: Ledger, scratch: Scratch, kept: Floats) -> None:
    """Find by how much a label moves what the rows of an item add, for every arm that it says something of.

    The label is counted by now, and the rates are how many labels each row has had.
    """
    total = sum_of_rates(ledger, scratch.rates)
    for arm in range(ledger.site[col.ARM_COUNT]):
        if scratch.counted[arm] > 0.0:
            gain = min(max(scratch.gains[arm], 0.0), 1.0)
            parts = total if goes_by_labels(ledger, arm) else find_rates_of(ledger, scratch, arm, kept)
            scratch.steps[arm] = (gain - chance_of(add_up(ledger, arm, kept))) / max(LEAST_RATE, parts)


@compiled
def find_rates_of(ledger: Ledger, scratch: Scratch, arm: int, kept: Floats) -> float:
    """Find the part of every row in the step of an arm that goes by its own labels, and what they sum up to.

    There is one such arm at most, the one that was used.
    """
    for view in range(scratch.rates_of_used.shape[0]):
        row = int(kept[view])
        labels = ledger.rewards[max(0, row), arm, col.REWARD_COUNT] + 1.0
        scratch.rates_of_used[view] = labels if row != EMPTY and scratch.memories[view] == 1.0 else np.inf
    return sum_of_rates(ledger, scratch.rates_of_used)


@compiled
def sum_of_rates(ledger: Ledger, rates: Floats) -> float:
    """Turn numbers of labels into parts; returns the sum over views of even and that over views of odd numbers."""
    same, total, other = same_view(ledger), 0.0, 0.0
    np.divide(1.0, rates, rates)
    rates[same] *= 1.0 + ledger.views[same, col.VIEW_MORE]
    for view in range(rates.shape[0]):
        total, other = other + rates[view], total
    return total + other
