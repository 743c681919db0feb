"""The best of the field: contextual and plain bandits of Vowpal Wabbit, river and MABWiser.

They see all functions of all sites as flat arms, as the bandits of `bandits.py` do, and labels may be late. Every
library plays with its own defaults; where it has none, or expects what a stream lacks, the player says what stands in.

    vw_squarecb       SquareCB: gamma_scale 10, gamma_exponent 0.5
    vw_epsilon        epsilon-greedy: epsilon 0.05
    river_ucb         UCB without contexts; delta has no default, 1 is what river calls UCB1
    river_linucb      LinUCB, disjoint: alpha 1, beta 1, no smoothing
    mabwiser_linucb   LinUCB, disjoint: alpha 1, l2_lambda 1, no scaling
    mabwiser_ucb1     UCB1 without contexts: alpha 1
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from itertools import accumulate
from random import Random
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints
from cosend.errors import CosendError, install
from cosend.simulation.baselines import WORD_BITS, linucb

WORDS: Final = 4  # random words for every item; breaking a tie takes less than two on average

Values = npt.NDArray[Any]  # [item, function]


class Player(Protocol):
    """A bandit in the middle of a stream. Of the values it is told those it has earned, and nothing else."""

    def pick(self, item: int) -> int:
        """Return the function for an item."""

    def learn(self, item: int, function: int, value: float) -> None:
        """Take what the function that was picked for an earlier item was worth."""


def play(name: str, values: Values, contexts: Floats, *, delays: Ints, seed: int = 0, scored: int = 0) -> Ints:
    """Return which function the player of a name picks for every item.

    name      a key of FIELD
    values    [item, function] gain minus cost; the picked entry is revealed when its label is due
    contexts  [item, axis] in [0, 1]
    delays    [item] how many items later the label is known: 0 and 1 are before the next item is decided
    scored    the values of the first so many functions are told with every label, whichever was picked; Vowpal Wabbit
              learns from what was picked with a known chance, and cannot take that
    """
    scored = 0 if name in LOGGED else scored
    return follow(FIELD[name](values.shape[1], contexts, seed), values, delays, scored)


def follow(player: Player, values: Values, delays: Ints, scored: int = 0) -> Ints:
    """Let a player pick for one item after the other, and tell it each value before the item at which it is due."""
    items = len(values)
    due = np.arange(items) + np.clip(delays, 1, max(items, 1)).astype(np.int64)
    order = np.argsort(due, kind="stable")  # labels that are due together come in the order of their items
    waiting = deque(zip(due[order].tolist(), order.tolist(), strict=True))
    picked = np.zeros(items, np.int64)
    for item in range(items):
        while waiting[0][0] <= item:  # never empty: the label of this very item is still to come
            _, earlier = waiting.popleft()
            function = int(picked[earlier])
            player.learn(earlier, function, float(values[earlier, function]))
            for other in range(scored):
                if other != function:
                    player.learn(earlier, other, float(values[earlier, other]))
        picked[item] = player.pick(item)
    return picked


class VowpalWabbit:
    """A policy of `--cb_explore`. It gives probabilities; the draws are made here, so that a seed decides them.

    The features are written as text once. Labels are learnt as text too: `learn` goes by the label that an example was
    parsed with, and silently ignores one from `set_label_string`.
    """

    def __init__(self, options: str, functions: int, contexts: Floats, seed: int) -> None:
        library = _library("vowpalwabbit", "vowpalwabbit")
        self._workspace = library.Workspace(f"--cb_explore {functions} {options} --quiet")
        self._kind = self._workspace.get_prediction_type()
        self._texts = [_text(context) for context in contexts]
        self._draws = np.random.default_rng(seed).random(len(contexts)).tolist()
        self._chances: dict[int, float] = {}  # of what was picked, until the label is there

    def pick(self, item: int) -> int:
        """Draw a function by the probabilities for this context."""
        chances = self._workspace.predict(self._texts[item], self._kind)
        shares = list(accumulate(chances))  # their sum is 1 only up to single precision
        function = bisect(shares, self._draws[item] * shares[-1], hi=len(shares) - 1)
        self._chances[item] = chances[function]
        return function

    def learn(self, item: int, function: int, value: float) -> None:
        """Learn with the probability of that time. Costs are negated rewards, as in Vowpal Wabbit's tutorials."""
        self._workspace.learn(f"{function + 1}:{-value!r}:{self._chances.pop(item)!r} {self._texts[item]}")


