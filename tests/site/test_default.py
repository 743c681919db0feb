"""What a site does that is told neither policy nor scoring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cosend import CoS, MixedViews, Site, ZoomingKLUCB
from cosend.algorithm.policies import DEFAULT_CELLS, how_to_decide
from cosend.axes import AllFeatures, Feature
from cosend.engine.learnt_arms import Learnt
from cosend.errors import ArmError, SettingError

MIXED = MixedViews(max_cells=DEFAULT_CELLS)
UNIT = Feature("x", range=(0, 1))


def a_site(context: Any = UNIT, **options: Any) -> Site:
    return Site("here", classifiers={"low": lambda item: item["x"] < 0.5}, context=context, **options)


def test_what_it_is_told_it_does_and_the_rest_is_the_default() -> None:
    assert how_to_decide(None, None) == how_to_decide(None, "all") == (MIXED, "all")
    assert how_to_decide(None, "used") == (MIXED, "used")
    assert how_to_decide(CoS(), None) == (CoS(), "used")
    assert how_to_decide(CoS(), "all") == (CoS(), "all")


@pytest.mark.parametrize("context", [UNIT, None, [UNIT, AllFeatures()]], ids=["context", "features", "both"])
def test_all_sites_have_it(context: Any) -> None:
    site = a_site(context)
    assert (site.learner.policy, site.score_local) == (MIXED, "all")
    assert [*site.learner.arms.own] == ["low", "grown", "stack"]


def test_it_learns_arms_itself_where_labels_score_all_models_and_else_as_it_is_told() -> None:
    def learnt(**options: Any) -> list[str]:
        return [arm for arm in a_site(**options).learner.arms.own if arm != "low"]

    assert learnt(policy=CoS()) == learnt(score_local="used") == learnt(learnt=False) == []
    assert learnt(policy=CoS(), score_local="all") == learnt(score_local="used", learnt=True) == ["grown", "stack"]
    assert learnt(policy=CoS(), learnt=True) == ["grown", "stack"]

    def named(**models: Any) -> dict[str, str]:
        options = {"learnt": models.pop("learnt")} if "learnt" in models else {}
        site = Site("here", classifiers=models, context=UNIT, **options)
        assert not site.classifiers.keys() & site.engine.state.learnt.kinds
        return dict(site.engine.state.learnt.kinds)

    assert named(mine=Learnt.STACK) == {"mine": "stack", "grown": "grown"}
    assert named(mine=Learnt.STACK, learnt=False) == {"mine": "stack"}
    assert named(one=Learnt.STACK, two=Learnt.STACK, learnt=False) == {"one": "stack", "two": "stack"}
    assert named() == {"grown": "grown", "stack": "stack"}
    with pytest.raises(ArmError, match=r"a model 'grown', .* give it another name, or set learnt=False"):
        named(grown=len)
    with pytest.raises(ArmError, match="'here' has no classifier: it needs at least one"):
        named(learnt=False)
    with pytest.raises(SettingError, match="learnt must be True, False or None, got 'yes'"):
        a_site(learnt="yes")


def test_a_state_that_was_saved_with_another_default_goes_on_as_it_was(tmp_path: Path) -> None:
    before, now = a_site(policy=ZoomingKLUCB()), a_site(learnt=False)
    before.learn(before.classify({"x": 0.2}), True)
    before.save(tmp_path / "state.npz")
    now.load(tmp_path / "state.npz")
    assert (now.learner.policy, now.score_local) == (ZoomingKLUCB(), "used")
    assert now.classify({"x": 0.4}) == before.classify({"x": 0.4})
