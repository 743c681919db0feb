"""Breakers: they open after some failures in a row, longer and longer, and close when one call has worked."""

from __future__ import annotations

import pytest

from cosend.engine.breaker import IN_ITEMS, IN_SECONDS, OPENS_AFTER, BackOff, Breakers


def opened(back_off: BackOff = IN_SECONDS, now: float = 100.0) -> Breakers:
    breakers = Breakers(back_off)
    assert [breakers.failed("bad", now, "no") for _ in range(OPENS_AFTER)] == [False] * (OPENS_AFTER - 1) + [True]
    return breakers


def test_it_opens_after_failures_in_a_row() -> None:
    breakers = Breakers(IN_SECONDS)
    for _ in range(OPENS_AFTER - 1):
        breakers.failed("bad", 100.0, "no")
    assert breakers.is_failing("bad")
    breakers.worked("bad")
    assert (breakers.position("bad", 100.0), breakers.is_failing("bad")) == ("closed", False)
    breakers = opened()
    breakers.failed("moody", 100.0, "once")
    assert [breakers.position(arm, 100.5) for arm in ("bad", "moody", "good")] == ["open", "closed", "closed"]
    assert breakers.skipped(100.5) == {"bad"}
    assert breakers.reasons(100.5) == {"bad": "no"}


def test_it_is_probed_with_one_call_when_the_back_off_is_over() -> None:
    breakers = opened()
    assert (breakers.position("bad", 101.0), breakers.skipped(101.0)) == ("half open", frozenset())
    breakers.used(["bad"], 101.0)
    assert breakers.skipped(101.0) == {"bad"}
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


def test_calls_that_were_in_flight_when_it_opened_do_not_prolong_it() -> None:
    breakers = opened()
    for _ in range(50):
        breakers.failed("bad", 100.5, "late")
    assert breakers.position("bad", 101.0) == "half open"


def test_a_call_before_the_back_off_is_over_is_not_a_probe() -> None:
    breakers = opened()
    breakers.used(["bad"], 100.5)  # because no other arm was left
    breakers.failed("bad", 100.6, "still")
    assert breakers.skipped(101.0) == set()


def test_a_probe_that_says_nothing_about_the_arm_is_made_again() -> None:
    for forget in (lambda all_: all_.forget_probe("bad"), Breakers.forget_probes):
        breakers = opened()
        breakers.used(["bad"], 101.0)
        assert breakers.skipped(101.0) == {"bad"}
        forget(breakers)
        assert breakers.skipped(101.0) == set()


def test_rows_bring_it_back() -> None:
    breakers = opened()
    again = Breakers(IN_SECONDS, breakers.rows())
    assert again.rows() == breakers.rows()
    assert again.reasons(100.5) == {"bad": "no"}
