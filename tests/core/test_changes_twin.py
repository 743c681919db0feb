"""`ChangeAware` around every policy and its slow twins, which share no code, agree step by step, exactly."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle import lockstep, options
from tests.oracle.changes_twin import ChangesTwin
from tests.oracle.lockstep import Around, Network

pytestmark = pytest.mark.compiled

FEW_CELLS: list[tuple[str, dict[str, Any], int]] = [
    ("CoS", {"slices": 1, "exploration_exponent": 0.05}, 120),
    ("CellKLUCB", {"slices": 1, "peer_training": 0.1}, 120),
    ("CellKLUCB", {"slices": 1, "peer_training": 0.1}, 80),
    ("CellThompson", {"slices": 1, "peer_training": 0.1}, 120),
    ("Zooming", {"alpha": 0.1, "split_after": 250.0, "inherit": 2.0}, 120),
    ("ZoomingKLUCB", {"alpha": 0.3, "split_after": 4000.0, "peer_training": 0.1}, 120),
]


def changes(network: Network) -> list[ChangesTwin]:
    return [view for twin in network.twins.values() for view in twin.views() if isinstance(view, ChangesTwin)]


@given(
    sizes=options.sizes,
    dimensions=st.integers(1, 3),
    policy=options.policies,
    rising=st.booleans(),
    delay=options.delays,
    lasting=options.lasting,
    seed=options.seeds,
)
@examples(15)
def test_core_and_twin_agree_on_random_networks(
    sizes: list[int],
    dimensions: int,
    policy: tuple[str, dict[str, Any]],
    rising: bool,
    delay: int,
    lasting: int | None,
    seed: int,
) -> None:
    network = lockstep.build(random.Random(seed), sizes, dimensions, policy[1], policy[0], Around(rising))
    network.lasting = lasting
    lockstep.play(network, slots=60, max_delay=delay)


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    policy=options.few_cells(),
    rising=st.booleans(),
    delay=options.delays,
    lasting=st.integers(20, 60),
    joining=st.booleans(),
    seed=options.seeds,
)
@examples(5)
def test_core_and_twin_agree_on_long_streams_whose_rewards_flip(
    sizes: list[int],
    policy: tuple[str, dict[str, Any]],
    rising: bool,
    delay: int,
    lasting: int,
    joining: bool,
    seed: int,
) -> None:
    network = lockstep.build(random.Random(seed), sizes, 1, policy[1], policy[0], Around(rising))
    network.lasting = lasting
    network.chance_of_change = 0.02
    lockstep.play(network, slots=200, max_delay=delay, changes=joining)


@given(
    sizes=options.sizes,
    policy=options.policies,
    rising=st.booleans(),
    delay=options.delays,
    lasting=options.lasting,
    seed=options.seeds,
)
@examples(5)
def test_core_and_twin_agree_while_arms_join_leave_and_change_their_cost(
    sizes: list[int],
    policy: tuple[str, dict[str, Any]],
    rising: bool,
    delay: int,
    lasting: int | None,
    seed: int,
) -> None:
    network = lockstep.build(random.Random(seed), sizes, 1, policy[1], policy[0], Around(rising))
    network.lasting = lasting
    lockstep.play(network, slots=60, max_delay=delay, changes=True)


@given(sizes=options.sizes, policy=options.policies, rising=st.booleans(), seed=options.seeds)
@examples(5)
def test_core_and_twin_agree_on_answers_to_a_caller_that_trains(
    sizes: list[int], policy: tuple[str, dict[str, Any]], rising: bool, seed: int
) -> None:
    """Rewards of answers enter the windows too."""
    network = lockstep.build(random.Random(seed), sizes, 1, policy[1], policy[0], Around(rising))
    lockstep.play(network, slots=30, max_delay=1)
    lockstep.train_all(network, requests=60)


@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize(("policy", "chosen", "lasting"), FEW_CELLS)
def test_changes_are_found_and_looks_happen(policy: str, chosen: dict[str, Any], lasting: int, rising: bool) -> None:
    """The comparison above would be worth little if the windows were never cut."""
    network = lockstep.build(random.Random(1), [2, 3], 1, chosen, policy, Around(rising))
    network.lasting = lasting
    lockstep.play(network, slots=600, max_delay=3)
    assert sum(twin.changes for twin in changes(network)) >= 3
    looks = sum(twin.looks for twin in changes(network))
    assert (looks >= 3) == (rising and policy not in ("CoS", "Zooming"))


@pytest.mark.parametrize(("right", "wrong", "kept"), [(16, 7, 3), (32, 5, 1)])
def test_a_change_leaves_the_newer_half_of_what_came_after_it(right: int, wrong: int, kept: int) -> None:
    """Of 7 times wrong, in sums of 1, 2 and 4, the newest two are no longer than half."""
    network = lockstep.build(random.Random(0), [1], 1, {"slices": 1}, "CellKLUCB", Around(False))
    counts = []
    for item in range(right + wrong):
        choice = lockstep.agree(network, "site0", (0.5,))
        lockstep.learn(network, "site0", choice.id, float(item < right), None)
        lockstep.compare_ledgers(network)
        counts.append(network.learners["site0"].cells()[choice.cell].estimates["site0.f0"].reward_count)
    assert counts == [*range(1, right + wrong), kept]


@pytest.mark.parametrize("kind", ["keep", "reset"])
@pytest.mark.parametrize("policy", ["CoS", "CellKLUCB", "CellThompson"])
def test_windows_live_through_a_doubling_that_keeps(policy: str, kind: str) -> None:
    """Long phases, one cell: with `keep` a change of an earlier phase is found in the next."""
    chosen = {"doubling": kind, "max_cells": 1}
    network = lockstep.build(random.Random(3), [1], 1, chosen, policy, Around(True))
    network.lasting = 60
    lockstep.play(network, slots=80, max_delay=2)
    assert (changes(network)[0].changes > 0) == (kind == "keep")


@pytest.mark.parametrize(("slices", "counts"), [(1, [3, 3]), (2, [3, 11, 12])])
def test_the_rewards_over_all_cells_have_a_window_of_their_own(slices: int, counts: list[int]) -> None:
    """In each of two cells the items are too few to find the change, in both together they are not."""
    network = lockstep.build(random.Random(0), [1], 1, {"slices": slices}, "CellThompson", Around(False))
    for item in range(23):
        choice = lockstep.agree(network, "site0", (0.2 + 0.5 * (item % 2),))
        lockstep.learn(network, "site0", choice.id, float(item < 16), None)
        lockstep.compare_ledgers(network)
    cells = network.learners["site0"].cells().values()
    assert sorted(cell.estimates["site0.f0"].reward_count for cell in cells) == counts


def test_looks_at_arms_that_were_trained_long_ago() -> None:
    """A peer without own items is trained again and again; a training is a use of it too."""
    chosen = {"slices": 1, "peer_training": 5.0, "share_labels": "training"}
    network = lockstep.build(random.Random(1), [3, 1], 1, chosen, "CellKLUCB", Around(True))
    for slot in range(300):
        lockstep.arrive(network, slot, "site0", (0.5,), max_delay=0)
        lockstep.deliver(network, slot)
    assert changes(network)[0].looks > 3
