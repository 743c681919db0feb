"""The compiled index policy and its slow twin, which share no code, agree step by step, exactly."""

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
        "share_labels": draw(st.sampled_from(["training", "always"])),
        "max_cells": draw(st.sampled_from([None, None, 1, 5, 30])),
        "wait_limit": draw(st.sampled_from([None, None, 1, 3, 20])),
        "max_waiting": draw(st.sampled_from([1_000_000, 2, 10])),
        "default_reward": draw(st.sampled_from([None, 0.0, 0.5])),
    }
    kind = draw(st.sampled_from(["horizon", "slices", "doubling", "doubling, reset", "time", "time, doubling, reset"]))
    if kind in ("horizon", "time"):
        chosen["horizon"] = draw(st.integers(1, 500))
    if kind == "slices":
        chosen["slices"] = draw(st.integers(1, 4))
    if kind.endswith("reset"):
        chosen["doubling"] = "reset"
    elif draw(st.booleans()):
        chosen["doubling"] = "keep"  # which is what is meant when nothing is said
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
    network = lockstep.build(random.Random(seed), sizes, dimensions, options, policy="CellKLUCB")
    lockstep.play(network, slots=60, max_delay=delay)


@given(sizes=sizes, options=options(), delay=st.sampled_from([1, 5, 40]), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(
    sizes: list[int], options: dict[str, Any], delay: int, seed: int
) -> None:
    network = lockstep.build(random.Random(seed), sizes, 1, options, policy="CellKLUCB")
    lockstep.play(network, slots=60, max_delay=delay, changes=True)


@given(sizes=sizes, options=options(), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_core_and_twin_agree_on_answers_to_a_caller_that_trains(
    sizes: list[int], options: dict[str, Any], seed: int
) -> None:
    """Index policies train nobody, but a caller with another policy may train them."""
    network = lockstep.build(random.Random(seed), sizes, 1, options, policy="CellKLUCB")
    lockstep.play(network, slots=30, max_delay=1)
    for request in range(1, 30):
        context = (network.draw.random(),)
        for site, learner in network.learners.items():
            answer = learner.answer(context, caller="stranger", request=request, training=True, labelled=True)
            expected = network.twins[site].answer(context, "stranger", request, True)
            assert (answer.function, answer.ticket) == (expected.function, expected.ticket)
            assert answer.ticket is not None
            if request % 3:
                lockstep.learn(network, site, answer.ticket, network.draw.choice([0.0, 1.0]), None)
    lockstep.compare_ledgers(network)


def test_lockstep_explores_and_exploits_and_never_trains() -> None:
    """The comparison above would be worth little if the networks only ever explored."""
    network = lockstep.build(random.Random(1), [2, 3, 1], 1, {"slices": 1}, policy="CellKLUCB")
    lockstep.play(network, slots=400, max_delay=2)
    assert {choice.phase for _, choice in network.history} == {Phase.EXPLORE, Phase.EXPLOIT}
