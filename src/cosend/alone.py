"""One thread at a time: the compiled rules write into arrays that they share, so two of them at once would spoil these.

A learner has its own lock, and a site shares the lock of its learner. Sites that have peers call each other, in any
order, so all of them in a process share one lock: with one for each, two sites that call each other at the same time
would wait for each other for ever. A site without peers calls no other, so its own lock is always the last to be taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Alone:
    """A lock that is no part of what it guards: a copy of a site, or one that was pickled, gets its own lock."""

    __slots__ = ("_name", "lock")

    def __init__(self, name: str = "") -> None:
        self.lock = RLock()  # the same thread may take it again: a model may ask the site that it belongs to
        self._name = name

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self._name or (Alone, ())


NETWORK: Final = Alone("NETWORK")  # of all sites in this process that have peers


class Guarded(Protocol):
    """Whatever only one thread at a time may use."""

    alone: Alone


G = TypeVar("G", bound=Guarded)


def one_at_a_time(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Let one thread at a time call a method, or any other method of the object that is guarded like this."""

    @wraps(method)
    def guarded(self: G, /, *arguments: P.args, **options: P.kwargs) -> T:
        alone = self.alone
        alone.lock.acquire()  # quicker than a with statement
        try:
            if alone is self.alone:
                return method(self, *arguments, **options)
        finally:
            alone.lock.release()
        return guarded(self, *arguments, **options)  # it has got peers while this thread waited, and another lock

    return guarded
