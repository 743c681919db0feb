"""While decisions are only observed, clients get the observer's answer whatever becomes of the arms."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.node.sites import run, setup_of
from tests.service.clients import called

HANGS_S = 3.0


def observer(_: Any) -> str:
    return "seen"


def hangs(_: Any) -> str:
    time.sleep(HANGS_S)
    return "late"


def waits(_: Any) -> str:
    time.sleep(0.3)
    return "later"


def broken(_: Any) -> str:
    raise ValueError("no such column")


async def observe(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/mode", json={"mode": "observe", "classifier": "observer"})
    assert answer.status_code == 200


async def asked(client: httpx.AsyncClient, *names: str | None) -> httpx.Response:
    items = [{"features": {"age": 50}, **({} if name is None else {"id": name})} for name in names]
    return await client.post("/v1/classify", json={"items": items})


async def labelled(client: httpx.AsyncClient, *ids: str) -> dict[str, list[str]]:
    answer = await client.post("/v1/labels", json={"labels": [{"id": each, "label": "seen"} for each in ids]})
    assert answer.status_code == 200
    heard: dict[str, list[str]] = answer.json()
    return heard


def test_the_observer_answers_when_all_arms_are_paused(tmp_path: Path) -> None:
    async def work() -> None:
        async with called(setup_of({"observer": observer, "other": observer}), tmp_path) as (client, _):
            await observe(client)
            for arm in ("observer", "other"):
                assert (await client.post(f"/v1/arms/{arm}", json={"paused": True})).status_code == 200
            answer = await asked(client, "mine", None, None)
            assert answer.status_code == 200
            decisions = answer.json()["decisions"]
            assert [(each["label"], each["answered_by"]) for each in decisions] == [("seen", "observer")] * 3
            assert decisions[0]["id"] == "mine"
            assert len({each["id"] for each in decisions}) == 3
            assert {each["arm"] for each in decisions} == {"observer"}
            assert (await asked(client, "mine")).json()["decisions"] == decisions[:1]
            heard = await labelled(client, *(each["id"] for each in decisions))
            assert len(heard["learnt"]) == 3
            arms = (await client.get("/v1/arms")).json()
            assert all(each["paused"] for each in arms["arms"])

    run(work())


@pytest.mark.parametrize("named", [False, True])
def test_the_observer_does_not_wait_for_an_arm_that_hangs(named: bool, tmp_path: Path) -> None:
    setup = setup_of({"observer": observer, "hangs": hangs}, limits_s={"hangs": HANGS_S / 2}, costs={"observer": 0.5})

    async def work() -> None:
        async with called(setup, tmp_path) as (client, node):
            await observe(client)
            begun = time.monotonic()
            answers = [await asked(client, *(f"n{n}" if named else None for _ in range(3))) for n in range(5)]
            assert time.monotonic() - begun < HANGS_S / 2
            for answer in answers:
                assert answer.status_code == 200
                assert {each["label"] for each in answer.json()["decisions"]} == {"seen"}
            assert any(each["arm"] == "hangs" for answer in answers for each in answer.json()["decisions"])
            while node.deciding.requests.in_flight:
                await asyncio.sleep(0.02)

    run(work())


def test_an_id_gets_the_same_answer_again_before_and_after_its_arm_has_answered(tmp_path: Path) -> None:
    setup = setup_of({"observer": observer, "waits": waits}, costs={"observer": 0.5})

    async def work() -> None:
        async with called(setup, tmp_path) as (client, node):
            await observe(client)
            first = (await asked(client, *"abcdefgh")).json()
            assert (await asked(client, *"abcdefgh")).json() == first
            while node.deciding.requests.in_flight:
                await asyncio.sleep(0.02)
            assert (await asked(client, *"abcdefgh")).json() == first

    run(work())


def test_a_label_that_comes_before_the_arm_has_answered_is_learnt(tmp_path: Path) -> None:
    setup = setup_of({"observer": observer, "waits": waits}, costs={"observer": 0.5})

    async def work() -> None:
        async with called(setup, tmp_path) as (client, _):
            await observe(client)
            for name in (None, "mine"):
                decisions = (await asked(client, name)).json()["decisions"]
                (made,) = decisions
                assert (await labelled(client, made["id"]))["learnt"] == [made["id"]]

    run(work())


def test_arms_that_fail_are_nobodys_trouble(tmp_path: Path) -> None:
    models = {"observer": observer, **{f"v{n}": broken for n in range(6)}}

    async def work() -> None:
        async with called(setup_of(models, costs={"observer": 0.5}), tmp_path) as (client, node):
            await observe(client)
            for n in range(12):
                answer = await asked(client, f"n{n}", None)
                assert answer.status_code == 200, answer.text
                assert {each["label"] for each in answer.json()["decisions"]} == {"seen"}
            assert node.deciding.requests.in_flight == 0

    run(work())


def test_an_observer_that_fails_leaves_the_answer_to_the_arms(tmp_path: Path) -> None:
    async def work() -> None:
        async with called(setup_of({"observer": broken, "good": waits}), tmp_path) as (client, node):
            await observe(client)
            for n in range(6):
                answer = await asked(client, f"n{n}")
                assert answer.status_code == 200, answer.text
                (made,) = answer.json()["decisions"]
                assert (made["label"], made.get("answered_by")) == ("later", None)
                assert (await labelled(client, made["id"]))["learnt"] == [made["id"]]
            assert node.deciding.requests.in_flight == 0

    run(work())
