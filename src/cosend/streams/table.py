"""Rows in memory: columns of features, and labels where they are known, in the order in which rows arrive."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cosend.checks import LARGEST, is_missing
from cosend.errors import StreamError, shown

Column = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Blame = Callable[[int, str, str], StreamError]  # position of the value, what is wrong, what is allowed

NO_LABELS: Final = ("", "nan", "NaN", "NaT", "<NA>")  # how a missing label is written as text


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a stream: what models see, what only contexts see, the true labels, and where each row arrives.

    `known` says which labels are not missing; another label replaces these, so that a column of whole numbers
    stays one. `vocabulary` has the values of each text column, which give its codes in `matrix`: by default those that
    occur, so that parts of a table have the codes of the whole.
    """

    features: dict[str, Column]
    labels: Column
    contexts: dict[str, Column] = field(default_factory=dict)
    sites: Column | None = None
    vocabulary: dict[str, tuple[str, ...]] = field(default_factory=dict)
    known: Mask = field(default_factory=lambda: np.ones(0, np.bool_))  # [row]; all of them unless given

    def __post_init__(self) -> None:
        if not len(self.known):
            object.__setattr__(self, "known", np.ones(len(self.labels), np.bool_))
        occurring = {
            name: tuple(np.unique(column).tolist())
            for name, column in self.columns.items()
            if column.dtype.kind == "U" and name not in self.vocabulary
        }
        object.__setattr__(self, "vocabulary", {**self.vocabulary, **occurring})

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def columns(self) -> dict[str, Column]:
        return {**self.features, **self.contexts}

    def rows(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield every row as an item, a dictionary of plain values, with its label: None where it is unknown."""
        columns = self.columns
        plain = [column.tolist() for column in columns.values()]
        for *values, label in zip(*plain, self.truths(), strict=True):
            yield dict(zip(columns, values, strict=True)), label

    def truths(self) -> list[Any]:
        """Return the labels as plain values, None where they are unknown."""
        both = zip(self.labels.tolist(), self.known.tolist(), strict=True)
        return [label if known else None for label, known in both]

    @property
    def unlabelled(self) -> int:
        return int((~self.known).sum())

    def part(self, start: int, stop: int) -> Table:
        return Table(
            {name: column[start:stop] for name, column in self.features.items()},
            self.labels[start:stop],
            {name: column[start:stop] for name, column in self.contexts.items()},
            None if self.sites is None else self.sites[start:stop],
            self.vocabulary,
            self.known[start:stop],
        )

    def at(self, rows: Mask) -> Table:
        """Return some of the rows."""
        return Table(
            {name: column[rows] for name, column in self.features.items()},
            self.labels[rows],
            {name: column[rows] for name, column in self.contexts.items()},
            None if self.sites is None else self.sites[rows],
            self.vocabulary,
            self.known[rows],
        )

    def matrix(self) -> npt.NDArray[np.float64]:
        """Return the features as numbers [row, feature]: text as the rank of the value among the sorted vocabulary."""
        codes = np.empty((len(self), len(self.features)), np.float64)
        for number, (name, column) in enumerate(self.features.items()):
            words = self.vocabulary.get(name)
            codes[:, number] = column if words is None else np.searchsorted(sorted(words), column)
        return codes

    def digest(self) -> str:
        """Return the SHA-256 of all names and values, to tell whether two runs had the same rows."""
        found = hashlib.sha256()
        whole = {**self.columns, "the labels": self.labels}
        if self.sites is not None:
            whole["the sites"] = self.sites
        if self.unlabelled:
            whole["which labels are known"] = self.known
        for name, column in whole.items():
            found.update(f"{name}\0{column.dtype.kind}\0{len(column)}\0".encode())
            found.update(column.tobytes() if column.dtype.kind in "biuf" else "\0".join(column.tolist()).encode())
        return found.hexdigest()


def as_column(values: Sequence[Any], blame: Blame) -> Column:
    """Turn plain values into a column: of numbers if all are finite numbers, else of text.

    A column that is mostly numbers is a damaged column of numbers, and is refused. Empty values do not count in that.
    """
    for number, value in enumerate(values):
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise blame(number, f"{shown(value)} is not a value", "finite numbers and text are allowed")
    numbers = _numbers(values)
    if numbers is None:
        return _as_text(values, blame)
    for number, value in enumerate(numbers):
        if not -LARGEST - 1 <= value <= LARGEST and isinstance(value, int):
            allowed = "whole numbers go from {:d} to {:d}; larger ones must be text, with a letter in it"
            raise blame(number, f"{value} has more than 64 bits", allowed.format(-LARGEST - 1, LARGEST))
    return np.array(values if set(map(type, values)) == {bool} else numbers)


def _as_text(values: Sequence[Any], blame: Blame) -> Column:
    good = [_numbers([value]) is not None for value in values]
    blank = sum(isinstance(value, str) and not value.strip() for value in values)
    if 2 * sum(good) > len(values) - blank:
        bad = good.index(False)
        allowed = "most of the column is numbers, so all must be"
        raise blame(bad, f"{shown(values[bad])} is not a finite number", allowed)
    for number, value in enumerate(values):
        if isinstance(value, str) and "\0" in value:  # NumPy would drop it from the end of a text
            raise blame(number, f"{shown(value)} has a NUL character", "text must be without one")
    return np.array([str(value) for value in values], np.str_)


def _numbers(values: Sequence[str | float]) -> list[int] | list[float] | None:
    """Return the values as numbers, None if one of them is not a finite number."""
    if any("_" in value for value in values if isinstance(value, str)):
        return None  # 1_000 is a number only to Python
    try:
        if not any(isinstance(value, float) for value in values):
            return list(map(int, values))
    except ValueError:
        pass  # not whole, or not a number at all
    try:
        numbers = list(map(float, values))
    except (ValueError, OverflowError):
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def as_labels(values: Sequence[Any], blame: Blame) -> tuple[Column, Mask]:
    """Turn labels into a column, with another label instead of missing ones, and say which are known."""
    known = np.array(
        [each.strip() not in NO_LABELS if isinstance(each, str) else not is_missing(each) for each in values]
    )
    places = np.flatnonzero(known).tolist()
    if not places:
        raise blame(0, "no row has a label", "at least one is needed")
    column = as_column([values[place] for place in places], lambda number, *why: blame(places[number], *why))
    labels = np.repeat(column[:1], len(known))
    labels[known] = column
    return labels, known
