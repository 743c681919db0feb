"""Links within one event loop, for tests and simulations: the same bytes and the same limits, without a broker.

What a broker and a network can do to sites can be done here too: everything breaks down (`stop`, `start`), messages are
late or lost, and a site dies with `kill`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from cosend.errors import LinkError
from cosend.transport.answering import Limits, Server
from cosend.transport.asking import NOT_CONNECTED, Asking, Waiting, end_tasks
from cosend.transport.link import Announcement, Change, Handler, What

MOST_BYTES: Final = 1_048_576  # of a message: what NATS carries unless it is told otherwise


class Hub:
    """What joins the links of one event loop.

    late_s   how long every message is on its way, there and back each
    loses    tells whether a message to a site gets lost
    """

    def __init__(self, late_s: float = 0.0, loses: Callable[[str], bool] = lambda _: False) -> None:
        self.late_s, self.loses = late_s, loses
        self.up = True
        self.links: dict[str, InProcessLink] = {}

    def link(self, site: str, limits: Limits | None = None) -> InProcessLink:
        """Return a new link for a site."""
        return InProcessLink(self, site, limits or Limits())

    def stop(self) -> None:
        """Break all connections: whoever waits hears of it at once."""
        self.up = False
        for link in self.links.values():
            link.disconnected()

    def start(self) -> None:
        """Connect everybody again."""
        self.up = True
        for link in self.links.values():
            link.reconnected()


class InProcessLink(Asking):
    """The link of one site."""

    def __init__(self, hub: Hub, site: str, limits: Limits) -> None:
        super().__init__(site)
        self._hub, self._limits = hub, limits
        self._waiting = Waiting()
        self._server: Server | None = None
        self._announcement: Announcement | None = None
        self._told = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent = 0
        if site in hub.links:
            raise LinkError("announcement", site, "refused", "another link has this name")
        hub.links[site] = self
        self._greet()

    @property
    def connected(self) -> bool:
        """Whether anybody can be reached."""
        return self._hub.up and self._hub.links.get(self._site) is self

    async def start(self) -> None:
        """Nothing is to be done: it is connected from the start."""

    async def serve(self, announcement: Announcement, handler: Handler) -> None:
        """Announce this site and answer its peers from now on."""
        self._check(announcement)
        self._announcement = announcement
        self._server = Server(self._site, handler, self._limits, self._counts, time.monotonic)
        for link in self._others():
            link._appeared(announcement, self._told)

    def tell(self, news: str) -> None:
        """Let all sites know some news."""
        self._told = news
        if self._announcement is not None:
            for link in self._others():
                link._appeared(self._announcement, news)

    async def close(self) -> None:
        """Finish what is being answered, say goodbye, and leave."""
        self._leave()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def kill(self) -> None:
        """Die: whoever waits for an answer gets none."""
        self._leave()
        await end_tasks(self._tasks)

    def disconnected(self) -> None:
        """Take note that the connection is broken."""
        self._waiting.fail_all("broker gone", NOT_CONNECTED)
        self._tell(Change("disconnected"))

    def reconnected(self) -> None:
        """Take note that everybody can be reached again."""
        self._tell(Change("connected"))
        self._greet()

    def _greet(self) -> None:
        for site in self._peers.keys() - self._hub.links.keys():  # those that left while nobody could hear of it
            self._gone(site)
        for link in self._others():
            if link._announcement is not None:
                self._appeared(link._announcement, link._told)

    def _leave(self) -> None:
        self._hub.links.pop(self._site, None)
        self._waiting.fail_all("broker gone", "this link is closed")
        for link in self._others():
            link._gone(self._site)

    def _others(self) -> list[InProcessLink]:
        return [link for link in self._hub.links.values() if link is not self] if self._hub.up else []

    async def _exchange(self, what: What, peer: str, data: bytes, deadline_s: float) -> bytes:
        if len(data) > MOST_BYTES:
            raise LinkError(what, peer, "too large", f"{len(data):,} bytes; at most {MOST_BYTES:,} can be sent")
        return await self.exchange_bytes(what, peer, data, deadline_s)

    async def exchange_bytes(self, what: What, peer: str, data: bytes, deadline_s: float) -> bytes:
        """Return what a peer answers to bytes, whatever they are."""
        self._sent += 1
        key = str(self._sent)

        async def send() -> None:
            link = self._hub.links.get(peer)
            if link is None or link._server is None:
                self._waiting.fail(key, "no responders", "nobody listens under this name")
            elif not self._hub.loses(peer):
                link._start(link._serve(link._server, what, self, key, data))

        return await self._waiting.answer(key, what, peer, deadline_s, send)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, server: Server, what: What, caller: InProcessLink, key: str, data: bytes) -> None:
        with suppress(asyncio.CancelledError):
            await self._travel()
            answer = await server.answer(what, caller.site, data, MOST_BYTES)
            await self._travel()
            if self._hub.up and not self._hub.loses(caller.site):
                caller._waiting.answered(key, answer)

    async def _travel(self) -> None:
        if self._hub.late_s:
            await asyncio.sleep(self._hub.late_s)
