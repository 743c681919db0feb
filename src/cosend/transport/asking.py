"""The side that asks, the same in every form of a link: what is sent, how long it is waited for, what may come back."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeVar

from cosend.algorithm.values import LabelledData
from cosend.checks import check_number, check_text
from cosend.engine.needs import Call, Forward
from cosend.errors import LinkError, NetworkError
from cosend.transport import codec as messages
from cosend.transport.link import LONGEST_NEWS, Announcement, Answered, Change, Context, Counts, Listener, What

LONGEST_S: Final = 3_600.0
NOT_CONNECTED: Final = "there is no connection to the broker"
T = TypeVar("T")


async def end_tasks(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: code on their way may take a cancellation for something else."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.1)


class Waiting:
    """Messages that wait for an answer, by a key, and what ends their wait."""

    def __init__(self) -> None:
        self._futures: dict[str, tuple[asyncio.Future[bytes], What, str]] = {}

    def __len__(self) -> int:
        return len(self._futures)

    async def answer(self, key: str, what: What, peer: str, deadline_s: float, send: Callable[[], Any]) -> bytes:
        """Send something and return what comes back for its key; raises LinkError at the deadline at the latest."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()
        self._futures[key] = future, what, peer
        # A timer for each is several times cheaper than `asyncio.wait_for`.
        timer = loop.call_later(deadline_s, self.fail, key, "deadline", f"no answer within {deadline_s:g} s")
        try:
            await send()
            return await future
        finally:
            timer.cancel()
            del self._futures[key]
            if future.done() and not future.cancelled():
                future.exception()  # it may have failed while it was still being sent

    def peer(self, key: str) -> str | None:
        """Return whose answer is waited for under a key."""
        found = self._futures.get(key)
        return None if found is None else found[2]

    def peers(self) -> set[str]:
        """Return all whose answers are waited for."""
        return {peer for _, _, peer in self._futures.values()}

    def answered(self, key: str, data: bytes) -> None:
        """Take note of an answer; one that nobody waits for any more is nothing."""
        found = self._futures.get(key)
        if found is not None and not found[0].done():
            found[0].set_result(data)

    def fail(self, key: str, reason: str, detail: str) -> None:
        """End one wait."""
        found = self._futures.get(key)
        if found is not None and not found[0].done():
            future, what, peer = found
            future.set_exception(LinkError(what, peer, reason, detail))

    def fail_all(self, reason: str, detail: str, peer: str | None = None) -> None:
        """End all waits, or those for one peer."""
        for key, (_, _, asked) in list(self._futures.items()):
            if peer is None or peer == asked:
                self.fail(key, reason, detail)


class Asking(ABC):
    """What all forms of a link have in common; they add how bytes get there and back."""

    def __init__(self, site: str) -> None:
        check_text("site", site)
        self._site = site
        self._counts = Counts()
        self._peers: dict[str, Announcement] = {}
        self._news: dict[str, str] = {}
        self._listeners: list[Listener] = []

    @property
    def site(self) -> str:
        """The site whose link it is."""
        return self._site

    @property
    def counts(self) -> Counts:
        """What went over it so far."""
        return self._counts

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether anybody can be reached."""

    @abstractmethod
    async def _exchange(self, what: What, peer: str, data: bytes, deadline_s: float) -> bytes:
        """Return what a peer answers; raises LinkError if it does not."""

    def peers(self) -> dict[str, Announcement]:
        """Return what is announced by the sites that are there now, this one left out."""
        return dict(self._peers)

    def news(self) -> dict[str, str]:
        """Return what was told last by the sites that are there now, this one left out."""
        return dict(self._news)

    def listen(self, listener: Listener) -> None:
        """Tell a listener whatever changes from now on."""
        self._listeners.append(listener)

    async def call(self, peer: str, call: Call, deadline_s: float) -> Answered:
        """Have a peer label items."""
        count = len(call.questions)
        return await self._ask(
            "call",
            peer,
            deadline_s,
            lambda: messages.call_bytes(call._replace(peer=peer, caller=self._site)),
            lambda data: messages.read_answered(data, count),
        )

    async def report(self, peer: str, contexts: Sequence[Context], deadline_s: float) -> Sequence[LabelledData]:
        """Ask a peer how much labelled data it has around contexts."""
        return await self._ask(
            "report",
            peer,
            deadline_s,
            lambda: messages.ask_bytes(self._site, contexts),
            lambda data: messages.read_report(data, len(contexts)),
        )

    async def post(self, peer: str, forwards: Sequence[Forward], deadline_s: float) -> None:
        """Tell a peer labels; when it returns, the peer has taken all of them for good."""
        await self._ask(
            "post",
            peer,
            deadline_s,
            lambda: messages.post_bytes(peer, self._site, forwards),
            lambda data: messages.read_taken(data, len(forwards)),
        )

    async def _ask(
        self, what: What, peer: str, deadline_s: float, encode: Callable[[], bytes], decode: Callable[[bytes], T]
    ) -> T:
        check_number("deadline_s", deadline_s, LONGEST_S)
        self._counts.sent += 1
        try:
            if not self.connected:  # whoever calls finds another arm at once, and not at the deadline
                raise LinkError(what, peer, "broker gone", NOT_CONNECTED)
            return _read(what, peer, await self._exchange(what, peer, _written(what, peer, encode), deadline_s), decode)
        except LinkError as error:
            self._counts.failed += 1
            if error.reason == "broken reply":
                self._counts.broken += 1
                self._counts.foreign += isinstance(error.__cause__, messages.ForeignMessage)
            raise

    def _check(self, announcement: Announcement) -> None:
        """Raise unless peers will read an announcement as it is meant."""
        try:
            if messages.read_announcement(messages.announcement_texts(announcement)).site == self._site:
                return
            wrong = f"it is of another site than {self._site!r}"
        except NetworkError as error:
            wrong = str(error)
        raise LinkError("announcement", announcement.site, "unfit", wrong)

    def _appeared(self, announcement: Announcement, news: str = "") -> None:
        if announcement.site != self._site and news and len(news) <= LONGEST_NEWS:
            self._news[announcement.site] = news
        known = self._peers.get(announcement.site)
        if announcement.site != self._site and announcement != known:
            self._peers[announcement.site] = announcement
            self._tell(Change("appeared" if known is None else "changed", announcement))

    def _gone(self, site: str) -> None:
        known = self._peers.pop(site, None)
        self._news.pop(site, None)
        if known is not None:
            self._tell(Change("gone", known))

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)


def _written(what: What, peer: str, encode: Callable[[], bytes]) -> bytes:
    try:
        return encode()
    except NetworkError as error:
        raise LinkError(what, peer, "unfit", str(error)) from error


def _read(what: What, peer: str, data: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(data)
    except messages.Refusal as error:
        raise LinkError(what, peer, "refused", str(error)) from error
    except messages.BrokenMessage as error:
        raise LinkError(what, peer, "broken reply", str(error)) from error
