"""Files of the user's own become tables, or an error names file, column and value."""

from __future__ import annotations

import gzip
import json
import sys
import time
from decimal import Decimal
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
SUFFIXES = ["csv", "csv.gz", "jsonl", "jsonl.gz", "ndjson", "parquet"]
SLOWEST_READ_S = 60  # of a machine that is very slow: about one second is usual


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


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_form_gives_the_same_table(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, suffix)
    table = read_table(path, label="y", contexts=["hour"], site="where")
    assert list(table.features) == ["size", "kind"]
    assert table.sites is not None
    assert table.sites.tolist() == ["east", "west", "east"]
    expected = [{name: row[name] for name in ("size", "kind", "hour")} for row in RECORDS]
    assert list(table.rows()) == [(item, row["y"]) for item, row in zip(expected, RECORDS, strict=True)]
    assert table.features["size"].dtype.kind == "i"
    assert read_table(path, label="y", features=["size"], rows=2).features["size"].tolist() == [3, 1]
    assert "4 rows are wanted; the file has 3" in str(failure(path, rows=4))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_column_a_missing_file_and_a_damaged_value_are_named(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, suffix)
    for use, options in {"label": "z", "feature": ["size", "z"], "context": ["z"], "site": "z"}.items():
        error = failure(path, **{{"feature": "features", "context": "contexts"}.get(use, use): options})
        assert error.column == "z"
        assert f"no such {use} column; the columns are 'size', 'kind', 'hour', 'where', 'y'" in str(error)
    assert "no such file" in str(failure(tmp_path / f"none.{suffix}"))
    values = ["7", "8", "9", "x", "10"]  # Parquet keeps one type per column, so there it is text that reads as numbers
    error = failure(written(tmp_path, suffix, [{"n": n, "a": a, "y": 1} for n, a in enumerate(values)]))
    assert (error.line, error.column) == (5 if suffix.startswith("csv") else 4, "a")
    assert "'x' is not a finite number" in str(error)
    path.write_bytes(path.read_bytes()[:-12])
    assert suffix in ("csv", "jsonl", "ndjson") or failure(path)  # cut off


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_nan_infinity_and_null_are_named_by_place(tmp_path: Path, suffix: str, value: float | None) -> None:
    error = failure(written(tmp_path, suffix, [{"a": 1.0, "y": 1}, {"a": 2.0, "y": 1}, {"a": value, "y": 0}]))
    assert (error.line, error.column) == (3, "a")


