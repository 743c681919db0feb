"""Links within one event loop, for tests and simulations: the same bytes and the same limits, without a broker.

Failures of a broker and a network are possible here too: everything breaks down (`stop`, `start`), messages are
late or lost, and a site dies with `kill`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from cosend.errors import LinkError
from cosend.transport.answering import Handler, Limits, Server
from cosend.transport.codec import Announcement, What
from cosend.transport.link import NOT_CONNECTED, Link, end_tasks

MOST_BYTES: Final = 1_048_576  # of a message: what NATS carries unless it is told otherwise


class Hub:
    """The connection of the links of one event loop.

    late_s   how long every message is on its way, there and back each
    loses    tells whether a message to a site gets lost
    """

    def __init__(self, late_s: float = 0.0, loses: Callable[[str], bool] = lambda _: False) -> None:
        self.late_s, self.loses = late_s, loses
        self.up = True
        self.links: dict[str, InProcessLink] = {}

    def link(self, site: str, limits: Limits | None = None) -> InProcessLink:
        """Return a new link for a site."""
        return InProcessLink(self, site, limits)

    def stop(self) -> None:
        """Break all connections: waiting callers fail at once."""
        self.up = False
        for link in self.links.values():
            link._fail("broker gone", NOT_CONNECTED)
            link._changed("disconnected")

    def start(self) -> None:
        """Reconnect all links."""
        self.up = True
        for link in self.links.values():
            link._changed("connected")
            link._greet()


class InProcessLink(Link):
    """The link of one site."""

    def __init__(self, hub: Hub, site: str, limits: Limits | None) -> None:
        super().__init__(site, limits)
        self._hub = hub
        self._announcement: Announcement | None = None
        self._told = ""
        if site in hub.links:
            raise LinkError("announcement", site, "refused", "another link has this name")
        hub.links[site] = self
        self._greet()

    @property
    def connected(self) -> bool:
        """Whether anybody can be reached."""
        return self._hub.up and self._hub.links.get(self.site) is self

    @property
    def _most_bytes(self) -> int:
        return MOST_BYTES

    async def start(self) -> None:
        """Nothing is to be done: it is connected from the start."""

    async def serve(self, announcement: Announcement, handler: Handler) -> None:
        """Announce this site and answer its peers from now on."""
        self._check(announcement)
        self._announcement = announcement
        self._server = Server(self.site, handler, self._limits, self.counts)
        self.tell(self._told)

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
        """Die: waiting callers get no answer."""
        self._leave()
        await end_tasks(self._tasks)

    def _greet(self) -> None:
        for site in self._peers.keys() - self._hub.links.keys():  # those that left while no site could hear it
            self._gone(site)
        for link in self._others():
            if link._announcement is not None:
                self._appeared(link._announcement, link._told)

    def _leave(self) -> None:
        self._hub.links.pop(self.site, None)
        self._fail("broker gone", "this link is closed")
        for link in self._others():
            link._gone(self.site)

    def _others(self) -> list[InProcessLink]:
        return [link for link in self._hub.links.values() if link is not self] if self._hub.up else []

    async def _send(self, key: str, what: What, peer: str, data: bytes) -> None:
        link = self._hub.links.get(peer)
        if link is None or link._server is None:
            raise LinkError(what, peer, "no responders", "no subscriber has this name")
        if not self._hub.loses(peer):
            link._begin(link._respond(link._server, what, self, key, data))

    async def _respond(self, server: Server, what: What, caller: InProcessLink, key: str, data: bytes) -> None:
        with suppress(asyncio.CancelledError):
            await self._travel()
            answer = await server.answer(what, caller.site, data, MOST_BYTES)
            await self._travel()
            if self._hub.up and not self._hub.loses(caller.site):
                caller._answered(key, answer)

    async def _travel(self) -> None:
        if self._hub.late_s:
            await asyncio.sleep(self._hub.late_s)
