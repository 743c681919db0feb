"""`MixedViews` at a site: what it explains, what it forgets, and which features it trusts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from cosend import Learner, MixedViews, Site, ZoomingKLUCB, simulate
from cosend.algorithm.values import AskPeer, Choice, LabelledData
from cosend.axes import AllFeatures, Axis, Category, Feature, FromFunction, PreviousLabel, Time, TimeOfDay
from cosend.errors import ArmError, ContextError, RewardError, SettingError
from tests.site.test_fold import everything


def site_of(**options: Any) -> Site:
    """Return a site whose two classifiers are right on one side of x each, whatever y is."""
    models = {"low": lambda item: item["x"] < 0.5, "high": lambda item: item["x"] >= 0.5}
    axes: list[Axis] = [Feature("x", range=(0, 1)), Feature("y", range=(0, 1)), Category("kind")]
    chosen: dict[str, Any] = {"policy": MixedViews(), "score_local": "all"}
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


def test_it_finds_the_feature_that_matters_and_says_so() -> None:
    site = site_of()
    assert played(site, 400) > 0.9
    trusted = site.weights()
    assert sum(view.share for view in trusted.values()) == pytest.approx(1.0)
    x, y, kind = site.axis_names
    assert set(trusted) >= {"none", "who was right last", x, y, kind, f"{x} + {y}", f"{x} + {y} + {kind}"}
    assert sum(view.share for name, view in trusted.items() if x in name) > 0.8
    assert next(name for name, view in trusted.items() if view.is_heaviest).count(x) == 1


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
    x, added = site.axis_names[0], "all added up"
    assert added in site.weights()  # before the first label nothing makes a difference
    assert played(site, 400) > 0.9
    trusted, views = site.weights(), site.learner.views()
    assert added not in trusted
    assert sum(view.share for view in trusted.values()) == pytest.approx(1.0)
    assert sum(view.added for view in views) == pytest.approx(1.0)
    assert sum(view.added for view in views if 0 in view.axes) > 0.8
    assert sum(view.share for name, view in trusted.items() if x in name) > 0.8
    assert next(name for name, view in trusted.items() if view.is_heaviest).count(x) == 1
    (explained,) = [each for name, each in site.explain({"x": 0.1, "y": 0.5, "kind": "a"}) if name == added]
    assert explained.view.is_sum
    assert explained.forecasts["low"] > 0.8 > 0.2 > explained.forecasts["high"]
    assert not any(view.is_sum or view.added for view in site_of(policy=MixedViews(adds_up=False)).learner.views())


def test_it_explains_an_item_and_changes_nothing() -> None:
    site = site_of()
    played(site, 300)
    before = everything(site.engine.state)
    explained = site.explain({"x": 0.1, "y": 0.5, "kind": "new"})
    assert everything(site.engine.state) == before
    shares = [each.view.share for _, each in explained]
    assert shares == sorted(shares, reverse=True)
    name, heaviest = explained[0]
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


@pytest.mark.parametrize(
    "wrong", [{"share": 0.0}, {"share": 1.0}, {"bonus": -1.0}, {"home_margin": 2.0}, {"max_cells": 0}, {"adds_up": 1}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        MixedViews(**wrong)


def test_memory_is_bounded_by_max_cells() -> None:
    site = site_of(policy=MixedViews(max_cells=30))
    played(site, 300)
    assert len(site.learner.cells()) == 30


def learner_of(**options: Any) -> Learner:
    given: dict[str, Any] = {"own": {"a": 0.0, "b": 0.0}, "peers": {"far": 0.1}, "policy": MixedViews(), **options}
    return Learner("here", **given)


def test_an_arm_that_is_left_out_is_not_chosen_and_nobody_is_asked_or_trained() -> None:
    learner = learner_of()
    choices = [learner.choose((0.5,), without=["a", "far"]) for _ in range(5)]
    assert {choice.arm for choice in choices if isinstance(choice, Choice)} == {"b"}
    told = learner.choose((0.5,), {"far": LabelledData(7, 7)})
    assert isinstance(told, Choice)


def test_a_label_scores_local_classifiers_beside_the_arm_and_no_other() -> None:
    learner = learner_of(score_local="all")
    choice = learner.choose((0.5,), without=["b", "far"])
    assert isinstance(choice, Choice)
    for name in ("a", "far"):
        with pytest.raises(ArmError, match="beside its arm"):
            learner.learn(choice.id, 1.0, others={name: 1.0})
    with pytest.raises(RewardError, match="'b' for decision"):
        learner.learn(choice.id, 1.0, others={"b": 1.5})
    learner.learn(choice.id, 1.0, others={"b": 0.0})
    cells = [cell for cell in learner.cells().values() if cell.estimates["b"].reward_count]
    assert cells


def test_a_replay_gives_what_one_by_one_gives() -> None:
    draw = random.Random(1)
    contexts = np.array([[draw.random()] for _ in range(40)])
    right = np.array([[draw.random() < 0.7, draw.random() < 0.4] for _ in range(40)], np.float64)
    learner, twin = (Learner("here", own={"a": 0.0, "b": 0.0}, policy=MixedViews()) for _ in range(2))
    trace = simulate([learner], contexts, right)
    arms = []
    for context, gains in zip(contexts, right, strict=True):
        choice = twin.choose(context)
        assert isinstance(choice, Choice)
        arms.append(twin.arms.number(choice.arm))
        twin.learn(choice.id, float(gains[arms[-1]]))
    assert trace.arms[:, 0].tolist() == arms


def test_views_stop_where_their_cells_could_not_be_told_apart() -> None:
    policy = MixedViews()
    few, one = policy.views(9, 0b111111111), policy.views(1)
    assert max(bits.bit_count() for bits in few) <= 9
    assert set(one) == {0, 1}
    assert policy.keeps


def test_a_policy_that_mixes_nothing_goes_by_all_axes() -> None:
    models, axis = {"one": lambda item: 1}, Feature("hour", range=(0, 24))
    (name, view), *rest = Site("lab", classifiers=models, context=axis, policy=ZoomingKLUCB()).weights().items()
    assert ("hour" in name, view.is_heaviest, view.share, rest) == (True, True, 1.0, [])
