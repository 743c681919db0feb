"""The durable log: what was acknowledged is there, in order and whole, or an error says why the log cannot be used."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest

from cosend.errors import SettingError, StateError
from cosend.store.event_log import FILE, EventLog
from tests.stores.disks import make_read_only, small_disk

EVENTS = [bytes([n % 251]) * (n % 90) for n in range(2_500)]


def a_log(folder: Path, events: list[bytes] = EVENTS, commit: int = 500) -> EventLog:
    log = EventLog(folder, site="north")
    for start in range(0, len(events), commit):
        log.append(events[start : start + commit])
    return log


def contents(folder: Path) -> list[bytes]:
    with EventLog(folder, site="north") as log:
        read = list(log.read())
        assert [number for number, _ in read] == list(range(log.position))
        return [event for _, event in read]


def files(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder, but for the lock, memory that SQLite shares between processes, and an empty WAL."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in ("lock", f"{FILE}-shm")}
    return {name: data for name, data in found.items() if data or not name.endswith("-wal")}


def test_events_come_back_in_order_with_consecutive_numbers_from_any_position(tmp_path: Path) -> None:
    with EventLog(tmp_path / "a" / "b", site="north") as log:
        assert (log.position, list(log.read()), log.append([])) == (0, [], 0)
        assert log.append(EVENTS[:3]) == 3
        assert log.append(EVENTS[3:]) == len(EVENTS)
        for start in (0, 1, 999, 1000, 1001, len(EVENTS), len(EVENTS) + 5):
            assert list(log.read(start)) == list(enumerate(EVENTS))[start:]
        with pytest.raises(SettingError, match="start"):
            log.read(-1)
    assert contents(tmp_path / "a" / "b") == EVENTS
    assert sorted(files(tmp_path / "a" / "b")) == [FILE]


@pytest.mark.compiled
def test_a_second_log_in_the_same_folder_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    program = "import sys; from cosend.store.event_log import EventLog; EventLog(sys.argv[1], site='north')"
    with a_log(tmp_path) as log:
        with pytest.raises(StateError, match="in use by another process, which must stop first"):
            EventLog(tmp_path, site="north")
        done = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert "in use by another process" in done.stderr
        log.append([b"more"])
    assert contents(tmp_path) == [*EVENTS, b"more"]


def test_threads_that_append_and_read_wait_for_each_other(tmp_path: Path) -> None:
    wrong: list[object] = []
    with EventLog(tmp_path, site="north") as log:

        def write(name: int) -> None:
            for n in range(40):
                log.append([bytes([name, n, part]) for part in range(3)])

        def watch() -> None:
            for _ in range(40):
                wrong.extend(number for number, _ in log.read() if number >= log.position)

        threads = [Thread(target=write, args=(name,)) for name in range(3)] + [Thread(target=watch)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        events = [event for _, event in log.read()]
    assert wrong == []
    assert len(set(events)) == len(events) == 3 * 40 * 3
    assert all(a[:2] == b[:2] for first in range(0, 360, 3) for a, b in pairwise(events[first : first + 3]))


def test_removed_events_make_room_and_the_first_one_stays(tmp_path: Path) -> None:
    with a_log(tmp_path) as log:
        first = log.first()
        log.remove(2_000)
        for start in (0, 1, 1_999):
            with pytest.raises(StateError, match="the events before number 2000 have been removed"):
                log.read(start)
        assert list(log.read(2_000)) == list(enumerate(EVENTS))[2_000:]
        log.remove(100)
        assert log.oldest == 2_000
        log.remove(len(EVENTS))
        with pytest.raises(SettingError, match="before must be a whole number"):
            log.remove(len(EVENTS) + 1)
    with EventLog(tmp_path, site="north") as log:
        assert (log.oldest, log.position, log.first()) == (len(EVENTS), len(EVENTS), first)
        assert log.append([b"next"]) == len(EVENTS) + 1
        assert list(log.read(len(EVENTS))) == [(len(EVENTS), b"next")]


def rewritten(number: int, value: bytes) -> Callable[[Path], None]:
    """Change bytes of a log's head."""

    def change(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[number : number + len(value)] = value
        file.write_bytes(data)

    return change


def sql(*statements: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        file.unlink(missing_ok=True) if statements[0].startswith("CREATE") else None
        connection = sqlite3.connect(file, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda file: file.write_bytes(b""), "not an event log of cosend, or damaged"),
        (lambda file: file.write_text("a diary" * 1_000), "not an event log of cosend, or damaged"),
        (sql("CREATE TABLE mine (a)"), "not an event log of cosend, or damaged"),
        (rewritten(60, (9).to_bytes(4)), "has version 9 of the log; this cosend reads version 3"),
        (sql("UPDATE about SET site = 'south'"), "damaged, it does not say whose log it is"),
        (sql("DELETE FROM about"), "damaged, it does not say whose log it is"),
        (sql("DROP TABLE about"), "cannot be opened .*no such table"),
    ],
    ids=["empty", "text", "another database", "newer", "another site", "nobody's", "no table"],
)
def test_a_file_that_is_no_log_of_ours_is_refused_and_left_alone(
    change: Callable[[Path], None], sentence: str, tmp_path: Path
) -> None:
    a_log(tmp_path).close()
    change(tmp_path / FILE)
    before = files(tmp_path)
    for _ in range(2):
        with pytest.raises(StateError, match=sentence):
            EventLog(tmp_path, site="north")
    assert files(tmp_path) == before


