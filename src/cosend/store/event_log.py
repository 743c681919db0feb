"""The durable log of a site: events as bytes in one SQLite file, each under its number.

    folder/events.sqlite    the log; SQLite keeps events.sqlite-wal and -shm next to it while it is open
    folder/lock             held by the process that has the log open; the system releases it when that is killed

When `append` returns, its events are on the disk: many events are one transaction (WAL, synchronous=FULL). Events are
numbered from 0, and a position is the number of the next event: a log at position n has had n events. Every event has a
checksum, because SQLite has none. `remove` drops old events but never event 0, which says whose log it is.

A log is made under another name and then renamed, so one that is there is always a whole one: nothing that cannot be
read is ever taken for a new log and written over. Events of a damaged WAL that SQLite would forget are found before
(`store/wal.py`).
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib import import_module
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from time import time
from typing import IO, Any, Final, Self, TypeAlias
from uuid import uuid4

from cosend.checks import check_path, check_text, check_whole
from cosend.errors import StateError
from cosend.store.atomic_file import sync_folder
from cosend.store.log_index import SCHEMA as INDEX
from cosend.store.log_index import Change, Statement
from cosend.store.wal import damage_of

LOG: Final = logging.getLogger("cosend.store")
FILE: Final = "events.sqlite"
VERSION: Final = 3
MARK: Final = 0x636F7364  # "cosd": tells our files from other SQLite files
CHUNK: Final = 1_000  # events that are read at once
CHECKSUM: Final = 4  # bytes
STATEMENTS: Final = 512  # that SQLite need not read again: they differ in how many rows they have
LONGEST_WAL: Final = 2**24  # bytes that SQLite leaves of a WAL that a large transaction has made longer
SCHEMA: Final = f"""
PRAGMA application_id = {MARK};
PRAGMA user_version = {VERSION};
CREATE TABLE about (site TEXT NOT NULL, identity TEXT NOT NULL, oldest INTEGER NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE events (number INTEGER PRIMARY KEY, at REAL NOT NULL, first INTEGER, last INTEGER, event BLOB NOT NULL);
"""


EVENTS: Final = Change("INSERT INTO events VALUES ", "(?,?,?,?,?)")
Span: TypeAlias = tuple[int | None, int | None]
NO_SPAN: Final[Span] = (None, None)
BEGIN: Final[Statement] = ("BEGIN IMMEDIATE", ())
COMMIT: Final[Statement] = ("COMMIT", ())


class EventLog:
    """The log of one site, open for this process alone.

    folder  of the site; it is made if it is not there
    site    its name: the log of another one is refused
    durable wait for the disk at every `append`; else a crash of the machine, not of the process, can lose the newest

    Any thread may use it; they wait for each other. Close it, or use it in a `with`.
    """

    def __init__(self, folder: str | os.PathLike[str], *, site: str, durable: bool = True) -> None:
        check_path("folder", folder)
        check_text("site", site)
        self.folder, self.site, self._durable = Path(folder), site, durable
        self.file = self.folder / FILE
        self._guard = RLock()
        self._lock = _locked(self.folder)
        try:
            if not self.file.exists():
                _make(self.file, site)
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def _open(self) -> None:
        """Open the file for reading first: a damaged one must not be touched, and SQLite tidies up when it writes."""
        with _told(self.file, "cannot be opened"):
            _check_ours(self.file)
            _check_wal(self.file, durable=self._durable)
            with closing(_connected(self.file, "ro")) as connection:
                self.identity = _checked_identity(self.file, connection, self.site)[1]
            self._connection = _connected(self.file, "rw")
            try:
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'OFF'}")
                self._connection.execute(f"PRAGMA journal_size_limit = {LONGEST_WAL}")
                self._empty_wal()
                self._find_ends()
            except BaseException:
                self._connection.close()
                raise

    def _empty_wal(self) -> None:
        """Start with an empty WAL: in an old one, what a crash left behind could later look like damage."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _find_ends(self) -> None:
        query = "SELECT oldest, (SELECT MAX(number) FROM events) FROM about"
        self.oldest, last = self._connection.execute(query).fetchone()
        self.position: int = max(self.oldest, 0 if last is None else last + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._guard:
            self._connection.close()
            self._lock.close()

    def append(
        self, events: Sequence[bytes], spans: Sequence[Span] | None = None, also: Iterable[Statement] = ()
    ) -> int:
        """Write events, all of them or none, and return the new position; what is written is on the disk then.

        `spans` are the smallest and the largest id of the decisions in each event, None if it has none. `also` are
        changes of other tables in the same transaction.
        """
        with self._guard:
            now = time()
            both = enumerate(zip(events, spans or repeat(NO_SPAN), strict=False), self.position)
            rows = [(n, now, first, last, event + _checksum(n, event)) for n, (event, (first, last)) in both]
            self._write([*EVENTS.statements(rows), *also])
            self.position += len(rows)
            return self.position

    def probe(self) -> None:
        """Raise if nothing can be written now."""
        with self._guard:
            self._write([("UPDATE about SET oldest = oldest", ())])
            with _told(self.file, "cannot be written"):
                self._empty_wal()

    def reader(self) -> sqlite3.Connection:
        """Return a read-only connection that never waits for a writer; the caller closes it."""
        with _told(self.file, "cannot be opened"):
            return _connected(self.file, "ro")

    def read(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Read the events from a number on, each with its number, up to where the log ends when it gets there."""
        check_whole("start", start, least=0)
        if 0 < start < self.oldest or (start == 0 and self.oldest > 1):
            raise StateError(f"{self.file}: the events before number {self.oldest} have been removed")
        return ((number, event) for number, _, event in self._read(start))

    def read_dated(self) -> Iterator[tuple[int, float, bytes]]:
        """Read all events that are there, each with its number and the time when it was written."""
        if self.oldest > 1:
            yield from self._checked_rows(self._chunk(0)[:1])
        yield from self._read(self.oldest if self.oldest > 1 else 0)

    def _read(self, number: int) -> Iterator[tuple[int, float, bytes]]:
        while rows := self._chunk(number):
            for row in self._checked_rows(rows):
                if row[0] != number:
                    raise StateError(f"{self.file}: damaged, event {number} is missing")
                yield row
                number += 1
        if number < self.position:
            raise StateError(f"{self.file}: damaged, event {number} is missing")

    def _chunk(self, start: int) -> list[tuple[int, float, Any]]:
        query = "SELECT number, at, event FROM events WHERE number >= ? ORDER BY number LIMIT ?"
        with self._guard, _told(self.file, f"cannot be read from event {start} on"):
            return self._connection.execute(query, (start, CHUNK)).fetchall()

    def first(self) -> bytes:
        rows = self._chunk(0)
        if not rows or rows[0][0] != 0:
            raise StateError(f"{self.file}: has no first event")
        return self._checked(rows[0][0], rows[0][2])

    def _checked_rows(self, rows: Iterable[tuple[int, float, Any]]) -> Iterator[tuple[int, float, bytes]]:
        for number, at, data in rows:
            yield number, at, self._checked(number, data)

    def _checked(self, number: int, data: object) -> bytes:
        if isinstance(data, bytes):
            event = data[:-CHECKSUM]
            if data[-CHECKSUM:] == _checksum(number, event):
                return event
        raise StateError(f"{self.file}: damaged, event {number} is not what was written")

    def remove(self, before: int) -> None:
        """Remove the events before a number, except the first; the caller has a snapshot that covers them.

        Many are removed in parts, so that `append` never waits long.
        """
        check_whole("before", before, least=0, most=self.position)
        while True:
            with self._guard:
                oldest = max(self.oldest, min(before, self.oldest + CHUNK))
                about = _about(self.site, self.identity, oldest)
                delete = "DELETE FROM events WHERE number > 0 AND number < ?", (oldest,)
                self._write([delete, ("UPDATE about SET site = ?, identity = ?, oldest = ?, checksum = ?", about)])
                self.oldest = oldest
            if oldest >= before:
                return

    def _write(self, statements: Sequence[Statement]) -> None:
        """Execute statements, all of them or none; afterwards the ends of the log are known either way.

        One alone is a transaction by itself. Around each, Python lets go of its lock and may have to wait for it.
        """
        with _told(self.file, "cannot be written"):
            try:
                for statement, values in statements if len(statements) == 1 else [BEGIN, *statements, COMMIT]:
                    self._connection.execute(statement, values)
            except BaseException:
                with suppress(sqlite3.Error):
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    self._find_ends()
                raise


class LogReader(EventLog):
    """The log of a site, read-only: nothing in its folder is changed, not even by SQLite.

    folder      of the site
    may_run     also read while the site runs, as of the moment of opening; otherwise that is refused

    While it is open, a site that had stopped cannot be started.
    """

    def __init__(self, folder: str | os.PathLike[str], *, may_run: bool = False) -> None:
        check_path("folder", folder)
        self.folder = Path(folder)
        self.file = self.folder / FILE
        self._guard = RLock()
        self._closing = ExitStack()
        with self._closing:
            if not self.file.is_file():
                raise StateError(f"{self.folder}: not the folder of a site, it has no file {FILE}")
            self.runs = not _hold(self.folder, self._closing)
            if self.runs and not may_run:
                raise StateError(f"{self.folder}: its site is running, and must stop first")
            self._open()
            self._closing = self._closing.pop_all()

    def _open(self) -> None:
        with _told(self.file, "cannot be opened"):
            _check_ours(self.file)
            if not self.runs:
                _check_wal(self.file, durable=True)
            self._connection = self._closing.enter_context(closing(_connected(*self._readable())))
            self._connection.execute("BEGIN")  # one consistent view, also while the site writes
            self.site, self.identity = _checked_identity(self.file, self._connection, None)
            self._find_ends()

    def _readable(self) -> tuple[Path, str]:
        if self.runs:
            return self.file, "ro"
        wal = self.file.with_name(FILE + "-wal")
        if not wal.exists() or not wal.stat().st_size:
            return self.file, "ro&immutable=1"
        # A killed site has left a WAL, and SQLite would write it back into the file.
        copy = Path(self._closing.enter_context(TemporaryDirectory(prefix="cosend-"))) / FILE
        shutil.copyfile(wal, copy.with_name(wal.name))
        shutil.copyfile(self.file, copy)
        return copy, "rw"

    def close(self) -> None:
        with self._guard:
            self._closing.close()

    def reader(self) -> sqlite3.Connection:
        """Refuse: what another connection reads may be of another moment."""
        raise StateError(f"{self.file}: is only looked at")

    def names(self) -> Iterator[tuple[str, int]]:
        """Read the names that clients gave decisions, as far as they are kept, and the numbers of these."""
        with _told(self.file, "cannot be read"):
            rows = self._connection.execute("SELECT name, id FROM names")
            while some := rows.fetchmany(CHUNK):
                yield from some


def _checksum(number: int, event: bytes) -> bytes:
    return zlib.crc32(event, zlib.crc32(number.to_bytes(8))).to_bytes(CHECKSUM)


@contextmanager
def _told(file: Path, what: str) -> Iterator[None]:
    """Turn errors of SQLite and of the system into ours."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:  # damaged text cannot be decoded
        raise StateError(f"{file}: {what} ({error})") from error


def _locked(folder: Path) -> IO[bytes]:
    """Lock a folder for this process, where the system has such locks."""
    with _told(folder, "cannot be used as the folder of a site"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("ab")
    try:
        with suppress(ImportError):
            fcntl = import_module("fcntl")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise StateError(f"{folder}: in use by another process, which must stop first ({error})") from error
    return lock


def _hold(folder: Path, until: ExitStack) -> bool:
    """Keep a site from starting in its folder; returns False if it runs already."""
    try:
        lock = until.enter_context((folder / "lock").open("rb"))
        fcntl = import_module("fcntl")
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, ImportError):  # a copy may have no lock, and some systems have none
        return True
    return True


def _connected(file: Path, mode: str) -> sqlite3.Connection:
    uri = f"{file.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, cached_statements=STATEMENTS)


def _check_ours(file: Path) -> None:
    """Raise unless a file was written by a version that this one can read; the first 72 bytes have it."""
    with file.open("rb") as opened:
        head = opened.read(72)
    if len(head) < 72 or head[:16] != b"SQLite format 3\0" or int.from_bytes(head[68:]) != MARK:
        raise StateError(f"{file}: not an event log of cosend, or damaged")
    version = int.from_bytes(head[60:64])
    if version != VERSION:
        raise StateError(f"{file}: has version {version} of the log; this cosend reads version {VERSION}")


def _check_wal(file: Path, *, durable: bool) -> None:
    """Raise if SQLite would forget transactions that were on the disk, because the WAL is damaged before them.

    Without `durable`, a power cut can look the same, so it is only a warning.
    """
    wal = file.with_name(f"{file.name}-wal")
    if not wal.exists():
        return
    with file.open("rb") as opened:
        page = int.from_bytes(opened.read(18)[16:])
    damage = damage_of(wal, 65_536 if page == 1 else page)
    if damage is None:
        return
    where = f"frame {damage.frame}" if damage.frame else "the header"
    found = f"{wal}: damaged, {where} is not what was written, and {damage.frames} frames behind it would be forgotten"
    if durable:
        go_on = f"`truncate -s {damage.whole} {wal}`" if damage.frame else "removing the file"
        raise StateError(f"{found}; restore the folder from a backup, or continue without them after {go_on}")
    LOG.warning(found)


def _about(site: str, identity: str, oldest: int) -> tuple[str, str, int, bytes]:
    return site, identity, oldest, _checksum(oldest, f"{identity}{site}".encode(errors="surrogatepass"))


def _checked_identity(file: Path, connection: sqlite3.Connection, site: str | None) -> tuple[str, str]:
    """Return whose log it is and its identity; raises if it is damaged or of another site than the given one."""
    ((found,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise StateError(f"{file}: damaged ({found})")
    about = connection.execute("SELECT site, identity, oldest, checksum FROM about").fetchall()
    if len(about) != 1 or about[0] != _about(*about[0][:3]):
        raise StateError(f"{file}: damaged, it does not say whose log it is")
    owner: str
    identity: str
    owner, identity, *_ = about[0]
    if site is not None and owner != site:
        raise StateError(f"{file}: the log of site {owner!r}, not of {site!r}")
    return owner, identity


def _make(file: Path, site: str) -> None:
    """Make an empty log; after a kill there is either a whole one or none."""
    left = sorted(path.name for path in (*file.parent.glob(f"{FILE}-*"), *file.parent.glob("state-*.npz")))
    if left:
        raise StateError(
            f"{file}: no such file, but {left[0]} of a log is in the same folder; a new log needs another folder"
        )
    new = file.with_name("new-" + FILE)
    with _told(file, "cannot be made"):
        for path in file.parent.glob(new.name + "*"):
            path.unlink()  # of a process that was killed before its log was whole
        new.touch()
        with closing(_connected(new, "rw")) as connection:
            connection.executescript(SCHEMA + INDEX)
            connection.execute("INSERT INTO about VALUES (?, ?, ?, ?)", _about(site, uuid4().hex, 0))
            connection.execute("PRAGMA journal_mode = WAL")
        new.rename(file)
        sync_folder(file.parent)
        sync_folder(file.parent.parent)
