"""Ctrl-C while arms join and leave: a site has them wholly or not at all, and its journal is never silently behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from cosend import Context, Network, Rules, Site, fold
from cosend.errors import StateError
from cosend.site.events import Event
from cosend.site.messages import Question
from tests.core.test_interrupted import interrupted
from tests.policies import everything as learnt

pytestmark = pytest.mark.compiled  # a compiled call is what nothing can interrupt

AGE = Context("age", range=(0, 100))
CHANGES: dict[str, Callable[[Rules], object]] = {
    "a classifier joins": lambda rules: rules.add_local("c", 0.1),
    "a peer joins": lambda rules: rules.add_peer("far", 0.1, 3),
    "a classifier leaves": lambda rules: rules.remove("a"),
    "a peer leaves": lambda rules: rules.remove("there"),
    "cost": lambda rules: rules.set_cost("b", 0.3),
    "pause": lambda rules: rules.pause("a"),
    "resume": lambda rules: rules.resume("b"),
}


def everything(rules: Rules) -> Any:
    """Return the whole state of a site, also where it may not be saved because its journal is behind."""
    return learnt(rules.learner), rules.learner.registry.notes, rules.served.rows()


def rules_of(journal: Callable[[Event], object] | None) -> Rules:
    """Return the rules of a site with labels awaited, own ones and those of a peer."""
    rules = Rules("lab", local={"a": 0.0, "b": 0.0}, axes=[AGE], journal=journal, seed=5)
    rules.add_peer("there", 0.1)
    rules.pause("b")
    step = rules.choose(rules.place([[0.1, 0.5, 0.9]]))
    rules.complete(range(step.first, step.first + 3), [True] * 3, [{"age": n} for n in range(3)])
    rules.serve("there", [Question(7, None, (0.3,), True, True), Question(8, None, (0.6,), True, True)])
    return rules


@pytest.mark.parametrize("logged", [True, False], ids=["journal", "no journal"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_arms_is_made_wholly_or_not_at_all(change: Callable[[Rules], object], logged: bool) -> None:
    def new() -> tuple[Rules, list[Event]]:
        log: list[Event] = []
        return rules_of(log.append if logged else None), log

    changed, _ = new()
    change(changed)
    before, after, line = everything(new()[0]), everything(changed), 1
    assert before != after
    seen = set()
    while True:
        rules, log = new()
        if not interrupted(partial(change, rules), line):
            break
        left = everything(rules)
        assert left in (before, after)
        is_behind = logged and everything(fold(log)) != left
        seen.add((left == after, is_behind))
        if rules._unwritten:  # the change is made, and its event may not be written: nothing may go on
            assert logged
            with pytest.raises(StateError, match="recover from the journal"):
                rules.set_cost("a", 0.2)
            assert everything(fold(log)) in (before, after)
        else:
            assert not is_behind
            rules.set_cost("b", 0.2)
        line += 1
    assert (False, False) in seen
    assert ((True, True) in seen) == logged


def high(item: Any) -> bool:
    return bool(item["age"] > 50)


def site(name: str) -> Site:
    return Site(name, classifiers={f"{name} model": high}, context=AGE)


def whole(sites: list[Site]) -> None:
    """Check that every site can decide and learn, whomever it knows by now."""
    for each in sites:
        for age in (5, 55, 95, 20):
            each.learn(each.classify({"age": age}), True)
        assert set(each.learner.arms.own) <= set(each.classifiers)
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
        line += 9
    assert line > 20


def test_a_site_interrupted_while_a_classifier_joins_or_leaves_goes_on() -> None:
    for change in (lambda lab: lab.add_classifier("more", high), lambda lab: lab.remove("other")):
        line = 1
        while True:
            lab = Site("lab", classifiers={"one": high, "other": high}, context=AGE)
            if not interrupted(partial(change, lab), line):
                break
            assert set(lab.learner.arms.names) <= set(lab.classifiers)
            for age in range(0, 100, 9):
                lab.learn(lab.classify({"age": age}), True)
            line += 1
        assert line > 5
