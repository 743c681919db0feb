"""The upper bound of a mean against plain bisection."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cosend.core.kernel.indices import kl_upper_bound

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


@given(mean=means, level=levels, more=levels)
def test_bound_never_falls_when_the_level_rises(mean: float, level: float, more: float) -> None:
    assert kl_upper_bound(mean, level + more) >= kl_upper_bound(mean, level) - 1e-8
