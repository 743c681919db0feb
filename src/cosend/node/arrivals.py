"""Items that come: those of several requests are read together, and a bad one fails its own request.

A site that has peers does not take all at once: they would wait for all of them to be chosen for, and then this site
for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

from cosend.errors import ContextError
from cosend.node.flight import Request
from cosend.node.requests import Requests
from cosend.site.context import Axis, Column, read_columns

MOST_AT_ONCE: Final = 256  # items of several requests where there are peers; one request alone may have more


class Arrivals:
    """The requests whose items nobody has chosen for yet."""

    def __init__(self, axes: Sequence[Axis], requests: Requests) -> None:
        self._axes, self._requests = axes, requests
        self._new: list[Request] = []

    def __bool__(self) -> bool:
        return bool(self._new)

    def add(self, request: Request) -> None:
        """Take one more."""
        self._new.append(request)

    def take(self, *, all_at_once: bool) -> tuple[list[Request], list[Column]]:
        """Return the requests that have waited longest, or all, and what the axes read off their items."""
        count = len(self._new) if all_at_once else 0
        items = 0
        while count < len(self._new) and items < MOST_AT_ONCE:
            items += len(self._new[count].items)
            count += 1
        some, self._new = self._new[:count], self._new[count:]
        return self._readable(some) if some else ([], [])

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
