"""KDD Cup 1999 is read as it stands, a window of it means the same as the whole, and damage is named by place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from research.kdd99 import ATTACKS, FEATURES, VOCABULARY, kdd99

from cosend.errors import StreamError

ROW = [
    "0",
    "tcp",
    "http",
    "SF",
    "181",
    "5450",
    *["0"] * 16,
    "8",
    "8",
    *["0.00"] * 7,
    "9",
    "9",
    *["0.11"] * 8,
    "normal.",
]


def written(path: Path, *rows: list[str]) -> Path:
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path


def changed(column: str, value: str) -> list[str]:
    place = [*FEATURES, "label"].index(column)
    return [*ROW[:place], value, *ROW[place + 1 :]]


@pytest.mark.claims
def test_the_real_file_has_494021_rows_in_file_order(kdd99_file: Path) -> None:
    table = kdd99(kdd99_file, labels="names")
    assert len(table) == 494_021
    first, label = next(table.rows())
    assert label == "normal"
    assert list(first) == list(FEATURES)
    assert (first["protocol_type"], first["service"], first["flag"]) == ("tcp", "http", "SF")
    assert (first["src_bytes"], first["dst_bytes"], first["logged_in"], first["count"]) == (181, 5450, 1, 8)
    assert (first["same_srv_rate"], first["dst_host_same_src_port_rate"]) == (1.0, 0.11)
    for name, words in VOCABULARY.items():
        assert set(table.features[name].tolist()) == set(words)
    assert set(table.labels.tolist()) == {"normal", *ATTACKS}


def test_the_window_of_the_paper_has_its_share_of_attacks_and_switches(kdd99_file: Path) -> None:
    labels = kdd99(kdd99_file, start=65_000, rows=20_000).labels
    assert labels.dtype == np.int64
    assert 100 * labels.mean() == pytest.approx(46.9, abs=0.05)
    assert 100 * (labels[1:] != labels[:-1]).sum() / len(labels) == pytest.approx(0.185, abs=0.0005)


def test_a_window_has_the_rows_and_codes_of_the_whole(kdd99_file: Path) -> None:
    whole, window = kdd99(kdd99_file, rows=6_000), kdd99(kdd99_file, start=4_000, rows=2_000)
    assert (whole.matrix()[4_000:] == window.matrix()).all()
    assert (whole.labels[4_000:] == window.labels).all()


@pytest.mark.parametrize(
    ("row", "line", "column", "sentence"),
    [
        (ROW[:-1], 5001, None, "the row has 41 fields; 41 features and a label"),
        ([], 5001, None, "the row has 1 fields"),
        (changed("src_bytes", "many"), 4097, "src_bytes", "not a number .*'many'.* from line 4,097 on"),
        (changed("src_bytes", "9" * 30), 4097, "src_bytes", "not a number"),
        (changed("serror_rate", "nan"), 4097, "serror_rate", "not finite"),
        (changed("service", "htpp"), 5001, "service", "'htpp' is unknown; known are IRC"),
        (changed("label", "smurfs."), 5001, "label", "'smurfs' is unknown; known are normal, back"),
    ],
)
def test_damage_is_named_by_file_line_and_column(
    tmp_path: Path, row: list[str], line: int, column: str | None, sentence: str
) -> None:
    path = written(tmp_path / "kdd", *[ROW] * 5000, row, ROW)
    with pytest.raises(StreamError, match=sentence) as caught:
        kdd99(path)
    assert (caught.value.file, caught.value.line, caught.value.column) == (str(path), line, column)
    assert len(kdd99(path, rows=5000)) == 5000


def fetched(percent10: bool) -> Any:
    """Return rows in the form of scikit-learn's copy: whole numbers, fractions, and text as bytes."""
    assert percent10
    fields = [field.encode() if name in VOCABULARY else float(field) if "." in field else int(field)
              for name, field in zip(FEATURES, ROW, strict=False)]  # fmt: skip
    data = np.array([fields, fields], object)
    return SimpleNamespace(data=data, target=np.array([b"normal.", b"smurf."], object))


def test_without_a_file_the_copy_of_scikit_learn_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sklearn.datasets.fetch_kddcup99", fetched)
    table, same = kdd99(), kdd99(written(tmp_path / "kdd", ROW, changed("label", "smurf.")))
    assert list(table.rows()) == list(same.rows())
    assert kdd99(start=1, labels="names").labels.tolist() == ["smurf"]
    with pytest.raises(StreamError, match="the file has 2 rows"):
        kdd99(start=1, rows=2)
