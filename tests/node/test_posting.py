"""What peers are still to be told, whatever happens to them, to their files and to disks meanwhile."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cosend.engine import engine
from cosend.engine.needs import Forward
from cosend.runtime.label_intake import Given
from cosend.transport.in_process import Hub
from tests.node.pairs import Stub, again, nothing_waits, play, two, with_stubs
from tests.node.sites import check_folds, crash, decided, rebuilt, until


async def test_labels_are_told_after_a_disk_has_failed_though_no_peer_has_moved(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, south):
        made = [(await decided(north, {"age": age}))[0] for age in range(20)]
        hub.loses = lambda site: site == "south"
        await north.label([Given(each.id, "ill") for each in made])
        assert north.state.outbox
        hub.loses = lambda _: False
        await rebuilt(north)
        await until(lambda: nothing_waits(north, south), 5.0)
        assert south.counts.taught["north"] == sum(each.arm == "south" for each in made)
        await check_folds(north)


async def test_labels_that_are_too_long_to_go_together_are_told_without_delay(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, south):
        made = await decided(north, *[{"age": 5}] * 300)
        start = time.monotonic()
        given = [Given(each.id, f"{n} {'x' * 20_000}") for n, each in enumerate(made)]
        await north.label(given, wait_for_peers=True)
        assert nothing_waits(north, south)
        assert time.monotonic() - start < 10.0
        assert south.counts.taught["north"] > 100


async def test_a_peer_that_is_removed_from_the_file_is_told_what_it_waits_for_if_it_is_there(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, south):
        made = [(await decided(north, {"age": age}))[0] for age in range(20)]
        hub.loses = lambda site: site == "south"
        await north.label([Given(each.id, "ill") for each in made[:10]])  # for the others, no label will come
        await north.stop(0.2)
        hub.loses = lambda _: False
        north = await again(north, hub, replace(north.setup, peers={"west": (0.0, 1)}))
        await until(lambda: not south.state.learner.pending_count)
        assert south.counts.taught["north"] == sum(each.arm == "south" for each in made[:10]) > 0
        await check_folds(north)
        await north.stop(0.2)


async def test_a_caller_whose_store_was_deleted_starts_from_nothing_and_no_label_is_lost(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, south):
        await play(north, range(20), label=False)
        late = [Forward("south", "north", request, None, withdrawn=True) for request in (22, 24)]
        await hub.links["north"].post("south", late, 1.0)  # nothing comes of what it never heard about
        assert south.state.learner.pending_count
        await hub.links["north"].kill()
        await crash(north)
        shutil.rmtree(north.folder)
        north = await again(north, hub)
        arms = await play(north, range(60))
        await until(lambda: not north.state.outbox)
        assert south.counts.taught["north"] == arms.count("south") > 10
        await north.stop(0.2)


async def test_a_peer_that_takes_no_labels_is_left_out_before_they_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MOST_OWED", 20)
    stub = Stub()
    stub.takes_labels = False
    async with with_stubs(tmp_path, Hub(), stub, "south") as node:
        await play(node, range(30))
        arms = await play(node, range(30))
        assert len(node.running.posting) == 20
        assert arms == ["north's"] * 30
        stub.takes_labels = True
        await until(lambda: nothing_waits(node))
        assert "south" in await play(node, range(5))
