"""Items that come: those of several requests are read together, and a bad one fails its own request.

A site that has peers does not take all at once: they would wait for all of them to be chosen for, and then this site
for them. And of very many items, some are chosen for in each turn of the loop, so that nobody has to wait for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from cosend.errors import ContextError
from cosend.node.flight import Request
from cosend.node.requests import Requests
from cosend.site.context import Axis, Column, read_columns

MOST_AT_ONCE: Final = 256  # items of several requests where there are peers; one request alone may have more


MOST_IN_A_TURN: Final = 1_000  # items, also of one request


class Part(NamedTuple):
    """Items that are chosen for together: their requests, their places there, they themselves, what the axes read."""

    owners: Sequence[Request] = ()
    places: Sequence[int] = ()
    items: Sequence[Any] = ()
    columns: Sequence[Column] = ()


class Arrivals:
    """The requests whose items nobody has chosen for yet."""

    def __init__(self, axes: Sequence[Axis], requests: Requests) -> None:
        self._axes, self._requests = axes, requests
        self._new: list[Request] = []
        self._read, self._taken = Part(), 0  # all of these items can be read, and so many of them were taken

    def __bool__(self) -> bool:
        return bool(self._new) or self._taken < len(self._read.items)

    def add(self, request: Request) -> None:
        """Take one more."""
        self._new.append(request)

    def take(self, *, all_at_once: bool) -> Part:
        """Return items of the requests that have waited longest, or of all, but never very many."""
        if self._taken == len(self._read.items):
            self._read, self._taken = self._next(all_at_once=all_at_once), 0
        start, self._taken = self._taken, min(self._taken + MOST_IN_A_TURN, len(self._read.items))
        if self._taken - start == len(self._read.items):
            return self._read
        owners, places, items, columns = self._read
        some = slice(start, self._taken)
        return Part(owners[some], places[some], items[some], [column[some] for column in columns])

    def _next(self, *, all_at_once: bool) -> Part:
        count = len(self._new) if all_at_once else 0
        items = 0
        while count < len(self._new) and items < MOST_AT_ONCE:
            items += len(self._new[count].items)
            count += 1
        some, self._new = self._new[:count], self._new[count:]
        requests, columns = self._readable(some) if some else ([], [])
        owners = [request for request in requests for _ in request.items]
        places = [*chain.from_iterable(range(len(request.items)) for request in requests)]
        return Part(owners, places, items_of(requests), columns)

    def _readable(self, requests: list[Request]) -> tuple[list[Request], list[Column]]:
        """Return the requests whose items have places in the context, and what the axes read off them."""
        try:
            return requests, read_columns(self._axes, items_of(requests))
        except Exception as error:  # an item may be anything, and so may be what it raises
            if len(requests) == 1:
                self._requests.refused(requests[0], self._with_place(error, requests[0].items))
                return [], []
        read = [(some, columns) for request in requests for some, columns in [self._readable([request])] if some]
        together = zip(*(columns for _, columns in read), strict=True)
        return [request for (request,), _ in read], [[*chain.from_iterable(parts)] for parts in together]

    def _with_place(self, error: Exception, items: Sequence[Any]) -> Exception:
        """Return why items cannot be read, with the place of the first that cannot."""
        for place, item in enumerate(items):
            try:
                read_columns(self._axes, [item])
            except ContextError as wrong:
                return ContextError(f"items.{place}: {wrong}")
            except Exception as wrong:
                return wrong
        return error


def items_of(requests: Iterable[Request]) -> list[Any]:
    """Return the items of requests, in their order."""
    return [*chain.from_iterable(request.items for request in requests)]
