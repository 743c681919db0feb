"""A network file without a context: every feature is looked at, by MixedViews."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosend.config.build import Built, read_stream
from cosend.config.scenario import Scenario, parse
from cosend.core.policy.mixed import MixedViews
from cosend.core.policy.policies import ZoomingKLUCB
from cosend.errors import ScenarioError
from cosend.experiments.scenario.report import one_stream
from cosend.experiments.scenario.run import run
from cosend.experiments.scenario.world import build
from cosend.site.features import AllFeatures

FILE = """
title = "No context"
[stream]
kind = "traffic"
items = 300
training = 400
{context}
[[sites]]
name = "north"
[[sites.classifiers]]
name = "bayes"
model = "naive_bayes"
train = [0, 300]
[[sites]]
name = "south"
{south}
[[sites.classifiers]]
name = "alarm"
model = "always"
label = "attack"
"""


def scenario(context: str = "", south: str = "") -> Scenario:
    return parse(FILE.format(context=context, south=south), "a test")


def built(given: Scenario) -> Built:
    return Built(given, Path(), read_stream(given, Path()))


def test_without_a_context_every_feature_is_looked_at() -> None:
    given = built(scenario())
    assert given.axes == [AllFeatures()]
    assert given.policy is None
    site = given.site("north")
    assert (type(site.learner.policy), site.score_local) == (MixedViews, "all")
    assert site.rules.past.features is not None
    told = built(scenario(south='score_local = "used"')).site("south")
    assert (type(told.learner.policy), told.score_local) == (MixedViews, "used")  # nothing else can look at features


def test_with_a_context_only_that_is_looked_at() -> None:
    axis = '[[context]]\nkind = "previous_label"'
    site = built(scenario(axis)).site("north")
    assert (type(site.learner.policy), site.score_local) == (MixedViews, "all")
    assert site.rules.past.features is None
    told = built(scenario(axis, south='score_local = "used"')).site("south")
    assert (type(told.learner.policy), told.score_local) == (ZoomingKLUCB, "used")


def test_both_go_together_and_features_come_last() -> None:
    both = '[[context]]\nkind = "features"\n[[context]]\nkind = "previous_label"'
    given = built(scenario(both))
    assert isinstance(given.axes[-1], AllFeatures)
    assert len(given.axes) == 2
    assert isinstance(given.site("north").learner.policy, MixedViews)
    with pytest.raises(ScenarioError, match="is given twice"):
        scenario('[[context]]\nkind = "features"\n[[context]]\nkind = "features"')


def test_a_policy_that_needs_a_context_is_a_mistake() -> None:
    with pytest.raises(ScenarioError, match=r"policy.name: CoS needs a context, \[\[context\]\]"):
        scenario('[policy]\nname = "CoS"')


@pytest.mark.compiled
def test_a_run_says_what_the_sites_go_by() -> None:
    world = build(scenario(), Path())
    outcome = run(world)
    assert {each.policy for each in outcome.played} >= {"MixedViews", "CoS", "ZoomingKLUCB"}
    assert any(note.startswith("what north goes by: ") for note in outcome.notes)
    assert "never send" in {each.policy for each in outcome.played}  # models are asked once, whatever the policy does
    shown = one_stream(world, outcome)
    assert (shown["policy"], shown["context"], shown["goes_by"]) == ("MixedViews", ["time"], ["every feature"])
