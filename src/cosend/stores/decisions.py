"""The decisions that a site has told someone, beside its events and in the same transactions.

A row says what was answered, by the site's number and by the name that a client gave it, and the true label when it has
come. So the same name gets the same answer again, and a label that comes twice or too late is told from one that is
new, also after a restart and when the events themselves have been removed.

Answers and labels are bytes here: what they mean is known further up.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Final, NamedTuple

SCHEMA: Final = """
CREATE TABLE decisions (id INTEGER PRIMARY KEY, name TEXT, at REAL NOT NULL, answer BLOB NOT NULL, truth BLOB);
CREATE UNIQUE INDEX names ON decisions (name) WHERE name IS NOT NULL;
CREATE TABLE settings (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""
ADD: Final = "INSERT INTO decisions (id, name, at, answer) VALUES (?, ?, ?, ?)"
LABEL: Final = "UPDATE decisions SET truth = ? WHERE id = ?"
SET: Final = "INSERT OR REPLACE INTO settings VALUES (?, ?)"
FORGET: Final = "DELETE FROM decisions WHERE id = ?"


class Kept(NamedTuple):
    """A decision as it is kept."""

    id: int
    name: str | None
    at: float  # seconds since 1970
    answer: bytes
    truth: bytes | None


class Decisions:
    """Reads what has been committed; one thread uses it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def named(self, names: Collection[str]) -> dict[str, tuple[int, bool]]:
        """Return by name the numbers of decisions that have one of these names, and whether their label has come."""
        query = (
            "SELECT name, id, truth IS NOT NULL FROM decisions"
            " WHERE name IS NOT NULL AND name IN (SELECT value FROM json_each(?))"
        )
        rows = self._connection.execute(query, (json.dumps([name for name in names if "\0" not in name]),)).fetchall()
        for name in names:
            if "\0" in name:  # where SQLite's JSON would end it
                rows += self._connection.execute(
                    "SELECT name, id, truth IS NOT NULL FROM decisions WHERE name = ?", (name,)
                )
        return {name: (number, bool(labelled)) for name, number, labelled in rows}

    def unnamed(self, ids: Collection[int]) -> dict[int, bool]:
        """Return those of the numbers whose decision has no name, and whether their label has come."""
        query = (
            "SELECT id, truth IS NOT NULL FROM decisions WHERE name IS NULL AND id IN (SELECT value FROM json_each(?))"
        )
        return {
            number: bool(labelled) for number, labelled in self._connection.execute(query, (json.dumps(list(ids)),))
        }

    def kept(self, ids: Collection[int]) -> set[int]:
        """Return those of the numbers of which there is a decision."""
        query = "SELECT id FROM decisions WHERE id IN (SELECT value FROM json_each(?))"
        return {number for (number,) in self._connection.execute(query, (json.dumps(list(ids)),))}

    def get(self, ids: Collection[int]) -> dict[int, Kept]:
        """Return what is kept of decisions, by number."""
        query = "SELECT * FROM decisions WHERE id IN (SELECT value FROM json_each(?))"
        return {row[0]: Kept(*row) for row in self._connection.execute(query, (json.dumps(list(ids)),))}

    def newest(self, count: int, before: int) -> list[Kept]:
        """Return so many decisions before a number, the newest first."""
        query = "SELECT * FROM decisions WHERE id < ? ORDER BY id DESC LIMIT ?"
        return [Kept(*row) for row in self._connection.execute(query, (before, count))]

    def has_numbers_as_names(self) -> bool:
        """Tell whether a client has ever named a decision by a number."""
        query = "SELECT 1 FROM decisions WHERE name IS NOT NULL AND name NOT GLOB '*[^0-9]*' LIMIT 1"
        return self._connection.execute(query).fetchone() is not None

    def first_since(self, at: float) -> int:
        """Return the number from which on decisions are not older than this; they lie in the order of their numbers."""
        return first_since(self._connection, "decisions", "id", at)

    def oldest(self) -> int | None:
        """Return the smallest number of a decision that is kept."""
        number: int | None = self._connection.execute("SELECT MIN(id) FROM decisions").fetchone()[0]
        return number

    def setting(self, key: str) -> bytes | None:
        """Return what was set under a key."""
        row = self._connection.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]


def first_since(connection: sqlite3.Connection, table: str, key: str, at: float) -> int:
    """Return the smallest key whose row is not older than a time, in a table whose rows grow older backwards."""
    low, high = connection.execute(f"SELECT MIN({key}), MAX({key}) FROM {table}").fetchone()  # noqa: S608 - ours
    if low is None:
        return 0
    high += 1
    query = f"SELECT {key}, at FROM {table} WHERE {key} >= ? ORDER BY {key} LIMIT 1"  # noqa: S608 - ours
    while low < high:
        middle = (low + high) // 2
        found, when = connection.execute(query, (middle,)).fetchone()
        if when < at:
            low = found + 1
        else:
            high = middle
    return int(low)
