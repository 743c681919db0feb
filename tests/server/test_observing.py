"""In mode observe, clients get the observer's answer whatever becomes of the arms; and an id always gets the same."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from cosend import ZoomingKLUCB
from tests.node.sites import setup_of
from tests.server.services import called, summary

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


async def post(client: httpx.AsyncClient, path: str, body: Any) -> Any:
    reply = await client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def observe(client: httpx.AsyncClient, classifier: str = "observer") -> None:
    await post(client, "/v1/mode", {"mode": "observe", "classifier": classifier})


async def decide(client: httpx.AsyncClient, *ids: str | None, age: float = 50.0) -> Any:
    items = [{"features": {"age": age}, "id": id} for id in ids]
    return (await post(client, "/v1/classify", {"items": items}))["decisions"]


async def learnt(client: httpx.AsyncClient, *ids: str) -> Any:
    return (await post(client, "/v1/labels", {"labels": [{"id": id, "label": "seen"} for id in ids]}))["learnt"]


async def landed(client: httpx.AsyncClient) -> None:
    while (await summary(client))["in_flight"]:
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("named", [False, True])
async def test_the_observer_does_not_wait_for_an_arm_that_hangs(named: bool, tmp_path: Path) -> None:
    setup = setup_of({"observer": observer, "hangs": hangs}, limits_s={"hangs": HANGS_S / 2}, costs={"observer": 0.5})
    setup = replace(setup, policy=ZoomingKLUCB())
    async with called(setup, tmp_path) as (client, _):
        await observe(client)
        begun = time.monotonic()
        answers = [await decide(client, *[f"n{n}" if named else None] * 3) for n in range(5)]
        assert time.monotonic() - begun < HANGS_S / 2
        assert {each["label"] for answer in answers for each in answer} == {"seen"}
        assert any(each["arm"] == "hangs" for answer in answers for each in answer)
        await landed(client)


async def test_an_id_gets_the_same_answer_and_its_label_is_learnt_before_and_after_its_arm_has_answered(
    tmp_path: Path,
) -> None:
    setup = setup_of({"observer": observer, "waits": waits}, costs={"observer": 0.5})
    async with called(setup, tmp_path) as (client, _):
        await observe(client)
        first = await decide(client, *"abcdefgh")
        assert await decide(client, *"abcdefgh") == first
        await landed(client)
        assert await decide(client, *"abcdefgh") == first
        for name in (None, "mine"):
            (made,) = await decide(client, name)
            assert await learnt(client, made["id"]) == [made["id"]]


async def test_arms_that_fail_are_nobodys_trouble(tmp_path: Path) -> None:
    models = {"observer": observer, **{f"v{n}": broken for n in range(6)}}
    async with called(setup_of(models, costs={"observer": 0.5}), tmp_path) as (client, _):
        await observe(client)
        for n in range(12):
            assert {each["label"] for each in await decide(client, f"n{n}", None)} == {"seen"}
        assert (await summary(client))["in_flight"] == 0


async def test_an_observer_that_fails_leaves_the_answer_to_the_arms(tmp_path: Path) -> None:
    async with called(setup_of({"observer": broken, "good": waits}), tmp_path) as (client, _):
        await observe(client)
        for n in range(6):
            (made,) = await decide(client, f"n{n}")
            assert (made["label"], made.get("answered_by")) == ("later", None)
            assert await learnt(client, made["id"]) == [made["id"]]
        assert (await summary(client))["in_flight"] == 0


async def test_asked_again_an_id_gets_its_label_and_the_name_of_the_model_that_gave_it(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        await post(client, "/v1/arms/young", {"paused": True})  # so that the old one is chosen
        await observe(client, "young")  # and the young one answers
        for _ in range(20):  # until it is known how quick the models are: then all are asked together
            await decide(client, *[None] * 50, age=20)
        told = dict[str, Any]()
        for n in range(3):
            asked = [[f"a{n}"], [f"b{n}-{place}" for place in range(30)], [f"c{n}"]]
            for decisions in await asyncio.gather(*(decide(client, *ids, age=20) for ids in asked)):
                told |= {each["id"]: each for each in decisions}
        assert {(each["label"], each["answered_by"]) for each in told.values()} == {("ill", "young")}
        await post(client, "/v1/mode", {"mode": "apply"})
        for ids in ([*told], [*reversed(told)], [*told][::31], *([name] for name in told)):
            assert await decide(client, *ids, age=20) == [told[name] for name in ids]


async def test_ids_that_many_ask_for_at_once_are_decided_once(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        ids = [f"{n}" for n in range(1, 2_500)]  # which are ids of the site too, when others come first
        own = await decide(client, *[None] * 3)
        asked: list[list[Any]] = [ids[3:], [*reversed(ids[3:])], ids[10:20], [None] * 500]
        *named, free = await asyncio.gather(*(decide(client, *each) for each in asked))
        first = {each["id"]: each for each in named[0]}
        assert [first[each["id"]] for decisions in named[1:] for each in decisions] == [*named[1], *named[2]]
        assert [*first] == ids[3:]
        theirs = {each["id"] for each in [*own, *free]}
        assert not theirs & {*first}
        assert len(theirs) == 503
        assert (await summary(client))["items"] == 503 + len(first)
