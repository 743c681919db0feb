"""Events as bytes: they come back exactly as they were, or an error says what is wrong before anything is written."""

from __future__ import annotations

import random
from decimal import Decimal
from enum import IntEnum
from typing import Any, get_args, get_origin

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from cosend.axes import Axis, Feature
from cosend.engine import events
from cosend.engine.events import DEEPEST, KINDS, decode, encode
from cosend.engine.site_state import SiteState
from cosend.errors import StateError

TEXT = st.text(max_size=6)  # without surrogates, which are no text that UTF-8 knows
FLOATS = st.floats()
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | TEXT | st.binary(max_size=4)
KEYS = st.none() | st.booleans() | st.integers(-9, 9) | TEXT | st.binary(max_size=2) | st.floats(allow_nan=False)


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    few = st.lists(inner, max_size=3)
    return few | few.map(tuple) | st.dictionaries(KEYS, inner, max_size=3)


def strategy(hint: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Return random values of the type of a field."""
    if name in ("ids", "requests"):
        return st.lists(st.integers(0, 2**63 - 1), max_size=4).map(tuple)
    simple = {
        Any: SCALARS if name in ("contexts", "context", "policy", "patience") else st.recursive(SCALARS, branches),
        int: st.integers(-(2**63), 2**64 - 1),
        float: FLOATS,
        str: TEXT,
        bool: st.booleans(),
        bytes: st.binary(max_size=9),
    }
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is dict:
        return st.dictionaries(strategy(arguments[0]), strategy(arguments[1], name), max_size=3)
    if origin is tuple and arguments[-1] is ...:
        return st.lists(strategy(arguments[0], name), max_size=4).map(tuple)
    if origin is tuple:
        return st.tuples(*map(strategy, arguments))
    if type(None) in arguments:
        return st.none() | strategy(arguments[0], name)
    return simple[hint]


def events_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, *(strategy(field.type, field.name) for field in fields(kind)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
@settings(max_examples=8)
@given(data=st.data())
def test_an_event_of_every_kind_comes_back_exactly(kind: type[Any], data: st.DataObject) -> None:
    event = data.draw(events_of(kind))
    assert repr(decode(encode(event))) == repr(event)  # which tells 1 from 1.0 and True, and a list from a tuple


def test_every_event_has_a_tag_of_its_own() -> None:
    tags = [kind.__struct_config__.tag for kind in KINDS]
    assert sorted(tags) == [*range(1, len(KINDS) + 1)]


def test_numbers_of_numpy_become_plain_ones() -> None:
    given_ = (np.int64(3), np.float64(0.1), np.float32(0.5), np.bool_(True), np.str_("a"), np.uint64(2**64 - 1))
    event = decode(encode(events.Answered((1,), given_)))
    assert repr(event) == repr(events.Answered((1,), (3, 0.1, 0.5, True, "a", 2**64 - 1)))
    item = {"age": np.int64(7), np.int64(1): [np.float64(2.0)], "pair": (np.int8(1), "x")}
    event = decode(encode(replace(GOOD, items=(item,))))
    assert repr(event) == repr(replace(GOOD, items=({"age": 7, 1: [2.0], "pair": (1, "x")},)))
    number: Any = np.int64(9)
    gains = decode(encode(events.Labelled((number,), (1,), (np.float64(0.5),))))
    assert repr(gains) == repr(events.Labelled((9,), (1,), (0.5,)))


class Colour(IntEnum):
    RED = 1


def nested(levels: int, kind: type) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = {"in": value} if kind is dict else kind([value])
    return value


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_a_label_may_be_nested_as_deep_as_the_error_says_and_no_deeper(kind: type) -> None:
    event = events.Answered((1,), (nested(DEEPEST, kind),))
    assert repr(decode(encode(event))) == repr(event)
    with pytest.raises(StateError, match=f"at most {DEEPEST} levels deep"):
        encode(events.Answered((1,), (nested(DEEPEST + 1, kind),)))


BAD = [{1, 2}, frozenset(), object(), Decimal(1), 1j, bytearray(b"a"), Colour.RED, np.arange(2), np.longdouble(1)]


@pytest.mark.parametrize("bad", [*BAD, range(2)], ids=lambda bad: type(bad).__name__)
def test_what_msgpack_cannot_carry_is_refused_with_what_is_allowed(bad: Any) -> None:
    for label in (bad, [bad], (0, bad), {"x": {"y": bad}}):
        with pytest.raises(StateError, match=r"Answered cannot be logged: .* is a \w+; allowed are None, True"):
            encode(events.Answered((1, 2), (0, label)))
    with pytest.raises(StateError, match="Chosen cannot be logged"):
        encode(replace(GOOD, items=({"x": bad},)))
    with pytest.raises(StateError, match="Chosen cannot be logged"):
        encode(replace(GOOD, opinions={"tree": (bad,)}))


def test_numbers_and_text_that_msgpack_has_no_room_for_are_refused() -> None:
    for label in (2**64, -(2**63) - 1, "\ud800", [2**64], (2**64,)):
        with pytest.raises(StateError, match="Answered cannot be logged"):
            encode(events.Answered((1,), (label,)))
    with pytest.raises(StateError, match="Chosen cannot be logged"):
        encode(replace(GOOD, items=({(1, 2): 1},)))
    nonsense: Any = "nonsense"
    with pytest.raises(StateError, match="'nonsense' is not an event"):
        encode(nonsense)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(StateError, match="Answered cannot be logged"):
        encode(events.Answered((1,), (endless,)))


GOOD = events.Chosen(1, ((0.5, "a"),), ("tree",), (3,), (1.0,), (7,), {"far": (2, 1)}, ("wild",), (0,), {"tree": 0.1})


def test_bytes_that_are_no_event_are_refused_with_what_is_wrong_and_where() -> None:
    pack, version = msgspec.msgpack.encode, bytes([events.VERSION])
    wrong = {
        "have no version of the encoding": b"",
        "have version 9 of the encoding; this cosend reads version 2": b"\x09" + pack([11, [1]]),
        "are not an event: Input data was truncated": version,
        r"are not an event: Invalid value 99 - at `\$\[0\]`": version + pack([99, 1]),
        r"are not an event: Expected `int`, got `str` - at `\$\[1\]\[1\]`": version + pack([11, [1, "2"]]),
        "are not an event: Expected `array` of at least length 2": version + pack([11]),
        "are not an event: Expected `array` of at most length 1, got 2": version + pack([11, [1], 3]),
        "are not an event: Expected `array`, got `object`": version + pack({"ids": [1]}),
        "trailing characters": version + pack([11, [1]]) + b"\x01",
        "unknown extension 7": version + pack([5, [1], [msgspec.msgpack.Ext(7, b"")]]),
    }
    for sentence, data in wrong.items():
        with pytest.raises(StateError, match=sentence):
            decode(data)


@given(st.binary(max_size=40))
def test_random_bytes_are_an_event_or_our_error(data: bytes) -> None:
    try:
        event = decode(bytes([events.VERSION]) + data)
    except StateError:
        return
    assert type(event) in KINDS


def lines(batch: int, batches: int) -> list[events.Event]:
    """Return the events of items with two axes and text labels, all of which are answered and labelled."""
    draw, log = random.Random(1), list[events.Event]()
    axes: list[Axis] = [Feature("x", range=(0, 1)), Feature("y", range=(0, 1))]
    state = SiteState("north", local={"young": 0.0, "old": 0.1}, axes=axes, journal=log.append)
    for _ in range(batches):
        step = state.choose(state.encode([[draw.random() for _ in range(batch)] for _ in axes])[0])
        ids = range(step.first, step.first + batch)
        state.complete(ids, draw.choices(["normal", "attack"], k=batch))
        state.settle(ids, draw.choices(["normal", "attack"], k=batch), draw.choices([0.0, 1.0], k=batch))
    return log[1:]


@pytest.mark.parametrize(("batch", "most"), [(64, 63), (1, 110)])
def test_an_item_with_its_answer_and_label_takes_few_bytes(batch: int, most: int) -> None:
    data = [encode(event) for event in lines(batch, 320 // batch)]
    assert sum(map(len, data)) / 320 < most
