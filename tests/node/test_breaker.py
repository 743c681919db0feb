"""Breakers: they open after some failures in a row, longer and longer, and close when one call has worked."""

from __future__ import annotations

from functools import partial

import pytest

from cosend.engine.arm_health import IN_ITEMS, IN_SECONDS, OPENS_AFTER, BackOff, Breakers


def opened(back_off: BackOff = IN_SECONDS, now: float = 100.0) -> Breakers:
    breakers = Breakers(back_off)
    assert [breakers.failed("bad", now, "no") for _ in range(OPENS_AFTER)] == [False] * (OPENS_AFTER - 1) + [True]
    return breakers


def test_it_opens_after_failures_in_a_row_and_is_probed_with_one_call_when_the_back_off_is_over() -> None:
    breakers = opened()
    breakers.failed("moody", 100.0, "once")
    assert [breakers.position(arm, 100.5) for arm in ("bad", "moody", "good")] == ["open", "closed", "closed"]
    assert breakers.skipped(100.5) == {"bad"}
    assert breakers.reasons(100.5) == {"bad": "no"}
    assert Breakers(IN_SECONDS, breakers.rows()).rows() == breakers.rows()
    for _ in range(50):
        breakers.failed("bad", 100.5, "late")  # calls that were in flight when it opened do not prolong it
    breakers.used(["bad"], 100.5)  # because no other arm was left: this is not a probe
    assert (breakers.position("bad", 101.0), breakers.skipped(101.0)) == ("half open", frozenset())
    for forget in (partial(breakers.forget_probe, "bad"), breakers.forget_probes):
        breakers.used(["bad"], 101.0)
        assert breakers.skipped(101.0) == {"bad"}
        forget()  # a probe that says nothing about the arm is made again
    breakers.worked("bad")
    assert (breakers.position("bad", 101.0), breakers.skipped(101.0)) == ("closed", frozenset())


@pytest.mark.parametrize(("back_off", "first"), [(IN_SECONDS, [1, 2, 4, 8]), (IN_ITEMS, [2, 4, 8, 16])])
def test_it_backs_off_twice_as_long_each_time_up_to_a_limit(back_off: BackOff, first: list[float]) -> None:
    breakers, now, spans = opened(back_off, 0.0), 0.0, list[float]()
    for _ in range(10):
        ((_, _, skipped, until, _),) = breakers.rows()
        spans.append(skipped)
        now = until
        breakers.used(["bad"], now)
        assert not breakers.failed("bad", now, "again")  # it was open already
    assert spans[:4] == first
    assert spans[-1] == back_off.longest
