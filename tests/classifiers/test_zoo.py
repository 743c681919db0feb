"""Models by name: each can be trained, and the seed decides everything that is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cosend.errors import SettingError
from cosend.models.built_in import MODELS, NAMES, train


def problem(seed: int = 0, rows: int = 400, gap: float = 2.5) -> tuple[Any, Any]:
    """Return two clouds in five features of very different sizes, labelled "attack" and "normal"."""
    draw = np.random.default_rng(seed)
    labels = np.where(draw.random(rows) < 0.5, "attack", "normal")
    centres = np.where(labels == "attack", gap, 0.0)
    return (draw.normal(size=(rows, 5)) + centres[:, None]) * [1, 1e4, 1, 10, 0.01], labels


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_a_simple_problem(name: str) -> None:
    rows, labels = problem()
    model = train(name, rows, labels)
    new_rows, new_labels = problem(seed=1)
    predicted = model.predict(new_rows)
    assert predicted.shape == (400,)
    assert (predicted == new_labels).mean() > 0.8


@pytest.mark.parametrize("name", [name for name in NAMES if name != "always"])
def test_the_same_seed_gives_the_same_model(name: str) -> None:
    rows, labels = problem(gap=0.5)
    new_rows, _ = problem(seed=1, gap=0.5)
    first, second = (train(name, rows, labels, seed=3).predict(new_rows) for _ in range(2))
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize("name", ["rbf_network", "random_tree", "random"])
def test_another_seed_gives_another_model_where_something_is_drawn(name: str) -> None:
    rows, labels = problem(gap=0.5)
    new_rows, _ = problem(seed=1, gap=0.5)
    answers = {tuple(train(name, rows, labels, seed=seed).predict(new_rows).tolist()) for seed in range(4)}
    assert len(answers) == 4


@pytest.mark.parametrize("label", ["attack", 1, 0])
def test_always_gives_its_label_whatever_it_was_trained_on(label: Any) -> None:
    rows, labels = problem(rows=10)
    model = train("always", rows, labels, label=label)
    assert model.predict(rows).tolist() == [label] * 10
    assert model.predict(rows[:0]).tolist() == []


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    rows, labels = problem(rows=10)
    with pytest.raises(SettingError) as raised:
        train("forest", rows, labels)
    for name in NAMES:
        assert repr(name) in str(raised.value)
    assert "'forest'" in str(raised.value)
