"""What peers are to be told, and have not taken yet: labels, and that no label will come.

It is written in the same transaction as the events it follows from, and deleted when the peer has it on its own disk.
So whatever dies in between, a peer is told at least once; and it takes a request once, however often it is told. What
follows from one event for one peer is a letter, which is one row of the file: a row for each label took longer than all
the rest of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import islice, repeat
from typing import Any, Final

from cosend.errors import LinkError
from cosend.links.link import Link
from cosend.node.commits import Commits
from cosend.site.messages import FORWARD, Forward
from cosend.site.rows import columns_of
from cosend.site.values import read_value, value_bytes
from cosend.stores.log_index import POST, POSTED

LOG: Final = logging.getLogger("cosend.node")
MOST_TOGETHER: Final = 1_000
MOST_OWED: Final = 100_000  # things that one peer is to be told: one that takes nothing is asked no longer from then on
TOLD_S: Final = 10.0
POST_S: Final = 3.0  # how long a peer may take to write labels down
FIRST_REST_S, LONGEST_REST_S = 0.1, 2.0  # between attempts to tell a peer that is there
MANY: Final = 2  # says that a row is a letter; 0 and 1 are those of logs that had a row for each label
Row = tuple[int, Forward]  # with the number of its letter


class Outbox:
    """A queue for each peer, in the order in which things happened."""

    def __init__(self, site: str, commits: Commits, rows: Iterable[Sequence[Any]]) -> None:
        self._site, self._commits = site, commits
        self._queues: dict[str, deque[Row]] = {}
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._last = 0
        for number, peer, request, told, kind in rows:
            self._last = max(self._last, number)
            value = read_value(told)
            columns = value if kind == MANY else [[request], [value], [bool(kind)]]
            self._queue(number, peer, map(FORWARD, zip(repeat(peer), repeat(site), *columns, strict=False)))

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def _queue(self, number: int, peer: str, forwards: Iterable[Forward]) -> None:
        self._queues.setdefault(peer, deque()).extend(zip(repeat(number), forwards, strict=False))

    def add(self, forwards: Sequence[Forward]) -> Collection[str]:
        """Take what peers are to be told, behind what waits; returns which peers."""
        letters = _by_peer(forwards)
        for number, (peer, told) in enumerate(letters.items(), self._last + 1):
            _, _, requests, truths, withdrawn = columns_of(told, 5)
            columns = value_bytes([[*requests], [*truths], [*withdrawn]])
            self._queue(number, peer, told)
            self._commits.also(POST, [(number, peer, 0, columns, MANY)])
        self._last += len(letters)
        return letters.keys()

    def peers(self) -> list[str]:
        """Return the peers that are to be told something."""
        return [peer for peer, queue in self._queues.items() if queue]

    def full(self) -> list[str]:
        """Return the peers that are to be told too much already to be asked for more."""
        return [peer for peer, queue in self._queues.items() if len(queue) >= MOST_OWED]

    def first(self, peer: str, count: int) -> list[Forward]:
        """Return what a peer is to be told next, at most so much."""
        return [forward for _, forward in islice(self._queues.get(peer, ()), count)]

    def taken(self, peer: str, count: int) -> None:
        """Take note that a peer has taken the first of these for good."""
        queue = self._queues.get(peer, deque())  # it may have left meanwhile
        numbers = {queue.popleft()[0] for _ in range(min(count, len(queue)))}
        if queue:
            numbers.discard(queue[0][0])  # a part of that letter is left
        self._commits.also(POSTED, [(number,) for number in sorted(numbers)])
        self._tell()

    def forget(self, peer: str) -> None:
        """Forget what a peer was to be told: it has left for good."""
        numbers = {number for number, _ in self._queues.pop(peer, ())}
        self._commits.also(POSTED, [(number,) for number in sorted(numbers)])
        self._tell()

    def is_taken(self) -> asyncio.Future[None]:
        """Return what is done when all that is here now has been taken."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self._last, future))
        self._tell()
        return future

    def _tell(self) -> None:
        oldest = min((queue[0][0] for queue in self._queues.values() if queue), default=self._last + 1)
        for last, future in self._waiters:
            if last < oldest and not future.done():
                future.set_result(None)
        self._waiters = [each for each in self._waiters if not each[1].done()]


def _by_peer(forwards: Sequence[Forward]) -> dict[str, Sequence[Forward]]:
    peers = dict.fromkeys(forward[0] for forward in forwards)
    if len(peers) == 1:
        return dict.fromkeys(peers, forwards)
    return {peer: [forward for forward in forwards if forward[0] == peer] for peer in peers}


class Posting:
    """Tells peers what waits for them, each in its own pace."""

    def __init__(self, outbox: Outbox, commits: Commits, link: Link | None, start: Callable[[Any], object]) -> None:
        self.outbox, self._commits, self._link, self.start = outbox, commits, link, start
        self._busy: set[str] = set()

    def post(self, forwards: Sequence[Forward]) -> None:
        """Tell peers something, as soon as that is possible."""
        for peer in self.outbox.add(forwards):
            self.deliver(peer)

    async def told(self) -> None:
        """Wait until peers have taken all that they are to be told now, but not for ever: they may be gone."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TOLD_S):
                await self.outbox.is_taken()

    def deliver(self, peer: str) -> None:
        """Tell a peer what waits for it, unless that is being done."""
        if self._link is not None and peer not in self._busy and self.outbox.first(peer, 1):
            self._busy.add(peer)
            self.start(self._deliver(self._link, peer))

    async def _deliver(self, link: Link, peer: str) -> None:
        """Tell a peer all that waits for it; while it cannot be told, wait until it is there again."""
        rest_s, most = FIRST_REST_S, MOST_TOGETHER
        try:
            while forwards := self.outbox.first(peer, most):
                if not link.connected or peer not in link.peers():
                    return  # whoever hears that it is there again calls `deliver`
                await self._commits.done()  # what might still be lost here is not told
                try:
                    await link.post(peer, forwards, POST_S)
                except LinkError as error:
                    if error.reason in ("too large", "unfit"):  # fewer of them may go, and at once
                        most = self._fewer(peer, len(forwards), error)
                        continue
                    await asyncio.sleep(rest_s)
                    rest_s = min(LONGEST_REST_S, 2 * rest_s)
                else:
                    self.outbox.taken(peer, len(forwards))
                    rest_s, most = FIRST_REST_S, min(MOST_TOGETHER, 2 * most)
        finally:
            self._busy.discard(peer)

    def _fewer(self, peer: str, count: int, error: LinkError) -> int:
        """Return how many to send after so many were too many; one alone that cannot be sent is given up."""
        if count == 1:
            LOG.error("a label cannot be sent to a peer", extra={"arm": peer, "reason": str(error)})
            self.outbox.taken(peer, 1)
        return max(1, count // 2)
