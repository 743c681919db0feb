"""How a running site asks its peers: items for one peer go together, and whatever goes wrong is a failed reply.

An item goes at once while few calls to its peer are on their way. While many are, it waits for the next ones, but only
as long as nobody notices. Each call has a deadline, and an item for which a peer was too late is given to no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from cosend.core.kernel.bookkeeping import TRAIN
from cosend.core.learner.values import AskPeer, LabelledData
from cosend.errors import CosendError, LinkError, Unavailable, in_one_line
from cosend.links.link import Link
from cosend.node.commits import Commits
from cosend.node.flight import Flight, Flights
from cosend.node.workers import Answers, Kind, Replies
from cosend.site.messages import QUESTION, Call, Question, Reply
from cosend.site.rows import Rows, columns_of

MOST_ITEMS: Final = 256  # of one call: if more went together, each site would wait while the other has them
MANY_CALLS: Final = 4  # to one peer on their way: from so many on, items wait for others to go with
GATHER_S: Final = 0.002  # how long they wait at most
ASK_SHARE: Final = 0.25  # of the deadline, for a question how much labelled data a peer has
FRESH_S: Final = 1.0  # how long a report that rode along with a reply is worth something
MOST_REPORTS: Final = 100_000
UNFIT: Final = ("too large", "unfit")  # why items cannot be sent: fewer of them may go, and it is no fault of the peer
Told = Mapping[str, LabelledData]
Then = Callable[[int, int, Answers], None]
Group = tuple[Flights, int, Then]  # flights that go together, the place of the first among those chosen together


@dataclass(slots=True)
class Lane:
    """What is to be asked of one peer."""

    waiting: list[Group] = field(default_factory=list)
    items: int = 0
    calls: int = 0  # on their way
    timer: asyncio.TimerHandle | None = None
    seconds_per_item: float = 0.0  # between a question and its answer, of late


class Calls:
    """The calls of a site."""

    def __init__(self, site: str, link: Link | None, commits: Commits, start: Callable[[Any], object]) -> None:
        self._site, self._link, self._commits, self._start = site, link, commits, start
        self.deadline_s, self.shares_labels = 1.0, False
        self.axes: tuple[str, ...] | None = None  # of the contexts that peers are told, by name; None: all of them
        self._lanes: dict[str, Lane] = {}
        self._reports: dict[tuple[str, int], tuple[float, LabelledData]] = {}  # by peer and cell

    # Items that a peer labels

    def call(self, peer: str, flights: Flights, then: Then) -> None:
        """Have a peer label items; `then` hears what it said of some of them at a time, as from a model."""
        lane = self._lanes.setdefault(peer, Lane())
        lane.waiting.append((flights, 0, then))
        lane.items += len(flights.ids)
        if lane.calls < MANY_CALLS or lane.items >= MOST_ITEMS:
            self._send(peer, lane)
        elif lane.timer is None:
            lane.timer = asyncio.get_running_loop().call_later(GATHER_S, self._send, peer, lane)

    def _send(self, peer: str, lane: Lane) -> None:
        if lane.timer is not None:
            lane.timer.cancel()
        groups, lane.waiting, lane.items, lane.timer = lane.waiting, [], 0, None
        for together in _in_calls(groups):
            lane.calls += 1
            self._start(self._call(peer, lane, together))

    async def _call(self, peer: str, lane: Lane, groups: list[Group]) -> None:
        flights = _together([flights for flights, _, _ in groups])
        start_s = time.monotonic()
        try:
            answers = await self._answers(peer, flights)
            spent = (time.monotonic() - start_s) / len(flights.ids)
            lane.seconds_per_item = spent if not lane.seconds_per_item else (lane.seconds_per_item + spent) / 2
        except Unavailable:  # the disk has failed: all who wait have been told
            return
        except Exception as error:  # whatever it is, the items must not wait for ever
            answers = Replies([Reply(None, in_one_line(error))] * len(flights.ids), "error")
        finally:
            lane.calls -= 1
            if lane.waiting:
                self._send(peer, lane)
        done = 0
        for part, first, then in groups:
            count = len(part.ids)
            said = answers[done : done + count]
            then(first, first + count, Replies(said, answers.kind) if isinstance(answers, Replies) else said)
            done += count

    async def _answers(self, peer: str, flights: Flights) -> Answers:
        questions, count = self._questions(flights), len(flights.ids)
        if self.shares_labels or TRAIN in flights.kinds:
            await self._commits.done()  # a peer that waits for a label must not wait for one that nobody remembers
        try:
            if self._link is None:
                raise LinkError("call", peer, "broker gone", "this site has no network")
            replies, reports = await self._link.call(peer, Call(peer, self._site, questions, self.axes), self._call_s)
        except LinkError as error:
            if error.reason in UNFIT and count > 1:
                return await self._halves(peer, flights)
            return Replies([Reply(None, str(error))] * count, why(error))
        self._remember(peer, flights, reports)
        labels, failures = columns_of(replies, 2)
        return [*labels] if failures.count(None) == len(failures) else Replies(replies)

    async def _halves(self, peer: str, flights: Flights) -> Answers:
        half, count = len(flights.ids) // 2, len(flights.ids)
        halves = flights.part(0, half), flights.part(half, count)
        parts = await asyncio.gather(*(self._answers(peer, each) for each in halves))
        if not any(isinstance(part, Replies) for part in parts):
            return [label for part in parts for label in part]
        replies = [part if isinstance(part, Replies) else Replies(map(Reply, part)) for part in parts]
        return Replies([reply for part in replies for reply in part], max(part.kind for part in replies))

    @property
    def _call_s(self) -> float:
        return self.deadline_s * (1 - ASK_SHARE)

    def _questions(self, flights: Flights) -> Sequence[Question]:
        training = [kind == TRAIN for kind in flights.kinds]
        labelled = [True] * len(training) if self.shares_labels else training
        contexts = flights.contexts
        if self.axes is not None and {*map(len, contexts)} != {len(self.axes)}:
            contexts = [*map(self._told, contexts)]
        return Rows(QUESTION, flights.ids, flights.items, contexts, training, labelled)

    def _told(self, context: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the part of a context that a peer is told: it reads features off the item itself."""
        return context if self.axes is None or len(context) == len(self.axes) else context[: len(self.axes)]

    def seconds_per_item(self, peer: str) -> float | None:
        """Return how long a peer takes for an item, if it was ever asked."""
        return self._lanes[peer].seconds_per_item if peer in self._lanes else None

    # How much labelled data a peer has

    def _remember(self, peer: str, flights: Flights, reports: Sequence[LabelledData]) -> None:
        if not reports:
            return
        if len(self._reports) > MOST_REPORTS:
            self._reports.clear()
        now = time.monotonic()
        for cell, report in zip(flights.cells, reports, strict=True):
            self._reports[peer, cell] = now, report

    def known(self, ask: AskPeer) -> LabelledData | None:
        """Return what rode along with a reply a moment ago in the place of what is to be asked, if anything did."""
        at, report = self._reports.get((ask.peer, ask.cell), (0.0, None))
        return report if time.monotonic() - at < FRESH_S else None

    async def ask(
        self, peer: str, parked: Sequence[tuple[Flight, Told]], others: Iterable[str]
    ) -> list[tuple[Flight, Told]]:
        """Ask a peer how much labelled data it has; raises CosendError if it does not say.

        Returns the flights that wait for it with all that they were told. When no time is left, peers among the others
        that have told nothing are left out: one after the other, many would take longer than a client waits.
        """
        if self._link is None:
            raise LinkError("report", peer, "broker gone", "this site has no network")
        within_s, now = self.deadline_s * ASK_SHARE, time.monotonic()
        for flight, _ in parked:
            flight.request.asking_since = flight.request.asking_since or now
        reports = await self._link.report(peer, [self._told(flight.context) for flight, _ in parked], within_s)
        since, told = time.monotonic() - within_s, list[tuple[Flight, Told]]()
        for (flight, before), report in zip(parked, reports, strict=True):
            known = {**before, peer: report}
            in_time = flight.request.asking_since > since
            told.append((flight if in_time else flight.without(others, known), known))
        return told

    def forget(self, peer: str) -> None:
        """Forget what a peer has reported."""
        self._reports = {key: value for key, value in self._reports.items() if key[0] != peer}


def _in_calls(groups: list[Group]) -> list[list[Group]]:
    """Return groups of flights in calls that are not too long; a group that is longer alone is cut."""
    calls: list[list[Group]] = [[]]
    room = MOST_ITEMS
    for flights, _, then in groups:
        count = len(flights.ids)
        for start in range(0, count, MOST_ITEMS):
            part = flights.part(start, min(count, start + MOST_ITEMS))
            if len(part.ids) > room:
                calls.append([])
                room = MOST_ITEMS
            calls[-1].append((part, start, then))
            room -= len(part.ids)
    return calls


def _together(groups: list[Flights]) -> Flights:
    if len(groups) == 1:
        return groups[0]
    columns: Iterator[Any] = ([*chain.from_iterable(parts)] for parts in zip(*groups, strict=True))
    return Flights(*columns)


def why(error: CosendError) -> Kind:
    """Return in a word why a peer has failed."""
    if isinstance(error, LinkError) and error.reason in UNFIT:
        return "item"
    return "time" if isinstance(error, LinkError) and error.reason == "deadline" else "network"
