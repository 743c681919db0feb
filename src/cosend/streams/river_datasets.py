"""Datasets of river, or other iterables of (dictionary, label), as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http.client import HTTPException
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from cosend.checks import check_whole
from cosend.errors import StreamError, listed, shown
from cosend.streams.table import Blame, Table, as_column, as_labels


def from_river(dataset: Iterable[tuple[Mapping[str, Any], Any]], rows: int) -> Table:
    """Take `rows` items of a dataset; every item must have the features of the first."""
    check_whole("rows", rows)
    name = type(dataset).__name__
    pairs = list(islice(dataset, rows))
    if len(pairs) < rows:
        raise StreamError(f"{rows} items are wanted", f"{name} has {len(pairs)}")
    features = pairs[0][0].keys()
    for number, (item, _) in enumerate(pairs, start=1):
        if item.keys() != features:
            wrong = f"item {number} of {name} and item 1 differ in {listed(sorted(item.keys() ^ features))}"
            raise StreamError(wrong, "every item needs every feature")
    columns = {each: as_column([_plain(item[each]) for item, _ in pairs], _blame(name, each)) for each in features}
    labels, known = as_labels([_plain(label) for _, label in pairs], _blame(name, "label"))
    return Table(columns, labels, known=known)


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


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value  # generated datasets yield scalars of NumPy


def _blame(name: str, column: str) -> Blame:
    return lambda number, wrong, allowed: StreamError(f"item {number + 1} of {name}: {wrong}", allowed, column=column)
