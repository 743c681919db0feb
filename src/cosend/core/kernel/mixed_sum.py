"""Mixed views: the view that adds up, if the policy has it. A mixture chooses among views; here, what they say adds up.

    p = 1 / (1 + exp(-z))     z the sum of numbers that the rows of an item have for the arm, in views of long memory
    label                     each of these numbers += (gain - p) / rows, with p as it is when the label comes

That is a logistic regression over all cells. Its step is the same however many rows an item has. exactness.md, "Mixed
views", the last paragraph.
"""

from __future__ import annotations

import math
from typing import Final

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger

SUM: Final = 6  # what the cells of this view are: it has none of its own
SUM_VIEW: Final = 2  # its number
STEP: Final = 1.0  # by how much a label moves z at most
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
def add_up(ledger: Ledger, kept: Floats, sums: Floats) -> int:
    """Write into `sums` what the rows of an item add up to, for every arm; returns how many rows that are."""
    rows, arms = 0, ledger.site[col.ARM_COUNT]
    sums[:arms] = 0.0
    for view in range(ledger.site[col.VIEWS]):
        row = int(kept[view])
        if row != EMPTY and ledger.views[view, col.VIEW_MEMORY] == 1.0:
            rows += 1
            for arm in range(arms):
                sums[arm] += ledger.rewards[row, arm, col.EVIDENCE]
    return rows


@compiled
def forecast_sum(ledger: Ledger, kept: Floats) -> None:
    """Make chances of what the rows of an item add up to, and add them to the mixture."""
    views, first, arms = ledger.views, col.VIEW_COLUMNS, ledger.site[col.ARM_COUNT]
    said, mixed, weight = views[SUM_VIEW, first:], views[0, first + arms :], views[SUM_VIEW, col.VIEW_WEIGHT]
    add_up(ledger, kept, said)
    for arm in range(arms):
        said[arm] = chance_of(said[arm])
        mixed[arm] += weight * said[arm]


@compiled
def learn_sum(ledger: Ledger, arm: int, gain: float, others: Floats, kept: Floats) -> None:
    """Move what the rows of an item add up to towards what a label says, for every arm that it scores."""
    arms = ledger.site[col.ARM_COUNT]
    steps = ledger.views[SUM_VIEW, col.VIEW_COLUMNS + arms :]  # room that only the first view has use for
    rows = add_up(ledger, kept, steps)
    for each in range(arms):
        known = gain if each == arm else others[each] if each < others.shape[0] else math.nan
        if math.isnan(known):
            steps[each] = 0.0
        else:
            steps[each] = STEP * (min(max(known, 0.0), 1.0) - chance_of(steps[each])) / max(1, rows)
    for view in range(ledger.site[col.VIEWS]):
        row = int(kept[view])
        if row != EMPTY and ledger.views[view, col.VIEW_MEMORY] == 1.0:
            for each in range(arms):
                ledger.rewards[row, each, col.EVIDENCE] += steps[each]
