"""Bandits that see all functions of all sites as flat arms, without peers or training.

A label is known `delay` items later: with 1 before the next item is decided, as CoS has it in the paper's experiment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cosend.baselines.linucb import linucb as any_linucb
from cosend.compiled import entry_point
from cosend.core.checks import check_whole
from cosend.core.kernel.ledger import Floats, Ints

Values = npt.NDArray[Any]  # [item, function]; not a number where the label never comes


def epsilon_greedy(values: Values, cells: Ints, *, epsilon: float = 0.05, seed: int = 0, delay: int = 1) -> Ints:
    """Pick the best function of the cell so far, and with probability epsilon any of them."""
    check_whole("delay", delay)
    random = np.random.default_rng(seed)
    explore = random.random(len(values)) < epsilon
    drawn = random.integers(0, values.shape[1], len(values))
    _, numbered = np.unique(cells, return_inverse=True)
    sums = np.zeros((int(numbered.max()) + 1, values.shape[1]))
    counts = np.zeros_like(sums)
    picked = np.zeros(len(values), np.int64)
    cells = numbered.astype(np.int64)
    _epsilon_greedy(np.ascontiguousarray(values), cells, explore, drawn, delay, sums, counts, picked)
    return picked


@entry_point
def _epsilon_greedy(
    values: Values, cells: Ints, explore: Any, drawn: Ints, delay: int, sums: Floats, counts: Floats, picked: Ints
) -> None:
    for t in range(values.shape[0]):
        known = t - delay  # the item whose label has just come
        if known >= 0 and not np.isnan(values[known, picked[known]]):
            sums[cells[known], picked[known]] += values[known, picked[known]]
            counts[cells[known], picked[known]] += 1
        cell, arm = cells[t], drawn[t]
        if not explore[t]:
            best = -np.inf
            for candidate in range(values.shape[1]):
                tried = counts[cell, candidate]
                mean = sums[cell, candidate] / tried if tried > 0 else 1.0  # what was never tried comes first
                if mean > best:
                    best, arm = mean, candidate
        picked[t] = arm


def linucb(values: Values, contexts: Floats, *, width: float = 1.0, delay: int = 1) -> Ints:
    """Pick the function with the highest upper confidence bound of a linear model of the context (disjoint LinUCB)."""
    check_whole("delay", delay)
    delays = np.where(np.isnan(values).any(axis=1), len(values), delay)  # so late is never
    return any_linucb(values, contexts, width=width, delays=delays)
