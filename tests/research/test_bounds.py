"""The bounds say what SPEC and paper say, and hang together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from research.bounds import Setting

from research import bounds

settings_ = st.builds(
    Setting,
    own=st.integers(1, 10),
    learners=st.integers(1, 10),
    peer_functions=st.integers(1, 10),
    dimensions=st.integers(1, 4),
    alpha=st.floats(0.1, 1),
    lipschitz=st.floats(0, 10),
    cost_spread=st.floats(0, 1),
)
horizons = st.integers(2, 10**9)


def test_theorem_1_by_hand() -> None:
    """M = 4, |F| = 2, L = alpha = d = 1, T = 20,000, every term written out."""
    setting, t, log_t, beta = Setting(own=2, learners=4, peer_functions=2), 20_000.0, math.log(20_000), math.pi**2 / 6
    z_i = 2 + 3 * 3
    expected = (
        t**0.75 * (2 * (2 + 6) * 4 / 3 + 2 * z_i * log_t)
        + t**0.5 * 8 * 3 * 2 * beta * 4 / 2
        + t**0.25 * 2 * (2 * z_i * beta + 5)
        + 4 * 3 * 2 * beta
    )
    assert bounds.theorem_1(setting, 20_000) == pytest.approx(expected, rel=1e-12)
    assert expected / t == pytest.approx(21, abs=1)  # far above 1: the bound is loose, and so it is said


def test_lemmas_by_hand() -> None:
    setting, t, log_t, beta = Setting(own=2, learners=3, peer_functions=4), 1_000.0, math.log(1_000), math.pi**2 / 6
    assert bounds.exploration_bound(setting, 1_000) == pytest.approx(
        2 * (2 + 2 * 5) * t**0.75 * log_t + 2 * (2 + 4) * t**0.25
    )
    assert bounds.suboptimal_bound(setting, 1_000) == pytest.approx(
        4 * 4 * beta * t**0.25 + 8 * 2 * 4 * beta / 0.5 * t**0.5
    )
    assert bounds.near_optimal_bound(setting, 1_000) == pytest.approx(2 * 8 * t**0.75 / 0.75 + 4 * 2 * 4 * beta)


@given(setting=settings_, horizon=horizons)
def test_theorem_1_covers_the_sum_of_the_lemmas(setting: Setting, horizon: int) -> None:
    lemmas = (bounds.exploration_bound, bounds.suboptimal_bound, bounds.near_optimal_bound)
    assert sum(lemma(setting, horizon) for lemma in lemmas) <= bounds.theorem_1(setting, horizon) * (1 + 1e-9)


@given(setting=settings_, horizon=horizons)
def test_theorem_2_is_theorem_1_with_one_more_dimension(setting: Setting, horizon: int) -> None:
    one_more = Setting(
        own=setting.own,
        learners=setting.learners,
        peer_functions=setting.peer_functions,
        dimensions=setting.dimensions + 1,
        alpha=setting.alpha,
        lipschitz=setting.lipschitz,
        cost_spread=setting.cost_spread,
    )
    assert bounds.theorem_2(setting, horizon) == bounds.theorem_1(one_more, horizon)
    assert one_more.regret_exponent > setting.regret_exponent
