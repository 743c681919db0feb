"""Many items in flight, in any order, and everything goes wrong: nothing is left behind, and the log is the state."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any

import pytest

from cosend import Network, Patience, Site
from cosend.algorithm.values import ScoreLocal
from cosend.axes import Axis, Category, Confidence, Feature, PreviousLabel, Says, Time
from cosend.engine import learnt_arms
from cosend.engine.events import Event
from tests.engine.world import (
    BUDGETS,
    CALM,
    Item,
    Mishaps,
    RunningSite,
    Weather,
    World,
    assert_log_is_the_state,
    assert_nothing_is_left,
    drawn_item,
    is_sure,
    predicted,
    truth_of,
    whole,
)
from tests.policies import POLICIES, mostly_claims

RUNS = 30  # for each of the policies
FEW_RUNS = 6
CONTEXTS: list[list[Axis]] = [
    [Feature("x", range=(0, 1)), Feature("y", range=(0, 100))],
    [Feature("y", window=8), Feature("x", range=(0, 1))],
    [Category("kind"), Feature("x", range=(0, 1))],
    [PreviousLabel(0, 1), Feature("y")],
    [Feature("x", range=(0, 1)), Category("kind")],
    [Time(100), PreviousLabel(0, 1)],
]
PATIENCE = [
    None,
    Patience(),
    Patience(wait_limit=5),
    Patience(max_pending=1),
    Patience(max_pending=7, overdue=0.5),
    Patience(wait_limit=3, max_pending=12, overdue=0.0),
]
SCORE_LOCAL: list[ScoreLocal] = ["used", "all"]
EVERYTHING = [  # what must have happened to every policy, for the runs to be a proof of anything
    *("128 in flight", "failed", "no answer", "lost", "reply lost", "label too late", "withdrawn too early"),
    *("taught", "refused", "restarted", "abandoned", "shown", "answered by one that left", "trained", "fitted"),
    *("model", "learnt", "peer", "remove", "pause", "resume", "cost", "budget", "opinions scored", "scores"),
]


@pytest.fixture(autouse=True)
def _fits_begin_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt_arms, "FIRST_FIT", 9)


def opinions(name: str, policy: str) -> list[Axis]:
    """Return opinions of the models of a site as axes, which may be missing; only one policy can do without."""
    if policy != "MixedViews":
        return []
    sure, said = f"{name}-{'ac'[len(name) % 2]}", [f"{name}-{model}" for model in ("c", "stack")]
    return [Confidence(sure, optional=True), *(Says(model, optional=True) for model in said)]


def stormy_run(policy: str, seed: int) -> Counter[str]:
    """Let anything happen to a random network for a while, then end it and look at what is left."""
    draw = random.Random(f"{policy}/{seed}")
    axes, in_flight = CONTEXTS[seed % len(CONTEXTS)], draw.choice([1, 8, 32, 128])
    nodes = [
        RunningSite(
            name,
            [*axes, *opinions(name, policy)],
            local=draw.randint(1, 3),
            learning=draw.random() < 0.5,
            learnt=draw.random() < 0.5,
            fits_at_once=draw.random() < 0.5,
            in_order=draw.random() < 0.5,
            policy=POLICIES[policy],
            patience=draw.choice(PATIENCE),
            seed=seed,
            score_local=draw.choice(SCORE_LOCAL),
            budget=draw.choice(BUDGETS) if policy == "MixedViews" else None,
        )
        for name in ["lab", "hq", "far", "near"][: draw.randint(2, 4)]
    ]
    lost, twice, slow, broken, silent = (draw.choice([0.0, 0.2]) for _ in range(5))
    world = World(nodes, Weather(lost=lost, twice=twice, slow=slow, broken=broken, silent=silent), draw.getrandbits(32))
    mishaps = Mishaps(world, in_flight)
    mishaps.happen(600)
    mishaps.end()
    for node in nodes:
        assert_nothing_is_left(node)
        assert_log_is_the_state(node, draw)
    return world.seen


@pytest.mark.parametrize("policy", ["CoS", "ZoomingKLUCB", "MixedViews"])
def test_without_the_compiler_nothing_is_left_and_the_log_is_the_state(policy: str) -> None:
    for seed in (1, 2):
        stormy_run(policy, seed)


@pytest.mark.compiled
@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
def test_in_a_few_runs_nothing_is_left_and_the_log_is_the_state(policy: str) -> None:
    for seed in range(FEW_RUNS):
        stormy_run(policy, seed)


@pytest.mark.compiled
@pytest.mark.claims
@pytest.mark.parametrize("policy", POLICIES)
def test_whatever_happens_nothing_is_left_and_the_log_is_the_state(policy: str) -> None:
    seen = Counter[str]()
    for seed in range(RUNS):
        seen += stormy_run(policy, seed)
    assert all(seen[each] for each in EVERYTHING), seen


@pytest.mark.compiled
@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
def test_one_item_at_a_time_is_decided_as_by_real_sites(policy: str) -> None:
    """The same decisions, the same logs and the same states, with every kind of context."""
    for seed, axes in enumerate(CONTEXTS):
        scores, names = SCORE_LOCAL[seed % 2], ("lab", "hq", "far")
        nodes = [
            RunningSite(
                name,
                [*axes, *opinions(name, policy)],
                local=3,
                learnt=seed > 2,
                policy=POLICIES[policy],
                seed=seed,
                score_local=scores,
            )
            for name in names
        ]
        logs: list[list[Event]] = [[] for _ in nodes]
        sites = [real_site(node, log) for node, log in zip(nodes, logs, strict=True)]
        Network(sites, call_cost=0.05)
        mishaps, draw = Mishaps(World(nodes, CALM, seed), in_flight=1), random.Random(seed)
        for _ in range(40):
            place, item = draw.randrange(3), drawn_item(draw)
            mishaps.submit(nodes[place], [item])
            mishaps.settle_down()
            decision = sites[place].classify(item)
            assert repr(nodes[place].decisions[-1]) == repr(decision)
            if draw.random() < 0.8:
                mishaps.label(nodes[place], [decision.id], costs=False)
                mishaps.settle_down()
                sites[place].learn(decision, truth_of(item))
        for node, site, log in zip(nodes, sites, logs, strict=True):
            assert whole(site.engine.state) == whole(node.state)
            assert told(log) == told(node.log)


def told(log: list[Event]) -> list[str]:
    """Return events as text; how many forwards a peer takes at once is up to the driver."""
    return [repr(event) for event in log if type(event).__name__ != "PeerTold"]


def said(model: str, item: Item) -> Any:
    label = predicted(model, item)
    return (label, item["x"]) if is_sure(model) else label


def real_site(node: RunningSite, log: list[Event]) -> Site:
    """Return a site with the same models as a node."""
    learner, learnt = node.state.learner, node.state.learnt.kinds
    return Site(
        node.name,
        classifiers={arm: learnt.get(arm) or partial(said, arm) for arm in learner.arms.own},
        learnt=False,
        costs=learner.arms.own,
        context=node.axes,
        policy=learner.policy,
        seed=learner.seed,
        score_local=learner.score_local,
        journal=log.append,
    )
