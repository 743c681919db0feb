"""A whole network over a whole stream in one compiled loop, through the same rules that a single item goes through.

Every site gets one item in every slot. At the start of a slot the labels that are due are handed out, then the sites
choose one after the other. `gains[item, function]` says beforehand how right every function is about every item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.core.kernel.entry_points import EPOCH_OVER, NO_ROOM
from cosend.core.kernel.ledger import Ints
from cosend.core.learner.learner import Learner
from cosend.core.policy.epochs import next_epoch
from cosend.simulation.features import Coming, check_features, described, foresee
from cosend.simulation.inputs import check_inputs, read_arrays, read_delays
from cosend.simulation.kernel.ledgers import put_together, taken_apart, wire, with_more_room
from cosend.simulation.kernel.loop import (
    AXES_COME,
    DONE,
    PAUSED,
    PROGRESS_COLUMNS,
    SLOT,
    WAITING_COLUMNS,
    Labels,
    Trace,
    run,
)

LOOKS: Final = 100  # how often a watched replay shows how far it is


def replay(
    learners: Sequence[Learner],
    contexts: npt.ArrayLike,
    gains: npt.ArrayLike,
    *,
    items: npt.ArrayLike | None = None,
    delay: npt.ArrayLike = 1,
    features: Sequence[Mapping[str, Any]] | None = None,
    watch: Callable[[int, Trace], None] | None = None,
) -> Trace:
    """Run all sites over their streams and leave the learners as if they had seen every item one by one.

    contexts  [item, axis]
    gains     [item, function]: the functions of the first learner, then those of the second, ...
    items     [slot, site]: which item arrives where, -1 for none; by default every item, in order, at every site
    delay     slots until a label is known: 0 is at once, before the next site chooses; 1 before the next slot; an array
              [slot, site] gives every label a delay of its own, and -1 where it never comes
    features  the items themselves, by name, if every feature of them is looked at: learners get an axis for each behind
              those of `contexts` when they have seen enough, as sites do; all of them must mix views and be new
    watch     called now and then with how many slots are done, and the trace so far

    >>> from cosend import Learner
    >>> learner = Learner("edge", own={"wrong": 0.0, "right": 0.0})
    >>> trace = replay([learner], contexts=[[0.5]] * 100, gains=[[0.0, 1.0]] * 100)
    >>> int((trace.functions == 1).sum()) > 90
    True
    """
    contexts, gains, items = read_arrays(learners, contexts, gains, items)
    delays = read_delays(delay, items.shape)
    check_inputs(learners, contexts, gains, items, delays)
    if features is None:
        coming = [Coming(learner) for learner in learners]
    else:
        check_features(features, len(contexts))
        coming = foresee(learners, features, items)
    places = described(contexts, coming)
    labels = labels_in_order(delays, items, max(each.kept_width for each in coming))
    items = np.ascontiguousarray(items, np.int32)
    ledgers, wiring = [learner.ledger for learner in learners], wire(learners)
    wiring.axes_at[:] = [each.next_at for each in coming]
    trace = Trace(np.zeros(items.shape, np.int8), np.zeros(items.shape, np.int16), np.zeros(items.shape, np.int16))
    asked = np.zeros(max(len(learner.arms) for learner in learners), np.bool_)
    progress = np.zeros(PROGRESS_COLUMNS, np.int64)
    pause = max(1, len(items) // LOOKS) if watch else len(items) + 1
    status = PAUSED
    while status != DONE:
        together, status = put_together(ledgers), PAUSED
        while status in (PAUSED, NO_ROOM):
            together = with_more_room(together) if status == NO_ROOM else together
            stop = (int(progress[SLOT]) // pause + 1) * pause
            status, site = run(together, wiring, places, gains, items, labels, trace, asked, progress, stop)
            if watch is not None:
                watch(int(progress[SLOT]), trace)
        ledgers = taken_apart(together, ledgers)
        if status == EPOCH_OVER:
            ledgers[site] = next_epoch(ledgers[site], learners[site].policy)
        if status == AXES_COME:
            ledgers[site] = coming[site].come(ledgers[site], labels, wiring.peer_sites, site)
            wiring.axes_at[site] = coming[site].next_at
    for learner, ledger in zip(learners, ledgers, strict=True):
        learner.memory.use(ledger)
    return trace


def labels_in_order(delays: Ints, items: Ints, kept_width: int) -> Labels:
    """Return when labels come: those of one slot in the order of their items, then of their sites."""
    longest = min(int(delays.max(initial=0)), len(items))  # what comes after the end waits in a place of its own
    ring = 1 << longest.bit_length()  # a power of two above the longest delay
    waiting = np.zeros((ring, items.shape[1], WAITING_COLUMNS), np.int64)
    kept = np.zeros((ring, items.shape[1], 2, kept_width))
    if delays.shape == (1, 1):
        return Labels(delays, np.empty(0, np.int64), waiting, kept)
    due = (np.arange(len(delays))[:, None] + delays).ravel()
    return Labels(delays, np.argsort(due, kind="stable"), waiting, kept)
