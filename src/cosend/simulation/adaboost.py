"""AdaBoost over the outputs of all functions, once and in a sliding window.

The weak learners are the functions themselves and their opposites. There are few functions, so items are counted by the
pattern of outputs they get: a window of any length is at most 2^functions weighted patterns, which makes retraining for
every item affordable. Labels are 0 and 1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats, Ints
from cosend.checks import check_whole
from cosend.compiled import compiled, entry_point
from cosend.errors import SettingError

Outputs = npt.NDArray[Any]  # [item, function], 0 or 1
Labels = npt.NDArray[Any]  # [item], 0 or 1
Mask = npt.NDArray[np.bool_]

ROUNDS: Final = 50
NEVER_WRONG: Final = 1e-10
MOST_FUNCTIONS: Final = 12


def adaboost(outputs: Outputs, labels: Labels, new_outputs: Outputs) -> Ints:
    """Train on outputs with known labels and predict the labels for new outputs."""
    patterns = _patterns(outputs)
    weights = np.zeros((2, 1 << outputs.shape[1]))
    np.add.at(weights, (_zero_or_one(labels), patterns), 1.0)
    votes = np.zeros(outputs.shape[1])
    train(weights, votes, ROUNDS)
    return np.array([vote(votes, pattern) for pattern in _patterns(new_outputs).tolist()], np.int64)


def sliding_window_adaboost(
    outputs: Outputs,
    labels: Labels,
    *,
    first: int,
    window: int,
    every: int | None = None,
    delay: int = 1,
    comes: Mask | None = None,
) -> Ints:
    """Predict the labels from item `first` on, retrained on the last `window` labelled items.

    every  how many items between two trainings; the window's length if not given
    delay  how many items later a label is known: 1 is before the next item
    comes  [item]: whether its label ever comes; by default all do
    """
    patterns = _patterns(outputs)
    check_whole("window", window)
    check_whole("delay", delay)
    check_whole("first", first, least=window + delay - 1)
    if first > len(labels):
        raise SettingError("first", first, f"at most the number of labels, {len(labels)}")
    every = window if every is None else every
    check_whole("every", every)
    predicted = np.zeros(len(labels) - first, np.int64)
    weights, scratch = np.zeros((2, 1 << outputs.shape[1])), np.zeros((2, 1 << outputs.shape[1]))
    votes = np.zeros(outputs.shape[1])
    labelled = np.arange(len(labels)) if comes is None else np.flatnonzero(comes)
    if len(labelled) < window or labelled[window - 1] > first - delay:
        raise SettingError("comes", len(labelled), f"labels of {window} items before the first")
    rows = (patterns, _zero_or_one(labels), labelled)
    _slide(*rows, first, window, every, delay - 1, weights, scratch, votes, predicted)
    return predicted


def _patterns(outputs: Outputs) -> Ints:
    if outputs.shape[1] > MOST_FUNCTIONS:
        raise SettingError("outputs", outputs.shape[1], f"of at most {MOST_FUNCTIONS} functions")
    patterns: Ints = (_zero_or_one(outputs) << np.arange(outputs.shape[1])).sum(axis=1)
    return patterns


def _zero_or_one(values: npt.NDArray[Any]) -> Ints:
    numbers: Ints = values.astype(np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() > 1):
        raise SettingError("labels and outputs", sorted({int(numbers.min()), int(numbers.max())}), "0 or 1")
    return numbers


@entry_point
def _slide(
    patterns: Ints,
    labels: Ints,
    labelled: Ints,
    first: int,
    window: int,
    every: int,
    late: int,
    weights: Floats,
    scratch: Floats,
    votes: Floats,
    predicted: Ints,
) -> None:
    known = int(np.searchsorted(labelled, first - late))  # how many labels have come
    for t in labelled[known - window : known]:
        weights[labels[t], patterns[t]] += 1.0
    for t in range(first, len(labels)):
        if (t - first) % every == 0:
            for pattern in range(weights.shape[1]):
                scratch[0, pattern], scratch[1, pattern] = weights[0, pattern], weights[1, pattern]
            train(scratch, votes, ROUNDS)
        predicted[t - first] = vote(votes, patterns[t])
        while known < len(labelled) and labelled[known] <= t - late:
            new, gone = labelled[known], labelled[known - window]
            weights[labels[new], patterns[new]] += 1.0
            weights[labels[gone], patterns[gone]] -= 1.0
            known += 1


@entry_point
def train(weights: Floats, votes: Floats, rounds: int) -> None:
    """Find the votes of all functions by AdaBoost; `weights[label, pattern]` is used up."""
    votes[:] = 0.0
    for _ in range(rounds):
        function, wrong = weakest(weights, len(votes))
        opposite = wrong > 0.5
        error = max(1.0 - wrong if opposite else wrong, NEVER_WRONG)
        if error >= 0.5 - 1e-12:
            return
        weight = 0.5 * np.log((1.0 - error) / error)
        votes[function] += -weight if opposite else weight
        if error <= NEVER_WRONG:
            return
        raise_where_wrong(weights, function, -weight if opposite else weight)


@compiled
def weakest(weights: Floats, functions: int) -> tuple[int, float]:
    """Return the function whose weighted error is farthest from one half, and that error."""
    total = weights.sum()
    best, error = 0, 0.5
    for function in range(functions):
        wrong = 0.0
        for pattern in range(weights.shape[1]):
            says = (pattern >> function) & 1
            wrong += weights[1 - says, pattern]
        wrong /= total
        if abs(wrong - 0.5) > abs(error - 0.5):
            best, error = function, wrong
    return best, error


@compiled
def raise_where_wrong(weights: Floats, function: int, weight: float) -> None:
    """Give more weight to what the chosen function got wrong, less to what it got right; the sum stays 1."""
    for pattern in range(weights.shape[1]):
        says = (pattern >> function) & 1
        weights[says, pattern] *= np.exp(-weight)
        weights[1 - says, pattern] *= np.exp(weight)
    total = weights.sum()
    for label in range(2):
        for pattern in range(weights.shape[1]):
            weights[label, pattern] /= total


@entry_point
def vote(votes: Floats, pattern: int) -> int:
    """Return the label that the weighted votes of the functions give a pattern of outputs."""
    score = 0.0
    for function in range(len(votes)):
        score += votes[function] if (pattern >> function) & 1 else -votes[function]
    return 1 if score > 0.0 else 0
