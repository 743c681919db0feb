"""How long an arm is left alone that fails."""

from __future__ import annotations

from cosend.site.backoff import LONGEST, Backoff


def test_a_backoff_doubles_up_to_its_limit_and_is_forgotten_when_the_arm_works() -> None:
    backoff = Backoff()
    rests = []
    for _ in range(14):
        backoff.failed("a", 100, "down")
        rests.append(next(n for n in range(5000) if "a" not in backoff.resting(100 + n)))
    assert rests[:4] == [2, 4, 8, 16]
    assert rests[-1] == LONGEST
    backoff.worked("a")
    backoff.failed("a", 100, "down")
    assert "a" not in backoff.resting(102)
