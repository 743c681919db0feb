"""What peers are still to be told, whatever happens to them, to their files and to disks meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.links.in_process import Hub
from cosend.links.link import Announcement
from cosend.node import outbox
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.site.messages import Forward
from cosend.site.values import value_bytes
from cosend.stores.log_index import POST, Change
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
            assert time.monotonic() - start < 10.0

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


class Kept:
    """Takes rows as `Commits` does, and keeps them as the file would."""

    def __init__(self) -> None:
        self.rows: dict[int, Sequence[Any]] = {}

    def also(self, change: Change, rows: Iterable[Sequence[Any]]) -> None:
        for row in rows:
            if change is POST:
                self.rows[row[0]] = row
            else:
                del self.rows[row[0]]


def told(peer: str, *requests: int) -> list[Forward]:
    return [Forward(peer, "north", request, f"label {request}", request % 5 == 0) for request in requests]


def test_a_letter_stays_until_all_of_it_is_taken() -> None:
    kept: Any = Kept()
    box = outbox.Outbox("north", kept, [])
    assert [*box.add([*told("south", 1, 2, 3), *told("west", 4), *told("south", 5)])] == ["south", "west"]
    box.add(told("south", 6, 7))
    assert len(kept.rows) == 3
    box.taken("south", 2)
    assert len(kept.rows) == 3
    again = outbox.Outbox("north", kept, [*kept.rows.values()])  # after a crash: more is told again than must be
    assert again.first("south", 10) == told("south", 1, 2, 3, 5, 6, 7)
    assert box.first("south", 10) == told("south", 3, 5, 6, 7)
    box.taken("south", 3)
    assert len(kept.rows) == 2
    box.taken("south", 1)
    assert [*kept.rows] == [2]
    box.forget("west")
    assert not kept.rows
    box.taken("west", 1)  # it was on its way when the peer left
    assert not len(box)


def test_rows_of_one_label_each_are_read_as_logs_of_before_have_them() -> None:
    rows = [(3, "south", 17, value_bytes(True), 0), (4, "south", 18, value_bytes(None), 1)]
    kept: Any = Kept()
    kept.rows = {row[0]: row for row in rows}
    box = outbox.Outbox("north", kept, rows)
    assert box.first("south", 10) == [Forward("south", "north", 17, True), Forward("south", "north", 18, None, True)]
    box.add(told("south", 1))
    assert [*kept.rows] == [3, 4, 5]
    box.taken("south", 2)
    assert [*kept.rows] == [5]


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text())))
def test_labels_come_back_from_a_letter_as_they_were(truths: list[Any]) -> None:
    kept: Any = Kept()
    forwards = [Forward("south", "north", n, truth) for n, truth in enumerate(truths)]
    outbox.Outbox("north", kept, []).add(forwards)
    again = outbox.Outbox("north", kept, [*kept.rows.values()])
    assert repr(again.first("south", len(truths))) == repr(forwards)
