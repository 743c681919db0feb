"""From an item to its context: every kind of axis, what each refuses, and that a refusal leaves no trace."""

from __future__ import annotations

import importlib
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import CoS, Site
from cosend.axes import Axis, Feature, FromFunction, PreviousLabel, Time, TimeOfDay, read_columns
from cosend.engine.encoding import Encoder
from cosend.errors import ContextError, CosendError, SettingError

ANY_TIME: Any = Time
ANY_FEATURE: Any = Feature  # for settings that the types do not allow


def read(
    axis: Axis | Sequence[Axis], item: Any, encoder: Encoder | None = None, arrivals: int = 0
) -> tuple[float, ...]:
    """Return where an item lies that comes after `arrivals` others."""
    axes = axis if isinstance(axis, Sequence) else [axis]
    (point,) = (encoder or Encoder(axes)).place(read_columns(axes, [item]), arrivals)
    return tuple(point.tolist())


def site_with(axis: Axis | Sequence[Axis], label: Any = 1) -> Site:
    return Site("lab", classifiers={"same": lambda _: label}, context=axis, policy=CoS(slices=4))


def day(hour: int, zone: timedelta = timedelta()) -> datetime:
    return datetime(2024, 5, 1, hour, tzinfo=timezone(zone))


X, AT = Feature("x", range=(0, 1)), TimeOfDay("at")
CLIPPED = Feature("x", scale="log", outside="clip")
PLACES: list[tuple[Axis, Any, float]] = [
    (X, {"x": 0}, 0.0),
    (X, {"x": True}, 1.0),
    (Feature("x", range=(-10, 30)), {"x": 0}, 0.25),
    (Feature("x", range=(2, 4), outside="clip"), {"x": 3}, 0.5),
    (Feature("x", range=(2, 4), outside="clip"), {"x": -3}, 0.0),
    (Feature("x", range=(2, 4), outside="clip"), {"x": 5}, 1.0),
    (Feature("x", scale="log"), {"x": 999.5}, math.log1p(999.5) / math.log1p(1e9)),
    (Feature("x", scale="log", range=(1, 7)), {"x": 7}, 1.0),
    (CLIPPED, {"x": -1}, 0.0),
    (CLIPPED, {"x": 1e12}, 1.0),
    (PreviousLabel("normal", "attack"), {}, 0.0),  # before any label is known
    (Time(4), {}, 0.25),
    (FromFunction(len, "length"), [1], 1.0),
    (AT, {"at": 86_400 * 3 + 21_600.0}, 0.25),
    (AT, {"at": -21_600}, 0.75),
    (AT, {"at": day(6)}, 0.25),
    (AT, {"at": datetime(2024, 5, 1, 23, 59, 59, 500_000)}, 86_399.5 / 86_400),
    (AT, {"at": day(6, timedelta(hours=3))}, 0.125),
    (AT, {"at": day(18, -timedelta(hours=12))}, 0.25),
    (AT, {"at": datetime.max.replace(hour=18, minute=0, second=0, microsecond=0, tzinfo=UTC)}, 0.75),
]


@pytest.mark.parametrize(("axis", "item", "place"), PLACES, ids=[f"{axis} {item}" for axis, item, _ in PLACES])
def test_a_value_has_its_place_on_an_axis(axis: Axis, item: Any, place: float) -> None:
    assert read(axis, item) == (place,)


def test_the_time_stays_at_the_end_of_its_horizon() -> None:
    assert [read(Time(4), {}, arrivals=n) for n in (3, 4, 9)] == [(1.0,)] * 3


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1))
def test_a_value_within_its_range_lies_in_0_to_1(low: float, width: float, share: float) -> None:
    high = low + width
    value = min(high, low + share * width)
    (place,) = read(Feature("x", range=(low, high)), {"x": value})
    assert 0.0 <= place <= 1.0
    assert place == pytest.approx((value - low) / (high - low))


@given(st.lists(st.integers(-5, 5), max_size=40), st.integers(1, 10))
def test_rank_is_the_share_of_recent_values_below_with_equal_ones_half(values: list[int], window: int) -> None:
    axis = Feature("x", scale="rank", window=window)
    encoder = Encoder([axis])
    for n, value in enumerate(values):
        recent = sorted(values[max(0, n - window) : n])
        expected = (bisect_left(recent, value) + bisect_right(recent, value)) / (2 * len(recent)) if recent else 0.5
        assert read(axis, {"x": value}, encoder) == (expected,)


