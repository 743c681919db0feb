"""Bad input raises an error of our tree that says what was wrong and what is allowed, and changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from cosend import CoS, Learner, Network, Patience, Site, ZoomingKLUCB
from cosend.algorithm.values import AskPeer, LabelledData
from cosend.axes import Feature
from cosend.errors import (
    ArmError,
    ContextError,
    CosendError,
    NetworkError,
    RewardError,
    SettingError,
    SettledDecision,
    UnknownDecision,
)
from tests.policies import everything
from tests.site import test_site

NAN, INF = math.nan, math.inf
SETTLED, WAITS, UNKNOWN = 1, 2, 99  # ids of decisions of the learner below


def a_learner(**options: Any) -> Learner:
    """Return a learner of two dimensions that has decided a few items; the label of the first is known."""
    settings: dict[str, Any] = {"own": {"tree": 0.0, "forest": 0.1}, "peers": {"hq": 0.05}, "dimensions": 2, **options}
    learner = Learner("lab", **{"policy": ZoomingKLUCB(), **settings})
    for n in range(6):
        choose(learner, (n / 6, 0.5))
    learner.learn(SETTLED, 1.0)
    return learner


def choose(learner: Learner, context: Any) -> None:
    told: dict[str, LabelledData] = {}
    while isinstance(made := learner.choose(context, told), AskPeer):
        told[made.peer] = LabelledData(0, 0)


Call = Callable[[Any], object]
TOLD = LabelledData(3, 1)
BAD_COUNT: Any = 1.5
UNIT = "[0, 1]"

BAD_TOLD: list[Any] = [
    [(3, 1), "'hq' told site 'lab'", "a LabelledData", "(3, 1)"],
    [None, "a LabelledData", "None"],
    [LabelledData(-1, 0), "arrivals", "whole number from 0", "-1"],
    [LabelledData(0, -2), "taught", "whole number from 0", "-2"],
    [LabelledData(True, 0), "arrivals", "whole number from 0", "True"],
    [LabelledData(0, 10**30), "taught", "whole number from 0"],
    [LabelledData(BAD_COUNT, 0), "arrivals", "whole number from 0", "1.5"],
]


def told(data: Any, *fragments: str) -> tuple[Call, type[CosendError], list[str]]:
    """Return the case of a learner that is told this, by all verbs that can be told something."""

    def call(learner: Any) -> None:
        for contexts in ([], [(0.5, 0.5)], [(0.5, 0.5), (0.1, 0.1)]):
            with pytest.raises(SettingError):
                learner.choose_many(contexts, {"hq": data})
        learner.choose((0.5, 0.5), {"hq": data})

    return call, SettingError, list(fragments)


LEARNER: dict[str, tuple[Call, type[CosendError], list[str]]] = {
    "choose nan": (lambda a: a.choose((0.5, NAN)), ContextError, ["axis 1", "'lab'", UNIT, "nan"]),
    "choose above": (lambda a: a.choose((0.5, 1.0001)), ContextError, ["axis 1", UNIT, "1.0001"]),
    "choose one number": (lambda a: a.choose(0.5), ContextError, ["'lab'", "2 numbers", "0.5"]),
    "choose too many": (lambda a: a.choose((0.5, 0.5, 0.5)), ContextError, ["2 numbers", "(0.5, 0.5, 0.5)"]),
    "choose text": (lambda a: a.choose("here"), ContextError, ["'lab'", "numbers", "'here'"]),
    "choose a hole": (lambda a: a.choose((0.5, None)), ContextError, ["'lab'"]),
    "choose, told by a stranger": (lambda a: a.choose((0.5, 0.5), {"x": TOLD}), ArmError, ["no peer 'x'", "hq"]),
    "choose, told by a local arm": (lambda a: a.choose((0.5, 0.5), {"tree": TOLD}), ArmError, ["'tree'", "peer"]),
    "choose many nan": (lambda a: a.choose_many([(0, 0), (0, NAN)]), ContextError, ["context 1 of", "axis 1", "nan"]),
    "choose many ragged": (lambda a: a.choose_many([(0, 0), (0,)]), ContextError, ["2 numbers", "(0,)"]),
    "choose, told a list": (lambda a: a.choose((0, 0), ["hq"]), SettingError, ["'lab' was told", "mapping", "['hq']"]),
    **{f"choose, told {data!r}": told(data, *fragments) for data, *fragments in BAD_TOLD},
    "choose many of nothing": (lambda a: a.choose_many(None), ContextError, ["'lab'", "sequence of contexts", "None"]),
    "answer, request": (
        lambda a: a.answer((0, 0), caller="hq", request=1.5, training=True),
        SettingError,
        ["request", "'hq'", "whole number", "1.5"],
    ),
    "answer, caller": (
        lambda a: a.answer((0, 0), caller=7, request=1, training=True),
        SettingError,
        ["caller", "'lab'", "text", "7"],
    ),
    "learn many, no ids": (lambda a: a.learn_many(None, [1]), SettingError, ["decisions", "a list", "None"]),
    "learn many, one cost for all": (lambda a: a.learn_many([2], [1], 0.5), SettingError, ["costs", "a list", "0.5"]),
    "report nan": (lambda a: a.report((NAN, 0)), ContextError, ["axis 0", UNIT, "nan"]),
    "learn unknown": (lambda a: a.learn(UNKNOWN, 1.0), UnknownDecision, ["'lab'", "99", "from 1 to 6"]),
    "learn a list": (lambda a: a.learn([2], 1.0), UnknownDecision, ["[2]", "from 1 to 6"]),
    "learn twice": (lambda a: a.learn(SETTLED, 1.0), SettledDecision, ["1", "'lab'", "is not waiting for a label"]),
    "gain above": (lambda a: a.learn(WAITS, 1.5), RewardError, ["gain", UNIT, "1.5", "decision 2", "'lab'"]),
    "gain nan": (lambda a: a.learn(WAITS, NAN), RewardError, ["gain", UNIT, "nan"]),
    "realised cost above": (lambda a: a.learn(WAITS, 1.0, 2), RewardError, ["cost", UNIT, "2", "decision 2"]),
    "learn many, one unknown": (lambda a: a.learn_many([2, 99], [1, 1]), UnknownDecision, ["99", "from 1 to 6"]),
    "learn many, one settled": (lambda a: a.learn_many([2, 1], [1, 1]), SettledDecision, ["decision 1"]),
    "learn many, one twice": (lambda a: a.learn_many([2, 3, 2], [1, 1, 1]), SettledDecision, ["decision 2"]),
    "learn many, bad gain": (lambda a: a.learn_many([2, 3], [1, 7]), RewardError, ["gain", UNIT, "7", "decision 3"]),
    "learn many, too few gains": (lambda a: a.learn_many([2, 3], [1]), SettingError, ["gains", "as many", "2"]),
    "withdraw settled": (lambda a: a.withdraw(SETTLED), SettledDecision, ["1", "is not waiting for a label"]),
    "cost above": (lambda a: a.set_cost("tree", 1.1), RewardError, ["cost", UNIT, "1.1", "'tree'"]),
    "cost text": (lambda a: a.set_cost("hq", "free"), RewardError, ["cost", UNIT, "'free'"]),
    "add own twice": (lambda a: a.add_own("tree"), ArmError, ["'lab'", "'tree' already", "differ"]),
    "add the site itself": (lambda a: a.add_peer("lab"), CosendError, ["'lab'"]),
    "add without a name": (lambda a: a.add_own(""), ArmError, ["name", "''"]),
    "add own, cost": (lambda a: a.add_own("new", 2), RewardError, ["cost", UNIT, "2", "'new'"]),
    "add peer, functions": (lambda a: a.add_peer("new", 0.1, 0), SettingError, ["functions", "at least 1", "0"]),
}


@pytest.mark.parametrize("case", LEARNER)
def test_a_learner_refuses_bad_input_and_stays_as_it_was(case: str) -> None:
    call, error, fragments = LEARNER[case]
    learner, twin = a_learner(), a_learner()
    before = everything(learner)
    with pytest.raises(error) as caught:
        call(learner)
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)
    assert everything(learner) == before
    for n in range(10):  # and what is not saved is as before too: it goes on like one that was never called
        choose(learner, (n / 10, 0.1))
        choose(twin, (n / 10, 0.1))
    assert everything(learner) == everything(twin)


@pytest.mark.parametrize("truthy", [True, 1.0], ids=repr)
def test_what_only_equals_an_id_is_no_id(truthy: Any) -> None:
    learner = Learner("lab", own={"tree": 0.0})
    choose(learner, 0.5)
    before = everything(learner)
    with pytest.raises(UnknownDecision, match="never made a decision"):
        learner.learn(truthy, 1.0)
    assert everything(learner) == before


@pytest.mark.parametrize("context", [(0.5, NAN), (0.5, 2.0), (0.5,)], ids=repr)
@pytest.mark.parametrize("overdue", ["drop", 0.5])
def test_a_refused_context_does_not_make_what_waits_overdue(context: Any, overdue: Any) -> None:
    """At the next arrival the first decision would have waited too long; a refused item is no arrival."""
    patience, policy = Patience(wait_limit=2, overdue=overdue), ZoomingKLUCB()
    learner = Learner("lab", own={"tree": 0.0}, dimensions=2, policy=policy, patience=patience)
    for _ in range(3):
        choose(learner, (0.5, 0.5))
    before = everything(learner)
    for refused in (lambda: learner.choose(context), lambda: learner.choose_many([(0.5, 0.5), context])):
        with pytest.raises(ContextError):
            refused()
        assert everything(learner) == before


def test_the_last_own_classifier_may_not_leave() -> None:
    learner = a_learner(own={"tree": 0.0})
    before = everything(learner)
    with pytest.raises(ArmError, match="'tree' is the last classifier of site 'lab'"):
        learner.remove("tree")
    assert everything(learner) == before


WHOLE = "whole number of at least 1"
NEW_COS: Any = CoS
NEW_PATIENCE: Any = Patience
NEW_LEARNER: Any = Learner
BUILD: dict[str, tuple[Callable[[], object], type[CosendError], list[str]]] = {
    "a name that is no text": (lambda: NEW_LEARNER(7, own={"a": 0}), SettingError, ["name", "text", "7"]),
    "an empty name": (lambda: Learner("", own={"a": 0}), SettingError, ["name", "text", "''"]),
    "peers as a list": (lambda: NEW_LEARNER("lab", own={"a": 0}, peers=[]), SettingError, ["peers", "mapping", "[]"]),
    "patience": (lambda: NEW_LEARNER("lab", own={"a": 0}, patience=5), SettingError, ["patience", "a Patience", "5"]),
    "no own arms": (lambda: Learner("lab", own={}), ArmError, ["'lab'", "at least one"]),
    "one name twice": (lambda: Learner("lab", own={"a": 0}, peers={"a": 0}), ArmError, ["'a' already", "differ"]),
    "its own peer": (lambda: Learner("lab", own={"a": 0}, peers={"lab": 0}), CosendError, ["'lab'"]),
    "dimensions 0": (
        lambda: Learner("lab", own={"a": 0}, dimensions=0, policy=CoS()),
        SettingError,
        ["axes", "at least 1", "0"],
    ),
    "seed": (lambda: Learner("lab", own={"a": 0}, seed=-1), SettingError, ["seed", "at least 0", "-1"]),
    "too many cells": (
        lambda: Learner("lab", own={"a": 0}, dimensions=40, policy=CoS(slices=12)),
        SettingError,
        ["max_cells", "12 slices on 40 axes", "too many"],
    ),
    "horizon 0": (lambda: CoS(horizon=0), SettingError, ["horizon", WHOLE, "0"]),
    "slices": (lambda: CoS(slices=-3), SettingError, ["slices", WHOLE, "-3"]),
    "max_cells": (lambda: CoS(max_cells=0), SettingError, ["max_cells", WHOLE, "0"]),
    "max_peer_functions": (lambda: CoS(max_peer_functions=0), SettingError, ["max_peer_functions", WHOLE, "0"]),
    "alpha 0": (lambda: CoS(alpha=0), SettingError, ["alpha", "above 0", "0"]),
    "exponent 1.4": (lambda: CoS(exploration_exponent=1.4), SettingError, ["exploration_exponent", "(0, 1)", "1.4"]),
    "order": (lambda: NEW_COS(order="own"), SettingError, ["order", "'pseudocode', 'random', 'train_first'", "'own'"]),
    "training_count": (lambda: NEW_COS(training_count="x"), SettingError, ["training_count", "'reported'", "'x'"]),
    "share_labels": (lambda: NEW_COS(share_labels="x"), SettingError, ["share_labels", "'training', 'always'", "'x'"]),
    "max_pending 0": (lambda: Patience(max_pending=0), SettingError, ["max_pending", WHOLE, "0"]),
    "overdue text": (lambda: NEW_PATIENCE(overdue="x"), SettingError, ["overdue", "'drop'", "'x'"]),
}


@pytest.mark.parametrize("case", BUILD)
def test_a_setting_that_is_not_allowed_is_refused_when_the_object_is_built(case: str) -> None:
    build, error, fragments = BUILD[case]
    with pytest.raises(error) as caught:
        build()
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)


def a_network() -> Network:
    """Two sites with one decision each that waits."""
    sites = [
        Site(name, classifiers={"x": lambda item: item["x"]}, context=Feature("x", range=(0, 1)), learnt=False)
        for name in ("a", "b")
    ]
    network = Network(sites, call_cost=0.1)
    for site in sites:
        site.learn(site.classify({"x": 0.25}).id, 0.25)
        site.classify({"x": 0.5})
    return network


SITES: dict[str, tuple[Call, type[CosendError], list[str]]] = {
    "nan": (lambda n: n.sites["a"].classify({"x": NAN}), ContextError, ["'x'", "finite", "nan"]),
    "cost of a stranger": (lambda n: n.sites["a"].set_cost("c", 0.1), ArmError, ["no arm 'c'", "x, b"]),
    "remove a stranger": (lambda n: n.sites["a"].remove("c"), ArmError, ["no arm 'c'", "x, b"]),
    "two of one name": (
        lambda n: n.add(Site("a", classifiers={"x": len}, context=Feature("x", range=(0, 1)))),
        NetworkError,
        ["two sites have the name 'a'", "differ"],
    ),
    "remove a strange site": (lambda n: n.remove("c"), NetworkError, ["no site 'c'", "a, b"]),
    "a strange stream": (lambda n: n.run({"c": []}), NetworkError, ["'c'", "not a site"]),
}


@pytest.mark.parametrize("case", SITES)
def test_sites_and_networks_refuse_bad_input_and_stay_as_they_were(case: str) -> None:
    call, error, fragments = SITES[case]
    network = a_network()
    before = test_site.everything(*network.sites.values())
    with pytest.raises(error) as caught:
        call(network)
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)
    assert test_site.everything(*network.sites.values()) == before
