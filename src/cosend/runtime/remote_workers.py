"""Models that run elsewhere: in worker processes, any number of them, on any machines.

Every worker of a classifier has a name of its own, so the site knows whom it has given what. It gives each as many
calls at once as that has threads; what comes meanwhile waits here, and goes together. A worker that is silent is asked
whether it is still there. If it is not, its calls are repeated at another, within the time of the classifier; if it
only hangs, whichever answers first counts. Workers predict and do not learn, so nothing can happen twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from cosend.engine.needs import QUESTION, Call, Failure, Reply, Rows, columns_of
from cosend.errors import LinkError
from cosend.models.adapters import Classifier
from cosend.runtime.model_threads import Answers, Worker
from cosend.transport.link import Change, Link, end_tasks

LOOK_S: Final = 0.1  # how often it is looked after workers that are silent, or a part of the shortest limit
LOOKS: Final = 8  # in the time that a call may take
SILENT: Final = 2  # looks after which a worker is asked whether it is there, and as many until it has to answer
SPREAD_S: Final = 0.002  # what takes longer is shared among workers; what does not is quicker in one call
Told = Callable[[int, int, Answers], None]
Part = tuple[Sequence[Any], int, Told]  # items, the place of the first, and who hears of them


def worker_name(site: str, classifier: str, number: str) -> str:
    """Return the name under which a worker of a classifier is found."""
    return f"{site}/{classifier}/{number}"


@dataclass(slots=True, eq=False)
class Remote:
    """A worker process, as the site sees it."""

    name: str
    threads: int
    calls: list[float] = field(default_factory=list)  # when each that is on its way was sent
    silent: bool = False  # it did not answer when it was asked whether it is there
    gone: bool = False
    asked: bool = False  # just now, whether it is there

    @property
    def is_free(self) -> bool:
        """Whether it has a thread without work."""
        return len(self.calls) < self.threads


class Crew:
    """The workers of a site, by classifier.

    link   a way to workers only: sites do not hear each other there
    back   hears the name of a classifier that has a worker again
    """

    def __init__(self, site: str, link: Link | None, back: Callable[[str], None]) -> None:
        self.site, self.link, self._back = site, link, back
        self.look_s = LOOK_S
        self._remotes: dict[str, Remote] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        if link is not None:
            link.listen(self._heard)

    async def start(self) -> None:
        """Look for workers from now on."""
        if self.link is not None:
            await self.link.start()
            self.do(self._look_after())

    async def close(self) -> None:
        """Look for workers no longer; nobody waits for them any more."""
        await end_tasks(self._tasks)
        if self.link is not None:
            await self.link.close()

    def do(self, work: Any) -> None:
        """Do something in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def of(self, classifier: str) -> list[Remote]:
        """Return the workers of a classifier that can be asked."""
        if self.link is None or not self.link.connected:
            return []
        return [each for each in self._remotes.values() if not each.silent and _classifier(each.name) == classifier]

    def _heard(self, change: Change) -> None:
        told = change.announcement
        if told is None or not told.site.startswith(f"{self.site}/"):
            return
        remote = self._remotes.pop(told.site, None)
        if change.kind == "gone":
            if remote is not None:
                remote.gone = True
        else:
            self._remotes[told.site] = remote or Remote(told.site, max(1, told.functions))
            self._back(_classifier(told.site))

    async def _look_after(self) -> None:
        """Ask workers that are silent whether they are there."""
        while True:
            await asyncio.sleep(self.look_s)
            before = time.monotonic() - SILENT * self.look_s
            for remote in list(self._remotes.values()):
                if not remote.asked and (remote.silent or any(sent < before for sent in remote.calls)):
                    remote.asked = True
                    self.do(self._ask(remote))

    async def _ask(self, remote: Remote) -> None:
        was_silent = remote.silent
        try:
            if self.link is not None:
                await self.link.report(remote.name, [], SILENT * self.look_s)
            remote.silent = False
        except LinkError as error:
            if error.reason == "no responders":  # whoever is found again is found by its announcement
                remote.gone = True
                self._remotes.pop(remote.name, None)
            remote.silent = remote.silent or error.reason == "deadline"
        finally:
            remote.asked = False
        if was_silent and not remote.silent and not remote.gone:
            self._back(_classifier(remote.name))


