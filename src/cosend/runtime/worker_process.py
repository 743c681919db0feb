"""The process of a worker: it runs models for a site that decides elsewhere, and knows nothing else of that site."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from cosend.algorithm.values import LabelledData
from cosend.engine.needs import Call, Failure, Forward, Reply, columns_of
from cosend.errors import CosendError
from cosend.runtime.driver import checked
from cosend.runtime.model_threads import Answers, Worker
from cosend.transport.codec import Announcement, Answered, Context
from cosend.transport.link import Link

LOG: Final = logging.getLogger("cosend.runtime")
TICK_S: Final = 0.05


class Lending:
    """Has a model label the items of calls."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    async def call(self, call: Call) -> Answered:
        """Label items."""
        items = columns_of(call.questions, 5)[1]
        if not items:
            return Answered([])
        loop = asyncio.get_running_loop()
        replies: list[Any] = [None] * len(items)
        left, all_there = len(items), loop.create_future()

        def take(start: int, end: int, answers: Answers) -> None:
            nonlocal left
            left -= end - start
            replies[start:end] = map(_reply, checked(self.worker.name, answers))
            if not left and not all_there.done():
                all_there.set_result(None)

        def done(start: int, end: int, answers: Answers) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(take, start, end, answers)

        self.worker.predict(items, done)
        await all_there
        return Answered(replies)

    async def report(self, caller: str, contexts: Sequence[Context]) -> list[LabelledData]:
        """Say that it is here: a worker has no labelled data."""
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
