"""A network file without a context: every feature is looked at, by MixedViews."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosend import MixedViews
from cosend.axes import AllFeatures
from cosend.config.build import Built, read_stream
from cosend.config.network_file import NetworkFile, parse
from cosend.errors import NetworkFileError

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


def network(context: str = "", south: str = "") -> NetworkFile:
    return parse(FILE.format(context=context, south=south), "a test")


def built(given: NetworkFile) -> Built:
    return Built(given, Path(), read_stream(given, Path()))


def test_without_a_context_every_feature_is_looked_at() -> None:
    given = built(network())
    assert given.axes == [AllFeatures()]
    assert given.policy is None
    site = given.site("north")
    assert (type(site.learner.policy), site.score_local) == (MixedViews, "all")
    assert site.engine.state.encoder.features is not None
    told = built(network(south='score_local = "used"')).site("south")
    assert (type(told.learner.policy), told.score_local) == (MixedViews, "used")  # nothing else can look at features


def test_with_a_context_only_that_is_looked_at() -> None:
    axis = '[[context]]\nkind = "previous_label"'
    site = built(network(axis)).site("north")
    assert (type(site.learner.policy), site.score_local) == (MixedViews, "all")
    assert site.engine.state.encoder.features is None


def test_both_go_together_and_features_come_last() -> None:
    both = '[[context]]\nkind = "features"\n[[context]]\nkind = "previous_label"'
    given = built(network(both))
    assert isinstance(given.axes[-1], AllFeatures)
    assert len(given.axes) == 2
    assert isinstance(given.site("north").learner.policy, MixedViews)
    with pytest.raises(NetworkFileError, match="is given twice"):
        network('[[context]]\nkind = "features"\n[[context]]\nkind = "features"')

    with pytest.raises(NetworkFileError, match=r"policy.name: CoS needs a context, \[\[context\]\]"):
        network('[policy]\nname = "CoS"')
