"""The decisions of a site joined with their labels, one row for each, or its raw events: for analysis.

A decision is spread over several events: it was chosen, answered, perhaps named, and labelled much later,
or never. They meet in a table that is put aside, on the disk if it grows, so that any number of decisions takes the
same memory. Values that were removed from the log are None.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice, repeat
from typing import IO, Any, Final, Self, TypeVar

import msgspec

from cosend.axes import number_name
from cosend.engine import events
from cosend.engine.arm_health import PHASE_NAMES
from cosend.engine.events import decode
from cosend.errors import StateError
from cosend.runtime.client_requests import id_text
from cosend.runtime.inspection import event_line
from cosend.store.event_log import LogReader

Row = dict[str, Any]
Watch = Callable[[str, int, int], None]  # what is done, how much of it, and of how much
T = TypeVar("T")
Notes = tuple[str, Iterable[tuple[Any, ...]]]  # a statement, and its values
EVERY: Final = 500  # events or rows after which progress is told
OPINIONS: Final = {"Confidence": "confidence of {}", "Says": "what {} says"}  # what these axes are called
OWN: Final = ("label", "label_of_arm", "truth")  # columns with the user's own values, like the contexts
TABLE: Final = """
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY, name TEXT, at REAL, arm TEXT, kind INTEGER, cell INTEGER, context BLOB, propensity REAL,
    cost REAL, label BLOB, shown BLOB, shown_by TEXT, truth BLOB, gain REAL, cost_paid REAL, labelled_at REAL,
    item BLOB, for_a_peer INTEGER
)
"""
HOW_TO_JOIN: Final = (
    "the log has the features of an item only where a model learns from them: where `item` is null, join these rows "
    "with your own by `id`, which is the id that you gave the item, or the one that you were given for it"
)
# An item that was routed and not answered has failed, or was under way when the site was killed: no client has seen it.
TOLD: Final = "(at IS NOT NULL OR truth IS NOT NULL) AND for_a_peer IS NULL"
_ENCODE: Final = msgspec.msgpack.Encoder().encode


def _note(*columns: str) -> str:
    """Return the statement that notes something of a decision, by its number."""
    names, places = ", ".join(columns), ", ".join("?" * (len(columns) + 1))
    news = ", ".join(f"{column} = excluded.{column}" for column in columns)
    return f"INSERT INTO decisions (id, {names}) VALUES ({places}) ON CONFLICT (id) DO UPDATE SET {news}"  # noqa: S608 - our columns


CHOSEN: Final = _note("arm", "kind", "cell", "context", "propensity", "cost", "at", "label", "item")
ANSWERED: Final = _note("at", "label")
ANSWERED_AT_A_COST: Final = _note("at", "label", "cost_paid")
SHOWN: Final = _note("at", "shown", "shown_by")
LABELLED: Final = _note("truth", "gain", "cost_paid", "labelled_at")
NAMED: Final = _note("name")
SERVED: Final = _note("for_a_peer")


def _notes(event: events.Event, at: float) -> Notes | None:
    match event:
        case events.Chosen():
            return CHOSEN, _choices(event, at)
        case events.Answered() if event.paid:
            paid = (cost if cost == cost else None for cost in event.paid)
            return ANSWERED_AT_A_COST, zip(event.ids, repeat(at), map(_ENCODE, event.labels), paid, strict=False)
        case events.Answered() | events.Shown(model=""):
            return ANSWERED, zip(event.ids, repeat(at), map(_ENCODE, event.labels), strict=False)
        case events.Shown():
            return SHOWN, zip(event.ids, repeat(at), map(_ENCODE, event.labels), repeat(event.model), strict=False)
        case events.Labelled():
            costs = event.costs or repeat(None)
            return LABELLED, zip(event.ids, map(_ENCODE, event.truths), event.gains, costs, repeat(at), strict=False)
        case events.Named():
            return NAMED, zip(event.ids, event.names, strict=True)
        case events.Served():
            return SERVED, zip(range(event.first, event.first + len(event.requests)), repeat(1), strict=False)
    return None


def _choices(event: events.Chosen, at: float) -> Iterable[tuple[Any, ...]]:
    """Return a row for each choice; an arm that had an opinion has answered with it."""
    said = [event.opinions[arm][n] if arm in event.opinions else None for n, arm in enumerate(event.arms)]
    return zip(
        range(event.first, event.first + len(event.arms)),
        event.arms,
        event.kinds,
        event.cells,
        map(_ENCODE, event.contexts),
        event.propensities,
        [event.costs.get(arm, 0.0) for arm in event.arms],
        [None if label is None else at for label in said],
        [None if label is None else _ENCODE(label) for label in said],
        [None if item is None else _ENCODE(item) for item in event.items] or repeat(None),
        strict=False,
    )


class Export:
    """Reads what a log has; `remarks` says what is no longer there, `watch` hears how far it is. Close it."""

    def __init__(self, log: LogReader, watch: Watch = lambda what, done, of: None) -> None:
        self.log, self._watch = log, watch
        self.events = log.position - max(0, log.oldest - 1)
        self.axes = _axis_names(log) if log.position else []
        self.remarks: list[str] = []
        self._digest = hashlib.sha256()
        if log.runs:
            self.remarks.append("the site is running: events written after the export started are not included")
        if log.oldest > 1:
            self.remarks.append(f"the events before number {log.oldest:,} were removed, and are not included")
        self._aside = sqlite3.connect("")  # a database of SQLite's own, in no file that has a name
        self._aside.row_factory = sqlite3.Row
        self._aside.execute(TABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.close()

    def gather(self) -> None:
        """Read the whole log; the rows can be read then."""
        for number, at, data in self._watched("reading", self.log.read_dated(), self.events):
            self._digest.update(data)
            try:
                notes = _notes(decode(data), at)
                if notes is not None:
                    self._aside.executemany(*notes)
            except (StateError, TypeError, ValueError, sqlite3.Error) as error:
                raise StateError(f"{self.log.file}: event {number}: {error}") from error
        # The event that told a name may be gone, and the name be kept because the label has not come.
        self._aside.executemany("UPDATE decisions SET name = ? WHERE id = ?", self.log.names())
        ((self.decisions,),) = self._aside.execute(f"SELECT COUNT(*) FROM decisions WHERE {TOLD}")  # noqa: S608 - ours
        ((lacking,),) = self._aside.execute(f"SELECT COUNT(*) FROM decisions WHERE {TOLD} AND item IS NULL")  # noqa: S608 - ours
        if lacking:
            self.remarks.append(HOW_TO_JOIN)
        self._query = f"SELECT * FROM decisions WHERE {TOLD} ORDER BY id"  # noqa: S608 - all of it is ours

    def about(self) -> dict[str, Any]:
        """Return whose events were read, all of them by now: the site, its seed, and the SHA-256 of the events."""
        start = decode(self.log.first()) if self.log.position else None
        known = {"site": start.site, "seeds": [start.seed]} if isinstance(start, events.Started) else {}
        return {**known, "events": self.events, "data": self._digest.hexdigest()}

    def rows(self) -> Iterator[Row]:
        for row in self._watched("writing", self._aside.execute(self._query), self.decisions):
            yield self._row(row)

    def _row(self, kept: sqlite3.Row) -> Row:
        context, shown_by = kept["context"], kept["shown_by"]
        points = repeat(None) if context is None else msgspec.msgpack.decode(context)
        truth = _decoded(kept["truth"])
        is_score = kept["truth"] is not None and truth is None
        return {
            "number": kept["id"],
            "id": kept["name"] or id_text(kept["id"]),
            "at": kept["at"],
            "arm": kept["arm"],
            "phase": None if kept["kind"] is None else PHASE_NAMES[kept["kind"]],
            "cell": kept["cell"],
            "context": dict(zip(self.axes, points, strict=False)),
            "propensity": kept["propensity"],
            "cost": kept["cost"],
            "label": _decoded(kept["label" if shown_by is None else "shown"]),
            "label_of_arm": _decoded(kept["label"]),
            "answered_by": shown_by,
            "labelled": truth is not None,
            "truth": truth,
            "gain": kept["gain"],
            "cost_paid": kept["cost_paid"],
            "labelled_at": kept["labelled_at"],
            "score": kept["gain"] if is_score else None,
            "item": _decoded(kept["item"]),
        }

    def kinds(self) -> dict[str, set[type]]:
        """Return which kinds of values the columns have that are the user's; those of contexts by `in_context`."""
        found: dict[str, set[type]] = {name: set() for name in (*OWN, *map(in_context, self.axes))}
        for values in self._watched("looking", self._aside.execute(self._query), self.decisions):
            row = self._row(values)
            for name in OWN:
                found[name].add(_kind(row[name]))
            for axis, value in row["context"].items():
                found[in_context(axis)].add(_kind(value))
        return found

    def event_lines(self) -> Iterator[bytes]:
        for number, at, data in self._watched("writing", self.log.read_dated(), self.events):
            self._digest.update(data)
            try:
                yield event_line(number, at, decode(data))
            except (StateError, TypeError, ValueError) as error:
                raise StateError(f"{self.log.file}: event {number} cannot be written as JSON: {error}") from error

    def _watched(self, what: str, rows: Iterable[T], total: int) -> Iterator[T]:
        for done, row in enumerate(rows):
            if done % EVERY == 0:
                self._watch(what, done, total)
            yield row
        self._watch(what, total, total)


