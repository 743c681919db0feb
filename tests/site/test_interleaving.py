"""Many items in flight, in any order, and everything goes wrong: nothing is left behind, and the log is the state."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest

from cosend import Context, Network, Patience, Site
from cosend.core.learner.values import ScoreLocal
from cosend.site.context import Axis
from cosend.site.events import Event
from tests.policies import POLICIES, mostly_claims
from tests.site.interleaving import CALM, Node, Weather, World, drawn_item, new_node, predicted, truth_of
from tests.site.mishaps import Mishaps, assert_log_is_the_state, assert_nothing_is_left, whole

pytestmark = pytest.mark.compiled
RUNS = 30  # for each of the policies
CONTEXTS: list[list[Axis]] = [
    [Context("x", range=(0, 1)), Context("y", range=(0, 100))],
    [Context("y", window=8), Context("x", range=(0, 1))],
    [Context.category("kind"), Context("x", range=(0, 1))],
    [Context.previous_label(0, 1), Context("y")],
    [Context("x", range=(0, 1)), Context.category("kind")],
    [Context.time(100), Context.previous_label(0, 1)],
]
PATIENCE = [
    None,
    Patience(),
    Patience(wait_limit=5),
    Patience(max_waiting=1),
    Patience(max_waiting=7, overdue=0.5),
    Patience(wait_limit=3, max_waiting=12, overdue=0.0),
]
FEW_RUNS = 6
IN_FLIGHT = [1, 8, 32, 128]
SCORE_LOCAL: list[ScoreLocal] = ["used", "all"]
EVERYTHING = [  # what must have happened to every policy, for the runs to be a proof of anything
    *("128 in flight", "failed", "failed for a peer", "no arm", "lost", "reply lost", "late", "label too late"),
    *("taught", "taught for nothing", "withdrawn by a peer", "refused", "anew"),
    *("local", "peer", "remove", "pause", "resume", "cost", "scored beside"),
]


def stormy_run(policy: str, seed: int) -> Counter[str]:
    """Let anything happen to a random network for a while, then end it and look at what is left."""
    draw = random.Random(f"{policy}/{seed}")
    axes, in_flight = CONTEXTS[seed % len(CONTEXTS)], draw.choice(IN_FLIGHT)
    names = ["lab", "hq", "far", "near"][: draw.randint(2, 4)]
    nodes = [
        new_node(
            name,
            axes,
            POLICIES[policy],
            draw.choice(PATIENCE),
            seed,
            local=draw.randint(1, 3),
            score_local=draw.choice(SCORE_LOCAL),
        )
        for name in names
    ]
    lost, twice, broken = (draw.choice([0.0, 0.2]) for _ in range(3))
    weather = Weather(lost=lost, twice=twice, broken=broken, hurry=draw.choice([0.02, 0.1]), kept=0.5)
    world = World(nodes, weather, draw.getrandbits(32))
    mishaps = Mishaps(world, in_flight)
    mishaps.happen(500)
    mishaps.end()
    for node in nodes:
        assert_nothing_is_left(node)
        assert_log_is_the_state(node, draw)
    world.seen["128 in flight"] += mishaps.most >= 128
    return world.seen


@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
def test_in_a_few_runs_nothing_is_left_and_the_log_is_the_state(policy: str) -> None:
    for seed in range(FEW_RUNS):
        stormy_run(policy, seed)


@pytest.mark.claims
@pytest.mark.parametrize("policy", POLICIES)
def test_whatever_happens_nothing_is_left_and_the_log_is_the_state(policy: str) -> None:
    seen = Counter[str]()
    for seed in range(RUNS):
        seen += stormy_run(policy, seed)
    assert all(seen[each] for each in EVERYTHING), seen


@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
def test_one_item_at_a_time_is_decided_as_by_real_sites(policy: str) -> None:
    """The same decisions, the same logs and the same states, with every kind of context."""
    for seed, axes in enumerate(CONTEXTS):
        scores, names = SCORE_LOCAL[seed % 2], ("lab", "hq", "far")
        nodes = [new_node(name, axes, POLICIES[policy], None, seed, local=3, score_local=scores) for name in names]
        logs: list[list[Event]] = [[] for _ in nodes]
        sites = [real_site(node, axes, log) for node, log in zip(nodes, logs, strict=True)]
        Network(sites, call_cost=0.05)
        mishaps, draw = Mishaps(World(nodes, CALM, seed), in_flight=1), random.Random(seed)
        for _ in range(40):
            place, item = draw.randrange(3), drawn_item(draw)
            mishaps.world.come(nodes[place], [item])
            mishaps.settle_down()
            decision, made = sites[place].classify(item), nodes[place].made[-1]
            assert made[:3] == (decision.id, decision.label, decision.arm)
            assert made[4:] == (decision.cell, repr(decision.propensity))
            if draw.random() < 0.8:
                mishaps.label(nodes[place], [decision.id], costs=False)
                mishaps.settle_down()
                sites[place].learn(decision, truth_of(item))
        for node, site, log in zip(nodes, sites, logs, strict=True):
            assert whole(site.rules) == whole(node.rules)
            assert repr(log) == repr(node.log)


def real_site(node: Node, axes: list[Axis], log: list[Event]) -> Site:
    """Return a site with the same classifiers as a node."""
    learner = node.rules.learner
    return Site(
        node.name,
        classifiers={arm: partial(predicted, arm) for arm in learner.arms.own},
        costs=learner.arms.own,
        context=axes,
        policy=learner.policy,
        seed=learner.seed,
        score_local=learner.score_local,
        journal=log.append,
    )
