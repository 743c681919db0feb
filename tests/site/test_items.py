"""Items in batches of every kind, read once and by column, to the same bits as one by one."""

from __future__ import annotations

import importlib
import math
import random
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import CoS, Network, Site, ZoomingKLUCB
from cosend.algorithm.layout import MOST_CODES
from cosend.axes import MANY, Axis, Category, Feature, FromFunction, Time, TimeOfDay, read_columns
from cosend.engine.encoding import Codes, Encoder
from cosend.errors import ContextError, SettingError

pandas: Any = importlib.import_module("pandas")
AXES: list[Axis] = [
    Feature("size", scale="log", range=(0, 1e6)),
    Feature("age", range=(0, 100), outside="clip"),
    Feature("age", window=5),
    Category("kind"),
    Time(50),
    TimeOfDay("at"),
    FromFunction(lambda item: item["size"] / 1e6),
]


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "size": draw.choice([draw.random() * 1e6, draw.randrange(10**6)]),
            "age": draw.choice([draw.uniform(-20, 120), draw.randrange(130)]),
            "kind": draw.choice(["http", "smtp", 7, True, "7"]),
            "at": draw.choice([datetime(2026, 1, 2, 3, 4, 5, 6, UTC), 1e9 * draw.random(), np.datetime64("now")]),
        }
        for _ in range(count)
    ]


def test_a_batch_is_read_to_the_same_bits_as_its_items_one_by_one() -> None:
    items, together, single = rows(200), Encoder(AXES), Encoder(AXES)
    points = together.place(read_columns(AXES, items), 0)
    for n, item in enumerate(items):
        (point,) = single.place(read_columns(AXES, [item]), n)
        assert point.tobytes() == points[n].tobytes()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 10**400, "5", None, 101, -0.5])
@pytest.mark.parametrize("place", [0, 7, MANY])
def test_what_is_wrong_with_one_of_many_numbers_is_said_as_of_one_alone(bad: Any, place: int) -> None:
    axis, items = Feature("age", range=(0, 100)), [{"age": n} for n in range(MANY + 1)]
    items[place]["age"] = bad
    with pytest.raises(ContextError) as alone:
        axis.read([items[place]])
    with pytest.raises(ContextError) as together:
        axis.read(items)
    assert str(together.value) == str(alone.value)


def counting(site: str, called: list[Any]) -> Site:
    def half(item: Any) -> float:
        called.append(item)
        return 0.5

    axis = FromFunction(half)
    return Site(site, classifiers={"one": lambda _: 1}, context=axis, policy=CoS(slices=1, order="train_first"))


@pytest.mark.parametrize("values", [[10**400, -(10**400)], [10**400], [1e308, 1e308, math.inf]])
def test_numbers_that_no_float_can_hold_are_found_in_a_batch_as_alone(values: list[Any]) -> None:
    with pytest.raises(ContextError, match="must be a finite number"):
        read_columns([Feature("age", range=(0, 1e300), outside="clip")], [{"age": value} for value in values])


def test_a_number_that_is_text_says_which_axis_takes_text() -> None:
    site = Site("here", classifiers={"one": lambda _: 1}, context=Feature("ward", range=(0, 1)))
    with pytest.raises(ContextError) as found:
        site.classify({"ward": "west"})
    text = "feature 'ward' must be a finite number, got 'west'"
    assert str(found.value) == f"{text}; for text, use axes.Category('ward'), in a network file kind = \"category\""
    site = Site("here", classifiers={"one": lambda _: 1}, context=TimeOfDay("at"))
    with pytest.raises(ContextError, match=r"'at' must be a finite number, got 'noon'$"):
        site.classify({"at": "noon"})


def test_a_context_function_of_the_user_is_called_once_for_an_item() -> None:
    called: list[Any] = []
    site = counting("lab", called)
    Network([site, counting("hq", [])])
    site.classify("a")
    site.classify_many(["b", "c"])
    assert called == ["a", "b", "c"]


def a_site() -> Site:
    models = {"old": lambda item: int(item["age"] > 50), "never": lambda _: 0}
    return Site("lab", classifiers=models, context=[Feature("age", range=(0, 100)), Category("kind")])


def test_a_data_frame_and_an_array_with_names_are_items_too() -> None:
    ages, kinds = [10, 60, 90, 20], ["a", "b", "a", "c"]
    items = [{"age": age, "kind": kind} for age, kind in zip(ages, kinds, strict=True)]
    expected = a_site().classify_many(items)
    assert a_site().classify_many(pandas.DataFrame({"age": ages, "kind": kinds})) == expected
    named = np.array(list(zip(ages, kinds, strict=True)), [("age", np.int64), ("kind", "U1")])
    assert a_site().classify_many(named) == expected
    assert a_site().classify_many([]) == []
    with pytest.raises(SettingError, match="a list of items, a DataFrame, or an array with named fields"):
        a_site().classify_many({"age": 10, "kind": "a"})


