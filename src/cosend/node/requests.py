"""What clients wait for: items that came together are answered together, when all are labelled and on the disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from cosend.errors import NoAnswer, Unavailable
from cosend.node.commits import Commits
from cosend.node.flight import PHASE_NAMES, Decided, Flights, Request
from cosend.node.setup import Setup
from cosend.site.events import Named, Shown
from cosend.stores.log_index import NAME


class Requests:
    """The requests that are not answered yet."""

    def __init__(self, setup: Setup, commits: Commits) -> None:
        self.setup, self.commits = setup, commits
        self.in_flight = 0  # items
        self.flying: dict[str, Request] = {}  # by client's id
        self.has_names = self.has_numbers_as_names = False  # that clients gave decisions
        self.is_taken: Callable[[int], bool] = lambda _: False
        self._open: set[Request] = set()

    def take(self, items: Sequence[Any], names: Sequence[str | None] | None, observer: str | None) -> Request:
        """Take items that are to be answered."""
        request = Request(items, names, observer)
        self.in_flight += len(items)
        self._open.add(request)
        for name in names or ():
            if name is not None:
                self.flying[name] = request
        return request

    def refused(self, request: Request, error: Exception) -> None:
        """Tell a client that its items cannot be decided: nothing has happened to any of them."""
        self.in_flight -= len(request.items)
        self._forget(request)
        if not request.done.done():
            request.done.set_exception(error)

    def check_room(self, count: int) -> None:
        """Raise if there is no room for so many items more."""
        if self.in_flight + count > self.setup.most_flights:
            raise Unavailable(f"site {self.setup.name!r} has {self.in_flight:,} items on their way: try again later")

    def decided(self, arm: str, cost: float, flights: Flights, labels: Sequence[Any]) -> None:
        """Take what an arm has said of items."""
        names, phases = self._names(flights), map(PHASE_NAMES.__getitem__, flights.kinds)
        told = map(Decided, names, labels, repeat(arm), phases, flights.cells, repeat(cost), flights.propensities)
        for request, place, decided in zip(flights.requests, flights.places, told, strict=True):
            request.results[place] = decided
        for request, count in Counter(flights.requests).items():
            if request.names is not None and request.observer is None:
                # With its answer: whoever asks again after a crash gets the same.
                both = zip(flights.requests, flights.places, strict=True)
                self._write_names(request, [place for owner, place in both if owner is request])
            self._finished(request, count)

    def given_up(self, request: Request, place: int, reasons: dict[str, str]) -> None:
        """Take that no arm can label an item."""
        request.results[place] = NoAnswer(self.setup.name, reasons)
        self._finished(request, 1)

    def _names(self, flights: Flights) -> Iterable[str]:
        """Return the ids of decisions as their clients know them."""
        as_text = self._number_as_text if self.has_numbers_as_names else str
        if all(request.numbers is None for request in set(flights.requests)):  # nobody has named any
            return map(as_text, flights.ids)
        names = []
        for request, place, number in zip(flights.requests, flights.places, flights.ids, strict=True):
            names.append(request.name(place) or as_text(number))
            if request.numbers is not None:
                request.numbers[place] = number
        return names

    def _number_as_text(self, number: int) -> str:
        """Return the id of a decision that its client gave none; another client may have taken the number as a name."""
        return f"#{number}" if self.is_taken(number) else str(number)

    def _finished(self, request: Request, count: int) -> None:
        self.in_flight -= count
        self.less(request, count)

    def less(self, request: Request, count: int) -> None:
        """Take note of answers; when all are there, and on the disk, the client is told."""
        request.left -= count
        if request.left:
            return
        if request.shown:
            self._show(request)
        if request.names is not None and request.observer is not None:
            self._write_names(request, range(len(request.items)))
        request.done.add_done_callback(lambda _: self._forget(request))
        self.commits.when_done(request.done, request.results)

    def _show(self, request: Request) -> None:
        request.show()
        numbers = request.numbers or []
        told = {numbers[place]: label for place, label in request.shown.items() if numbers[place]}
        if told:
            self.commits.event(Shown(tuple(told), tuple(told.values()), request.observer or ""))

    def _write_names(self, request: Request, places: Iterable[int]) -> None:
        names, numbers = request.names or (), request.numbers or ()
        both = [(names[place], numbers[place]) for place in places]
        named = [(name, number) for name, number in both if name is not None and number]
        if named:
            self.has_names = True
            self.commits.also(NAME, named)
            self.commits.event(Named(tuple(number for _, number in named), tuple(name for name, _ in named)))

    def _forget(self, request: Request) -> None:
        self._open.discard(request)
        for name in request.names or ():
            if name is not None and self.flying.get(name) is request:
                del self.flying[name]

    def close(self, reason: str) -> None:
        """Tell all who wait that there will be no answer."""
        for request in self._open:
            if not request.done.done():
                request.done.set_exception(Unavailable(reason))
