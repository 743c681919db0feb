"""A link: how one site reaches the others and is reached by them, over any network.

    call     have a peer label items; reports of its labelled data ride along with the replies
    report   ask how much labelled data a peer has around contexts
    post     tell a peer labels, or that none will come; it returns when the peer has stored them
    serve    announce this site, and answer the same three
    tell     let all others know what people may want to see; no site decides by it

A failure is a `LinkError`. A post that failed may have arrived: the sender repeats it, and the receiver takes a
(caller, request) once.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

from cosend.algorithm.values import LabelledData
from cosend.checks import check_number, check_text
from cosend.engine.needs import Call, Forward
from cosend.errors import LinkError, NetworkError
from cosend.transport import codec
from cosend.transport.answering import Counts, Handler, Limits, Server
from cosend.transport.codec import Announcement, Answered, Context, What

LONGEST_S: Final = 3_600.0
LONGEST_NEWS: Final = 4_000  # letters; what is longer is not passed on
NOT_CONNECTED: Final = "there is no connection to the broker"
T = TypeVar("T")


class Change(NamedTuple):
    """A change: of a peer (`announcement` is its latest), or of the connection to all of them."""

    kind: Literal["appeared", "changed", "gone", "connected", "disconnected"]
    announcement: Announcement | None = None


Listener = Callable[[Change], None]


class _Waiting(NamedTuple):
    what: What
    peer: str
    answer: asyncio.Future[bytes]


class Link(ABC):
    """The way from one site to all others; its forms add how bytes get there and back."""

    def __init__(self, site: str, limits: Limits | None = None) -> None:
        check_text("site", site)
        self.site, self.counts = site, Counts()
        self._limits = limits or Limits()
        self._server: Server | None = None
        self._peers: dict[str, Announcement] = {}
        self._news: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self._waiting: dict[str, _Waiting] = {}  # messages without an answer, by key
        self._sent = 0
        self._tasks: set[asyncio.Task[None]] = set()  # answers that are being made

    @property
    @abstractmethod
    def connected(self) -> bool:
        """Whether anybody can be reached. While it is not so, every message fails at once."""

    @abstractmethod
    async def start(self) -> None:
        """Begin to connect, in the background."""

    @abstractmethod
    async def serve(self, announcement: Announcement, handler: Handler) -> None:
        """Announce this site and answer its peers from now on."""

    @abstractmethod
    def tell(self, news: str) -> None:
        """Send news to all sites, which replaces the earlier news; they get it within seconds."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is being answered, say goodbye, and leave."""

    @property
    @abstractmethod
    def _most_bytes(self) -> int:
        """How long a message may be."""

    @abstractmethod
    async def _send(self, key: str, what: What, peer: str, data: bytes) -> None:
        """Send a message whose answer comes back under a key."""

    def peers(self) -> dict[str, Announcement]:
        """Return what is announced by the sites that are there now, without this one."""
        return dict(self._peers)

    def news(self) -> dict[str, str]:
        """Return the latest news of the sites that are there now, without this one; a few thousand letters each."""
        return dict(self._news)

    def listen(self, listener: Listener) -> None:
        """Tell a listener whatever changes from now on."""
        self._listeners.append(listener)

    async def call(self, peer: str, call: Call, deadline_s: float) -> Answered:
        """Have a peer label items."""
        own, count = call._replace(peer=peer, caller=self.site), len(call.questions)
        coding = partial(codec.call_bytes, own), partial(codec.read_answered, count=count)
        return await self._ask("call", peer, deadline_s, *coding)

    async def report(self, peer: str, contexts: Sequence[Context], deadline_s: float) -> Sequence[LabelledData]:
        """Ask a peer how much labelled data it has around contexts."""
        coding = partial(codec.ask_bytes, self.site, contexts), partial(codec.read_report, count=len(contexts))
        return await self._ask("report", peer, deadline_s, *coding)

    async def post(self, peer: str, forwards: Sequence[Forward], deadline_s: float) -> None:
        """Tell a peer labels; when it returns, the peer has stored all of them."""
        encode = partial(codec.post_bytes, peer, self.site, forwards)
        await self._ask("post", peer, deadline_s, encode, partial(codec.read_taken, count=len(forwards)))

    async def _ask(
        self, what: What, peer: str, deadline_s: float, encode: Callable[[], bytes], decode: Callable[[bytes], T]
    ) -> T:
        check_number("deadline_s", deadline_s, LONGEST_S)
        self.counts.sent += 1
        try:
            if not self.connected:  # the caller finds another arm at once, and not at the deadline
                raise LinkError(what, peer, "broker gone", NOT_CONNECTED)
            return decode(await self.exchange(what, peer, encode(), deadline_s))
        except LinkError:
            self.counts.failed += 1
            raise
        except NetworkError as error:
            self.counts.failed += 1
            reasons = {codec.UnfitMessage: "unfit", codec.Refusal: "refused"}
            if isinstance(error, codec.BrokenMessage):
                self.counts.note_broken(error)
            raise LinkError(what, peer, reasons.get(type(error), "broken reply"), str(error)) from error

    async def exchange(self, what: What, peer: str, data: bytes, deadline_s: float) -> bytes:
        """Return what a peer answers to bytes, whatever they are; raises LinkError if it does not."""
        if len(data) > self._most_bytes:
            detail = f"{len(data):,} bytes; the broker carries at most {self._most_bytes:,}"
            raise LinkError(what, peer, "too large", detail)
        return await self._answer(what, peer, deadline_s, lambda key: self._send(key, what, peer, data))

    async def _answer(
        self, what: What, peer: str, deadline_s: float, send: Callable[[str], Awaitable[object]]
    ) -> bytes:
        """Send something under a new key and return what comes back for it."""
        self._sent += 1
        key, answer = str(self._sent), asyncio.get_running_loop().create_future()
        self._waiting[key] = _Waiting(what, peer, answer)
        try:
            async with asyncio.timeout(deadline_s):
                await send(key)
                data: bytes = await answer
                return data
        except TimeoutError:
            raise LinkError(what, peer, "deadline", f"no answer within {deadline_s:g} s") from None
        finally:
            del self._waiting[key]
            if answer.done() and not answer.cancelled():
                answer.exception()  # it may have failed while it was still being sent

    def _answered(self, key: str, data: bytes) -> None:
        """Take note of an answer; one that no caller waits for any more is nothing."""
        waiting = self._waiting.get(key)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(data)

    def _fail(self, reason: str, detail: str, *, key: str | None = None, peer: str | None = None) -> None:
        """End all waits, the one of a key, or those for one peer."""
        for known, (what, asked, answer) in self._waiting.items():
            if key in (None, known) and peer in (None, asked) and not answer.done():
                answer.set_exception(LinkError(what, asked, reason, detail))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin to make an answer."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _check(self, announcement: Announcement) -> None:
        """Raise unless peers will read an announcement as it is meant."""
        try:
            if codec.read_announcement(codec.announcement_texts(announcement)).site == self.site:
                return
            wrong = f"it is of another site than {self.site!r}"
        except NetworkError as error:
            wrong = str(error)
        raise LinkError("announcement", announcement.site, "unfit", wrong)

    def _appeared(self, announcement: Announcement, news: str = "") -> None:
        if announcement.site == self.site:
            return
        if news and len(news) <= LONGEST_NEWS:
            self._news[announcement.site] = news
        known = self._peers.get(announcement.site)
        if announcement != known:
            self._peers[announcement.site] = announcement
            self._changed("appeared" if known is None else "changed", announcement)

    def _gone(self, site: str) -> None:
        known = self._peers.pop(site, None)
        self._news.pop(site, None)
        if known is not None:
            self._changed("gone", known)

    def _changed(self, kind: Any, announcement: Announcement | None = None) -> None:
        for listener in self._listeners:
            listener(Change(kind, announcement))


async def end_tasks(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: code on their way may take a cancellation for something else."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.1)
