"""How a running site decides: requests are merged in the choice and finish each on their own.

A cycle takes all items that are there, chooses for them together, and gives them to the models and peers. When one
answers, its items are done, whatever the others do. An item whose arm has failed is chosen for again without that arm.

Any unexpected error in here ends as a failed commit does: whoever waits is told, and the site is rebuilt from its log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from typing import Any, Final

import numpy as np

from cosend.core.kernel.ledger import Floats
from cosend.core.learner.learner import NOBODY
from cosend.core.learner.values import AskPeer
from cosend.errors import CosendError, Unavailable, in_one_line
from cosend.node.arrivals import Arrivals, Part
from cosend.node.calls import Told, why
from cosend.node.commits import Commits
from cosend.node.counts import Counts
from cosend.node.flight import NO_TIME, Flight, Flights, Request
from cosend.node.labels import are_labels, kind_of, replies_of
from cosend.node.peers import Peers
from cosend.node.requests import Requests
from cosend.node.scoring import Beside
from cosend.node.setup import Setup
from cosend.node.workers import Answers, Replies, Worker, teach_all
from cosend.site.events import Shown
from cosend.site.label_check import LabelCheck
from cosend.site.lessons import taught_by
from cosend.site.messages import SILENT, Forward, Lesson, Step, main_reason
from cosend.site.past import Codes
from cosend.site.rules import Rules

LOG: Final = logging.getLogger("cosend.node")
NONE: Final[frozenset[str]] = frozenset()
NO_REASONS: Final[dict[str, str]] = {}
TURNS: Final = 3  # of the loop until the others are chosen for: by then calls to peers have left
Uses = dict[str, Flights]  # by arm
Flown = tuple[Sequence[Request], Sequence[int], Sequence[Any], Sequence[dict[str, str]]]


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
        self.requests = Requests(setup, commits)
        self._loop = asyncio.get_running_loop()
        self._arrivals = Arrivals(setup.axes, self.requests)
        self._again: list[Flight] = []
        self._asks: dict[str, list[tuple[Flight, Told]]] = {}  # by peer: items that need to know what it would tell
        self._told: list[tuple[Flight, Told]] = []  # items of which it is known now
        self._scheduled = self._closed = False
        self.heard = 0  # answers of models and peers, so that a site that does not move is noticed
        self.beside = Beside(rules, workers, self.breakers, counts, self.predict, self.worked)
        self._models = {arm: worker.classifier for arm, worker in workers.items()}
        self._learning = [arm for arm, model in self._models.items() if model.learns and arm not in self.beside.votes]

    # Items that come

    def take(self, items: Sequence[Any], names: Sequence[str | None] | None) -> Request:
        """Take items that are to be decided; if one of them is bad, the request fails and nothing changes."""
        self.requests.check_room(len(items))
        request = self.requests.take(items, names, self.observer)
        self._arrivals.add(request)
        self._wake()
        return request

    def _wake(self, turns: int = 1) -> None:
        """See to it that there is a cycle after so many turns of the loop."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._turn, turns - 1)

    def _turn(self, left: int) -> None:
        if left:
            self._loop.call_soon(self._turn, left - 1)
            return
        try:
            self._cycle()
        except Exception as error:  # half of it is done, and nobody knows which half
            self.fail(error)

    def _cycle(self) -> None:
        """Choose for all that is there, and let models label it."""
        self._scheduled = False
        if self._closed:
            return
        new = self._arrivals.take(all_at_once=not self.rules.learner.arms.peers)
        again, told, self._again, self._told = self._again, self._told, [], []
        if self._arrivals:
            self._wake(turns=TURNS)
        uses: Uses = {}
        for flight, reports in told:
            self._choose_again([flight], uses, reports)
        if new.items:
            self._choose_new(new, uses)
        for flights in _by_failures(again):
            self._choose_again(flights, uses)
        for arm, used in uses.items():
            self._use(arm, used)
        asks, self._asks = self._asks, {}
        for peer, parked in asks.items():
            self.peers.start(self._ask(peer, parked))

    def _use(self, arm: str, flights: Flights) -> None:
        """Have an arm label items."""
        self.breakers.of(arm).used()
        cost = self.rules.learner.arms.cost(arm)  # now, whatever it is when the arm has answered
        then = partial(self._answered, arm, cost, flights)
        if arm in self.workers:
            self.beside.label(arm, flights.ids, flights.items, then)
        else:
            scored = self.beside.when_scored(arm, flights.ids, flights.items, then)
            self.peers.calls.call(arm, flights, partial(self._hear, scored))

    def _choose_new(self, new: Part, uses: Uses) -> None:
        owners, places, items, columns = new
        for start, points in self.rules.placed(columns, len(items)):
            part = slice(start, start + len(points))
            flown = owners[part], places[part], items[part], [NO_REASONS] * len(points)
            self._choose(points, flown, self._without(NONE, 0), NONE, (), uses)
        for request, count in Counter(owners).items():
            if request.observer is not None:
                first = places[owners.index(request)]
                some = request.items[first : first + count]
                self.beside.label(request.observer, [0] * count, some, partial(self._observed, request, first))

    def _choose_again(self, flights: list[Flight], uses: Uses, told: Told = NOBODY) -> None:
        """Choose for items that were tried before, with the same arms."""
        without, silent = self._without(frozenset(flights[0].reasons), flights[0].tries), flights[0].silent
        points = np.array([self.rules.understand(flight.context, Codes.find) for flight in flights])
        owners, places, items, *_, arrivals, _, reasons = zip(*flights, strict=True)
        self._choose(points, (owners, places, items, reasons), without, silent, arrivals, uses, told)

    def _choose(
        self,
        points: Floats,
        flown: Flown,
        without: frozenset[str] | None,
        silent: frozenset[str],
        again: Sequence[int],
        uses: Uses,
        told: Told = NOBODY,
    ) -> None:
        """Choose for items: the columns of `flown` are their requests, places, items, and why arms failed for them.

        They are given up if no arm is left for them (`without` is None), unless some of those that were tried had no
        answer (`silent`). One for which a peer must be asked first waits for that; the others do not wait for it.
        """
        if without is None:
            blank = silent & self.workers.keys() - self.rules.learner.arms.paused
            if blank:
                self._leave_blank(points, flown, blank, again)
            else:
                self._let_observers_decide(points, flown, again, uses)
            return
        while True:
            step = self.rules.choose(points, told=told, without=without, again=again)
            self.post(step.forwards)
            self._enter(step, flown, uses)
            if step.ask is None:
                return
            done = len(step.arms)
            told = NOBODY if done else told
            known = (
                self.peers.calls.known(step.ask) if self.requests.in_flight > 1 else None
            )  # one alone has time to ask
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
        if not step.arms:
            return
        ids = range(step.first, step.first + len(step.arms))
        made = step.kinds, step.cells, step.propensities, step.arrivals, step.contexts
        owners, places, items, reasons = flown
        flights = Flights(owners, places, items, ids, *made, reasons)
        for arm, rows in step.uses().items():
            used = flights.at(rows)
            if self.requests.observed:
                self.requests.chosen(arm, self.rules.learner.arms.cost(arm), used)
            uses[arm] = uses[arm].with_others(used) if arm in uses else used

    def _without(self, failed: frozenset[str], tries: int) -> frozenset[str] | None:
        """Return the arms that may not be chosen for items that were tried so often; None if they are given up.

        As for a `Site`: there are `retries` further tries, the last of them among local classifiers.
        """
        if tries > self.setup.retries:
            return None
        return self.left_out(failed, local_only=0 < tries == self.setup.retries)

    def left_out(self, failed: frozenset[str], *, local_only: bool = False) -> frozenset[str] | None:
        """Return the arms that may not be chosen; one that rests is tried all the same if nothing else is left."""
        arms = self.rules.learner.arms
        resting = self.breakers.out(arms.names) | self.peers.out()
        if local_only and arms.peers:
            failed = failed.union(arms.peers)
        if not failed and not resting and not arms.paused:
            return NONE
        usable = set(arms.names) - arms.paused - failed
        if not usable:
            return None
        return (failed | resting if usable - resting else failed) & set(arms.names)

    def _leave_blank(self, points: Floats, flown: Flown, silent: frozenset[str], again: Sequence[int]) -> None:
        """Let items wait for their labels without an answer, each as a classifier that had none."""
        arms = self.rules.learner.arms
        step = self.rules.choose(points, without=frozenset(arms.names) - silent, again=again)
        self.post(step.forwards)
        uses: Uses = {}
        self._enter(step, flown, uses)
        for arm, flights in uses.items():
            self._complete(arm, arms.cost(arm), flights, [None] * len(flights.ids))

    def _let_observers_decide(self, points: Floats, flown: Flown, again: Sequence[int], uses: Uses) -> None:
        """Take the classifier that answers anyway as the arm, though no arm is left; give up the other items.

        So its answers are decisions like all others: recorded, and the same when they are asked for again.
        """
        rows_of: dict[str | None, list[int]] = {}
        for row, (request, reasons) in enumerate(zip(flown[0], flown[3], strict=True)):
            rows_of.setdefault(None if request.observer in reasons else request.observer, []).append(row)
        for observer, rows in rows_of.items():
            columns: Any = [[column[row] for row in rows] for column in flown]
            if observer is None:
                self._give_up(columns)
            else:
                step = self._observe(observer, points[rows], [again[row] for row in rows] if again else ())
                self.post(step.forwards)
                self._enter(step, columns, uses)

    def _observe(self, observer: str, points: Floats, again: Sequence[int]) -> Step:
        """Choose the observer, also if it is paused."""
        rules, arms = self.rules, self.rules.learner.arms
        is_paused = observer in arms.paused
        if is_paused:
            rules.resume(observer)
        step = rules.choose(points, without=frozenset(arms.names) - {observer}, again=again)
        if is_paused:
            rules.pause(observer)
        return step

    def _give_up(self, flown: Flown) -> None:
        owners, places, _, reasons = flown
        for request, place, why_not in zip(owners, places, reasons, strict=True):
            self.requests.given_up(request, place, why_not)
            self.counts.unanswered += request.observer is None

    # What peers would tell

    def _park(self, ask: AskPeer, row: list[Any], again: int, told: Told) -> None:
        """Let an item wait until a peer has told how much labelled data it has."""
        request, place, item, reasons = row
        flight = Flight(request, place, item, 0, 0, ask.cell, float("nan"), again, ask.context, reasons)
        self._asks.setdefault(ask.peer, []).append((flight, told))

    async def _ask(self, peer: str, parked: list[tuple[Flight, Told]]) -> None:
        try:
            told = await self.peers.calls.ask(peer, parked, self.rules.learner.arms.peers)
        except CosendError as error:
            if not self._closed:
                self._failed(peer, [(flight, str(error)) for flight, _ in parked], why(error), worked=False)
            return
        self._told += told  # and not before it waits: another list may be there by then
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
                self._loop.call_soon_threadsafe(self._hear, then, start, end, answers)

        # Copies: a model may change what it is given, and others see the same item, after it or beside it.
        self.workers[arm].predict(copies(items), done)

    def _hear(self, then: Callable[[int, int, Answers], None], start: int, end: int, answers: Answers) -> None:
        """Hear what a model or a peer has said."""
        self.heard += 1
        try:
            then(start, end, answers)
        except Exception as error:  # half of it is entered, and nobody knows which half
            self.fail(error)

    def _answered(self, arm: str, cost: float, flown: Flights, start: int, end: int, answers: Answers) -> None:
        """Enter what an arm has answered, and choose again where it has failed."""
        if self._closed:
            return
        flights = flown.part(start, end)
        if not isinstance(answers, Replies) and are_labels(answers):
            self._complete(arm, cost, flights, answers)
            return
        replies = [*replies_of(arm, answers)]
        good = [row for row, reply in enumerate(replies) if reply.failed is None]
        if good:
            self._complete(arm, cost, flights.at(good), [replies[row].label for row in good])
        both = zip(flights.one_by_one(), replies, strict=True)
        failures = [(flight, reply.failed) for flight, reply in both if reply.failed is not None]
        if failures:  # of those that went along with other people's items, none may have failed
            self._failed(arm, failures, kind_of(answers), worked=bool(good))

    def _complete(self, arm: str, cost: float, flights: Flights, labels: list[Any]) -> None:
        """Enter labels, and answer those who asked."""
        self.worked(arm)
        kept = copies(flights.items) if self.keeps(arm) else []
        late = self.rules.complete(flights.ids, labels, kept, self.beside.said(flights.ids))
        if late:  # nothing waits for their label any more, but what clients are told must not be lost
            said = dict(zip(flights.ids, labels, strict=True))
            self.commits.event(Shown(tuple(late), tuple(said[number] for number in late)))
        self.counts.decided(arm, flights.kinds)
        self.requests.decided(arm, cost, flights, labels)

    def keeps(self, arm: str) -> bool:
        """Tell whether items are kept until their label comes: for the model that was used, or for all that learn."""
        return arm in self._learning or (bool(self._learning) and self.setup.learns_from == "all")

    def worked(self, arm: str) -> None:
        """Take note that an arm has answered."""
        self.breakers.of(arm).worked()

    def _failed(self, arm: str, failures: list[tuple[Flight, str]], kind: str, *, worked: bool) -> None:
        """Choose again where an arm has failed; after a peer was late, there is no time for another one."""
        reason = main_reason(why for _, why in failures)
        self.take_back(arm, [flight.id for flight, _ in failures if flight.id], reason, kind, worked=worked)
        peers = self.rules.learner.arms.peers
        rest = dict.fromkeys(peers, NO_TIME) if kind == "time" and arm in peers else {}
        failed = [flight._replace(reasons={**rest, **flight.reasons, arm: why}) for flight, why in failures]
        for flight in failed:
            if flight.request.results[flight.place] is None:
                self._again.append(flight)
            else:  # an observer has answered it
                self.requests.dropped(flight)
        self._wake()

    def take_back(self, arm: str, ids: Sequence[int], reason: str, kind: str, *, worked: bool) -> dict[int, int]:
        """Take back choices of an arm that has failed; returns those that still waited, as `Rules.fail` does.

        One that has no answer has not failed.
        """
        if reason == SILENT:
            self.worked(arm)
        else:
            self._count_failure(arm, max(1, len(ids)), reason, kind, worked=worked)
        again, forwards = self.rules.fail(ids, arm, reason)
        self.beside.said(ids)  # and forget it
        self.post(forwards)
        return again

    def _count_failure(self, arm: str, count: int, reason: str, kind: str, *, worked: bool) -> None:
        self.counts.failed(arm, count, kind, reason)
        if kind == "item":  # nothing is known of the arm: it was not asked
            self.breakers.of(arm).forget_try()
        elif not worked and self.breakers.of(arm).failed(reason):
            self.counts.opened(arm, reason)

    def _observed(self, request: Request, first: int, start: int, end: int, answers: Answers) -> None:
        """Take what the classifier says that answers in place of the arms; if it fails, theirs is better than none."""
        if self._closed or request.observer is None:
            return
        for place, (label, failed) in enumerate(replies_of(request.observer, answers), first + start):
            request.shown[place] = label if failed is None else None
            if failed is not None and failed != SILENT:
                self.counts.failed(request.observer, 1, kind_of(answers), failed)
        self.requests.look_at(request, range(first + start, first + end))

    # Labels that come

    def teach(self, lessons: Sequence[Lesson]) -> None:
        """Let models learn, each in its thread, in the order in which the labels were written down."""
        by_model: dict[str, list[tuple[Any, Any]]] = {}
        for lesson in lessons:
            for arm, seen in taught_by(lesson, self._models, self.setup.learns_from):
                by_model.setdefault(arm, []).append((seen, lesson.truth))
        for arm, pairs in by_model.items():
            worker = self.workers[arm]
            worker.do(partial(teach_all, worker, pairs), partial(self._taught, arm))

    def _taught(self, arm: str, failure: Any) -> None:
        """Hear, in the thread of a model, whether it could learn."""
        if failure is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.counts.failed, arm, 1, "lesson", str(failure))

    # When something goes wrong

    @property
    def is_open(self) -> bool:
        """Whether anything may still be entered."""
        return not self._closed

    def fail(self, error: Exception) -> None:
        """Give up after an unexpected error, as after a failed commit: the state may be ahead of the log."""
        if self.is_open:
            LOG.error("an unexpected error", exc_info=error)
            self.commits.give_up(f"an unexpected error ({in_one_line(error)})")

    @contextmanager
    def whole_changes(self) -> Iterator[None]:
        """Give up if an error leaves a change of the state half done; one found by a check, before it, does not."""
        try:
            yield
        except Exception as error:
            if not self.rules.is_behind:
                raise
            self.fail(error)
            raise Unavailable(f"nothing is promised: an unexpected error ({in_one_line(error)})") from error

    def close(self, reason: str) -> None:
        """Take nothing any more, and tell all who wait."""
        self._closed = True
        self.requests.close(reason)


def copies(items: Sequence[Any]) -> list[Any]:
    """Return copies of items."""
    return [*map(dict.copy if set(map(type, items)) == {dict} else copy, items)]


def _by_failures(flights: Iterable[Flight]) -> Iterable[list[Flight]]:
    """Return the flights together that may be chosen for together: the same arms failed or had no answer."""
    groups: dict[tuple[frozenset[str], int, frozenset[str]], list[Flight]] = {}
    for flight in flights:
        groups.setdefault((frozenset(flight.reasons), flight.tries, flight.silent), []).append(flight)
    return groups.values()
