"""What is found out about features: which get axes and when, and where their values lie."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import Site, fold
from cosend.algorithm.learner import MOST_FEATURES
from cosend.axes import LOOKED_AT, TEXT_NUMBERS, AllFeatures, Feature, numbers_of, plain_name, text_numbers
from cosend.engine import events
from cosend.engine.encoding import (
    DIRECTIONS,
    ENOUGH,
    MOST_NAMES,
    FeatureAxes,
    NewAxes,
    features_state,
    known,
    number,
    principal_directions,
    read_features,
    vector,
)
from cosend.errors import ContextError, FeatureWarning, SettingError
from tests.oracle.features_twin import FeaturesTwin, number_of


def some_item(draw: random.Random, n: int) -> dict[str, Any]:
    """Draw an item with all that may happen to a feature."""
    item: dict[str, Any] = {
        "size": draw.choice([0, 0, 0, 5, 40, draw.randrange(2000)]),
        "weight": draw.gauss(70, 10),
        "kind": draw.choice("aaabbcdefghijklmnopqrstuvwxyz") if n > 150 else draw.choice("abc"),
        "is new": draw.random() < 0.3,
        "same": 3,
        "first same": 3.0 if n < 200 else draw.choice([3, 4, 5]),
        "text": "yes" if n < 129 else draw.choice(["yes", "no", np.zeros(2)]),
        "one": 1 if n < 140 else draw.choice([1, 1.0, True, np.float64(1.0), np.ones(2), np.array(1.0)]),
        "name": f"{draw.randrange(1000, 9999)}",
        "prompt": some_text(draw) if draw.random() < 0.9 else draw.choice([None, 3, 0.5, "", "hello"]),
        "mixed": draw.choice([1, "one", True, 2.5]),
        "when": datetime(2024, 1, 1),
    }
    if draw.random() < 0.2:
        del item["weight"]
    if draw.random() < 0.1:
        item["size"] = draw.choice([None, math.nan, "large", True, 10**30, -(10**30), -0.0, math.inf])
    if n > 130:
        item["late"] = draw.randrange(3)
        item["late and same"] = True
    return item


def some_text(draw: random.Random) -> str:
    """Draw a text with all that its numbers look at."""
    parts = [
        "word",
        "Wort",
        "слово",
        "字",
        "12",
        "3.5",
        "{x: y}",
        "\n",
        "\t ",
        "?",
        "\uff1f",
        "\ud800",
        "🙂",
        "\u2003",
        ".",
    ]
    text = " ".join(draw.choices(parts, k=draw.randrange(40)))
    return text * 100 if draw.random() < 0.05 else text


def placed(watched: FeatureAxes, items: list[dict[str, Any]]) -> list[list[float]]:
    """Place items as a site does: in parts that end where axes come."""
    rows, done = list[list[float]](), 0
    while done < len(items):
        found = watched.found(items[done])
        if found is not None:
            watched.enter(found)
        count, _ = watched.watch(items[done:])
        rows += watched.place(items[done : done + count]).tolist()
        done += count
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_features_and_their_slow_twin_agree(seed: int) -> None:
    draw = random.Random(seed)
    items = [some_item(draw, n) if n % 30 or n < 129 else {} for n in range(1, 321)]
    twin, watched = FeaturesTwin(), FeatureAxes()
    expected = [twin.item(item) for item in items]
    assert np.array_equal(_padded(placed(watched, items)), _padded(expected), equal_nan=True)
    assert [(feature.name, feature.of) for feature in watched.axes] == list(twin.axes)
    assert {of for name, of in twin.axes if name == "prompt"} == {*TEXT_NUMBERS}
    assert watched.ignored == set(twin.out) == {"name", "when"}
    assert watched.constant == twin.same == {"same": 3}
    assert twin.axes.keys() >= {(name, "") for name in ("late", "late and same", "first same", "text")}
    one = FeatureAxes()
    assert np.array_equal(_padded([row for item in items for row in placed(one, [item])]), _padded(expected), True)


def _padded(rows: list[list[float]]) -> Any:
    return np.array([row + [-1.0] * (20 - len(row)) for row in rows])


def test_places_see_quantiles_in_slices_and_single_values_in_all() -> None:
    watched = FeatureAxes()
    items = [{"x": n % 10, "y": n / 7, "t": "abcde"[n % 5]} for n in range(ENOUGH)]
    placed(watched, [*items, {}])
    x, y, t = watched.place([{"x": n % 10, "y": n / 7, "t": "abcde"[n % 5]} for n in range(ENOUGH)]).T
    assert len(set(x)) == 10  # as many places as values
    assert len(set(np.floor(y * 16))) == 16
    assert len(set(y)) <= 64  # hardly any value comes twice: slices are all that there is
    assert len(set(np.floor(t * 4))) == 4
    assert len(set(t)) == 5
    assert np.isnan(watched.place([{"x": "one", "y": None}])).all()
    (new,) = watched.place([{"t": "never seen"}])[:, 2]
    assert 0.0 < new < 1.0


def test_there_are_only_so_many_axes() -> None:
    watched = FeatureAxes()
    names = [str(n) for n in range(MOST_FEATURES + 5)]
    placed(watched, [{name: n * (name < "5") for name in names} for n in range(ENOUGH + 1)])
    assert len(watched.axes) + len(watched.constant) == MOST_FEATURES
    assert len(watched.constant) > 100
    assert len(watched.ignored) == 5


def test_names_that_are_new_again_and_again_are_not_watched_for_ever() -> None:
    watched = FeatureAxes()
    placed(watched, [{f"{n} {k}": k for k in range(60)} for n in range(2 * ENOUGH)])
    assert len(watched.seen) + len(watched.ignored) + len(watched.axes) == MOST_NAMES
    watched = FeatureAxes()
    names = [str(n) for n in range(MOST_FEATURES)]
    placed(watched, [dict.fromkeys(names, n) for n in range(ENOUGH + 1)])
    watched.watch([{**dict.fromkeys(names, 1), "late": 1}])
    assert watched.seen == {}  # there is no axis left for it


def test_what_is_known_can_be_saved() -> None:
    draw, watched = random.Random(1), FeatureAxes()
    placed(watched, [some_item(draw, n) for n in range(150)])
    again = read_features(features_state(watched))
    assert again == watched
    assert features_state(None) is None is read_features(None)
    broken = features_state(watched)
    broken["axes"][0][1] = [0.5]
    with pytest.raises(ValueError, match="other edges"):
        read_features(broken)
    for same in ({"same": None}, {"same": [1]}, {"size": 3}):
        with pytest.raises(ValueError, match="never changed"):
            read_features({**features_state(watched), "same": same})


def test_what_a_log_says_never_changed_must_not_have_changed() -> None:
    for values in ([1, 1, 2], [None, None], [1, None]):
        watched = FeatureAxes()
        watched.remember({"x": values}, own=True)
        with pytest.raises(ValueError, match="is said to be the same"):
            watched.enter(NewAxes([], [], ["x"]))


def test_features_that_come_later_get_axes_at_the_same_item_after_a_restart() -> None:
    """In the first step some never changed; one that comes later never changes either, and gets an axis."""
    items = [{"x": n % 7, "same": 1, **({"late": 5} if n >= 200 else {})} for n in range(340)]
    for stop in (100, 200, 250):
        live, restarted = FeatureAxes(), FeatureAxes()
        before = placed(restarted, items[:stop])
        again = read_features(features_state(restarted))
        assert again is not None
        assert placed(live, items) == [*before, *placed(again, items[stop:])]
        assert again == live
        assert ([feature.name for feature in live.axes], live.constant) == (["x", "late"], {"same": 1})


def test_values_are_text_truth_or_numbers() -> None:
    assert known(np.float32(0.5)) == 0.5
    assert known(np.datetime64("2024-01-01")) is None
    assert known([1]) is None
    assert type(known(np.longdouble(2.5))) is float
    assert known(np.longdouble(2.5)) == number(np.longdouble(2.5)) == 2.5
    assert known(np.longdouble("inf")) is known(np.longdouble("nan")) is known(np.clongdouble(1)) is None
    assert known(2**70) == float(2**70)
    assert known(10**400) is None
    assert math.isnan(number("1"))
    assert number(7) == 7.0
    axis = AllFeatures(("a",))
    assert axis.read([{"a": 1, "b": 2}, "text"]) == [{"b": 2}, {}]
    assert (axis.description, axis.is_category, axis.ranked) == ("every feature but a", False, 0)
    assert axis.place([1], None, 0) == [1]
    with pytest.raises(SettingError):
        AllFeatures(("",))


class Lazy(Mapping[str, Any]):
    """A mapping that fails when its second value is wanted."""

    def __getitem__(self, name: str) -> Any:
        if name == "y":
            raise OSError("gone")
        return 1

    def __iter__(self) -> Iterator[str]:
        return iter("xy")

    def __len__(self) -> int:
        return 2


def test_an_item_that_cannot_be_read_changes_nothing() -> None:
    log: list[events.Event] = []
    site = Site("edge", classifiers={"a": lambda item: 1}, journal=log.append)
    site.classify({"x": 1, "y": np.longdouble(2)})
    before = features_state(site.engine.state.encoder.features)
    with pytest.raises(ContextError, match="features of an item cannot be read: OSError: gone"):
        site.classify_many([{"x": 1, "y": 2}, Lazy()])
    assert features_state(site.engine.state.encoder.features) == before
    site.classify({"x": 2, "y": np.longdouble("inf")})
    assert fold(log).encoder.features == site.engine.state.encoder.features


def test_features_whose_names_are_not_text_are_a_warning_at_the_line_of_the_user() -> None:
    site = Site("edge", classifiers={"a": lambda item: 1})
    with pytest.warns(FeatureWarning, match="must be text, and others are not looked at: int$") as caught:
        site.classify({0: 1.5, 1: 2, "x": 3})
    assert [warning.filename for warning in caught] == [__file__]
    assert site.engine.state.encoder.feature_axes.seen == {"x": [3]}
    site.classify({"x": 4})


# Texts


@pytest.mark.parametrize("seed", range(50))
def test_the_numbers_of_a_text_and_their_slow_twin_agree(seed: int) -> None:
    draw = random.Random(seed)
    for text in ("", " ", "?", "a?\n\x0b ", "? a", "x" * 5000, some_text(draw), some_text(draw) * 30):
        expected = [number_of(text, each) for each in TEXT_NUMBERS]
        assert [*numbers_of(text)] == expected


def test_only_the_beginning_of_a_long_text_is_looked_at_and_its_end_for_a_question() -> None:
    numbers = dict(zip(TEXT_NUMBERS, numbers_of("a " * LOOKED_AT + "1 {}\n" * 9 + "why?"), strict=True))
    assert numbers == {
        "length": 2.0 * LOOKED_AT + 49,
        "words": LOOKED_AT / 2,
        "digits": 0.0,
        "other scripts": 0.0,
        "code": 0.0,
        "lines": 1.0,
        "question": 2.0,
    }


def test_a_text_that_hardly_repeats_gets_axes_for_its_numbers_that_differ() -> None:
    watched = FeatureAxes()
    items = [{"prompt": "word " * (n % 40) + str(n), "id": f"id-{n}"} for n in range(ENOUGH + 1)]
    placed(watched, items)
    assert watched.axis_names == ["prompt: length", "prompt: words", "prompt: digits"]
    assert watched.ignored == {"id"}  # one word each
    short, long = watched.place([{"prompt": "word 1"}, {"prompt": "word " * 39 + "1"}])
    assert (short[:2] < long[:2]).all()
    assert np.isnan(watched.place([{"prompt": 3}, {"prompt": None}, {}])).all()


def test_a_number_of_a_text_is_not_mistaken_for_a_feature_of_its_name() -> None:
    site = Site("s", classifiers={"one": lambda _: 1}, context=[Feature("text", of="length"), AllFeatures()])
    for n in range(ENOUGH + 1):
        site.classify({"text": "x " + "y" * n, "text: length": n, "(text: length)": n})
    names = site.axis_names
    assert names[0] == "Feature(feature='text', scale='rank', range=None, outside='error', window=1000, of='length')"
    assert set(names[1:]) == {"((text: length))", "text: length", "(text: length)"}
    assert len(names) == 4


def test_texts_get_no_more_axes_than_there_is_room_for() -> None:
    watched = FeatureAxes()
    rest = {str(n): 0 for n in range(MOST_FEATURES - 2)}
    items = [{**rest, "a": f"{'x' * n} 1", "b": f"{'x ' * n} 1"} for n in range(ENOUGH + 1)]
    placed(watched, items)
    assert watched.axis_names == ["a: length", "a: digits"]
    assert watched.ignored == {"b"}


def test_numbers_of_texts_are_the_same_after_a_restart_and_from_the_log() -> None:
    log: list[events.Event] = []
    site = Site("s", classifiers={"one": lambda _: 1}, journal=log.append)
    draw = random.Random(5)
    for n in range(ENOUGH + 20):
        site.learn(site.classify({"prompt": some_text(draw), "n": n % 3}), 1)
    again = fold(log)
    assert again.encoder.axis_names == site.axis_names
    assert "prompt: question" in site.axis_names
    assert read_features(features_state(again.encoder.features)) == site.engine.state.encoder.features
    broken = features_state(again.encoder.features)
    next(axis for axis in broken["axes"] if axis[-1] == "question")[-1] = "colour"
    with pytest.raises(ValueError, match="not in"):
        read_features(broken)


def test_a_number_of_a_text_is_an_axis_by_name() -> None:
    axis = Feature("prompt", of="words", range=(0, 10), outside="clip")
    assert axis.read([{"prompt": "one two"}] * 20) == [0.2] * 20
    assert plain_name(axis) == "prompt: words"
    assert repr(axis).endswith("outside='clip', window=1000, of='words')")
    assert repr(Feature("age")) == "Feature(feature='age', scale='rank', range=None, outside='error', window=1000)"
    assert [each.of for each in text_numbers("prompt")] == [*TEXT_NUMBERS]
    with pytest.raises(SettingError, match="of must be one of 'length', 'words'"):
        Feature("prompt", of="colour")
    with pytest.raises(ContextError, match="feature 'prompt' must be text, got 3: its words is an axis"):
        axis.read([{"prompt": 3}])


def some_vector(draw: random.Random, n: int) -> Any:
    """Draw what a feature that is a vector may have."""
    vector = [draw.gauss(0, 9), draw.gauss(5, 3), draw.gauss(0, 1), 7.0, draw.choice([0, 1])]
    unusual = [None, [], [1.0], "text", 3, [*vector, math.nan], [*vector, "one"], [*vector, True], [10**400]]
    return draw.choice(unusual) if n % 11 == 5 else draw.choice([vector, tuple(vector)])


def test_directions_of_vectors_are_those_of_the_twin() -> None:
    draw = random.Random(3)
    items = [
        {"v": some_vector(draw, n), "x": n, "flat": [1.0, 2.0], "rare": [n] if n % 60 == 0 else 1} for n in range(140)
    ]
    twin, watched = FeaturesTwin(), FeatureAxes()
    found = placed(watched, items)
    assert np.array_equal(_padded(found), _padded([twin.item(item) for item in items]), equal_nan=True)
    assert [(feature.name, feature.of) for feature in watched.axes] == list(twin.axes)
    assert watched.ignored == set(twin.out) == {"flat"}
    assert watched.axis_names == [*(f"v: direction {n}" for n in range(1, 5)), "x", "rare"]
    weights = [list(feature.weights) for feature in watched.axes if feature.weights]
    assert weights == list(twin.weights.values())


def test_directions_are_those_in_which_vectors_differ_most() -> None:
    rows = np.random.default_rng(2).standard_normal((128, 40)) @ np.diag(0.8 ** np.arange(40))
    found = principal_directions(rows)
    assert found.shape == (40, DIRECTIONS)
    np.testing.assert_allclose(found.T @ found, np.eye(DIRECTIONS), atol=1e-9)
    best = np.linalg.svd(rows - rows.mean(0), full_matrices=False)[2][:DIRECTIONS]
    spread, most = (((rows - rows.mean(0)) @ each).var() for each in (found, best.T))
    assert spread > 0.99 * most
    assert principal_directions(np.ones((9, 3))).shape == (3, 0)
    assert principal_directions(np.zeros((9, 3))).shape == (3, 0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2.5], (1.0, 2.5)),
        (np.array([1, 2], np.int8), (1.0, 2.0)),
        ((np.float32(0.5), 1), (0.5, 1.0)),
        (np.ones((2, 2)), None),
        ([1e308, 1e308], None),
        ([10**400], None),
        ([1, None], None),
        ("12", None),
    ],
)
def test_a_vector_is_a_list_of_finite_numbers(value: Any, expected: Any) -> None:
    assert vector(value) == expected


def vectors(count: int, kind: Any = list) -> list[dict[str, Any]]:
    draw = random.Random(8)
    return [{"n": n % 3, "v": kind([draw.gauss(0, 1 + k % 5) for k in range(12)])} for n in range(count)]


def test_a_vector_says_which_model_is_right() -> None:
    models = {"up": lambda item: "up", "down": lambda item: "down"}
    right = dict.fromkeys((True, False), 0)
    for has_vector in right:
        site = Site("s", classifiers=models, learnt=False, seed=1)
        for n, item in enumerate(vectors(800)):
            truth = "up" if item["v"][4] > 0 else "down"
            decision = site.classify(item if has_vector else {"n": item["n"]})
            right[has_vector] += n >= 400 and decision.label == truth
            site.learn(decision, truth)
    assert right[False] < 260
    assert right[True] > 320


def test_vectors_are_the_same_in_batches_as_arrays_after_a_restart_and_from_the_log(tmp_path: Path) -> None:
    log: list[events.Event] = []
    models = {"one": lambda _: 1, "two": lambda item: int(item["v"][4] > 0)}
    one, many = (Site("s", classifiers=models) for _ in range(2))
    logged, items = Site("s", classifiers=models, journal=log.append), vectors(ENOUGH + 60)
    logged.classify_many(items)
    for n, item in enumerate(items):
        one.learn(one.classify(item), int(item["v"][4] > 0))
        if n in (ENOUGH - 20, ENOUGH + 20):  # while it is watched, and with axes
            one.save(tmp_path / "state")
            loaded = Site("s", classifiers=models)
            loaded.load(tmp_path / "state")
            assert loaded.engine.state.encoder.features == one.engine.state.encoder.features
            one = loaded
    decoded = [events.decode(events.encode(event)) for event in log]
    assert fold(decoded).encoder.features == one.engine.state.encoder.features
    again = many.classify_many(vectors(ENOUGH + 60, np.array))
    assert many.axis_names == one.axis_names == ("n", *(f"v: direction {n}" for n in range(1, DIRECTIONS + 1)))
    both = zip(
        again, [Site.classify(site, item) for site in [Site("s", classifiers=models)] for item in items], strict=True
    )
    assert all(batch == single for batch, single in both)


def test_lists_that_are_no_vectors_are_not_looked_at_and_that_is_said_once() -> None:
    site = Site("s", classifiers={"one": lambda _: 1})
    items = [{"x": 1, "words": ["a", "b"], "none": [], "deep": [[1]], "long": [0.5] * 5_000, "v": [1, 2]}] * 2
    with pytest.warns(FeatureWarning, match="a list is looked at if it has at most 4,096 finite numbers") as said:
        site.classify_many(items)
    assert [str(each.message).split(",")[0] for each in said] == [
        "feature 'words' is a list of 2 values",
        "feature 'deep' is a list of 1 values",
        "feature 'long' is a list of 5",
    ]
    assert {each.filename for each in said} == {__file__}


def test_vectors_that_hardly_ever_have_the_same_length_get_no_axes() -> None:
    watched = FeatureAxes()
    placed(watched, [{"n": n % 3, "v": [0.5] * (1 + n % 64)} for n in range(ENOUGH + 1)])
    assert watched.axis_names == ["n"]
    assert watched.ignored == {"v"}


def test_only_so_many_lists_of_an_item_are_looked_at_and_the_others_are_named_once() -> None:
    site, draw = Site("s", classifiers={"one": lambda _: 1}), random.Random(4)
    items = [
        {"long": [draw.random() for _ in range(4_096)], **{f"v{k}": [draw.random()] for k in range(12)}, "x": n % 3}
        for n in range(ENOUGH + 40)
    ]
    said = "features 'v8', 'v9', 'v10', 'v11' are lists that only models see: .* at most 8,192 numbers together"
    with pytest.warns(FeatureWarning, match=said) as caught:
        site.classify_many(items)
    assert [warning.filename for warning in caught] == [__file__]
    long = [f"long: direction {n}" for n in range(1, DIRECTIONS + 1)]
    assert site.axis_names == (*long, *(f"v{k}: direction 1" for k in range(8)), "x")
    with pytest.warns(FeatureWarning, match="features 'late' are lists that only models see"):
        site.classify({**items[0], "late": [1, 2]})


@pytest.mark.parametrize("seed", range(3))
def test_lists_beyond_the_room_and_their_slow_twin_agree(seed: int) -> None:
    """Some are there in part of the items only, so that more of them are done at once than an item may have."""
    draw = random.Random(seed)
    names = [f"v{k}" for k in range(30)]

    def some(n: int) -> dict[str, Any]:
        lists: dict[str, Any] = {name: [draw.random()] * (600 if name == "v3" else 1) for name in names[: n % 30 + 1]}
        few = draw.sample(names, 6 if n % 2 else 14)
        return {"n": n} | {name: values for name, values in lists.items() if name in few or n == 0}

    items = [some(29 if n == 0 else n) for n in range(300)]
    twin, watched, one = FeaturesTwin(), FeatureAxes(), FeatureAxes()
    with pytest.warns(FeatureWarning):
        found = placed(watched, items)
    expected = _padded([twin.item(item) for item in items])
    assert np.array_equal(_padded(found), expected, equal_nan=True)
    assert [(feature.name, feature.of) for feature in watched.axes] == list(twin.axes)
    assert watched.ignored == set(twin.out)
    with pytest.warns(FeatureWarning):
        assert np.array_equal(_padded([row for item in items for row in placed(one, [item])]), expected, True)
    assert one == watched


def test_vectors_get_no_more_axes_than_there_is_room_for() -> None:
    watched = FeatureAxes()
    rest = {str(n): 0 for n in range(MOST_FEATURES - 3)}
    placed(watched, [{**rest, **item} for item in vectors(ENOUGH + 1)])
    assert watched.axis_names == ["n", "v: direction 1", "v: direction 2"]
