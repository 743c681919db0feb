"""How a running site decides: requests are merged in the choice and finish each on their own.

A cycle takes all items that are there, chooses for them together, and gives them to the models. When a model answers,
its items are done, whatever the others do. An item whose arm has failed is chosen for again without that arm.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np

from cosend.core.kernel.ledger import Floats
from cosend.errors import ContextError, CosendError, NoAnswer, Unavailable, shown
from cosend.node.breaker import Breakers
from cosend.node.commits import Commits
from cosend.node.counts import Counts
from cosend.node.flight import Decided, Flight, Request
from cosend.node.lessons import taught
from cosend.node.setup import Setup
from cosend.node.workers import Worker
from cosend.site.context import Column, read_columns
from cosend.site.events import Named
from cosend.site.label_check import LabelCheck
from cosend.site.messages import Lesson, Reply
from cosend.site.rules import Rules
from cosend.stores.decisions import ADD

NONE: Final[frozenset[str]] = frozenset()
SMALLEST: Final = -(2**63)
LARGEST: Final = 2**64 - 1
LABELS: Final = "a label is text, a truth value, nothing, or a number that 64 bits hold"


def is_label(label: Any) -> bool:
    """Tell whether a label can travel and be written down."""
    kind = type(label)  # and no kind of it: an Enum or another subclass of text would come back as something else
    if kind is str:
        return label.isascii() or _is_utf8(label)
    if kind is float:
        return math.isfinite(label)
    return kind is bool or label is None or (kind is int and SMALLEST <= label <= LARGEST)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Deciding:
    """The items that are on their way."""

    def __init__(
        self,
        setup: Setup,
        rules: Rules,
        commits: Commits,
        workers: dict[str, Worker],
        breakers: Breakers,
        counts: Counts,
    ) -> None:
        self.setup, self.rules, self.commits, self.workers = setup, rules, commits, workers
        self.breakers, self.counts = breakers, counts
        self.labels = LabelCheck(setup.name, strict=setup.strict_labels)
        self.observer: str | None = None  # the classifier that answers while decisions are only observed
        self.names_taken: Callable[[int], bool] = lambda number: False
        self.flying: dict[str, Request] = {}  # by client's id
        self.in_flight = 0
        self._open: set[Request] = set()
        self._loop = asyncio.get_running_loop()
        self._new: list[Request] = []
        self._again: list[Flight] = []
        self._scheduled = self._closed = False
        self._learning = [arm for arm, worker in workers.items() if worker.classifier.learns]

    # Items that come

    def take(self, items: Sequence[Any], names: Sequence[str | None]) -> Request:
        """Take items that are to be decided; a bad one among them raises and changes nothing."""
        if self.in_flight + len(items) > self.setup.most_flights:
            raise Unavailable(f"site {self.setup.name!r} has {self.in_flight:,} items on their way: try again later")
        request = Request(items, self._columns(items), names)
        self.in_flight += len(items)
        self._new.append(request)
        self._open.add(request)
        for name in names:
            if name is not None:
                self.flying[name] = request
        self._wake()
        return request

    def _columns(self, items: Sequence[Any]) -> list[Column]:
        try:
            return read_columns(self.setup.axes, items)
        except ContextError:
            for place, item in enumerate(items):
                try:
                    read_columns(self.setup.axes, [item])
                except ContextError as error:
                    raise ContextError(f"items.{place}: {error}") from error
            raise

    def _wake(self) -> None:
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._cycle)

    def _cycle(self) -> None:
        """Choose for all that is there."""
        self._scheduled = False
        if self._closed:
            return
        (new, self._new), (again, self._again) = (self._new, []), (self._again, [])
        uses: dict[str, list[Flight]] = {}
        if new:
            self._choose_new(new, uses)
        for failed, flights in _by_failures(again).items():
            self._choose(flights, np.array([flight.point for flight in flights]), failed, uses)
        for arm, flights in uses.items():
            self.breakers.of(arm).used()
            self._predict(arm, flights, self._answered)

    def _choose_new(self, requests: list[Request], uses: dict[str, list[Flight]]) -> None:
        columns = requests[0].columns
        if len(requests) > 1:
            columns = [list(chain.from_iterable(parts)) for parts in zip(*(r.columns for r in requests), strict=True)]
        points = self.rules.place(columns)
        flown = ((request, place) for request in requests for place in range(len(request.items)))
        rows = zip(flown, points, self.rules.spell_all(points), strict=True)
        flights = [Flight(request, place, point, context) for (request, place), point, context in rows]
        self._choose(flights, points, NONE, uses)
        if self.observer is not None:
            self._observe(flights, self.observer)

    def _choose(
        self, flights: list[Flight], points: Floats, failed: frozenset[str], uses: dict[str, list[Flight]]
    ) -> None:
        without = self._left_out(failed)
        if without is None or len(failed) > self.setup.retries:
            self._give_up(flights)
            return
        again = [flight.again for flight in flights] if failed else []
        step = self.rules.choose(points, without=without, again=again)
        costs = self.rules.learner.arms.own
        ids = range(step.first, step.first + len(flights))
        rows = zip(ids, step.arms, step.kinds, step.cells, step.propensities, step.arrivals, strict=True)
        for flight, row in zip(flights, rows, strict=True):
            arm = row[1]
            flight.chosen(*row, cost=costs[arm])
            uses.setdefault(arm, []).append(flight)

    def _left_out(self, failed: frozenset[str]) -> frozenset[str] | None:
        """Return the arms that may not be chosen; one that rests is tried all the same if nothing else is left."""
        arms = self.rules.learner.arms
        resting = self.breakers.out(arms.names)
        if not failed and not resting and not arms.paused:
            return NONE
        usable = set(arms.names) - arms.paused - failed
        if not usable:
            return None
        return failed | resting if usable - resting else failed

    def _give_up(self, flights: Iterable[Flight]) -> None:
        for flight in flights:
            self._finish(flight, NoAnswer(self.setup.name, flight.reasons or {}))
            self.counts.unanswered += 1

    # Models

    def _predict(self, arm: str, flights: list[Flight], then: Callable[[str, list[Flight], list[Reply]], None]) -> None:
        """Let a model label items; `then` hears of it in the thread of the loop, for some of them at a time."""

        def done(start: int, replies: list[Reply]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(then, arm, flights[start : start + len(replies)], replies)

        # A copy: a model may change what it is given, and others see the same item, after it or beside it.
        self.workers[arm].predict([copy(flight.item) for flight in flights], done)

    def _answered(self, arm: str, flights: list[Flight], replies: list[Reply]) -> None:
        """Enter what a model has answered, and choose again where it has failed."""
        if self._closed:
            return
        good, bad = list[Flight](), list[tuple[Flight, str]]()
        for flight, (label, failed) in zip(flights, replies, strict=True):
            if failed is None and is_label(label):
                flight.label = label
                good.append(flight)
            else:
                bad.append((flight, failed or f"classifier {arm!r} returned {shown(label)}; {LABELS}"))
        if good:
            self.breakers.of(arm).worked()
            self._complete(arm, good)
        if bad:
            self._failed(arm, bad, worked=bool(good))

    def _complete(self, arm: str, flights: list[Flight]) -> None:
        labels = [flight.label for flight in flights]
        keeps = arm in self._learning or (self._learning and self.setup.learns_from == "all")
        items = [copy(flight.item) for flight in flights] if keeps else []
        self.rules.complete([flight.id for flight in flights], labels, items)
        self.labels.gave(labels)
        self._land(flights)

    def _failed(self, arm: str, failures: list[tuple[Flight, str]], *, worked: bool) -> None:
        reason = failures[0][1]
        self.counts.failed(arm, len(failures), reason)
        if not worked and self.breakers.of(arm).failed(reason):
            self.counts.opened(arm, reason)
        self.rules.fail([flight.id for flight, _ in failures], arm, reason)
        for flight, why in failures:
            flight.reasons = {**(flight.reasons or {}), arm: why}
            self._again.append(flight)
        self._wake()

    def _observe(self, flights: list[Flight], observer: str) -> None:
        """Let another classifier answer these items; what was decided is only learnt from."""
        for flight in flights:
            flight.missing, flight.shown_by = 2, observer
        self._predict(observer, flights, self._observed)

    def _observed(self, arm: str, flights: list[Flight], replies: list[Reply]) -> None:
        if self._closed:
            return
        for flight, (label, failed) in zip(flights, replies, strict=True):
            if failed is None and is_label(label):
                flight.shown = label
            else:  # an answer of the arm is better than none
                flight.shown_by = None
                self.counts.failed(arm, 1, failed or f"returned {shown(label)}")
        self._land(flights)

    # Items that are done

    def _land(self, flights: list[Flight]) -> None:
        """Take note of answers; a flight that has all it needs is over."""
        now, named = time.time(), list[Flight]()
        for flight in flights:
            flight.missing -= 1
            if flight.missing:
                continue
            name = flight.name
            if name is not None:
                named.append(flight)
            decided, kept = flight.answer(name or self._number_as_text(flight.id))
            self.commits.also(ADD, (flight.id, name, now, kept))
            self.counts.decided(flight.arm, flight.kind)
            self._finish(flight, decided)
        if named:
            self.commits.event(Named(tuple(f.id for f in named), tuple(f.name or "" for f in named)))

    def _number_as_text(self, number: int) -> str:
        """Return the id of a decision that its client gave none; another client may have taken the number as a name."""
        return f"#{number}" if self.names_taken(number) else str(number)

    def _finish(self, flight: Flight, result: Decided | NoAnswer) -> None:
        request = flight.request
        request.results[flight.place] = result
        request.left -= 1
        self.in_flight -= 1
        if not request.left:
            request.done.add_done_callback(lambda _: self._forget(request))
            self.commits.when_done(request.done, request.results)

    def _forget(self, request: Request) -> None:
        self._open.discard(request)
        for name in request.names:
            if name is not None and self.flying.get(name) is request:
                del self.flying[name]

    # Labels that come

    def teach(self, lessons: Sequence[Lesson]) -> None:
        """Let models learn, each in its thread, in the order in which the labels were written down."""
        by_model: dict[str, list[tuple[Any, Any]]] = {}
        for lesson in lessons:
            every = self.setup.learns_from == "all"
            for arm in self._learning if every else [lesson.classifier]:
                by_model.setdefault(arm, []).append((lesson.item, lesson.truth))
        for arm, pairs in by_model.items():
            self.workers[arm].do(partial(teach_all, self.workers[arm], pairs), partial(self._taught, arm))

    def _taught(self, arm: str, failure: Any) -> None:
        """Hear, in the thread of a model, whether it could learn."""
        if failure is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.counts.failed, arm, 1, str(failure))

    def close(self, why: str) -> None:
        """Take nothing any more, and tell all who wait."""
        self._closed = True
        for request in self._open:
            if not request.done.done():
                request.done.set_exception(Unavailable(why))


def teach_all(worker: Worker, pairs: Iterable[tuple[Any, Any]]) -> CosendError | None:
    """Let a model learn from items and their labels, all of them, and return what went wrong."""
    wrong: CosendError | None = None
    for item, truth in pairs:
        wrong = taught(worker.name, worker.classifier, item, truth) or wrong
    return wrong


def _by_failures(flights: Iterable[Flight]) -> dict[frozenset[str], list[Flight]]:
    """Return the flights together that may be chosen for together: the same arms have failed for them."""
    groups: dict[frozenset[str], list[Flight]] = {}
    for flight in flights:
        groups.setdefault(frozenset(flight.reasons or ()), []).append(flight)
    return groups
