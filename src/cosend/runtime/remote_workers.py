"""Models that run elsewhere, in any number of worker processes: the site's side, and the worker's.

Every worker of a classifier has its own name. A call goes to the worker with the least to do; while all are busy,
items wait here and go together. A call to a worker that is gone is repeated at another: workers predict and do not
learn, so nothing can happen twice. One that is silent for too long is a failure, as with any other model.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, Final

from cosend.algorithm.values import LabelledData
from cosend.engine.needs import QUESTION, Call, Failure, Forward, Reply, Rows, columns_of
from cosend.errors import CosendError
from cosend.models.adapters import Classifier, Predicted
from cosend.runtime.driver import checked
from cosend.runtime.model_threads import Worker, smoothed
from cosend.runtime.peer_calls import answers_of_peer
from cosend.transport.codec import Announcement, Answered, Context
from cosend.transport.link import Link

LOG: Final = logging.getLogger("cosend.runtime")
SPREAD_S: Final = 0.002  # what takes longer is shared among workers; what does not is quicker in one call
TICK_S: Final = 0.05
Answers = list[Any]
Told = Callable[[int, int, Predicted], None]
Part = tuple[Sequence[Any], int, Told]  # items, the place of the first, and who hears of them


def worker_name(site: str, classifier: str, number: str) -> str:
    """Return the name under which a worker of a classifier is found."""
    return f"{site}/{classifier}/{number}"


def classifier_of(site: str, worker: str) -> str:
    return worker.rpartition("/")[0].removeprefix(f"{site}/")


class Elsewhere(Worker):
    """One model, run by workers; its own threads are none.

    link   a way to workers only: sites do not hear each other there
    start  runs something in the background
    """

    def __init__(
        self,
        name: str,
        classifier: Classifier,
        limit_s: float,
        *,
        site: str,
        link: Link | None,
        start: Callable[[Any], object],
    ) -> None:
        super().__init__(name, classifier, limit_s, threads=0)
        self._site, self._link, self._spawn = site, link, start
        self._waiting: deque[Part] = deque()
        self._calls: Counter[str] = Counter()  # on their way, by worker
        self._last: dict[str, float] = {}  # by worker: when it was asked last

    def there(self) -> list[Announcement]:
        """Return the workers that can be asked."""
        if self._link is None or not self._link.connected:
            return []
        return [each for each in self._link.peers().values() if classifier_of(self._site, each.site) == self.name]

    def predict(self, items: Sequence[Any], done: Told) -> None:
        size = self._size(len(items))
        for start in range(0, len(items), size):
            self._waiting.append((items[start : start + size], start, done))
        self._send()

    def _size(self, count: int) -> int:
        """Return how many of this many items go in one call."""
        size = self._call_size()
        if self.seconds_per_item * count > SPREAD_S:
            size = min(size, ceil(count / max(1, len(self.there()))))
        return size

    def _send(self) -> None:
        """Give what waits to workers that have a free thread; without any worker, it fails."""
        there = self.there()
        while self._waiting and there:
            free = [each for each in there if self._calls[each.site] < max(1, each.functions)]
            if not free:
                return
            self._spawn(self._call(self._next(free), [*self._next_call()]))
        while self._waiting:
            items, start, done = self._waiting.popleft()
            failed = Failure("there is no worker that could be asked", "network")
            done(start, start + len(items), Predicted([failed] * len(items)))

    def _next(self, workers: Sequence[Announcement]) -> str:
        """Return the worker with the least to do, and of several the one that was asked longest ago."""

        def load(worker: Announcement) -> tuple[float, float]:
            return self._calls[worker.site] / max(1, worker.functions), self._last.get(worker.site, 0.0)

        worker = min(workers, key=load).site
        self._calls[worker] += 1
        self._last[worker] = time.monotonic()
        return worker

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
            self._send()

    async def _call(self, worker: str, parts: list[Part]) -> None:
        items = [item for each, _, _ in parts for item in each]
        answers: Answers = [Failure("this site is stopping", "network")] * len(items)
        begun = time.monotonic()
        try:
            answers = await self._answers(worker, items, begun + self.limit_s)
            spent_s = time.monotonic() - begun
            self.seconds_per_item = smoothed(self.seconds_per_item, spent_s / len(items))
            self.took.add(spent_s)
        finally:
            place = 0
            for each, start, done in parts:
                done(start, start + len(each), Predicted(answers[place : place + len(each)]))
                place += len(each)
            with suppress(RuntimeError):  # the loop is closed
                self._send()

    async def _answers(self, worker: str, items: Sequence[Any], until: float) -> Answers:
        """Return the answers of a worker, or of another one if that is gone."""
        count, tried = len(items), set[str]()
        columns = range(1, count + 1), items, [()] * count, [False] * count, [False] * count
        questions = Rows(QUESTION, *columns)
        while True:
            tried.add(worker)
            try:
                call = Call(worker, self._site, questions)
                answers, _ = await answers_of_peer(self._link, call, until - time.monotonic())
            finally:
                self._calls[worker] -= 1
            others = [each for each in self.there() if each.site not in tried]
            is_gone = isinstance(answers[0], Failure) and answers[0].kind == "network"
            if not is_gone or not others or time.monotonic() >= until:
                return answers
            worker = self._next(others)


class Lending:
    """Has a model label the items of calls, in the process of a worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    async def call(self, call: Call) -> Answered:
        """Label items."""
        items = columns_of(call.questions, 5)[1]
        loop = asyncio.get_running_loop()
        replies: list[Any] = [None] * len(items)
        left, all_there = len(items), loop.create_future()

        def take(start: int, end: int, answers: Answers) -> None:
            nonlocal left
            left -= end - start
            replies[start:end] = map(_reply, checked(self.worker.name, answers))
            if not left and not all_there.done():
                all_there.set_result(None)

        def done(start: int, end: int, answers: Predicted) -> None:
            with suppress(RuntimeError):  # the loop is closed: no client waits
                loop.call_soon_threadsafe(take, start, end, answers.labels)

        if items:
            self.worker.predict(items, done)
            await all_there
        return Answered(replies)

    async def report(self, caller: str, contexts: Sequence[Context]) -> list[LabelledData]:
        """Say that a worker has no labelled data."""
        return [LabelledData(0, 0)] * len(contexts)

    async def post(self, caller: str, forwards: Sequence[Forward]) -> None:
        """Refuse labels."""
        raise CosendError("a worker predicts, and learns nothing")


def _reply(answer: Any) -> Reply:
    return Reply(None, answer.reason) if type(answer) is Failure else Reply(answer)


async def lend(workers: Mapping[str, Worker], links: Mapping[str, Link]) -> None:
    """Let a site use models until this is cancelled; both are by the name under which the site finds each."""
    try:
        for name, worker in workers.items():
            await links[name].start()
            await links[name].serve(Announcement(name, (), worker.threads), Lending(worker))
            LOG.info("ready", extra={"classifier": worker.name, "threads": worker.threads})
        while True:
            await asyncio.sleep(TICK_S)
            for worker in workers.values():
                worker.give_up_late()
    finally:
        await asyncio.gather(*(link.close() for link in links.values()))
        for worker in workers.values():
            worker.close()
