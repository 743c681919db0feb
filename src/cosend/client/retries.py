"""When a request is sent again, and after how long a rest.

    the connection fails, or no reply comes in time      again
    503, and 502 and 504 of whatever stands between      again
    408 too slow, 429 too much                           again
    no arm could label the items, which is a 503 too     it stands: that is about the items, not about the service
    every other answer                                   it stands

A rest doubles from a tenth of a second on. A random part is taken off it, so that many clients of a service that was
away do not all come back at once. What the service says of its rest (Retry-After) is waited for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

NO_ANSWER: Final = "urn:cosend:problem:no-answer"  # the type of a problem: no arm could label any of the items
PASSING: Final = frozenset((408, 429, 502, 503, 504))
FIRST_REST_S: Final = 0.1
LONGEST_REST_S: Final = 10.0
LONGEST_ASKED_S: Final = 60.0  # a service that asks for more is not waited for


class Call(NamedTuple):
    """A request."""

    method: str
    path: str
    body: bytes | None = None
    query: dict[str, int] | None = None


class Reply(NamedTuple):
    """What came back."""

    status: int
    body: bytes
    retry_after: str | None = None


class Lost(NamedTuple):
    """Nothing came back."""

    why: str
    may_pass: bool = True


T = TypeVar("T")
Outcome: TypeAlias = Reply | Lost
Steps: TypeAlias = Generator[Call | float, Any, T]  # a call gets its outcome; a number is a rest in seconds


@dataclass(frozen=True)
class Retries:
    """How often, and how patiently."""

    most: int
    draw: Callable[[], float] = field(default=random.random, repr=False)

    def exchange(self, call: Call) -> Steps[Outcome]:
        """Send a request until its outcome stands, or has been tried often enough."""
        rest_s = FIRST_REST_S
        for _ in range(self.most):
            outcome: Outcome = yield call
            asked_s = _asked_s(outcome)
            if not _may_pass(outcome) or asked_s > LONGEST_ASKED_S:
                return outcome
            yield asked_s + rest_s * (1.0 - self.draw() / 2)
            rest_s = min(2 * rest_s, LONGEST_REST_S)
        last: Outcome = yield call
        return last


def _may_pass(outcome: Outcome) -> bool:
    if isinstance(outcome, Lost):
        return outcome.may_pass
    return outcome.status in PASSING and f'"{NO_ANSWER}"'.encode() not in outcome.body


def _asked_s(outcome: Outcome) -> float:
    """Return how long the service asks to wait: a number of seconds, or until a date."""
    text = outcome.retry_after if isinstance(outcome, Reply) else None
    if not text:
        return 0.0
    if text.strip().isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0
