"""Many values of one kind as columns: making a tuple of each takes longer than most of what is done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

R = TypeVar("R", bound=tuple[Any, ...])


class Rows(Sequence[R]):
    """A sequence of named tuples that are made when somebody looks at them.

    make     makes one of its fields
    columns  a sequence for each field, all of the same length; nobody changes them
    """

    __slots__ = ("_make", "columns")

    def __init__(self, make: Callable[[Iterable[Any]], R], *columns: Sequence[Any]) -> None:
        self._make, self.columns = make, columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[R]:
        return map(self._make, zip(*self.columns, strict=True))

    @overload
    def __getitem__(self, place: int) -> R: ...

    @overload
    def __getitem__(self, place: slice) -> Rows[R]: ...

    def __getitem__(self, place: int | slice) -> R | Rows[R]:
        if isinstance(place, slice):
            return Rows(self._make, *(column[place] for column in self.columns))
        return self._make(column[place] for column in self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    def __repr__(self) -> str:
        return repr([*self])


def columns_of(rows: Sequence[tuple[Any, ...]], width: int) -> Sequence[Sequence[Any]]:
    """Return the columns of tuples that have so many fields."""
    if isinstance(rows, Rows):
        return rows.columns
    return [*zip(*rows, strict=True)] if rows else [()] * width
