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


def test_an_arm_that_asks_to_be_left_alone_is_skipped_at_once_and_until_then() -> None:
    breakers = Breakers(IN_SECONDS)
    assert breakers.failed("busy", 100.0, "come back", wait_s=10.0)  # it has opened with the first failure
    breakers.worked("busy")  # a call that was under way
    assert not breakers.failed("busy", 100.5, "come back", wait_s=5.0)  # another one, which asks for less
    assert not breakers.failed("busy", 101.5, "broken")
    assert breakers.position("busy", 109.9) == "open"
    assert breakers.skipped(109.9) == {"busy"}
    assert not breakers.failed("busy", 109.0, "come back", wait_s=20.0)
    assert breakers.skipped(128.9) == {"busy"}
    breakers.used(["busy"], 129.0)
    breakers.worked("busy")  # the probe
    assert breakers.position("busy", 129.0) == "closed"
    breakers.failed("busy", 130.0, "come back", wait_s=10.0)
    breakers.forget("busy")
    assert breakers.position("busy", 130.0) == "closed"
    breakers.forget("busy")


def test_where_time_is_counted_in_items_such_an_arm_is_skipped_as_long_as_any_other() -> None:
    breakers = Breakers(IN_ITEMS)
    assert breakers.failed("busy", 10.0, "come back", wait_s=3600.0)
    assert [arm for arm, *_ in breakers.rows()] == ["busy"]
    assert [*map(breakers.skipped, (11.0, 12.0))] == [{"busy"}, frozenset()]
