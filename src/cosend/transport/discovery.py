"""Which peers are online: every site regularly asks all services of its network for their announcements.

A site that comes announces itself, and is asked at once. One that leaves announces that; one without a subscriber,
or which has not answered three times in a row, is gone too. While the broker is gone, nothing changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from cosend.errors import cut
from cosend.transport.answering import Counts
from cosend.transport.codec import LONGEST_NAME, NEWS, Announcement, ForeignMessage, read_announcement

LOG: Final = logging.getLogger("cosend.transport")
MISSES: Final = 3  # questions in a row without an answer after which a peer is gone
MOST_STARTS: Final = 8  # of one site that are remembered
MOST_STRANGERS: Final = 100  # sites of another version that are reported
SHORTEST_S: Final = 0.05  # between two questions: many sites that come together are asked together


class _Info(msgspec.Struct):
    """The announcement of a service, as far as it matters here."""

    id: Annotated[str, Meta(max_length=200)]
    metadata: dict[str, str]


class Discovery:
    """Finds peers.

    ask        sends the question to all of them, and tells whether it could
    appeared   hears what a site announces, whether it is known or not, and its news
    gone       hears of the name of a site that was there
    """

    def __init__(
        self,
        every_s: float,
        ask: Callable[[], Awaitable[bool]],
        appeared: Callable[[Announcement, str], None],
        gone: Callable[[str], None],
        counts: Counts,
    ) -> None:
        self._every_s, self._ask, self._appeared, self._gone, self._counts = every_s, ask, appeared, gone, counts
        self._missed: dict[str, int] = {}  # questions in a row that a site has not answered
        self._starts: dict[str, tuple[str, ...]] = {}  # by site: ids of its services, another one for every start
        self._strangers: set[str] = set()  # sites of another version that were reported
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Look for peers until cancelled."""
        regular = True
        while True:
            self._wake.clear()
            asked = await self._ask()
            if asked and regular:
                self._count_misses()
            await asyncio.sleep(SHORTEST_S)
            try:
                async with asyncio.timeout(self._every_s):  # `wait_for` of Python 3.11 may swallow a cancellation
                    await self._wake.wait()
                regular = False  # questions in a quick row leave no time to answer
            except TimeoutError:
                regular = True

    def _count_misses(self) -> None:
        for site, missed in list(self._missed.items()):
            if missed >= MISSES:
                self.lost(site)
            else:
                self._missed[site] = missed + 1

    def look(self) -> None:
        """Look for peers now."""
        self._wake.set()

    def found(self, data: bytes) -> tuple[str, str]:
        """Read the announcement of a service, and return its site and its id.

        Anything but an announcement of a site is counted and skipped. A site that was killed and has restarted
        counts as gone, even if no site missed it.
        """
        try:
            info = msgspec.json.decode(data, type=_Info)
            announcement = read_announcement(info.metadata)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._counts.note_broken(error)
            if isinstance(error, ForeignMessage):
                self._tell_of_stranger(cut(info.metadata.get("site", ""), LONGEST_NAME), str(error))
            return "", ""
        site, starts = announcement.site, self._starts.get(announcement.site, ())
        if info.id not in starts:
            if starts:
                self._gone(site)
            self._starts[site] = (*starts, info.id)[-MOST_STARTS:]
        self._missed[site] = 0
        self._appeared(announcement, info.metadata.get(NEWS, ""))
        return site, info.id

    def _tell_of_stranger(self, site: str, reason: str) -> None:
        """Log once that a site of another version is there: nothing else would say why it is not asked."""
        if site not in self._strangers and len(self._strangers) < MOST_STRANGERS:
            self._strangers.add(site)
            LOG.warning("peer refused", extra={"peer": site, "reason": reason})

    def lost(self, site: str) -> None:
        """Take note that a site is gone."""
        self._missed.pop(site, None)
        self._starts.pop(site, None)
        self._gone(site)
