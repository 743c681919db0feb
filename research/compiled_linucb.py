"""The LinUCB of two libraries in compiled form: the same picks, item by item, hundreds of times faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

import numpy as np

from cosend.algorithm.layout import Floats, Ints
from cosend.simulation.baselines import WORD_BITS, Values, linucb

WORDS: Final = 4  # random words for every item; breaking a tie takes less than two on average


def as_river(values: Values, contexts: Floats, *, delays: Ints, seed: int = 0, scored: int = 0) -> Ints:
    """Pick as `river.bandit.LinUCBDisjoint` does: rewards have a variance of 1, and ties are broken at random."""
    draw = Random(seed)  # noqa: S311 - the very numbers that river draws
    words = np.array([draw.getrandbits(WORD_BITS) for _ in range(WORDS * len(values))], np.int64)
    return linucb(values, contexts, noise=1.0, delays=delays, scored=scored, words=words)


def as_mabwiser(values: Values, contexts: Floats, *, delays: Ints, seed: int = 0, scored: int = 0) -> Ints:
    """Pick as `LearningPolicy.LinUCB` of MABWiser does, if functions are drawn until it is fitted."""
    drawn = np.random.default_rng(seed).integers(values.shape[1], size=len(values))
    return linucb(values, contexts, delays=delays, scored=scored, at_first=drawn)


COMPILED: Final[Mapping[str, Callable[..., Ints]]] = {"river_linucb": as_river, "mabwiser_linucb": as_mabwiser}
