"""What peers, disks and files can do to a site in the middle of something: nobody waits for ever, nothing is lost."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosend import CoS
from cosend.engine.needs import Call, Forward, Question
from cosend.models.adapters import as_classifier
from cosend.transport.codec import Announcement
from cosend.transport.in_process import Hub
from tests.node.pairs import CONTEXT, Stub, again, announce, play, right, two, with_stubs
from tests.node.sites import check_folds, decided, is_busy, rebuilt, until


async def test_a_peer_whose_disk_fails_while_it_is_asked_does_not_answer_with_nothing(tmp_path: Path) -> None:
    hub = Hub()

    def slow(item: Any) -> str:
        time.sleep(0.2)
        return right(item)

    async with two(tmp_path, hub, south=slow, policy=CoS(slices=1)) as (_, south):
        call = Call("south", "north", [Question(1, {"age": 5}, (0.05,), False, False)])
        asked = asyncio.ensure_future(hub.links["north"].call("south", call, 5.0))
        await until(lambda: is_busy(south.workers["south's"]))
        back = asyncio.ensure_future(rebuilt(south))
        with pytest.raises(Exception, match="refused"):
            await asked
        await back


async def test_a_peer_that_appears_while_a_site_is_rebuilt_is_there(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub, discover=True) as (north, _):
        begin = north._begin

        def begun(recovered: Any) -> None:
            begin(recovered)
            hub.links["north"]._appeared(Announcement("east", CONTEXT, 1))

        north._begin = begun  # type: ignore[method-assign]
        await rebuilt(north)
        assert "east" in north.state.learner.arms.peers


async def test_an_announcement_that_cannot_be_true_does_not_keep_others_out(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub, discover=True) as (north, _):
        await announce(hub, "liar", Stub(), 2**31)
        east = await announce(hub, "east", Stub())
        assert "east" in north.state.learner.arms.peers
        await east.kill()
        assert "east" in north.peers.offline
        await play(north, range(5))


async def test_what_is_no_label_is_a_failure_of_the_peer(tmp_path: Path) -> None:
    stub = Stub()
    async with with_stubs(tmp_path, Hub(), stub, "south") as node:
        for label in ([1], 2**64, float("nan"), "\ud800"):
            stub.label = label
            assert await play(node, range(10)) == ["north's"] * 10
        assert node.counts.failures_of("south")


async def test_true_labels_that_are_none_are_not_learnt(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, _):
        questions = [Question(10**6 + n, {"age": 5}, (0.05,), False, True) for n in range(3)]
        await hub.links["south"].call("north", Call("north", "south", questions, CONTEXT), 5.0)
        truths = [["ill"], "ill", {"ill": 1}]
        told = [Forward("north", "south", 10**6 + n, truth) for n, truth in enumerate(truths)]
        await hub.links["south"].post("north", told, 5.0)
        assert north.counts.taught["south"] == 1
        assert not north.state.pending()
        await check_folds(north)


async def test_a_peer_may_become_a_model_of_its_name(tmp_path: Path) -> None:
    hub = Hub()
    async with with_stubs(tmp_path, hub, Stub(), discover=True) as node:
        await announce(hub, "forest", Stub())
        assert "forest" in await play(node, range(5))
    models = {**node.setup.classifiers, "forest": as_classifier(right)}
    node = await again(node, Hub(), replace(node.setup, classifiers=models))
    assert "forest" in await play(node, range(10))
    assert "forest" not in node.state.learner.arms.peers
    await node.stop(0.5)


async def test_names_that_are_announced_and_gone_leave_nothing_behind(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, _):
        for n in range(300):
            link = hub.link(f"site {n}")
            await link.serve(Announcement(f"site {n}", ("something else",), 1), Stub())
            await link.kill()
        assert not north.peers.refused
        assert not north.breakers.rows()


async def test_items_that_cannot_travel_fail_alone_and_are_no_fault_of_the_peer(tmp_path: Path) -> None:
    async with two(tmp_path, Hub()) as (north, _):
        await play(north, range(60))
        items: list[Any] = [{"age": 5, "more": object()}, *({"age": age} for age in range(8))]
        assert [each.arm for each in await decided(north, *items)] == ["north's", *["south"] * 8]
        for _ in range(5):
            await north.classify(items[:1])
        assert north.breakers.position("south", time.monotonic()) == "closed"


async def test_a_peer_that_was_discovered_costs_what_it_says_of_late(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub, discover=True) as (north, _):
        for cost in (0.1, 0.3):
            east = await announce(hub, "east", Stub(), cost=cost)
            assert north.state.learner.arms.peers["east"] == cost
            await north.change_arm("east", cost=0.2)  # which stays, unless it says something else
            await east.kill()
        await announce(hub, "east", Stub(), cost=0.3)
        assert north.state.learner.arms.peers["east"] == 0.2
        hub.links["north"]._appeared(Announcement("south", CONTEXT, 1, 0.7))  # the file says what it costs
        assert north.state.learner.arms.peers["south"] == 0.0