class LikePolars:
    """What a DataFrame of polars has: rows by `to_dicts`, and a `to_dict` that is not that of pandas."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns
        self.columns = list(columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __iter__(self) -> Any:
        return iter(self._columns.values())

    def to_dict(self, *, as_series: bool = True) -> dict[str, list[Any]]:
        return self._columns

    def to_dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self._columns, row, strict=True)) for row in zip(*self._columns.values(), strict=True)]


def test_a_data_frame_of_polars_is_items_too() -> None:
    columns: dict[str, list[Any]] = {"age": [10, 60, 90], "kind": ["a", "b", "a"]}
    items = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    assert a_site().classify_many(LikePolars(columns)) == a_site().classify_many(items)
    assert a_site().classify_many(LikePolars({"age": [], "kind": []})) == []
    with pytest.raises(ContextError, match="the item has no feature 'kind'; it has 'age'"):
        a_site().classify_many(LikePolars({"age": [10]}))


@pytest.mark.parametrize("unit", ["ns", "us", "s", "m", "h"])
def test_the_time_of_day_of_numpy_s_moments_is_read_in_their_own_unit(unit: str) -> None:
    axis = TimeOfDay("at")
    moment = np.datetime64("1999-12-31T06:00").astype(f"datetime64[{unit}]")
    assert list(axis.read([{"at": moment}])) == [0.25]
    assert list(axis.read([{"at": np.datetime64("1969-07-20", "D")}])) == [0.0]
    with pytest.raises(ContextError, match="'at' must be a date with a time"):
        axis.read([{"at": np.datetime64("NaT")}])


@pytest.mark.parametrize(
    "bad", [math.nan, None, [1], np.datetime64("2026-01-01"), object()], ids=["nan", "none", "list", "moment", "object"]
)
def test_a_category_must_be_a_plain_value(bad: Any) -> None:
    site = a_site()
    with pytest.raises(ContextError, match="category 'kind' must be text, a truth value or a number"):
        site.classify({"age": 1, "kind": bad})
    assert site.learner.arrivals == 0


def test_every_value_of_a_category_has_cells_of_its_own() -> None:
    """What is right depends on the category and on nothing else: each value is learnt apart."""
    right = {"http": "a", "smtp": "b", "ftp": "c"}
    models = {name: (lambda _, name=name: name) for name in right.values()}
    site = Site("lab", classifiers=models, context=Category("kind"), policy=ZoomingKLUCB())
    draw = random.Random(1)
    for _ in range(300):
        kind = draw.choice(list(right))
        site.learn(site.classify({"kind": kind}), right[kind])
    made = [site.classify({"kind": kind}) for kind in right]
    assert [decision.label for decision in made] == list(right.values())
    assert [decision.context for decision in made] == [(kind,) for kind in right]
    assert len({decision.cell for decision in made}) == 3
    assert sorted(cell.axes for cell in site.learner.cells().values()) == [(0,), (1,), (2,)]


def test_sites_understand_each_other_s_categories_whatever_came_first_at_each() -> None:
    """At one site the code of "a" is 0, at the other 1: a call carries the value and not the code."""
    axes: list[Axis] = [Category("kind"), Feature("x", range=(0, 1))]
    lab = Site("lab", classifiers={"poor": lambda _: None}, context=axes)
    two = {"a": lambda _: "a", "b": lambda _: "b"}
    hq = Site("hq", classifiers=two, context=axes, policy=ZoomingKLUCB())  # which would not ask lab first
    Network([lab, hq])
    hq.learn(hq.classify({"kind": "b", "x": 0.5}), "b")
    draw = random.Random(2)
    for _ in range(200):
        kind = draw.choice("ab")
        lab.learn(lab.classify({"kind": kind, "x": draw.random()}), kind)
    assert [lab.classify({"kind": kind, "x": 0.3}).label for kind in "ab"] == ["a", "b"]
    assert lab.engine.state.encoder.codes[0].values != hq.engine.state.encoder.codes[0].values == ["b", "a"]
    assert hq.report(("never seen", 0.5)) == (0, 0)


def test_values_beyond_all_codes_share_the_last_one() -> None:
    codes = Codes()
    assert [codes.code(n) for n in range(MOST_CODES + 3)][-5:] == [4094, 4095, 4095, 4095, 4095]
    assert (codes.code(3), codes.value(3), codes.value(MOST_CODES - 1)) == (3, 3, None)
    assert codes.find("new") == MOST_CODES - 1
    assert Codes(codes.values).values == codes.values


@given(
    st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)).filter(lambda pair: pair[1] - pair[0] > 1e-6),
    st.lists(st.one_of(st.floats(0.0, 1.0), st.booleans().map(int)), min_size=MANY, max_size=3 * MANY),
)
def test_many_numbers_are_scaled_to_the_same_bits_as_each_alone(ends: tuple[float, float], shares: list[float]) -> None:
    low, high = ends
    axis = Feature("age", range=ends)
    values: list[float] = [min(high, max(low, low + share * (high - low))) for share in shares]
    if low <= 3 <= high:
        values[0] = 3  # a whole number among the others
    together = read_columns([axis], [{"age": value} for value in values])[0]
    alone = [axis.read([{"age": value}])[0] for value in values]
    assert np.array(together).tobytes() == np.array(alone).tobytes()
