"""The items of a batch, and columns of their features: read once, to the same bits as one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np

from cosend.classifiers.named import DICT, NAMED, is_table, named
from cosend.core.checks import as_list, is_number
from cosend.core.kernel.ledger import Floats
from cosend.errors import ContextError, SettingError, listed, shown

DAY_S: Final = 86_400.0
MANY: Final = 16  # values that an array scales faster than a list
NUMBERS: Final = frozenset({int, float})


def as_rows(what: str, items: Any) -> list[Any]:
    """Return the items of a batch one by one: of a list, a DataFrame, or a NumPy array with named fields."""
    if isinstance(items, np.ndarray) and items.dtype.names is not None:
        return _named_rows(what, items)
    rows: list[Any]
    if hasattr(items, "to_dicts"):  # polars
        rows = items.to_dicts()
        return rows
    if hasattr(items, "to_dict") and hasattr(items, "columns"):  # pandas
        rows = items.to_dict("records")
        return rows
    return as_list(what, items, "a list of items, a DataFrame, or an array with named fields")


def _named_rows(what: str, items: np.ndarray[Any, Any]) -> list[Any]:
    """Return the rows of an array with named fields; moments stay what they are, and do not become numbers."""
    if items.ndim > 1:
        raise SettingError(what, f"an array of shape {items.shape}", "an array with named fields and one row an item")
    names, rows = items.dtype.names or (), np.atleast_1d(items)
    columns = [list(rows[name]) if rows[name].dtype.kind in "mM" else rows[name].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def check_one(item: Any) -> None:
    """Raise if these are many items."""
    if is_table(item) or (isinstance(item, list) and item and named(item[0]) is not None):
        kind = "a list" if isinstance(item, list) else f"a {type(item).__name__}"
        raise ContextError(f"classify takes one item, got {kind} of {len(item)} items: classify_many takes these")


def feature_column(items: Sequence[Any], feature: str) -> list[Any]:
    """Return a feature of every item, or raise for the first that has none."""
    try:
        if DICT.issuperset(map(type, items)):
            return [item[feature] for item in items]
    except KeyError:
        pass
    return [_feature(item, feature) for item in items]


def _feature(item: Any, feature: str) -> Any:
    features = named(item)
    if features is None:
        sentence = f"the item has no feature {feature!r}; it has no names for its values: it is {shown(item)}"
        raise ContextError(f"{sentence}; give {NAMED}")
    try:
        return features[feature]
    except KeyError:
        has = listed([str(key) for key in features])
        raise ContextError(f"the item has no feature {feature!r}; it has {has}") from None


def number_column(items: Sequence[Any], feature: str) -> list[float]:
    """Return a feature of every item as a finite number, or raise for the first that is none."""
    values = feature_column(items, feature)
    try:
        if NUMBERS.issuperset(map(type, values)) and math.isfinite(sum(values)):  # the sum is only finite if all are
            return list(map(float, values))
    except OverflowError:  # a whole number that no float can hold
        pass
    return [_number(feature, value) for value in values]


def scaled_column(values: list[Any], low: float, high: float) -> Floats | None:
    """Return where many numbers lie between two, to the same bits as one by one; None if any needs a closer look."""
    if not NUMBERS.issuperset(map(type, values)):
        return None
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:  # a whole number that no float can hold
        return None
    if not (low <= numbers.min() and numbers.max() <= high):  # one that is no number is neither
        return None
    return np.minimum((numbers - float(low)) / float(high - low), 1.0)


def _number(feature: str, value: Any) -> float:
    if not is_number(value):
        raise ContextError(f"feature {feature!r} must be a finite number, got {shown(value)}")
    return float(value)


def time_of_day(feature: str, moment: Any) -> float:
    """Return the share of the day that has passed at a moment: seconds, a `datetime` or a NumPy `datetime64`."""
    if isinstance(moment, np.datetime64):
        seconds = (moment - moment.astype("datetime64[D]")) / np.timedelta64(1, "s")
        if math.isnan(seconds):
            raise ContextError(f"feature {feature!r} must be a date with a time, got {shown(moment)}")
        return float(seconds) / DAY_S
    if isinstance(moment, datetime) and moment == moment:  # pandas' NaT is a datetime too, and equals nothing
        seconds = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
        ahead = moment.utcoffset() or timedelta()
        return float((seconds - ahead.total_seconds()) % DAY_S / DAY_S)
    return _number(feature, moment) % DAY_S / DAY_S
