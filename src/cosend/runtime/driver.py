"""Executes what the engine of a running site needs: on the threads of models, over the link to peers, and on the log.

All of it happens in the thread of the event loop, which alone touches the engine. Items of several requests are
submitted together; each request is answered when its own items are done. Any unexpected error in here ends as a failed
commit does: all waiting requests get an error, and the site is rebuilt from its log.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from itertools import chain
from typing import Any, Final, ParamSpec

from cosend.algorithm.values import LabelledData
from cosend.axes import Axis, Column, read_columns
from cosend.checks import is_missing
from cosend.engine.engine import Batch, Engine
from cosend.engine.learnt_arms import grow
from cosend.engine.needs import (
    AskPeer,
    Call,
    CallPeer,
    Done,
    Failure,
    FitTrees,
    Forward,
    Need,
    RunModel,
    TellPeer,
    TrainModel,
)
from cosend.errors import ContextError, Unavailable, in_one_line, shown
from cosend.models.adapters import Predicted
from cosend.runtime.client_requests import Owners, Request, Requests
from cosend.runtime.label_history import Notable
from cosend.runtime.log_writer import Commits
from cosend.runtime.model_threads import Worker, fit_beside, teach_all
from cosend.runtime.peer_calls import Calls
from cosend.runtime.posting import Posting
from cosend.runtime.site_setup import Setup
from cosend.transport.link import Link

P = ParamSpec("P")
LOG: Final = logging.getLogger("cosend.runtime")
MOST_WITH_PEERS: Final = 256  # items of several requests if there are peers: a call would wait for all of them
MOST_IN_A_TURN: Final = 1_000  # items, also of one request, so that others get their turn
TURNS: Final = 3  # of the loop until the next items are submitted: then calls to peers have left


class Driver:
    """Drives the engine of a running site."""

    def __init__(
        self,
        setup: Setup,
        engine: Engine,
        commits: Commits,
        workers: Mapping[str, Worker],
        link: Link | None,
        start: Callable[[Any], object],
        notable: Notable,
    ) -> None:
        self.setup, self.engine, self.commits, self.workers = setup, engine, commits, workers
        self.calls = Calls(link, commits, setup.deadline_s, start, self._called, self._reported)
        self.posting = Posting(engine.state, commits, link, start)
        self.requests = Requests(setup.name, commits)
        self._notable = notable
        self._loop = asyncio.get_running_loop()
        self._arrivals = Arrivals(setup.axes, self.requests)
        self._answering: set[asyncio.Future[None]] = set()  # calls of peers that are not answered yet
        self._scheduled = self._closed = False

    # Items that come

    def take(self, items: Sequence[Any], names: Sequence[str | None] | None) -> Request:
        """Take items that are to be decided; if one of them is bad, the request fails and nothing changes."""
        waiting = self.engine.in_flight + self._arrivals.count
        if waiting + len(items) > self.setup.most_flights:
            raise Unavailable(f"site {self.setup.name!r} has {waiting:,} items in flight: retry later")
        request = self.requests.take(items, names)
        self._arrivals.add(request)
        self._wake()
        return request

    @property
    def in_flight(self) -> int:
        return self.engine.in_flight + self._arrivals.count

    def _wake(self, turns: int = 1) -> None:
        """Submit items after this many turns of the loop."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._turn, turns - 1)

    def _turn(self, left: int) -> None:
        if left:
            self._loop.call_soon(self._turn, left - 1)
            return
        self._scheduled = False
        self._enter(self._submit)

    def _submit(self) -> None:
        has_peers = bool(self.engine.state.learner.arms.peers)
        owners, items, columns = self._arrivals.take(MOST_WITH_PEERS if has_peers else MOST_IN_A_TURN)
        if self._arrivals.count:
            self._wake(turns=TURNS)
        if items:
            self.engine.submit(items, columns, owners)

    async def take_recorded(self, items: Sequence[Any]) -> Batch:
        """Have free local models say what they think of rows of a recording; returns when all is chosen."""
        columns = read_columns(self.setup.axes, items)
        done: asyncio.Future[None] = self._loop.create_future()
        with self.whole_changes():
            self.engine.now = time.monotonic()
            batch = self.engine.submit(items, columns, done, recorded=True)
            self.run()
        self._answering.add(done)
        try:
            if batch.left:
                await done
        finally:
            self._answering.discard(done)
        return batch

    # Needs of the engine

    def run(self) -> None:
        for need in self.engine.take():
            self._execute(need)

    def _execute(self, need: Need) -> None:
        if isinstance(need, Done):
            if need.batch.caller is None and not need.batch.recorded:
                self.requests.answer(need.batch, need.rows)
                self._notable.decided(need.batch, need.rows, self.engine.state.learner.arms.own)
            elif not need.batch.left and need.batch.owner is not None and not need.batch.owner.done():
                need.batch.owner.set_result(None)
        elif isinstance(need, RunModel):
            # Copies: a model may change its input, and others see the same item.
            self.workers[need.model].predict(copies(need.items), partial(self._said, need))
        elif isinstance(need, CallPeer):
            self.calls.call(need)
        elif isinstance(need, AskPeer):
            self.calls.ask(need)
        elif isinstance(need, TellPeer):
            self.posting.deliver(need.peer)
        elif isinstance(need, FitTrees):
            fit_beside(partial(self._fit, need))
        elif isinstance(need, TrainModel):
            worker = self.workers[need.model]
            work = partial(teach_all, need.model, worker.classifier, need.examples)
            worker.do(work, partial(self._trained, need.model))

    def _said(self, need: RunModel, start: int, end: int, answers: Predicted) -> None:
        """Take what a model says, in its thread."""
        with suppress(RuntimeError):  # the loop is closed: no client waits
            self._loop.call_soon_threadsafe(self._enter, self._take_answers, need, start, answers)

    def _take_answers(self, need: RunModel, start: int, answers: Predicted) -> None:
        labels = checked(need.model, answers.labels)
        if need.is_opinion:
            self.engine.heard(need, start, labels, answers.confidences, answers.costs)
        else:
            self.engine.answered(need, start, labels, costs=answers.costs)

    def _fit(self, need: FitTrees) -> None:
        """Fit trees, in a separate thread."""
        trees = None
        try:
            trees = grow(need.window)
        except Exception as error:  # for want of memory, say; the old ones answer on
            LOG.error("trees could not be fitted", extra={"reason": in_one_line(error)})
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._enter, self.engine.fitted, need, trees)

    def _called(self, need: CallPeer, start: int, answers: list[Any], reports: Sequence[LabelledData]) -> None:
        self._enter(self.engine.answered, need, start, checked(need.peer, answers), reports)

    def _reported(self, need: AskPeer, reports: Sequence[LabelledData] | Failure) -> None:
        self._enter(self.engine.reported, need, reports)

    def _trained(self, model: str, failure: Any) -> None:
        """Take, in the thread of a model, whether it could learn."""
        if failure is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.engine.counts.failed, model, ["lesson"], str(failure))

    def _enter(self, verb: Callable[P, object], *arguments: P.args, **options: P.kwargs) -> None:
        """Pass something to the engine, and execute what it needs then."""
        if self._closed:
            return
        try:
            self.engine.now, self.engine.at = time.monotonic(), time.time()
            verb(*arguments, **options)
            self.run()
        except Exception as error:  # half of it is entered, and it is unknown which half
            self.fail(error)

    def tick(self) -> None:
        self._enter(self.engine.tick)

    # Requests of peers

    async def answer(self, call: Call) -> Batch:
        done: asyncio.Future[None] = self._loop.create_future()
        with self.whole_changes():
            self.engine.now = time.monotonic()
            batch = self.engine.asked(call, done)
            self.run()
        self._answering.add(done)
        try:
            if batch.left:
                await done
        except BaseException:
            self.abandon(batch)
            raise
        finally:
            self._answering.discard(done)
        return batch

    def abandon(self, batch: Batch) -> None:
        """Withdraw answers that were not sent."""
        if not self._closed:
            self.engine.abandon(batch)
            self.run()

    def take_labels(self, caller: str, forwards: Sequence[Forward]) -> None:
        """Take true labels from a peer, or that there will be none; what cannot be a label is nothing to learn from."""
        with self.whole_changes():
            good = [each if each.withdrawn or is_label(each.truth) else each._replace(truth=None) for each in forwards]
            self.engine.now = time.monotonic()
            self.engine.taught(caller, good)
            self.run()

    # When something goes wrong

    @property
    def is_open(self) -> bool:
        return not self._closed

    def fail(self, error: Exception) -> None:
        """Give up after an unexpected error, as after a failed commit: the state may be ahead of the log."""
        if self.is_open:
            LOG.error("an unexpected error", exc_info=error)
            self.commits.give_up(f"an unexpected error ({in_one_line(error)})")

    @contextmanager
    def whole_changes(self) -> Iterator[None]:
        """Give up if an error leaves a change of the state half done; one found by a check, before it, does not."""
        before = self.commits.position
        try:
            yield
        except Exception as error:
            if not self.engine.state.is_behind and self.commits.position == before:
                raise
            self.fail(error)
            raise Unavailable(f"nothing is promised: an unexpected error ({in_one_line(error)})") from error

    def close(self, reason: str) -> None:
        """Accept nothing more, and fail all that wait."""
        self._closed = True
        self.requests.close(reason)
        for done in self._answering:
            if not done.done():
                done.set_exception(Unavailable(reason))


