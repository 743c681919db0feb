"""Mixed views: the view that adds up, unless a policy does without. A mixture chooses among views; here they add up.

    p = 1 / (1 + exp(-z))     z the sum of numbers that the rows of an item have for the arm, in views of long memory
    label                     each of these numbers += step (gain - p) / rows, with p as it is when the label comes

That is a logistic regression over all cells. exactness.md, "Mixed views", the last paragraph.
"""

from __future__ import annotations

import math
from typing import Final

from cosend.compiled import compiled
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger
from cosend.core.kernel.mixed_scratch import Scratch

SUM: Final = 6  # what the cells of this view are: it has none of its own
SUM_VIEW: Final = 2  # its number
LARGEST_STEP: Final = 2.0  # by how much a label moves z at most
STEP_BY_ROOT: Final = 10.0  # divided by the square root of the rows: less than the largest from 26 rows on
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
def count_rows(memories: Floats, kept: Floats) -> int:
    """Return how many rows of an item have a long memory: the others add nothing."""
    rows = 0
    for view in range(memories.shape[0]):
        rows += int(int(kept[view]) != EMPTY and memories[view] == 1.0)
    return rows


@compiled
def find_steps(ledger: Ledger, scratch: Scratch, kept: Floats) -> None:
    """Find by how much a label moves what each row of an item adds, for every arm that it says something of."""
    rows = max(1, count_rows(scratch.memories, kept))
    step = min(LARGEST_STEP, STEP_BY_ROOT / math.sqrt(rows))  # items with many rows share most of them
    for arm in range(ledger.site[col.ARM_COUNT]):
        if scratch.counted[arm] > 0.0:
            gain = min(max(scratch.gains[arm], 0.0), 1.0)
            scratch.steps[arm] = step * (gain - chance_of(add_up(ledger, arm, kept))) / rows
