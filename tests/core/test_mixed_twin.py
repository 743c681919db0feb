"""`MixedViews` and its slow twin, which share no code, agree step by step, exactly."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle import lockstep, options
from tests.oracle.lockstep import Network

pytestmark = pytest.mark.compiled


@st.composite
def networks(draw: st.DrawFn, dimensions: int = 3, has_trouble: bool | None = None) -> Network:
    """Draw a network that mixes views; labels score all local classifiers, or the one that was used."""
    axes = draw(st.integers(1, dimensions))
    draws, sizes, chosen = random.Random(draw(options.seeds)), draw(options.sizes), draw(options.mixed())
    codes = draw(st.one_of(st.just(frozenset[int]()), options.categories(axes)))
    network = lockstep.build(draws, sizes, axes, chosen, "MixedViews", categories=codes, scores=draw(st.booleans()))
    network.lasting = draw(options.lasting)
    network.axis = draw(st.sampled_from([None, *range(axes)]))
    network.has_trouble = draw(st.booleans()) if has_trouble is None else has_trouble
    return network


@given(network=networks(), delay=options.delays)
@examples(8)
def test_core_and_twin_agree_on_random_networks(network: Network, delay: int) -> None:
    lockstep.play(network, slots=50, max_delay=delay)


@given(network=networks(dimensions=2), delay=options.delays)
@examples(5)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(network: Network, delay: int) -> None:
    lockstep.play(network, slots=50, max_delay=delay, changes=True)


@given(network=networks(dimensions=2, has_trouble=False))
@examples(4)
def test_core_and_twin_agree_on_answers_to_a_caller_that_trains(network: Network) -> None:
    lockstep.play(network, slots=20, max_delay=1)
    lockstep.train_all(network, requests=30)


@pytest.mark.parametrize(("scores", "adds_up"), [(True, False), (False, False), (True, True), (False, True)])
def test_core_and_twin_agree_on_a_long_stream_with_finer_cells(scores: bool, adds_up: bool) -> None:
    network = lockstep.build(random.Random(3), [2, 1], 2, {"adds_up": adds_up}, "MixedViews", scores=scores)
    network.axis = 1
    lockstep.play(network, slots=400, max_delay=2)
    slices = {cell.slices for cell in network.learners["site0"].cells().values()}
    assert slices == {1, 4, 16, 64}


@pytest.mark.parametrize("adds_up", [False, True])
def test_core_and_twin_agree_with_many_axes(adds_up: bool) -> None:
    options, codes = {"adds_up": adds_up}, frozenset([3])
    network = lockstep.build(random.Random(3), [2, 1], 14, options, "MixedViews", categories=codes, scores=True)
    network.axis = 1
    lockstep.play(network, slots=120, max_delay=2)
    assert len(network.learners["site0"].views()) == 2 + adds_up + 13 * 3 + 1 + 2


def test_what_explains_the_rewards_gets_the_weight() -> None:
    network = lockstep.build(random.Random(1), [2, 2], 3, {}, "MixedViews", scores=True)
    network.axis = 1
    lockstep.play(network, slots=300, max_delay=2)
    for learner in network.learners.values():
        shares: dict[tuple[int, ...], float] = {}
        for view in learner.views():
            shares[view.axes] = shares.get(view.axes, 0.0) + view.share
        assert sum(share for axes, share in shares.items() if 1 in axes) > 0.5


@pytest.mark.parametrize(("given", "steps"), [(0, (3, 1)), (2, (4, 2)), (1, (14, 3)), (0, (11, 2))])
@pytest.mark.parametrize(("scores", "adds_up"), [(True, False), (False, False), (True, True), (False, True)])
def test_core_and_twin_agree_while_features_get_axes(
    given: int, steps: tuple[int, int], scores: bool, adds_up: bool
) -> None:
    """Labels are late, so that items wait that were decided before the axes came; some items lack numbers."""
    network = lockstep.build(random.Random(given), [2, 1], given, {"adds_up": adds_up}, "MixedViews", scores=scores)
    network.lacks = 0.2
    for slot in range(70):
        if slot in (25, 40):
            lockstep.grow(network, steps[slot == 40])
            lockstep.compare_ledgers(network)
        lockstep.play_slot(network, slot, max_delay=6, changes=slot % 9 == 0)
    lockstep.play(network, slots=0, max_delay=80)


def test_core_and_twin_agree_on_single_values_of_features() -> None:
    network = lockstep.build(random.Random(5), [2], 0, {}, "MixedViews", scores=True)
    lockstep.play(network, slots=5, max_delay=2)
    lockstep.grow(network, 1)
    lockstep.play(network, slots=700, max_delay=2)
    assert {cell.slices for cell in network.learners["site0"].cells().values()} == {1, 4, 16, 2**20}


@pytest.mark.parametrize(  # every two values of any two of them come together once at least
    ("given", "same", "max_cells", "scores", "adds_up"),
    [
        (0, 4, None, False, False),
        (0, 4, 60, True, True),
        (0, 14, None, True, False),
        (0, 14, 60, False, True),
        (2, 4, None, False, True),
        (2, 4, 60, True, False),
        (2, 14, None, True, True),
        (2, 14, 60, False, False),
    ],
)
def test_core_and_twin_agree_while_features_change_that_never_did(
    given: int, same: int, max_cells: int | None, scores: bool, adds_up: bool
) -> None:
    """With few features pairs are looked at. Some change before there are labels enough for finer cells, some after."""
    options = {"adds_up": adds_up, "max_cells": max_cells}
    network = lockstep.build(random.Random(given), [2, 1], given, options, "MixedViews", scores=scores)
    network.lacks = 0.2
    for slot in range(160):
        if slot == 20:
            lockstep.grow(network, 2, same)
        if slot in (26, 100):
            lockstep.grow(network, 2, places=(0.5,) if slot == 26 else (0.1, 1.0))
        if slot == 130:
            lockstep.grow(network, same - 3, places=(0.3,) * (same - 3))
        lockstep.compare_ledgers(network)
        lockstep.play_slot(network, slot, max_delay=6, changes=slot % 9 == 0)
    lockstep.play(network, slots=0, max_delay=170)
    lockstep.compare_ledgers(network)
