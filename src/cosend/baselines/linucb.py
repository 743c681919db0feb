"""LinUCB, disjoint and compiled: a linear model of the context for every function, and the highest upper bound wins.

The libraries of the field have the same rule, each with habits of its own. With these as settings it picks what theirs
pick, item by item and hundreds of times faster; tests hold it to that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.compiled import compiled, entry_point
from cosend.core.kernel.ledger import Floats, Ints

Values = npt.NDArray[Any]  # [item, function]
NOTHING: Final = np.zeros(0, np.int64)
WORD: Final = 32  # bits of a draw
WORDS: Final = 4  # that are drawn for every item; a draw among equals takes less than two of them on average


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
    """Return which function is picked for every item.

    width     how much uncertainty counts
    noise     variance of a reward, which is part of the uncertainty
    delays    of every item, or of all: how many items later its label is known; 0 and 1 are before the next item
    scored    the values of the first so many functions are told with every label, whichever was picked
    at_first  what is picked before the first label, if not the highest bound
    words     random 32-bit numbers, of which the first decides among equal bounds; without them the first function wins
    """
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


def as_river(values: Values, contexts: Floats, *, delays: Ints, seed: int = 0, scored: int = 0) -> Ints:
    """Pick as `river.bandit.LinUCBDisjoint` does: rewards have a variance of 1, and among equals one is drawn."""
    draw = Random(seed)  # noqa: S311 - the very numbers that river draws
    words = np.array([draw.getrandbits(WORD) for _ in range(WORDS * len(values))], np.int64)
    return linucb(values, contexts, noise=1.0, delays=delays, scored=scored, words=words)


def as_mabwiser(values: Values, contexts: Floats, *, delays: Ints, seed: int = 0, scored: int = 0) -> Ints:
    """Pick as `LearningPolicy.LinUCB` of MABWiser does, if functions are drawn until it is fitted."""
    drawn = np.random.default_rng(seed).integers(values.shape[1], size=len(values))
    return linucb(values, contexts, delays=delays, scored=scored, at_first=drawn)


COMPILED: Final[Mapping[str, Callable[..., Ints]]] = {"river_linucb": as_river, "mabwiser_linucb": as_mabwiser}


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
    """Add a reward, and replace the inverse of A by that of A + x x' (Sherman and Morrison)."""
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
    """Return the function with the highest bound, one of several by the next words, and the word after these."""
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
            chosen = words[word] >> (WORD - bits)
            word += 1
    for function in range(len(bounds)):
        if bounds[function] == best:
            if chosen == 0:
                return function, word
            chosen -= 1
    return 0, word
