"""Baselines that know, repeat or guess, checked by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cosend.baselines.fixed import (
    best_fixed,
    commonest,
    per_cell_oracle,
    persistence,
    uniform_random,
    win_stay_lose_shift,
)

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


@given(seed=st.integers(0, 10_000), cells=st.integers(1, 6))
def test_the_oracle_gains_at_least_what_the_best_fixed_function_does(seed: int, cells: int) -> None:
    draw = np.random.default_rng(seed)
    values, cell = draw.random((40, 4)) - 0.1, draw.integers(0, cells, 40)
    rows = np.arange(40)
    oracle = values[rows, per_cell_oracle(values, cell)].sum()
    fixed = values[rows, best_fixed(values)].sum()
    assert oracle >= fixed - 1e-12
    assert fixed == max(values[:, function].sum() for function in range(4))


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
