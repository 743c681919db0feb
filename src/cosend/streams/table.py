"""A stream that fits into memory: columns of features and a label for every row, in the order they arrive."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.errors import StreamError

Column = npt.NDArray[Any]
Blame = Callable[[int, str, str], StreamError]  # number of the value, what is wrong, what is allowed

PLAIN: Final = (str, int, float)  # a bool is an int


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a stream: what models see, what only contexts see, the true labels, and where each row arrives.

    `vocabulary` names the values that a text column can have, and so its codes in `matrix`. It is fixed here, by the
    values that occur unless it is given, so that the parts of a table have the codes of the whole.
    """

    features: dict[str, Column]
    labels: Column
    contexts: dict[str, Column] = field(default_factory=dict)
    sites: Column | None = None
    vocabulary: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        both = sorted(self.features.keys() & self.contexts.keys())
        if both:
            raise StreamError("is a feature and a context", "contexts see the features as they are", column=both[0])
        for name in self.vocabulary:
            self.column(name)
        self._check_lengths()
        occurring = {
            name: _words(name, column)
            for name, column in self._columns().items()
            if column.dtype.kind not in "biuf" and name not in self.vocabulary
        }
        object.__setattr__(self, "vocabulary", {**self.vocabulary, **occurring})

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield every row as an item, a dictionary of plain values, with its label."""
        names = list(self._columns())
        columns = [column.tolist() for column in self._columns().values()]
        for *values, label in zip(*columns, self.labels.tolist(), strict=True):
            yield dict(zip(names, values, strict=True)), label

    def part(self, start: int, stop: int) -> Table:
        """Return the rows start .. stop-1."""
        return Table(
            {name: column[start:stop] for name, column in self.features.items()},
            self.labels[start:stop],
            {name: column[start:stop] for name, column in self.contexts.items()},
            None if self.sites is None else self.sites[start:stop],
            self.vocabulary,
        )

    def column(self, name: str) -> Column:
        """Return a column of the features or of the contexts."""
        if name not in self._columns():
            raise StreamError("no such column", f"there are {listed(self._columns())}", column=name)
        return self._columns()[name]

    def matrix(self) -> npt.NDArray[np.float64]:
        """Return the features as numbers [row, feature]: text as the rank of the value among the sorted vocabulary."""
        codes = np.empty((len(self), len(self.features)), np.float64)
        for number, (name, column) in enumerate(self.features.items()):
            numeric = column.dtype.kind in "biuf" and name not in self.vocabulary
            codes[:, number] = column if numeric else _ranks(name, column, self.vocabulary[name])
        return codes

    def _columns(self) -> dict[str, Column]:
        return {**self.features, **self.contexts}

    def _check_lengths(self) -> None:
        columns: dict[str, Column] = {**self._columns(), "labels": self.labels}
        if self.sites is not None:
            columns["sites"] = self.sites
        for name, column in columns.items():
            if column.shape != (len(self.labels),):
                allowed = f"one value for each of the {len(self.labels)} labels is allowed"
                raise StreamError(f"has the shape {column.shape}", allowed, column=name)


def listed(names: Iterator[str] | Sequence[str] | dict[str, Any]) -> str:
    """Return names as they stand in the sentence of an error."""
    return ", ".join(repr(name) for name in names) or "none"


def as_column(values: Sequence[Any], blame: Blame) -> Column:
    """Turn plain values into a column: of numbers if all parse as finite numbers, else of text.

    Mostly numbers and a few other values is a damaged column of numbers, not one of text. Empty values have no say in
    that: a column of numbers with many gaps stays one, and is refused.
    """
    numbers = _numbers(values)
    if numbers is not None:
        return numbers
    for number, value in enumerate(values):
        if not isinstance(value, PLAIN):
            raise blame(number, f"{value!r} is no value", "numbers and text are allowed")
    parsed = [_number(value) for value in values]
    blank = sum(isinstance(value, str) and not value.strip() for value in values)
    if 2 * sum(number is not None for number in parsed) > len(values) - blank:
        bad = next(n for n, number in enumerate(parsed) if number is None or not math.isfinite(number))
        raise blame(bad, f"{values[bad]!r} is no finite number", "most of the column is numbers, so all must be")
    return np.array([str(value) for value in values], np.str_)


def _numbers(values: Sequence[Any]) -> Column | None:
    """Return the values as one array of numbers, or None if one of them is no finite number."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values, np.bool_)
    if any("_" in value for value in values if isinstance(value, str)):
        return None  # 1_000 is a number only to Python
    if float not in kinds:
        try:
            return np.array(list(map(int, values)), np.int64)
        except (TypeError, ValueError, OverflowError):
            pass  # not whole, or not a number at all: the next attempt tells
    try:
        numbers = np.array(list(map(float, values)), np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def _number(value: str | float) -> float | None:
    """Return what one value is as a number, NaN and infinity included; None if it is none."""
    if isinstance(value, str) and "_" in value:
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf


def _words(name: str, column: Column) -> tuple[str, ...]:
    """Return the values that occur in a text column."""
    words = set(column.tolist())
    if not all(isinstance(word, str) for word in words):
        raise StreamError(f"has the type {column.dtype}", "numbers and text are allowed", column=name)
    return tuple(sorted(words))


def _ranks(name: str, column: Column, vocabulary: tuple[Any, ...]) -> npt.NDArray[np.int64]:
    """Return the rank of every value among the sorted vocabulary."""
    rank = {value: number for number, value in enumerate(sorted(vocabulary))}
    try:
        return np.array([rank[value] for value in column.tolist()], np.int64)
    except KeyError as error:
        raise StreamError(
            f"{error.args[0]!r} is not in the vocabulary", f"it has {listed(vocabulary)}", column=name
        ) from None
