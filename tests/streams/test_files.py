"""Files of the user's own become tables, or an error names file, line and column."""

from __future__ import annotations

import gzip
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cosend.errors import SettingError, StreamError
from cosend.streams.read_files import read_table

pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")  # they have no types

RECORDS: list[dict[str, Any]] = [
    {"size": 3, "kind": "b", "hour": 0.5, "where": "east", "y": 1},
    {"size": 1, "kind": "a", "hour": 1.0, "where": "west", "y": 0},
    {"size": 2, "kind": "c, d", "hour": 1.5, "where": "east", "y": 1},
]
SUFFIXES = ["csv", "csv.gz", "jsonl", "jsonl.gz", "ndjson", "ndjson.gz", "parquet"]


def written(folder: Path, suffix: str, records: list[dict[str, Any]] | None = None) -> Path:
    """Write records in one of the forms that are read."""
    rows = RECORDS if records is None else records
    path = folder / f"data.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
        return path
    if suffix.startswith("csv"):
        lines = [",".join(rows[0]), *(",".join(f'"{value}"' for value in row.values()) for row in rows)]
    else:
        lines = [json.dumps(row) for row in rows]
    data = "".join(line + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    return path


def failure(path: Path, **options: Any) -> StreamError:
    with pytest.raises(StreamError) as caught:
        read_table(path, **{"label": "y", **options})
    assert caught.value.file == str(path)
    assert str(caught.value).startswith(str(path))
    return caught.value


def failure_of(folder: Path, name: str, data: str | bytes, **options: Any) -> StreamError:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return failure(path, **options)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_form_gives_the_same_table(tmp_path: Path, suffix: str) -> None:
    table = read_table(written(tmp_path, suffix), label="y", contexts=["hour"], site="where")
    assert list(table.features) == ["size", "kind"]
    assert table.sites is not None
    assert table.sites.tolist() == ["east", "west", "east"]
    expected = [{name: row[name] for name in ("size", "kind", "hour")} for row in RECORDS]
    assert list(table.rows()) == [(item, row["y"]) for item, row in zip(expected, RECORDS, strict=True)]
    assert table.features["size"].dtype.kind == "i"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_form_reads_a_window_of_named_columns(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, suffix)
    for start, rows in ((0, 1), (1, 1), (1, 2), (2, None), (0, None)):
        table = read_table(path, label="y", features=["size"], start=start, rows=rows)
        stop = None if rows is None else start + rows
        assert table.features["size"].tolist() == [row["size"] for row in RECORDS[start:stop]]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_window_beyond_the_end_says_how_many_rows_there_are(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, suffix)
    assert "the file has 3 rows" in str(failure(path, start=3))
    assert "rows 2 to 3, counted from 0, are not all there" in str(failure(path, start=2, rows=2))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("options", "column", "use"),
    [
        ({"label": "z"}, "z", "label"),
        ({"features": ["size", "z"]}, "z", "feature"),
        ({"contexts": ["z"]}, "z", "context"),
        ({"site": "z"}, "z", "site"),
    ],
)
def test_a_missing_column_is_named_with_those_that_exist(
    tmp_path: Path, suffix: str, options: dict[str, Any], column: str, use: str
) -> None:
    error = failure(written(tmp_path, suffix), **options)
    assert error.column == column
    assert f"no such {use} column; the columns are 'size', 'kind', 'hour', 'where', 'y'" in str(error)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_few_bad_values_among_numbers_are_named_by_place(tmp_path: Path, suffix: str) -> None:
    """Parquet keeps one type per column, so there the whole column is text that reads as numbers."""
    values = ["7", "8", "9", "x", "10"]
    records = [{"n": n, "a": a, "y": 1} for n, a in enumerate(values)]
    error = failure(written(tmp_path, suffix, records))
    line = 5 if suffix.startswith("csv") else 4
    assert (error.line, error.column) == (line, "a")
    assert "'x' is not a finite number" in str(error)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_nan_infinity_and_null_are_named_by_place(tmp_path: Path, suffix: str, value: float | None) -> None:
    error = failure(written(tmp_path, suffix, [{"a": 1.0, "y": 1}, {"a": 2.0, "y": 1}, {"a": value, "y": 0}]))
    assert (error.line, error.column) == (3, "a")


