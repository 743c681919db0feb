"""Datasets of river, or other iterables of (dictionary, label), as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http.client import HTTPException
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from cosend.checks import check_whole
from cosend.errors import StreamError, shown
from cosend.streams.table import Blame, Table, as_column, as_labels, where_known


def from_river(dataset: Iterable[tuple[Mapping[str, Any], Any]], rows: int) -> Table:
    """Take `rows` items of a dataset; every item must have the features of the first."""
    check_whole("rows", rows)
    name = type(dataset).__name__
    pairs = list(islice(dataset, rows))
    if len(pairs) < rows:
        raise StreamError(f"{rows} items are wanted", f"{name} has {len(pairs)}")
    features = dict.fromkeys(pairs[0][0])
    for number, (item, _) in enumerate(pairs, start=1):
        _check_features(name, features, number, item)
    columns = {
        feature: as_column([_plain(item[feature]) for item, _ in pairs], _blame(name, feature)) for feature in features
    }
    labels = [_plain(label) for _, label in pairs]
    known = where_known(labels, f"label of {name}")
    return Table(columns, as_labels(labels, known, _blame(name, "label")), known=known)


def river_dataset(name: str, rows: int) -> Table:
    """Take `rows` items of the dataset of river with this name, for example "Phishing"."""
    try:
        datasets = import_module("river.datasets")
    except ImportError as error:
        raise StreamError("datasets of river need river, which is not installed", "pip install river") from error
    known = {each: kind for each, kind in vars(datasets).items() if isinstance(kind, type) and each[0].isupper()}
    if name not in known:
        raise StreamError(f"river has no dataset {shown(name)}", f"there are {', '.join(sorted(known))}")
    try:
        return from_river(known[name](), rows)
    except (OSError, HTTPException) as error:
        raise StreamError(f"the dataset {name!r} of river cannot be fetched ({error})") from error


def _check_features(name: str, features: Mapping[str, None], number: int, item: Mapping[str, Any]) -> None:
    for feature in features:
        if feature not in item:
            raise StreamError(f"item {number} of {name} lacks it", "every item needs every feature", column=feature)
    for feature in item:
        if feature not in features:
            raise StreamError(
                f"item {number} of {name} has it, item 1 lacks it", "every item needs every feature", column=feature
            )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value  # generated datasets yield scalars of NumPy


def _blame(name: str, column: str) -> Blame:
    return lambda number, wrong, allowed: StreamError(f"item {number + 1} of {name}: {wrong}", allowed, column=column)
