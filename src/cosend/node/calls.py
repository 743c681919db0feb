"""How a running site asks its peers: items for one peer go together, and whatever goes wrong is a failed reply.

An item goes at once while few calls to its peer are on their way. While many are, it waits for the next ones, but only
as long as nobody notices. Each call has a deadline, and an item for which a peer was too late is given to no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from cosend.core.kernel.bookkeeping import TRAIN
from cosend.core.learner.values import AskPeer, LabelledData
from cosend.errors import CosendError, LinkError, Unavailable
from cosend.links.link import Link
from cosend.node.commits import Commits
from cosend.node.workers import Answers, Kind, Replies
from cosend.site.messages import Call, Question, Reply

MOST_ITEMS: Final = 256  # of one call
MANY_CALLS: Final = 4  # to one peer on their way: from so many on, items wait for others to go with
GATHER_S: Final = 0.002  # how long they wait at most
ASK_SHARE: Final = 0.25  # of the deadline, for a question how much labelled data a peer has
FRESH_S: Final = 1.0  # how long a report that rode along with a reply is worth something
MOST_REPORTS: Final = 100_000
ITEM, ID, KIND, CELL, CONTEXT = 2, 3, 4, 5, 8  # of a flight, which is a plain tuple
Then = Callable[[list[Any], Answers], None]
_QUESTION: Final = partial(tuple.__new__, Question)  # three times faster than by calling the class


@dataclass(slots=True)
class Lane:
    """What is to be asked of one peer."""

    waiting: list[tuple[list[Any], Then]] = field(default_factory=list)  # flights that were chosen together
    items: int = 0
    calls: int = 0  # on their way
    timer: asyncio.TimerHandle | None = None
    seconds_per_item: float = 0.0  # between a question and its answer, of late


class Calls:
    """The calls of a site."""

    def __init__(self, site: str, link: Link | None, commits: Commits, start: Callable[[Any], object]) -> None:
        self._site, self._link, self._commits, self._start = site, link, commits, start
        self.deadline_s, self.shares_labels = 1.0, False
        self._lanes: dict[str, Lane] = {}
        self._reports: dict[tuple[str, int], tuple[float, LabelledData]] = {}  # by peer and cell

    # Items that a peer labels

    def call(self, peer: str, flights: list[Any], then: Then) -> None:
        """Have a peer label items; `then` hears what it said of them."""
        lane = self._lanes.setdefault(peer, Lane())
        lane.waiting.append((flights, then))
        lane.items += len(flights)
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

    async def _call(self, peer: str, lane: Lane, groups: list[tuple[list[Any], Then]]) -> None:
        flights = [flight for group, _ in groups for flight in group]
        start_s = time.monotonic()
        try:
            answers = await self._answers(peer, flights)
            spent = (time.monotonic() - start_s) / len(flights)
            lane.seconds_per_item = spent if not lane.seconds_per_item else (lane.seconds_per_item + spent) / 2
        except Unavailable:  # the disk has failed: all who wait have been told
            return
        finally:
            lane.calls -= 1
            if lane.waiting:
                self._send(peer, lane)
        start = 0
        for group, then in groups:
            part = answers[start : start + len(group)]
            then(group, Replies(part, answers.kind) if isinstance(answers, Replies) else part)
            start += len(group)

    async def _answers(self, peer: str, flights: Sequence[Any]) -> Answers:
        questions, labelled = self._questions(flights)
        if labelled:
            await self._commits.done()  # a peer that waits for a label must not wait for one that nobody remembers
        try:
            if self._link is None:
                raise LinkError("call", peer, "broker gone", "this site has no network")
            replies, reports = await self._link.call(peer, Call(peer, self._site, questions), self._call_s)
        except LinkError as error:
            if error.reason == "too large" and len(flights) > 1:
                return await self._halves(peer, flights)
            return Replies([Reply(None, str(error))] * len(flights), why(error))
        self._remember(peer, flights, reports)
        labels, failures = zip(*replies, strict=True)
        return [*labels] if failures.count(None) == len(failures) else Replies(replies)

    async def _halves(self, peer: str, flights: Sequence[Any]) -> Answers:
        half = len(flights) // 2
        parts = await asyncio.gather(self._answers(peer, flights[:half]), self._answers(peer, flights[half:]))
        if not any(isinstance(part, Replies) for part in parts):
            return [label for part in parts for label in part]
        replies = [part if isinstance(part, Replies) else Replies(map(Reply, part)) for part in parts]
        return Replies([reply for part in replies for reply in part], max(part.kind for part in replies))

    @property
    def _call_s(self) -> float:
        return self.deadline_s * (1 - ASK_SHARE)

    def _questions(self, flights: Sequence[Any]) -> tuple[list[Question], bool]:
        """Return the questions of a call, and whether labels will follow to any of them."""
        columns = [*zip(*flights, strict=True)]
        training = [kind == TRAIN for kind in columns[KIND]]
        labelled = [True] * len(flights) if self.shares_labels else training
        rows = zip(columns[ID], columns[ITEM], columns[CONTEXT], training, labelled, strict=True)
        return [*map(_QUESTION, rows)], any(labelled)

    def seconds_per_item(self, peer: str) -> float | None:
        """Return how long a peer takes for an item, if it was ever asked."""
        return self._lanes[peer].seconds_per_item if peer in self._lanes else None

    # How much labelled data a peer has

    def _remember(self, peer: str, flights: Sequence[Any], reports: Sequence[LabelledData]) -> None:
        if not reports:
            return
        if len(self._reports) > MOST_REPORTS:
            self._reports.clear()
        now = time.monotonic()
        for flight, report in zip(flights, reports, strict=True):
            self._reports[peer, flight[CELL]] = now, report

    def known(self, ask: AskPeer) -> LabelledData | None:
        """Return what rode along with a reply a moment ago in the place of what is to be asked, if anything did."""
        at, report = self._reports.get((ask.peer, ask.cell), (0.0, None))
        return report if time.monotonic() - at < FRESH_S else None

    async def ask(self, peer: str, contexts: Sequence[tuple[Any, ...]]) -> list[LabelledData]:
        """Ask a peer how much labelled data it has; raises CosendError if it does not say."""
        if self._link is None:
            raise LinkError("report", peer, "broker gone", "this site has no network")
        return await self._link.report(peer, contexts, self.deadline_s * ASK_SHARE)

    def forget(self, peer: str) -> None:
        """Forget what a peer has reported."""
        self._reports = {key: value for key, value in self._reports.items() if key[0] != peer}


def _in_calls(groups: list[tuple[list[Any], Then]]) -> list[list[tuple[list[Any], Then]]]:
    """Return groups of flights in calls that are not too long; a group that is longer alone is cut."""
    calls: list[list[tuple[list[Any], Then]]] = [[]]
    room = MOST_ITEMS
    for flights, then in groups:
        for start in range(0, len(flights), MOST_ITEMS):
            part = flights[start : start + MOST_ITEMS]
            if len(part) > room:
                calls.append([])
                room = MOST_ITEMS
            calls[-1].append((part, then))
            room -= len(part)
    return calls


def why(error: CosendError) -> Kind:
    """Return in a word why a peer has failed."""
    return "time" if isinstance(error, LinkError) and error.reason == "deadline" else "network"
