"""Cubes that split: a tree that grows where items come, and what a part takes over from the whole."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.algorithm.cells import DEEPEST
from cosend.algorithm.learner import Learner
from cosend.algorithm.policies import MOST_CUBE_AXES, Policy, Zooming, ZoomingKLUCB
from cosend.algorithm.values import Cell
from tests.policies import choose

unit = st.floats(0, 1)


def learner_of(policy: Policy, dimensions: int = 1, **costs: float) -> Learner:
    return Learner("here", own=costs or {"a": 0.0, "b": 0.0}, dimensions=dimensions, policy=policy)


def holds(cell: Cell, context: Any) -> bool:
    """Tell whether a cube holds a context; the last of an axis holds 1 too."""
    return all(
        index <= x * cell.slices and (x * cell.slices < index + 1 or index == cell.slices - 1)
        for x, index in zip(context, cell.axes, strict=True)
    )


def cube_for(learner: Learner, context: Any) -> Cell:
    """Choose for a context and return the cube it was given."""
    key = choose(learner, context).cell
    return learner.cells()[key]


def holding(learner: Learner, context: Any) -> list[Cell]:
    return [cell for cell in learner.cells().values() if holds(cell, context)]


@given(contexts=st.lists(st.tuples(unit, unit), min_size=1, max_size=40))
def test_every_item_lies_in_the_cube_it_was_given_and_in_all_that_hold_that_one(
    contexts: list[tuple[float, float]],
) -> None:
    learner = learner_of(Zooming(split_after=1.0, alpha=0.2), 2)
    for n, context in enumerate(contexts, 1):
        choice = choose(learner, context)
        cubes = holding(learner, context)
        assert learner.cells()[choice.cell] == max(cubes, key=lambda cube: cube.slices)
        assert sorted(cube.slices for cube in cubes) == [2**level for level in range(len(cubes))]
        assert sum(cube.labelled.arrivals for cube in learner.cells().values()) == n


def test_cubes_are_fine_where_items_come_and_coarse_elsewhere() -> None:
    learner, draw = learner_of(Zooming(split_after=4.0, alpha=0.3)), random.Random(1)
    for n in range(3000):
        x = draw.random() / 64 if n % 10 else draw.random()
        learner.learn(choose(learner, x).id, 1.0)
    finest = {x: max(cell.slices for cell in holding(learner, (x,))) for x in (0.005, 0.9)}
    assert finest[0.005] > 8 * finest[0.9]


@pytest.mark.compiled  # long streams
@pytest.mark.parametrize("dimensions", [20, MOST_CUBE_AXES])
def test_many_axes_cost_memory_only_where_items_come(dimensions: int) -> None:
    learner, draw = learner_of(Zooming(split_after=1.0), dimensions), random.Random(3)
    for _ in range(300):
        context = [draw.random() for _ in range(dimensions)]
        assert holds(cube_for(learner, context), context)
    assert 200 < len(learner.cells()) <= 300
    assert sum(array.nbytes for array in learner.ledger) < 200_000


@pytest.mark.parametrize("policy", [Zooming(max_cells=7, alpha=0.1), ZoomingKLUCB(max_cells=7, split_after=4.0)])
def test_there_are_never_more_cubes_than_allowed_and_a_split_one_goes_on_serving(policy: Policy) -> None:
    learner, draw = learner_of(policy), random.Random(4)
    for n in range(500):
        context = (draw.random(),)
        choice = choose(learner, context)
        learner.learn(choice.id, draw.random())
        assert len(learner.cells()) <= 7
        assert holds(learner.cells()[choice.cell], context)
        assert sum(cell.labelled.arrivals for cell in learner.cells().values()) == n + 1
    assert len(learner.cells()) == 7


@pytest.mark.parametrize(("lipschitz", "first", "second"), [(1.0, 16, 64), (2.0, 4, 16), (4.0, 2, 4)])
def test_an_index_policy_splits_sooner_where_accuracies_are_steeper(lipschitz: float, first: int, second: int) -> None:
    """A cube hides lipschitz * side, so it needs the fewer labels to say more than chance, by the square; but one."""
    learner = learner_of(ZoomingKLUCB(lipschitz=lipschitz))
    slices = []
    for _ in range(first + second + 1):
        choice = choose(learner, 0.3)
        learner.learn(choice.id, 1.0)
        slices.append(learner.cells()[choice.cell].slices)
    assert slices == [1] * first + [2] * second + [4]


def test_an_index_policy_waits_for_labels_before_it_splits() -> None:
    """However many items come: parts would be small, and nothing known of them."""
    learner = learner_of(ZoomingKLUCB())
    waiting = [choose(learner, 0.3) for _ in range(100)]
    assert len(learner.cells()) == 1
    for choice in waiting[:20]:
        learner.learn(choice.id, 1.0)
    assert [cube_for(learner, 0.3).slices for _ in range(3)] == [1, 2, 2]
    for choice in waiting[20:]:  # 80 labels for the part that holds them by now: enough for one more cut
        learner.learn(choice.id, 1.0)
    assert [cube_for(learner, 0.3).slices for _ in range(3)] == [2, 4, 4]


@pytest.mark.parametrize("lipschitz", [1e-200, 1e200])
def test_no_steepness_is_too_small_or_too_large(lipschitz: float) -> None:
    learner = learner_of(ZoomingKLUCB(lipschitz=lipschitz))
    for _ in range(120):
        learner.learn(choose(learner, 0.3).id, 1.0)
    assert len(learner.cells()) == (1 if lipschitz < 1 else DEEPEST + 1)


def test_an_index_policy_splits_only_while_two_arms_are_hard_to_tell_apart() -> None:
    def split_to(worse: float) -> int:
        learner, draw = learner_of(ZoomingKLUCB(alpha=0.25, lipschitz=1.0, split_after=4.0)), random.Random(6)
        for _ in range(1500):
            choice = choose(learner, draw.random())
            learner.learn(choice.id, 1.0 if choice.arm == "a" else worse)
        return max(cell.slices for cell in learner.cells().values())

    def alone() -> int:
        learner = learner_of(ZoomingKLUCB(), a=0.0)
        for n in range(200):
            learner.learn(choose(learner, n / 200).id, 1.0)
        return len(learner.cells())

    assert split_to(0.95) > split_to(0.0) > 1
    assert alone() == 1
