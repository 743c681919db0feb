"""Peers that are late, dead, lie, refuse, or come and go; and a site that is killed between two of its words."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import Context, CoS, Patience, ZoomingKLUCB
from cosend.classifiers.adapters import as_classifier
from cosend.links.in_process import Hub
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.site.context import Axis
from cosend.site.messages import Call, Forward, Question, Reply
from tests.node.networks import items, quiet, running, truth, until
from tests.node.sites import crash, run
from tests.node.test_networks import check_folds

SOUTH = 1  # the number of that arm at north
AXES: list[Axis] = [Context("age", range=(0, 100))]


def site(name: str, model: Any, peers: dict[str, tuple[float, int]], **options: Any) -> Setup:
    given = {"policy": ZoomingKLUCB(), "axes": AXES, "deadline_s": 10.0, **options}
    return Setup(name=name, classifiers={f"{name}'s": as_classifier(model)}, peers=peers, **given)


def right(item: Any) -> str:
    return "ill" if item["age"] < 30 else "well"


def wrong(item: Any) -> str:
    return "well" if item["age"] < 30 else "ill"


@asynccontextmanager
async def two(
    folder: Path, hub: Hub, north: Any = wrong, south: Any = right, **options: Any
) -> AsyncIterator[tuple[Node, Node]]:
    """Run two sites; the first has a model that is always wrong unless another is given."""
    first = Node(site("north", north, {"south": (0.0, 1)}, **options), folder / "north", link=hub.link("north"))
    other = Node(site("south", south, {"north": (0.0, 1)}, **options), folder / "south", link=hub.link("south"))
    await first.start()
    await other.start()
    try:
        yield first, other
    finally:
        for node in (first, other):
            if node.is_ready:
                await node.stop(patience_s=0.5)


async def play(node: Node, ages: range, *, label: bool = True) -> list[str]:
    """Decide and label items one by one; returns the arms."""
    arms = []
    for age in ages:
        (decided,) = await node.classify([{"age": age % 100}])
        assert isinstance(decided, Decided)
        arms.append(decided.arm)
        if label:
            await node.label([Given(decided.id, right({"age": age % 100}))])
    return arms


def nothing_waits(*nodes: Node) -> bool:
    return not any(node.rules.learner.waiting_count or len(node.peers.posting.outbox) for node in nodes)


def test_what_a_site_cannot_do_it_has_done(tmp_path: Path) -> None:
    async def work() -> None:
        async with two(tmp_path, Hub()) as (north, south):
            arms = await play(north, range(60))
            assert arms[-30:].count("south") > 25
            await until(lambda: nothing_waits(north, south))
            assert south.counts.taught["north"] == arms.count("south")
            check_folds(north, AXES)
            check_folds(south, AXES)

    run(work())


def test_a_late_peer_costs_its_deadline_and_no_more(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub, deadline_s=0.3) as (north, south):
            await play(north, range(60))
            hub.late_s = 5.0
            loop = asyncio.get_running_loop()
            start = loop.time()
            arms = await play(north, range(10))
            took = loop.time() - start
            assert arms.count("north's") == 10  # all were answered, by whoever could
            assert took < 5.0  # the first ones waited for the deadline, then the breaker was open
            assert north.breakers.of("south").position != "closed"
            hub.late_s = 0.0
            await until(lambda: north.breakers.of("south").lets_through())
            await play(north, range(60))
            await until(lambda: nothing_waits(north, south))

    run(work())


def test_a_peer_that_is_gone_is_left_out_and_comes_back_with_what_was_learnt(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, south):
            await play(north, range(60))
            known = north.rules.learner.ledger.rewards[:, SOUTH].copy()
            await hub.links["south"].kill()
            await crash(south)
            assert north.peers.absent == {"south"}
            assert await play(north, range(20)) == ["north's"] * 20
            assert north.counts.failures["south"] == 0
            back = Node(south.setup, south.folder, link=hub.link("south"))
            await back.start()
            assert not north.peers.absent
            assert np.array_equal(north.rules.learner.ledger.rewards[: len(known), SOUTH], known)
            assert "south" in await play(north, range(5))
            await until(lambda: nothing_waits(north, back))
            await back.stop(0.5)

    run(work())


def test_labels_wait_for_a_peer_that_is_gone_also_through_a_kill(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, south):
            await play(north, range(60))
            await until(lambda: nothing_waits(north, south))
            decided = [(await north.classify([{"age": age}]))[0] for age in range(20)]
            sent = [each for each in decided if isinstance(each, Decided) and each.arm == "south"]
            assert sent
            await hub.links["south"].kill()
            await crash(south)
            taught = south.counts.taught["north"]
            await north.label([Given(each.id, "ill") for each in decided if isinstance(each, Decided)])
            assert len(north.peers.posting.outbox) == len(sent)
            await hub.links["north"].kill()
            await crash(north)
            again = [Node(node.setup, node.folder, link=hub.link(node.setup.name)) for node in (north, south)]
            for node in again:
                await node.start()
            await until(lambda: nothing_waits(*again))
            assert again[1].counts.taught["north"] == len(sent)
            assert taught
            for node in again:
                check_folds(node, AXES)
                await node.stop(0.5)

    run(work())


def test_a_caller_that_is_killed_while_it_waits_leaves_nobody_waiting(tmp_path: Path) -> None:
    hub = Hub()

    def slow(item: Any) -> str:
        import time

        time.sleep(0.2)
        return right(item)

    async def work() -> None:
        async with two(tmp_path, hub, south=slow, deadline_s=5.0) as (north, south):
            asked = asyncio.ensure_future(north.classify([{"age": age} for age in range(30)]))
            await until(lambda: south.rules.learner.waiting_count)
            await hub.links["north"].kill()
            await crash(north)
            asked.cancel()
            back = Node(north.setup, north.folder, link=hub.link("north"))
            await back.start()
            await until(lambda: not south.rules.learner.waiting_count)
            await until(lambda: not len(back.peers.posting.outbox))
            check_folds(south, AXES)
            await back.stop(0.5)

    run(work())


def test_a_withdrawal_that_overtakes_its_call_leaves_nobody_waiting(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (_, south):
            link = hub.links["north"]
            await link.post("south", [Forward("south", "north", 7, None, withdrawn=True)], 1.0)
            call = Call("south", "north", [Question(n, {"age": 5}, (0.05,), False, True) for n in (7, 8)])
            late, good = (await link.call("south", call, 1.0)).replies
            assert good == Reply("ill")  # those that went along are answered
            assert "withdrawn" in str(late.failed)
            assert south.rules.learner.waiting_count == 1
            await link.post("south", [Forward("south", "north", 8, "ill"), Forward("south", "north", 8, "well")], 1.0)
            await link.post("south", [Forward("south", "north", 8, "ill")], 1.0)  # it was told before
            assert south.counts.taught["north"] == 1
            assert nothing_waits(south)

    run(work())


def test_a_peer_that_describes_items_in_another_way_is_asked_and_says_what_it_lacks(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, south):
            other: list[Axis] = [Context("weight", range=(0, 300))]
            east = Node(site("east", right, {}, axes=other, discover=True), tmp_path / "east", link=hub.link("east"))
            await east.start()
            assert "north" in east.rules.learner.arms.peers
            assert east.peers.refused == {}
            assert "east" in north.peers.refused  # which discovers nobody
            link, axes = hub.links["north"], ("Context(feature='age')",)
            heavy, light = (
                Question(n, {"age": 5, "weight": 60} if n == 1 else {"age": 5}, (0.05,), False, True) for n in (1, 2)
            )
            (answered,) = (await link.call("east", Call("east", "north", [heavy], axes), 1.0)).replies
            assert answered == Reply("ill")
            with pytest.raises(Exception, match="the item has no feature 'weight'"):
                await link.call("east", Call("east", "north", [light], axes), 1.0)
            both = (await link.call("east", Call("east", "north", [light, heavy], axes), 1.0)).replies
            assert [reply.label for reply in both] == [None, "ill"]
            assert "the item has no feature 'weight'" in str(both[0].failed)
            await east.stop(0.5)
            assert south.is_ready

    run(work())


def test_a_site_that_appears_becomes_an_arm_where_peers_are_discovered(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub, discover=True) as (north, _):
            east = Node(site("east", right, {}, call_cost=0.25), tmp_path / "east", link=hub.link("east"))
            await east.start()
            assert north.rules.learner.arms.peers == {"south": 0.0, "east": 0.25}
            assert "east" in await play(north, range(10))
            await east.stop(0.5)
            assert north.peers.absent == {"east"}
            await play(north, range(5))
            check_folds(north, AXES)

    run(work())


def test_a_liar_is_only_a_bad_arm(tmp_path: Path) -> None:
    async def work() -> None:
        async with two(tmp_path, Hub(), right, lambda _: "nonsense") as (north, _):
            arms = await play(north, range(100))
            assert arms[-20:].count("south") < 5

    run(work())


def test_many_in_flight_with_everything_going_wrong(tmp_path: Path) -> None:
    draw = random.Random(5)
    hub_loses = {"now": False}

    async def work() -> None:
        policy = CoS(slices=2, exploration_exponent=0.2, share_labels="always")
        async with running(tmp_path, policy, deadline_s=0.2, patience=Patience(max_waiting=200)) as nodes:
            hub = nodes["north"].link._hub  # type: ignore[union-attr]
            hub.loses = lambda _: hub_loses["now"] and draw.random() < 0.2

            async def client(name: str, shift: int) -> int:
                answered = 0
                for item in items(60, shift):
                    (decided,) = await nodes[name].classify([item])
                    answered += isinstance(decided, Decided)
                    if isinstance(decided, Decided) and draw.random() < 0.9:
                        await nodes[name].label([Given(decided.id, truth(item))])
                return answered

            hub_loses["now"] = True
            clients = [client(name, shift) for shift in range(3) for name in nodes]
            assert await asyncio.gather(*clients) == [60] * 12
            hub_loses["now"] = False
            await quiet(nodes)
            for node in nodes.values():
                assert node.deciding.requests.in_flight == 0  # less: some were answered twice
                await node.commits.done()
                check_folds(node)

    run(work())
