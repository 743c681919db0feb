"""Numbers that the rules go by: upper bounds of means, quotas and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cosend.algorithm import draws
from cosend.algorithm import layout as col
from cosend.algorithm.cos import current_quota, exploration_quota, exponent_for, training_quota
from cosend.algorithm.layout import new_ledger
from cosend.algorithm.ucb import kl_upper_bound

# The upper bound of a mean, against plain bisection

MEANS = [0.0, 1e-300, 1e-12, 1e-6, *(i / 20 for i in range(1, 20)), 1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1 - 1e-15, 1.0]
LEVELS = [0.0, 1e-300, 1e-40, 1e-20, 1e-12, 1e-9, 1e-6, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 27.0, 50.0]

means = st.one_of(st.floats(0.0, 1.0), st.sampled_from(MEANS), st.floats(0.0, 1e-6).map(lambda gap: 1.0 - gap))
levels = st.one_of(st.floats(0.0, 50.0), st.floats(0.0, 1e-6), st.sampled_from(LEVELS))


def divergence(mean: float, q: float) -> float:
    """Return kl(mean, q); 0 ln 0 is 0, and what q rules out is infinitely far."""
    total = 0.0
    for share, other in ((mean, q), (1.0 - mean, 1.0 - q)):
        if share > 0.0:
            total += share * math.log(share / other) if other > 0.0 else math.inf
    return total


def bisection(mean: float, level: float) -> float:
    """Return the largest q in [mean, 1] with kl(mean, q) <= level, to within 1e-12."""
    low, high = mean, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if divergence(mean, middle) <= level:
            low = middle
        else:
            high = middle
    return low


def check(mean: float, level: float) -> None:
    found = kl_upper_bound(mean, level)
    assert mean <= found <= 1.0
    assert found == pytest.approx(bisection(mean, level), rel=0.0, abs=1e-6)


@pytest.mark.parametrize("mean", MEANS)
def test_bound_is_that_of_bisection_on_a_grid(mean: float) -> None:
    for level in LEVELS:
        check(mean, level)


@given(mean=means, level=levels)
@example(mean=0.8, level=0.1)
@example(mean=0.5, level=1e-40)
@example(mean=0.99, level=3.0)
@example(mean=1 - 1e-12, level=0.1)
def test_bound_is_that_of_bisection_anywhere(mean: float, level: float) -> None:
    check(mean, level)


# Quotas: the paper's formula, and a shortcut that no count can tell from it


def test_formula_at_known_steps() -> None:
    assert exploration_quota(1, 0.5) == 0.0
    assert exploration_quota(100, 0.5) == pytest.approx(10 * math.log(100), rel=1e-14)
    assert training_quota(exploration_quota(100, 0.5), 3) == pytest.approx(30 * math.log(100), rel=1e-14)
    assert exponent_for(1.0, 1) == 0.5


@given(
    exponent=st.floats(0.001, 0.999),
    functions=st.integers(1, 9),
    start=st.one_of(st.integers(1, 50), st.integers(1, 10**12)),
    stride=st.integers(1, 1000),
)
@settings(max_examples=300)
def test_no_count_can_tell_the_remembered_quota_from_the_exact_one(
    exponent: float, functions: int, start: int, stride: int
) -> None:
    ledger = new_ledger(1)
    ledger.parameters[col.EXPONENT] = exponent
    ledger.site[col.MAX_PEER_FUNCTIONS] = functions
    for step in range(start, start + 200 * stride, stride):
        remembered, exact = current_quota(ledger, step), exploration_quota(step, exponent)
        assert math.floor(remembered) == math.floor(exact)
        assert math.floor(training_quota(remembered, functions)) == math.floor(training_quota(exact, functions))


def test_a_step_before_the_remembered_one_is_computed_anew() -> None:
    """A new phase starts again at step 1."""
    ledger = new_ledger(1)
    ledger.parameters[col.EXPONENT] = 0.3
    ledger.site[col.MAX_PEER_FUNCTIONS] = 1
    current_quota(ledger, 10_000)
    assert current_quota(ledger, 1) == 0.0


# Draws depend on their arguments only, and are uniform


@pytest.mark.compiled
def test_known_values_never_change() -> None:
    """A change here would change every decision of every saved site."""
    keys = draws.site_words(7, "lab")
    assert keys == (1812557748, 581944395)
    drawn = [int(draws.draw(*keys, 0, n, 1)) for n in (1, 2, 2**40)]
    assert drawn == [3748236112, 4274959722, 3298266525]


@pytest.mark.compiled
@pytest.mark.parametrize("candidates", [2, 3, 7])
def test_every_candidate_is_as_likely(candidates: int) -> None:
    key0, key1 = draws.site_words(0, "site")
    picked = [draws.pick(key0, key1, 0, n, draws.BEST_ARM, candidates) for n in range(1, 21_001)]
    counts = np.bincount(picked, minlength=candidates)
    expected = 21_000 / candidates
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 20  # the 99.9 % quantile of chi-square with 6 degrees of freedom is 22


@pytest.mark.compiled
def test_sites_seeds_callers_and_purposes_do_not_share_draws() -> None:
    def sequence(seed: int, site: str, caller: int, purpose: int) -> list[int]:
        key0, key1 = draws.site_words(seed, site)
        return [draws.pick(key0, key1, caller, n, purpose, 2) for n in range(200)]

    base = sequence(0, "a", 0, 1)
    others = [
        sequence(1, "a", 0, 1),
        sequence(0, "b", 0, 1),
        sequence(0, "a", draws.caller_word("b"), 1),
        sequence(0, "a", 0, 2),
    ]
    for other in others:
        assert 60 < sum(x == y for x, y in zip(base, other, strict=True)) < 140