def _decoded(value: bytes | None) -> Any:
    return None if value is None else msgspec.msgpack.decode(value)


class _Wide(int):
    """Stands for a whole number that a float does not hold exactly."""


def _kind(value: Any) -> type:
    return _Wide if type(value) is int and abs(value) > 2**53 else type(value)


def in_context(axis: str) -> str:
    return f"context.{axis}"


def _axis_names(log: LogReader) -> list[str]:
    """Return a name for every axis: its feature, if that is enough to tell it from the others."""
    start = decode(log.first())
    if not isinstance(start, events.Started):
        raise StateError(f"{log.file}: its first event must be Started, it is {type(start).__name__}")
    names = [_feature(description) for description in (start.axes[:-1] if start.features else start.axes)]
    if start.features and log.oldest <= 1:  # otherwise their order is unknown
        laid = (event for event in (decode(data) for _, data in log.read()) if isinstance(event, events.AxesCreated))
        names += [number_name(*each) for event in laid for each in zip(event.names, event.made_of, strict=True)]
    twice = {name for name, count in Counter(names).items() if count > 1}
    return [f"{name} {n}" if name in twice else name for n, name in enumerate(names)]


def _feature(description: str) -> str:
    found = re.match(r"""(\w+)\((?:feature|model)=(['"])(.*?)\2[,)]""", description)
    return OPINIONS.get(found[1], "{}").format(found[3]) if found else description


