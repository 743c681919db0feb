"""How a running site calls its peers: items for one peer go together, and whatever goes wrong is a failure.

An item goes at once while few calls to its peer are in flight. While many are, it waits for the next ones, but only as
long as no client notices. Each call has a deadline.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from cosend.algorithm.values import LabelledData
from cosend.engine.needs import QUESTION, AskPeer, Call, CallPeer, Failure, Question, Rows, columns_of
from cosend.errors import CosendError, LinkError, Unavailable, in_one_line
from cosend.runtime.durations import Durations
from cosend.runtime.log_writer import Commits
from cosend.runtime.model_threads import smoothed
from cosend.transport.link import Link

MOST_ITEMS: Final = 256  # of one call: if more went together, each site would wait while the other has them
MANY_CALLS: Final = 4  # to one peer in flight: from then on, items wait for others to go with
GATHER_S: Final = 0.002  # how long they wait at most
ASK_SHARE: Final = 0.25  # of the deadline, for a question how much labelled data a peer has
UNFIT: Final = ("too large", "unfit")  # why items cannot be sent: fewer may go, and it is no fault of the peer
Part = tuple[CallPeer, int, int]  # a need, and the places of the first and after the last of its items in this call
Answered = Callable[[CallPeer, int, list[Any], Sequence[LabelledData]], None]
Reported = Callable[[AskPeer, "Sequence[LabelledData] | Failure"], None]


@dataclass(slots=True)
class Lane:
    """Questions that wait for one peer."""

    waiting: list[Part] = field(default_factory=list)
    items: int = 0
    calls: int = 0  # in flight
    timer: asyncio.TimerHandle | None = None
    seconds_per_item: float = 0.0  # between a question and its answer, lately
    took: Durations = field(default_factory=Durations)


class Calls:
    """The calls of a site; `answered` and `reported` take what comes back."""

    def __init__(
        self,
        link: Link | None,
        commits: Commits,
        deadline_s: float,
        start: Callable[[Any], object],
        answered: Answered,
        reported: Reported,
    ) -> None:
        self._link, self._commits, self._deadline_s, self._start = link, commits, deadline_s, start
        self._answered, self._reported = answered, reported
        self._lanes: dict[str, Lane] = {}

    def call(self, need: CallPeer) -> None:
        """Have a peer label items."""
        lane = self._lanes.setdefault(need.peer, Lane())
        count = len(need.rows)
        lane.waiting += [(need, first, min(count, first + MOST_ITEMS)) for first in range(0, count, MOST_ITEMS)]
        lane.items += count
        if lane.calls < MANY_CALLS or lane.items >= MOST_ITEMS:
            self._send(need.peer, lane)
        elif lane.timer is None:
            lane.timer = asyncio.get_running_loop().call_later(GATHER_S, self._send, need.peer, lane)

    def _send(self, peer: str, lane: Lane) -> None:
        if lane.timer is not None:
            lane.timer.cancel()
        waiting, lane.waiting, lane.items, lane.timer = lane.waiting, [], 0, None
        for parts in _in_calls(waiting):
            lane.calls += 1
            self._start(self._call(peer, lane, parts))

    async def _call(self, peer: str, lane: Lane, parts: list[Part]) -> None:
        questions, start_s, reports = _joined(parts), time.monotonic(), list[LabelledData]()
        try:
            if any(need.promised for need, _, _ in parts):
                await self._commits.done()  # a peer must not wait for the label of a decision that a crash would lose
            call = parts[0][0].call._replace(questions=questions)
            answers, reports = await answers_of_peer(self._link, call, self._deadline_s * (1 - ASK_SHARE))
            spent_s = time.monotonic() - start_s
            lane.seconds_per_item = smoothed(lane.seconds_per_item, spent_s / len(questions))
            lane.took.add(spent_s)
        except Unavailable:  # the disk has failed: all who wait have been told
            return
        except Exception as error:  # whatever it is, the items must not wait for ever
            answers = [Failure(in_one_line(error))] * len(questions)
        finally:
            lane.calls -= 1
            if lane.waiting:
                self._send(peer, lane)
        done = 0
        for need, first, end in parts:
            part = slice(done, done + end - first)
            self._answered(need, first, answers[part], reports[part])
            done = part.stop

    def took(self) -> dict[str, Durations]:
        """Return how long calls took, by the peers that were called."""
        return {peer: lane.took for peer, lane in self._lanes.items()}

    def seconds_per_item(self, peer: str) -> float | None:
        """Return how long a peer takes for an item, if it was ever asked."""
        return self._lanes[peer].seconds_per_item if peer in self._lanes else None

    # How much labelled data a peer has

    def ask(self, need: AskPeer) -> None:
        """Ask a peer how much labelled data it has."""
        self._start(self._ask(need))

    async def _ask(self, need: AskPeer) -> None:
        reports: Sequence[LabelledData] | Failure
        try:
            if self._link is None:
                raise LinkError("report", need.peer, "broker gone", "this site has no network")
            reports = await self._link.report(need.peer, need.contexts, self._deadline_s * ASK_SHARE)
        except CosendError as error:
            reports = Failure(str(error), failure_kind(error))
        self._reported(need, reports)


async def answers_of_peer(link: Link | None, call: Call, deadline_s: float) -> tuple[list[Any], list[LabelledData]]:
    """Return labels, or failures in their places, and reports; in several calls if the items are too long for one."""
    questions, count = call.questions, len(call.questions)
    try:
        if link is None:
            raise LinkError("call", call.peer, "broker gone", "this site has no network")
        replies, reports = await link.call(call.peer, call, deadline_s)
    except LinkError as error:
        if error.reason in UNFIT and count > 1:
            parts = questions[: count // 2], questions[count // 2 :]
            halves = [answers_of_peer(link, call._replace(questions=part), deadline_s) for part in parts]
            (first, told), (second, more) = await asyncio.gather(*halves)
            return first + second, told + more if len(told) + len(more) == count else []
        return [Failure(str(error), failure_kind(error))] * count, []
    labels, failures = columns_of(replies, 2)
    if failures.count(None) == len(failures):
        return [*labels], [*reports]
    both = zip(labels, failures, strict=True)
    return [label if failed is None else Failure(failed) for label, failed in both], [*reports]


def _in_calls(waiting: list[Part]) -> list[list[Part]]:
    """Return the parts of needs in calls that are not too long."""
    calls: list[list[Part]] = [[]]
    room = MOST_ITEMS
    for need, first, end in waiting:
        if end - first > room:
            calls.append([])
            room = MOST_ITEMS
        calls[-1].append((need, first, end))
        room -= end - first
    return calls


def _joined(parts: list[Part]) -> Rows[Question]:
    """Return the questions of several needs as one."""
    columns = [[column[first:end] for column in columns_of(need.call.questions, 5)] for need, first, end in parts]
    if len(columns) == 1:
        return Rows(QUESTION, *columns[0])
    return Rows(QUESTION, *([*chain.from_iterable(each)] for each in zip(*columns, strict=True)))


def failure_kind(error: CosendError) -> Any:
    """Return in a word why a peer has failed."""
    if isinstance(error, LinkError) and error.reason in UNFIT:
        return "item"
    return "time" if isinstance(error, LinkError) and error.reason == "deadline" else "network"
