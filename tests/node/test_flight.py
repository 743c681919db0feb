"""Items on their way, as columns: some of them, a part of them, and with others."""

from __future__ import annotations

from typing import Any

import pytest

from cosend.node.flight import Flight, Flights

COUNT = 5
COLUMNS: list[Any] = [[(name, n) for n in range(COUNT)] for name in Flights._fields]
ALL = Flights(*COLUMNS)


def numbers(flights: Flights) -> list[int]:
    """Return which of them these are; every column must say the same."""
    columns: Any = flights
    (found,) = {tuple(n for _, n in column) for column in columns}
    return [*found]


@pytest.mark.parametrize("rows", [[0], [4], [1, 3], [0, 1, 2, 3, 4], [4, 2, 0]])
def test_some_of_them_are_the_same_rows_of_every_column(rows: list[int]) -> None:
    assert numbers(ALL.at(rows)) == rows


@pytest.mark.parametrize(("start", "end"), [(0, 5), (0, 2), (3, 5), (2, 3)])
def test_a_part_of_them_and_then_the_rest(start: int, end: int) -> None:
    assert numbers(ALL.part(start, end)) == [*range(start, end)]
    assert numbers(ALL.at([1]).with_others(ALL.part(start, end))) == [1, *range(start, end)]


def test_one_by_one_they_have_the_fields_of_a_flight() -> None:
    each = [*ALL.at([2, 4]).one_by_one()]
    assert [type(flight) for flight in each] == [Flight, Flight]
    assert tuple(each[1]) == tuple((name, 4) for name in Flights._fields)
