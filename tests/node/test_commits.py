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
from cosend.errors import StateError, Unavailable
from cosend.runtime.log_writer import LINGER_S, Commits
from cosend.store.event_log import EventLog
from cosend.store.log_index import LABEL, NAME, SET, LogIndex

EVENT = ModeChanged("apply", "")


class SlowLog(EventLog):
    """A log that waits until it may write, and counts."""

    may_write: threading.Event
    transactions: int
    error: Exception | None

    def append(self, events: Any, spans: Any = None, also: Any = ()) -> int:
        self.may_write.wait(10)
        if self.error is not None:
            raise self.error
        self.transactions += 1
        return super().append(events, spans, also)


@asynccontextmanager
async def committing(folder: Path) -> AsyncIterator[tuple[Commits, SlowLog, list[str]]]:
    broken: list[str] = []
    with SlowLog(folder, site="north") as log:
        log.may_write, log.transactions, log.error = threading.Event(), 0, None
        commits = Commits(log, broken.append)
        try:
            yield commits, log, broken
        finally:
            log.may_write.set()
            await asyncio.to_thread(commits.close)


async def test_nobody_hears_before_it_is_written_and_what_comes_meanwhile_shares_a_transaction(tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, _):
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


async def test_with_nothing_to_write_nobody_waits(tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, _):
        await commits.done()
        assert log.transactions == 0


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
        assert (log.position, len(broken)) == (1, 1)
        assert reader.named(["one", "two"]) == {"one": 1}
        reader.close()


@pytest.mark.parametrize("error", [StateError("no disk"), ValueError("what?")])
async def test_after_a_failure_all_who_wait_hear_of_it_and_nothing_goes_on(error: Exception, tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, broken):
        log.error = error
        commits.event(EVENT)
        waiting = [asyncio.create_task(commits.done())]
        await asyncio.sleep(0.01)
        commits.event(EVENT)
        waiting.append(asyncio.create_task(commits.done()))
        await asyncio.sleep(0.01)
        log.may_write.set()
        for each in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(each, Unavailable)
        log.error = None
        commits.event(EVENT)
        with pytest.raises(Unavailable, match=str(error).rstrip("?")):
            await commits.done()
        assert (log.position, len(broken)) == (0, 1)


async def test_one_who_no_longer_waits_disturbs_nobody(tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, _):
        commits.event(EVENT)
        gone, stays = asyncio.create_task(commits.done()), asyncio.create_task(commits.done())
        await asyncio.sleep(0.01)
        gone.cancel()
        log.may_write.set()
        await stays
        assert log.position == 1


async def test_what_nobody_waits_for_is_written_soon_or_with_what_somebody_waits_for(tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, _):
        log.may_write.set()
        commits.event(EVENT)
        await asyncio.sleep(0)
        commits.event(EVENT)
        await commits.done()
        assert (log.position, log.transactions) == (2, 1)
        for position in (3, 4):
            commits.event(EVENT)
            for _ in range(200):
                await asyncio.sleep(LINGER_S / 4)
                if log.position == position:
                    break
            assert (log.position, log.transactions) == (position, position - 1)


async def test_what_comes_during_a_commit_is_written_though_nobody_waits_for_it(tmp_path: Path) -> None:
    async with committing(tmp_path) as (commits, log, _):
        commits.event(EVENT)
        first = asyncio.create_task(commits.done())
        await asyncio.sleep(2 * LINGER_S)
        commits.event(EVENT)
        await asyncio.sleep(2 * LINGER_S)  # its time is over while the first is still being written
        log.may_write.set()
        await first
        for _ in range(200):
            await asyncio.sleep(LINGER_S / 4)
            if log.position == 2:
                break
        assert log.position == 2
