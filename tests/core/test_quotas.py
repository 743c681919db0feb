"""Quotas: the paper's formula, and a shortcut that no count can tell from it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosend.core.kernel import columns as col
from cosend.core.kernel.ledger import new_ledger
from cosend.core.kernel.quotas import current_quota, exploration_quota, exponent_for, training_quota


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
