"""Ids: a client's own is the id everywhere and gets one decision, whatever it looks like and whoever asks at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.errors import DecisionError, SettingError, Unavailable
from cosend.runtime.client_requests import Decided, id_number, id_text
from cosend.runtime.inspection import Inspection
from cosend.runtime.label_intake import Given
from cosend.runtime.past_decisions import recall_all
from cosend.runtime.running_site import RunningSite
from tests.node.sites import crash, decided, running, setup_of, started

ITEM = {"age": 50.0}
ODD = ["0", "1", "2", "-1", "1e3", "017", "9" * 18, "9" * 19, "9" * 200, "é", "e\u0301", "\U0001f600", "\uffff", "a/b"]
ODD += ["a\0b", "a\0", "\0", "a", "'", '"', "\\", " ", "\n", "x" * 200, "#", "##1", "# 1", "\u0661", "NULL", "nan"]
ODD += ["..", "%2F", "d-", "d-0", "d-01", "d-1 ", "D-1", "d-1x", "d--1", "d-\u0661", "d-" + "9" * 19]


async def one(node: RunningSite, name: str | None = None, item: Any = ITEM) -> Decided:
    (made,) = await decided(node, item, names=[name])
    return made


def slow(_: Any) -> str:
    time.sleep(0.1)
    return "well"


@given(st.one_of(st.integers(1, 10**18 - 1).map(id_text), st.text("d-0123456789#٣_+ ", max_size=21)))
def test_only_what_a_site_writes_is_read_as_its_own_id(text: str) -> None:
    assert id_number(text) == 0 or id_text(id_number(text)) == text


async def test_every_text_is_an_id_of_its_own(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        await one(node)  # numbers may be the ids of clients too
        first = [await one(node, name) for name in ODD]
        assert await decided(node, *[ITEM] * len(ODD), names=ODD) == first
        assert [each.id for each in first] == ODD
        numbers = [(await Inspection(node).decision(name))["number"] for name in ODD]
        assert numbers == [*range(2, len(ODD) + 2)]
        assert (await node.label([Given(name, "well") for name in ODD])).learnt == ODD
        assert (await node.label([Given(name, "well") for name in ODD])).duplicate == ODD
    async with running(setup_of(), tmp_path) as node:
        assert await decided(node, *[ITEM] * len(ODD), names=ODD) == first
        assert (node.state.learner.pending_count, node.counts.rebuilt) == (1, 0)


async def test_the_ids_of_the_site_are_no_ids_for_clients(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        assert [(await one(node)).id, (await one(node, "2")).id, (await one(node)).id] == ["d-1", "2", "d-3"]
        for taken in ("d-1", "d-2", "d-9"):
            with pytest.raises(SettingError, match="id"):
                await one(node, taken)
        assert node.state.learner.arrivals == 3
        assert (await Inspection(node).decision("d-3"))["number"] == 3
        for unknown in ("d-2", "d-01", "d-9", "1"):
            with pytest.raises(DecisionError):
                await Inspection(node).decision(unknown)
        heard = await node.label([Given(name, "well") for name in ("d-3", "2", "d-2", "d-01", "3", "d-9")])
        assert (heard.learnt, heard.unknown) == (["d-3", "2"], ["d-2", "d-01", "3", "d-9"])


async def test_many_who_ask_at_once_under_one_id_get_one_decision(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        asked = [one(node, "one", {"age": float(n)}) for n in range(20)]
        assert len({each.label for each in await asyncio.gather(*asked)}) == 1
        twice = await node.classify([ITEM, ITEM, {"age": 1.0}], ["two", None, "two"])
        assert twice[0] == twice[2] != twice[1]
        assert node.state.learner.arrivals == 3


async def test_one_who_goes_away_takes_nobody_else_along(tmp_path: Path) -> None:
    async with running(setup_of({"slow": slow}), tmp_path) as node:
        first = asyncio.create_task(one(node, "one"))
        second = asyncio.create_task(one(node, "one"))
        await asyncio.sleep(0.02)
        first.cancel()
        result = await second
        assert result == await one(node, "one")
        assert (node.running.requests.by_name, node.running.in_flight) == ({}, 0)
        third = asyncio.create_task(node.label([Given("one", "well")]))
        await asyncio.sleep(0)
        third.cancel()
        assert (await node.label([Given("one", "well")])).duplicate == ["one"]


async def test_a_label_before_its_answer_is_unknown_and_can_come_again(tmp_path: Path) -> None:
    async with running(setup_of({"slow": slow}), tmp_path) as node:
        asked = asyncio.create_task(one(node, "one"))
        await asyncio.sleep(0.02)
        assert (await node.label([Given("one", "well"), Given("d-1", "well")])).unknown == ["one", "d-1"]
        await asked
        assert (await node.label([Given("one", "well")])).learnt == ["one"]


@pytest.mark.parametrize("cost", [0.0, 0.1])
async def test_what_was_not_acknowledged_when_the_site_was_killed_is_asked_for_again(
    cost: float, tmp_path: Path
) -> None:
    setup = setup_of({"slow": slow}, costs={"slow": cost})
    node = await started(setup, tmp_path)
    asked = asyncio.create_task(one(node, "one"))
    await asyncio.sleep(0.05)
    await crash(node)
    node.running.close("killed")
    with pytest.raises(Unavailable):
        await asked
    async with running(setup, tmp_path) as node:
        assert node.state.learner.pending_count == 0  # it was taken back
        assert (await one(node, "one")).id == "one"
        assert node.state.learner.pending_count == 1


async def test_many_ids_may_be_asked_for_again_at_once(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        names: list[str | None] = [f"{n}" if n % 3 else f"name {n}" for n in range(1, 601)]
        items = [{"age": n % 100} for n in range(600)]
        first = await decided(node, *items, names=names)
        await node.label([Given(name or "", "ill") for name in names[::2]])
        assert await node.classify(items, names) == first
        past = recall_all(node.store.index, range(-1, 700), node.setup.most_flights)
        assert [*past] == [*range(1, 601)]
        assert [(each.labelled, each.truth) for each in past.values()] == [(True, "ill"), (False, None)] * 300
