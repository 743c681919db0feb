"""Thompson sampling: the sampler draws from the distributions it says, and a new cell begins with what is known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from cosend.core.kernel import columns as col
from cosend.core.kernel import thompson
from cosend.core.kernel.draws import following, unit
from cosend.core.kernel.ledger import EMPTY, new_ledger
from cosend.core.learner.learner import Learner
from cosend.core.learner.values import Phase
from cosend.core.policy.policies import CellThompson, ChangeAware, ContextSelection
from tests.policies import choose

DRAWS = 4000
WORDS = [n * 0x9E3779B1 & 0xFFFFFFFF for n in range(DRAWS)]


def assert_moments(values: list[float], mean: float, variance: float) -> None:
    """Assert mean and variance to within five standard errors; the fourth moment is taken from the values."""
    array = np.array(values)
    assert array.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / DRAWS))
    spread = ((array - mean) ** 2).std() / math.sqrt(DRAWS)
    assert array.var() == pytest.approx(variance, abs=5 * spread)


def test_normal_draws_have_mean_0_and_variance_1() -> None:
    assert_moments([thompson.normal_draw(word)[0] for word in WORDS], 0.0, 1.0)


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 2.5, 40.0, 1e6])
def test_gamma_draws_have_the_mean_and_variance_of_their_shape(shape: float) -> None:
    values = [thompson.gamma_draw(shape, word)[0] for word in WORDS]
    assert min(values) >= 0.0
    assert_moments(values, shape, shape)


def test_units_never_are_0_or_1_so_their_logarithm_exists() -> None:
    for word in (0, 1, 2**32 - 1):
        assert 0.0 < unit(word) < 1.0
        assert 0 <= following(word) < 2**32


@pytest.mark.compiled
@pytest.mark.parametrize(("right", "count"), [(0.0, 0.0), (1.0, 1.0), (3.0, 10.0), (70.5, 80.0), (0.0, 1000.0)])
@pytest.mark.parametrize("elsewhere", [None, (0.0, 0.0), (30.0, 40.0)])
def test_samples_have_the_moments_of_a_beta_with_a_prior_from_all_cells(
    right: float, count: float, elsewhere: tuple[float, float] | None
) -> None:
    """The prior counts as one reward with the mean (S + 1) / (N + 2) over all cells."""
    ledger, overall = new_ledger(1), EMPTY
    ledger.rewards[0, 0, [col.REWARD_SUM, col.REWARD_COUNT]] = right, count
    prior = 0.5
    if elsewhere is not None:
        overall = 1
        ledger.rewards[1, 0, [col.REWARD_SUM, col.REWARD_COUNT]] = elsewhere
        prior = (elsewhere[0] + 1) / (elsewhere[1] + 2)
    one, other = prior + right, 1 - prior + count - right
    total = one + other
    values = [thompson.sampled(ledger, 0, overall, 0, 1.0, word) for word in WORDS]
    assert all(0.0 <= value <= 1.0 for value in values)
    assert_moments(values, one / total, one * other / (total**2 * (total + 1)))


@pytest.mark.parametrize("beyond", [-3.0, 9.0])
def test_sums_beyond_their_range_count_as_its_end(beyond: float) -> None:
    """Realised costs may make a sum of rewards negative, or larger than their number."""
    ledger = new_ledger(1)
    ledger.rewards[[0, 1], 0, col.REWARD_COUNT] = 5.0
    ledger.rewards[[0, 1], 0, col.REWARD_SUM] = beyond
    ledger.rewards[2] = ledger.rewards[0]
    ledger.rewards[2, 0, col.REWARD_SUM] = min(max(beyond, 0.0), 5.0)
    for word in WORDS[:50]:
        assert thompson.sampled(ledger, 0, 1, 0, 1.0, word) == thompson.sampled(ledger, 2, 2, 0, 1.0, word)


def learnt(policy: CellThompson, items: int = 400) -> Learner:
    """Return a learner for whom arm b is much better in every cell of the first half of the axis."""
    learner, draw = Learner("here", own={"a": 0.0, "b": 0.0}, policy=policy), random.Random(1)
    for _ in range(items):
        choice = choose(learner, draw.random() / 2)
        learner.learn(choice.id, float(draw.random() < (0.95 if choice.arm == "b" else 0.05)))
    return learner


def test_a_new_cell_begins_with_what_is_known_elsewhere() -> None:
    """A prior of about 0.9 against 0.1: the better arm is chosen first in nearly every new cell."""
    learner = learnt(CellThompson(slices=1000))
    new = [choose(learner, 0.5 + (n + 0.5) / 1000) for n in range(300)]
    assert len({choice.cell for choice in new}) == 300
    assert sum(choice.arm == "b" for choice in new) > 240
    assert all(choice.phase is Phase.EXPLORE for choice in new)


@pytest.mark.parametrize(("a", "b"), [((0.0, 0.0), (0.0, 0.0)), ((6.0, 10.0), (7.0, 10.0)), ((1.0, 4.0), (30.0, 90.0))])
def test_an_arm_is_chosen_as_often_as_it_may_be_the_best(a: tuple[float, float], b: tuple[float, float]) -> None:
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, policy=CellThompson(slices=1))
    learner.withdraw(choose(learner, 0.5).id)
    learner.ledger.rewards[:2, :, col.REWARD_SUM] = a[0], b[0]
    learner.ledger.rewards[:2, :, col.REWARD_COUNT] = a[1], b[1]
    draw = np.random.default_rng(1)
    priors = [(right + 1) / (count + 2) for right, count in (a, b)]
    beliefs = [
        draw.beta(prior + right, 1 - prior + count - right, 100_000)
        for prior, (right, count) in zip(priors, (a, b), strict=True)
    ]
    expected = float((beliefs[0] > beliefs[1]).mean())
    chosen = 0
    for _ in range(1000):
        choice = choose(learner, 0.5)
        chosen += choice.arm == "a"
        learner.withdraw(choice.id)  # while many wait, rewards count for less
    assert chosen / 1000 == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 1000))


def test_the_propensity_is_not_known() -> None:
    for policy in (CellThompson(), ChangeAware(CellThompson()), ContextSelection(CellThompson())):
        learner = Learner("here", own={"a": 0.0, "b": 0.0}, peers={"c": 0.1}, policy=policy)
        assert all(math.isnan(choose(learner, n / 20).propensity) for n in range(20))


def test_costs_are_taken_off_what_is_sampled() -> None:
    learner = Learner("here", own={"a": 1.0, "b": 0.0}, policy=CellThompson(slices=1))
    assert {choose(learner, 0.5).arm for _ in range(100)} == {"b"}


def test_what_all_cells_know_is_what_they_know_together() -> None:
    learner = learnt(CellThompson(slices=7), 200)
    cells = learner.cells().values()
    (overall,) = [cell for cell in cells if cell.view == 1]
    for arm, known in overall.estimates.items():
        parts = [cell.estimates[arm] for cell in cells if cell.view == 0]
        assert known.reward_count == sum(part.reward_count for part in parts)
        total = sum(part.mean_reward * part.reward_count for part in parts)
        assert known.mean_reward * known.reward_count == pytest.approx(total)
    assert overall.labelled.arrivals == 200
