"""A disk that is full, read-only, damaged or of someone else: a clear error, and nothing that is there is touched."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cosend.errors import StateError, Unavailable
from cosend.node.flight import Decided
from cosend.node.inspection import Inspection
from cosend.node.labelling import Given
from cosend.node.node import Node
from tests.node.sites import LONGEST_S, Majority, crash, old, run, running, setup_of
from tests.service.clients import called
from tests.site.test_fold import everything
from tests.stores.disks import make_read_only, small_disk

ITEM = {"age": 50.0}


def fill(place: Path) -> Path:
    """Leave no room on a small disk."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            for size in (2**16, 2**12, 1):
                while True:
                    try:
                        file.write(b"\0" * size)
                    except OSError:
                        break
        except OSError:
            pass
    return filler


async def until_refused(node: Node) -> tuple[list[Decided], list[str]]:
    """Ask and tell until the disk is full; returns the decisions and labels that were acknowledged."""
    found, labelled = list[Decided](), list[str]()
    for n in range(10_000):
        try:
            (decided,) = await node.classify([{**ITEM, "text": "x" * 1000}], [f"item {n}"])
            assert isinstance(decided, Decided)
            found.append(decided)
            await node.label([Given(decided.id, "well")])
            labelled.append(decided.id)
        except Unavailable:
            return found, labelled
    raise AssertionError("the disk does not get full")


def test_a_full_disk_refuses_and_the_site_goes_on_by_itself_when_there_is_room(tmp_path: Path) -> None:
    async def work(place: Path) -> None:
        setup = setup_of({"old": old, "learns": Majority()}, learns_from="all")
        async with called(setup, place / "site") as (client, node):
            before = [*(await node.classify([ITEM], ["early"]))]
            filler = fill(place)
            found, labelled = await until_refused(node)
            for path, body in (("classify", {"items": [{"features": ITEM}]}), ("labels", {"labels": [LABEL]})):
                response = await client.post(f"/v1/{path}", json=body)
                assert response.status_code == 503
                assert response.headers["content-type"] == "application/problem+json"
                assert response.headers["retry-after"] == "1"
                assert response.json()["status"] == 503
            assert (await client.get("/health/ready")).status_code == 503
            assert (await client.get("/health/live")).status_code == 200
            assert (await client.get("/v1/summary")).json()["ready"] is False
            assert (await client.get("/metrics")).status_code == 200
            assert (await client.post("/v1/mode", json={"mode": "apply"})).status_code == 503
            filler.unlink()
            while not node.is_ready:
                await asyncio.sleep(0.05)
            assert (await client.get("/health/ready")).status_code == 200
            assert node.counts.rebuilt == 1
            names = [each.id for each in found]
            assert await node.classify([ITEM] * (len(found) + 1), ["early", *names]) == [*before, *found]
            assert (await node.label([Given(name, "well") for name in labelled])).duplicate == labelled
            left = [name for name in names if name not in labelled]
            assert (await node.label([Given(name, "well") for name in left])).learnt == left
            live = everything(node.rules)
        async with running(setup, place / "site") as node:
            assert everything(node.rules) == live
            model: Any = node.workers["learns"].classifier
            assert len(model.model.taught) == len(found)

    with small_disk(tmp_path / "small", "700k") as place:
        run(work(place))


LABEL = {"id": "early", "label": "well"}


def test_a_disk_that_becomes_read_only_refuses_and_a_site_cannot_start_there(tmp_path: Path) -> None:
    async def work(place: Path) -> None:
        setup = setup_of()
        node = Node(setup, place / "site")
        await node.start()
        (decided,) = await node.classify([ITEM], ["one"])
        await crash(node)
        make_read_only(place)
        before = {path.name: path.read_bytes() for path in (place / "site").iterdir()}
        with pytest.raises(StateError, match="site"):
            await Node(setup, place / "site").start()
        with pytest.raises(StateError, match="new"):
            await Node(setup, place / "new").start()
        assert {path.name: path.read_bytes() for path in (place / "site").iterdir()} == before
        shutil.copytree(place / "site", tmp_path / "copy")
        async with running(setup, tmp_path / "copy") as node:
            assert await node.classify([ITEM], ["one"]) == [decided]

    with small_disk(tmp_path / "small", "4m") as place:
        run(work(place))


async def made(folder: Path) -> None:
    """Leave a site that has run in a folder, with two snapshots."""
    async with running(setup_of(), folder) as node:
        for _ in range(2):
            (decided,) = await node.classify([ITEM])
            assert isinstance(decided, Decided)
            await node.label([Given(decided.id, "well")])
            await node.snapshot()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def truncate(folder: Path) -> None:
    log = folder / "events.sqlite"
    log.write_bytes(log.read_bytes()[:-4096])


def cut_to_the_head(folder: Path) -> None:
    log = folder / "events.sqlite"
    log.write_bytes(log.read_bytes()[:50])


