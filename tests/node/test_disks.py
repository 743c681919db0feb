"""A disk that is full, read-only, damaged or of someone else: a clear error, and nothing that is there is touched."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from cosend.errors import StateError, Unavailable
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from tests.node.sites import (
    Majority,
    decided,
    everything,
    lessons,
    old,
    rebuilt,
    running,
    setup_of,
    until,
)
from tests.server.services import called
from tests.stores.disks import small_disk

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


async def until_refused(node: RunningSite) -> tuple[list[Decided], list[str]]:
    """Ask and tell until the disk is full; returns the decisions and labels that were acknowledged."""
    found, labelled = list[Decided](), list[str]()
    for n in range(10_000):
        try:
            (made,) = await decided(node, {**ITEM, "text": "x" * 1000}, names=[f"item {n}"])
            found.append(made)
            await node.label([Given(made.id, "well")])
            labelled.append(made.id)
        except Unavailable:
            return found, labelled
    raise AssertionError("the disk does not get full")


async def test_a_full_disk_refuses_and_the_site_continues_by_itself_when_there_is_room(tmp_path: Path) -> None:
    setup = setup_of({"old": old, "learns": Majority()})
    with small_disk(tmp_path / "small", "700k") as place:
        async with called(setup, place / "site") as (client, node):
            before = await decided(node, ITEM, names=["early"])
            filler = fill(place)
            found, labelled = await until_refused(node)
            for path, body in (("classify", {"items": [{"features": ITEM}]}), ("labels", {"labels": [LABEL]})):
                response = await client.post(f"/v1/{path}", json=body)
                assert response.status_code == 503
                assert response.headers["content-type"] == "application/problem+json"
                assert response.headers["retry-after"] == "1"
                assert response.json()["status"] == 503
            for path, status in (("health/ready", 503), ("health/live", 200), ("metrics", 200)):
                assert (await client.get(f"/{path}")).status_code == status
            assert (await client.get("/v1/summary")).json()["ready"] is False
            assert (await client.post("/v1/mode", json={"mode": "apply"})).status_code == 503
            filler.unlink()
            await until(lambda: node.is_ready)
            assert (await client.get("/health/ready")).status_code == 200
            assert node.counts.rebuilt == 1
            names = [each.id for each in found]
            assert await node.classify([ITEM] * (len(found) + 1), ["early", *names]) == [*before, *found]
            assert (await node.label([Given(name, "well") for name in labelled])).duplicate == labelled
            left = [name for name in names if name not in labelled]
            assert (await node.label([Given(name, "well") for name in left])).learnt == left
            live = everything(node.state)
        async with running(setup, place / "site") as node:
            assert everything(node.state) == live
            assert len(lessons(node)) == len(found)


LABEL = {"id": "early", "label": "well"}


async def test_a_disk_that_fails_while_others_wait_tells_them_all(tmp_path: Path) -> None:
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
        await until(lambda: node.is_ready)
        assert (node.state.learner.pending_count, node.running.in_flight) == (0, 0)
        assert len(await node.classify([ITEM], ["1"])) == 1


async def test_a_probe_of_an_arm_that_a_failed_disk_cuts_short_is_made_again(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        for _ in range(3):
            node.breakers.failed("young", 0.0, "no")
        now = time.monotonic()
        node.breakers.used(["young"], now)
        assert node.breakers.skipped(now) == {"young"}
        await rebuilt(node)
        assert not node.breakers.skipped(now)


async def test_a_log_that_cannot_be_read_for_a_while_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(setup_of(), tmp_path) as node:
        recover = node.store.recover
        errors = [sqlite3.OperationalError("disk I/O error"), OSError("no"), KeyError("what nobody thought of")]

        def fails() -> Any:
            if errors:
                raise errors.pop()
            return recover()

        monkeypatch.setattr(node.store, "recover", fails)
        monkeypatch.setattr("cosend.runtime.running_site.FIRST_REST_S", 0.01)
        node._broken("no disk")
        await until(lambda: node.is_ready)
        assert (errors, node.counts.rebuilt) == ([], 1)
