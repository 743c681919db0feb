"""Sites that are linked, for tests: what they do for each other, and what can be done to them."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from cosend.algorithm.values import LabelledData
from cosend.engine.needs import Call, Forward, Question, Reply
from cosend.transport.answering import Limits
from cosend.transport.codec import Announcement, Answered, What
from cosend.transport.in_process import Hub, InProcessLink
from cosend.transport.link import Change, Link, end_tasks
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions


class Peer:
    """Labels an item by what it is, keeps what it is taught, and misbehaves on demand."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.taught: dict[tuple[str, int], Any] = {}
        self.posts = 0
        self.hangs_s = 0.0
        self.hangs_after_commit_s = 0.0
        self.error: Exception | None = None
        self.reports = True
        self.answers: Answered | None = None  # whatever it is asked

    async def _misbehave(self) -> None:
        if self.hangs_s:
            await asyncio.sleep(self.hangs_s)
        if self.error is not None:
            raise self.error

    async def call(self, call: Call) -> Answered:
        self.calls.append(call)
        await self._misbehave()
        if self.answers is not None:
            return self.answers
        replies = [Reply(question.item) for question in call.questions]
        return Answered(replies, [self._labelled(each.context) for each in call.questions] if self.reports else [])

    async def report(self, caller: str, contexts: Sequence[tuple[Any, ...]]) -> list[LabelledData]:
        await self._misbehave()
        return [self._labelled(context) for context in contexts]

    def _labelled(self, context: tuple[Any, ...]) -> LabelledData:
        return LabelledData(len(context), len(self.taught))

    async def post(self, caller: str, forwards: Sequence[Forward]) -> None:
        await self._misbehave()
        self.posts += 1
        for forward in forwards:
            self.taught.setdefault((caller, forward.request), forward.truth)
        await asyncio.sleep(self.hangs_after_commit_s)


class World(Protocol):
    """Some form of links, and its mishaps."""

    async def link(self, site: str, limits: Limits | None = None) -> Link: ...

    async def kill(self, link: Link) -> None: ...

    async def stop_broker(self) -> None: ...

    async def start_broker(self) -> None: ...

    async def send(self, link: Link, what: What, peer: str, data: bytes) -> bytes: ...

    async def close(self) -> None: ...


class InProcessWorld:
    def __init__(self) -> None:
        self.hub = Hub()
        self.links: list[InProcessLink] = []

    async def link(self, site: str, limits: Limits | None = None) -> InProcessLink:
        self.links.append(self.hub.link(site, limits))
        return self.links[-1]

    async def kill(self, link: Link) -> None:
        assert isinstance(link, InProcessLink)
        await link.kill()

    async def stop_broker(self) -> None:
        self.hub.stop()

    async def start_broker(self) -> None:
        self.hub.start()

    async def send(self, link: Link, what: What, peer: str, data: bytes) -> bytes:
        assert isinstance(link, InProcessLink)
        return await link.exchange(what, peer, data, 2.0)

    async def close(self) -> None:
        for link in self.links:
            await link.kill()


def server_binary() -> str | None:
    """Return where nats-server is: beside this Python, where its package puts it, or on the PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class Broker:
    """A nats-server on a port of its own."""

    def __init__(self, *arguments: str, port: int | None = None) -> None:
        self.port = port or _free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [server_binary() or "", "--addr", "127.0.0.1", "--port", str(self.port), *self.arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        end = time.monotonic() + 10.0
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                time.sleep(0.01)
        raise AssertionError("nats-server does not start")

    def freeze(self) -> None:
        """Stop it where it is; a signal is only on its way until the process says so."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        while any(_state(task) != "T" for task in tasks.iterdir()):
            time.sleep(0.001)

    def thaw(self) -> None:
        """Let it go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has ended
        return "T"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class NatsWorld:
    def __init__(self, broker: Broker, **options: Any) -> None:
        self.broker = broker
        given = {"servers": (broker.url,), "again_s": 0.05, "discover_s": 0.2}
        self.options = NatsOptions(**{**given, **options})
        self.links: list[NatsLink] = []

    async def link(self, site: str, limits: Limits | None = None) -> NatsLink:
        link = NatsLink(site, self.options, limits)
        self.links.append(link)
        await link.start(within_s=5.0)
        return link

    async def kill(self, link: Link) -> None:
        assert isinstance(link, NatsLink)
        await end_tasks([*link._background, *link._tasks])
        await link._drop_client()  # without a word

    async def stop_broker(self) -> None:
        self.broker.kill()

    async def start_broker(self) -> None:
        self.broker.start()

    async def send(self, link: Link, what: What, peer: str, data: bytes) -> bytes:
        assert isinstance(link, NatsLink)
        return await link.exchange(what, peer, data, 2.0)

    async def close(self) -> None:
        for link in self.links:
            await link.close()


def announcement(site: str, **fields: Any) -> Announcement:
    return Announcement(**{"site": site, "context": ("age in 0..100",), "functions": 2, "cost": 0.25, **fields})


def a_call(*items: Any, request: int = 1, context: tuple[Any, ...] = (0.5,)) -> Call:
    questions = [Question(request + n, item, context, bool(n % 2), True) for n, item in enumerate(items)]
    return Call("", "", questions)


async def until(true: Callable[[], object], within_s: float = 30.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it takes too long"
        await asyncio.sleep(0.01)


async def until_it_says(words: str, link: NatsLink) -> None:
    """Let a link try to connect until it says in these words why it cannot; there may be other reasons in between."""
    await link.start()
    try:
        await until(lambda: words in link.last_error.lower())
    finally:
        await link.close()


class Ear:
    """Hears what changes."""

    def __init__(self, link: Link) -> None:
        self.changes: list[Change] = []
        link.listen(self.changes.append)

    def heard(self, kind: str) -> list[str]:
        return [
            change.announcement.site if change.announcement else "" for change in self.changes if change.kind == kind
        ]
