"""In mode observe, clients get the observer's answer whatever becomes of the arms; and an id always gets the same."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from cosend import ZoomingKLUCB
from tests.node.sites import setup_of
from tests.server.services import Caller, called

HANGS_S = 4.0


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


async def observe(client: Caller, classifier: str = "observer") -> None:
    await client.ask("/v1/mode", {"mode": "observe", "classifier": classifier})


async def landed(client: Caller) -> None:
    while (await client.summary())["in_flight"]:
        await asyncio.sleep(0.02)


async def test_the_observer_does_not_wait_for_an_arm_that_hangs(tmp_path: Path) -> None:
    models, limits_s = {"observer": observer, "hangs": hangs}, {"hangs": HANGS_S / 2}
    setup = setup_of(models, limits_s=limits_s, costs={"observer": 0.5}, policy=ZoomingKLUCB())
    async with called(setup, tmp_path) as (client, _):
        await observe(client)
        begun = time.monotonic()
        answers = [await client.decide(*[f"n{n}" if n % 2 else None] * 3) for n in range(6)]
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
        first = await client.decide(*"abcdefgh")
        assert await client.decide(*"abcdefgh") == first
        await landed(client)
        assert await client.decide(*"abcdefgh") == first
        for name in (None, "mine"):
            (made,) = await client.decide(name)
            assert (await client.learn("seen", made["id"]))["learnt"] == [made["id"]]


async def test_arms_that_fail_are_nobodys_trouble(tmp_path: Path) -> None:
    models = {"observer": observer, **{f"v{n}": broken for n in range(6)}}
    async with called(setup_of(models, costs={"observer": 0.5}), tmp_path) as (client, _):
        await observe(client)
        for n in range(12):
            assert {each["label"] for each in await client.decide(f"n{n}", None)} == {"seen"}
        assert (await client.summary())["in_flight"] == 0


async def test_an_observer_that_fails_leaves_the_answer_to_the_arms(tmp_path: Path) -> None:
    async with called(setup_of({"observer": broken, "good": waits}, learnt=False), tmp_path) as (client, _):
        await observe(client)
        for n in range(6):
            (made,) = await client.decide(f"n{n}")
            assert (made["label"], made.get("answered_by")) == ("later", None)
            assert (await client.learn("seen", made["id"]))["learnt"] == [made["id"]]
        assert (await client.summary())["in_flight"] == 0


async def test_asked_again_an_id_gets_its_label_and_the_name_of_the_model_that_gave_it(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        await client.ask("/v1/arms/young", {"paused": True})  # so that the old one is chosen
        await observe(client, "young")  # and the young one answers
        for _ in range(20):  # until it is known how quick the models are: then all are asked together
            await client.decide(*[None] * 50, age=20)
        told = dict[str, Any]()
        for n in range(3):
            asked = [[f"a{n}"], [f"b{n}-{place}" for place in range(30)], [f"c{n}"]]
            for decisions in await asyncio.gather(*(client.decide(*ids, age=20) for ids in asked)):
                told |= {each["id"]: each for each in decisions}
        assert {(each["label"], each["answered_by"]) for each in told.values()} == {("ill", "young")}
        await client.ask("/v1/mode", {"mode": "apply"})
        for ids in ([*told], [*reversed(told)], [*told][::31], *([name] for name in told)):
            assert await client.decide(*ids, age=20) == [told[name] for name in ids]


async def test_the_observer_answers_also_where_only_trees_that_have_learnt_nothing_are_left(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        await observe(client, "young")
        for name in ("young", "old", "stack"):
            await client.ask(f"/v1/arms/{name}", {"paused": True})
        made = await client.decide("a", None, age=20)
        assert [(each["arm"], each["label"], each["answered_by"]) for each in made] == [("grown", "ill", "young")] * 2
        await client.ask("/v1/mode", {"mode": "apply"})
        assert await client.decide("a", age=20) == made[:1]
        ids = [each["id"] for each in made]
        assert [(await client.learn("ill", name))["learnt"] for name in ids] == [[name] for name in ids]
