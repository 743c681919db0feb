"""A site when things change: labels that never come, arms that join and leave, models that fail to learn."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cosend import CoS, Network, Patience, Site
from cosend.algorithm.values import Phase
from cosend.axes import Feature
from cosend.errors import (
    ArmError,
    NetworkError,
    RewardError,
    SettingError,
    SettledDecision,
)
from tests.site.test_site import (
    TRAINING_FIRST,
    always,
    assert_nothing_leaks,
    broken,
    everything,
    high,
    items,
    pair,
    until,
)


@pytest.mark.parametrize("overdue", ["drop", 0.0, 0.5])
@pytest.mark.parametrize("limits", [{"wait_limit": 1}, {"wait_limit": 7}, {"max_pending": 1}, {"max_pending": 5}])
def test_what_waits_stays_within_the_limits_and_never_leaks(limits: dict[str, int], overdue: Any) -> None:
    """Both sites get items and only some labels come, late; what was dropped is refused."""
    lab, hq = pair(patience=Patience(overdue=overdue, **limits), policy=CoS(share_labels="always"))
    draw = random.Random(5)
    waiting: list[tuple[Site, int]] = []
    refused = 0
    for n, item in enumerate(items(200)):
        site = (lab, hq)[n % 2]
        waiting.append((site, site.classify(item).id))
        if draw.random() < 0.5:
            late, decision = waiting.pop(draw.randrange(len(waiting)))
            if decision in late.pending():
                late.learn(decision, 1)
            else:
                refused += 1
                with pytest.raises(SettledDecision):
                    late.learn(decision, 1)
        assert_nothing_leaks(lab, hq)
        assert all(len(each.pending()) <= limits.get("max_pending", 1000) for each in (lab, hq))
    assert refused > 0


def test_an_overdue_decision_is_told_to_the_peer_that_waits_for_its_label() -> None:
    """Else a peer without a limit of its own waits for ever for labels that nobody will send."""
    lab = Site(
        "lab",
        classifiers={"one": always(1)},
        context=Feature("x", range=(0, 1)),
        policy=TRAINING_FIRST,
        patience=Patience(wait_limit=3),
    )
    hq = Site("hq", classifiers={"high": high}, context=Feature("x", range=(0, 1)))
    Network([lab, hq])
    for item in items(50):
        lab.classify(item)
    assert len(lab.pending()) <= 4
    assert len(hq.pending()) <= 4


def test_a_classifier_that_joins_is_explored_and_what_is_known_of_others_stays() -> None:
    lab, _ = pair()
    until(lab, Phase.EXPLOIT)
    known = lab.learner.cells()[0].estimates
    lab.add_classifier("high", high, cost=0.01)
    assert {arm: lab.learner.cells()[0].estimates[arm] for arm in known} == known
    assert lab.classify({"x": 0.9}).arm == "high"
    decision, _ = until(lab, Phase.EXPLOIT)
    assert decision.arm == "high"


def test_a_classifier_that_leaves_takes_what_waits_for_it_along() -> None:
    lab, hq = pair(policy=CoS(slices=1, exploration_exponent=0.6))
    made = lab.classify_many(items(40))
    gone = [decision for decision in made if decision.arm == "zero"]
    stays = [decision for decision in made if decision.arm != "zero"]
    lab.remove("zero")
    assert_nothing_leaks(lab, hq)
    with pytest.raises(SettledDecision):
        lab.learn(gone[0].id, 1)
    lab.learn_many([decision.id for decision in stays], [1] * len(stays))
    assert "zero" not in {decision.arm for decision in lab.classify_many(items(60))}


def test_a_peer_that_joins_and_leaves_while_labels_wait() -> None:
    lab, hq = pair()
    decision, _ = until(lab, Phase.TRAIN)
    far = Site("far", classifiers={"high": high}, context=Feature("x", range=(0, 1)))
    lab.add_peer("far", far, cost=0.1, functions=2)
    lab.learn(decision.id, 1)
    decision, _ = until(lab, Phase.TRAIN, "far")
    lab.remove("far")
    with pytest.raises(SettledDecision):
        lab.learn(decision.id, 1)
    assert "far" not in {made.arm for made in lab.classify_many(items(50))}
    assert_nothing_leaks(lab, hq)


def test_joining_and_leaving_that_is_not_allowed_changes_nothing() -> None:
    lab, hq = pair(lab={"one": always(1)})
    lab.classify({"x": 0.5})
    before = everything(lab, hq)
    with pytest.raises(ArmError, match="'lab' has an arm 'one' already"):
        lab.add_classifier("one", high)
    with pytest.raises(ArmError, match="'lab' has an arm 'hq' already"):
        lab.add_classifier("hq", high)
    with pytest.raises(SettingError, match="classifier must be"):
        lab.add_classifier("new", 5)
    with pytest.raises(RewardError, match=r"cost must be a number in \[0, 1\], got 2"):
        lab.add_classifier("new", high, cost=2)
    with pytest.raises(ArmError, match="'one' is the last classifier of site 'lab'"):
        lab.remove("one")
    with pytest.raises(ArmError, match="'lab' has no arm 'nobody': it has one, hq"):
        lab.remove("nobody")
    with pytest.raises(ArmError, match="'lab' has no arm 'nobody'"):
        lab.set_cost("nobody", 0.1)
    with pytest.raises(NetworkError, match="'lab' cannot be its own peer"):
        lab.add_peer("lab", lab)
    with pytest.raises(SettingError, match="functions must be a whole number"):
        lab.add_peer("far", hq, functions=0)
    assert everything(lab, hq) == before
    assert (list(lab.classifiers), list(lab.peers)) == (["one"], ["hq"])


BAD_SITES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"name": ""}, SettingError, r"the name of a site must be letters, .* got ''"),
    ({"name": "a/b"}, SettingError, "got 'a/b'"),
    ({"name": 5}, SettingError, "got 5"),
    ({"classifiers": {}, "learnt": False}, ArmError, "'lab' has no classifier: it needs at least one"),
    ({"classifiers": {"": high}}, ArmError, "must have a name, got ''"),
    ({"classifiers": {"a": "text"}}, SettingError, "classifier must be a model .* got 'text'"),
    ({"costs": {"b": 0.1}}, ArmError, "cost for 'b', which is not one of its classifiers"),
    ({"costs": {"a": 1.1}}, RewardError, r"cost must be a number in \[0, 1\], got 1.1 for arm 'a' of site 'lab'"),
    ({"context": []}, SettingError, "a list of at least one"),
    ({"seed": -1}, SettingError, "seed must be a whole number of at least 0, got -1"),
    ({"policy": CoS(slices=2**20), "context": [Feature("x", range=(0, 1))] * 5}, SettingError, "5 axes are too many"),
]


@pytest.mark.parametrize(("bad", "error", "sentence"), BAD_SITES, ids=[sentence for _, _, sentence in BAD_SITES])
def test_a_site_that_cannot_work_is_refused_when_it_is_built(
    bad: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    good: dict[str, Any] = {"name": "lab", "classifiers": {"a": high}, "context": Feature("x", range=(0, 1))}
    with pytest.raises(error, match=sentence):
        Site(**{**good, **bad})


def test_an_item_is_counted_once_even_if_its_wait_was_over_before_its_arm_failed() -> None:
    """With room for one to wait, all but the last of a batch are overdue when their arm fails: each is one item."""
    site = Site(
        "lab",
        classifiers={"broken": broken, "one": always(1)},
        context=Feature("x", range=(0, 1)),
        costs={"broken": 0.1, "one": 0.2},
        patience=Patience(max_pending=1),
    )
    for _ in range(5):
        assert [decision.label for decision in site.classify_many(items(3))] == [1, 1, 1]
    assert site.learner.arrivals == 15
    assert len(site.pending()) == 1
