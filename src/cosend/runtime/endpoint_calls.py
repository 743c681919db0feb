"""Models behind addresses, called in the event loop of the site: hundreds of requests at once, and no threads."""

from __future__ import annotations

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
        self._connections = endpoint.connections()

    def predict(self, items: Sequence[Any], done: Told) -> None:
        until, size = time.monotonic() + self.limit_s, self._endpoint.batch
        for start in range(0, len(items), size):
            self._spawn(self._call(items[start : start + size], start, until, done))

    async def _call(self, items: Sequence[Any], start: int, until: float, done: Told) -> None:
        answers, begun = Predicted([Failure("this site is stopping", "network")] * len(items)), time.monotonic()
        try:
            answers = await self._endpoint.ask(self._connections, items, self.limit_s, until)
        finally:
            spent_s = time.monotonic() - begun
            self.seconds_per_item = smoothed(self.seconds_per_item, spent_s / len(items))
            self.took.add(spent_s)
            done(start, start + len(items), answers)

    def give_up_late(self) -> None:
        """Do nothing: every call has its own deadline."""

    def close(self) -> None:
        """Let the connections end."""
        self._spawn(self._connections.close())
