"""The features of an item by name, whatever kind of row it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np

NAMED: Final = "a mapping, a row of pandas, a named tuple, a dataclass, or a row of a NumPy array with named fields"
DICT: Final = frozenset({dict})


def named(item: Any) -> Mapping[Any, Any] | None:
    """Return the features of an item by name; None if it has no names: a plain tuple or list, a number, a table."""
    if isinstance(item, Mapping):
        return item
    if isinstance(item, type) or is_table(item):
        return None
    if isinstance(item, np.void | np.ndarray):
        return named_row(item) if item.dtype.names is not None else None
    if is_dataclass(item):
        return {each.name: getattr(item, each.name) for each in fields(item)}
    if isinstance(item, tuple):
        names = getattr(item, "_fields", None)
        return None if names is None else dict(zip(names, item, strict=True))
    if hasattr(item, "index") and hasattr(item, "to_dict"):  # a Series of pandas, with plain values
        features: Mapping[Any, Any] = item.to_dict()
        return features
    if hasattr(item, "keys") and hasattr(item, "__getitem__"):  # as `dict` takes it: a row of sqlite3, say
        return {name: item[name] for name in item.keys()}  # noqa: SIM118 - what is iterated may be the values
    return None


def named_row(row: Any) -> Mapping[str, Any]:
    """Return the fields of a row of NumPy as plain values; moments stay what they are, and do not become numbers."""
    return {name: row[name] if row.dtype[name].kind in "mM" else row[name].item() for name in row.dtype.names}


def is_table(items: Any) -> bool:
    """Tell whether this is many items: a DataFrame of pandas or polars, or an array with named fields."""
    if isinstance(items, np.ndarray):
        return items.dtype.names is not None and items.ndim > 0
    return hasattr(items, "to_dicts") or (hasattr(items, "to_dict") and hasattr(items, "columns"))


def by_names(items: Sequence[Any]) -> Sequence[Any]:
    """Return items that have names as mappings, and all others as they are."""
    if DICT.issuperset(map(type, items)):
        return items
    return [item if (features := named(item)) is None else features for item in items]
