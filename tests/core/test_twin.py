"""The compiled core and the slow twin, which share no code, agree step by step, exactly."""

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
    chosen=options.cos(),
    delay=options.delays,
    seed=options.seeds,
)
@examples(15)
def test_core_and_twin_agree_on_random_networks(
    sizes: list[int], dimensions: int, chosen: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, dimensions, chosen)
    lockstep.play(network, slots=60, max_delay=delay)


@given(sizes=options.sizes, chosen=options.cos(), delay=options.delays, seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(
    sizes: list[int], chosen: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, 1, chosen)
    lockstep.play(network, slots=60, max_delay=delay, changes=True)


@given(sizes=options.sizes, dimensions=st.integers(1, 3), chosen=options.keeping(), seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_on_labels_of_an_earlier_phase(
    sizes: list[int], dimensions: int, chosen: dict[str, Any], seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, dimensions, chosen)
    lockstep.play(network, slots=40, max_delay=20)


def test_lockstep_reaches_every_phase() -> None:
    """The comparison above would be worth little if the networks only ever explored."""
    network = lockstep.build(
        random.Random(1),
        [2, 3, 1],
        1,
        {"slices": 1, "exploration_exponent": 0.05, "max_peer_functions": 3, "order": "train_first"},
    )
    lockstep.play(network, slots=400, max_delay=2)
    assert {choice.phase for _, choice in network.history} == set(Phase)