class Arrivals:
    """The requests whose items were not submitted yet; a bad item fails its own request."""

    def __init__(self, axes: Sequence[Axis], requests: Requests) -> None:
        self._axes, self._requests = axes, requests
        self._new: list[Request] = []
        self._read: tuple[Owners, list[Any], list[Column]] = (Owners([], []), [], [])
        self._taken = 0  # of those that were read
        self.count = 0  # items

    def add(self, request: Request) -> None:
        self._new.append(request)
        self.count += len(request.items)

    def take(self, enough: int) -> tuple[Owners, list[Any], list[Column]]:
        """Return items of the requests that have waited longest, never very many: whole requests until it is enough."""
        if self._taken == len(self._read[1]):
            self._read, self._taken = self._next(enough), 0
        owners, items, columns = self._read
        start, self._taken = self._taken, min(self._taken + MOST_IN_A_TURN, len(items))
        self.count -= self._taken - start
        if self._taken - start == len(items):
            return self._read
        some = slice(start, self._taken)
        part = Owners(owners.requests[some], owners.places[some])
        return part, items[some], [column[some] for column in columns]

    def _next(self, enough: int) -> tuple[Owners, list[Any], list[Column]]:
        count = items = 0
        while count < len(self._new) and items < enough:
            items += len(self._new[count].items)
            count += 1
        some, self._new = self._new[:count], self._new[count:]
        requests, columns = self._readable(some) if some else ([], [])
        owners = [request for request in requests for _ in request.items]
        places = [*chain.from_iterable(range(len(request.items)) for request in requests)]
        return Owners(owners, places), _items_of(requests), columns

    def _readable(self, requests: list[Request]) -> tuple[list[Request], list[Column]]:
        """Return the requests whose items can be read, and what the axes read off them."""
        try:
            return requests, read_columns(self._axes, _items_of(requests))
        except Exception as error:  # an item may be anything, and so may be what it raises
            if len(requests) == 1:
                self.count -= len(requests[0].items)
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