def test_two_rank_axes_of_one_feature_keep_their_own_windows() -> None:
    axes = [Feature("x", scale="rank", window=1), Feature("x", scale="rank", window=10)]
    encoder = Encoder(axes)
    places = [read(axes, {"x": value}, encoder) for value in (1, 2, 3, 2.5)]
    assert places == [(0.5, 0.5), (1.0, 1.0), (1.0, 1.0), (0.0, pytest.approx(2 / 3))]


def test_previous_label_is_that_of_the_newest_item_however_late_the_others_come() -> None:
    site = site_with(PreviousLabel("a", "b", "c"), label="a")
    first, second, third = site.classify_many([{}, {}, {}])
    site.learn(second.id, "b")
    assert site.classify({}).context == (0.5,)
    site.learn(first.id, "c")
    assert site.classify({}).context == (0.5,)
    site.learn(third.id, "c")
    assert site.classify({}).context == (1.0,)


def test_a_label_that_is_no_class_of_the_context_is_refused_and_changes_nothing() -> None:
    site = site_with(PreviousLabel("a", "b"))
    decision = site.classify({})
    before = str(site.state())
    with pytest.raises(ContextError, match=r"'z' is not one of the classes .*'a', 'b'"):
        site.learn(decision.id, "z")
    assert str(site.state()) == before


@given(st.datetimes())
def test_a_datetime_and_its_seconds_since_1970_give_the_same_time_of_day(moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    axis = TimeOfDay("at")
    (clock,), (seconds,) = read(axis, {"at": moment}), read(axis, {"at": moment.timestamp()})
    assert min(abs(clock - seconds), 1 - abs(clock - seconds)) < 1e-9
    assert 0.0 <= clock <= 1.0


def test_several_contexts_are_several_axes_in_their_order() -> None:
    axes: list[Axis] = [
        Feature("x", range=(0, 1)),
        Feature("y", scale="log", range=(0, 1)),
        Feature("z", scale="rank"),
        Time(10),
        PreviousLabel(0, 1),
        FromFunction(lambda item: 1 - item["x"]),
    ]
    assert read(axes, {"x": 0.25, "y": 1, "z": 99}, arrivals=4) == (0.25, 1.0, 0.5, 0.5, 0.0, 0.75)
    assert site_with(axes).classify({"x": 0.25, "y": 1, "z": 99}).context == (0.25, 1.0, 0.5, 0.1, 0.0, 0.75)


BAD_ITEMS: list[tuple[Axis, Any, list[str]]] = [
    (Feature("x", range=(0, 1)), {"x": math.nan}, ["'x'", "finite number", "nan"]),
    (Feature("x", range=(0, 1)), {"x": math.inf}, ["'x'", "finite number", "inf"]),
    (Feature("x", range=(0, 1), outside="clip"), {"x": -math.inf}, ["'x'", "finite number", "-inf"]),
    (Feature("x", range=(0, 1), outside="clip"), {"x": math.nan}, ["'x'", "finite number", "nan"]),
    (Feature("x", scale="rank"), {"x": math.nan}, ["'x'", "finite number", "nan"]),
    (Feature("x", range=(0, 1)), {"x": "0.5"}, ["'x'", "finite number", "'0.5'"]),
    (Feature("x", range=(0, 1)), {"x": None}, ["'x'", "finite number", "None"]),
    (Feature("x", range=(0, 1)), {"x": 10**400}, ["'x'", "finite number"]),
    (Feature("x", range=(0, 1)), {"y": 1, "z": 2}, ["no feature 'x'", "'y', 'z'"]),
    (Feature("x", range=(0, 1)), [0.5], ["no feature 'x'", "[0.5]"]),
    (Feature("x", range=(0, 1)), {"x": 1.5}, ["'x'", "[0, 1]", "1.5", "clip"]),
    (Feature("x", range=(0, 1)), {"x": 1.0000000001}, ["'x'", "[0, 1]", "1.0000000001"]),
    (Feature("x", range=(2, 4)), {"x": 1}, ["'x'", "[2, 4]", "1"]),
    (Feature("x", scale="log"), {"x": -1}, ["'x'", "[0, 1e+09]", "-1"]),
    (TimeOfDay("at"), {}, ["no feature 'at'"]),
    (TimeOfDay("at"), {"at": "noon"}, ["'at'", "finite number", "'noon'"]),
    (TimeOfDay("at"), {"at": math.nan}, ["'at'", "finite number", "nan"]),
    (TimeOfDay("at"), {"at": importlib.import_module("pandas").NaT}, ["'at'", "NaT"]),
    (FromFunction(lambda _: 1.2, "mine"), {}, ["'mine'", "[0, 1]", "1.2"]),
    (FromFunction(lambda _: math.nan, "mine"), {}, ["'mine'", "[0, 1]", "nan"]),
    (FromFunction(lambda item: item["x"], "mine"), {"x": "a"}, ["'mine'", "[0, 1]", "'a'"]),
    (FromFunction(lambda item: item["x"], "mine"), {"y": 1}, ["'mine'", "KeyError", "'x'"]),
]


@pytest.mark.parametrize(
    ("axis", "item", "fragments"), BAD_ITEMS, ids=[f"{axis.description}: {said[-1]}" for axis, _, said in BAD_ITEMS]
)
def test_an_item_whose_context_cannot_be_computed_is_refused_and_changes_nothing(
    axis: Axis, item: Any, fragments: list[str]
) -> None:
    """The other axis is a rank: its window must not remember an item that was refused."""
    site = site_with([FromFunction(lambda _: 0.5), axis] if isinstance(item, list) else [RANK, axis])
    if isinstance(item, dict):
        item = {"r": 7, **item}
    before = str(site.state())
    with pytest.raises(ContextError) as caught:
        site.classify(item)
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)
    assert str(site.state()) == before


