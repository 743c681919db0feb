"""A bit that has flipped in the WAL of a killed site is noticed, and a power cut in its last write is none."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cosend.engine.events import Chosen
from cosend.errors import StateError
from cosend.store.event_log import EventLog
from cosend.store.recovery import read_events
from tests.processes.served import network
from tests.tools.processes import READY_S, Services

FRAME = 24 + 4096
ASKED = 12


@pytest.fixture(scope="module")
def killed(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a network whose site was killed after some answers, one after the other."""
    folder = tmp_path_factory.mktemp("killed") / "network"
    network(folder, "young", "old")
    with services.running(folder, "clinic") as (site,):
        for age in range(ASKED):
            site.ask("/v1/classify", {"items": [{"features": {"age": age}}]})
    return folder


@pytest.fixture
def wal(killed: Path, tmp_path: Path) -> Path:
    """Return the WAL of a copy."""
    shutil.copytree(killed, tmp_path / "copy")
    return tmp_path / "copy" / "store" / "clinic" / "events.sqlite-wal"


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def decided(folder: Path) -> int:
    """Return how many decisions are in a log that a site would start from."""
    with EventLog(folder, site="clinic") as log:
        return sum(len(event.arms) for _, event in read_events(log) if isinstance(event, Chosen))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


def test_a_site_with_a_flipped_bit_before_whole_transactions_says_what_to_do_and_touches_nothing(
    services: Services, wal: Path
) -> None:
    flip(wal, wal.stat().st_size // 2)
    before, folder = contents(wal.parent), wal.parents[2]
    site = services.start(folder, "clinic")
    end = time.monotonic() + READY_S
    with suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.kill(site.process, 0)
            time.sleep(0.01)
    said = " ".join((folder / "clinic.log").read_text().rpartition("error:")[2].split())
    assert "damaged" in said
    assert "restore the folder from a backup" in said
    assert contents(wal.parent) == before
    length = int(said.partition("truncate -s ")[2].split()[0])
    with wal.open("r+b") as opened:
        opened.truncate(length)
    with services.running(folder, "clinic") as (site,):  # whoever does what is said goes on with what came before
        assert 0 < site.ask("/v1/summary")["items"] < ASKED


def test_a_header_with_a_flipped_bit_is_told_too(wal: Path) -> None:
    flip(wal, 17)
    with pytest.raises(StateError, match="the header is not what was written"):
        decided(wal.parent)


@pytest.mark.parametrize("left", ["torn", "cut", "zeros"])
def test_a_last_write_that_a_power_cut_has_torn_is_none_of_it(wal: Path, left: str) -> None:
    size = wal.stat().st_size
    if left == "torn":
        flip(wal, size - 100)
    else:
        with wal.open("r+b") as opened:
            opened.truncate(size - FRAME // 2)
            if left == "zeros":
                opened.truncate(size + 3 * FRAME)
    assert decided(wal.parent) == ASKED - 1


def test_a_killed_site_starts_with_all_that_it_has_answered(services: Services, wal: Path) -> None:
    with services.running(wal.parents[2], "clinic") as (site,):
        assert site.ask("/v1/summary")["items"] == ASKED
        site.ask("/v1/classify", {"items": [{"features": {"age": 50}}]})
    flip(wal, wal.stat().st_size - 100)  # frames of before the start are not there any more
    assert decided(wal.parent) >= ASKED


def test_frames_of_an_earlier_wal_are_not_looked_at(wal: Path, tmp_path: Path) -> None:
    """SQLite begins a WAL anew in the same file, and leaves behind it what stood there before."""
    log = sqlite3.connect(wal.with_name("events.sqlite"), isolation_level=None)
    for _ in range(5):
        log.execute("UPDATE events SET at = at + 0.001 WHERE number = 0")
    log.execute("PRAGMA wal_checkpoint(RESTART)")
    log.execute("UPDATE events SET at = at + 0.001 WHERE number = 0")
    data = wal.read_bytes()
    assert data[32 + 8 : 32 + 16] != data[-FRAME + 8 : -FRAME + 16]  # other salts
    shutil.copytree(wal.parent, tmp_path / "again")
    log.close()
    assert decided(tmp_path / "again") == ASKED
