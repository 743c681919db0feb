"""The flat bandits pick exactly what slow, literal versions of them pick."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cosend.baselines.bandits import epsilon_greedy, linucb

pytestmark = pytest.mark.compiled


def slow_epsilon_greedy(values: Any, cells: Any, epsilon: float, seed: int, delay: int = 1) -> list[int]:
    random = np.random.default_rng(seed)
    explore = random.random(len(values)) < epsilon
    drawn = random.integers(0, values.shape[1], len(values))
    gained: dict[tuple[int, int], list[float]] = {}
    picked: list[int] = []
    for t, cell in enumerate(cells.tolist()):
        if t >= delay:
            known = t - delay
            gained.setdefault((int(cells[known]), picked[known]), []).append(float(values[known, picked[known]]))
        means = [
            sum(so_far) / len(so_far) if (so_far := gained.get((cell, arm))) else 1.0 for arm in range(values.shape[1])
        ]
        arm = int(drawn[t]) if explore[t] else int(np.argmax(means))
        picked.append(arm)
    return picked


def slow_linucb(values: Any, contexts: Any, width: float, delay: int = 1) -> list[int]:
    """Follow the algorithm as published (Li et al. 2010, disjoint models), with a new inverse at every step."""
    size = contexts.shape[1] + 1
    matrices = [np.eye(size) for _ in range(values.shape[1])]
    vectors = [np.zeros(size) for _ in range(values.shape[1])]
    picked: list[int] = []
    for t, context in enumerate(contexts):
        if t >= delay:
            used, x = picked[t - delay], np.array([1.0, *contexts[t - delay]])
            matrices[used] += np.outer(x, x)
            vectors[used] += values[t - delay, used] * x
        x = np.array([1.0, *context])
        bounds = []
        for matrix, vector in zip(matrices, vectors, strict=True):
            inverse = np.linalg.inv(matrix)
            bounds.append(x @ inverse @ vector + width * np.sqrt(x @ inverse @ x))
        arm = int(np.argmax(bounds))
        picked.append(arm)
    return picked


def test_epsilon_greedy_by_hand() -> None:
    """Untried counts as 1: the first arm until it fails, then the next; every cell for itself."""
    values = np.array([[1.0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 0, 0]])
    assert epsilon_greedy(values, np.zeros(5, np.int64), epsilon=0.0).tolist() == [0, 0, 1, 2, 0]
    assert epsilon_greedy(values, np.array([5, 9, 5, 9, 5]), epsilon=0.0).tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.0])
def test_epsilon_greedy_picks_what_the_slow_version_picks(epsilon: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    right = (draw.random((400, 5)) < [0.3, 0.5, 0.7, 0.4, 0.6]).astype(np.float64)
    cells = draw.choice([-3, 0, 8, 10**12], 400)
    for values in (right, right - np.array([0.0, 0.25, 0.125, 0.0, 0.5]), right.astype(np.uint8)):
        picked = epsilon_greedy(values, cells, epsilon=epsilon, seed=seed).tolist()
        assert picked == slow_epsilon_greedy(values, cells, epsilon, seed)


@pytest.mark.parametrize("axes", [1, 2, 4])
@pytest.mark.parametrize("width", [0.0, 0.3, 1.0, 3.0])
def test_linucb_picks_what_the_slow_version_picks(width: float, axes: int) -> None:
    draw = np.random.default_rng(axes)
    contexts = draw.random((300, axes))
    for values in (draw.random((300, 4)), (draw.random((300, 4)) < contexts[:, :1]) - np.array([0.0, 0.1, 0.2, 0.05])):
        assert linucb(values, contexts, width=width).tolist() == slow_linucb(values, contexts, width)


@pytest.mark.parametrize("delay", [2, 50, 1_000])
def test_with_late_labels_they_pick_what_the_slow_versions_pick(delay: int) -> None:
    draw = np.random.default_rng(delay)
    contexts, cells = draw.random((300, 2)), draw.integers(0, 3, 300)
    values = (draw.random((300, 4)) < contexts[:, :1]) - np.array([0.0, 0.1, 0.2, 0.05])
    greedy = epsilon_greedy(values, cells, seed=3, delay=delay).tolist()
    assert greedy == slow_epsilon_greedy(values, cells, 0.05, 3, delay)
    assert linucb(values, contexts, delay=delay).tolist() == slow_linucb(values, contexts, 1.0, delay)


def test_linucb_learns_which_function_is_good_where() -> None:
    contexts = np.random.default_rng(0).random((3_000, 1))
    values = np.hstack([contexts > 0.5, contexts <= 0.5]).astype(np.float64)
    picked = linucb(values, contexts, width=0.5)
    late = np.arange(1_000, 3_000)
    assert values[late, picked[late]].mean() > 0.95
    assert values[late, 0].mean() < 0.6


def test_what_is_given_stays_as_it_is() -> None:
    values, contexts = np.ones((20, 2)), np.full((20, 1), 0.5)
    epsilon_greedy(values, np.zeros(20, np.int64))
    linucb(values, contexts)
    assert (values == 1).all()
    assert (contexts == 0.5).all()


def test_from_a_label_that_never_comes_they_learn_nothing() -> None:
    """Not even that a function was tried: they pick what they pick for the others if it were not there."""
    draw = np.random.default_rng(0)
    contexts, cells, gone = draw.random((200, 2)), draw.integers(0, 3, 200), draw.random(200) < 0.4
    values = (draw.random((200, 3)) < contexts[:, :1]).astype(np.float64)
    values[gone] = np.nan
    left = np.flatnonzero(~gone)
    assert linucb(values, contexts)[left].tolist() == linucb(values[left], contexts[left]).tolist()
    greedy = epsilon_greedy(values, cells, epsilon=0.0)
    assert greedy[left].tolist() == epsilon_greedy(values[left], cells[left], epsilon=0.0).tolist()