RANK = Feature("r", scale="rank")


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("bad", [{"r": 1, "x": 2}, {"r": math.nan, "x": 0}, {"x": 0}, {"r": 1}, "text"])
def test_a_refused_item_in_a_batch_leaves_the_site_as_it_was(bad: Any, place: int) -> None:
    site = site_with([RANK, Feature("x", range=(0, 1)), PreviousLabel("a", "b")])
    good = [{"r": 5, "x": 0.5}, {"r": 3, "x": 0.1}]
    site.classify_many(good)
    before = str(site.state())
    with pytest.raises(ContextError):
        site.classify_many([*good[:place], bad, *good[place:]])
    assert str(site.state()) == before
    assert site.classify({"r": 4, "x": 0}).context == (0.5, 0.0, 0.0)


BAD_SETTINGS: list[tuple[Callable[[], object], list[str]]] = [
    (lambda: ANY_FEATURE("x", scale="cubic"), ["scale", "'linear', 'log', 'rank'", "'cubic'"]),
    (lambda: ANY_FEATURE("x", outside="wrap"), ["outside", "'error', 'clip'", "'wrap'"]),
    (lambda: Feature("x", window=0), ["window", "at least 1", "0"]),
    (lambda: ANY_FEATURE("x", window=2.5), ["window", "whole number", "2.5"]),
    (lambda: Feature("x", range=(1, 1)), ["range", "low < high", "(1, 1)"]),
    (lambda: Feature("x", range=(2, 1)), ["range", "low < high", "(2, 1)"]),
    (lambda: Feature("x", range=(0, math.inf)), ["range", "low < high", "inf"]),
    (lambda: Feature("x", range=(math.nan, 1)), ["range", "low < high", "nan"]),
    (lambda: Feature("x", scale="log", range=(-1, 1)), ["range", "low >= 0", "(-1, 1)"]),
    (lambda: ANY_FEATURE("x", range=("0", "1")), ["range", "low < high"]),
    (lambda: ANY_FEATURE("x", range=5), ["range", "low < high", "5"]),
    (lambda: ANY_FEATURE("x", range=(1, 2, 3)), ["range", "low < high", "(1, 2, 3)"]),
    (lambda: PreviousLabel(), ["classes", "two or more"]),
    (lambda: PreviousLabel("a"), ["classes", "two or more", "'a'"]),
    (lambda: PreviousLabel("a", "b", "a"), ["classes", "different"]),
    (lambda: Time(0), ["horizon", "at least 1", "0"]),
    (lambda: ANY_TIME(1.5), ["horizon", "whole number", "1.5"]),
]


@pytest.mark.parametrize(("build", "fragments"), BAD_SETTINGS, ids=[" ".join(said) for _, said in BAD_SETTINGS])
def test_a_setting_that_is_not_allowed_is_refused_when_the_axis_is_built(
    build: Callable[[], object], fragments: list[str]
) -> None:
    with pytest.raises(SettingError) as caught:
        build()
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)


@pytest.mark.parametrize("context", ["x", [], ["x"], [Feature("x", range=(0, 1)), 3], 5], ids=repr)
def test_a_site_refuses_a_context_that_is_no_axis(context: Any) -> None:
    with pytest.raises(CosendError, match=r"context|dimensions"):
        site_with(context)
