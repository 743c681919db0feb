"""Rows of an export as files: lines of JSON, or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import IO, Any, Final

import msgspec

from cosend.runtime.decision_export import Export, Row, in_context

GROUP: Final = 10_000  # rows that are written to Parquet at once
NUMBERS: Final = ("at", "propensity", "cost", "gain", "cost_paid", "labelled_at")
COLUMNS: Final = (
    *("number", "id", "at", "arm", "phase", "cell", "context", "propensity", "cost"),
    *("label", "label_of_arm", "answered_by", "labelled", "truth", "gain", "cost_paid", "labelled_at"),
    "item",
)


def write_lines(file: IO[bytes], lines: Iterable[bytes]) -> None:
    """Write lines."""
    for line in lines:
        file.write(line + b"\n")


def row_lines(rows: Iterable[Row]) -> Iterator[bytes]:
    """Return rows as lines of JSON."""
    return map(msgspec.json.Encoder().encode, rows)


def write_parquet(file: IO[bytes], source: Export, about: Mapping[str, Any]) -> None:
    """Write all decisions as a Parquet file; items, and labels of more than one kind, are text there, as JSON has them.

    about  what the file says of itself, under the key "cosend" of its metadata
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
