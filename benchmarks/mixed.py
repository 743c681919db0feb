"""How fast `MixedViews` chooses and learns in a replay, and how much memory that takes."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.rows import Row, yes
from cosend import Learner, MixedViews, simulate

ACCURACIES = (0.5, 0.6, 0.7, 0.8, 0.9)
VALUES = 20  # of every axis: most features of real streams repeat


def learner(axes: int) -> Learner:
    """Return a site with five arms, all of which are scored by every label."""
    own = {f"arm {n}": 0.0 for n in range(len(ACCURACIES))}
    return Learner("bench", own=own, dimensions=axes, policy=MixedViews(), score_local="all")


def seconds_each(axes: int, items: int) -> tuple[float, Learner]:
    """Return seconds of the processor for one choose and one learn, the best of three, and what was learnt."""
    random = np.random.default_rng(0)
    contexts = np.floor(random.random((items, axes)) * VALUES) / VALUES
    gains = (random.random((items, len(ACCURACIES))) < ACCURACIES).astype(np.uint8)
    simulate([learner(axes)], contexts[:50], gains[:50])  # compile
    times = []
    for _ in range(3):
        subject = learner(axes)
        start = time.process_time()
        simulate([subject], contexts, gains)
        times.append((time.process_time() - start) / items)
    return min(times), subject


def rows(scale: float) -> list[Row]:
    """Measure both sizes, with `scale` times the usual number of items."""
    found = []
    for axes, most in ((3, 2e-6), (41, 6e-6)):
        each, subject = seconds_each(axes, max(200, int(20_000 * scale)))
        ledger, what = subject.ledger, f"MixedViews, {axes} axes"
        row = (ledger.cells.nbytes + ledger.rewards.nbytes + ledger.counts.nbytes) // len(ledger.cells)
        memory = f"{row} bytes a row, {8 * subject.memory.memo_width:,} a decision that waits"
        found += [
            Row(f"{what}, 5 arms", f"{each * 1e6:.2f} us", f"<= {most * 1e6:.0f}", yes(each <= most)),
            Row(f"{what}, memory", memory, "", ""),
            Row(f"{what}, views and rows", f"{len(subject.views())} and {len(subject.cells()):,}", "", ""),
        ]
    return found
