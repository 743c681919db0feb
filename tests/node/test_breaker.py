"""Breakers: they open after some failures in a row, rest longer and longer, and close when one call has worked."""

from __future__ import annotations

import pytest

from cosend.node.breaker import FIRST_REST_S, LONGEST_REST_S, OPENS_AFTER, Breaker, Breakers


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(clock)


def opened(breaker: Breaker) -> Breaker:
    assert [breaker.failed("no") for _ in range(OPENS_AFTER)] == [False] * (OPENS_AFTER - 1) + [True]
    return breaker


def test_it_opens_after_failures_in_a_row(breaker: Breaker) -> None:
    for _ in range(OPENS_AFTER - 1):
        breaker.failed("no")
    breaker.worked()
    assert (breaker.position, breaker.lets_through(), breaker.failures) == ("closed", True, 0)
    opened(breaker)
    assert (breaker.position, breaker.lets_through(), breaker.reason) == ("open", False, "no")


def test_it_is_tried_with_one_call_when_it_has_rested(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += FIRST_REST_S
    assert (breaker.position, breaker.lets_through()) == ("half open", True)
    breaker.used()
    assert not breaker.lets_through()
    breaker.worked()
    assert (breaker.position, breaker.lets_through()) == ("closed", True)


def test_it_rests_twice_as_long_each_time_up_to_a_limit(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    rests = []
    for _ in range(10):
        rests.append(breaker.rest_s)
        clock.now += breaker.rest_s
        breaker.used()
        assert not breaker.failed("again")  # it was open already
    assert rests[:4] == [1, 2, 4, 8]
    assert rests[-1] == LONGEST_REST_S


def test_calls_that_were_under_way_when_it_opened_do_not_prolong_it(breaker: Breaker) -> None:
    opened(breaker)
    for _ in range(50):
        breaker.failed("late")
    assert breaker.rest_s == FIRST_REST_S


def test_an_arm_without_failures_is_not_left_out(clock: Clock) -> None:
    breakers = Breakers(clock)
    opened(breakers.of("bad"))
    breakers.of("good").worked()
    assert breakers.out(["good", "bad", "unused"]) == {"bad"}
    assert breakers.of("bad") is breakers.of("bad")


def test_a_call_before_the_rest_is_over_is_no_try_and_leaves_it_to_be_tried_later(
    breaker: Breaker, clock: Clock
) -> None:
    opened(breaker)
    breaker.used()  # because no other arm was left
    breaker.failed("still")
    clock.now += FIRST_REST_S
    assert breaker.lets_through()


def test_a_try_whose_answer_nobody_hears_is_forgotten(clock: Clock) -> None:
    breakers = Breakers(clock)
    breaker = opened(breakers.of("arm"))
    clock.now += FIRST_REST_S
    breaker.used()
    assert breakers.out(["arm"]) == {"arm"}
    breakers.forget_tries()
    assert breakers.out(["arm"]) == set()
