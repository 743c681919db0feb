"""Arms that are left out or fail, and axes with codes: the core and its slow twins agree step by step, exactly."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.core.learner.values import Choice, Phase
from tests.examples import examples
from tests.oracle import lockstep, options
from tests.oracle.lockstep import Network

pytestmark = pytest.mark.compiled


@st.composite
def networks(draw: st.DrawFn, has_trouble: bool, has_codes: bool, dimensions: int = 3) -> Network:
    """Draw a network of any policy."""
    axes = draw(st.integers(1, dimensions))
    policy, chosen = draw(options.policies)
    codes = draw(options.categories(axes)) if has_codes else frozenset()
    draws = random.Random(draw(options.seeds))
    network = lockstep.build(draws, draw(options.sizes), axes, chosen, policy, codes)
    network.lasting = draw(options.lasting)
    network.axis = draw(st.sampled_from([None, *range(axes)]))
    network.has_trouble = has_trouble
    return network


@given(network=networks(has_trouble=True, has_codes=False), delay=options.delays)
@examples(20)
def test_core_and_twin_agree_while_arms_are_left_out_and_fail(network: Network, delay: int) -> None:
    lockstep.play(network, slots=50, max_delay=delay)


@given(network=networks(has_trouble=False, has_codes=True), delay=options.delays)
@examples(20)
def test_core_and_twin_agree_on_axes_with_codes(network: Network, delay: int) -> None:
    lockstep.play(network, slots=50, max_delay=delay)


@given(network=networks(has_trouble=True, has_codes=True, dimensions=2), delay=options.delays)
@examples(13)
def test_core_and_twin_agree_on_all_of_it_while_arms_join_and_leave(network: Network, delay: int) -> None:
    lockstep.play(network, slots=40, max_delay=delay, changes=True)
    lockstep.train_all(network, requests=15)


def test_networks_in_trouble_reach_everything_that_can_go_wrong() -> None:
    """The comparison above would be worth little if nothing failed, or if all ids waited in the order of arrivals."""
    chosen = {"exploration_exponent": 0.05, "order": "train_first", "wait_limit": 12, "doubling": "reset"}
    network = lockstep.build(random.Random(2), [2, 1, 2], 2, chosen, "CoS", categories=frozenset({1}))
    network.has_trouble = True
    disordered = 0
    for slot in range(150):
        lockstep.play_slot(network, slot, max_delay=8)
        for learner in network.learners.values():
            arrivals = [entry.arrival for entry in learner.registry.entries()]
            disordered += arrivals != sorted(arrivals)
    lockstep.compare_ledgers(network)
    items = sum(learner.arrivals for learner in network.learners.values())
    assert len(network.history) > items + 50  # chosen again
    assert disordered > 50
    assert {choice.phase for _, choice in network.history} == set(Phase)


def test_an_item_chosen_for_again_becomes_overdue_after_smaller_ids_that_wait() -> None:
    """With a limit of 3 the item that came first is too old at the fifth arrival, but the second, before it, is not."""
    network = lockstep.build(random.Random(0), [1, 1], 1, {"slices": 1, "wait_limit": 3}, "CellKLUCB")
    learner = network.learners["site0"]
    for _ in range(2):
        lockstep.agree(network, "site0", (0.5,))
    again = learner.fail(1)
    assert again == network.twins["site0"].fail(1) == 1
    lockstep.agree(network, "site0", (0.5,), again=again)
    waiting = []
    for _ in range(4):
        lockstep.agree(network, "site0", (0.5,))
        lockstep.compare_ledgers(network)
        waiting.append(learner.registry.ids()[:2])
    assert waiting == [[2, 3], [2, 3], [2, 3], [4, 5]]


def test_every_combination_of_codes_has_a_tree_of_its_own_also_beyond_max_cells() -> None:
    chosen = {"max_cells": 3}
    network = lockstep.build(random.Random(0), [1], 3, chosen, "Zooming", categories=frozenset({0, 2}))
    for code in (0.0, 1.0):
        for _ in range(3):
            lockstep.agree(network, "site0", (code, 0.9, 4095.0))
    lockstep.agree(network, "site0", (4095.0, 0.9, 0.0))
    lockstep.compare_ledgers(network)
    cells = network.learners["site0"].cells().values()
    expected = [(1, (0, 0, 4095)), (1, (1, 0, 4095)), (1, (4095, 0, 0)), (2, (0, 1, 4095))]
    assert sorted((cell.slices, cell.axes) for cell in cells) == expected


def test_an_axis_with_codes_does_not_count_in_the_rate_at_which_cubes_split() -> None:
    """Level 1 needs 8 arrivals at the rate of no axis, 12 at that of one, 16 at that of two."""
    network = lockstep.build(random.Random(0), [1], 2, {}, "Zooming", categories=frozenset({1}))
    slices = []
    for _ in range(16):
        choice = lockstep.agree(network, "site0", (0.1, 3.0))
        slices.append(network.learners["site0"].cells()[choice.cell].slices)
    assert slices == [1, *[2] * 12, *[4] * 3]


def test_an_axis_with_codes_does_not_count_in_the_exponent_of_the_quotas() -> None:
    """With t^(1/2) ln t two classifiers are owed samples for long; with t^(2/5) ln t they are not at step 23."""
    phases = {}
    for codes in (frozenset({0}), frozenset[int]()):
        network = lockstep.build(random.Random(0), [2], 2, {"slices": 1}, "CoS", categories=codes)
        choices = [right_choice(network, (1.0, 0.5)) for _ in range(23)]
        phases[len(codes)] = choices[-1].phase
    assert phases == {1: Phase.EXPLORE, 0: Phase.EXPLOIT}


def test_a_doubling_that_keeps_keeps_the_codes_apart() -> None:
    """The third item begins a phase with more slices; every cell of it has the numbers of the old one of its code."""
    chosen = {"alpha": 0.25, "doubling": "keep"}
    network = lockstep.build(random.Random(0), [1], 2, chosen, "CellKLUCB", categories=frozenset({1}))
    for code in (1.0, 4095.0, 4095.0):
        right_choice(network, (0.1, code))
    lockstep.compare_ledgers(network)
    arrivals = {cell.axes: cell.labelled.arrivals for cell in network.learners["site0"].cells().values()}
    assert arrivals[0, 1] == 1
    assert arrivals[0, 4095] == 2


def right_choice(network: Network, context: tuple[float, ...]) -> Choice:
    choice = lockstep.agree(network, "site0", context)
    lockstep.learn(network, "site0", choice.id, 1.0, None)
    return choice
