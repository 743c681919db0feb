"""What peers are still to be told, whatever happens to them, to their files and to disks meanwhile."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cosend.links.in_process import Hub
from cosend.links.link import Announcement
from cosend.node import outbox
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.site.messages import Forward
from tests.node.networks import until
from tests.node.sites import crash, run
from tests.node.test_networks import check_folds
from tests.node.test_peers_attacked import CONTEXT, Stub
from tests.node.test_peers_fail import AXES, nothing_waits, play, site, two, wrong


def test_labels_are_told_after_a_disk_has_failed_though_no_peer_has_moved(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, south):
            decided = [(await north.classify([{"age": age}]))[0] for age in range(20)]
            hub.loses = lambda site: site == "south"
            await north.label([Given(each.id, "ill") for each in decided if isinstance(each, Decided)])
            assert len(north.peers.posting.outbox)
            north.commits.fail("the disk is full")
            north._broken("the disk is full")
            hub.loses = lambda _: False
            await until(lambda: north.is_ready)
            await until(lambda: nothing_waits(north, south), 5.0)

    run(work())


def test_labels_that_are_too_long_to_go_together_are_told_without_delay(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, south):
            await play(north, range(5))
            await until(lambda: nothing_waits(north, south))
            forwards = [Forward("south", "north", 1_000 + n, f"{n} {'x' * 20_000}") for n in range(300)]
            start = time.monotonic()
            north.peers.posting.post(forwards)
            await until(lambda: nothing_waits(north))
            assert time.monotonic() - start < 2.0

    run(work())


def test_a_peer_that_is_removed_from_the_file_is_told_what_it_waits_for_if_it_is_there(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, south):
            decided = [(await north.classify([{"age": age}]))[0] for age in range(20)]
            hub.loses = lambda site: site == "south"
            given = [Given(each.id, "ill") for each in decided if isinstance(each, Decided)]
            sent = sum(isinstance(each, Decided) and each.arm == "south" for each in decided[:10])
            await north.label(given[:10])  # for the others, no label will come
            await north.stop(0.2)
            hub.loses = lambda _: False
            setup = replace(north.setup, peers={"west": (0.0, 1)})
            north = Node(setup, north.folder, link=hub.link("north"))
            await north.start()
            await until(lambda: not south.rules.learner.waiting_count)
            assert south.counts.taught["north"] == sent > 0
            check_folds(north, AXES)
            await north.stop(0.2)

    run(work())


def test_a_caller_whose_store_was_deleted_begins_anew_and_no_label_is_lost(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, south):
            await play(north, range(20), label=False)
            late = [Forward("south", "north", request, None, withdrawn=True) for request in (22, 24)]
            await hub.links["north"].post("south", late, 1.0)  # nothing comes of what it never heard of
            assert south.rules.learner.waiting_count
            await hub.links["north"].kill()
            await crash(north)
            shutil.rmtree(north.folder)
            north = Node(north.setup, north.folder, link=hub.link("north"))
            await north.start()
            arms = await play(north, range(60))
            await until(lambda: not len(north.peers.posting.outbox))
            assert south.counts.taught["north"] == arms.count("south") > 10
            await north.stop(0.2)

    run(work())


def test_a_peer_that_takes_no_labels_is_left_out_before_they_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MOST_OWED", 20)
    hub, stub = Hub(), Stub()

    async def work() -> None:
        node = Node(site("north", wrong, {"south": (0.0, 1)}), tmp_path, link=hub.link("north"))
        await node.start()
        await hub.link("south").serve(Announcement("south", CONTEXT, 1), stub)
        stub.takes_labels = False
        await play(node, range(30))
        arms = await play(node, range(30))
        assert len(node.peers.posting.outbox) == 20
        assert arms == ["north's"] * 30
        stub.takes_labels = True
        await until(lambda: nothing_waits(node))
        assert "south" in await play(node, range(5))
        await node.stop(0.5)

    run(work())
