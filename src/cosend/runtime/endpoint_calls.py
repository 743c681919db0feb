"""Models behind addresses, called in the event loop of the site: hundreds of requests at once, and no threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from cosend.engine.needs import Failure
from cosend.models.adapters import Predicted
from cosend.models.endpoints import Endpoint
from cosend.runtime.model_threads import Worker, smoothed

Told = Callable[[int, int, Predicted], None]


class Calling(Worker):
    """One endpoint; its own threads are none.

    An item has its time limit for everything: for a free connection, the request, and the reply.

    start  runs something in the background
    """

    def __init__(self, name: str, endpoint: Endpoint, limit_s: float, *, start: Callable[[Any], object]) -> None:
        super().__init__(name, endpoint, limit_s, threads=0)
        self._endpoint, self._spawn = endpoint, start
        self._client: Any = None
        self._room = asyncio.Semaphore(endpoint.in_flight)

    def predict(self, items: Sequence[Any], done: Told) -> None:
        self._client = self._client or self._endpoint.client()
        until, size = time.monotonic() + self.limit_s, self._endpoint.batch
        for start in range(0, len(items), size):
            self._spawn(self._call(items[start : start + size], start, until, done))

    async def _call(self, items: Sequence[Any], start: int, until: float, done: Told) -> None:
        answers = Predicted([Failure("this site is stopping", "network")] * len(items))
        try:
            answers = await self._answers(items, until)
        finally:
            done(start, start + len(items), answers)

    async def _answers(self, items: Sequence[Any], until: float) -> Predicted:
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                await self._room.acquire()
        except TimeoutError:
            busy = f"{self._endpoint.in_flight} calls of it are under way, and none of them ended in time"
            return Predicted([Failure(busy, "time")] * len(items))
        begun = time.monotonic()
        try:
            return await self._endpoint.ask(self._client, items, self.limit_s, until)
        finally:
            self._room.release()
            self.seconds_per_item = smoothed(self.seconds_per_item, (time.monotonic() - begun) / len(items))

    def give_up_late(self) -> None:
        """Do nothing: every call has its own deadline."""

    def close(self) -> None:
        """Let the connections end."""
        if self._client is not None:
            self._spawn(self._client.aclose())
            self._client = None
