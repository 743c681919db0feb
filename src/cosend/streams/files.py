"""Files of the user's own as a table: CSV and JSON lines, also packed with gzip, and Parquet.

A file is read whole or refused: every error says in which file, line and column the trouble is.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from cosend.core.checks import as_list, check_path, check_text, check_whole
from cosend.errors import StreamError, install, listed, shown
from cosend.streams.table import PLAIN, Blame, Column, Table, as_column, as_labels, where_known

Row = TypeVar("Row")
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
    """Read so many rows of a file from row `start` (from 0) on; all columns without another use are features."""
    check_path("path", path)
    check_text("label", label)
    if site is not None:
        check_text("site", site)
    named = None if features is None else _names("features", features)
    wanted = Columns(label, named, _names("contexts", contexts), site)
    file = Path(path)
    return _table(file, _reader(file)(file, wanted, Window(start, rows)))


def _names(setting: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return names of columns, or raise."""
    names = as_list(setting, given, "a list of names")
    for name in names:
        check_text(f"a name in {setting}", name)
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Window:
    """The rows to read: `rows` of them, or all there are, from row `start` (from 0) on."""

    start: int = 0
    rows: int | None = None

    def __post_init__(self) -> None:
        check_whole("start", self.start, 0)
        if self.rows is not None:
            check_whole("rows", self.rows)

    def of(self, records: Iterable[Row], file: str | os.PathLike[str]) -> Iterator[Row]:
        """Yield the rows of the window and stop right behind it."""
        count = 0
        for count, record in enumerate(records, start=1):
            if count > self.start:
                yield record
            if self.rows is not None and count == self.start + self.rows:
                return
        self.check(count, file)

    def check(self, count: int, file: str | os.PathLike[str]) -> None:
        """Raise unless a file of so many rows holds the whole window."""
        if not count:
            raise StreamError("there are no data rows", "at least one is needed", file=file)
        stop = self.start + (self.rows or 1)
        if count < stop:
            wrong = f"rows {self.start} to {stop - 1}, counted from 0, are not all there"
            raise StreamError(wrong, f"the file has {count} rows", file=file)


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns are wanted, and what for; `features` is None until the file has said what there is."""

    label: str
    features: tuple[str, ...] | None
    contexts: tuple[str, ...]
    site: str | None

    def names(self) -> list[str]:
        """Return every wanted column."""
        return [*(self.features or ()), *self.contexts, self.label, *([] if self.site is None else [self.site])]

    def among(self, existing: Sequence[str], file: Path, line: int | None) -> Columns:
        """Check that the file has what is wanted, and give what is left over to the features if they are not named."""
        known = Counter(existing)
        wanted = Counter(self.names())
        for name, count in known.items():
            if count > 1:
                raise StreamError("is there twice", "names must differ", file=file, line=line, column=name)
        for name, count in wanted.items():
            if name not in known:
                allowed = f"the columns are {listed(existing)}"
                raise StreamError(f"no such {self._use(name)} column", allowed, file=file, line=line, column=name)
            if count > 1:
                raise StreamError("is wanted twice", "a column has one use", file=file, line=line, column=name)
        features = self.features
        if features is None:
            features = tuple(name for name in existing if name not in wanted)
        if not features:
            allowed = f"the columns are {listed(existing)}"
            raise StreamError("there are no feature columns", allowed, file=file, line=line)
        return replace(self, features=features)

    def _use(self, name: str) -> str:
        if name == self.label:
            return "label"
        return "site" if name == self.site else "context" if name in self.contexts else "feature"


class Raw(NamedTuple):
    """What was read, before it is known which columns are numbers; `lines` says where each row stood."""

    columns: Columns
    lines: Sequence[int]
    values: dict[str, list[Any]]


def _table(file: Path, raw: Raw) -> Table:
    """Turn the columns into arrays."""

    def blame(name: str) -> Blame:
        return lambda number, wrong, allowed: StreamError(
            wrong, allowed, file=file, line=raw.lines[number], column=name
        )

    def column(name: str) -> Column:
        return as_column(raw.values[name], blame(name))

    wanted = raw.columns
    if wanted.site is not None:
        _check_no_gap(raw.values[wanted.site], blame(wanted.site))
    labels = raw.values[wanted.label]
    known = where_known(labels, wanted.label, file)
    return Table(
        {name: column(name) for name in wanted.features or ()},
        as_labels(labels, known, blame(wanted.label)),
        {name: column(name) for name in wanted.contexts},
        None if wanted.site is None else np.array([str(name) for name in raw.values[wanted.site]], np.str_),
        known=known,
    )


def _check_no_gap(values: Sequence[Any], blame: Blame) -> None:
    """Raise for a row without a site: what is text may be empty elsewhere, not here."""
    for number, value in enumerate(values):
        if not isinstance(value, PLAIN) or (isinstance(value, str) and not value.strip()):
            raise blame(number, f"{shown(value)} is not a value", "every row needs one here, a number or text")
        if isinstance(value, str) and "\0" in value:
            raise blame(number, f"{shown(value)} has a NUL character", "text must be without one")


class Lines:
    """The lines of a file, as bytes, that know how many were read: an error can then say where."""

    def __init__(self, file: Iterable[bytes]) -> None:
        self._file = file
        self.number = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self.number += 1
            yield line


@contextmanager
def opened(path: Path) -> Iterator[Lines]:
    """Open a file, unpacked if its name ends in .gz, and turn whatever goes wrong while it is read into our error."""
    lines = Lines(())
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            lines = Lines(file)
            yield lines
    except FileNotFoundError:
        raise StreamError("no such file", file=path) from None
    except EOFError as error:
        wrong = "the gzip file is cut off here"
        raise StreamError(wrong, "fetch it again", file=path, line=lines.number + 1) from error
    except (OSError, zlib.error) as error:
        raise StreamError(f"cannot be read ({error})", file=path, line=lines.number + 1) from error


def texts(path: Path, lines: Lines) -> Iterator[str]:
    """Yield the lines as text. A mark at the start of the file, as some spreadsheets write it, is no part of it."""
    for raw in lines:
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            wrong = f"byte {raw[error.start]:#04x} is not UTF-8"
            raise StreamError(wrong, "save the file as UTF-8", file=path, line=lines.number) from None
        yield text.removeprefix("\ufeff") if lines.number == 1 else text


def _read_csv(path: Path, wanted: Columns, window: Window) -> Raw:
    with opened(path) as lines:
        records = _csv_records(path, lines)
        line, header = next(records, (0, []))
        if not header:
            raise StreamError("the file is empty", "a line with the names of the columns is needed", file=path)
        columns = wanted.among(header, path, line)
        place_of = {name: place for place, name in enumerate(header)}
        places = [(name, place_of[name]) for name in columns.names()]
        raw = Raw(columns, numbers := [], {name: [] for name, _ in places})
        for line, fields in window.of(records, path):
            if len(fields) != len(header):
                wrong = f"the row has {len(fields)} fields"
                raise StreamError(wrong, f"the header has {len(header)}", file=path, line=line)
            numbers.append(line)
            for name, place in places:
                raw.values[name].append(fields[place])
        labels = raw.values[columns.label]
        labels[:] = [None if text.strip() in NO_LABELS else text for text in labels]
    return raw


def _csv_records(path: Path, lines: Lines) -> Iterator[tuple[int, list[str]]]:
    """Yield every record with the line it starts on: one may go over several. Empty lines are none."""
    reader = csv.reader(texts(path, lines), strict=True)
    start = 1
    try:
        for fields in reader:
            if fields:
                yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise StreamError(f"not valid CSV ({error})", file=path, line=start) from None


def _read_json_lines(path: Path, wanted: Columns, window: Window) -> Raw:
    with opened(path) as lines:
        records = ((lines.number, text) for text in texts(path, lines) if text.strip())
        first = next(records, None)
        if first is None:
            raise StreamError("the file is empty", "one JSON object on every line is needed", file=path)
        columns = wanted.among(list(_json_object(path, *first)), path, first[0])
        raw = Raw(columns, numbers := [], {name: [] for name in columns.names()})
        for line, text in window.of(chain([first], records), path):
            record = _json_object(path, line, text)
            numbers.append(line)
            for name, values in raw.values.items():
                if name not in record:
                    allowed = f"every line needs it, this one has {listed(record)}"
                    raise StreamError("missing key", allowed, file=path, line=line, column=name)
                values.append(record[name])
    return raw


def _json_object(path: Path, line: int, text: str) -> dict[str, Any]:
    allowed = "every line must be one JSON object"
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StreamError(f"not valid JSON ({error})", allowed, file=path, line=line) from None
    if not isinstance(record, dict):
        raise StreamError(f"{text.strip()[:40]} is not an object", allowed, file=path, line=line)
    return record


def _read_parquet(path: Path, wanted: Columns, window: Window) -> Raw:
    """Read the row groups that the window touches. Parquet has no lines: `line` is the row, counted from 1."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        wrong = "Parquet files need pyarrow, which is not installed"
        raise StreamError(wrong, f"install it with: {install('files')}", file=path) from error
    try:
        with parquet.ParquetFile(path) as file:
            return _parquet_rows(path, file, wanted, window)
    except FileNotFoundError:
        raise StreamError("no such file", file=path) from None
    except StreamError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise StreamError(f"not a complete Parquet file ({error})", file=path) from error


def _parquet_rows(path: Path, file: Any, wanted: Columns, window: Window) -> Raw:
    columns = wanted.among(file.schema_arrow.names, path, None)
    total = file.metadata.num_rows
    window.check(total, path)
    stop = total if window.rows is None else window.start + window.rows
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    ends = np.cumsum(sizes)
    groups = [n for n, end in enumerate(ends) if end > window.start and end - sizes[n] < stop]
    before = int(ends[groups[0]] - sizes[groups[0]])
    table = file.read_row_groups(groups, columns=columns.names()).slice(window.start - before, stop - window.start)
    values = {name: table.column(name).to_pylist() for name in columns.names()}
    return Raw(columns, range(window.start + 1, stop + 1), values)


READERS: Final[dict[str, Callable[[Path, Columns, Window], Raw]]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".jsonl": _read_json_lines,
    ".jsonl.gz": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".ndjson.gz": _read_json_lines,
    ".parquet": _read_parquet,
}


def _reader(path: Path) -> Callable[[Path, Columns, Window], Raw]:
    """Return what reads a file of this name."""
    for suffix, reader in READERS.items():
        if path.name.lower().endswith(suffix):
            return reader
    raise StreamError("unsupported file type", f"its name must end in {listed(READERS)}", file=path)
