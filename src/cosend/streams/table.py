"""Rows in memory: columns of features, and labels where they are known, in the order in which rows arrive."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.checks import LARGEST, any_missing, is_missing
from cosend.errors import StreamError, listed, shown

Column = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Blame = Callable[[int, str, str], StreamError]  # position of the value, what is wrong, what is allowed

PLAIN: Final = (str, int, float, Decimal)  # a bool is an int
MOST_DIGITS: Final = 300  # before the point; a float has few more


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a stream: what models see, what only contexts see, the true labels, and where each row arrives.

    `known` says which labels are not missing (None, NaN, NaT); another label stands in place of those, so that a column
    of whole numbers stays one. `vocabulary` has the values of each text column, which give its codes in `matrix`: by
    default those that occur, so that parts of a table have the codes of the whole.
    """

    features: dict[str, Column]
    labels: Column
    contexts: dict[str, Column] = field(default_factory=dict)
    sites: Column | None = None
    vocabulary: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    known: Mask = field(default_factory=lambda: np.ones(0, np.bool_))  # [row]; found from the labels unless given

    def __post_init__(self) -> None:
        both = sorted(self.features.keys() & self.contexts.keys())
        if both:
            raise StreamError("is a feature and a context", "contexts see the features as they are", column=both[0])
        columns = self._columns()
        for name in self.vocabulary:
            if name not in columns:
                raise _no_such_column(name, columns)
        if not len(self.known):
            labels, known = _filled(self.labels)
            object.__setattr__(self, "labels", labels)
            object.__setattr__(self, "known", known)
        self._check_lengths()
        occurring = {
            name: _words(name, column)
            for name, column in columns.items()
            if column.dtype.kind not in "biuf" and name not in self.vocabulary
        }
        object.__setattr__(self, "vocabulary", {**self.vocabulary, **occurring})

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield every row as an item, a dictionary of plain values, with its label: None where it is unknown."""
        names = list(self._columns())
        columns = [column.tolist() for column in self._columns().values()]
        for *values, label in zip(*columns, self.truths(), strict=True):
            yield dict(zip(names, values, strict=True)), label

    def truths(self) -> list[Any]:
        """Return the labels as plain values, None where they are unknown."""
        labels: list[Any] = self.labels.tolist()
        if not self.unlabelled:
            return labels
        return [label if known else None for label, known in zip(labels, self.known.tolist(), strict=True)]

    @property
    def unlabelled(self) -> int:
        """How many rows have no label."""
        return int((~self.known).sum())

    def part(self, start: int, stop: int) -> Table:
        """Return the rows start .. stop-1."""
        return Table(
            {name: column[start:stop] for name, column in self.features.items()},
            self.labels[start:stop],
            {name: column[start:stop] for name, column in self.contexts.items()},
            None if self.sites is None else self.sites[start:stop],
            self.vocabulary,
            self.known[start:stop],
        )

    def column(self, name: str) -> Column:
        """Return a column of the features or of the contexts."""
        columns = self._columns()
        if name not in columns:
            raise _no_such_column(name, columns)
        return columns[name]

    def matrix(self) -> npt.NDArray[np.float64]:
        """Return the features as numbers [row, feature]: text as the rank of the value among the sorted vocabulary."""
        codes = np.empty((len(self), len(self.features)), np.float64)
        for number, (name, column) in enumerate(self.features.items()):
            numeric = column.dtype.kind in "biuf" and name not in self.vocabulary
            codes[:, number] = column if numeric else _ranks(name, column, self.vocabulary[name])
        return codes

    def digest(self) -> str:
        """Return the SHA-256 of all names and values, to tell whether two runs had the same rows."""
        found = hashlib.sha256()
        whole = {**self._columns(), "the labels": self.labels}
        if self.sites is not None:
            whole["the sites"] = self.sites
        if self.unlabelled:
            whole["which labels are known"] = self.known
        for name, column in whole.items():
            found.update(f"{name}\0{column.dtype.kind}\0{len(column)}\0".encode())
            found.update(column.tobytes() if column.dtype.kind in "biuf" else "\0".join(column.tolist()).encode())
        return found.hexdigest()

    def _columns(self) -> dict[str, Column]:
        return {**self.features, **self.contexts}

    def _check_lengths(self) -> None:
        columns: dict[str, Column] = {**self._columns(), "labels": self.labels, "known": self.known}
        if self.sites is not None:
            columns["sites"] = self.sites
        for name, column in columns.items():
            if column.shape != (len(self.labels),):
                allowed = f"one value for each of the {len(self.labels)} labels is allowed"
                raise StreamError(f"has the shape {column.shape}", allowed, column=name)


def _no_such_column(name: str, columns: dict[str, Column]) -> StreamError:
    return StreamError("no such column", f"there are {listed(columns)}", column=name)


def as_column(values: Sequence[Any], blame: Blame) -> Column:
    """Turn plain values into a column: of numbers if all parse as finite numbers, else of text.

    A column that is mostly numbers is a damaged column of numbers, and is refused. Empty values do not count in that.
    """
    values = _without_decimals(values)
    numbers = _numbers(values, blame)
    if numbers is not None:
        return numbers
    for number, value in enumerate(values):
        if not isinstance(value, PLAIN):
            raise blame(number, f"{shown(value)} is not a value", "numbers and text are allowed")
        if isinstance(value, str) and "\0" in value:  # NumPy would drop it from the end of a text
            raise blame(number, f"{shown(value)} has a NUL character", "text must be without one")
    parsed = [_number(value) for value in values]
    blank = sum(isinstance(value, str) and not value.strip() for value in values)
    if 2 * sum(number is not None for number in parsed) > len(values) - blank:
        bad = next(n for n, number in enumerate(parsed) if number is None or not math.isfinite(number))
        raise blame(
            bad, f"{shown(values[bad])} is not a finite number", "most of the column is numbers, so all must be"
        )
    return np.array([str(value) for value in values], np.str_)


def where_known(labels: Sequence[Any], column: str, file: str | os.PathLike[str] | None = None) -> Mask:
    """Return which labels are known: neither missing nor blank text. At least one must be."""
    known = np.array([bool(each.strip()) if isinstance(each, str) else not is_missing(each) for each in labels])
    if len(known) and not known.any():
        raise StreamError("no row has a label", "at least one is needed", file=file, column=column)
    return known


def as_labels(values: Sequence[Any], known: Mask, blame: Blame) -> Column:
    """Turn labels into a column, and refuse two that differ but would become the same number."""
    if known.all():
        return _as_classes(values, blame)
    places = np.flatnonzero(known).tolist()
    column = _as_classes([values[place] for place in places], lambda number, *why: blame(places[number], *why))
    return _spread(column, known)


def _filled(labels: Column) -> tuple[Column, Mask]:
    """Return labels with the first known one where they are missing, and where they are known."""
    plain = labels.tolist() if labels.ndim == 1 else []
    if not any_missing(plain):
        return labels, np.ones(len(labels), np.bool_)
    known = where_known(plain, "labels")
    column = labels[known]
    return _spread(np.array(column.tolist()) if column.dtype.kind == "O" else column, known), known


def _spread(column: Column, known: Mask) -> Column:
    """Return the known labels in their places, and the first of them everywhere else."""
    labels = np.repeat(column[:1], len(known))
    labels[known] = column
    return labels


def _as_classes(values: Sequence[Any], blame: Blame) -> Column:
    column = as_column(values, blame)
    if column.dtype.kind != "f":
        return column
    exact: dict[float, Decimal] = {}
    for number, (value, kept) in enumerate(zip(values, column.tolist(), strict=True)):
        if exact.setdefault(kept, Decimal(value)) != Decimal(value):
            wrong = f"{shown(value)} and {exact[kept]} would be one class, {kept!r}"
            raise blame(number, wrong, "labels may have 15 digits, or be text")
    return column


def _without_decimals(values: Sequence[Any]) -> Sequence[Any]:
    """Return decimals as int if they are whole, else as the nearest float."""
    if not any(isinstance(value, Decimal) for value in values):
        return values
    return [_from_decimal(value) if isinstance(value, Decimal) else value for value in values]


def _from_decimal(value: Decimal) -> float:
    if not value.is_finite() or value.adjusted() > MOST_DIGITS:
        return math.nan
    return int(value) if value == value.to_integral_value() else float(value)


def _numbers(values: Sequence[Any], blame: Blame) -> Column | None:
    """Return the values as one array of numbers, or None if one of them is not a finite number."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values, np.bool_)
    if any("_" in value for value in values if isinstance(value, str)):
        return None  # 1_000 is a number only to Python
    if all(issubclass(kind, str | int) for kind in kinds):
        try:
            return _whole(list(map(int, values)), blame)
        except StreamError:
            raise
        except ValueError:
            pass  # not whole, or not a number at all
    try:
        numbers = np.array(list(map(float, values)), np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def _whole(values: Sequence[int], blame: Blame) -> Column:
    """Return whole numbers as a column; as floats, two that differ could become one."""
    for number, value in enumerate(values):
        if not -LARGEST - 1 <= value <= LARGEST:
            allowed = (
                f"whole numbers go from {-LARGEST - 1} to {LARGEST}; larger ones must be text, with a letter in it"
            )
            raise blame(number, f"{shown(value)} has more than 64 bits", allowed)
    return np.array(values, np.int64)


def _number(value: str | float) -> float | None:
    """Return a value as a number, NaN and infinity included; None if it is not a number."""
    if isinstance(value, str) and "_" in value:
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf


def _words(name: str, column: Column) -> tuple[str, ...]:
    words = set(column.tolist())
    if not all(isinstance(word, str) for word in words):
        raise StreamError(f"has the type {column.dtype}", "numbers and text are allowed", column=name)
    return tuple(sorted(words))


def _ranks(name: str, column: Column, vocabulary: tuple[Any, ...]) -> npt.NDArray[np.int64]:
    rank = {value: number for number, value in enumerate(sorted(vocabulary))}
    try:
        return np.array([rank[value] for value in column.tolist()], np.int64)
    except KeyError as error:
        raise StreamError(
            f"{error.args[0]!r} is not in the vocabulary", f"it has {listed(vocabulary)}", column=name
        ) from None
