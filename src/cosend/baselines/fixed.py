"""Baselines that do not learn which function is good: they repeat, guess, or know it in hindsight."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cosend.core.kernel.ledger import Ints

Values = npt.NDArray[Any]  # [item, function]; not a number where the label never comes
Mask = npt.NDArray[np.bool_]


def persistence(labels: npt.NDArray[Any], delay: int = 1, comes: Mask | None = None) -> npt.NDArray[Any]:
    """Predict the newest label that is known, and before there is one the smallest. Bursty streams make this good.

    comes  [item]: whether its label comes at all; by default all do
    """
    comes = np.ones(len(labels), np.bool_) if comes is None else comes
    newest = np.maximum.accumulate(np.where(comes, np.arange(len(labels)), -1)) if len(labels) else np.zeros(0, int)
    known = np.concatenate([np.full(min(delay, len(labels)), -1), newest[: max(0, len(labels) - delay)]])
    smallest = np.unique(labels[comes])[:1]
    return np.where(known < 0, smallest, labels[known]) if len(labels) else labels


def commonest(labels: npt.NDArray[Any], delay: int = 1, comes: Mask | None = None) -> npt.NDArray[Any]:
    """Predict the commonest of the labels that are known, of several the smallest; `comes` as in `persistence`."""
    comes = np.ones(len(labels), np.bool_) if comes is None else comes
    classes, numbers = np.unique(labels, return_inverse=True)
    seen = np.zeros((len(labels) + 1, len(classes)), np.int64)
    np.cumsum(np.eye(len(classes), dtype=np.int64)[numbers] * comes[:, None], axis=0, out=seen[1:])
    known = np.maximum(0, np.arange(len(labels)) - delay + 1)
    return classes[seen[known].argmax(axis=1)] if len(labels) else labels


def best_fixed(values: Values) -> Ints:
    """Pick the one function that is best over the whole stream, known in hindsight."""
    known = values[~np.isnan(values).any(axis=1)]
    return np.full(len(values), np.argmax(known.mean(axis=0)) if len(known) else 0, np.int64)


def per_cell_oracle(values: Values, cells: Ints) -> Ints:
    """Pick in every cell the function that is best there over the whole stream, known in hindsight."""
    picked = np.zeros(len(values), np.int64)
    for cell in np.unique(cells):
        rows = np.flatnonzero(cells == cell)
        picked[rows] = best_fixed(values[rows])
    return picked


def win_stay_lose_shift(right: Values, delays: Ints) -> Ints:
    """Stay with the function that was used for the newest labelled item if it was right, else take the next one.

    delays  [item]: how many items later a label is known; 0 and 1 are before the next item
    """
    items, functions = right.shape
    picked, newest = np.zeros(items, np.int64), -1
    due: list[list[int]] = [[] for _ in range(items)]
    for item in range(items):
        newest = max([newest, *due[item]])
        if newest >= 0:
            picked[item] = (picked[newest] + (right[newest, picked[newest]] < 0.5)) % functions
        if item + max(1, delays[item]) < items:
            due[item + max(1, delays[item])].append(item)
    return picked


def uniform_random(values: Values, seed: int = 0) -> Ints:
    """Pick any function, drawn anew for every item."""
    return np.random.default_rng(seed).integers(0, values.shape[1], len(values))