@pytest.mark.parametrize(
    ("name", "data", "line", "column", "sentence"),
    [
        ("a.csv", "", None, None, "the file is empty"),
        ("a.csv", "a,y\n", None, None, "there are no data rows"),
        ("a.csv", "a,a,y\n1,2,3\n", 1, "a", "is there twice"),
        ("a.csv", "y\n1\n", 1, None, "there are no feature columns"),
        ("a.csv", "a,y\n1,2\n1,2,3\n", 3, None, "the row has 3 fields; the header has 2"),
        ("a.csv", "a,y\n1,2\n\n1\n", 4, None, "the row has 1 fields"),
        ("a.csv", 'a,y\n"1\n2",3\n1,2,3\n', 4, None, "the row has 3 fields"),
        ("a.csv", 'a,y\n1,2\n"3,4\n', 3, None, "not valid CSV"),
        ("a.csv", b"a,y\n1,2\n\xe4,4\n", 3, None, "byte 0xe4 is not UTF-8"),
        ("a.csv", "a,y\n1,2\nnan,4\n2,2\n", 3, "a", "'nan' is not a finite number"),
        ("a.csv", "a,y\n1,2\n2,inf\n2,2\n", 3, "y", "'inf' is not a finite number"),
        ("a.csv", "a,y\n1,\n2, \n", None, "y", "no row has a label; at least one is needed"),
        ("a.jsonl", "", None, None, "the file is empty"),
        ("a.jsonl", '{"a": 1, "y": 1}\n{"a": 1,\n', 2, None, "not valid JSON"),
        ("a.jsonl", "[" * 100_000, 1, None, "not valid JSON"),
        ("a.jsonl", '{"a": 1, "y": 1}\n\n[1, 2]\n', 3, None, r"[1, 2] is not an object"),
        ("a.jsonl", '{"a": 1, "y": 1}\n{"y": 1}\n', 2, "a", "missing key; every line needs it, this one has 'y'"),
        ("a.jsonl", '{"a": 1, "y": 1}\n{"a": {}, "y": 1}\n', 2, "a", "{} is not a value"),
        ("a.jsonl", '{"a": 1, "y": null}\n{"a": 1, "y": NaN}\n', None, "y", "no row has a label"),
        ("a.jsonl", '{"a": 1, "y": null}\n{"a": 1, "y": 1}\n{"a": 1, "y": []}\n', 3, "y", "[] is not a value"),
        ("a.ndjson", b"\xff", 1, None, "is not UTF-8"),
        ("a.parquet", b"PAR1", None, None, "not a complete Parquet file"),
        ("a.csv.gz", b"a,y\n1,2\n", 1, None, "cannot be read"),
        ("a.txt", "a,y\n1,2\n", None, None, "its name must end in '.csv', '.csv.gz'"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_line_and_column(
    tmp_path: Path, name: str, data: str | bytes, line: int | None, column: str | None, sentence: str
) -> None:
    error = failure_of(tmp_path, name, data)
    assert (error.line, error.column) == (line, column)
    assert sentence in str(error)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, suffix: str) -> None:
    assert "no such file" in str(failure(tmp_path / f"none.{suffix}"))
    (tmp_path / f"folder.{suffix}").mkdir()
    failure(tmp_path / f"folder.{suffix}")


@pytest.mark.parametrize("suffix", ["csv.gz", "jsonl.gz", "parquet"])
def test_a_file_that_was_cut_off_is_refused(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, suffix)
    path.write_bytes(path.read_bytes()[:-12])
    error = failure(path)
    assert suffix == "parquet" or "cut off" in str(error)
    assert suffix == "parquet" or error.line is not None


def test_marks_line_ends_and_empty_lines_of_other_programs_are_no_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,y\r\n1,2\r\n\r\n3,4\r\n")
    assert read_table(tmp_path / "a.csv", label="y").features["a"].tolist() == [1, 3]


def test_a_column_has_one_use(tmp_path: Path) -> None:
    path = written(tmp_path, "csv")
    assert failure(path, features=["size", "y"]).column == "y"
    assert failure(path, features=["size"], contexts=["size"]).column == "size"
    with pytest.raises(SettingError, match="contexts must be a list of names"):
        read_table(path, label="y", contexts="hour")


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install '.[files]' in a checkout of cosend" in str(failure(path))
