"""Baselines that pick one function for every item: they repeat, guess, learn as flat bandits, or know the best one.

They take `values[item, function]`, what each function of any site is worth for each item (NaN where the label never
comes), and return which one they pick for every item. A label is known `delay` items later: with 1, before the next
item is decided, as for CoS in the paper's experiment.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints
from cosend.checks import check_whole
from cosend.compiled import compiled, entry_point

Values = npt.NDArray[Any]  # [item, function]; NaN where the label never comes
Mask = npt.NDArray[np.bool_]
NOTHING: Final = np.zeros(0, np.int64)
WORD_BITS: Final = 32  # of a random word


def persistence(labels: npt.NDArray[Any], delay: int = 1, comes: Mask | None = None) -> npt.NDArray[Any]:
    """Predict the newest known label, and before there is one the smallest. Bursty streams make this good.

    comes  [item]: whether its label ever comes; by default all do
    """
    comes = np.ones(len(labels), np.bool_) if comes is None else comes
    newest = np.maximum.accumulate(np.where(comes, np.arange(len(labels)), -1)) if len(labels) else np.zeros(0, int)
    known = np.concatenate([np.full(min(delay, len(labels)), -1), newest[: max(0, len(labels) - delay)]])
    smallest = np.unique(labels[comes] if comes.any() else labels)[:1]
    return np.where(known < 0, smallest, labels[known]) if len(labels) else labels


def commonest(labels: npt.NDArray[Any], delay: int = 1, comes: Mask | None = None) -> npt.NDArray[Any]:
    """Predict the commonest known label, the smallest of several; `comes` as in `persistence`."""
    comes = np.ones(len(labels), np.bool_) if comes is None else comes
    classes, numbers = np.unique(labels, return_inverse=True)
    seen = np.zeros((len(labels) + 1, len(classes)), np.int64)
    np.cumsum(np.eye(len(classes), dtype=np.int64)[numbers] * comes[:, None], axis=0, out=seen[1:])
    known = np.maximum(0, np.arange(len(labels)) - delay + 1)
    return classes[seen[known].argmax(axis=1)] if len(labels) else labels


def best_fixed(values: Values) -> Ints:
    """Pick the one function that is best over the whole stream, in hindsight."""
    known = values[~np.isnan(values).any(axis=1)]
    return np.full(len(values), np.argmax(known.mean(axis=0)) if len(known) else 0, np.int64)


def per_cell_oracle(values: Values, cells: Ints) -> Ints:
    """Pick in every cell the function that is best there over the whole stream, in hindsight."""
    picked = np.zeros(len(values), np.int64)
    for cell in np.unique(cells):
        rows = np.flatnonzero(cells == cell)
        picked[rows] = best_fixed(values[rows])
    return picked


def uniform_random(values: Values, seed: int = 0) -> Ints:
    """Draw a function for every item."""
    return np.random.default_rng(seed).integers(0, values.shape[1], len(values))


def epsilon_greedy(values: Values, cells: Ints, *, epsilon: float = 0.05, seed: int = 0, delay: int = 1) -> Ints:
    """Pick the best function of the cell so far, and with probability epsilon a random one."""
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
                mean = sums[cell, candidate] / tried if tried > 0 else 1.0  # untried functions come first
                if mean > best:
                    best, arm = mean, candidate
        picked[t] = arm


def linucb(
    values: Values,
    contexts: Floats,
    *,
    width: float = 1.0,
    noise: float = 0.0,
    delays: Ints | int = 1,
    scored: int = 0,
    at_first: Ints = NOTHING,
    words: Ints = NOTHING,
) -> Ints:
    """Pick the function with the highest upper confidence bound of a linear model of the context (disjoint LinUCB).

    width     how much uncertainty counts
    noise     variance of a reward, which is part of the uncertainty
    delays    how many items later a label is known, for all or for each; 0 and 1 are before the next item
    scored    with every label, the values of this many functions become known, the first ones, whichever was picked
    at_first  what is picked before the first label, if not the highest bound
    words     random 32-bit numbers that break ties, as Python's random does; without them the first function wins
    """
    delays = np.where(np.isnan(values).any(axis=1), max(len(values), 1), delays)  # that late is never
    items, functions = values.shape
    features = np.hstack([np.ones((items, 1)), contexts])  # without a constant a linear model is blind at 0
    due = np.arange(items) + np.clip(np.broadcast_to(delays, items), 1, max(items, 1)).astype(np.int64)
    order = np.argsort(due, kind="stable")  # labels that are due together come in the order of their items
    size = features.shape[1]
    inverses = np.repeat(np.eye(size)[None], functions, axis=0)
    models = (np.zeros((functions, size)), inverses, np.zeros(size), np.zeros(functions))
    picked, values = np.zeros(items, np.int64), np.ascontiguousarray(values, np.float64)
    _linucb(values, features, width, noise, due[order], order, scored, at_first, words, *models, picked)
    return picked


@entry_point
def _linucb(
    values: Floats,
    features: Floats,
    width: float,
    noise: float,
    due: Ints,
    order: Ints,
    scored: int,
    at_first: Ints,
    words: Ints,
    sums: Floats,
    inverses: Floats,
    scratch: Floats,
    bounds: Floats,
    picked: Ints,
) -> None:
    known, word = 0, 0
    for item in range(len(values)):
        while due[known] <= item:  # the label of this very item is still to come
            earlier = order[known]
            known += 1
            used = picked[earlier]
            _learn(inverses[used], sums[used], features[earlier], values[earlier, used], scratch)
            for other in range(scored):
                if other != used:
                    _learn(inverses[other], sums[other], features[earlier], values[earlier, other], scratch)
        if known == 0 and len(at_first) > 0:
            picked[item] = at_first[item]
            continue
        for function in range(len(bounds)):
            bounds[function] = _bound(inverses[function], sums[function], features[item], width, noise)
        picked[item], word = _highest(bounds, words, word)


@compiled
def _learn(inverse: Floats, total: Floats, x: Floats, value: float, scratch: Floats) -> None:
    """Add a reward, and update the inverse of A to the inverse of A + x x' (Sherman-Morrison)."""
    size, scale = len(x), 1.0
    for i in range(size):
        scratch[i] = 0.0
        for j in range(size):
            scratch[i] += inverse[i, j] * x[j]
        scale += x[i] * scratch[i]
        total[i] += value * x[i]
    for i in range(size):
        for j in range(size):
            inverse[i, j] -= scratch[i] * scratch[j] / scale


@compiled
def _bound(inverse: Floats, total: Floats, x: Floats, width: float, noise: float) -> float:
    estimate, variance = 0.0, noise
    for i in range(len(x)):
        weight = 0.0  # of feature i in the estimate of this item
        for j in range(len(x)):
            weight += inverse[i, j] * x[j]
        estimate += weight * total[i]
        variance += weight * x[i]
    return estimate + width * math.sqrt(variance)


@compiled
def _highest(bounds: Floats, words: Ints, word: int) -> tuple[int, int]:
    """Return the function with the highest bound, ties broken by the next words, and the word after these."""
    best, equal, chosen = -np.inf, 0, 0
    for bound in bounds:
        if bound > best:
            best, equal = bound, 0
        equal += bound == best
    if equal > 1 and len(words) > 0:
        bits = 0
        while 1 << bits <= equal:
            bits += 1
        chosen = equal
        while chosen >= equal:  # as Python's random draws below a number
            chosen = words[word] >> (WORD_BITS - bits)
            word += 1
    for function in range(len(bounds)):
        if bounds[function] == best:
            if chosen == 0:
                return function, word
            chosen -= 1
    return 0, word
