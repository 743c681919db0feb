"""A bit that has flipped in the WAL of a killed site is noticed, and a power cut in its last write is none."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.processes.served import Served, network, started

FRAME = 24 + 4096
PLAIN = {"NUMBA_DISABLE_JIT": "1"}
ASKED = 12


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a network whose site was killed after some answers, one after the other."""
    folder = tmp_path_factory.mktemp("killed") / "network"
    with started(network(folder, "young", "old"), "--no-dashboard", env=PLAIN) as site:
        site.wait_until_ready()
        for age in range(ASKED):
            assert site.classify(age).status_code == 200
        site.kill()
    return folder


def copy_of(killed: Path, to: Path) -> tuple[Path, Path]:
    """Return the network file and the WAL of a copy."""
    shutil.copytree(killed, to / "copy")
    return to / "copy" / "network.toml", to / "copy" / "store" / "clinic" / "events.sqlite-wal"


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def refused(site: Served) -> str:
    """Return what a site says that does not start, on one line."""
    assert site.process.wait(60) != 0
    said = " ".join(site.said().split())
    assert "Traceback" not in said
    return said


def decided(site: Served) -> int:
    site.wait_until_ready()
    return int(site.http.get("/v1/summary").json()["items"])


def test_a_flipped_bit_before_whole_transactions_is_told_and_nothing_is_touched(killed: Path, tmp_path: Path) -> None:
    file, wal = copy_of(killed, tmp_path)
    middle = wal.stat().st_size // 2
    flip(wal, middle)
    before = {path.name: path.read_bytes() for path in wal.parent.iterdir()}
    with started(file, "--no-dashboard", env=PLAIN) as site:
        said = refused(site)
        assert "damaged" in said
        assert "restore the folder from a backup" in said
    assert {name: (wal.parent / name).read_bytes() for name in before if not name.endswith("-shm")} == {
        name: content for name, content in before.items() if not name.endswith("-shm")
    }


def test_whoever_does_what_is_said_goes_on_with_what_came_before(killed: Path, tmp_path: Path) -> None:
    file, wal = copy_of(killed, tmp_path)
    flip(wal, wal.stat().st_size // 2)
    with started(file, "--no-dashboard", env=PLAIN) as site:
        length = int(refused(site).partition("truncate -s ")[2].split()[0])
    with wal.open("r+b") as opened:
        opened.truncate(length)
    with started(file, "--no-dashboard", env=PLAIN) as site:
        assert 0 < decided(site) < ASKED


def test_a_header_with_a_flipped_bit_is_told_too(killed: Path, tmp_path: Path) -> None:
    file, wal = copy_of(killed, tmp_path)
    flip(wal, 17)
    with started(file, "--no-dashboard", env=PLAIN) as site:
        assert "the header is not what was written" in refused(site)


@pytest.mark.parametrize("left", ["torn", "cut", "zeros"])
def test_a_last_write_that_a_power_cut_has_torn_is_none_of_it(killed: Path, tmp_path: Path, left: str) -> None:
    file, wal = copy_of(killed, tmp_path)
    size = wal.stat().st_size
    if left == "torn":
        flip(wal, size - 100)
    else:
        with wal.open("r+b") as opened:
            opened.truncate(size - FRAME // 2)
            if left == "zeros":
                opened.truncate(size + 3 * FRAME)
    with started(file, "--no-dashboard", env=PLAIN) as site:
        assert decided(site) == ASKED - 1


def test_a_killed_site_starts_with_all_that_it_has_answered(killed: Path, tmp_path: Path) -> None:
    file, wal = copy_of(killed, tmp_path)
    with started(file, "--no-dashboard", env=PLAIN) as site:
        assert decided(site) == ASKED
        assert site.classify(50).status_code == 200
        site.kill()
    flip(wal, wal.stat().st_size - 100)  # frames of before the start are not there any more
    with started(file, "--no-dashboard", env=PLAIN) as site:
        assert decided(site) >= ASKED


def test_frames_of_an_earlier_wal_are_not_looked_at(killed: Path, tmp_path: Path) -> None:
    """SQLite begins a WAL anew in the same file, and leaves behind it what stood there before."""
    file, wal = copy_of(killed, tmp_path)
    log = sqlite3.connect(wal.with_name("events.sqlite"), isolation_level=None)
    for _ in range(5):
        log.execute("UPDATE events SET at = at + 0.001 WHERE number = 0")
    log.execute("PRAGMA wal_checkpoint(RESTART)")
    log.execute("UPDATE events SET at = at + 0.001 WHERE number = 0")
    data = wal.read_bytes()
    assert data[32 + 8 : 32 + 16] != data[-FRAME + 8 : -FRAME + 16]  # other salts
    shutil.copytree(file.parent, tmp_path / "again")
    log.close()
    with started(tmp_path / "again" / "network.toml", "--no-dashboard", env=PLAIN) as site:
        assert decided(site) == ASKED
