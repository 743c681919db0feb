"""Recorded data as a table: CSV and JSON lines, also with gzip, and Parquet.

A file is read completely or refused: every error says which file, line and column is wrong.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from cosend.checks import as_list, check_path, check_text, check_whole
from cosend.errors import StreamError, install, listed, shown
from cosend.streams.table import PLAIN, Blame, Table, as_column, as_labels, where_known

Row = TypeVar("Row")
Read = tuple[Sequence[int], dict[str, list[Any]]]  # the line of every row, and the values by column
NO_LABELS: Final = ("", "nan", "NaN", "NaT", "<NA>")  # how a missing label is written as text


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str,
    features: Sequence[str] | None = None,
    contexts: Sequence[str] = (),
    site: str | None = None,
    rows: int | None = None,
    start: int = 0,
) -> Table:
    """Read `rows` rows of a file, or all, from row `start` (from 0); columns without another use are features."""
    check_path("path", path)
    check_text("label", label)
    if site is not None:
        check_text("site", site)
    named = None if features is None else _names("features", features)
    columns, window, file = _Columns(label, named, _names("contexts", contexts), site), Window(start, rows), Path(path)
    for suffix, reader in READERS.items():
        if file.name.lower().endswith(suffix):
            return _table(file, columns, *reader(file, columns, window))
    raise StreamError("unsupported file type", f"its name must end in {listed(READERS)}", file=file)


def _names(setting: str, given: Sequence[str]) -> list[str]:
    names = as_list(setting, given, "a list of names")
    for name in names:
        check_text(f"a name in {setting}", name)
    return names


@dataclass(frozen=True, slots=True)
class Window:
    """The rows to read: `rows` of them, or all, from row `start` (from 0)."""

    start: int = 0
    rows: int | None = None

    def __post_init__(self) -> None:
        check_whole("start", self.start, 0)
        if self.rows is not None:
            check_whole("rows", self.rows)

    def of(self, records: Iterable[Row], file: str | os.PathLike[str]) -> Iterator[Row]:
        """Yield the rows of the window and stop right after it."""
        count = 0
        for count, record in enumerate(records, start=1):
            if count > self.start:
                yield record
            if self.rows is not None and count == self.start + self.rows:
                return
        self.check(count, file)

    def check(self, count: int, file: str | os.PathLike[str]) -> None:
        """Raise unless a file with `count` rows holds the whole window."""
        if not count:
            raise StreamError("there are no data rows", "at least one is needed", file=file)
        stop = self.start + (self.rows or 1)
        if count < stop:
            wrong = f"rows {self.start} to {stop - 1}, counted from 0, are not all there"
            raise StreamError(wrong, f"the file has {count} rows", file=file)


@dataclass(slots=True)
class _Columns:
    """The columns to read, and their use; `features` may be None until the file has said which columns there are."""

    label: str
    features: list[str] | None
    contexts: list[str]
    site: str | None

    def names(self) -> list[str]:
        return [*(self.features or ()), *self.contexts, self.label, *([] if self.site is None else [self.site])]

    def choose(self, existing: Sequence[str], file: Path, line: int | None) -> list[str]:
        """Return the columns to read, or raise if the file lacks one; the rest are features unless these are named."""
        known, wanted, there = Counter(existing), Counter(self.names()), f"the columns are {listed(existing)}"
        for name, count in known.items():
            if count > 1:
                raise StreamError("is there twice", "names must differ", file=file, line=line, column=name)
        for name, count in wanted.items():
            if name not in known:
                raise StreamError(f"no such {self._use(name)} column", there, file=file, line=line, column=name)
            if count > 1:
                raise StreamError("is wanted twice", "a column has one use", file=file, line=line, column=name)
        if self.features is None:
            self.features = [name for name in existing if name not in wanted]
        if not self.features:
            raise StreamError("there are no feature columns", there, file=file, line=line)
        return self.names()

    def _use(self, name: str) -> str:
        if name == self.label:
            return "label"
        return "site" if name == self.site else "context" if name in self.contexts else "feature"


def _table(file: Path, columns: _Columns, lines: Sequence[int], values: dict[str, list[Any]]) -> Table:
    def blame(name: str) -> Blame:
        return lambda number, wrong, allowed: StreamError(wrong, allowed, file=file, line=lines[number], column=name)

    site, label = columns.site, columns.label
    if site is not None:
        _check_sites(values[site], blame(site))
    known = where_known(values[label], label, file)
    return Table(
        {name: as_column(values[name], blame(name)) for name in columns.features or ()},
        as_labels(values[label], known, blame(label)),
        {name: as_column(values[name], blame(name)) for name in columns.contexts},
        None if site is None else np.array([str(name) for name in values[site]], np.str_),
        known=known,
    )


def _check_sites(values: Sequence[Any], blame: Blame) -> None:
    for number, value in enumerate(values):
        if not isinstance(value, PLAIN) or (isinstance(value, str) and not value.strip()):
            raise blame(number, f"{shown(value)} is not a value", "every row needs one here, a number or text")
        if isinstance(value, str) and "\0" in value:
            raise blame(number, f"{shown(value)} has a NUL character", "text must be without one")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, unpacked if its name ends in .gz, without a BOM."""
    number = 0
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    text = raw.decode()
                except UnicodeDecodeError as error:
                    wrong = f"byte {raw[error.start]:#04x} is not UTF-8"
                    raise StreamError(wrong, "save the file as UTF-8", file=path, line=number) from None
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except FileNotFoundError:
        raise StreamError("no such file", file=path) from None
    except EOFError as error:
        raise StreamError("the gzip file is cut off here", "fetch it again", file=path, line=number + 1) from error
    except (OSError, zlib.error) as error:
        raise StreamError(f"cannot be read ({error})", file=path, line=number + 1) from error


