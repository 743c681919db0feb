"""How a running site decides: requests are merged in the choice and finish each on their own.

A cycle takes all items that are there, chooses for them together, and gives them to the models and peers. When one
answers, its items are done, whatever the others do. An item whose arm has failed is chosen for again without that arm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np

from cosend.core.kernel.ledger import Floats
from cosend.core.learner.learner import NOBODY
from cosend.core.learner.values import AskPeer, LabelledData
from cosend.errors import ContextError, CosendError, NoAnswer, Unavailable, shown
from cosend.node.calls import why
from cosend.node.commits import Commits
from cosend.node.counts import Counts
from cosend.node.flight import PHASE_NAMES, Decided, Flight, Request, Result
from cosend.node.labels import LABELS, are_labels, is_label
from cosend.node.peers import Peers
from cosend.node.setup import Setup
from cosend.node.workers import Answers, Replies, Worker, teach_all
from cosend.site.context import Column, read_columns
from cosend.site.events import Named, Shown
from cosend.site.label_check import LabelCheck
from cosend.site.messages import Forward, Lesson, Reply, Step
from cosend.site.past import Codes
from cosend.site.rules import Rules
from cosend.stores.log_index import NAME

NONE: Final[frozenset[str]] = frozenset()
NO_REASONS: Final[dict[str, str]] = {}
ITEM, ID, KIND = (Flight._fields.index(name) for name in ("item", "id", "kind"))
NO_TIME: Final = "no time is left to ask it"
Uses = dict[str, list[Any]]  # by arm: flights, as tuples
Flown = tuple[Sequence[Request], Sequence[int], Sequence[Any], Sequence[dict[str, str]]]
Told = Mapping[str, LabelledData]


class Deciding:
    """The items that are on their way."""

    def __init__(
        self,
        setup: Setup,
        rules: Rules,
        commits: Commits,
        workers: dict[str, Worker],
        peers: Peers,
        counts: Counts,
    ) -> None:
        self.setup, self.rules, self.commits, self.workers = setup, rules, commits, workers
        self.peers, self.breakers, self.counts = peers, peers.breakers, counts
        self.labels = LabelCheck(setup.name, strict=setup.strict_labels)
        self.observer: str | None = None  # the classifier that answers while decisions are only observed
        self.has_names = self.has_numbers_as_names = False  # that clients gave decisions
        self.is_taken: Callable[[int], bool] = lambda _: False
        self.flying: dict[str, Request] = {}  # by client's id
        self.in_flight = 0
        self._open: set[Request] = set()
        self._loop = asyncio.get_running_loop()
        self._new: list[Request] = []
        self._again: list[Flight] = []
        self._asks: dict[str, list[tuple[Flight, Told]]] = {}  # by peer: items that need to know what it would tell
        self._told: list[tuple[Flight, Told]] = []  # items of which it is known now
        self._scheduled = self._closed = False
        self._learning = [arm for arm, worker in workers.items() if worker.classifier.learns]

    # Items that come

    def take(self, items: Sequence[Any], names: Sequence[str | None] | None) -> Request:
        """Take items that are to be decided; a bad one among them raises and changes nothing."""
        if self.in_flight + len(items) > self.setup.most_flights:
            raise Unavailable(f"site {self.setup.name!r} has {self.in_flight:,} items on their way: try again later")
        request = Request(items, self._columns(items), names, self.observer)
        self.in_flight += len(items)
        self._new.append(request)
        self._open.add(request)
        for name in names or ():
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
        """Choose for all that is there, and let models label it."""
        self._scheduled = False
        if self._closed:
            return
        (new, self._new), (again, self._again), (told, self._told) = (
            (self._new, []),
            (self._again, []),
            (self._told, []),
        )
        uses: Uses = {}
        for flight, reports in told:
            self._choose_again([flight], frozenset(flight.reasons), uses, reports)
        if new:
            self._choose_new(new, uses)
        for failed, flights in _by_failures(again).items():
            self._choose_again(flights, failed, uses)
        for arm, flights in uses.items():
            self._use(arm, flights)
        asks, self._asks = self._asks, {}
        for peer, parked in asks.items():
            self.peers.start(self._ask(peer, parked))

    def _use(self, arm: str, flights: list[Any]) -> None:
        """Have an arm label items."""
        self.breakers.of(arm).used()
        cost = self.rules.learner.arms.cost(arm)  # now, whatever it is when the arm has answered
        if arm in self.workers:
            items = [flight[ITEM] for flight in flights]
            self.predict(arm, items, partial(self._answered, arm, cost, flights))
        else:
            self.peers.calls.call(arm, flights, lambda part, said: self._answered(arm, cost, part, 0, len(part), said))

    def _choose_new(self, requests: list[Request], uses: Uses) -> None:
        columns = requests[0].columns
        if len(requests) > 1:
            columns = [list(chain.from_iterable(parts)) for parts in zip(*(r.columns for r in requests), strict=True)]
        points = self.rules.place(columns)
        owners = [request for request in requests for _ in request.items]
        places = [*chain.from_iterable(range(len(request.items)) for request in requests)]
        items = [*chain.from_iterable(request.items for request in requests)]
        self._choose(points, (owners, places, items, (NO_REASONS,) * len(items)), NONE, (), uses)
        for request in requests:
            if request.observer is not None:
                self.predict(request.observer, request.items, partial(self._observed, request))

    def _choose_again(self, flights: list[Flight], failed: frozenset[str], uses: Uses, told: Told = NOBODY) -> None:
        points = np.array([self.rules.understand(flight.context, Codes.find) for flight in flights])
        owners, places, items, *_, arrivals, _, reasons = zip(*flights, strict=True)
        self._choose(points, (owners, places, items, reasons), failed, arrivals, uses, told)

    def _choose(
        self,
        points: Floats,
        flown: Flown,
        failed: frozenset[str],
        again: Sequence[int],
        uses: Uses,
        told: Told = NOBODY,
    ) -> None:
        """Choose for items: the columns of `flown` are their requests, places, items, and why arms failed for them.

        One for which a peer must be asked first waits for that; the others do not wait for it.
        """
        without = self._without(failed)
        if without is None:
            self._give_up(flown)
            return
        while True:
            step = self.rules.choose(points, told=told, without=without, again=again)
            self.post(step.forwards)
            self._enter(step, flown, uses)
            if step.ask is None:
                return
            done = len(step.arms)
            told = NOBODY if done else told
            known = self.peers.calls.known(step.ask) if self.in_flight > 1 else None  # one alone has time to ask
            if known is None:
                self._park(step.ask, [column[done] for column in flown], again[done] if again else 0, told)
                done, told = done + 1, NOBODY
            else:
                told = {**told, step.ask.peer: known}
            points, again = points[done:], again[done:]
            owners, places, items, reasons = flown
            flown = owners[done:], places[done:], items[done:], reasons[done:]
            if not len(points):
                return

    def _enter(self, step: Step, flown: Flown, uses: Uses) -> None:
        ids = range(step.first, step.first + len(step.arms))
        made = step.kinds, step.cells, step.propensities, step.arrivals, step.contexts
        owners, places, items, reasons = flown
        for arm, flight in zip(step.arms, zip(owners, places, items, ids, *made, reasons, strict=False), strict=False):
            if arm in uses:
                uses[arm].append(flight)
            else:
                uses[arm] = [flight]

    def _without(self, failed: frozenset[str]) -> frozenset[str] | None:
        """Return the arms that may not be chosen after some have failed; None if the item is given up.

        All peers are one try, and at the last try they are not asked any more.
        """
        peers = self.rules.learner.arms.peers.keys()
        tried = len(failed - peers) + bool(failed & peers)
        if tried > self.setup.retries:
            return None
        return self.left_out(failed, local_only=0 < tried == self.setup.retries)

    def left_out(self, failed: frozenset[str], *, local_only: bool = False) -> frozenset[str] | None:
        """Return the arms that may not be chosen; one that rests is tried all the same if nothing else is left."""
        arms = self.rules.learner.arms
        resting = self.breakers.out(arms.names) | self.peers.absent
        if local_only and arms.peers:
            failed = failed.union(arms.peers)
        if not failed and not resting and not arms.paused:
            return NONE
        usable = set(arms.names) - arms.paused - failed
        if not usable:
            return None
        return (failed | resting if usable - resting else failed) & set(arms.names)

    def _give_up(self, flown: Flown) -> None:
        owners, places, _, reasons = flown
        for request, place, why_not in zip(owners, places, reasons, strict=True):
            self._finish(request, {place: NoAnswer(self.setup.name, why_not)})
        self.counts.unanswered += len(places)

    # What peers would tell

    def _park(self, ask: AskPeer, row: list[Any], again: int, told: Told) -> None:
        """Let an item wait until a peer has told how much labelled data it has."""
        request, place, item, reasons = row
        flight = Flight(request, place, item, 0, 0, ask.cell, float("nan"), again, ask.context, reasons)
        self._asks.setdefault(ask.peer, []).append((flight, told))

    async def _ask(self, peer: str, parked: list[tuple[Flight, Told]]) -> None:
        try:
            reports = await self.peers.calls.ask(peer, [flight.context for flight, _ in parked])
        except CosendError as error:
            if not self._closed:
                self._failed(peer, [(flight, str(error)) for flight, _ in parked], why(error), worked=False)
            return
        self._told += [(flight, {**told, peer: data}) for (flight, told), data in zip(parked, reports, strict=True)]
        self._wake()

    def post(self, forwards: Sequence[Forward]) -> None:
        """Tell peers what they are to be told."""
        if forwards:
            self.peers.posting.post(forwards)

    # Models

    def predict(self, arm: str, items: Sequence[Any], then: Callable[[int, int, Answers], None]) -> None:
        """Let a model label items; `then` hears of it in the thread of the loop, for some of them at a time."""

        def done(start: int, end: int, answers: Answers) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(then, start, end, answers)

        # Copies: a model may change what it is given, and others see the same item, after it or beside it.
        self.workers[arm].predict(copies(items), done)

    def _answered(self, arm: str, cost: float, flown: list[Any], start: int, end: int, answers: Answers) -> None:
        """Enter what a model has answered, and choose again where it has failed."""
        if self._closed:
            return
        flights = flown if end - start == len(flown) else flown[start:end]
        if not isinstance(answers, Replies) and are_labels(answers):
            self._complete(arm, cost, flights, answers)
            return
        good, bad = list[Any](), list[tuple[Any, str]]()
        for flight, (label, failed) in zip(flights, replies_of(arm, answers), strict=True):
            if failed is None:
                good.append((flight, label))
            else:
                bad.append((flight, failed))
        if good:
            self._complete(arm, cost, [flight for flight, _ in good], [label for _, label in good])
        failures = [(Flight(*flight), why) for flight, why in bad]
        self._failed(arm, failures, kind_of(answers), worked=bool(good))

    def _complete(self, arm: str, cost: float, flights: list[Any], labels: list[Any]) -> None:
        """Enter labels, and answer those who asked."""
        self.worked(arm, labels)
        ids = [flight[ID] for flight in flights]
        kept = [copied(flight[ITEM]) for flight in flights] if self.keeps(arm) else []
        late = self.rules.complete(ids, labels, kept)
        if late:  # nothing waits for their label any more, but what clients are told must not be lost
            said = dict(zip(ids, labels, strict=True))
            self.commits.event(Shown(tuple(late), tuple(said[number] for number in late)))
        self.counts.decided(arm, [flight[KIND] for flight in flights])
        for request, results in self._results(arm, cost, flights, labels).items():
            self._finish(request, results)

    def _results(
        self, arm: str, cost: float, flights: list[Any], labels: list[Any]
    ) -> dict[Request, dict[int, Decided]]:
        """Return what is told of items, by request and place."""
        as_text = self._number_as_text if self.has_numbers_as_names else str
        results: dict[Request, dict[int, Decided]] = {}
        for (request, place, _, number, kind, cell, propensity, *_), label in zip(flights, labels, strict=True):
            if request not in results:
                results[request] = {}
            name = request.names and request.names[place]
            phase = PHASE_NAMES[kind]
            results[request][place] = Decided(name or as_text(number), label, arm, phase, cell, cost, propensity)
            if request.numbers is not None:
                request.numbers[place] = number
        return results

    def _number_as_text(self, number: int) -> str:
        """Return the id of a decision that its client gave none; another client may have taken the number as a name."""
        return f"#{number}" if self.is_taken(number) else str(number)

    def keeps(self, arm: str) -> bool:
        """Tell whether items are kept until their label comes: for the model that was used, or for all that learn."""
        return arm in self._learning or (bool(self._learning) and self.setup.learns_from == "all")

    def worked(self, arm: str, labels: Sequence[Any]) -> None:
        """Take note that an arm has answered."""
        self.breakers.of(arm).worked()
        self.labels.gave(labels)

    def _failed(self, arm: str, failures: list[tuple[Flight, str]], kind: str, *, worked: bool) -> None:
        """Choose again where an arm has failed; after a peer was late, there is no time for another one."""
        self.take_back(arm, [flight.id for flight, _ in failures if flight.id], failures[0][1], kind, worked=worked)
        peers = self.rules.learner.arms.peers
        rest = dict.fromkeys(peers, NO_TIME) if kind == "time" and arm in peers else {}
        self._again += [flight._replace(reasons={**rest, **flight.reasons, arm: why}) for flight, why in failures]
        self._wake()

    def take_back(self, arm: str, ids: Sequence[int], reason: str, kind: str, *, worked: bool) -> dict[int, int]:
        """Take back choices of an arm that has failed; returns those that still waited, as `Rules.fail` does."""
        self.counts.failed(arm, max(1, len(ids)), kind, reason)
        if not worked and self.breakers.of(arm).failed(reason):
            self.counts.opened(arm, reason)
        again, forwards = self.rules.fail(ids, arm, reason)
        self.post(forwards)
        return again

    def _observed(self, request: Request, start: int, end: int, answers: Answers) -> None:
        """Take what the classifier says that answers in place of the arms; if it fails, theirs is better than none."""
        if self._closed or request.observer is None:
            return
        for place, (label, failed) in enumerate(replies_of(request.observer, answers), start):
            if failed is None:
                request.shown[place] = label
            else:
                self.counts.failed(request.observer, 1, kind_of(answers), failed)
        self._less(request, end - start)

    # Items that are done

    def _finish(self, request: Request, results: Mapping[int, Result]) -> None:
        """Take what is told of some items of a request."""
        for place, result in results.items():
            request.results[place] = result
        self.in_flight -= len(results)
        self._less(request, len(results))

    def _less(self, request: Request, count: int) -> None:
        """Take note of answers; when all are there, and on the disk, the client is told."""
        request.left -= count
        if request.left:
            return
        if request.shown:
            self._show(request)
        if request.names is not None:
            self._write_names(request)
        request.done.add_done_callback(lambda _: self._forget(request))
        self.commits.when_done(request.done, request.results)

    def _show(self, request: Request) -> None:
        request.show()
        numbers = request.numbers or []
        told = {numbers[place]: label for place, label in request.shown.items() if numbers[place]}
        if told:
            self.commits.event(Shown(tuple(told), tuple(told.values()), request.observer or ""))

    def _write_names(self, request: Request) -> None:
        both = zip(request.numbers or (), request.names or (), strict=True)
        named = [(name, number) for number, name in both if name is not None and number]
        if named:
            self.has_names = True
            self.commits.also(NAME, named)
            self.commits.event(Named(tuple(number for _, number in named), tuple(name for name, _ in named)))

    def _forget(self, request: Request) -> None:
        self._open.discard(request)
        for name in request.names or ():
            if name is not None and self.flying.get(name) is request:
                del self.flying[name]

    # Labels that come

    def teach(self, lessons: Sequence[Lesson]) -> None:
        """Let models learn, each in its thread, in the order in which the labels were written down."""
        by_model: dict[str, list[tuple[Any, Any]]] = {}
        for lesson in lessons:
            for arm in self._learning if self.setup.learns_from == "all" else [lesson.classifier]:
                by_model.setdefault(arm, []).append((lesson.item, lesson.truth))
        for arm, pairs in by_model.items():
            worker = self.workers[arm]
            worker.do(partial(teach_all, worker, pairs), partial(self._taught, arm))

    def _taught(self, arm: str, failure: Any) -> None:
        """Hear, in the thread of a model, whether it could learn."""
        if failure is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.counts.failed, arm, 1, "lesson", str(failure))

    @property
    def is_open(self) -> bool:
        """Whether anything may still be entered."""
        return not self._closed

    def close(self, reason: str) -> None:
        """Take nothing any more, and tell all who wait."""
        self._closed = True
        for request in self._open:
            if not request.done.done():
                request.done.set_exception(Unavailable(reason))


def copies(items: Sequence[Any]) -> list[Any]:
    """Return copies of items: all at once if they are features by name."""
    return [*map(dict.copy if {*map(type, items)} == {dict} else copied, items)]


def copied(item: Any) -> Any:
    """Return a copy of an item."""
    return item.copy() if type(item) is dict else copy(item)


def _by_failures(flights: Iterable[Flight]) -> dict[frozenset[str], list[Flight]]:
    """Return the flights together that may be chosen for together: the same arms have failed for them."""
    groups: dict[frozenset[str], list[Flight]] = {}
    for flight in flights:
        groups.setdefault(frozenset(flight.reasons), []).append(flight)
    return groups


def kind_of(answers: Answers) -> str:
    """Return in a word why an arm has failed."""
    return answers.kind if isinstance(answers, Replies) else "label"


def replies_of(arm: str, answers: Answers) -> Iterator[Reply]:
    """Yield the answers of an arm one by one: a label that cannot be one is a failure too."""
    for answer in answers if isinstance(answers, Replies) else map(Reply, answers):
        if answer.failed is None and not is_label(answer.label):
            yield Reply(None, f"{arm!r} returned {shown(answer.label)}; {LABELS}")
        else:
            yield answer
