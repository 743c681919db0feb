"""What nobody expected, in any step of a running site: requests are told, and the site is rebuilt from its log."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cosend.node import node as running_node
from cosend.node.deciding import Deciding
from cosend.node.requests import Requests
from cosend.site.rules import Rules
from cosend.stores.event_log import EventLog
from tests.node.networks import until
from tests.node.sites import run, setup_of
from tests.service.clients import called

ITEMS = {"items": [{"features": {"age": 50}}]}
LONGEST_S = 20.0


class Once:
    """Fails once, the way nobody expected: before or after what it stands in front of is done."""

    def __init__(self, real: Callable[..., Any], *, after: bool) -> None:
        self.real, self.after, self.failed = real, after, False

    def __get__(self, owner: Any, _: Any) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            if self.failed:
                return self.real(owner, *given, **options)
            self.failed = True
            if self.after:
                self.real(owner, *given, **options)
            raise MemoryError("for a moment")

        return call


STEPS = [
    (Rules, "choose"),
    (Rules, "complete"),
    (Rules, "_write"),
    (Deciding, "_cycle"),
    (Deciding, "_use"),
    (Deciding, "_answered"),
    (Requests, "decided"),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("kind", "name"), STEPS)
def test_an_error_in_any_step_of_a_decision_is_told_and_the_site_goes_on(
    kind: type, name: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_node, "FIRST_REST_S", 0.05)

    async def work() -> None:
        async with called(setup_of(), tmp_path) as (client, node):
            (before,) = (await client.post("/v1/classify", json=ITEMS)).json()["decisions"]
            monkeypatch.setattr(kind, name, Once(getattr(kind, name), after=after))
            answers = await asyncio.wait_for(
                asyncio.gather(*(client.post("/v1/classify", json=ITEMS) for _ in range(3))), LONGEST_S
            )
            assert 503 in {answer.status_code for answer in answers}
            assert {answer.status_code for answer in answers} <= {200, 503}
            assert (await client.get("/health/ready")).status_code == 503
            await ready(client)
            assert node.counts.rebuilt == 1
            assert (await client.post("/v1/classify", json=ITEMS)).status_code == 200
            heard = (await client.post("/v1/labels", json={"labels": [{"id": before["id"], "label": "well"}]})).json()
            assert heard["learnt"] == [before["id"]]

    run(work())


@pytest.mark.parametrize("name", ["settle", "_write"])
def test_an_error_in_learning_is_told_and_the_label_can_be_given_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_node, "FIRST_REST_S", 0.05)

    async def work() -> None:
        async with called(setup_of(), tmp_path) as (client, _):
            (decided,) = (await client.post("/v1/classify", json=ITEMS)).json()["decisions"]
            labels = {"labels": [{"id": decided["id"], "label": "well"}]}
            monkeypatch.setattr(Rules, name, Once(getattr(Rules, name), after=True))
            answer = await asyncio.wait_for(client.post("/v1/labels", json=labels), LONGEST_S)
            assert answer.status_code == 503
            await ready(client)
            assert (await client.post("/v1/labels", json=labels)).json()["learnt"] == [decided["id"]]

    run(work())


def test_an_error_while_an_operator_changes_something_is_told_and_the_site_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_node, "FIRST_REST_S", 0.05)

    async def work() -> None:
        async with called(setup_of(), tmp_path) as (client, _):
            monkeypatch.setattr(Rules, "_write", Once(Rules._write, after=False))
            answer = await client.post("/v1/arms/young", json={"cost": 0.5})
            assert answer.status_code == 503
            await ready(client)
            assert (await client.post("/v1/arms/young", json={"cost": 0.5})).status_code == 200
            assert (await client.post("/v1/classify", json=ITEMS)).status_code == 200

    run(work())


def test_a_disk_that_hangs_is_noticed_and_the_site_goes_on_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_node, "STUCK_S", 0.3)
    monkeypatch.setattr(running_node, "TIDY_S", 0.1)
    back, real = threading.Event(), EventLog.append

    def hangs(self: EventLog, *given: Any) -> int:
        back.wait(LONGEST_S)
        return real(self, *given)

    async def work() -> None:
        async with called(setup_of(), tmp_path) as (client, _):
            monkeypatch.setattr(EventLog, "append", hangs)
            answer = await asyncio.wait_for(client.post("/v1/classify", json=ITEMS), LONGEST_S)
            assert answer.status_code == 503
            assert "disk" in (await client.get("/health/ready")).json()["detail"]
            back.set()
            await ready(client)
            assert (await client.post("/v1/classify", json=ITEMS)).status_code == 200

    run(work())


def test_answers_that_never_come_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_node, "STUCK_S", 0.3)
    monkeypatch.setattr(running_node, "TIDY_S", 0.1)
    real = Deciding.predict
    monkeypatch.setattr(Deciding, "predict", lambda *_: None)

    async def work() -> None:
        async with called(setup_of(), tmp_path) as (client, _):
            answer = await asyncio.wait_for(client.post("/v1/classify", json=ITEMS), LONGEST_S)
            assert answer.status_code == 503
            monkeypatch.setattr(Deciding, "predict", real)
            await ready(client)
            assert (await client.post("/v1/classify", json=ITEMS)).status_code == 200

    run(work())


def test_what_holds_the_loop_is_said_with_its_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cosend.node.watchdog.HELD_S", 0.2)

    def a_callback_that_holds_the_loop() -> None:
        time.sleep(1.0)

    async def work() -> None:
        async with called(setup_of(), tmp_path) as (client, _):
            await asyncio.sleep(0.1)
            asyncio.get_running_loop().call_soon(a_callback_that_holds_the_loop)
            await asyncio.sleep(0.01)
            assert (await client.post("/v1/classify", json=ITEMS)).status_code == 200
            await until(lambda: any("moves again" in record.message for record in caplog.records))

    with caplog.at_level(logging.WARNING):
        run(work())
    (held,) = [record for record in caplog.records if "is held" in record.message]
    assert "a_callback_that_holds_the_loop" in held.__dict__["stack"]


def test_threads_that_cannot_be_started_lose_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = threading.Thread.start

    def fails(self: threading.Thread) -> None:
        if self.name.startswith(("model", "quick")):
            raise RuntimeError("can't start new thread")
        real(self)

    def slow(_: Any) -> str:
        time.sleep(0.02)
        return "ill"

    async def work() -> None:
        async with called(setup_of({"slow": slow, "other": slow}), tmp_path) as (client, _):
            monkeypatch.setattr(threading.Thread, "start", fails)
            answers = await asyncio.wait_for(
                asyncio.gather(*(client.post("/v1/classify", json=ITEMS) for _ in range(20))), LONGEST_S
            )
            assert [answer.status_code for answer in answers] == [200] * 20

    run(work())


async def ready(client: httpx.AsyncClient) -> None:
    """Wait until a site is ready again."""
    end = time.monotonic() + LONGEST_S
    while (await client.get("/health/ready")).status_code != 200:
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
