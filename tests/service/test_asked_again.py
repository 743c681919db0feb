"""Asked again, an id gets what it was told the first time, whoever else was told something at that moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from cosend.service.app import build_app
from cosend.service.tokens import Tokens
from tests.node.sites import run, running, setup_of

ITEM = {"age": 20.0}  # the young are ill, says one; the old are, says the other
ROUNDS = 3


def asked_for(ids: list[str]) -> dict[str, Any]:
    return {"items": [{"id": name, "features": ITEM} for name in ids]}


def test_asked_again_while_observed_an_id_gets_its_label_and_the_name_of_the_model_that_gave_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            transport = httpx.ASGITransport(app=build_app(node, Tokens({})))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

                async def post(path: str, body: Any) -> Any:
                    reply = await http.post(path, json=body)
                    assert reply.status_code == 200, reply.text
                    return reply.json()

                await post("/v1/arms/young", {"paused": True})  # so that the old one is chosen
                await post("/v1/mode", {"mode": "observe", "classifier": "young"})  # and the young one answers
                for _ in range(20):  # until it is known how quick the models are: then all are asked together
                    await post("/v1/classify", {"items": [{"features": ITEM}] * 50})
                told = dict[str, Any]()
                for n in range(ROUNDS):
                    asked = [[f"a{n}"], [f"b{n}-{place}" for place in range(30)], [f"c{n}"]]
                    for reply in await asyncio.gather(*(post("/v1/classify", asked_for(ids)) for ids in asked)):
                        told |= {each["id"]: each for each in reply["decisions"]}
                assert {(each["label"], each["answered_by"]) for each in told.values()} == {("ill", "young")}
                await post("/v1/mode", {"mode": "apply"})
                for ids in ([*told], [*reversed(told)], [*told][::31], *([name] for name in told)):
                    again = await post("/v1/classify", asked_for(ids))
                    assert again["decisions"] == [told[name] for name in ids]

    run(work())


def test_ids_that_many_ask_for_at_once_are_decided_once_however_long_it_takes_to_look_them_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            transport = httpx.ASGITransport(app=build_app(node, Tokens({})))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                ids = [f"{n}" for n in range(1, 2_500)]  # which are numbers of decisions too, when others come first
                reply = await http.post("/v1/classify", json={"items": [{"features": ITEM}] * 3})
                own = [each["id"] for each in reply.json()["decisions"]]
                asked = [asked_for(ids[3:]), asked_for([*reversed(ids[3:])]), asked_for(ids[10:20])]
                unnamed = {"items": [{"features": ITEM}] * 500}
                replies = await asyncio.gather(*(http.post("/v1/classify", json=body) for body in [*asked, unnamed]))
                *named, free = [reply.json()["decisions"] for reply in replies]
                first = {each["id"]: each for each in named[0]}
                assert [first[each["id"]] for decisions in named[1:] for each in decisions] == [*named[1], *named[2]]
                assert [*first] == ids[3:]
                theirs = [*own, *(each["id"] for each in free)]
                assert not {*theirs} & {*first}
                assert len({*theirs}) == 503
                assert (await http.get("/v1/summary")).json()["items"] == 503 + len(first)

    run(work())
