"""Baselines pick what slow, literal versions of them pick, or what follows by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from research.beyond.play import win_stay_lose_shift

from cosend.simulation.baselines import (
    best_fixed,
    commonest,
    epsilon_greedy,
    linucb,
    per_cell_oracle,
    persistence,
    uniform_random,
)

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


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 1.0])
def test_epsilon_greedy_picks_what_the_slow_version_picks(epsilon: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    right = (draw.random((400, 5)) < [0.3, 0.5, 0.7, 0.4, 0.6]).astype(np.float64)
    cells = draw.choice([-3, 0, 8, 10**12], 400)
    for values in (right, right - np.array([0.0, 0.25, 0.125, 0.0, 0.5]), right.astype(np.uint8)):
        picked = epsilon_greedy(values, cells, epsilon=epsilon, seed=seed).tolist()
        assert picked == slow_epsilon_greedy(values, cells, epsilon, seed)


@pytest.mark.parametrize("axes", [1, 4])
@pytest.mark.parametrize("width", [0.0, 1.0, 3.0])
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
    assert linucb(values, contexts, delays=delay).tolist() == slow_linucb(values, contexts, 1.0, delay)


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


VALUES = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1]])


def test_persistence_repeats_the_previous_label_and_starts_with_the_smallest() -> None:
    assert persistence(np.array([1, 1, 0, 1])).tolist() == [0, 1, 1, 0]
    assert persistence(np.array(["b", "a", "a"])).tolist() == ["a", "b", "a"]
    assert persistence(np.array([], np.int64)).tolist() == []


def test_a_late_label_is_not_repeated_before_it_has_come() -> None:
    assert persistence(np.array([1, 1, 0, 1, 1]), delay=3).tolist() == [0, 0, 0, 1, 1]
    assert persistence(np.array([1, 0]), delay=9).tolist() == [0, 0]


def test_the_commonest_label_is_that_of_the_labels_that_have_come() -> None:
    labels = np.array(["b", "b", "a", "a", "a", "b"])
    assert commonest(labels).tolist() == ["a", "b", "b", "b", "a", "a"]
    assert commonest(labels, delay=3).tolist() == ["a", "a", "a", "b", "b", "b"]
    assert commonest(np.array([], np.int64)).tolist() == []


def test_best_fixed_is_the_column_with_the_highest_mean_and_the_first_of_equals() -> None:
    assert best_fixed(VALUES).tolist() == [1] * 5
    assert best_fixed(np.array([[0.5, 0.5], [0.2, 0.2]])).tolist() == [0, 0]


def test_the_oracle_takes_the_best_of_every_cell() -> None:
    assert per_cell_oracle(VALUES, np.array([7, 7, 7, -2, -2])).tolist() == [0, 0, 0, 1, 1]
    assert per_cell_oracle(VALUES, np.arange(5)).tolist() == [0, 1, 0, 1, 1]
    assert per_cell_oracle(VALUES, np.zeros(5, np.int64)).tolist() == best_fixed(VALUES).tolist()


def test_uniform_random_uses_every_function_about_as_often_and_the_seed_decides() -> None:
    values = np.zeros((8_000, 4))
    picked = uniform_random(values, seed=3)
    assert abs(np.bincount(picked, minlength=4) / 8_000 - 0.25).max() < 0.03
    assert np.array_equal(picked, uniform_random(values, seed=3))
    assert not np.array_equal(picked, uniform_random(values, seed=4))


def test_who_wins_stays_and_who_loses_makes_way_when_the_label_is_known() -> None:
    right = np.array([[1, 0], [0, 1], [0, 1], [1, 0], [1, 0], [1, 1]])
    at_once, late = np.ones(6, int), np.full(6, 2)
    assert win_stay_lose_shift(right, at_once).tolist() == [0, 0, 1, 1, 0, 0]
    assert win_stay_lose_shift(right, np.zeros(6, int)).tolist() == [0, 0, 1, 1, 0, 0]
    assert win_stay_lose_shift(right, late).tolist() == [0, 0, 0, 1, 1, 0]
    out_of_order = np.array([5, 1, 1, 1, 1, 1])
    assert win_stay_lose_shift(right, out_of_order).tolist() == [0, 0, 1, 1, 0, 0]


def test_a_label_that_never_comes_is_never_known() -> None:
    labels, comes = np.array(["b", "a", "b", "a", "a"]), np.array([True, False, True, False, True])
    assert persistence(labels, 1, comes).tolist() == ["a", "b", "b", "b", "b"]
    assert persistence(labels, 2, comes).tolist() == ["a", "a", "b", "b", "b"]
    assert commonest(labels, 1, comes).tolist() == ["a", "b", "b", "b", "b"]
    values = np.array([[0.0, 1.0], [np.nan, np.nan], [0.5, 0.0]])
    assert best_fixed(values).tolist() == [1, 1, 1]
    assert per_cell_oracle(values, np.array([0, 1, 0])).tolist() == [1, 0, 1]
