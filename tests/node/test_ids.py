"""Ids: a client's own is the id everywhere and gets one decision, whatever it looks like and whoever asks at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from cosend.errors import DecisionError, SettingError, Unavailable
from cosend.node import recall
from cosend.node.flight import Decided
from cosend.node.inspection import Inspection
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.site.wire import decode
from tests.node.sites import crash, run, running, setup_of

ITEM = {"age": 50.0}


async def decided(node: Node, name: str | None = None, item: Any = ITEM) -> Decided:
    (result,) = await node.classify([item], [name])
    assert isinstance(result, Decided)
    return result


ODD = [
    "0",
    "-1",
    "1e3",
    "017",
    "9" * 18,
    "9" * 19,
    "9" * 200,
    "é",
    "e\u0301",
    "\U0001f600",
    "\uffff",
    "a/b",
    "..",
    "%2F",
]
ODD += ["a\0b", "a\0", "\0", "a", "'", '"', "\\", " ", "\n", "x" * 200, "#", "##1", "# 1", "\u0661", "NULL", "nan"]


def test_every_text_is_an_id_of_its_own(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            first = {name: await decided(node, name) for name in ODD}
            again = await node.classify([ITEM] * len(ODD), ODD)
            assert again == list(first.values())
            assert [each.id for each in first.values()] == ODD
            numbers = [(await Inspection(node).decision(name))["number"] for name in ODD]
            assert len({*numbers}) == len(ODD)
            heard = await node.label([Given(name, "well") for name in ODD])
            assert heard.learnt == ODD
            assert (await node.label([Given(name, "well") for name in ODD])).duplicate == ODD
        async with running(setup_of(), tmp_path) as node:
            assert await node.classify([ITEM] * len(ODD), ODD) == list(first.values())
            assert (node.rules.learner.waiting_count, node.counts.rebuilt) == (0, 0)

    run(work())


def test_a_number_is_the_id_of_one_decision_only(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            own = await decided(node, "2")
            unnamed = await decided(node)
            assert (own.id, unnamed.id) == ("2", "#2")
            assert (await Inspection(node).decision("2"))["number"] == 1
            assert (await Inspection(node).decision("#2"))["number"] == 2
            assert (await decided(node)).id == "3"
            for taken in ("3", "#3", "#9"):
                with pytest.raises(SettingError, match="id"):
                    await decided(node, taken)
            assert (await node.label([Given("#2", "well")])).learnt == ["#2"]
            assert (await node.label([Given("2", "well"), Given("3", "well")])).learnt == ["2", "3"]

    run(work())


def test_a_number_with_zeros_before_it_is_another_id(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            assert (await decided(node)).id == "1"
            assert (await node.label([Given("01", "well"), Given("#01", "well")])).unknown == ["01", "#01"]
            with pytest.raises(DecisionError):
                await Inspection(node).decision("01")
            assert (await decided(node, "01")).id == "01"
            assert (await node.label([Given("1", "well"), Given("01", "well")])).learnt == ["1", "01"]

    run(work())


def test_the_site_s_number_is_no_id_of_a_decision_that_its_client_named(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of(keep_s=0.0)
        async with running(setup, tmp_path) as node:
            await decided(node, "mine")
            await decided(node, "yours")
            await asyncio.sleep(0.01)
            await node.prune()  # both wait for their labels, so they are kept
            heard = await node.label([Given("1", "well")])
            assert heard.learnt == []
            assert (await node.label([Given("mine", "well")])).learnt == ["mine"]

    run(work())


def test_a_number_taken_while_the_decision_of_that_number_is_on_its_way_to_the_disk(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            append = node.store.log.append

            def slow(*arguments: Any) -> int:
                time.sleep(0.1)
                return append(*arguments)

            node.store.log.append = slow  # type: ignore[method-assign, assignment]
            unnamed = asyncio.create_task(decided(node))
            while not any(node.commits._rows.values()) and not node.commits._busy:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.05)
            try:
                named = await decided(node, "1")
            except SettingError:
                named = None
            assert named is None or named.id != (await unnamed).id
            assert (await node.label([Given((await unnamed).id, "well")])).learnt == [(await unnamed).id]
            assert (await Inspection(node).decision((await unnamed).id))["labelled"]

    run(work())


def test_many_who_ask_at_once_under_one_id_get_one_decision(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            asked = [decided(node, "one", {"age": float(n)}) for n in range(20)]
            assert len({each.label for each in await asyncio.gather(*asked)}) == 1
            twice = await node.classify([ITEM, ITEM, {"age": 1.0}], ["two", None, "two"])
            assert twice[0] == twice[2] != twice[1]
            assert node.rules.learner.arrivals == 3

    run(work())


def test_one_who_goes_away_takes_nobody_else_along(tmp_path: Path) -> None:
    async def work() -> None:
        def slow(_: Any) -> str:
            time.sleep(0.1)
            return "well"

        async with running(setup_of({"slow": slow}), tmp_path) as node:
            first = asyncio.create_task(decided(node, "one"))
            second = asyncio.create_task(decided(node, "one"))
            await asyncio.sleep(0.02)
            first.cancel()
            result = await second
            assert result == await decided(node, "one")
            assert not node.deciding.requests.flying
            assert not node.deciding.requests.in_flight

    run(work())


def test_labels_of_one_who_goes_away_are_learnt_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            await decided(node, "one")
            first = asyncio.create_task(node.label([Given("one", "well")]))
            await asyncio.sleep(0)
            first.cancel()
            assert (await node.label([Given("one", "well")])).duplicate == ["one"]

    run(work())


def test_a_label_before_its_answer_is_unknown_and_can_come_again(tmp_path: Path) -> None:
    async def work() -> None:
        def slow(_: Any) -> str:
            time.sleep(0.1)
            return "well"

        async with running(setup_of({"slow": slow}), tmp_path) as node:
            asked = asyncio.create_task(decided(node, "one"))
            await asyncio.sleep(0.02)
            assert (await node.label([Given("one", "well"), Given("1", "well")])).unknown == ["one", "1"]
            await asked
            assert (await node.label([Given("one", "well")])).learnt == ["one"]

    run(work())


def test_what_was_not_acknowledged_when_the_site_was_killed_is_asked_for_again(tmp_path: Path) -> None:
    async def work() -> None:
        def slow(_: Any) -> str:
            time.sleep(0.2)
            return "well"

        setup = setup_of({"slow": slow})
        node = Node(setup, tmp_path)
        await node.start()
        asked = asyncio.create_task(decided(node, "one"))
        await asyncio.sleep(0.05)
        await crash(node)
        node.deciding.close("killed")
        with pytest.raises(Unavailable):
            await asked
        async with running(setup, tmp_path) as node:
            assert node.rules.learner.waiting_count == 0  # it was taken back
            assert (await decided(node, "one")).id == "one"
            assert node.rules.learner.waiting_count == 1

    run(work())


def test_many_ids_that_are_asked_for_again_read_each_event_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def counted(event: bytes) -> Any:
        nonlocal read
        read += 1
        return decode(event)

    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            names: list[str | None] = [f"{n}" if n % 3 else f"name {n}" for n in range(1, 601)]
            items = [{"age": n % 100} for n in range(600)]
            first = await node.classify(items, names)
            assert all(isinstance(each, Decided) for each in first)
            await node.label([Given(name or "", "ill") for name in names[::2]])
            monkeypatch.setattr(recall, "decode", counted)
            assert await node.classify(items, names) == first
            assert 0 < read <= 2 * node.commits.position  # and not some for each of the 600
            past = recall.recall_all(node.store.index, range(-1, 700), node.setup.most_flights)
            assert [*past] == [*range(1, 601)]
            assert [each.labelled for each in past.values()] == [True, False] * 300
            assert {each.truth for each in past.values()} == {"ill", None}

    run(work())
