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
            known = ledger.rewards[row]
            rows += 1
            for arm in range(arms):
                sums[arm] += known[arm, col.EVIDENCE]
    return rows


@compiled
def forecast_sum(ledger: Ledger) -> None:
    """Make chances of what the rows of an item add up to, and add them to the mixture."""
    views, first, arms = ledger.views, col.VIEW_COLUMNS, ledger.site[col.ARM_COUNT]
    said, mixed, weight = views[SUM_VIEW, first:], views[0, first + arms :], views[SUM_VIEW, col.VIEW_WEIGHT]
    for arm in range(arms):
        chance = chance_of(views[SUM_VIEW, first + arms + arm])
        said[arm] = chance
        mixed[arm] += weight * chance


@compiled
def find_steps(ledger: Ledger, gains: Floats, kept: Floats, steps: Floats) -> None:
    """Find by how much a label moves what each row of an item adds, for every arm; 0 where it says nothing."""
    rows = add_up(ledger, kept, steps)
    for arm in range(ledger.site[col.ARM_COUNT]):
        if math.isnan(gains[arm]):
            steps[arm] = 0.0
        else:
            steps[arm] = STEP * (min(max(gains[arm], 0.0), 1.0) - chance_of(steps[arm])) / max(1, rows)
