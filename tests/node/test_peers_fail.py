"""Peers that are dead, lie, refuse, or come and go; and a site that is killed between two of its words."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import CoS, Patience
from cosend.axes import Feature
from cosend.engine.needs import Call, Question, Reply
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.transport.in_process import Hub
from tests.node.networks import items, quiet, running, truth
from tests.node.pairs import again, nothing_waits, play, right, site, two
from tests.node.sites import check_folds, crash, decided, until

SOUTH = 1  # the number of that arm at north


async def test_what_a_site_cannot_do_it_has_done(tmp_path: Path) -> None:
    async with two(tmp_path, Hub()) as (north, south):
        arms = await play(north, range(60))
        assert arms[-30:].count("south") > 25
        await until(lambda: nothing_waits(north, south))
        assert south.counts.taught["north"] == arms.count("south")
        await check_folds(north)
        await check_folds(south)


async def test_a_peer_that_is_gone_is_left_out_and_comes_back_with_what_was_learnt(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, south):
        await play(north, range(60))
        known = north.state.learner.ledger.rewards[:, SOUTH].copy()
        await hub.links["south"].kill()
        await crash(south)
        assert north.peers.offline == {"south"}
        assert await play(north, range(20)) == ["north's"] * 20
        assert north.counts.failures_of("south") == 0
        back = await again(south, hub)
        assert not north.peers.offline
        assert np.array_equal(north.state.learner.ledger.rewards[: len(known), SOUTH], known)
        assert "south" in await play(north, range(5))
        await until(lambda: nothing_waits(north, back))
        await back.stop(0.5)


async def test_labels_wait_for_a_peer_that_is_gone_also_through_a_kill(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, south):
        await play(north, range(60))
        await until(lambda: nothing_waits(north, south))
        made = [(await decided(north, {"age": age}))[0] for age in range(20)]
        sent = [each for each in made if each.arm == "south"]
        assert sent
        await hub.links["south"].kill()
        await crash(south)
        await north.label([Given(each.id, "ill") for each in made])
        assert len(north.running.posting) == len(sent)
        await hub.links["north"].kill()
        await crash(north)
        back = [await again(node, hub) for node in (north, south)]
        await until(lambda: nothing_waits(*back))
        assert back[1].counts.taught["north"] == len(sent)
        for node in back:
            await check_folds(node)
            await node.stop(0.5)


async def test_a_caller_that_is_killed_while_it_waits_leaves_nobody_waiting(tmp_path: Path) -> None:
    hub = Hub()

    def slow(item: Any) -> str:
        time.sleep(0.2)
        return right(item)

    async with two(tmp_path, hub, south=slow, deadline_s=5.0) as (north, south):
        asked = asyncio.ensure_future(north.classify([{"age": age} for age in range(30)]))
        await until(lambda: south.state.learner.pending_count)
        await hub.links["north"].kill()
        await crash(north)
        asked.cancel()
        back = await again(north, hub)
        await until(lambda: not south.state.learner.pending_count)
        await until(lambda: not back.state.outbox)
        await check_folds(south)
        await back.stop(0.5)


async def test_a_peer_that_describes_items_in_another_way_is_asked_and_says_what_it_lacks(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, _):
        heavier = site("east", right, axes=[Feature("weight", range=(0, 300))], discover=True)
        east = RunningSite(heavier, tmp_path / "east", link=hub.link("east"))
        await east.start()
        assert "north" in east.state.learner.arms.peers
        assert east.peers.refused == {}
        assert "east" in north.peers.refused  # which discovers nobody
        link, axes = hub.links["north"], ("Feature(feature='age')",)
        heavy = Question(1, {"age": 5, "weight": 60}, (0.05,), False, True)
        light = Question(2, {"age": 5}, (0.05,), False, True)
        assert (await link.call("east", Call("east", "north", [heavy], axes), 1.0)).replies == [Reply("ill")]
        with pytest.raises(Exception, match="the item has no feature 'weight'"):
            await link.call("east", Call("east", "north", [light], axes), 1.0)
        lacks, answered = (await link.call("east", Call("east", "north", [light, heavy], axes), 1.0)).replies
        assert answered == Reply("ill")
        assert "the item has no feature 'weight'" in str(lacks.failed)
        await east.stop(0.5)


async def test_a_site_that_appears_becomes_an_arm_where_peers_are_discovered(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub, discover=True) as (north, _):
        east = RunningSite(site("east", right, call_cost=0.25), tmp_path / "east", link=hub.link("east"))
        await east.start()
        assert north.state.learner.arms.peers == {"south": 0.0, "east": 0.25}
        assert "east" in await play(north, range(10))
        await east.stop(0.5)
        assert north.peers.offline == {"east"}
        await play(north, range(5))
        await check_folds(north)


async def test_many_in_flight_with_everything_going_wrong(tmp_path: Path) -> None:
    draw, loses = random.Random(5), True
    policy = CoS(slices=2, exploration_exponent=0.2, share_labels="always")
    async with running(tmp_path, policy, deadline_s=0.2, patience=Patience(max_pending=200)) as nodes:
        hub: Hub = nodes["north"].link._hub  # type: ignore[union-attr]
        hub.loses = lambda _: loses and draw.random() < 0.2

        async def client(name: str, shift: int) -> None:
            for item in items(60, shift):
                (made,) = await decided(nodes[name], item)
                if draw.random() < 0.9:
                    await nodes[name].label([Given(made.id, truth(item))])

        await asyncio.gather(*(client(name, shift) for shift in range(3) for name in nodes))
        loses = False
        await quiet(nodes)
        for node in nodes.values():
            assert node.running.in_flight == 0  # less: some were answered twice
            await check_folds(node)
