"""AdaBoost over outputs against a literal version and scikit-learn's, and the sliding window against training anew."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from cosend.errors import SettingError
from cosend.simulation.adaboost import MOST_FUNCTIONS, ROUNDS, adaboost, sliding_window_adaboost

pytestmark = pytest.mark.compiled


def problem(seed: int, items: int = 600, functions: int = 6) -> tuple[Any, Any]:
    """Return outputs of functions that are right with different probabilities, one of them mostly wrong."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, items)
    accuracies = np.array([0.65, 0.7, 0.6, 0.3, 0.55, 0.75, 0.5, 0.62])[:functions]
    is_right = draw.random((items, functions)) < accuracies
    return np.where(is_right, labels[:, None], 1 - labels[:, None]), labels


def slow_scores(outputs: Any, labels: Any, new_outputs: Any) -> Any:
    """AdaBoost item by item: the weak learners are the functions and their opposites."""
    votes, truth = np.where(outputs == 1, 1, -1), np.where(labels == 1, 1, -1)
    weights, scores = np.ones(len(labels)), np.zeros(len(new_outputs))
    for _ in range(ROUNDS):
        errors = np.array([weights[votes[:, f] != truth].sum() for f in range(votes.shape[1])]) / weights.sum()
        best = int(np.argmax(abs(errors - 0.5)))
        sign = -1 if errors[best] > 0.5 else 1
        error = max(min(errors[best], 1 - errors[best]), 1e-10)
        if error >= 0.5 - 1e-12:
            break
        strength = 0.5 * math.log((1 - error) / error)
        scores += sign * strength * np.where(new_outputs[:, best] == 1, 1, -1)
        if error <= 1e-10:
            break
        weights *= np.exp(-strength * sign * votes[:, best] * truth)
        weights /= weights.sum()
    return scores


def test_one_perfect_function_decides_alone_also_when_it_is_always_wrong() -> None:
    labels = np.array([0, 1, 1, 0, 1])
    noise = np.array([0, 0, 1, 1, 0])
    new = np.array([[0, 1], [1, 0]])
    assert adaboost(np.stack([labels, noise], axis=1), labels, new).tolist() == [0, 1]
    assert adaboost(np.stack([noise, 1 - labels], axis=1), labels, new).tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("functions", [1, 6, 8])
def test_adaboost_is_the_literal_algorithm(functions: int, seed: int) -> None:
    outputs, labels = problem(seed, functions=functions)
    new = np.random.default_rng(seed + 100).integers(0, 2, (300, functions))
    scores = slow_scores(outputs, labels, new)
    clear = abs(scores) > 1e-9
    assert clear.mean() > 0.95
    assert np.array_equal(adaboost(outputs, labels, new)[clear], (scores > 0)[clear].astype(np.int64))


def test_adaboost_agrees_with_scikit_learn() -> None:
    """Its trees are grown by impurity and ours by error, so a few patterns near a tie may differ; 97 % must not."""
    agreements = []
    for seed in range(4):
        outputs, labels = problem(seed, items=2_000)
        new, _ = problem(seed + 100, items=1_000)
        theirs = (
            import_module("sklearn.ensemble")
            .AdaBoostClassifier(import_module("sklearn.tree").DecisionTreeClassifier(max_depth=1), n_estimators=ROUNDS)
            .fit(outputs, labels)
        )
        agreements.append(float((adaboost(outputs, labels, new) == theirs.predict(new)).mean()))
    assert np.mean(agreements) >= 0.97, agreements


@pytest.mark.parametrize(("window", "every"), [(1, 1), (30, 7), (30, None)])
def test_the_sliding_window_equals_training_from_scratch(window: int, every: int | None) -> None:
    outputs, labels = problem(5, items=350)
    first = 110
    slid = sliding_window_adaboost(outputs, labels, first=first, window=window, every=every)
    anew = []
    for t in range(first, len(labels)):
        trained = t - (t - first) % (every or window)
        past = slice(trained - window, trained)
        anew += adaboost(outputs[past], labels[past], outputs[t : t + 1]).tolist()
    assert slid.tolist() == anew


def test_the_window_ends_before_the_labels_that_are_still_to_come() -> None:
    outputs, labels = problem(5, items=350)
    late = sliding_window_adaboost(outputs, labels, first=110, window=60, every=1, delay=41)
    expected = [
        int(adaboost(outputs[t - 100 : t - 40], labels[t - 100 : t - 40], outputs[t : t + 1])[0])
        for t in range(110, 350)
    ]
    assert late.tolist() == expected


def test_the_window_has_only_labels_that_come() -> None:
    outputs, labels = problem(5, items=350)
    comes = np.random.default_rng(1).random(350) < 0.3
    comes[:110] = True
    slid = sliding_window_adaboost(outputs, labels, first=110, window=60, every=1, delay=11, comes=comes)
    anew = []
    for t in range(110, 350):
        past = np.flatnonzero(comes[: t - 10])[-60:]
        anew += adaboost(outputs[past], labels[past], outputs[t : t + 1]).tolist()
    assert slid.tolist() == anew
    comes[:60] = False
    with pytest.raises(SettingError, match="labels of 60 items before the first"):
        sliding_window_adaboost(outputs, labels, first=110, window=60, comes=comes)


def test_too_many_functions_are_refused() -> None:
    functions = MOST_FUNCTIONS + 1
    outputs, labels = np.zeros((5, functions), np.int64), np.zeros(5, np.int64)
    with pytest.raises(SettingError, match=f"at most {MOST_FUNCTIONS} functions, got {functions}"):
        adaboost(outputs, labels, outputs)
    with pytest.raises(SettingError, match=f"at most {MOST_FUNCTIONS} functions, got {functions}"):
        sliding_window_adaboost(outputs, labels, first=2, window=2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"first": 5, "window": 0}, "window must be a whole number of at least 1, got 0"),
        ({"first": 4, "window": 5}, "first must be a whole number of at least 5, got 4"),
        ({"first": 5, "window": 5, "every": 0}, "every must be a whole number of at least 1, got 0"),
        ({"first": 11, "window": 5}, "first"),
    ],
)
def test_windows_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    outputs, labels = problem(0, items=10)
    with pytest.raises(SettingError) as raised:
        sliding_window_adaboost(outputs, labels, **settings)
    assert message in str(raised.value)
