"""Trees: what they fit, where missing values go, and what of them is refused; the slow twin has their numbers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from cosend.algorithm import boosting
from cosend.algorithm.boosting import LARGE, NO_AXIS, SMALL, Trees, fit, predict


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosting, "ROUNDS", 2)


def fitted(rows: list[list[float]], codes: list[int], classes: int = 2) -> Trees:
    return fit(np.array(rows, np.float32), np.array(codes, np.int64), classes)


def leaves_of(trees: Trees) -> list[int]:
    leaves: list[int] = (1 + (trees.nodes[:, :, boosting.AXIS] != NO_AXIS).sum(axis=1)).tolist()
    return leaves


def said(trees: Trees, rows: list[list[float]]) -> list[int]:
    chances = predict(trees, np.array(rows, np.float32))
    assert chances.sum(axis=1) == pytest.approx(1.0)
    best: list[int] = chances.argmax(axis=1).tolist()
    return best


def test_a_tree_has_up_to_fifteen_leaves_of_twenty_items_and_fits_its_items() -> None:
    draw = random.Random(1)
    rows = [[draw.random(), draw.choice([math.nan, 0.0, 1.0])] for _ in range(700)]
    codes = [int(8 * x) % 3 if y == y else 2 for x, y in rows]
    trees = fitted(rows, codes, 3)
    assert trees.is_sound
    assert max(leaves_of(trees)) == SMALL.leaves
    right = sum(map(int.__eq__, said(trees, rows), codes))
    assert right > 600
    again = fitted(rows, codes, 3)._asdict()
    assert all(part.tobytes() == again[name].tobytes() for name, part in trees._asdict().items())


def test_missing_values_go_where_they_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosting, "ROUNDS", 20)
    rows = [[value] for value in (0.0, 1.0, math.nan) for _ in range(30)]
    for missing_as in (0, 1):
        trees = fitted(rows, [0] * 30 + [1] * 30 + [missing_as] * 30)
        assert said(trees, [[0.0], [1.0], [math.nan]]) == [0, 1, missing_as]
    apart = fitted(rows, [0] * 60 + [1] * 30)
    assert said(apart, [[0.0], [1.0], [math.nan]]) == [0, 0, 1]


def test_too_few_items_or_equal_values_are_not_split() -> None:
    for rows in ([[float(n)] for n in range(39)], [[7.0]] * 60, [[math.nan]] * 60):
        trees = fitted(rows, [n % 2 for n in range(len(rows))])
        assert set(leaves_of(trees)) == {1}
        assert trees.is_sound
    sure = fitted([[float(n)] for n in range(60)], [1] * 60)  # they learn how often each class comes
    assert predict(sure, np.zeros((1, 1), np.float32))[0, 1] > 0.98


def test_an_axis_that_items_do_not_have_is_missing() -> None:
    rows = [[value, 1.0 - value] for value in (0.0, 1.0) for _ in range(30)]
    trees = fitted(rows, [0] * 30 + [1] * 30)
    without = [[row[0], math.nan] for row in rows]
    assert (
        predict(trees, np.array(rows, np.float32)[:, :1]).tolist()
        == predict(trees, np.array(without, np.float32)).tolist()
    )


def test_there_are_fewer_rounds_with_very_many_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert boosting.trees_for(2) == (1, 60)
    assert boosting.trees_for(3) == (3, 60)
    assert boosting.trees_for(100) == (100, 30)
    assert boosting.trees_for(10_000) == (10_000, 1)


def test_the_newest_items_say_whether_trees_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosting, "COMPARED_FROM", 600)
    monkeypatch.setattr(boosting, "ROUNDS", 12)
    draw = random.Random(2)
    rows = [[draw.random(), draw.random()] for _ in range(600)]
    fine = [(int(8 * x) + int(8 * y)) % 2 for x, y in rows]  # sixty-four fields, as on a chess board
    noise = [draw.randrange(2) for _ in rows]
    for codes, size in ((fine, LARGE), (noise, SMALL)):
        assert fitted(rows, codes).nodes.shape[1] == size.nodes
        assert fitted(rows[1:], codes[1:]).nodes.shape[1] == SMALL.nodes  # too few items to compare
    assert fitted(rows, fine, 11).nodes.shape[1] == SMALL.nodes  # of too many classes
    monkeypatch.setattr(boosting, "MOST_AXES", 1)
    assert fitted(rows, fine).nodes.shape[1] == SMALL.nodes
