"""Ctrl-C while arms join and leave: a site has them wholly or not at all, and its journal is never silently behind."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from cosend import Learnt, Network, Site
from cosend.axes import Feature
from tests.algorithm.test_interrupted import interrupted

pytestmark = pytest.mark.compiled  # a compiled call is what nothing can interrupt

AGE = Feature("age", range=(0, 100))


def high(item: Any) -> bool:
    return bool(item["age"] > 50)


def site(name: str) -> Site:
    return Site(name, classifiers={f"{name} model": high}, context=AGE)


def assert_all_are_there(site: Site) -> None:
    assert site.learner.arms.own.keys() <= site.classifiers.keys() | site.engine.state.learnt.kinds.keys()


def whole(sites: list[Site]) -> None:
    """Check that every site can decide and learn, whomever it knows by now."""
    for each in sites:
        for age in (5, 55, 95, 20):
            each.learn(each.classify({"age": age}), True)
        assert_all_are_there(each)
        assert set(each.learner.arms.peers) <= set(each.peers)


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "joins"])
def test_a_network_goes_on_and_ends_what_was_interrupted(leaves: bool) -> None:
    line = 1
    while True:
        sites = [site("north"), site("south"), site("east")]
        network = Network(sites if leaves else sites[:2])
        for each in network.sites.values():
            each.classify({"age": 70})
        work = partial(network.remove, "east") if leaves else partial(network.add, sites[2])
        if not interrupted(work, line):
            break
        if not leaves:
            whole(sites)
        if ("east" in network.sites) == leaves:
            work()
        whole(sites)
        assert ("east" in network.sites) != leaves
        others = [] if leaves else ["north", "south"]
        assert sorted(sites[2].learner.arms.peers) == others
        assert ("east" in sites[0].learner.arms.peers) != leaves
        line += 17
    assert line > 20


def test_a_site_interrupted_while_a_classifier_joins_or_leaves_goes_on() -> None:
    changes: list[Any] = [
        lambda lab: lab.add_classifier("more", high),
        lambda lab: lab.remove("other"),
        lambda lab: lab.add_classifier("more", Learnt.STACK),
        lambda lab: lab.remove("stack"),
    ]
    for change in changes:
        line = 1
        while True:
            lab = Site("lab", classifiers={"one": high, "other": high}, context=AGE)
            if not interrupted(partial(change, lab), line):
                break
            assert_all_are_there(lab)
            for age in range(0, 100, 9):
                lab.learn(lab.classify({"age": age}), True)
            line += 3
        assert line > 5
