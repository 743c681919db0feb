"""Axes as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from cosend.axes import Axis, Category, Feature, FromFunction, PreviousLabel, Time, TimeOfDay
from cosend.axis_format import name_of, ticks_of, value_at

AXES: list[tuple[Axis, str, dict[Any, str]]] = [
    (Feature("blood_pressure", range=(50, 250)), "blood pressure", {0.0: "50", 0.5: "150", 1.0: "250"}),
    (Feature("bytes", scale="log", range=(0, 999)), "bytes", {0.0: "0", 1.0: "999"}),
    (Feature("age", window=200), "age", {0.25: "above 25% of the last 200"}),
    (Category("service"), "service", {"http": "http", 7: "7", True: "True"}),
    (PreviousLabel("normal", "attack"), "previous label", {0.0: "normal", 1.0: "attack"}),
    (Time(20_000), "time", {0.5: "10,000"}),
    (TimeOfDay("at"), "at", {0.75: "18:00", 0.6: "14:24"}),
    (FromFunction(len, "length"), "length", {0.125: "0.125"}),
]


@pytest.mark.parametrize(("axis", "name", "values"), AXES, ids=[name for _, name, _ in AXES])
def test_an_axis_has_a_name_and_values_in_its_own_units(axis: Axis, name: str, values: dict[Any, str]) -> None:
    assert name_of(axis) == name
    assert {place: value_at(axis, place) for place in values} == values


@pytest.mark.parametrize("axis", [axis for axis, _, _ in AXES if not axis.is_category])
def test_ticks_lie_on_the_axis_in_their_order(axis: Axis) -> None:
    ticks = ticks_of(axis, lambda: [1.0, 2.0, 3.0])
    places = [place for place, _ in ticks]
    assert places == sorted(places)
    assert 0.0 <= places[0] < places[-1] <= 1.0
    assert len({words for _, words in ticks}) == len(ticks)


def test_a_value_that_many_items_have_is_one_tick_in_the_middle_of_its_places() -> None:
    ticks = ticks_of(Feature("age"), lambda: [21.0] * 40 + [24.0] * 30 + [66.0] * 40)
    assert ticks == [(0.125, "21"), (0.5, "24"), (0.875, "66")]
