"""The compiled index policies in equal cells and their slow twins, which share no code, agree step by step, exactly."""

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

POLICIES = ("CellKLUCB", "CellThompson")


@pytest.mark.parametrize("policy", POLICIES)
@given(
    sizes=options.sizes,
    dimensions=st.integers(1, 3),
    chosen=options.index(),
    delay=options.delays,
    seed=options.seeds,
)
@examples(15)
def test_core_and_twin_agree_on_random_networks(
    policy: str, sizes: list[int], dimensions: int, chosen: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, dimensions, chosen, policy=policy)
    lockstep.play(network, slots=60, max_delay=delay)


@pytest.mark.parametrize("policy", POLICIES)
@given(sizes=options.sizes, chosen=options.index(), delay=options.delays, seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(
    policy: str, sizes: list[int], chosen: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, 1, chosen, policy=policy)
    lockstep.play(network, slots=60, max_delay=delay, changes=True)


@pytest.mark.parametrize("policy", POLICIES)
@given(sizes=options.sizes, dimensions=st.integers(1, 3), chosen=options.keeping(), seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_on_labels_of_an_earlier_phase(
    policy: str, sizes: list[int], dimensions: int, chosen: dict[str, Any], seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, dimensions, chosen, policy=policy)
    lockstep.play(network, slots=40, max_delay=20)


@pytest.mark.parametrize("policy", POLICIES)
@given(sizes=options.sizes, chosen=options.index(), seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_on_answers_to_a_caller_that_trains(
    policy: str, sizes: list[int], chosen: dict[str, Any], seed: int
) -> None:
    """Without `peer_training` it trains nobody, but a caller with another policy may train it.

    For `CellThompson` the rewards of answers count over all cells too.
    """
    network = lockstep.build(random.Random(seed), sizes, 1, chosen, policy=policy)
    lockstep.play(network, slots=30, max_delay=1)
    lockstep.train_all(network, requests=30)


@pytest.mark.parametrize(("peer_training", "phases"), [(0.0, {Phase.EXPLORE, Phase.EXPLOIT}), (0.5, set(Phase))])
@pytest.mark.parametrize(("policy", "slices"), [("CellKLUCB", 1), ("CellThompson", 2)])
def test_lockstep_reaches_every_phase_and_trains_only_if_told(
    policy: str, slices: int, peer_training: float, phases: set[Phase]
) -> None:
    """The comparison above would be worth little if the networks only ever explored."""
    chosen = {"slices": slices, "peer_training": peer_training}
    network = lockstep.build(random.Random(1), [2, 3, 1], 1, chosen, policy=policy)
    lockstep.play(network, slots=400, max_delay=2)
    assert {choice.phase for _, choice in network.history} == phases


def test_a_late_label_that_is_added_to_no_cell_still_counts_over_all_cells() -> None:
    """The third item begins a phase with 3 slices instead of 2; the new cell of the first two was never visited."""
    network = lockstep.build(random.Random(0), [1], 1, {"alpha": 0.25, "doubling": "keep"}, policy="CellThompson")
    for x in (0.4, 0.4, 0.0):
        lockstep.agree(network, "site0", (x,))
    lockstep.learn(network, "site0", 1, 1.0, None)
    lockstep.compare_ledgers(network)
    cells = network.learners["site0"].cells().values()
    assert sorted((cell.view, cell.estimates["site0.f0"].reward_count) for cell in cells) == [(0, 0), (1, 1)]
