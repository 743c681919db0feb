"""Arms that change: the window of recent rewards, what it notices, and what it leaves alone."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.core.kernel import changes
from cosend.core.kernel import columns as col
from cosend.core.kernel.changes import (
    COUNT,
    ERRORS,
    FIRST_LEVEL,
    LEVELS,
    LOOK_ERRORS,
    PER_LEVEL,
    SAME_LENGTH,
    SUM,
    WINDOW_COLUMNS,
)
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.learner import Learner
from cosend.core.learner.values import Phase
from cosend.core.policy.parts import Policy
from cosend.core.policy.policies import CellKLUCB, CellThompson, ChangeAware, CoS, ZoomingKLUCB
from tests.policies import choose

ONE_CELL = CellKLUCB(slices=1)


def sums_of(known: Floats) -> list[tuple[int, float]]:
    """Return the lengths and sums of a window, oldest first."""
    kept = []
    for level in reversed(range(LEVELS)):
        first = FIRST_LEVEL + level * PER_LEVEL
        kept += [(2**level, float(known[first + 1 + place])) for place in range(int(known[first]))]
    return kept


def windowed(rewards: list[float]) -> Floats:
    """Return an estimate with a window of rewards in which nothing was noticed."""
    known = np.zeros(WINDOW_COLUMNS)
    for gain in rewards:
        changes.add_to_window(known, gain)
    return known


def estimated(rewards: list[float]) -> Floats:
    """Return an estimate after rewards, as it would be in a ledger."""
    known = np.zeros(WINDOW_COLUMNS)
    for gain in rewards:
        known[col.REWARD_SUM] += gain
        known[col.REWARD_COUNT] += 1
        known[col.MEAN_REWARD] = known[col.REWARD_SUM] / known[col.REWARD_COUNT]
        changes.notice(known, gain, False)
    return known


def coins(seed: int, chances: list[float]) -> list[float]:
    draw = random.Random(seed)
    return [float(draw.random() < chance) for chance in chances]


@given(rewards=st.lists(st.sampled_from([0.0, 0.25, 1.0]), max_size=120))
def test_a_window_is_sums_of_consecutive_rewards_that_add_up(rewards: list[float]) -> None:
    kept = sums_of(windowed(rewards))
    place = 0
    for length, total in kept:
        assert total == sum(rewards[place : place + length])
        place += length
    assert place == len(rewards) == windowed(rewards)[COUNT]
    assert windowed(rewards)[SUM] == sum(rewards)
    assert [length for length, _ in kept] == sorted((length for length, _ in kept), reverse=True)


def test_a_long_window_is_a_few_numbers() -> None:
    known = windowed([1.0] * 5000)
    assert len(sums_of(known)) <= SAME_LENGTH * (math.log2(5000) + 1)
    assert known.shape == (WINDOW_COLUMNS,)
    assert WINDOW_COLUMNS < 100


def test_a_full_window_forgets_its_oldest_rewards() -> None:
    """With two sums of every length it holds fifty million rewards; one more sum of the greatest length is too many."""
    known = np.zeros(WINDOW_COLUMNS)
    for level in range(LEVELS):
        known[FIRST_LEVEL + level * PER_LEVEL :][:PER_LEVEL] = [2, 2**level, 0]
    known[COUNT], known[SUM] = 2 * (2**LEVELS - 1), 2**LEVELS - 1
    changes.add_to_window(known, 1.0)
    assert known[COUNT] == sum(length for length, _ in sums_of(known))
    assert known[SUM] == sum(total for _, total in sums_of(known))
    assert known[COUNT] == 2 * (2**LEVELS - 1) + 1 - 2 * 2 ** (LEVELS - 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chance", [0.05, 0.5, 0.9])
def test_nothing_is_noticed_in_a_stream_that_does_not_change(chance: float, seed: int) -> None:
    rewards = coins(seed, [chance] * 2000)
    known = estimated(rewards)
    assert known[col.REWARD_COUNT] == known[COUNT] == 2000
    assert known[col.REWARD_SUM] == sum(rewards)


@pytest.mark.parametrize(("before", "after"), [(0.9, 0.3), (0.2, 0.8)])
@pytest.mark.parametrize("seed", range(3))
def test_a_flip_is_noticed_soon_and_the_estimate_is_that_of_the_new_rewards(
    before: float, after: float, seed: int
) -> None:
    old, new = coins(seed, [before] * 500), coins(seed + 100, [after] * 100)
    known = estimated(old + new)
    assert known[col.REWARD_COUNT] <= 120
    assert known[col.MEAN_REWARD] == pytest.approx(after, abs=0.15)
    newest = int(known[COUNT])
    assert known[col.REWARD_SUM] == known[SUM] == sum((old + new)[-newest:])
    assert known[ERRORS] == sum(1.0 - gain for gain in old + new)


def test_a_restart_keeps_half_of_the_window_that_showed_the_change() -> None:
    """All right 200 times, then wrong: noticed at the fifth, shown best by the newest four, of which two are kept."""
    known = estimated([1.0] * 200)
    noticed = 0
    while known[COUNT] >= 200:
        noticed += 1
        known = estimated([1.0] * 200 + [0.0] * noticed)
    assert noticed <= 6
    assert known[COUNT] == known[col.REWARD_COUNT] <= noticed / 2
    assert known[col.MEAN_REWARD] == 0.0


def test_a_restart_from_nothing_is_as_if_the_arm_had_never_been_used() -> None:
    known = windowed([1.0] * 8)
    known[[col.REWARD_COUNT, col.REWARD_SUM, col.MEAN_REWARD]] = 8.0, 8.0, 1.0
    changes.keep_newest(known, 0.5)
    assert known[COUNT] == known[SUM] == 0.0
    assert sums_of(known) == []


def test_a_change_by_the_newest_reward_alone_leaves_nothing() -> None:
    """Half of a window of one is none: 10,000,000 rewards say 1, one says 0."""
    known = np.zeros(WINDOW_COLUMNS)
    for level in range(1, LEVELS - 1):
        known[FIRST_LEVEL + level * PER_LEVEL :][:2] = [1, 2**level]
    known[COUNT] = known[SUM] = 2 ** (LEVELS - 1) - 2
    known[[col.REWARD_COUNT, col.REWARD_SUM, col.MEAN_REWARD]] = known[COUNT], known[SUM], 1.0
    for _ in range(3):
        changes.notice(known, 0.0, False)
    if known[COUNT] > 10:
        pytest.fail("three wrong ones after eight million right ones are a change")
    assert known[col.MEAN_REWARD] == 0.0


@pytest.mark.parametrize("gain", [1.7, -0.4])
def test_rewards_beyond_their_range_count_as_its_end(gain: float) -> None:
    """A realised cost may take a reward out of [0, 1]; the window is one of coins."""
    known = np.zeros(WINDOW_COLUMNS)
    changes.notice(known, gain, True)
    end = float(gain > 0)
    assert known[SUM] == end
    assert known[ERRORS] == known[LOOK_ERRORS] == 1.0 - end


def play(policy: Policy, chance_of: Any, items: int, seed: int) -> tuple[Learner, list[Any]]:
    """Play two arms in one cell; `chance_of(arm, n)` is how often an arm is right."""
    learner, draw = Learner("here", own={"a": 0.0, "b": 0.0}, policy=policy, seed=seed), random.Random(seed)
    made = []
    for n in range(items):
        made.append(choose(learner, 0.5))
        learner.learn(made[-1].id, float(draw.random() < chance_of(made[-1].arm, n)))
    return learner, made


@pytest.mark.compiled  # long streams
@pytest.mark.parametrize("inside", [ONE_CELL, CellThompson(slices=1), CoS(slices=1, exploration_exponent=0.05)])
def test_a_leader_that_falls_is_left_sooner(inside: Policy) -> None:
    def leaders(arm: str, n: int) -> float:
        return (0.9 if n < 1000 else 0.1) if arm == "a" else 0.6

    late = [0, 0]
    for seed in range(3):
        for which, policy in enumerate((inside, ChangeAware(inside))):
            _, made = play(policy, leaders, 1400, seed)
            late[which] += sum(choice.arm == "a" for choice in made[1000:])
    assert late[1] < late[0] / 2


@pytest.mark.compiled  # long streams
@pytest.mark.parametrize("inside", [ONE_CELL, CellThompson(slices=1)])
def test_an_arm_that_gets_better_unseen_is_looked_at_and_found(inside: Policy) -> None:
    def riser(arm: str, n: int) -> float:
        return 0.7 if arm == "a" else (0.1 if n < 1500 else 1.0)

    for seed in range(2):
        learner, made = play(ChangeAware(inside, rising=True), riser, 5000, seed)
        assert sum(choice.arm == "b" for choice in made[-500:]) > 400
        errors = learner.ledger.rewards[0, :, ERRORS].sum()
        assert learner.ledger.rewards[0, :, LOOK_ERRORS].sum() <= max(1.0, 0.05 * errors)


def test_a_look_is_an_exploration_without_a_draw_and_no_part_of_the_estimate() -> None:
    policy = ChangeAware(ONE_CELL, rising=True)
    learner, _ = play(policy, lambda arm, n: 0.6 if arm == "a" else 0.05, 40, 1)
    looked = 0
    for _ in range(300):
        before = learner.cells()[0].estimates
        choice = choose(learner, 0.5)
        learner.learn(choice.id, 0.0 if choice.arm == "b" else 0.6)
        after = learner.cells()[0].estimates[choice.arm]
        if after.reward_count == before[choice.arm].reward_count:
            looked += 1
            assert (choice.phase, choice.propensity) == (Phase.EXPLORE, 1.0)
    assert looked > 0


@pytest.mark.parametrize("policy", [CoS(slices=1, exploration_exponent=0.05), ONE_CELL])
def test_a_policy_by_quota_never_looks_and_none_does_unless_told(policy: Policy) -> None:
    learner, _ = play(ChangeAware(policy, rising=isinstance(policy, CoS)), lambda arm, n: 0.3, 400, 2)
    assert not learner.ledger.rewards[0, :, LOOK_ERRORS].any()


def test_growth_is_taken_up_with_as_much_again_and_nothing_else_is() -> None:
    flat, short = windowed([0.0, 1.0] * 20), windowed([0.0, 0.0, 1.0])
    falling, rising = windowed([1.0] * 16 + [0.0] * 15), windowed([0.0] * 16 + [1.0, 0.0] * 8)
    for known in (flat, short, falling):
        assert changes.growing(known) == (0.0, 0.0)
    hoped, count = changes.growing(rising)
    assert 8 <= count <= 24
    assert 0.5 < hoped <= 1.0


def test_one_sum_that_is_the_whole_window_cannot_grow() -> None:
    known = np.zeros(WINDOW_COLUMNS)
    known[FIRST_LEVEL + 3 * PER_LEVEL :][:2] = [1, 4.0]
    known[COUNT], known[SUM] = 8.0, 4.0
    assert changes.growing(known) == (0.0, 0.0)


def test_a_new_cube_starts_with_an_empty_window_whatever_it_inherits() -> None:
    learner, _ = play(ChangeAware(ZoomingKLUCB()), lambda arm, n: 0.5, 4, 3)
    part = choose(learner, 0.5)
    assert learner.cells()[part.cell].slices == 2
    row = list(learner.cells()).index(part.cell)
    assert learner.ledger.rewards[row, :, col.REWARD_COUNT].any()
    assert not learner.ledger.rewards[row, :, COUNT:].any()
