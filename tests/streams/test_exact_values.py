"""A value of a file is kept as it is or refused by its place: no cut decimals, no two labels that become one."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend.errors import SettingError, StreamError
from cosend.streams.read_files import read_table
from cosend.streams.river_datasets import from_river, river_dataset
from cosend.streams.table import Table

pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")  # they have no types

BIG = [2**63, 2**63 + 1, 5]
SLOWEST_READ_S = 60  # of a machine that is very slow: about one second is usual
FORMS = ["csv", "jsonl", "parquet", "river"]


def table_of(folder: Path, form: str, features: list[Any], labels: list[Any]) -> Table:
    """Bring one feature `a` and labels `y` into a table by way of a file, or of what river yields."""
    path = folder / f"data.{form}"
    if form == "river":
        return from_river([({"a": a}, y) for a, y in zip(features, labels, strict=True)], len(features))
    if form == "parquet":
        columns = {
            name: np.array(values, np.uint64) if values == BIG else values
            for name, values in (("a", features), ("y", labels))
        }
        pq.write_table(pa.table(columns), path)
    elif form == "csv":
        path.write_text("a,y\n" + "".join(f"{a},{y}\n" for a, y in zip(features, labels, strict=True)))
    else:
        rows = [json.dumps({"a": a, "y": y}) for a, y in zip(features, labels, strict=True)]
        path.write_text("\n".join(rows))
    return read_table(path, label="y")


@pytest.mark.parametrize("form", ["parquet", "river"])
def test_decimals_keep_what_stands_behind_the_point(tmp_path: Path, form: str) -> None:
    prices = [Decimal("0.25"), Decimal("1.99"), Decimal("3.00")]
    table = table_of(tmp_path, form, prices, prices)
    assert table.features["a"].tolist() == table.labels.tolist() == [0.25, 1.99, 3.0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column", ["a", "y"])
def test_whole_numbers_beyond_64_bits_are_refused_by_place(tmp_path: Path, form: str, column: str) -> None:
    features, labels = (BIG, [0, 1, 0]) if column == "a" else ([1, 2, 3], BIG)
    with pytest.raises(StreamError, match=r"9223372036854775808 has more than 64 bits; .*must be text") as caught:
        table_of(tmp_path, form, list(features), list(labels))
    assert caught.value.column in (column, "label")


@pytest.mark.parametrize("form", FORMS)
def test_the_largest_whole_numbers_of_64_bits_stay_apart(tmp_path: Path, form: str) -> None:
    labels = [2**63 - 1, 2**63 - 2, -(2**63)]
    assert table_of(tmp_path, form, [1, 2, 3], labels).labels.tolist() == labels


@pytest.mark.parametrize("form", ["csv", "jsonl", "river"])
def test_two_labels_that_one_float_stands_for_are_refused(tmp_path: Path, form: str) -> None:
    labels = [0.5, 2**53, 2**53 + 1]
    with pytest.raises(StreamError, match=r"9007199254740993'? and 9007199254740992 would be one class"):
        table_of(tmp_path, form, [1, 2, 3], list(labels))


@pytest.mark.parametrize("form", ["parquet", "river"])
def test_two_decimal_labels_that_one_float_stands_for_are_refused(tmp_path: Path, form: str) -> None:
    labels = [Decimal("9007199254740993.5"), Decimal("9007199254740993.6")]
    with pytest.raises(StreamError, match="would be one class"):
        table_of(tmp_path, form, [1, 2], labels)


@pytest.mark.parametrize("labels", [["0.1", "0.10", "1e-1", "0.2"], ["1.5", "2", "2.0", " 2 "]])
def test_one_number_written_in_several_ways_is_one_label(tmp_path: Path, labels: list[str]) -> None:
    table = table_of(tmp_path, "csv", [1, 2, 3, 4], list(labels))
    assert len(set(table.labels.tolist())) == 2


@pytest.mark.parametrize("column", ["a", "y", "s"])
def test_a_nul_character_at_the_end_of_a_text_is_not_lost(tmp_path: Path, column: str) -> None:
    rows = [{"a": "u", "y": "p", "s": "north"}, {"a": "v", "y": "q", "s": "south"}]
    rows[1][column] += "\0"
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(StreamError, match="NUL character") as caught:
        read_table(path, label="y", site="s")
    assert (caught.value.line, caught.value.column) == (2, column)


@pytest.mark.parametrize("path", [None, 5, b"a.csv", ["a.csv"], "a\0.csv", Path("a\0.csv"), "\ud800.csv"], ids=repr)
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(SettingError, match="path must be the path of a file"):
        read_table(path, label="y")


def test_a_dataset_that_cannot_be_fetched_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Any:
        raise OSError("no network")

    monkeypatch.setattr("river.datasets.Phishing.__iter__", refuse)
    with pytest.raises(StreamError, match=r"'Phishing' of river cannot be fetched \(no network\)"):
        river_dataset("Phishing", 5)


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
    with pytest.raises(StreamError, match="'c9' and 99,991 more") as caught:
        read_table(path, label="z")
    assert len(str(caught.value)) < 500