def _items_of(requests: Sequence[Request]) -> list[Any]:
    return [*chain.from_iterable(request.items for request in requests)]


def copies(items: Sequence[Any]) -> list[Any]:
    return [*map(dict.copy if set(map(type, items)) == {dict} else copy, items)]


KINDS: Final = frozenset((str, int, float, bool))
SMALLEST: Final = -(2**63)
LARGEST: Final = 2**64 - 1
LABELS: Final = "a label is text, a truth value, or a number that 64 bits hold"


def is_label(label: Any) -> bool:
    """Tell whether a label can travel and be written down."""
    kind = type(label)  # exactly: an Enum or another subclass of text would come back as something else
    if kind is str:
        return label.isascii() or _is_utf8(label)
    if kind is float:
        return math.isfinite(label)
    return kind is bool or (kind is int and SMALLEST <= label <= LARGEST)


def are_labels(labels: Sequence[Any]) -> bool:
    """Tell whether all of these can travel and be written down; mostly they are a few values, again and again."""
    return KINDS.issuperset(map(type, labels)) and all(map(is_label, set(labels)))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked(arm: str, answers: Sequence[Any]) -> Sequence[Any]:
    """Return the answers of an arm: what cannot be a label becomes a failure, a missing one None."""
    if are_labels(answers):
        return answers
    return [answer if type(answer) is Failure else _checked(arm, answer) for answer in answers]


def _checked(arm: str, label: Any) -> Any:
    if is_missing(label):
        return None
    return label if is_label(label) else Failure(f"{arm!r} returned {shown(label)}; {LABELS}", "label")
