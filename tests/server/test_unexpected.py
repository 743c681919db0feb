"""What nobody expected, in any step of a running site: requests are told, and the site is rebuilt from its log."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from cosend.engine.engine import Engine
from cosend.engine.learnt_arms import LearntArms
from cosend.engine.site_state import SiteState
from cosend.runtime import running_site as running_node
from cosend.runtime.client_requests import Requests
from cosend.runtime.driver import Driver
from cosend.store.event_log import EventLog
from tests.node.sites import setup_of, until
from tests.server.services import called

ITEMS = {"items": [{"features": {"age": 50}}]}
LONGEST_S = 20.0


class Once:
    """Fails once, the way nobody expected: before or after what it stands in front of is done."""

    def __init__(self, real: Callable[..., Any], *, after: bool) -> None:
        self.real, self.after, self.failed = real, after, False

    def __get__(self, owner: Any, _: Any) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            fails, self.failed = not self.failed, True
            if fails and not self.after:
                raise MemoryError("for a moment")
            result = self.real(owner, *given, **options)
            if fails:
                raise MemoryError("for a moment")
            return result

        return call


STEPS = [
    (SiteState, "choose"),
    (SiteState, "enter_heard"),
    (LearntArms, "opinions"),
    (SiteState, "complete"),
    (SiteState, "write"),
    (Engine, "submit"),
    (Engine, "heard"),
    (Engine, "answered"),
    (Driver, "_submit"),
    (Driver, "_execute"),
    (Driver, "_take_answers"),
    (Requests, "answer"),
]
AFTER_THE_CHOICE = ("complete", "answered")  # where models cost something


@pytest.fixture(autouse=True)
def rebuilt_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_node, "FIRST_REST_S", 0.05)


@pytest.fixture
def noticed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_node, "STUCK_S", 1.0)
    monkeypatch.setattr(running_node, "TIDY_S", 0.1)


async def decide(client: httpx.AsyncClient, count: int = 1) -> list[int]:
    """Ask for decisions at once; return the statuses."""
    asked = asyncio.gather(*(client.post("/v1/classify", json=ITEMS) for _ in range(count)))
    return [answer.status_code for answer in await asyncio.wait_for(asked, LONGEST_S)]


async def goes_on(client: httpx.AsyncClient) -> None:
    end = time.monotonic() + LONGEST_S
    while (await client.get("/health/ready")).status_code != 200:
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    assert await decide(client) == [200]


@pytest.mark.parametrize(("kind", "name"), STEPS)
async def test_an_error_in_any_step_of_a_decision_is_told_and_the_site_goes_on(
    kind: type, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = dict.fromkeys(("young", "old"), 0.1) if name in AFTER_THE_CHOICE else {}
    async with called(setup_of(costs=costs), tmp_path) as (client, _):
        (before,) = await client.decide(None)
        for rebuilds, after in enumerate((False, True), start=1):
            with monkeypatch.context() as patched:
                patched.setattr(kind, name, Once(getattr(kind, name), after=after))
                statuses = {*await decide(client, 3)}
                assert 503 in statuses <= {200, 503}
                assert (await client.get("/health/ready")).status_code == 503
                await goes_on(client)
            assert f"\ncosend_rebuilds_total {rebuilds}.0\n" in (await client.get("/metrics")).text
        assert (await client.learn("well", before["id"]))["learnt"] == [before["id"]]


@pytest.mark.parametrize("name", ["settle", "write"])
async def test_an_error_in_learning_is_told_and_the_label_can_be_given_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        (decided,) = await client.decide(None)
        labels = {"labels": [{"id": decided["id"], "label": "well"}]}
        monkeypatch.setattr(SiteState, name, Once(getattr(SiteState, name), after=True))
        assert (await asyncio.wait_for(client.post("/v1/labels", json=labels), LONGEST_S)).status_code == 503
        await goes_on(client)
        assert (await client.learn("well", decided["id"]))["learnt"] == [decided["id"]]


async def test_an_error_while_an_operator_changes_something_is_told_and_the_site_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        monkeypatch.setattr(SiteState, "write", Once(SiteState.write, after=False))
        assert (await client.post("/v1/arms/young", json={"cost": 0.5})).status_code == 503
        await goes_on(client)
        assert (await client.post("/v1/arms/young", json={"cost": 0.5})).status_code == 200


@pytest.mark.usefixtures("noticed_soon")
async def test_a_disk_that_hangs_is_noticed_and_the_site_goes_on_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back, real = threading.Event(), EventLog.append

    def hangs(self: EventLog, *given: Any) -> int:
        back.wait(LONGEST_S)
        return real(self, *given)

    async with called(setup_of(), tmp_path) as (client, _):
        monkeypatch.setattr(EventLog, "append", hangs)
        assert await decide(client) == [503]
        assert "disk" in (await client.get("/health/ready")).json()["detail"]
        back.set()
        await goes_on(client)


@pytest.mark.usefixtures("noticed_soon")
async def test_answers_that_never_come_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Driver._said
    monkeypatch.setattr(Driver, "_said", lambda *_: None)
    async with called(setup_of(), tmp_path) as (client, _):
        assert await decide(client) == [503]
        monkeypatch.setattr(Driver, "_said", real)
        await goes_on(client)


async def test_what_holds_the_loop_is_said_with_its_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cosend.runtime.watchdog.HELD_S", 0.2)

    def a_callback_that_holds_the_loop() -> None:
        time.sleep(1.0)

    with caplog.at_level(logging.WARNING):
        async with called(setup_of(), tmp_path) as (client, _):
            await asyncio.sleep(0.1)
            asyncio.get_running_loop().call_soon(a_callback_that_holds_the_loop)
            await asyncio.sleep(0.01)
            assert await decide(client) == [200]
            await until(lambda: any("loop continues" in record.message for record in caplog.records))
    (held,) = [record for record in caplog.records if "is blocked" in record.message]
    assert "a_callback_that_holds_the_loop" in held.__dict__["stack"]


async def test_threads_that_cannot_be_started_lose_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = threading.Thread.start

    def fails(self: threading.Thread) -> None:
        if self.name.startswith(("model", "quick")):
            raise RuntimeError("can't start new thread")
        real(self)

    def slow(_: Any) -> str:
        time.sleep(0.02)
        return "ill"

    async with called(setup_of({"slow": slow, "other": slow}), tmp_path) as (client, _):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fails)
            assert await decide(client, 20) == [200] * 20


async def test_one_event_dated_a_year_ahead_does_not_stop_pruning(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        await decide(client, 20)
    with closing(sqlite3.connect(tmp_path / "events.sqlite")) as log, log:
        (ahead,) = log.execute("SELECT MAX(number) FROM events").fetchone()
        log.execute("UPDATE events SET at = at + 365 * 86400 WHERE number = ?", (ahead,))
    async with called(setup_of(keep_s=0.0), tmp_path) as (client, site):
        for _ in range(2):  # the older of two snapshots must cover what goes
            await site.snapshot()
            await decide(client)
        await asyncio.sleep(0.01)
        await site.prune()
        facts = await client.summary()
        assert facts["oldest_event"] > ahead
        assert facts["pending"] == 22
