"""Finds events by something other than their number; kept in the same file and the same transactions.

    names     the ids that clients gave decisions, so that the same id gets the same answer again
    labels    the decisions that have a label, and in which event, so that a repeated label is noticed
    settings  what the site's file said at its last start

Events about decisions carry the smallest and the largest of their ids, so those of one decision are found without
reading the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

# Events are indexed by how many ids they span. Among those of similar width only few can contain a given id; among all
# of them, every event that begins before the id might.
WIDTHS: Final = (1, 16, 256, 4_096)
WIDTH: Final = (
    f"CASE {' '.join(f'WHEN last - first < {w} THEN {n}' for n, w in enumerate(WIDTHS))} ELSE {len(WIDTHS)} END"
)
BY_WIDTH: Final = f"CREATE INDEX IF NOT EXISTS by_width ON events ({WIDTH}, first, last) WHERE first IS NOT NULL;"
SCHEMA: Final = f"""
{BY_WIDTH}
CREATE TABLE names (name TEXT PRIMARY KEY, id INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX named ON names (id);
CREATE TABLE labels (id INTEGER PRIMARY KEY, event INTEGER NOT NULL);
CREATE TABLE settings (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""
Statement: TypeAlias = tuple[str, Sequence[Any]]  # and its values
TOGETHER: Final = (256, 32)  # rows of one statement; what is left is one more
CHECKSUM: Final = 4  # bytes behind every event
AT_ONCE: Final = 32  # events read at once when many are looked up
EVENT: Final = "SELECT number, at, event FROM events"


class Change(NamedTuple):
    """A statement for many rows at once: the text before them, one row, and the text after them.

    One statement per row would be simpler, but Python releases its lock around each statement and has to wait for it
    while other threads are busy.
    """

    before: str
    row: str
    after: str = ""

    def statements(self, rows: Sequence[Sequence[Any]]) -> list[Statement]:
        made, start = [], 0
        for size in TOGETHER:
            while start + size <= len(rows):
                made.append(self._statement(rows[start : start + size]))
                start += size
        return [*made, self._statement(rows[start:])] if start < len(rows) else made

    def _statement(self, rows: Sequence[Sequence[Any]]) -> Statement:
        return f"{self.before}{','.join([self.row] * len(rows))}{self.after}", [*chain.from_iterable(rows)]


NAME: Final = Change("INSERT OR REPLACE INTO names VALUES ", "(?,?)")
LABEL: Final = Change("INSERT OR REPLACE INTO labels VALUES ", "(?,?)")
SET: Final = Change("INSERT OR REPLACE INTO settings VALUES ", "(?,?)")
FORGET_NAMES: Final = Change("DELETE FROM names WHERE id IN (VALUES ", "(?)", ")")
FORGET_LABELS: Final = Change("DELETE FROM labels WHERE id IN (SELECT id FROM labels WHERE id < ", "?", " LIMIT 5000)")


class Row(NamedTuple):
    """An event as it is in the log."""

    number: int
    at: float  # seconds since 1970
    event: bytes


class LogIndex:
    """Reads what has been committed; one thread uses it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def close(self) -> None:
        self._connection.close()

    def named(self, names: Collection[str]) -> dict[str, int]:
        """Return the numbers of decisions by the ids that clients gave them."""
        return dict(self._among("SELECT name, id FROM names WHERE name IN", names))

    def names_of(self, ids: Collection[int]) -> dict[int, str]:
        return dict(self._among("SELECT id, name FROM names WHERE id IN", ids))

    def labelled(self, ids: Collection[int]) -> dict[int, int]:
        """Return, by decision, the event that has its label."""
        return dict(self._among("SELECT id, event FROM labels WHERE id IN", ids))

    def _among(self, query: str, values: Collection[Any]) -> sqlite3.Cursor:
        """Return the rows with one of these values; text from outside is never part of a statement."""
        return self._connection.execute(f"{query} ({','.join('?' * len(values))})", [*values])

    def has_names(self) -> bool:
        return self._connection.execute("SELECT 1 FROM names LIMIT 1").fetchone() is not None

    def events_of(self, lowest: int, highest: int, widest: int) -> list[int]:
        """Return the numbers of events that may contain decisions between two; no event spans more than `widest`."""
        one = f"SELECT number FROM events WHERE first IS NOT NULL AND {WIDTH} = ?"  # noqa: S608 - ours
        query = " UNION ALL ".join([f"{one} AND first BETWEEN ? AND ? AND last >= ?"] * (len(WIDTHS) + 1))
        values = [(n, lowest - width, highest, lowest) for n, width in enumerate((*WIDTHS, widest))]
        rows = self._connection.execute(f"{query} ORDER BY number", [*chain.from_iterable(values)])
        return [number for (number,) in rows]

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """Read events by their numbers, a few at a time, in the order of the log; removed ones are skipped."""
        for start in range(0, len(numbers), AT_ONCE):
            some = numbers[start : start + AT_ONCE]
            yield from self._rows(f"{EVENT} WHERE number IN ({','.join('?' * len(some))}) ORDER BY number", some)

    def events(self, start: int, count: int) -> list[Row]:
        return self._rows(f"{EVENT} WHERE number >= ? ORDER BY number LIMIT ?", (start, count))

    def _rows(self, query: str, values: Sequence[int]) -> list[Row]:
        rows = self._connection.execute(query, values)
        return [Row(number, at, event[:-CHECKSUM]) for number, at, event in rows]

    def oldest_decision(self) -> int | None:
        """Return the smallest number of a decision that still has events."""
        query = f"SELECT MIN(first) FROM events WHERE first IS NOT NULL AND {WIDTH} = ?"  # noqa: S608 - ours
        found = [self._connection.execute(query, (n,)).fetchone()[0] for n in range(len(WIDTHS) + 1)]
        return min((number for number in found if number is not None), default=None)

    def names_before(self, decision: int) -> npt.NDArray[np.int64]:
        rows = self._connection.execute("SELECT id FROM names WHERE id < ? ORDER BY id", (decision,))
        return np.fromiter((number for (number,) in rows), np.int64)

    def has_labels_before(self, decision: int) -> bool:
        return self._connection.execute("SELECT 1 FROM labels WHERE id < ? LIMIT 1", (decision,)).fetchone() is not None

    def first_kept(self, since: float, now: float) -> int:
        """Return the number of the first event that is kept, if those written before a time are not.

        A clock can be wrong for some time, so a date alone proves little: an event dated in the future is as old as
        what was written after it, and nothing that follows a recent event is removed.
        """
        query = "SELECT number FROM events WHERE number > 0 AND at BETWEEN ? AND ? ORDER BY number LIMIT 1"
        recent = self._connection.execute(query, (since, now)).fetchone() or (2**62,)
        query = "SELECT number + 1 FROM events WHERE number < ? AND at < ? ORDER BY number DESC LIMIT 1"
        kept = self._connection.execute(query, (*recent, since)).fetchone() or (0,)
        return int(kept[0])

    def setting(self, key: str) -> bytes | None:
        row = self._connection.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]
