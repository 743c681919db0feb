"""Whether an arm has changed: a test of the newer rewards against the older ones, on a thinned grid of windows.

The rewards of an arm in a cell are kept as sums of 1, 2, 4, 8, ... consecutive ones, at most two sums of each length:
that is O(log n) numbers, and every older half, quarter, eighth ... can be compared with the rest. The test is the
likelihood ratio of two coins against one, with a threshold of 2 ln n + 6: over a stream without a change it is passed
with a probability of about 0.02 for an arm in a cell, however long the stream. After a change the estimate goes on with
the newer half of the window that showed it, because the window that shows it best flatters it.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cosend.compiled import compiled, compiled_apart
from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import EMPTY, Floats, Ledger

SAME_LENGTH: Final = 2  # sums of each length that are kept
LEVELS: Final = 24  # lengths 1, 2, 4, ... 2^23
FEWEST: Final = 4  # rewards that are worth a test
CAUTION: Final = 6.0
NOTICEABLE: Final = 1.0  # evidence for growth that an optimist takes up
LOOKS: Final = 0.05  # share of the errors that looks may cause

# The columns of a window, after those of `Ledger.rewards` that every policy has.
COUNT: Final = col.REWARD_COLUMNS
SUM: Final = COUNT + 1
ERRORS: Final = SUM + 1  # that the arm ever made here
LOOK_ERRORS: Final = ERRORS + 1  # those of looks among them
LAST_USE: Final = LOOK_ERRORS + 1  # the arrival that used it last
FIRST_LEVEL: Final = LAST_USE + 1
PER_LEVEL: Final = 1 + SAME_LENGTH  # how many sums, and the sums, oldest first
WINDOW_COLUMNS: Final = FIRST_LEVEL + LEVELS * PER_LEVEL


@compiled
def add_to_window(known: Floats, gain: float) -> int:
    """Add a reward to the window of an arm; returns the longest length of which there is a new sum."""
    level, new = 0, gain
    known[COUNT] += 1.0
    known[SUM] += gain
    while True:
        first = FIRST_LEVEL + level * PER_LEVEL
        held = int(known[first])
        if held < SAME_LENGTH:
            known[first] = held + 1
            known[first + 1 + held] = new
            return level
        oldest, second = known[first + 1], known[first + 2]
        known[first + 1], known[first + 2], known[first] = new, 0.0, 1
        if level == LEVELS - 1:  # fifty million rewards ago
            known[COUNT] -= float(2 << level)
            known[SUM] -= oldest + second
            return level
        level, new = level + 1, oldest + second


@compiled
def restart_if_changed(known: Floats, longest: int) -> None:
    """Restart an estimate from its newest rewards if they differ from the older ones by more than chance.

    Only windows that end with a sum of at most the `longest` length are compared: the others were before.
    """
    count, total = known[COUNT], known[SUM]
    if count < FEWEST:
        return
    most, newer = 2.0 * math.log(count) + CAUTION, 0.0  # exactness.md, "Arms that change"
    newer_count, newer_sum, length = 0.0, 0.0, 1.0
    for level in range(longest + 1):
        first = FIRST_LEVEL + level * PER_LEVEL
        for place in range(int(known[first]), 0, -1):
            newer_count += length
            newer_sum += known[first + place]
            if newer_count < count:
                found = evidence(count, total, newer_count, newer_sum)
                if found > most:
                    most, newer = found, newer_count
        length *= 2.0
    if newer > 0.0:
        keep_newest(known, newer / 2.0)
        known[col.REWARD_COUNT], known[col.REWARD_SUM] = known[COUNT], known[SUM]
        known[col.MEAN_REWARD] = known[SUM] / known[COUNT] if known[COUNT] > 0.0 else 0.0


@compiled
def keep_newest(known: Floats, most: float) -> None:
    """Forget all but the newest sums of at most so many rewards together."""
    known[COUNT], known[SUM] = 0.0, 0.0
    length, full = 1.0, False
    for level in range(LEVELS):
        first = FIRST_LEVEL + level * PER_LEVEL
        held, kept = int(known[first]), 0
        while kept < held and not full:
            full = known[COUNT] + length > most
            if not full:
                known[COUNT] += length
                known[SUM] += known[first + held - kept]
                kept += 1
        for place in range(kept):
            known[first + 1 + place] = known[first + 1 + place + held - kept]
        known[first] = kept
        length *= 2.0


@compiled
def code_length(right: float, count: float) -> float:
    """Return n times the entropy of the mean: how surprising these rewards are to whoever knows their mean."""
    if right <= 0.0 or right >= count:
        return 0.0
    wrong = count - right
    return count * math.log(count) - right * math.log(right) - wrong * math.log(wrong)


@compiled
def evidence(count: float, total: float, newer_count: float, newer_sum: float) -> float:
    """Return how much better two coins explain the rewards than one: the logarithm of the likelihood ratio."""
    older = code_length(total - newer_sum, count - newer_count)
    return code_length(total, count) - older - code_length(newer_sum, newer_count)


@compiled_apart
def notice(known: Floats, gain: float, looked: bool) -> None:
    """Take a reward into the window of an arm, and restart its estimate if that shows a change."""
    gain = min(max(gain, 0.0), 1.0)
    known[ERRORS] += 1.0 - gain
    if looked:
        known[LOOK_ERRORS] += 1.0 - gain
    restart_if_changed(known, add_to_window(known, gain))


# Arms that get better while nobody uses them, as peers do that learn.


@compiled
def arm_to_look_at(ledger: Ledger, row: int) -> int:
    """Return the arm that was not used for the longest time if a look is due, else EMPTY.

    Looks cause at most a twentieth of the errors of a cell. They enter windows and not estimates: an arm that is looked
    at now and then must not seem well known when the leader falls.
    """
    errors, looks, longest_ago, chosen = 0.0, 0.0, np.inf, EMPTY
    for arm in range(ledger.site[col.ARM_COUNT]):
        known = ledger.rewards[row, arm]
        errors += known[ERRORS]
        looks += known[LOOK_ERRORS]
        is_in = ledger.costs[arm] < np.inf  # neither paused nor left out of this choice
        if is_in and known[col.REWARD_COUNT] > 0.0 and known[LAST_USE] < longest_ago:
            longest_ago, chosen = known[LAST_USE], arm
    return chosen if looks + 1.0 <= LOOKS * errors else EMPTY


@compiled
def growing(known: Floats) -> tuple[float, float]:
    """Return the mean and count that an optimist sees in an arm: if its newer half is better, that and as much more.

    The count is 0 if there is no growth to be optimistic about.
    """
    count, total, newer_count, newer_sum, length = known[COUNT], known[SUM], 0.0, 0.0, 1.0
    if count < FEWEST:
        return 0.0, 0.0
    for level in range(LEVELS):
        first = FIRST_LEVEL + level * PER_LEVEL
        for place in range(int(known[first]), 0, -1):
            if 2.0 * newer_count < count:
                newer_count += length
                newer_sum += known[first + place]
        length *= 2.0
    if newer_count >= count:
        return 0.0, 0.0
    newer, older = newer_sum / newer_count, (total - newer_sum) / (count - newer_count)
    if newer <= older or evidence(count, total, newer_count, newer_sum) <= NOTICEABLE:
        return 0.0, 0.0
    return min(1.0, newer + (newer - older)), newer_count
