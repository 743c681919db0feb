"""What must hold for any stream, any settings and any order of events."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.algorithm import layout as col
from cosend.algorithm.cells import keys_of, slices_for, slices_within
from cosend.algorithm.learner import Learner
from cosend.algorithm.policies import CoS
from cosend.algorithm.values import Choice
from cosend.errors import SettledDecision
from tests.policies import choose, everything, new_learner

unit = st.floats(0, 1)
points = st.lists(st.tuples(unit, unit), min_size=1, max_size=40)
policies = st.builds(
    CoS,
    horizon=st.one_of(st.none(), st.integers(1, 1000)),
    slices=st.one_of(st.none(), st.integers(1, 6)),
    exploration_exponent=st.sampled_from([None, 0.05, 0.3]),
    order=st.sampled_from(["pseudocode", "random", "train_first"]),
    max_peer_functions=st.integers(1, 3),
)


@given(context=st.tuples(unit, unit), policy=policies)
def test_every_context_has_exactly_one_cell_and_lies_in_it(context: tuple[float, float], policy: CoS) -> None:
    learner = new_learner(policy)
    choice = choose(learner, context)
    cells = learner.cells()
    assert list(cells) == [choice.cell]
    slices = learner.ledger.views[0, col.VIEW_SLICES]
    for x, index in zip(context, cells[choice.cell].axes, strict=True):
        assert index / slices <= x + 1e-15
        assert x < (index + 1) / slices or (x == 1.0 and index == slices - 1) or x - (index + 1) / slices < 1e-15


@given(contexts=points, policy=policies, seed=st.integers(0, 1000))
def test_counts_equal_the_number_of_rewards(contexts: list[tuple[float, float]], policy: CoS, seed: int) -> None:
    """Every label moves exactly one count: an arm's rewards, or the trainings sent to a peer."""
    draw = random.Random(seed)
    learner = new_learner(CoS(horizon=50, exploration_exponent=policy.exploration_exponent, order=policy.order))
    choices = [choose(learner, context) for context in contexts]
    assert learner.pending_count == len(contexts)
    draw.shuffle(choices)
    for choice in choices:
        learner.learn(choice.id, float(draw.random() < 0.5))
    rows = learner.ledger.site[col.ROWS]
    rewards = learner.ledger.rewards[:rows, :, col.REWARD_COUNT].sum()
    trainings = learner.ledger.counts[:rows, :, col.MY_TRAINING].sum()
    assert rewards + trainings == len(contexts)
    assert learner.pending_count == 0
    assert not learner.ledger.counts[:rows, :, [col.PENDING, col.TRAINING_PENDING]].any()
    assert sum(cell.labelled.arrivals for cell in learner.cells().values()) == len(contexts)


@given(contexts=points, policy=policies, seed=st.integers(0, 1000))
def test_order_of_late_labels_does_not_change_the_final_counts(
    contexts: list[tuple[float, float]], policy: CoS, seed: int
) -> None:
    draw = random.Random(seed)
    first, second = new_learner(policy), new_learner(policy)
    choices = [choose(first, context) for context in contexts]
    assert [choose(second, context) for context in contexts] == choices
    gains = {choice.id: float(draw.random() < 0.5) for choice in choices}
    for choice in choices:
        first.learn(choice.id, gains[choice.id])
    draw.shuffle(choices)
    for choice in choices:
        second.learn(choice.id, gains[choice.id])
    assert everything(first) == everything(second)


@given(contexts=points, policy=policies, seed=st.integers(0, 1000))
def test_a_label_twice_changes_nothing(contexts: list[tuple[float, float]], policy: CoS, seed: int) -> None:
    draw = random.Random(seed)
    learner = new_learner(policy)
    settled: list[int] = []
    for context in contexts:
        settled.append(choose(learner, context).id)
        learner.learn(settled[-1], float(draw.random() < 0.5))
        before = everything(learner)
        with pytest.raises(SettledDecision):
            learner.learn(draw.choice(settled), float(draw.random() < 0.5))
        assert everything(learner) == before


@given(contexts=points, slices=st.integers(1, 30))
def test_keys_of_many_points_are_those_of_the_compiled_rule(contexts: list[tuple[float, float]], slices: int) -> None:
    learner = new_learner(CoS(slices=slices, exploration_exponent=0.05))
    assert keys_of(np.array(contexts), slices).tolist() == [choose(learner, context).cell for context in contexts]


@given(horizon=st.integers(1, 10**9), alpha=st.floats(0.1, 2), dimensions=st.integers(1, 6))
def test_slices_are_the_smallest_that_theorem_1_allows(horizon: int, alpha: float, dimensions: int) -> None:
    slices = slices_for(horizon, 3 * alpha + dimensions)
    exact = horizon ** (1 / (3 * alpha + dimensions))
    assert exact - 1e-6 <= slices < exact + 1 + 1e-6


@given(max_cells=st.integers(1, 10**12), dimensions=st.integers(1, 6))
def test_memory_limit_gives_the_largest_partition_within_it(max_cells: int, dimensions: int) -> None:
    slices = slices_within(max_cells, dimensions)
    assert slices == 1 or slices**dimensions <= max_cells
    assert (slices + 1) ** dimensions > max_cells


def test_six_dimensions_cost_memory_only_where_visited() -> None:
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, dimensions=6, policy=CoS(slices=12))
    for context in np.random.default_rng(0).random((500, 6)):
        choice = learner.choose(context.tolist())
        assert isinstance(choice, Choice)
        learner.learn(choice.id, 1.0)
    assert len(learner.cells()) <= 500
    assert sum(array.nbytes for array in learner.ledger) < 200_000
