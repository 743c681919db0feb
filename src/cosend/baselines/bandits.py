"""Bandits that see all functions of all sites as flat arms, without peers or training.

A label is known `delay` items later: with 1 before the next item is decided, as CoS has it in the paper's experiment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cosend.compiled import compiled
from cosend.core.checks import check_whole
from cosend.core.kernel.ledger import Floats, Ints

Values = npt.NDArray[Any]  # [item, function]


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


@compiled
def _epsilon_greedy(
    values: Values, cells: Ints, explore: Any, drawn: Ints, delay: int, sums: Floats, counts: Floats, picked: Ints
) -> None:
    for t in range(values.shape[0]):
        known = t - delay  # the item whose label has just come
        if known >= 0:
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
    features = np.hstack([np.ones((len(contexts), 1)), contexts])
    arms, size = values.shape[1], features.shape[1]
    inverses = np.repeat(np.eye(size)[None], arms, axis=0)
    sums = np.zeros((arms, size))
    picked, scratch = np.zeros(len(values), np.int64), np.zeros(size)
    _linucb(np.ascontiguousarray(values), features, width, delay, inverses, sums, scratch, picked)
    return picked


@compiled
def _linucb(
    values: Values,
    features: Floats,
    width: float,
    delay: int,
    inverses: Floats,
    sums: Floats,
    scratch: Floats,
    picked: Ints,
) -> None:
    size = features.shape[1]
    for t in range(values.shape[0]):
        known = t - delay  # the item whose label has just come
        if known >= 0:
            used = picked[known]
            _update_inverse(inverses[used], features[known], scratch)
            for i in range(size):
                sums[used, i] += values[known, used] * features[known, i]
        best, arm = -np.inf, 0
        for candidate in range(values.shape[1]):
            estimate, variance = 0.0, 0.0
            for i in range(size):
                for j in range(size):
                    weighted = features[t, i] * inverses[candidate, i, j]
                    estimate += weighted * sums[candidate, j]
                    variance += weighted * features[t, j]
            bound = estimate + width * np.sqrt(variance)
            if bound > best:
                best, arm = bound, candidate
        picked[t] = arm


@compiled
def _update_inverse(inverse: Floats, x: Floats, scratch: Floats) -> None:
    """Replace the inverse of A by that of A + x x' (Sherman and Morrison)."""
    size = len(x)
    scale = 1.0
    for i in range(size):
        scratch[i] = 0.0
        for j in range(size):
            scratch[i] += inverse[i, j] * x[j]
        scale += x[i] * scratch[i]
    for i in range(size):
        for j in range(size):
            inverse[i, j] -= scratch[i] * scratch[j] / scale
