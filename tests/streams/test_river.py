"""Datasets of river become tables, or an error names the item that does not fit."""

from __future__ import annotations

from typing import Any

import pytest
from river import datasets

from cosend.errors import StreamError
from cosend.streams.river_datasets import from_river, river_dataset


def test_a_dataset_of_river_becomes_a_table() -> None:
    table = from_river(datasets.Phishing(), 100)
    item, label = next(iter(datasets.Phishing()))
    assert next(table.rows()) == (item, label)
    assert table.matrix().shape == (100, 9)


@pytest.mark.parametrize(
    ("pairs", "column", "sentence"),
    [
        ([({"a": 1, "b": 2}, 0), ({"a": 1}, 1)], "b", "item 2 of list lacks it"),
        ([({"a": 1}, 0), ({"a": 1, "b": 2}, 1)], "b", "item 1 lacks it"),
        ([({"a": 1}, 0), ({"a": None}, 1)], "a", "item 2 of list: None is not a value"),
        ([({"a": 1}, 0), ({"a": 2}, [])], "label", r"item 2 of list: \[\] is not a value"),
    ],
)
def test_an_item_that_does_not_fit_is_named(pairs: list[Any], column: str, sentence: str) -> None:
    with pytest.raises(StreamError, match=sentence) as caught:
        from_river(pairs, 2)
    assert caught.value.column == column


def test_too_few_items_are_an_error_that_says_how_many_there_are() -> None:
    with pytest.raises(StreamError, match="3 items are wanted; list has 1"):
        from_river([({"a": 1}, 0)], 3)


def test_a_dataset_by_name_and_one_that_river_does_not_have() -> None:
    table = river_dataset("Phishing", 50)
    assert len(table) == 50
    assert "empty_server_form_handler" in table.features
    with pytest.raises(StreamError, match=r"no dataset 'Fishing'.*Phishing"):
        river_dataset("Fishing", 50)