def test_the_log_of_another_site_is_refused_and_left_alone(tmp_path: Path) -> None:
    a_log(tmp_path).close()
    before = files(tmp_path)
    with pytest.raises(StateError, match="the log of site 'north', not of 'south'"):
        EventLog(tmp_path, site="south")
    assert files(tmp_path) == before
    assert contents(tmp_path) == EVENTS


@pytest.mark.parametrize("left", [f"{FILE}-wal", "state-000000000007.npz"])
def test_a_log_that_is_gone_is_not_begun_anew_beside_what_belongs_to_it(left: str, tmp_path: Path) -> None:
    (tmp_path / left).write_bytes(b"kept")
    with pytest.raises(StateError, match=f"no such file, but {left} of a log is in the same folder"):
        EventLog(tmp_path, site="north")
    assert files(tmp_path) == {left: b"kept"}


def test_a_log_that_was_killed_while_it_was_made_is_made_anew(tmp_path: Path) -> None:
    for name in (f"new-{FILE}", f"new-{FILE}-journal"):
        (tmp_path / name).write_bytes(b"half of it")
    a_log(tmp_path).close()
    assert contents(tmp_path) == EVENTS
    assert sorted(files(tmp_path)) == [FILE]


def test_a_wal_cut_anywhere_is_read_up_to_a_commit(tmp_path: Path) -> None:
    log = a_log(tmp_path / "north", EVENTS[:300], commit=10)
    length = (tmp_path / "north" / f"{FILE}-wal").stat().st_size
    found = set()
    for cut in random.Random(3).sample(range(length), 20):
        copy = tmp_path / f"cut {cut}"
        shutil.copytree(tmp_path / "north", copy)
        with (copy / f"{FILE}-wal").open("r+b") as file:
            file.truncate(cut)
        events = contents(copy)
        assert events == EVENTS[: len(events)]
        assert len(events) % 10 == 0
        found.add(len(events))
    log.close()
    assert len(found) > 5


def test_a_file_cut_anywhere_is_refused_and_left_alone(tmp_path: Path) -> None:
    a_log(tmp_path / "north").close()
    data = (tmp_path / "north" / FILE).read_bytes()
    for cut in random.Random(3).sample(range(len(data)), 20):
        (tmp_path / "north" / FILE).write_bytes(data[:cut])
        with pytest.raises(StateError, match=rf"{FILE}: (cannot be opened|damaged|not an event log)"):
            EventLog(tmp_path / "north", site="north")
        assert (tmp_path / "north" / FILE).read_bytes() == data[:cut]


def test_a_flipped_bit_is_found_out_or_does_no_harm(tmp_path: Path) -> None:
    a_log(tmp_path).close()
    data, found = (tmp_path / FILE).read_bytes(), 0
    draw = random.Random(3)
    places = [*range(100), *draw.sample(range(len(data)), 60)]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << draw.randrange(8)
        for path in tmp_path.iterdir():
            path.unlink()
        (tmp_path / FILE).write_bytes(damaged)
        try:
            events = contents(tmp_path)
        except StateError:
            found += 1
        else:
            assert events == EVENTS, f"byte {place}"
    assert found > 80


def test_a_missing_event_is_named(tmp_path: Path) -> None:
    for gone in (0, 1, 1_700):
        folder = tmp_path / str(gone)
        a_log(folder).close()
        sql(f"DELETE FROM events WHERE number = {gone}")(folder / FILE)  # noqa: S608 - our own
        with EventLog(folder, site="north") as log:
            with pytest.raises(StateError, match=f"damaged, event {gone} is missing"):
                list(log.read())
            if gone == 0:
                with pytest.raises(StateError, match="has no first event"):
                    log.first()


def test_a_folder_that_cannot_be_written_to_is_an_error_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        a_log(disk / "north").close()
        make_read_only(disk)
        for folder in ("north", "new"):
            with pytest.raises(StateError, match=r"cannot be used as the folder of a site \(.*Read-only"):
                EventLog(disk / folder, site="north")
        shutil.copytree(disk / "north", tmp_path / "copy")
    assert contents(tmp_path / "copy") == EVENTS


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "north").write_text("a file")
    with pytest.raises(StateError, match="cannot be used as the folder of a site"):
        EventLog(tmp_path / "north", site="north")
