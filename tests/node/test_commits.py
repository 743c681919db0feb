"""Commits: nobody hears before it is on the disk, what comes meanwhile is written together, and a failure is final."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cosend.engine.events import ModeChanged
from cosend.errors import Unavailable
from cosend.runtime.log_writer import LINGER_S, Commits
from cosend.store.event_log import EventLog
from cosend.store.log_index import LABEL, NAME, SET, LogIndex
from tests.node.sites import until

EVENT = ModeChanged("apply", "")


class SlowLog(EventLog):
    """A log that waits until it may write, and counts."""

    may_write: threading.Event
    transactions: int

    def append(self, events: Any, spans: Any = None, also: Any = ()) -> int:
        self.may_write.wait(10)
        self.transactions += 1
        return super().append(events, spans, also)


@asynccontextmanager
async def committing(folder: Path) -> AsyncIterator[tuple[Commits, SlowLog, list[str]]]:
    broken: list[str] = []
    with SlowLog(folder, site="north") as log:
        log.may_write, log.transactions = threading.Event(), 0
        commits = Commits(log, broken.append)
        try:
            yield commits, log, broken
        finally:
            log.may_write.set()
            await asyncio.to_thread(commits.close)


async def test_nobody_hears_before_it_is_written_and_what_comes_meanwhile_shares_a_transaction(tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, _):
        await commits.done()  # with nothing to write nobody waits
        commits.event(EVENT)
        first = asyncio.create_task(commits.done())
        await asyncio.sleep(0.02)
        assert (commits.position, log.position, first.done()) == (1, 0, False)
        waiting = []
        for n in range(100):
            commits.event(EVENT)
            commits.also(NAME, [(f"name {n}", n)])
            waiting.append(asyncio.create_task(commits.done()))
        await asyncio.sleep(0.02)
        assert not any(each.done() for each in waiting)
        log.may_write.set()
        await asyncio.gather(first, *waiting)
        assert (commits.position, log.position, log.transactions) == (101, 101, 2)


async def test_rows_are_written_with_their_events_or_not_at_all(tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, broken):
        log.may_write.set()
        commits.event(EVENT)
        commits.also(NAME, [("one", 1)])
        commits.also(SET, [("key", b"value")])
        commits.also(LABEL, [(1, 0)])
        await commits.done()
        reader = LogIndex(log.reader())
        assert (reader.named(["one"]), reader.labelled([1])) == ({"one": 1}, {1: 0})
        assert reader.setting("key") == b"value"
        commits.event(EVENT)
        commits.also(NAME, [("two", 2)])
        commits.also(LABEL, [(2, None)])
        with pytest.raises(Unavailable, match="NOT NULL"):
            await commits.done()
        commits.event(EVENT)  # and nothing goes on
        with pytest.raises(Unavailable, match="NOT NULL"):
            await commits.done()
        assert (log.position, len(broken)) == (1, 1)
        assert reader.named(["one", "two"]) == {"one": 1}
        reader.close()


async def test_what_nobody_waits_for_is_written_soon_or_with_what_somebody_waits_for(tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, _):
        log.may_write.set()
        commits.event(EVENT)
        await asyncio.sleep(0)
        commits.event(EVENT)
        await commits.done()
        assert (log.position, log.transactions) == (2, 1)
        commits.event(EVENT)
        await until(lambda: log.transactions == 2)
        log.may_write.clear()
        commits.event(EVENT)
        first = asyncio.create_task(commits.done())
        await asyncio.sleep(2 * LINGER_S)
        commits.event(EVENT)
        await asyncio.sleep(2 * LINGER_S)  # its time is over while the one before is still being written
        log.may_write.set()
        await first
        await until(lambda: log.position == 5)
