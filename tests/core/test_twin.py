"""The compiled core and the slow twin, which share no code, agree step by step, exactly."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cosend.core.values import Phase
from tests.oracle import lockstep

sizes = st.lists(st.integers(1, 4), min_size=2, max_size=5)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Any mixture of settings that is allowed."""
    chosen: dict[str, Any] = {
        "alpha": draw(st.sampled_from([0.5, 1.0, 2.0])),
        "order": draw(st.sampled_from(["pseudocode", "random", "train_first"])),
        "training_count": draw(st.sampled_from(["reported", "own_and_mine"])),
        "share_labels": draw(st.sampled_from(["training", "always"])),
        "max_peer_functions": draw(st.integers(1, 4)),
        "exploration_exponent": draw(st.sampled_from([None, 0.05, 0.125, 0.5])),
        "max_cells": draw(st.sampled_from([None, None, 1, 5, 30])),
        "wait_limit": draw(st.sampled_from([None, None, 1, 3, 20])),
        "max_waiting": draw(st.sampled_from([1_000_000, 2, 10])),
        "default_reward": draw(st.sampled_from([None, 0.0, 0.5])),
    }
    kind = draw(st.sampled_from(["horizon", "slices", "doubling", "doubling, keep", "time", "time, doubling"]))
    if kind in ("horizon", "time"):
        chosen["horizon"] = draw(st.integers(1, 500))
    if kind == "slices":
        chosen["slices"] = draw(st.integers(1, 4))
    if kind == "doubling, keep":
        chosen["doubling"] = "keep"
    chosen["time_dimension"] = kind.startswith("time")
    return chosen


@given(
    sizes=sizes,
    dimensions=st.integers(1, 3),
    options=options(),
    delay=st.sampled_from([0, 1, 5, 40]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=150)
def test_core_and_twin_agree_on_random_networks(
    sizes: list[int], dimensions: int, options: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, dimensions, options)
    lockstep.play(network, slots=60, max_delay=delay)


@given(sizes=sizes, options=options(), delay=st.sampled_from([1, 5, 40]), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(
    sizes: list[int], options: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, 1, options)
    lockstep.play(network, slots=60, max_delay=delay, changes=True)


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
