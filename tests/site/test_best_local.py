"""`Site.best_model` names the best classifier so far around an item, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from cosend import CellKLUCB, CoS, MixedViews, Site, ZoomingKLUCB
from cosend.algorithm.policies import Policy
from cosend.axes import Axis, Category, Feature, PreviousLabel, Time

AXES: list[Axis] = [
    Feature("x", range=(0, 1)),
    Feature("x"),
    Category("half"),
    Time(60),
    PreviousLabel("low", "high"),
]
POLICIES: list[Policy] = [ZoomingKLUCB(), CoS(horizon=60, slices=2), CellKLUCB(horizon=60, slices=2), MixedViews()]


def stream(items: int) -> list[dict[str, Any]]:
    """Return items, low ones first and then high ones."""
    values = [(n + 0.5) / items for n in range(items)]
    return [{"x": value, "half": "low" if value < 0.5 else "high"} for value in values]


def taught(axis: Axis, policy: Policy) -> Site:
    """Return a site that has seen a stream, on which each classifier is right in one half."""
    site = Site("here", classifiers={"low": lambda _: "low", "high": lambda _: "high"}, context=axis, policy=policy)
    for item in stream(60):
        site.learn(site.classify(item), item["half"])
    return site


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("axis", AXES, ids=lambda axis: type(axis).__name__)
def test_the_same_items_get_the_same_answer_in_any_order_and_leave_no_trace(axis: Axis, policy: Policy) -> None:
    site, items = taught(axis, policy), stream(20)
    before = site.state()
    forwards, backwards = site.best_model(items), site.best_model(items[::-1])
    assert forwards == backwards[::-1]
    assert forwards == [arm for item in items for arm in site.best_model([item])]
    after = site.state()
    assert before.facts == after.facts
    assert all(array.tobytes() == after.arrays[name].tobytes() for name, array in before.arrays.items())


def test_it_is_the_classifier_that_was_right_there() -> None:
    site = taught(Category("half"), CoS(horizon=60))
    assert site.best_model([{"half": "low"}, {"half": "high"}]) == ["low", "high"]


def test_no_item_has_no_best() -> None:
    assert taught(AXES[0], ZoomingKLUCB()).best_model([]) == []


@pytest.mark.parametrize("seed", range(5))
def test_what_is_learnt_here_is_not_the_best_before_it_has_learnt_anything(seed: int) -> None:
    site = Site("here", classifiers={"one": lambda _: 1}, context=Category("half"), seed=seed)
    assert site.best_model([{"half": "never seen"}]) == ["one"]
    for _ in range(2):  # a stack that knows no label votes, and is as wrong as the others
        site.learn(site.classify({"half": "low"}), 2)
    assert site.best_model([{"half": "low"}, {"half": "never seen"}]) == ["stack", "stack"]
    alone = Site("alone", classifiers={}, context=Category("half"), seed=seed)
    assert set(alone.best_model([{"half": "low"}] * 2)) <= {"grown", "stack"}  # there is no other


def test_what_is_learnt_here_is_the_best_where_all_others_pause() -> None:
    site = Site("here", classifiers={"one": lambda _: 1}, context=Category("half"))
    site.pause("one")
    assert set(site.best_model([{"half": "low"}] * 2)) <= {"grown", "stack"}
