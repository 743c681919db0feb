"""Baselines that do not learn which function is good: they repeat, guess, or know it in hindsight."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cosend.core.kernel.ledger import Ints

Values = npt.NDArray[Any]  # [item, function]


def persistence(labels: npt.NDArray[Any], delay: int = 1) -> npt.NDArray[Any]:
    """Predict the newest label that is known, and before there is one the smallest. Bursty streams make this good."""
    smallest = np.repeat(np.unique(labels)[:1], min(delay, len(labels)))
    return np.concatenate([smallest, labels[: max(0, len(labels) - delay)]])


def commonest(labels: npt.NDArray[Any], delay: int = 1) -> npt.NDArray[Any]:
    """Predict the commonest of the labels that are known, of several the smallest."""
    classes, numbers = np.unique(labels, return_inverse=True)
    seen = np.zeros((len(labels) + 1, len(classes)), np.int64)
    np.cumsum(np.eye(len(classes), dtype=np.int64)[numbers], axis=0, out=seen[1:])
    known = np.maximum(0, np.arange(len(labels)) - delay + 1)
    return classes[seen[known].argmax(axis=1)] if len(labels) else labels


def best_fixed(values: Values) -> Ints:
    """Pick the one function that is best over the whole stream, known in hindsight."""
    return np.full(len(values), np.argmax(values.mean(axis=0)), np.int64)


def per_cell_oracle(values: Values, cells: Ints) -> Ints:
    """Pick in every cell the function that is best there over the whole stream, known in hindsight."""
    picked = np.zeros(len(values), np.int64)
    for cell in np.unique(cells):
        rows = np.flatnonzero(cells == cell)
        picked[rows] = best_fixed(values[rows])
    return picked


def uniform_random(values: Values, seed: int = 0) -> Ints:
    """Pick any function, drawn anew for every item."""
    return np.random.default_rng(seed).integers(0, values.shape[1], len(values))
