"""The compiled index policy in equal cells and its slow twin, which share no code, agree step by step, exactly."""

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


@given(
    sizes=options.sizes,
    dimensions=st.integers(1, 3),
    chosen=options.index(),
    delay=options.delays,
    seed=options.seeds,
)
@examples(15)
def test_core_and_twin_agree_on_random_networks(
    sizes: list[int], dimensions: int, chosen: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, dimensions, chosen, policy="CellKLUCB")
    lockstep.play(network, slots=60, max_delay=delay)


@given(sizes=options.sizes, chosen=options.index(), delay=options.delays, seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(
    sizes: list[int], chosen: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, 1, chosen, policy="CellKLUCB")
    lockstep.play(network, slots=60, max_delay=delay, changes=True)


@given(sizes=options.sizes, dimensions=st.integers(1, 3), chosen=options.keeping(), seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_on_labels_of_an_earlier_phase(
    sizes: list[int], dimensions: int, chosen: dict[str, Any], seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, dimensions, chosen, policy="CellKLUCB")
    lockstep.play(network, slots=40, max_delay=20)


@given(sizes=options.sizes, chosen=options.index(), seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_on_answers_to_a_caller_that_trains(
    sizes: list[int], chosen: dict[str, Any], seed: int
) -> None:
    """It trains nobody, but a caller with another policy may train it."""
    network = lockstep.build(random.Random(seed), sizes, 1, chosen, policy="CellKLUCB")
    lockstep.play(network, slots=30, max_delay=1)
    lockstep.train_all(network, requests=30)


def test_lockstep_reaches_both_phases_and_trains_nobody() -> None:
    """The comparison above would be worth little if the networks only ever explored."""
    network = lockstep.build(random.Random(1), [2, 3, 1], 1, {"slices": 1}, policy="CellKLUCB")
    lockstep.play(network, slots=400, max_delay=2)
    assert {choice.phase for _, choice in network.history} == {Phase.EXPLORE, Phase.EXPLOIT}


def test_a_late_label_whose_cell_was_never_visited_changes_nothing() -> None:
    """The third item begins a phase with 3 slices instead of 2; the new cell of the first two was never visited."""
    network = lockstep.build(random.Random(0), [1], 1, {"alpha": 0.25, "doubling": "keep"}, policy="CellKLUCB")
    for x in (0.4, 0.4, 0.0):
        lockstep.agree(network, "site0", (x,))
    lockstep.learn(network, "site0", 1, 1.0, None)
    lockstep.compare_ledgers(network)
    (cell,) = network.learners["site0"].cells().values()
    assert cell.estimates["site0.f0"].reward_count == 0