@pytest.mark.parametrize(
    ("name", "data", "line", "column", "sentence"),
    [
        ("a.csv", "", None, None, "there are no feature columns; the columns are none"),
        ("a.csv", "a,y\n", None, None, "there are no data rows"),
        ("a.csv", "a,a,y\n1,2,3\n", None, "a", "is there twice"),
        ("a.csv", "a,y\n1,2\n\n1,2,3\n", 4, None, "the row has 3 fields; the header has 2"),
        ("a.csv", 'a,y\n1,2\n"3,4\n', 3, None, "not valid CSV"),
        ("a.csv", b"a,y\n1,2\n\xe4,4\n", None, None, "byte 0xe4 is not UTF-8"),
        ("a.csv", "a,y\n1,2\nnan,4\n2,2\n", 3, "a", "'nan' is not a finite number"),
        ("a.csv", "a,y\n1,2\n2,inf\n2,2\n", 3, "y", "'inf' is not a finite number"),
        ("a.csv", f"a,y\n1,{2**63}\n", 2, "y", "9223372036854775808 has more than 64 bits; whole numbers go from"),
        ("a.csv", "a,y\n1,\n2, \n", 2, "y", "no row has a label; at least one is needed"),
        ("a.jsonl", '{"a": 1, "y": 1}\n{"a": 1,\n', 2, None, "not valid JSON"),
        ("a.jsonl", "[" * 100_000, 1, None, "not valid JSON"),
        ("a.jsonl", '{"a": 1, "y": 1}\n\n[1, 2]\n', 3, None, r"[1, 2] is not an object"),
        ("a.jsonl", '{"a": 1, "y": 1}\n{"y": 1}\n', 2, "a", "missing key; every line needs it, this one has 'y'"),
        ("a.jsonl", '{"a": 1, "y": 1}\n{"a": {}, "y": 1}\n', 2, "a", "{} is not a value"),
        ("a.jsonl", '{"a": "u", "y": 1}\n{"a": "v\\u0000", "y": 1}\n', 2, "a", "NUL character"),
        ("a.jsonl", '{"a": 1, "y": null}\n{"a": 1, "y": NaN}\n', 1, "y", "no row has a label"),
        ("a.jsonl", '{"a": 1, "y": null}\n{"a": 1, "y": 1}\n{"a": 1, "y": []}\n', 3, "y", "[] is not a value"),
        ("a.parquet", b"PAR1", None, None, "not a complete Parquet file"),
        ("a.csv.gz", b"a,y\n1,2\n", None, None, "cannot be read"),
        ("a.txt", "a,y\n1,2\n", None, None, "its name must end in .csv, .jsonl"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(
    tmp_path: Path, name: str, data: str | bytes, line: int | None, column: str | None, sentence: str
) -> None:
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    error = failure(tmp_path / name)
    assert (error.line, error.column) == (line, column)
    assert sentence in str(error)


def test_marks_line_ends_and_empty_lines_of_other_programs_are_no_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,y\r\n1,2\r\n\r\n3,4\r\n")
    assert read_table(tmp_path / "a.csv", label="y").features["a"].tolist() == [1, 3]


def test_a_column_has_one_use(tmp_path: Path) -> None:
    path = written(tmp_path, "csv")
    assert failure(path, features=["size", "y"]).column == "y"
    assert failure(path, features=["size"], contexts=["size"]).column == "size"


def test_values_of_64_bits_stay_apart_and_one_number_written_in_several_ways_is_one_label(tmp_path: Path) -> None:
    labels = [2**63 - 1, 2**63 - 2, -(2**63)]
    for form in ("csv", "jsonl", "parquet"):
        table = read_table(written(tmp_path, form, [{"a": n, "y": y} for n, y in enumerate(labels)]), label="y")
        assert table.labels.tolist() == labels
    texts = [{"a": n, "y": y} for n, y in enumerate(["1.5", "2", "2.0", " 2 "])]
    assert read_table(written(tmp_path, "csv", texts), label="y").labels.tolist() == [1.5, 2, 2, 2]


def test_decimals_of_parquet_keep_what_stands_behind_the_point(tmp_path: Path) -> None:
    prices = [Decimal("0.25"), Decimal("1.99"), Decimal("3.00")]
    table = read_table(written(tmp_path, "parquet", [{"a": price, "y": price} for price in prices]), label="y")
    assert table.features["a"].tolist() == table.labels.tolist() == [0.25, 1.99, 3.0]


@pytest.mark.parametrize("path", [None, b"a.csv", "a\0.csv", "\ud800.csv"], ids=repr)
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(SettingError, match="path must be the path of a file"):
        read_table(path, label="y")


def test_a_file_of_a_hundred_thousand_columns_is_read_and_its_errors_are_short(tmp_path: Path) -> None:
    """Looking for each column in a list of all of them would take minutes: far beyond what is allowed here."""
    names = [f"c{n}" for n in range(100_000)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join([*names, "y"]), *(",".join(["x"] * 100_000 + [str(n)]) for n in range(2))]))
    start = time.process_time()
    table = read_table(path, label="y")
    assert list(table.features) == names
    assert table.part(0, 1).matrix().shape == (1, 100_000)
    assert time.process_time() - start < SLOWEST_READ_S
    assert len(str(failure(path, label="z"))) < 500


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install '.[files]' in a checkout of cosend" in str(failure(path))
