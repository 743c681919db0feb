"""The compiled policies whose cubes split and their slow twins, which share no code, agree step by step, exactly."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.core.learner.values import Phase
from tests.examples import examples
from tests.oracle import lockstep, options

pytestmark = pytest.mark.compiled

policies = st.one_of(
    st.tuples(st.just("Zooming"), options.zooming()), st.tuples(st.just("ZoomingKLUCB"), options.zooming_index())
)


@given(
    sizes=options.sizes,
    dimensions=st.integers(1, 3),
    policy=policies,
    delay=options.delays,
    seed=options.seeds,
)
@examples(15)
def test_core_and_twin_agree_on_random_networks(
    sizes: list[int], dimensions: int, policy: tuple[str, dict[str, Any]], delay: int, seed: int
) -> None:
    name, chosen = policy
    network = lockstep.build(random.Random(seed), sizes, dimensions, chosen, policy=name)
    lockstep.play(network, slots=60, max_delay=delay)


@given(sizes=options.sizes, policy=policies, delay=options.delays, seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(
    sizes: list[int], policy: tuple[str, dict[str, Any]], delay: int, seed: int
) -> None:
    name, chosen = policy
    network = lockstep.build(random.Random(seed), sizes, 1, chosen, policy=name)
    lockstep.play(network, slots=60, max_delay=delay, changes=True)


@given(sizes=options.sizes, policy=policies, seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_on_answers_to_a_caller_that_trains(
    sizes: list[int], policy: tuple[str, dict[str, Any]], seed: int
) -> None:
    """An answer that a label will follow may begin a child, but it splits nothing."""
    name, chosen = policy
    network = lockstep.build(random.Random(seed), sizes, 1, chosen, policy=name)
    lockstep.play(network, slots=30, max_delay=1)
    lockstep.train_all(network, requests=30)


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        ("Zooming", {"alpha": 0.1, "split_after": 30.0, "order": "train_first"}),
        ("Zooming", {"alpha": 0.3, "split_after": 10.0, "inherit": 2.0, "max_cells": 14}),
        ("ZoomingKLUCB", {"alpha": 0.3}),
        ("ZoomingKLUCB", {"alpha": 0.3, "inherit": 0.0, "max_cells": 20}),
    ],
)
def test_lockstep_reaches_every_phase_and_small_cubes(policy: str, chosen: dict[str, Any]) -> None:
    """The comparison above would be worth little if the networks only ever explored in the root."""
    network = lockstep.build(random.Random(1), [2, 3, 1], 1, chosen, policy=policy)
    lockstep.play(network, slots=400, max_delay=2)
    trains = {Phase.TRAIN} if policy == "Zooming" else set[Phase]()
    assert {choice.phase for _, choice in network.history} == {Phase.EXPLORE, Phase.EXPLOIT} | trains
    for learner in network.learners.values():
        assert len(learner.cells()) == chosen.get("max_cells", len(learner.cells()))
        assert max(cell.slices for cell in learner.cells().values()) >= 2**3


def test_cubes_of_level_50_never_split() -> None:
    network = lockstep.build(random.Random(1), [2, 3, 1], 2, {"split_after": 1e-90}, policy="Zooming")
    for slot in range(60):
        for site in network.learners:
            lockstep.arrive(network, slot, site, (0.3, 1.0), max_delay=2)
        lockstep.deliver(network, slot)
    lockstep.compare_ledgers(network)
    for learner in network.learners.values():
        assert max(cell.slices for cell in learner.cells().values()) == 2**50


def test_the_mean_of_a_child_is_the_quotient_of_what_it_inherited() -> None:
    """Not its parent's mean: 1.5 * 0.8 / 1.5 is below 0.8, so the arm with one reward beats the one with two."""
    chosen = {"split_after": 3.0, "inherit": 1.5, "lipschitz": 1.0}
    network = lockstep.build(random.Random(0), [2], 1, chosen, policy="ZoomingKLUCB")
    for name in network.functions["site0"]:
        network.learners["site0"].set_cost(name, 0.0)
        network.twins["site0"].set_cost(name, 0.0)
    for _ in range(3):
        choice = lockstep.agree(network, "site0", (0.1,))
        lockstep.learn(network, "site0", choice.id, 0.8, None)
    assert lockstep.agree(network, "site0", (0.1,)).propensity == 1.0
    lockstep.compare_ledgers(network)


def test_a_cube_splits_before_the_oldest_decision_is_overdue() -> None:
    """The overdue reward would bring the second arm within the width of the cube, but it comes after the question."""
    chosen = {
        "alpha": 2.0,
        "lipschitz": 1.0,
        "inherit": 0.0,
        "max_waiting": 1,
        "default_reward": 0.5,
        "split_after": 0.2,
    }
    network = lockstep.build(random.Random(0), [2], 1, chosen, policy="ZoomingKLUCB")
    for name, cost in (("site0.f0", 0.6), ("site0.f1", 0.0)):
        network.learners["site0"].set_cost(name, cost)
        network.twins["site0"].set_cost(name, cost)
    slices = []
    for item in range(1, 7):
        choice = lockstep.agree(network, "site0", (0.1,))
        slices.append(network.learners["site0"].cells()[choice.cell].slices)
        if item <= 3:
            lockstep.learn(network, "site0", choice.id, 0.0, None)
    assert slices == [1, 1, 2, 2, 2, 2]
