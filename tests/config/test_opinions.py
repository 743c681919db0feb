"""Opinions of classifiers as axes in a network file: the same for all sites, missing where nobody says anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosend import axes as all_axes
from cosend.axes import AllFeatures, Confidence, Feature, Says
from cosend.config.build import Built
from cosend.config.network_file import NetworkFile, parse
from cosend.errors import NetworkFileError

FILE = """
{top}
[[context]]
kind = "says"
classifier = "{says}"
[[context]]
feature = "age"
range = [0, 100]
[[context]]
kind = "confidence"
classifier = "{sure}"
[[sites]]
name = "north"
{north}
[[sites.classifiers]]
name = "tree"
model = "models:tree"
[[sites]]
name = "south"
[[sites.classifiers]]
name = "dear"
model = "models:dear"
cost = 0.1
"""
MODULE = """
def tree(item):
    return ("ill", 0.75) if item["age"] > 50 else "well"

def dear(item):
    return "ill"
"""


def network(says: str = "tree", sure: str = "stack", north: str = "", top: str = "") -> NetworkFile:
    return parse(FILE.format(says=says, sure=sure, north=north, top=top), "a test")


def test_sites_have_the_same_axes_and_one_without_the_classifier_lacks_its_opinion(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODULE)
    built = Built(network(sure="tree"), tmp_path)
    age = Feature("age", range=(0, 100))
    assert built.axes == [age, Says("tree", optional=True), Confidence("tree", optional=True)]
    north, south = built.site("north"), built.site("south")
    assert [north.classify({"age": age}).context for age in (25.0, 75.0)] == [(0.25, "well", None), (0.75, "ill", 0.75)]
    assert south.classify({"age": 75.0}).context == (0.75, None, None)
    assert north.axis_names == south.axis_names == ("age", "what tree says", "confidence of tree")
    assert [axis.title for axis in built.network.heard] == ["what tree says", "confidence of tree"]


def test_features_stay_the_last_axis() -> None:
    every = network(top='[[context]]\nkind = "features"')
    assert [type(axis) for axis in Built(every, Path()).axes] == [Feature, Says, Confidence, AllFeatures]
    assert every.watches


FREE = "must be a classifier that costs nothing, at any site"
MISTAKES = {
    "nobody": ({"says": "nobody"}, [f"context.1.classifier: {FREE} (tree, grown, stack), got 'nobody'"]),
    "one that costs something": ({"sure": "dear"}, [f"context.3.classifier: {FREE} (tree, grown, stack), got 'dear'"]),
    "both": (
        {"says": "a", "sure": "b"},
        [f"context.{n}.classifier: {FREE} (tree, grown, stack), got {name!r}" for n, name in ((1, "a"), (3, "b"))],
    ),
    "a stack that nobody has": (
        {"top": '[policy]\nname = "MixedViews"', "north": 'score_local = "all"\nlearnt = false'},
        [
            "sites.2.score_local: what classifiers say is part of the context, which needs score_local = 'all': "
            "with 'used' no classifier is heard before the choice",
            f"context.3.classifier: {FREE} (tree), got 'stack'",
        ],
    ),
    "a site that hears nobody": (
        {"north": 'score_local = "used"', "sure": "tree"},
        [
            "sites.1.score_local: what classifiers say is part of the context, which needs score_local = 'all': "
            "with 'used' no classifier is heard before the choice"
        ],
    ),
    "a policy that needs all values": (
        {"top": '[policy]\nname = "CoS"'},
        ["policy.name: only MixedViews can do without an opinion that is missing, CoS cannot"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_names_its_key_and_what_is_allowed(case: str) -> None:
    changes, mistakes = MISTAKES[case]
    with pytest.raises(NetworkFileError) as raised:
        network(**changes)
    assert raised.value.mistakes == mistakes


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ('kind = "says"', "context.1: kind = 'says' needs the classifier whose opinion it is"),
        ('kind = "time"\nclassifier = "tree"', "context.1: classifier is for kind 'confidence' or kind 'says'"),
        ('kind = "confidence"\nclassifier = "tree"\nfeature = "age"', "context.1: feature is for kind 'feature'"),
        ('kind = "confidence"\nclassifier = 5', "context.1.classifier: must be a valid string"),
    ],
)
def test_keys_are_of_their_kind(axis: str, words: str) -> None:
    start = FILE.index("[[sites]]")
    with pytest.raises(NetworkFileError) as raised:
        parse(f"[[context]]\n{axis}\n{FILE[start:].format(north='')}", "a test")
    assert raised.value.mistakes[0].startswith(words)


def test_a_file_with_other_mistakes_names_those() -> None:
    with pytest.raises(NetworkFileError, match=r"1 mistake.*\n.*policy.bonus"):
        network(sure="tree", north='score_local = "all"', top='[policy]\nname = "MixedViews"\nbonus = -1')
    grown = '[[sites.classifiers]]\nname = "grown"\nmodel = "models:a"'
    with pytest.raises(NetworkFileError, match=r"1 mistake.*\n.*sites.1.learnt"):
        network(sure="tree", north=f"learnt = true\n{grown}")


def test_the_default_context_can_hear_what_sites_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILE[FILE.index("[[sites]]") :].format(north="learnt = false")
    assert Built(parse(text, "a test"), Path()).axes == [AllFeatures()]
    monkeypatch.setattr(all_axes, "HEARS_LEARNT", True)
    found = Built(parse(text, "a test"), Path()).axes
    assert found == [Confidence("grown", optional=True), Confidence("stack", optional=True), AllFeatures()]