def empty(folder: Path) -> None:
    (folder / "events.sqlite").write_bytes(b"")


def foreign(folder: Path) -> None:
    (folder / "events.sqlite").unlink()
    with sqlite3.connect(folder / "events.sqlite") as other:
        other.execute("CREATE TABLE mine (text)")
    other.close()


def text(folder: Path) -> None:
    (folder / "events.sqlite").write_text("dear diary\n" * 1000)


def newer(folder: Path) -> None:
    log = folder / "events.sqlite"
    log.write_bytes(log.read_bytes()[:60] + (99).to_bytes(4) + log.read_bytes()[64:])


def without_log(folder: Path) -> None:
    (folder / "events.sqlite").unlink()


def shorter(folder: Path) -> None:
    """Take the newest events away, as a backup that is older than its snapshots would."""
    with sqlite3.connect(folder / "events.sqlite") as log:
        log.execute("DELETE FROM events WHERE number > 2")
    log.close()


def changed(folder: Path) -> None:
    with sqlite3.connect(folder / "events.sqlite") as log:
        log.execute("UPDATE events SET event = x'00' WHERE number = 0")
    log.close()


@pytest.mark.parametrize(
    "damage", [truncate, cut_to_the_head, empty, foreign, text, newer, without_log, shorter, changed]
)
def test_what_is_damaged_foreign_or_newer_is_told_and_left_alone(damage: Any, tmp_path: Path) -> None:
    async def work() -> None:
        await made(tmp_path)
        damage(tmp_path)
        before = files(tmp_path)
        for _ in range(2):
            with pytest.raises(StateError, match=str(tmp_path)):
                await Node(setup_of(), tmp_path).start()
        after = files(tmp_path)
        assert {name: after[name] for name in before} == before
        assert not set(after) - set(before) - {"events.sqlite-wal", "events.sqlite-shm"}

    run(work())


def test_the_folder_of_another_site_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        await made(tmp_path)
        setup = setup_of()
        other = type(setup)(name="south", classifiers=setup.classifiers, axes=setup.axes)
        with pytest.raises(StateError, match="'north', not of 'south'"):
            await Node(other, tmp_path).start()

    run(work())


def test_snapshots_of_another_log_are_not_believed(tmp_path: Path) -> None:
    async def work() -> None:
        await made(tmp_path / "one")
        await made(tmp_path / "two")
        for path in (tmp_path / "two").glob("state-*.npz"):
            shutil.copy(path, tmp_path / "one")
        async with running(setup_of(), tmp_path / "one") as node:
            assert (await Inspection(node).decision("2"))["labelled"]

    run(work())


SECOND = """
import asyncio, sys
from pathlib import Path
from cosend.node.node import Node
from tests.node.sites import setup_of
asyncio.run(Node(setup_of(), Path(sys.argv[1])).start())
"""


def test_a_second_process_on_the_folder_does_not_start(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            command = [sys.executable, "-c", SECOND, str(tmp_path)]
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, timeout=LONGEST_S, check=False
            )
            assert done.returncode == 1
            assert "in use by another process" in done.stderr
            assert len(await node.classify([ITEM])) == 1

    run(work())


def test_a_disk_that_fails_while_others_wait_tells_them_all(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            append = node.store.log.append

            def fails(*_: Any) -> int:
                node.store.log.append = append  # type: ignore[method-assign]
                raise StateError("no disk")

            node.store.log.append = fails  # type: ignore[method-assign, assignment]
            asked = [node.classify([ITEM], [f"{n}" if n % 2 else None]) for n in range(30)]
            for each in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(each, Unavailable)
            assert not node.is_ready
            while not node.is_ready:
                await asyncio.sleep(0.02)
            assert (node.rules.learner.waiting_count, node.deciding.requests.in_flight) == (0, 0)
            assert len(await node.classify([ITEM], ["1"])) == 1

    run(work())


def test_a_try_of_an_arm_that_a_failed_disk_cuts_short_is_made_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            breaker = node.breakers.of("young")
            for _ in range(3):
                breaker.failed("no")
            breaker._until = 0.0  # it has rested
            breaker.used()
            assert not breaker.lets_through()
            node._broken("no disk")
            while not node.is_ready:
                await asyncio.sleep(0.02)
            assert breaker.lets_through()

    run(work())


def test_a_log_that_cannot_be_read_for_a_while_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            recover = node.store.recover
            errors = [sqlite3.OperationalError("disk I/O error"), OSError("no"), KeyError("what nobody thought of")]

            def fails() -> Any:
                if errors:
                    raise errors.pop()
                return recover()

            monkeypatch.setattr(node.store, "recover", fails)
            monkeypatch.setattr("cosend.node.node.FIRST_REST_S", 0.01)
            node._broken("no disk")
            while not node.is_ready:
                await asyncio.sleep(0.02)
            assert (errors, node.counts.rebuilt) == ([], 1)

    run(work())
