"""The decisions of a site joined with their labels, one row for each, or its raw events: for whoever wants to look.

What was told of a decision and its true label are rows of the site's own table. What it gained, what it really cost and
when its label came is in the events. Where these were removed, it is not known any more and None.

Any number of decisions takes the same memory: labels, which come in any order, wait on the disk for their decisions.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from cosend.errors import StateError
from cosend.node.flight import read_answer
from cosend.node.looking import event_line
from cosend.site.events import Labelled, Started
from cosend.site.wire import decode, is_of
from cosend.stores.decisions import Kept
from cosend.stores.event_log import LogReader

Row = dict[str, Any]
Watch = Callable[[str, int, int], None]  # what is done, how much of it, and of how much
T = TypeVar("T")
BATCH: Final = 1_000  # labels that are put aside at once
EVERY: Final = 500  # rows after which progress is told
OWN: Final = ("label", "label_of_arm", "truth")  # columns whose values are the user's, beside contexts


class Settled(NamedTuple):
    """What the events say of a label."""

    id: int
    gain: float
    cost: float | None
    at: float


class Export:
    """Reads what a folder has; `remarks` says afterwards what is no longer there, `watch` hears how far it is."""

    def __init__(self, log: LogReader, watch: Watch = lambda what, done, of: None) -> None:
        self.log, self._watch = log, watch
        ((self.decisions,),) = log.query("SELECT COUNT(*) FROM decisions")
        self.events = log.position - max(0, log.oldest - 1)
        self.axes = _axis_names(log) if log.position else []
        self.remarks: list[str] = []
        if log.runs:
            self.remarks.append("the site is running: this is what it had written when the export began")
        if log.oldest > 1:
            gone = f"the events before number {log.oldest:,} were removed"
            self.remarks.append(f"{gone}: gain, cost_paid and labelled_at of older labels are not known")

    def rows(self) -> Iterator[Row]:
        """Read the decisions in the order of their numbers."""
        with closing(sqlite3.connect("")) as aside:  # a database of SQLite's own, on the disk if it grows
            aside.execute("CREATE TABLE labels (id INTEGER PRIMARY KEY, gain REAL, cost REAL, at REAL)")
            labels = self._labels()
            while batch := list(islice(labels, BATCH)):
                aside.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?)", batch)
            settled = (Settled(*row) for row in aside.execute("SELECT * FROM labels ORDER BY id"))
            yield from self._watched("writing", self._joined(settled), self.decisions)

    def _watched(self, what: str, rows: Iterable[T], total: int) -> Iterator[T]:
        for done, row in enumerate(rows):
            if done % EVERY == 0:
                self._watch(what, done, total)
            yield row
        self._watch(what, total, total)

    def _labels(self) -> Iterator[Settled]:
        for number, at, data in self._watched("reading labels", self.log.read_dated(), self.events):
            if is_of(Labelled, data):
                event = self._decoded(number, data)
                costs = event.costs or (None,) * len(event.ids)
                for ticket, gain, cost in zip(event.ids, event.gains, costs, strict=True):
                    yield Settled(ticket, gain, cost, at)

    def _joined(self, labels: Iterator[Settled]) -> Iterator[Row]:
        forgotten, label = 0, next(labels, None)
        for kept in self.kept():
            while label is not None and label.id < kept.id:
                forgotten, label = forgotten + 1, next(labels, None)
            yield self._row(kept, label if label is not None and label.id == kept.id else None)
            if label is not None and label.id == kept.id:
                label = next(labels, None)
        forgotten += sum(1 for _ in labels) + (label is not None)
        if forgotten:
            self.remarks.append(f"the log has {forgotten:,} labels of decisions that are no longer kept")

    def kept(self) -> Iterator[Kept]:
        """Read the decisions as they are kept."""
        return (Kept(*row) for row in self.log.query("SELECT id, name, at, answer, truth FROM decisions ORDER BY id"))

    def _row(self, kept: Kept, label: Settled | None) -> Row:
        try:
            decided, answer = read_answer(kept)
            truth = None if kept.truth is None else msgspec.msgpack.decode(kept.truth)
            context = dict(zip(self.axes, answer.context, strict=True))
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise StateError(f"{self.log.file}: decision {kept.id} is damaged ({error})") from error
        known = decided.propensity == decided.propensity
        return {
            "number": kept.id,
            "id": decided.id,
            "at": kept.at,
            "arm": decided.arm,
            "phase": decided.phase,
            "cell": decided.cell,
            "context": context,
            "propensity": decided.propensity if known else None,
            "cost": decided.cost,
            "label": decided.label,
            "label_of_arm": answer.label,
            "answered_by": decided.answered_by,
            "labelled": kept.truth is not None,
            "truth": truth,
            "gain": None if label is None else label.gain,
            "cost_paid": None if label is None else label.cost,
            "labelled_at": None if label is None else label.at,
        }

    def event_lines(self) -> Iterator[bytes]:
        """Read the events as lines of JSON."""
        for number, at, data in self._watched("writing", self.log.read_dated(), self.events):
            try:
                yield event_line(number, at, self._decoded(number, data))
            except (msgspec.MsgspecError, TypeError, ValueError) as error:
                raise StateError(f"{self.log.file}: event {number} cannot be written as JSON ({error})") from error

    def _decoded(self, number: int, data: bytes) -> Any:
        try:
            return decode(data)
        except StateError as error:
            raise StateError(f"{self.log.file}: event {number}: {error}") from error

    def kinds(self) -> dict[str, set[type]]:
        """Return which kinds of values the columns have that are the user's; those of contexts by `in_context`."""
        found: dict[str, set[type]] = {name: set() for name in (*OWN, *map(in_context, self.axes))}
        for kept in self._watched("looking", self.kept(), self.decisions):
            row = self._row(kept, None)
            for name in OWN:
                found[name].add(_kind(row[name]))
            for axis, value in row["context"].items():
                found[in_context(axis)].add(_kind(value))
        return found


class _Wide(int):
    """Stands for a whole number that a float does not hold exactly."""


def _kind(value: Any) -> type:
    return _Wide if type(value) is int and abs(value) > 2**53 else type(value)


def in_context(axis: str) -> str:
    """Return the name of an axis among the columns."""
    return f"context.{axis}"


def _axis_names(log: LogReader) -> list[str]:
    """Return a name for every axis: its feature, if that is enough to tell it from the others."""
    start = decode(log.first())
    if not isinstance(start, Started):
        raise StateError(f"{log.file}: its first event must be Started, it is {type(start).__name__}")
    names = [_feature(description) for description in start.axes]
    twice = {name for name, count in Counter(names).items() if count > 1}
    return [f"{name} {n}" if name in twice else name for n, name in enumerate(names)]


def _feature(description: str) -> str:
    found = re.match(r"""\w+\(feature=(['"])(.*?)\1[,)]""", description)
    return found[2] if found else description
