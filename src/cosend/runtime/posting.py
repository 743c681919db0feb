"""How peers are told what is queued for them: true labels, and that no label will come.

The queue is part of the state that the log folds to, and an entry leaves it when the peer has it on its own disk. So a
peer is told at least once, even after a crash; and it takes a request once, however often it is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from cosend.engine.needs import Forward
from cosend.engine.site_state import SiteState
from cosend.errors import CosendError, LinkError
from cosend.runtime.log_writer import Commits
from cosend.transport.link import Link

LOG: Final = logging.getLogger("cosend.runtime")
MOST_TOGETHER: Final = 1_000
TOLD_S: Final = 10.0
POST_S: Final = 3.0  # how long a peer may take to write labels down
FIRST_REST_S, LONGEST_REST_S = 0.1, 2.0  # between attempts to tell a peer that is there
LOOK_S: Final = 0.005


class Posting:
    """Tells peers what is queued for them, each at its own pace."""

    def __init__(self, state: SiteState, commits: Commits, link: Link | None, start: Callable[[Any], object]) -> None:
        self._state, self._commits, self._link, self._start = state, commits, link, start
        self._busy: set[str] = set()
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._state.outbox.values()))

    async def told(self) -> None:
        """Wait until peers have taken all that is queued for them now, but not for ever: they may be gone."""
        last = {peer: self._taken[peer] + len(queue) for peer, queue in self._state.outbox.items()}
        with suppress(TimeoutError):
            async with asyncio.timeout(TOLD_S):
                while any(self._taken[peer] < count and peer in self._state.outbox for peer, count in last.items()):
                    await asyncio.sleep(LOOK_S)

    def deliver_all(self) -> None:
        """Tell all peers what is queued for them."""
        for peer in self._state.outbox:
            self.deliver(peer)

    def deliver(self, peer: str) -> None:
        """Tell a peer what is queued for it, unless that is being done."""
        if self._link is not None and peer not in self._busy and peer in self._state.outbox:
            self._busy.add(peer)
            self._start(self._deliver(self._link, peer))

    async def _deliver(self, link: Link, peer: str) -> None:
        """Tell a peer all that is queued for it; while it cannot be told, wait until it is there again."""
        rest_s, most = FIRST_REST_S, MOST_TOGETHER
        try:
            while forwards := self._state.forwards(peer, most):
                if not link.connected or peer not in link.peers():
                    return  # `deliver` is called when it is online again
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
                    if self._state.forwards(peer, len(forwards)) == forwards:  # else it has left and joined again
                        self._take(peer, len(forwards))
                    rest_s, most = FIRST_REST_S, min(MOST_TOGETHER, 2 * most)
        finally:
            self._busy.discard(peer)

    def _take(self, peer: str, count: int) -> None:
        self._taken[peer] += count
        self._state.peer_told(peer, count)

    def _fewer(self, peer: str, count: int, error: LinkError) -> int:
        """Return how many to send after `count` were too many; one alone that cannot be sent is given up."""
        if count == 1:
            LOG.error("a label cannot be sent to a peer", extra={"arm": peer, "reason": str(error)})
            self._take(peer, 1)
        return max(1, count // 2)

    def say_goodbye(self, peer: str, forwards: Sequence[Forward]) -> None:
        """Tell a peer that was removed what it should still know, once, if it is there."""
        if forwards and self._link is not None:
            self._start(self._say_goodbye(self._link, peer, forwards))

    async def _say_goodbye(self, link: Link, peer: str, forwards: Sequence[Forward]) -> None:
        for start in range(0, len(forwards), MOST_TOGETHER):
            with suppress(CosendError):
                await self._commits.done()
                await link.post(peer, forwards[start : start + MOST_TOGETHER], POST_S)
