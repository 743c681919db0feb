"""Whatever has names is read as an item; what has none is an error, or said once, and never passed over in silence."""

from __future__ import annotations

import sqlite3
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from cosend import Network, SeesOnly, Site
from cosend.axes import AllFeatures, Category, Feature
from cosend.errors import ContextError, FeatureWarning

pd: Any = import_module("pandas")
linear: Any = import_module("sklearn.linear_model")
naive_bayes: Any = import_module("river.naive_bayes")

Row = namedtuple("Row", ["age", "ward"])
FIELDS = [("age", "f8"), ("ward", "U5")]


@dataclass
class Visit:
    age: float
    ward: str


def of_sqlite(rows: list[dict[str, Any]]) -> Iterator[Any]:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    database.execute("create table visits (age real, ward text)")
    database.executemany("insert into visits values (:age, :ward)", rows)
    return iter(database.execute("select * from visits order by rowid").fetchall())


KINDS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "iterrows": lambda rows: (row for _, row in pd.DataFrame(rows).iterrows()),
    "itertuples": lambda rows: pd.DataFrame(rows).itertuples(index=False),
    "namedtuple": lambda rows: (Row(**row) for row in rows),
    "dataclass": lambda rows: (Visit(**row) for row in rows),
    "numpy": lambda rows: np.array([(row["age"], row["ward"]) for row in rows], FIELDS),
    "numpy record": lambda rows: np.array([(row["age"], row["ward"]) for row in rows], FIELDS).view(np.recarray),
    "numpy, no dimension": lambda rows: (np.array((row["age"], row["ward"]), FIELDS) for row in rows),
    "mapping": lambda rows: map(MappingProxyType, rows),
    "sqlite3": of_sqlite,
}


def visits(count: int) -> list[dict[str, Any]]:
    draw = Random(1)
    return [{"age": float(draw.randrange(100)), "ward": draw.choice(["north", "south"])} for _ in range(count)]


def routed(items: Any, rows: list[dict[str, Any]], context: Any, how: str = "one") -> list[tuple[Any, ...]]:
    """Return what a site makes of items of which one model is right about the young, the other about the old."""
    site = Site(
        "here", classifiers={"yes": lambda _: True, "no": lambda _: False}, context=context, seed=3, learnt=False
    )
    truths = [row["age"] < 50 for row in rows]
    if how == "run":
        return [turn.decision[1:6] for turn in Network([site]).run({"here": zip(items, truths, strict=True)})]
    made = []
    for item, truth in zip(items, truths, strict=True):
        decision = site.classify(item) if how == "one" else site.classify_many([item])[0]
        site.learn(decision, truth)
        made.append(decision[1:6])
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("context", [None, Feature("age", range=(0, 100)), [Feature("age"), Category("ward")]])
def test_a_row_with_names_is_seen_as_a_mapping_is(kind: str, context: Any) -> None:
    rows = visits(200 if context is None else 30)
    expected = routed(rows, rows, context)
    for how in ("many",) if context is None else ("one", "many", "run"):
        assert routed(KINDS[kind](rows), rows, context, how) == expected
    if context is None:
        right = [made[0] == (row["age"] < 50) for made, row in zip(expected, rows, strict=True)]
        assert sum(right[-50:]) > 40  # it sees the age; half of them are right for one who does not


@pytest.mark.parametrize("kind", KINDS)
def test_models_get_rows_as_they_need_them(kind: str) -> None:
    rows = visits(40)
    features = pd.DataFrame({"size": [float(n) for n in range(20)], "age": [100.0 - 5 * n for n in range(20)]})
    fitted = linear.LogisticRegression().fit(features, features["age"] < 50)
    bayes = naive_bayes.GaussianNB()
    for n in range(50):
        bayes.learn_one({"age": float(n * 2)}, n * 2 < 50)
    seen = []

    def own(item: Any) -> bool:
        seen.append(item)
        return True

    models = {"sklearn": SeesOnly(fitted, ["size", "age"]), "river": SeesOnly(bayes, ["age"]), "own": own}
    with_size = [{**row, "size": 50.0} for row in rows]
    for name in ("sklearn", "river"):
        said = []
        for items in (with_size, _with_size(kind, rows)):
            site = Site("here", classifiers={name: models[name]}, context=Feature("age", range=(0, 100)))
            said.append([site.classify(item).label for item in items])
        assert said[0] == said[1]
        assert {*said[0]} == {True, False}
    (item,) = KINDS[kind](rows[:1])
    Site("here", classifiers={"own": own}, context=Feature("age", range=(0, 100))).classify(item)
    assert type(seen[-1]) is type(item)


def _with_size(kind: str, rows: list[dict[str, Any]]) -> Any:
    """Return the rows with one more feature, as rows of a kind."""
    if kind == "dataclass":
        return [_Sized(size=50.0, **row) for row in rows]
    if kind in ("namedtuple", "sqlite3", "mapping"):
        wide = namedtuple("wide", ["size", "age", "ward"])
        return [wide(size=50.0, **row) for row in rows]
    if kind.startswith("numpy"):
        return np.array([(row["ward"], row["age"], 50.0) for row in rows], [FIELDS[1], FIELDS[0], ("size", "f8")])
    frame = pd.DataFrame([{**row, "size": 50.0} for row in rows])
    return (row for _, row in frame.iterrows()) if kind == "iterrows" else frame.itertuples(index=False)


@dataclass
class _Sized(Visit):
    size: float


NAMELESS: dict[str, Any] = {
    "tuple": (31.0, "north"),
    "list": [31.0, "north"],
    "array": np.array([31.0, 1.0]),
    "number": 31.0,
    "text": "31 years, north",
}


@pytest.mark.parametrize("kind", NAMELESS)
def test_what_has_no_names_is_an_error_that_says_what_to_do(kind: str) -> None:
    site = Site("here", classifiers={"yes": lambda _: True}, context=Feature("age", range=(0, 100)))
    with pytest.raises(ContextError, match=r"no feature 'age'; it has no names .* give a mapping, a row of pandas"):
        site.classify(NAMELESS[kind])
    with pytest.raises(ContextError, match="no names"):
        site.classify_many([{"age": 3}, NAMELESS[kind]])
    assert site.summary().items == 0


@pytest.mark.parametrize("kind", NAMELESS)
def test_where_every_feature_is_looked_at_it_is_said_once(kind: str) -> None:
    site = Site("here", classifiers={"yes": lambda _: True})
    site.classify({"age": 3})
    with pytest.warns(FeatureWarning, match="an item has no names: .* give a mapping, a row of pandas") as warned:
        site.classify_many([NAMELESS[kind]] * 3)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        site.classify(NAMELESS[kind])
    with pytest.warns(FeatureWarning):
        Site("there", classifiers={"yes": lambda _: True}, context=AllFeatures(without=["x"])).classify(NAMELESS[kind])


@pytest.mark.parametrize("context", [None, Feature("age", range=(0, 100))])
def test_many_items_at_once_are_for_classify_many(context: Any) -> None:
    site = Site("here", classifiers={"yes": lambda _: True}, context=context)
    rows = visits(3)
    for many in (pd.DataFrame(rows), KINDS["numpy"](rows), rows, [*KINDS["namedtuple"](rows)]):
        with pytest.raises(ContextError, match="of 3 items: classify_many takes these"):
            site.classify(many)
        assert len(site.classify_many(many)) == 3
    assert site.summary().items == 12
