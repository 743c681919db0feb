"""A table gives its rows, parts and codes; columns are numbers or text, and damaged ones are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import datasets

from cosend.errors import StreamError
from cosend.streams.river_datasets import from_river, river_dataset
from cosend.streams.table import Table, as_column, as_labels


def table() -> Table:
    return Table(
        {"size": np.array([3, 1, 2]), "kind": np.array(["b", "a", "c"])},
        np.array([1, 0, 1]),
        {"hour": np.array([0.5, 1.0, 1.5])},
        np.array(["east", "west", "east"]),
    )


def refuse(number: int, wrong: str, allowed: str) -> StreamError:
    return StreamError(wrong, allowed, line=number + 1)


def test_rows_and_parts() -> None:
    rows = list(table().rows())
    assert rows[0] == ({"size": 3, "kind": "b", "hour": 0.5}, 1)
    assert [type(value) for value in rows[0][0].values()] == [int, str, float]
    part = table().part(1, 3)
    assert part.sites is not None
    assert part.sites.tolist() == ["west", "east"]
    assert list(part.rows()) == rows[1:]


def test_the_matrix_has_text_as_ranks_and_parts_have_the_codes_of_the_whole() -> None:
    assert table().matrix().tolist() == [[3, 1], [1, 0], [2, 2]]
    assert table().part(2, 3).matrix().tolist() == [[2, 2]]
    fixed = Table({"k": np.array(["b"])}, np.array([0]), vocabulary={"k": ("d", "b", "a")})
    assert fixed.matrix().tolist() == [[1]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2"], "i"),
        (["1", "2.5"], "f"),
        ([1, 2.5], "f"),
        ([True, False], "b"),
        ([True, 2], "i"),
        (["1_000", "x"], "U"),
        (["1", "x"], "U"),
        (["", "x"], "U"),
    ],
)
def test_a_column_is_numbers_only_if_all_values_are(values: list[Any], kind: str) -> None:
    assert as_column(values, refuse).dtype.kind == kind


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (["1", "2", "x"], 3),
        (["1", "nan", "3"], 2),
        ([1.0, float("inf")], 2),
        (["", "", "", "4"], 1),
        (["1", "1_0", "2"], 2),
        ([1, 2, 10**400], 3),
        (["a", None], 2),
        (["a", [1]], 2),
    ],
)
def test_a_damaged_column_of_numbers_is_refused_where_it_is_damaged(values: list[Any], line: int) -> None:
    with pytest.raises(StreamError) as caught:
        as_column(values, refuse)
    assert caught.value.line == line


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_survive_being_written_as_text(numbers: list[float]) -> None:
    assert as_column([repr(number) for number in numbers], refuse).tolist() == numbers


@pytest.mark.parametrize("missing", [None, float("nan"), "", " NaN "])
def test_a_label_that_is_missing_is_not_known(missing: Any) -> None:
    labels, known = as_labels([1, missing, 2], refuse)
    whole = Table({"x": np.arange(3)}, labels, known=known)
    assert [label for _, label in whole.rows()] == [1, None, 2]
    assert [label for _, label in whole.part(1, 2).rows()] == [None]
    assert np.unique(whole.labels).tolist() == [1, 2]  # no class of its own
    assert whole.digest() != Table({"x": np.arange(3)}, whole.labels).digest()


# Datasets of river


def test_a_dataset_of_river_becomes_a_table() -> None:
    table = river_dataset("Phishing", 100)
    item, label = next(iter(datasets.Phishing()))
    assert next(table.rows()) == (item, label)
    assert table.matrix().shape == (100, 9)
    with pytest.raises(StreamError, match=r"no dataset 'Fishing'.*Phishing"):
        river_dataset("Fishing", 50)


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([({"a": 1, "b": 2}, 0), ({"a": 1}, 1)], "item 2 of list and item 1 differ in 'b'"),
        ([({"a": 1}, 0), ({"a": None}, 1)], "column 'a': item 2 of list: None is not a value"),
        ([({"a": 1}, 0), ({"a": 2}, [])], r"column 'label': item 2 of list: \[\] is not a value"),
        ([({"a": 1}, 0)], "2 items are wanted; list has 1"),
    ],
)
def test_an_item_that_does_not_fit_is_named(pairs: list[Any], sentence: str) -> None:
    with pytest.raises(StreamError, match=sentence):
        from_river(pairs, 2)


def test_a_dataset_that_cannot_be_fetched_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Any:
        raise OSError("no network")

    monkeypatch.setattr("river.datasets.Phishing.__iter__", refuse)
    with pytest.raises(StreamError, match=r"'Phishing' of river cannot be fetched \(no network\)"):
        river_dataset("Phishing", 5)
