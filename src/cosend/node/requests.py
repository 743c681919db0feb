"""What clients wait for: items that came together are answered together, when all are labelled and on the disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from cosend.errors import NoAnswer, Unavailable
from cosend.node.commits import Commits
from cosend.node.flight import PHASE_NAMES, Decided, Flight, Flights, Request
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
        self.observed = 0  # requests that an observer answers
        self.late: dict[int, asyncio.Future[None]] = {}  # by number: told by an observer before its arm has answered

    def take(self, items: Sequence[Any], names: Sequence[str | None] | None, observer: str | None) -> Request:
        """Take items that are to be answered."""
        request = Request(items, names, observer)
        self.in_flight += len(items)
        self._open.add(request)
        self.observed += observer is not None
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
        told: Iterable[Decided] = map(
            Decided, names, labels, repeat(arm), phases, flights.cells, repeat(cost), flights.propensities
        )
        if self.observed or self.late:
            told = self._without_observed(flights, told)
        for request, place, decided in zip(flights.requests, flights.places, told, strict=True):
            if request.observer is None:
                request.results[place] = decided
        for request, count in Counter(flights.requests).items():
            if request.observer is not None:
                self.in_flight -= count
                continue
            if request.names is not None:
                # With its answer: whoever asks again after a crash gets the same.
                both = zip(flights.requests, flights.places, strict=True)
                self._write_names(request, [place for owner, place in both if owner is request])
            self._finished(request, count)

    def given_up(self, request: Request, place: int, reasons: dict[str, str]) -> None:
        """Take that no arm can label an item."""
        failed = NoAnswer(self.setup.name, reasons)
        if request.observer is None:
            request.results[place] = failed
            self._finished(request, 1)
        else:
            self.in_flight -= 1
            request.answers[place] = failed
            self.look_at(request, [place])

    # While decisions are only observed

    def chosen(self, arm: str, cost: float, flights: Flights) -> None:
        """Take what was chosen for items that an observer answers."""
        rows = zip(flights.requests, flights.places, flights.ids, flights.kinds, flights.cells, strict=True)
        for (request, place, number, kind, cell), propensity in zip(rows, flights.propensities, strict=True):
            if request.observer is not None and request.results[place] is None:
                name = request.name(place) or self._as_text(number)
                request.choices[place] = Decided(name, None, arm, PHASE_NAMES[kind], cell, cost, propensity)
                if request.numbers is not None:
                    request.numbers[place] = number
                self.look_at(request, [place])

    def look_at(self, request: Request, places: Iterable[int]) -> None:
        """Answer items of which enough is known: what the observer says, or if it has failed, what an arm says."""
        for place in places:
            if request.results[place] is not None or place not in request.shown:
                continue
            label, choice, answer = request.shown[place], request.choices.get(place), request.answers.get(place)
            result = answer
            if label is not None and choice is not None:
                choice.label, choice.answered_by = label, request.observer
                result = choice
            if isinstance(result, NoAnswer) and request.numbers is not None:
                request.numbers[place] = 0  # the choice was taken back, and nobody is told of it
            if result is not None:
                request.results[place] = result
                self.less(request, 1)

    def dropped(self, flight: Flight) -> None:
        """Take that an arm has failed for an item that an observer has answered: nobody waits for another arm."""
        self.in_flight -= 1
        flight.request.answers[flight.place] = NoAnswer(self.setup.name, flight.reasons)
        self._no_longer_late(flight.id)

    def _without_observed(self, flights: Flights, told: Iterable[Decided]) -> Iterator[Decided]:
        """Yield what arms say of items, and take it for those that an observer answers."""
        for request, place, number, decided in zip(flights.requests, flights.places, flights.ids, told, strict=True):
            if request.observer is not None:
                request.answers[place] = decided
                self.look_at(request, [place])
                self._no_longer_late(number)
            yield decided

    def _no_longer_late(self, number: int) -> None:
        late = self.late.pop(number, None)
        if late is not None and not late.done():
            late.set_result(None)

    def _names(self, flights: Flights) -> Iterable[str]:
        """Return the ids of decisions as their clients know them."""
        as_text = self._as_text
        if all(request.numbers is None for request in set(flights.requests)):  # nobody has named any
            return map(as_text, flights.ids)
        names = []
        for request, place, number in zip(flights.requests, flights.places, flights.ids, strict=True):
            names.append(request.name(place) or as_text(number))
            if request.numbers is not None:
                request.numbers[place] = number
        return names

    @property
    def _as_text(self) -> Callable[[int], str]:
        return self._number_as_text if self.has_numbers_as_names else str

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
        if request.observer is not None:
            self._show(request)
        if request.names is not None and request.observer is not None:
            self._write_names(request, range(len(request.items)))
        request.done.add_done_callback(lambda _: self._forget(request))
        self.commits.when_done(request.done, request.results)

    def _show(self, request: Request) -> None:
        numbers = request.numbers or []
        places = [place for place, label in request.shown.items() if label is not None and numbers[place]]
        told = {numbers[place]: request.shown[place] for place in places}
        for place in places:
            if place not in request.answers:
                self.late[numbers[place]] = request.done.get_loop().create_future()
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
        self.observed -= request.observer is not None and request in self._open
        self._open.discard(request)
        for name in request.names or ():
            if name is not None and self.flying.get(name) is request:
                del self.flying[name]

    def close(self, reason: str) -> None:
        """Tell all who wait that there will be no answer."""
        for number in [*self.late]:
            self._no_longer_late(number)
        for request in self._open:
            if not request.done.done():
                request.done.set_exception(Unavailable(reason))
