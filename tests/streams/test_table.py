"""A table gives its rows, parts and codes, and cannot be built of columns that do not fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.errors import StreamError
from cosend.streams.table import Table, as_column


def table() -> Table:
    return Table(
        {"size": np.array([3, 1, 2]), "kind": np.array(["b", "a", "c"])},
        np.array([1, 0, 1]),
        {"hour": np.array([0.5, 1.0, 1.5])},
        np.array(["east", "west", "east"]),
    )


def refuse(number: int, wrong: str, allowed: str) -> StreamError:
    return StreamError(wrong, allowed, line=number + 1)


def test_rows_are_plain_features_and_contexts_with_the_label() -> None:
    rows = list(table().rows())
    assert rows[0] == ({"size": 3, "kind": "b", "hour": 0.5}, 1)
    assert [type(value) for value in rows[0][0].values()] == [int, str, float]


def test_a_part_slices_everything() -> None:
    part = table().part(1, 3)
    assert part.sites is not None
    assert part.sites.tolist() == ["west", "east"]
    assert part.contexts["hour"].tolist() == [1.0, 1.5]
    assert (len(part), part.labels.tolist()) == (2, [0, 1])


def test_a_column_is_a_feature_or_a_context() -> None:
    assert table().column("size").tolist() == [3, 1, 2]
    assert table().column("hour").tolist() == [0.5, 1.0, 1.5]
    with pytest.raises(StreamError, match=r"'size', 'kind', 'hour'") as caught:
        table().column("sise")
    assert caught.value.column == "sise"


def test_the_matrix_has_numbers_as_they_are_and_text_as_ranks() -> None:
    matrix = table().matrix()
    assert matrix.dtype == np.float64
    assert matrix.tolist() == [[3, 1], [1, 0], [2, 2]]


def test_parts_have_the_codes_of_the_whole() -> None:
    assert table().part(2, 3).matrix().tolist() == table().matrix()[2:].tolist()


def test_a_vocabulary_fixes_the_codes() -> None:
    codes = Table({"k": np.array(["b"])}, np.array([0]), vocabulary={"k": ("d", "b", "a")}).matrix()
    assert codes.tolist() == [[1]]
    with pytest.raises(StreamError, match="'z' is not in the vocabulary"):
        Table({"k": np.array(["z"])}, np.array([0]), vocabulary={"k": ("a",)}).matrix()
    with pytest.raises(StreamError, match="no such column"):
        Table({"k": np.array(["z"])}, np.array([0]), vocabulary={"q": ("a",)})


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"features": {"x": np.arange(2)}}, "column 'x': has the shape"),
        ({"contexts": {"c": np.arange(4)}}, "column 'c': has the shape"),
        ({"sites": np.array(["a"])}, "column 'sites': has the shape"),
        ({"features": {"x": np.zeros((3, 2))}}, "column 'x': has the shape"),
        ({"contexts": {"y": np.arange(3)}}, "is a feature and a context"),
        ({"features": {"x": np.array([None, "a", "b"], object)}}, "numbers and text are allowed"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StreamError, match=sentence):
        Table(**{"features": {"y": np.arange(3)}, "labels": np.arange(3), **columns})


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


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1.0, np.nan, 2.0]),
        np.array([1.0, None, 2.0], object),
        np.array([1.0, np.datetime64("NaT"), 2.0], object),
    ],
)
def test_a_label_that_is_missing_is_not_known(labels: Any) -> None:
    whole = Table({"x": np.arange(3)}, labels)
    assert [label for _, label in whole.rows()] == [1.0, None, 2.0]
    assert whole.unlabelled == 1
    assert [label for _, label in whole.part(1, 2).rows()] == [None]
    assert np.unique(whole.labels).tolist() == [1.0, 2.0]  # no class of its own
    assert whole.digest() != Table({"x": np.arange(3)}, whole.labels).digest()
    with pytest.raises(StreamError, match="no row has a label"):
        Table({"x": np.arange(2)}, np.array([np.nan, np.nan]))
