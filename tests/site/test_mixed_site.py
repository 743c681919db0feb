"""`MixedViews` at a site: what it explains, what it forgets, and which features it trusts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cosend import MixedViews, Site, ZoomingKLUCB
from cosend.algorithm.values import AskPeer
from cosend.axes import AllFeatures, Axis, Category, Feature, FromFunction, PreviousLabel, Time, TimeOfDay
from cosend.errors import ContextError, SettingError
from tests.engine.world import whole


def site_of(**options: Any) -> Site:
    """Return a site whose two classifiers are right on one side of x each, whatever y is."""
    models = {"low": lambda item: item["x"] < 0.5, "high": lambda item: item["x"] >= 0.5}
    axes: list[Axis] = [Feature("x", range=(0, 1)), Feature("y", range=(0, 1)), Category("kind")]
    chosen: dict[str, Any] = {"policy": MixedViews(), "score_local": "all", "learnt": False}
    return Site("lab", classifiers=models, context=axes, **{**chosen, **options})


def played(site: Site, items: int) -> float:
    """Play items that are always true, labels one item late, and return the share that was right."""
    draw, right, waiting = random.Random(3), 0, None
    for _ in range(items):
        decision = site.classify({"x": draw.random(), "y": draw.random(), "kind": draw.choice("ab")})
        right += decision.label is True
        if waiting is not None:
            site.learn(waiting, True)
        waiting = decision
    return right / items


def test_axes_have_the_names_of_their_features_where_these_tell_them_apart() -> None:
    def names(*axes: Axis) -> tuple[str, ...]:
        return Site("s", classifiers={"one": lambda _: 1}, context=[*axes]).axis_names

    unit, clock = Feature("x", range=(0, 1)), TimeOfDay("clock")
    assert names(unit, Category("kind"), clock) == ("x", "kind", "clock")
    assert names(PreviousLabel(0, 1), Time(9)) == ("previous label", "time")
    assert names(FromFunction(len, "size")) == ("function 'size'",)
    assert names(unit, clock, Feature("x")) == (unit.description, "clock", Feature("x").description)
    assert names(unit, AllFeatures()) == ("x",)
    site = Site("s", classifiers={"one": lambda _: 1}, context=[unit, Category("kind")])
    assert {"x", "kind", "x + kind"} <= site.weights().keys()
    watching = Site("s", classifiers={"one": lambda _: 1}, context=[unit, AllFeatures()])
    watching.classify_many([{"x": n / 200} for n in range(200)])
    assert watching.axis_names == (unit.description, "x")


def test_what_adds_up_is_trusted_for_what_it_adds() -> None:
    """`explain` shows the sum as a view; `weights` gives its weight to the features whose cells make a difference."""
    site = site_of(policy=MixedViews())
    x, added = site.axis_names[0], "features added up"
    assert added in site.weights()  # before the first label nothing makes a difference
    assert played(site, 400) > 0.9
    trusted, views = site.weights(), site.learner.views()
    assert added not in trusted
    assert sum(view.share for view in trusted.values()) == pytest.approx(1.0)
    assert sum(view.added for view in views) == pytest.approx(1.0)
    assert sum(view.added for view in views if 0 in view.axes) > 0.8
    assert sum(view.share for name, view in trusted.items() if x in name) > 0.8
    assert next(name for name, view in trusted.items() if view.is_heaviest).count(x) == 1
    explained = site.explain({"x": 0.1, "y": 0.5, "kind": "a"}).views[added]
    assert explained.view.is_sum
    assert explained.forecasts["low"] > 0.8 > 0.2 > explained.forecasts["high"]
    assert not any(view.is_sum or view.added for view in site_of(policy=MixedViews(adds_up=False)).learner.views())


def test_it_explains_an_item_and_changes_nothing() -> None:
    site = site_of()
    played(site, 300)
    before = whole(site.engine.state)
    explained = site.explain({"x": 0.1, "y": 0.5, "kind": "new"})
    assert whole(site.engine.state) == before
    shares = [each.view.share for each in explained.views.values()]
    assert shares == sorted(shares, reverse=True)
    name, heaviest = next(iter(explained.views.items()))
    assert site.axis_names[0] in name
    assert heaviest.forecasts["low"] > 0.9 > 0.1 > heaviest.forecasts["high"]
    with pytest.raises(ContextError):
        site.learner.explain((2.0, 0.5, 0.0))
    with pytest.raises(SettingError, match="mixes views"):
        site_of(policy=ZoomingKLUCB()).learner.explain((0.5, 0.5, 0.0))


def test_an_item_that_lacks_a_number_is_decided_by_the_other_views() -> None:
    site = site_of()
    played(site, 300)
    nothing = float("nan")
    known = site.learner.explain((nothing, 0.5, 0.0))
    whole = next(each for each in known if each.view[0] == () and each.view.memory < 1 and not each.view.is_pattern)
    assert all(each.forecasts == whole.forecasts for each in known if 0 in each.view.axes)
    for context in ((nothing, 0.5, 0.0), (0.1, nothing, 0.0), (0.1, 0.5, nothing), (nothing,) * 3):
        choice = site.learner.choose(context)
        assert not isinstance(choice, AskPeer)
        site.learner.learn(choice.id, 1.0)
    with pytest.raises(ContextError):
        site_of(policy=ZoomingKLUCB()).learner.choose((nothing, 0.5, 0.0))


def test_a_policy_that_mixes_nothing_goes_by_all_axes() -> None:
    models, axis = {"one": lambda item: 1}, Feature("hour", range=(0, 24))
    (name, view), *rest = Site("lab", classifiers=models, context=axis, policy=ZoomingKLUCB()).weights().items()
    assert ("hour" in name, view.is_heaviest, view.share, rest) == (True, True, 1.0, [])
