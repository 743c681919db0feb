"""The best of the field: what it picks, what it is told and when, and that fast paths pick what slow ones pick."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from research.other_libraries import COMPILED, FIELD, follow, play

from cosend.errors import CosendError

NAMES = list(FIELD)
CONTEXTUAL = ["vw_squarecb", "vw_epsilon", "river_linucb", "mabwiser_linucb"]
CONTEXT_FREE = ["river_ucb", "mabwiser_ucb1"]


class Spy:
    """A player that writes down what happens to it, and picks in turn."""

    def __init__(self, functions: int) -> None:
        self.functions = functions
        self.seen: list[tuple[Any, ...]] = []

    def pick(self, item: int) -> int:
        self.seen.append(("pick", item))
        return item % self.functions

    def learn(self, item: int, function: int, value: float) -> None:
        self.seen.append(("learn", item, function, value))


def test_functions_that_are_scored_are_told_with_every_label() -> None:
    spy, values = Spy(3), np.arange(12.0).reshape(4, 3)
    follow(spy, values, np.ones(4, np.int64), scored=2)
    assert [each[1:] for each in spy.seen if each[0] == "learn"] == [
        *((0, 0, 0.0), (0, 1, 1.0)),
        *((1, 1, 4.0), (1, 0, 3.0)),
        *((2, 2, 8.0), (2, 0, 6.0), (2, 1, 7.0)),
    ]


def good_by_context(items: int) -> tuple[Any, Any]:
    """Return values and contexts: one function is right in the upper half, one in the lower, one never."""
    contexts = np.random.default_rng(3).random((items, 1))
    upper = contexts[:, 0] > 0.5
    return np.stack([upper, ~upper, np.zeros(items, bool)], axis=1).astype(np.float64), contexts


def noisy(items: int, functions: int = 4) -> tuple[Any, Any]:
    draw = np.random.default_rng(8)
    values = (draw.random((items, functions)) < np.linspace(0.2, 0.8, functions)) - 0.1 * np.arange(functions)
    return values, draw.random((items, 2))


def worth(values: Any, picked: Any, since: int) -> float:
    late = np.arange(since, len(values))
    return float(values[late, picked[late]].mean())


@pytest.mark.parametrize("delay", [1, 100])
@pytest.mark.parametrize("name", CONTEXTUAL)
def test_contextual_players_learn_which_function_is_good_where(name: str, delay: int) -> None:
    values, contexts = good_by_context(1_500)
    picked = play(name, values, contexts, delays=np.full(1_500, delay))
    assert worth(values, picked, 750) > 0.8
    assert values[750:].mean(axis=0).max() < 0.55  # what the best fixed function would get


@pytest.mark.parametrize("delay", [1, 100])
@pytest.mark.parametrize("name", CONTEXT_FREE)
def test_context_free_players_learn_the_best_function_and_ignore_contexts(name: str, delay: int) -> None:
    values = (np.random.default_rng(5).random((1_500, 4)) < [0.05, 0.1, 0.95, 0.1]).astype(np.float64)
    picked = play(name, values, np.zeros((1_500, 1)), delays=np.full(1_500, delay))
    assert (picked[750:] == 2).mean() > 0.8
    again = play(name, values, np.random.default_rng(1).random((1_500, 2)), delays=np.full(1_500, delay))
    assert (picked == again).all()


def test_a_value_is_told_before_the_item_at_which_it_is_due_and_not_earlier() -> None:
    """Delays out of order: items 0 and 2 are due together and come in their order; 3, 4 and 5 are never due."""
    spy = Spy(2)
    values = np.array([[0.0, 9], [9, 1], [2, 9], [9, 3], [4, 9], [9, 5]])
    assert follow(spy, values, np.array([3, 0, 1, 5, 2, 1])).tolist() == [0, 1, 0, 1, 0, 1]
    told = [("learn", 1, 1, 1.0), ("pick", 2), ("learn", 0, 0, 0.0), ("learn", 2, 0, 2.0), ("pick", 3)]
    assert spy.seen == [("pick", 0), ("pick", 1), *told, ("pick", 4), ("pick", 5)]


@pytest.mark.parametrize("delay", [0, 1, 20, 70])
@pytest.mark.parametrize("name", NAMES)
def test_nobody_sees_a_value_or_a_context_too_early(name: str, delay: int) -> None:
    """Planted: from item 200 on other functions are good. No pick changes before the first of these labels is due."""
    values, contexts = noisy(600)
    delays = np.full(600, delay)
    due = 200 + max(delay, 1)
    planted, elsewhere = values.copy(), contexts.copy()
    planted[200:] = 1.0 - planted[200:]
    elsewhere[due:] = 1.0 - elsewhere[due:]
    as_before = play(name, values, contexts, delays=delays, seed=2)
    picked = play(name, planted, elsewhere, delays=delays, seed=2)
    assert (picked[:due] == as_before[:due]).all()
    assert (picked[due:] != as_before[due:]).any()


@pytest.mark.parametrize("options", ["--squarecb", ""])
def test_vowpal_wabbit_learns_with_the_probability_of_the_decision(options: str) -> None:
    """The slow version keeps whole lines, and is told each cost with the probability at the time of the pick."""
    values, contexts = noisy(400)
    workspace = import_module("vowpalwabbit").Workspace(f"--cb_explore 4 {options} --quiet")
    draws = np.random.default_rng(6).random(400)
    lines: list[str] = []
    picked = []
    for t, (x, y) in enumerate(contexts.tolist()):
        if t >= 7:
            workspace.learn(lines[t - 7])
        chances = np.array(workspace.predict(f"| x0:{x} x1:{y}"))
        arm = int(np.flatnonzero(np.cumsum(chances) > draws[t] * chances.sum())[0])
        lines.append(f"{arm + 1}:{-values[t, arm]}:{chances[arm]} | x0:{x} x1:{y}")
        picked.append(arm)
    name = "vw_squarecb" if options else "vw_epsilon"
    assert play(name, values, contexts, delays=np.full(400, 7), seed=6).tolist() == picked


def test_linucb_of_mabwiser_picks_what_its_partial_fit_would_pick() -> None:
    """The slow version goes by the public interface alone; before the first label it draws."""
    values, contexts = noisy(200)
    library = import_module("mabwiser.mab")
    bandit = library.MAB([0, 1, 2, 3], library.LearningPolicy.LinUCB())
    features = np.hstack([np.ones((200, 1)), contexts])
    random = np.random.default_rng(9)
    picked: list[int] = []
    for t in range(200):
        if t >= 5:
            row, arm = slice(t - 5, t - 4), picked[t - 5]
            bandit.partial_fit(np.array([arm]), values[row, arm], features[row])
        picked.append(bandit.predict(features[t : t + 1]) if t >= 5 else int(random.integers(4)))
    assert len(set(picked)) > 1
    assert play("mabwiser_linucb", values, contexts, delays=np.full(200, 5), seed=9).tolist() == picked


@pytest.mark.compiled
@pytest.mark.parametrize(("delay", "scored"), [(1, 0), (30, 2)])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_linucb_picks_what_the_library_picks(name: str, delay: int, scored: int) -> None:
    """Also the first draws, of which everything that follows depends."""
    values, contexts = noisy(300)
    for seed in (0, 5):
        given: dict[str, Any] = {"delays": np.full(300, delay), "seed": seed, "scored": scored}
        assert COMPILED[name](values, contexts, **given).tolist() == play(name, values, contexts, **given).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_library_is_named_with_what_installs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("vowpalwabbit", "river.bandit", "mabwiser.mab"):
        monkeypatch.setitem(sys.modules, module, None)
    package = {"vw": "vowpalwabbit"}.get(name.split("_")[0], name.split("_")[0])
    with pytest.raises(CosendError, match=rf"needs {package}, which is not installed: pip install '\.\[field\]'"):
        play(name, np.ones((3, 2)), np.ones((3, 1)), delays=np.ones(3, int))