class RiverUCB:
    """`river.bandit.UCB`: functions without a label first, in random order."""

    def __init__(self, functions: int, contexts: Floats, seed: int) -> None:
        self._policy = _library("river.bandit", "river").UCB(delta=1, seed=seed)
        self._functions = range(functions)

    def pick(self, item: int) -> int:
        """Return the function with the highest bound."""
        function: int = self._policy.pull(self._functions)
        return function

    def learn(self, item: int, function: int, value: float) -> None:
        """Move the mean of a function."""
        self._policy.update(function, value)


class RiverLinUCB:
    """`river.bandit.LinUCBDisjoint`."""

    def __init__(self, functions: int, contexts: Floats, seed: int) -> None:
        self._policy = _library("river.bandit", "river").LinUCBDisjoint(seed=seed)
        self._functions = range(functions)
        self._features = [dict(enumerate(row)) for row in _with_constant(contexts).tolist()]

    def pick(self, item: int) -> int:
        """Return the function with the highest bound in this context."""
        function: int = self._policy.pull(self._functions, self._features[item])
        return function

    def learn(self, item: int, function: int, value: float) -> None:
        """Move the linear model of a function."""
        self._policy.update(function, self._features[item], value)


class MABWiserLinUCB:
    """`LearningPolicy.LinUCB` of MABWiser.

    It refuses to predict before it is fitted, so until the first label a function is drawn. Fitted to no rows it would
    pick the first function for all these items, and with late labels they are many.
    """

    def __init__(self, functions: int, contexts: Floats, seed: int) -> None:
        library = _library("mabwiser.mab", "mabwiser")
        self._features = _with_constant(contexts)
        self._bandit = library.MAB(list(range(functions)), library.LearningPolicy.LinUCB(), seed=seed)
        self._random, self._functions, self._has_label = np.random.default_rng(seed), functions, False
        # No rows: every model is there, and at its prior.
        self._bandit.fit(np.zeros(0, np.int64), np.zeros(0), self._features[:0])
        # `partial_fit` copies the models of all functions for every row, and is ten times slower for the same model.
        self._models = self._bandit._imp.arm_to_model

    def pick(self, item: int) -> int:
        """Return the function with the highest bound in this context, once there is a label."""
        if not self._has_label:
            return int(self._random.integers(self._functions))
        function: int = self._bandit.predict(self._features[item : item + 1])
        return function

    def learn(self, item: int, function: int, value: float) -> None:
        """Move the ridge regression of a function."""
        self._has_label = True
        self._models[function].fit(self._features[item : item + 1], np.array([value]))


class MABWiserUCB1:
    """`LearningPolicy.UCB1` of MABWiser.

    It expects a history in which every function occurs, and would never try one that does not. So functions without a
    label come first, drawn as in river's UCB. In turn they would all have the same count when late labels come in.
    """

    def __init__(self, functions: int, contexts: Floats, seed: int) -> None:
        library = _library("mabwiser.mab", "mabwiser")
        self._bandit = library.MAB(list(range(functions)), library.LearningPolicy.UCB1(), seed=seed)
        self._random, self._without_label = np.random.default_rng(seed), list(range(functions))

    def pick(self, item: int) -> int:
        """Return the function with the highest bound, once all of them have a label."""
        if self._without_label:
            return self._without_label[int(self._random.integers(len(self._without_label)))]
        function: int = self._bandit.predict()
        return function

    def learn(self, item: int, function: int, value: float) -> None:
        """Move the mean of a function."""
        self._bandit.partial_fit(np.array([function]), np.array([value]))
        if function in self._without_label:
            self._without_label.remove(function)


FIELD: Final[Mapping[str, Callable[[int, Floats, int], Player]]] = {
    "vw_squarecb": partial(VowpalWabbit, "--squarecb"),
    "vw_epsilon": partial(VowpalWabbit, ""),  # what --cb_explore does unless told otherwise
    "river_ucb": RiverUCB,
    "river_linucb": RiverLinUCB,
    "mabwiser_linucb": MABWiserLinUCB,
    "mabwiser_ucb1": MABWiserUCB1,
}
LOGGED: Final = ("vw_squarecb", "vw_epsilon")  # they learn from picks with known chances, and from nothing else


def _with_constant(contexts: Floats) -> Floats:
    """Return the contexts behind a constant 1: without it a linear model is blind at 0. Vowpal Wabbit adds its own."""
    return np.hstack([np.ones((len(contexts), 1)), contexts])


def _text(context: Floats) -> str:
    """Return a context as Vowpal Wabbit reads it; what is 0 says nothing there, and need not be written."""
    return "| " + " ".join(f"x{axis}:{float(context[axis])!r}" for axis in np.flatnonzero(context).tolist())


def _library(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise CosendError(f"this player needs {package}, which is not installed: {install('field')}") from error


# The two LinUCB in compiled form: the same picks, item by item, hundreds of times faster


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
