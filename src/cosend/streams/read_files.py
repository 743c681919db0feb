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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from cosend.checks import check_path
from cosend.errors import StreamError, install, listed, shown
from cosend.streams.table import Blame, Column, Mask, Table, as_column, as_labels

Choose = Callable[[Sequence[str]], list[str]]  # the columns of a file that are read
Read = tuple[Sequence[int], dict[str, list[Any]]]  # the line of every row, and the values by column


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None,
    features: Sequence[str] | None = None,
    contexts: Sequence[str] = (),
    site: str | None = None,
    rows: int | None = None,
) -> Table:
    """Read the first rows of a file, or all; columns without another use are features.

    label  the column with the true labels; None if there is none, then all labels are 0
    """
    check_path("path", path)
    file, others = Path(path), [*contexts, *(name for name in (label, site) if name is not None)]
    kind = file.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in READERS or file.name.lower().endswith(".parquet.gz"):
        allowed = "its name must end in .csv, .jsonl or .ndjson, also with .gz, or in .parquet"
        raise StreamError("unsupported file type", allowed, file=file)
    if not file.is_file():
        raise StreamError("no such file", file=file)

    def choose(existing: Sequence[str]) -> list[str]:
        seen = [name for name in existing if name not in others] if features is None else features
        if not seen:
            raise StreamError("there are no feature columns", f"the columns are {listed(existing)}", file=file)
        uses = [*((name, "feature") for name in seen), *((name, "context") for name in contexts)]
        uses += [(name, use) for name, use in ((label, "label"), (site, "site")) if name is not None]
        return _checked(existing, uses, file)

    def blame(name: str) -> Blame:
        return lambda number, wrong, allowed: StreamError(wrong, allowed, file=file, line=lines[number], column=name)

    lines, values = READERS[kind](file, choose, rows)
    if len(lines) < (rows or 1):
        wrong = f"{rows:,} rows are wanted" if rows and lines else "there are no data rows"
        raise StreamError(wrong, f"the file has {len(lines):,}", file=file)
    labels, known = _no_labels(len(lines)) if label is None else as_labels(values[label], blame(label))
    return Table(
        {name: as_column(column, blame(name)) for name, column in values.items() if name not in others},
        labels,
        {name: as_column(values[name], blame(name)) for name in contexts},
        None if site is None else _sites(values[site], blame(site)),
        known=known,
    )


def _no_labels(count: int) -> tuple[Column, Mask]:
    return np.zeros(count, np.int64), np.ones(count, np.bool_)


def _checked(existing: Sequence[str], uses: list[tuple[str, str]], file: Path) -> list[str]:
    """Return the columns that are used, or raise unless a file has each of them once, and each has one use."""
    there, known, wanted = f"the columns are {listed(existing)}", Counter(existing), Counter(name for name, _ in uses)
    for name, use in uses:
        if name not in known:
            raise StreamError(f"no such {use} column", there, file=file, column=name)
        if known[name] > 1:
            raise StreamError("is there twice", "names must differ", file=file, column=name)
        if wanted[name] > 1:
            raise StreamError("is wanted twice", "a column has one use", file=file, column=name)
    return list(wanted)


def _sites(values: Sequence[Any], blame: Blame) -> Column:
    for number, value in enumerate(values):
        if not isinstance(value, str | int | float) or not str(value).strip() or "\0" in str(value):
            allowed = "every row needs one here, a number or text without a NUL character"
            raise blame(number, f"{shown(value)} is not a value", allowed)
    return np.array([str(value) for value in values], np.str_)


@contextmanager
def _text_of(path: Path) -> Iterator[IO[str]]:
    """Open a text file, unpacked if its name ends in .gz; errors name it."""
    try:
        opened = gzip.open if path.name.lower().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        wrong = f"byte {error.object[error.start]:#04x} is not UTF-8"
        raise StreamError(wrong, "save the file as UTF-8", file=path) from None
    except EOFError as error:
        raise StreamError("the gzip file is cut off", "download it once more", file=path) from error
    except (OSError, zlib.error) as error:
        raise StreamError(f"cannot be read ({error})", file=path) from error


def _read_csv(path: Path, choose: Choose, most: int | None) -> Read:
    with _text_of(path) as file:
        reader = csv.reader(file, strict=True)
        records = ((reader.line_num, fields) for fields in reader if fields)  # empty lines are skipped
        try:
            _, header = next(records, (0, []))
            chosen, lines = choose(header), list[int]()
            values: dict[str, list[Any]] = {name: [] for name in chosen}
            place_of = {name: place for place, name in enumerate(header)}
            places = [(values[name], place_of[name]) for name in chosen]
            for line, fields in islice(records, most):
                if len(fields) != len(header):
                    wrong = f"the row has {len(fields)} fields"
                    raise StreamError(wrong, f"the header has {len(header)}", file=path, line=line)
                lines.append(line)
                for column, place in places:
                    column.append(fields[place])
        except csv.Error as error:
            raise StreamError(f"not valid CSV ({error})", file=path, line=reader.line_num) from None
    return lines, values


def _read_json_lines(path: Path, choose: Choose, most: int | None) -> Read:
    with _text_of(path) as file:
        records = ((line, _json_object(path, line, text)) for line, text in enumerate(file, start=1) if text.strip())
        first = next(records, (1, {}))
        lines, values = list[int](), {name: list[Any]() for name in choose(list(first[1]))}
        for line, record in islice(chain([first], records), most):
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


def _read_parquet(path: Path, choose: Choose, most: int | None) -> Read:
    """Read the columns that are needed. Parquet has no lines: `line` is the row, counted from 1."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        wrong = "Parquet files need pyarrow, which is not installed"
        raise StreamError(wrong, f"install it with: {install('files')}", file=path) from error
    try:
        chosen = choose(parquet.read_schema(path).names)
        table = parquet.read_table(path, columns=chosen).slice(0, most)
        columns = [table.column(name) for name in chosen]
        plain = [each.cast("float64") if arrow.types.is_decimal(each.type) else each for each in columns]
    except StreamError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise StreamError(f"not a complete Parquet file ({error})", file=path) from error
    return range(1, len(table) + 1), {name: each.to_pylist() for name, each in zip(chosen, plain, strict=True)}


READERS: Final = {"csv": _read_csv, "jsonl": _read_json_lines, "ndjson": _read_json_lines, "parquet": _read_parquet}