class Elsewhere(Worker):
    """One model, run by workers; its own threads are none."""

    def __init__(self, name: str, classifier: Classifier, limit_s: float, crew: Crew) -> None:
        super().__init__(name, classifier, limit_s, threads=0)
        self._crew = crew
        self._waiting: deque[Part] = deque()
        self._look_s = min(LOOK_S, limit_s / LOOKS)
        crew.look_s = min(crew.look_s, self._look_s)

    def predict(self, items: Sequence[Any], done: Told) -> None:
        """Let workers label items; `done` hears of it for some of them at a time."""
        size = self._size(len(items))
        for start in range(0, len(items), size):
            self._waiting.append((items[start : start + size], start, done))
        self.send()

    def _size(self, count: int) -> int:
        """Return how many of so many items go in one call."""
        size = self._call_size()
        if self.seconds_per_item * count > SPREAD_S:
            size = min(size, ceil(count / max(1, len(self._crew.of(self.name)))))
        return size

    def send(self) -> None:
        """Give what waits to workers that are free."""
        there = self._crew.of(self.name)
        while self._waiting and there:
            remote = min((each for each in there if each.is_free), key=_load, default=None)
            if remote is None:
                return
            parts = [*self._next_call()]
            asking = _Asking(self.name, self._crew, [item for each, _, _ in parts for item in each], self.limit_s)
            asking.ask(remote)  # here and now: the next call goes to whoever has less to do
            self._crew.do(self._call(asking, parts))
        failed = "there is no worker that could be asked" if self._waiting else ""
        while self._waiting:
            items, start, done = self._waiting.popleft()
            done(start, start + len(items), _all_failed(items, failed, "network"))

    def _next_call(self) -> Iterator[Part]:
        """Take what goes in the next call."""
        most, count = self._size(sum(len(items) for items, _, _ in self._waiting)), 0
        while self._waiting and (not count or count + len(self._waiting[0][0]) <= most):
            part = self._waiting.popleft()
            count += len(part[0])
            yield part

    def give_up_late(self) -> None:
        """Fail what waits if there is no worker left; calls have their own deadlines."""
        if self._waiting:
            self.send()

    async def _call(self, asking: _Asking, parts: list[Part]) -> None:
        begun = time.monotonic()
        answers: Answers = _all_failed(asking.items, "this site is stopping", "network")
        try:
            answers = await self._answers(asking)
            spent = (time.monotonic() - begun) / len(asking.items)
            self.seconds_per_item = spent if not self.seconds_per_item else (self.seconds_per_item + spent) / 2
        finally:
            place = 0
            for each, start, done in parts:
                part, place = answers[place : place + len(each)], place + len(each)
                done(start, start + len(each), part)
            with suppress(RuntimeError):  # the loop is closed
                self.send()

    async def _answers(self, asking: _Asking) -> Answers:
        """Return what workers say of items, in several calls if they are too many for one."""
        items = asking.items
        try:
            return await asking.answers(self._look_s)
        except LinkError as error:
            if error.reason not in ("too large", "unfit") or len(items) == 1:
                return _all_failed(items, str(error), "time" if error.reason == "deadline" else "network")
        finally:
            await end_tasks(asking.calls.keys())
        parts = [await self._answers(half) for half in asking.halves()]
        return [answer for part in parts for answer in part]


class _Asking:
    """A call that is repeated at another worker if one is gone, silent, or refuses."""

    def __init__(self, classifier: str, crew: Crew, items: Sequence[Any], limit_s: float) -> None:
        self.classifier, self.crew, self.items = classifier, crew, items
        self.until = time.monotonic() + limit_s
        count = len(items)
        columns = range(1, count + 1), items, [()] * count, [False] * count, [False] * count
        self.questions = Rows(QUESTION, *columns)
        self.calls: dict[asyncio.Task[Any], Remote] = {}
        self.tried: set[str] = set()
        self.error = LinkError("call", classifier, "no responders", "there is no worker that could be asked")

    def halves(self) -> Iterator[_Asking]:
        """Yield the same in two parts, the second when the first is answered."""
        half = len(self.items) // 2
        for part in self.items[:half], self.items[half:]:
            asking = _Asking(self.classifier, self.crew, part, self.until - time.monotonic())
            asking.ask_another()
            yield asking

    async def answers(self, look_s: float) -> Answers:
        """Return what the first says that answers; raises LinkError if nobody does."""
        while self.calls:
            done, _ = await asyncio.wait(self.calls, timeout=look_s, return_when=asyncio.FIRST_COMPLETED)
            for call in done:
                self.calls.pop(call)
                error = call.exception()
                if error is None:
                    both = zip(*columns_of(call.result(), 2), strict=True)
                    return [label if failed is None else Failure(failed) for label, failed in both]
                if not isinstance(error, LinkError):
                    raise error
                self.error = error
                if error.reason in ("too large", "unfit"):
                    raise error
            if not any(self._may_answer(each) for each in self.calls.values()):
                self.ask_another()
        raise self.error

    def _may_answer(self, remote: Remote) -> bool:
        return not remote.gone and not remote.silent

    def ask_another(self) -> None:
        """Ask a worker that was not asked yet, if there is one and time is left."""
        others = [each for each in self.crew.of(self.classifier) if each.name not in self.tried]
        if others and time.monotonic() < self.until:
            self.ask(min(others, key=_load))
        elif all(each.gone for each in self.calls.values()):  # nobody is left to wait for
            for call in self.calls:
                call.cancel()
            self.calls.clear()

    def ask(self, remote: Remote) -> None:
        """Ask a worker."""
        self.tried.add(remote.name)
        sent = time.monotonic()
        remote.calls.append(sent)
        call = asyncio.get_running_loop().create_task(self._asked(remote, self.until - sent))
        call.add_done_callback(lambda _: remote.calls.remove(sent))
        self.calls[call] = remote

    async def _asked(self, remote: Remote, within_s: float) -> Sequence[Reply]:
        if self.crew.link is None or within_s <= 0:
            raise self.error
        call = Call(remote.name, self.crew.site, self.questions)
        return (await self.crew.link.call(remote.name, call, within_s)).replies


def _classifier(name: str) -> str:
    """Return the classifier of a worker."""
    return name.partition("/")[2].rpartition("/")[0]


def _load(remote: Remote) -> tuple[float, float]:
    """Return how much a worker has to do, and of those with as much, when it was given something last."""
    return len(remote.calls) / remote.threads, remote.calls[-1] if remote.calls else 0.0


def _all_failed(items: Sequence[Any], reason: str, kind: Any) -> Answers:
    return [Failure(reason, kind)] * len(items)