GROUP: Final = 10_000  # rows that are written to Parquet at once
NUMBERS: Final = ("at", "propensity", "cost", "gain", "cost_paid", "labelled_at", "score")
COLUMNS: Final = (
    *("number", "id", "at", "arm", "phase", "cell", "context", "propensity", "cost"),
    *("label", "label_of_arm", "answered_by", "labelled", "truth", "gain", "cost_paid", "labelled_at", "score"),
    "item",
)


def write_lines(file: IO[bytes], lines: Iterable[bytes]) -> None:
    for line in lines:
        file.write(line + b"\n")


def row_lines(rows: Iterable[Row]) -> Iterator[bytes]:
    return map(msgspec.json.Encoder().encode, rows)


def write_parquet(file: IO[bytes], source: Export, about: Mapping[str, Any]) -> None:
    """Write all decisions as a Parquet file; items, and labels of more than one kind, are text there, as JSON has them.

    about  what the file says about itself, under the key "cosend" of its metadata
    """
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    types = {name: _arrow_type(arrow, kinds) for name, kinds in source.kinds().items()}
    schema, rows = _schema(arrow, types, source.axes), source.rows()
    schema = schema.with_metadata({"cosend": msgspec.json.encode(about)})
    mixed = [name for name, found in types.items() if found is None]
    with parquet.ParquetWriter(arrow.PythonFile(file, mode="w"), schema) as writer:
        while some := list(islice(rows, GROUP)):
            for row in some:
                row["item"] = _text(row["item"])
                row["context"] = row["context"] if source.axes else None
                _as_text(row, mixed, source.axes)
            writer.write_table(arrow.Table.from_pylist(some, schema))


def _schema(arrow: Any, types: dict[str, Any], axes: Iterable[str]) -> Any:
    text = arrow.string()
    columns = {name: types.get(name) or text for name in COLUMNS}
    columns |= dict.fromkeys(NUMBERS, arrow.float64())
    columns |= {"number": arrow.int64(), "cell": arrow.int64(), "labelled": arrow.bool_()}
    places = [(axis, types[in_context(axis)] or text) for axis in axes]
    columns["context"] = arrow.struct(places) if places else arrow.null()  # Parquet has no table without columns
    return arrow.schema(list(columns.items()))


def _arrow_type(arrow: Any, kinds: set[type]) -> Any:
    """Return the type of a column with values of these kinds; None if no type has all of them."""
    found = kinds - {type(None)}
    for all_of, kind in (({str}, "string"), ({bool}, "bool_"), ({int}, "int64"), ({int, float}, "float64")):
        if found <= all_of:
            return getattr(arrow, kind)()
    return None


def _as_text(row: Row, mixed: Iterable[str], axes: Iterable[str]) -> None:
    for name in mixed:
        if name in row:
            row[name] = _text(row[name])
    for axis in axes:
        if in_context(axis) in mixed:
            row["context"][axis] = _text(row["context"][axis])


def _text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
