"""Axes of the context as people read them: their names, and round values in their own units."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np

from cosend.axes import LOG_RANGE, Axis, Feature, FromFunction, PreviousLabel, Time, TimeOfDay, plain_name
from cosend.engine.encoding import FeatureAxis
from cosend.text import round_numbers, short_text

CLOSEST: Final = 0.09  # of two ticks
QUARTERS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
AnyAxis = Axis | FeatureAxis  # one that was given, or a feature that has got one
Ticks = list[tuple[float, str]]  # each with its place in [0, 1]


def name_of(axis: AnyAxis) -> str:
    if isinstance(axis, FeatureAxis):
        return axis.title.replace("_", " ")
    if axis.hears:
        return plain_name(axis)
    name = axis.name if isinstance(axis, FromFunction) else plain_name(axis)
    return name.replace("_", " ")


def ticks_of(axis: AnyAxis, values: Callable[[], Sequence[float] | Any]) -> Ticks:
    """Return round values of an axis of numbers; `values` gives those that came, which a rank lies among."""
    if isinstance(axis, FeatureAxis):
        return _once([(place, value_at(axis, place)) for place in QUARTERS])
    if isinstance(axis, Time):
        return [(value / axis.horizon, f"{value:,.0f}") for value in round_numbers(0, axis.horizon)]
    if isinstance(axis, TimeOfDay):
        return [(hour / 24, f"{hour}:00") for hour in (0, 6, 12, 18, 24)]
    if isinstance(axis, PreviousLabel):
        last = len(axis.classes) - 1
        return [(n / last, short_text(each)) for n, each in enumerate(axis.classes)]
    if not isinstance(axis, Feature):
        return [(place, f"{place:g}") for place in QUARTERS]
    if axis.scale == "rank":  # where a rank lies among all values is the nearest there is to a unit
        quarters = np.quantile(np.asarray(values(), np.float64), QUARTERS)
        return _once([(place, short_text(float(value))) for place, value in zip(QUARTERS, quarters, strict=True)])
    low, high = axis.range or LOG_RANGE
    if axis.scale == "log":
        return _decades(low, high)
    return [((value - low) / (high - low), short_text(value)) for value in round_numbers(low, high)]


def value_at(axis: AnyAxis, place: Any) -> str:
    """Return the value at a place of an axis in its own units, as far as it has any."""
    if isinstance(axis, FeatureAxis):
        return _quantile(axis, place)
    if axis.hears and place is None:
        return "missing"
    if isinstance(place, bool) or not isinstance(place, int | float) or axis.is_category:
        return short_text(place)
    if isinstance(axis, PreviousLabel):
        return short_text(axis.classes[round(place * (len(axis.classes) - 1))])
    if isinstance(axis, Time):
        return f"{place * axis.horizon:,.0f}"
    if isinstance(axis, TimeOfDay):
        return f"{int(24 * place)}:{int(1_440 * place) % 60:02}"
    if not isinstance(axis, Feature):
        return short_text(float(place))
    if axis.scale == "rank":
        return f"above {100 * place:.0f}% of the last {axis.window:,}"
    low, high = axis.range or LOG_RANGE
    if axis.scale == "log":
        return short_text(math.expm1(math.log1p(low) + place * (math.log1p(high) - math.log1p(low))))
    return short_text(low + place * (high - low))


def _once(ticks: Ticks) -> Ticks:
    """Return every value once: in the middle of the places that have it."""
    runs = [[place for place, _ in run] for _, run in groupby(ticks, key=itemgetter(1))]
    values = [value for value, _ in groupby(value for _, value in ticks)]
    return [((run[0] + run[-1]) / 2, value) for run, value in zip(runs, values, strict=True)]


def _quantile(feature: FeatureAxis, place: Any) -> str:
    if place is None or place != place or not feature.edges:
        return short_text(place)
    edge = feature.edges[min(int(place * len(feature.edges)), len(feature.edges) - 1)]
    if feature.values:
        return short_text(feature.values[min(max(0, round(edge)), len(feature.values) - 1)])
    return short_text(float(edge))


def _decades(low: float, high: float) -> Ticks:
    first, last = math.log1p(low), math.log1p(high)
    decades = [low, *(10.0**n for n in range(-3, 19) if low < 10.0**n <= high)]
    ticks = [((math.log1p(value) - first) / (last - first), short_text(value)) for value in decades]
    kept = ticks[:1]
    for place, words in ticks[1:]:
        if place - kept[-1][0] >= CLOSEST:
            kept.append((place, words))
    return kept
