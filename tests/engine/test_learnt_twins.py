"""Arms that a site learns itself, and their slow twins, which share no code: equal, exactly."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.algorithm import boosting
from cosend.algorithm.boosting import Trees, fit, fit_of_size, predict
from cosend.engine import learnt_arms
from cosend.engine.learnt_arms import LearntArms, Opinions, Seen, seen_at
from tests.examples import examples
from tests.oracle.boosting_twin import BoostingTwin
from tests.oracle.stack_twin import Item, StackTwin

pytestmark = pytest.mark.compiled

# The stack

KINDS = {"stack": "stack", "another": "stack", "trees": "grown"}
MODELS = ["a", "b", "c", "trees", "another"]  # a stack hears no other
LABELS: list[Any] = ["yes", "no", 7, ("a", 1), 2.5, "rare", "rarer", "rarest"]
SURE = [0.0, 1.0, 0.5, 0.97, math.nan, -3.0, 40.0]


class Note(NamedTuple):
    models: tuple[str, ...]
    said: tuple[Any, ...]
    newest: Any
    sure: bytes
    seen: bytes


def drawn(draw: random.Random, axes: int) -> tuple[Note, Item]:
    """Draw what is known of an item, for both; an early one may have been seen without the last axes."""
    models = draw.sample(MODELS, draw.randint(0, len(MODELS)))
    labels = LABELS[: draw.choice([2, 3, 8])]
    said = {model: draw.choice([None, *labels]) for model in models}
    sure = {model: draw.choice([*SURE, draw.random()]) for model in models[: draw.randint(0, len(models))]}
    points = np.array([[draw.choice([math.nan, 0.0, 1.0, draw.random()]) for _ in range(axes)]])
    rounded = {model: float(np.float32(chance)) for model, chance in sure.items()}
    (seen,) = seen_at(points, points, ()).packed()
    newest = draw.choice([None, "never said", ["no label"], *labels])
    note = Note(tuple(models), tuple(said.values()), newest, np.array([*sure.values()], np.float32).tobytes(), seen)
    slices = [None if math.isnan(point) else min(int(16 * point), 15) for point in points[0].tolist()]
    return note, Item(newest, slices, said, rounded)


def says(arms: LearntArms, arm: str, notes: Sequence[Note]) -> list[tuple[Any, float]]:
    """Return what an arm thinks of items, which it is asked about one by one: each has models of its own."""
    found = []
    for note in notes:
        said: dict[str, Sequence[Any]] = {model: [label] for model, label in zip(note.models, note.said, strict=True)}
        known = np.frombuffer(note.sure, np.float32)
        sure = {model: known[n : n + 1] for n, model in enumerate(note.models[: len(known)])}
        opinions = arms.opinions([arm], Seen.unpacked([note.seen]), note.newest, Opinions(said, sure))
        found.append((opinions.said[arm][0], float(opinions.sure[arm][0])))
    return found


def stream(seed: int, items: int, most_labels: int) -> tuple[LearntArms, StackTwin]:
    """Let both learn the same, in batches of any size and one by one, and compare what they say."""
    draw = random.Random(seed)
    arms, twin = LearntArms(KINDS), StackTwin(["trees"], ["another"], most_labels=most_labels)
    axes, learnt = draw.randint(0, 2), 0
    while learnt < items:
        axes += draw.random() < 0.1
        both = [drawn(draw, max(0, axes - draw.choice([0, 0, 1]))) for _ in range(draw.choice([1, 1, 2, 5, 17]))]
        truths = [draw.choice([*LABELS[:3], *LABELS, ["no label"]]) for _ in both]
        arms.learn([note for note, _ in both], truths)
        for (_, item), truth in zip(both, truths, strict=True):
            twin.learn(item, truth)
        learnt += len(both)
        if twin.labels:
            some = [drawn(draw, max(0, axes + draw.choice([-1, 0, 0, 1]))) for _ in range(3)]
            expected = [twin.says(item) for _, item in some]
            assert says(arms, "stack", [note for note, _ in some]) == [
                (label, float(np.float32(chance))) for label, chance in expected
            ]
    return arms, twin


def assert_weights_are_the_same(arms: LearntArms, twin: StackTwin) -> None:
    facts, arrays = arms.facts(), arms.arrays()
    assert facts["labels"] == twin.labels
    assert sorted(facts["models"], key=facts["models"].get) == twin.models
    labels, axes, models = (arrays[f"learnt_stack_{name}"] for name in ("labels", "axes", "models"))
    room, codes = labels.shape[1], {label: code for code, label in enumerate(twin.labels)}
    rows: dict[str, Callable[..., Any]] = {
        "always": lambda: labels[0],
        "newest": lambda label: labels[1 + codes[label]],
        "quarter": lambda axis, place: axes[axis, place],
        "slice": lambda axis, place: axes[axis, 4 + place],
        "answer": lambda model, label: models[facts["models"][model], codes[label]],
        "odds": lambda model, label: models[facts["models"][model], room + codes[label]],
    }
    for given_, label in twin.weights:
        kind, *rest = given_
        weight, square = rows[kind](*rest)[codes[label]].tolist()
        assert (weight, square) == (twin.weight(given_, label), twin.square(given_, label))
    moved = sum(np.count_nonzero(part[..., 1] != 0.01) for part in (labels, axes, models))
    assert moved == sum(square != 0.01 for square in twin.squares.values())  # and no others


@given(seed=st.integers(0, 2**32))
@examples(40)
def test_the_stack_and_its_twin_agree_on_random_streams(seed: int) -> None:
    assert_weights_are_the_same(*stream(seed, 90, 100))


def test_labels_beyond_the_most_are_never_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt_arms, "MOST_LABELS", 5)
    for seed in range(5):
        arms, twin = stream(seed, 60, 5)
        assert len(twin.labels) == 5
        assert_weights_are_the_same(arms, twin)


# Trees


def shape_of(trees: Trees, tree: int, node: int = 0) -> Any:
    """Return a tree: a value, or its split and what is left and right of it."""
    axis, threshold, missing_left, left = trees.nodes[tree, node].tolist()
    if axis == boosting.NO_AXIS:
        return float(trees.values[tree, node])
    return axis, threshold, bool(missing_left), shape_of(trees, tree, left), shape_of(trees, tree, left + 1)


def drawn_items(draw: random.Random, count: int, axes: int, classes: int) -> tuple[list[list[float]], list[int]]:
    """Draw items whose classes depend on their values, many of which are equal, missing or infinite."""
    steps = [draw.choice([2, 5, 1000]) for _ in range(axes)]
    missing, noise = draw.choice([0.0, 0.2]), draw.random()
    values, codes = [], []
    for _ in range(count):
        row = [draw.randrange(step) / step for step in steps]
        code = int(sum(row) / axes * classes) if draw.random() > noise else draw.randrange(classes)
        row = [draw.choice([math.nan, math.nan, math.inf]) if draw.random() < missing else each for each in row]
        values.append([float(np.float32(each)) for each in row])
        codes.append(code)
    return values, codes


def assert_trees_are_the_same(seed: int, count: int, rounds: int) -> int:
    """Return how many splits there are."""
    draw = random.Random(seed)
    axes, classes = draw.randint(1, 3), draw.choice([2, 2, 3, 5])
    values, codes = drawn_items(draw, count, axes, classes)
    trees = fit(np.array(values, np.float32), np.array(codes, np.int64), classes)
    twin = BoostingTwin(
        values, codes, classes, rounds, compared_from=boosting.COMPARED_FROM, compared=boosting.COMPARED
    )
    assert trees.is_sound
    assert trees.first.tolist() == twin.first
    assert [[edge for edge in axis if edge < math.inf] for axis in trees.edges.tolist()] == [
        [cut for cut in cuts if cut < math.inf] for cuts in twin.cuts
    ]
    assert [shape_of(trees, n) for n in range(len(trees.nodes))] == [tree.shape() for tree in twin.trees]
    others, _ = drawn_items(draw, 20, axes, classes)
    assert predict(trees, np.array(others, np.float32)).tolist() == twin.chances(others)
    return sum(tree.children is not None for tree in twin.trees)


@given(seed=st.integers(0, 2**32), count=st.integers(1, 400))
@examples(60)
def test_trees_are_those_of_the_twin(seed: int, count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "ROUNDS", 3)
        patch.setattr(boosting, "COMPARED_FROM", 150)
        patch.setattr(boosting, "COMPARED", 250)
        assert_trees_are_the_same(seed, count, 3)


def test_they_are_so_in_every_round() -> None:
    assert assert_trees_are_the_same(8, 70, 60) > 60


@pytest.mark.parametrize("size", [boosting.SMALL, boosting.LARGE])
def test_trees_of_each_size_are_those_of_the_twin(size: boosting.Size, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosting, "ROUNDS", 1)
    values, codes = drawn_items(random.Random(6), 1_400, 2, 3)
    assert sum(math.isnan(value) for row in values for value in row) > 100
    trees = fit_of_size(size, np.array(values, np.float32), np.array(codes, np.int64), 3)
    leaves = (trees.nodes[:, :, boosting.LEFT] > 0).sum(axis=1) + 1
    assert leaves.max() == size.leaves
    twin = BoostingTwin(values, codes, 3, 1, (size.leaves, size.least_items))
    assert [shape_of(trees, n) for n in range(3)] == [tree.shape() for tree in twin.trees]