def _read_csv(path: Path, columns: _Columns, window: Window) -> Read:
    records = _csv_records(path)
    line, header = next(records, (0, []))
    if not header:
        raise StreamError("the file is empty", "a line with the names of the columns is needed", file=path)
    chosen = columns.choose(header, path, line)
    lines, values = list[int](), {name: list[Any]() for name in chosen}
    place_of = {name: place for place, name in enumerate(header)}
    places = [(values[name], place_of[name]) for name in chosen]
    for line, fields in window.of(records, path):
        if len(fields) != len(header):
            raise StreamError(
                f"the row has {len(fields)} fields", f"the header has {len(header)}", file=path, line=line
            )
        lines.append(line)
        for column, place in places:
            column.append(fields[place])
    labels = values[columns.label]
    labels[:] = [None if text.strip() in NO_LABELS else text for text in labels]
    return lines, values


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield every record with the line on which it starts: it may span several. Empty lines are skipped."""
    reader, start = csv.reader((text for _, text in numbered_lines(path)), strict=True), 1
    try:
        for fields in reader:
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise StreamError(f"not valid CSV ({error})", file=path, line=start) from None


def _read_json_lines(path: Path, columns: _Columns, window: Window) -> Read:
    records = ((line, text) for line, text in numbered_lines(path) if text.strip())
    first = next(records, None)
    if first is None:
        raise StreamError("the file is empty", "one JSON object on every line is needed", file=path)
    lines, values = list[int](), {n: list[Any]() for n in columns.choose([*_json_object(path, *first)], path, first[0])}
    for line, text in window.of(chain([first], records), path):
        record = _json_object(path, line, text)
        lines.append(line)
        for name, column in values.items():
            if name not in record:
                allowed = f"every line needs it, this one has {listed(record)}"
                raise StreamError("missing key", allowed, file=path, line=line, column=name)
            column.append(record[name])
    return lines, values


def _json_object(path: Path, line: int, text: str) -> dict[str, Any]:
    allowed = "every line must be one JSON object"
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StreamError(f"not valid JSON ({error})", allowed, file=path, line=line) from None
    if not isinstance(record, dict):
        raise StreamError(f"{text.strip()[:40]} is not an object", allowed, file=path, line=line)
    return record


def _read_parquet(path: Path, columns: _Columns, window: Window) -> Read:
    """Read the row groups that the window touches. Parquet has no lines: `line` is the row, counted from 1."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        wrong = "Parquet files need pyarrow, which is not installed"
        raise StreamError(wrong, f"install it with: {install('files')}", file=path) from error
    try:
        with parquet.ParquetFile(path) as file:
            chosen = columns.choose(file.schema_arrow.names, path, None)
            window.check(file.metadata.num_rows, path)
            stop = file.metadata.num_rows if window.rows is None else window.start + window.rows
            ends = np.cumsum([file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)])
            starts = [0, *ends[:-1].tolist()]
            groups = [n for n, end in enumerate(ends) if end > window.start and starts[n] < stop]
            table = file.read_row_groups(groups, columns=chosen)
            table = table.slice(window.start - starts[groups[0]], stop - window.start)
    except FileNotFoundError:
        raise StreamError("no such file", file=path) from None
    except StreamError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise StreamError(f"not a complete Parquet file ({error})", file=path) from error
    return range(window.start + 1, stop + 1), {name: table.column(name).to_pylist() for name in chosen}


READERS: Final[dict[str, Callable[[Path, _Columns, Window], Read]]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".jsonl": _read_json_lines,
    ".jsonl.gz": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".ndjson.gz": _read_json_lines,
    ".parquet": _read_parquet,
}
