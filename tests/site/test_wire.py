"""Events as bytes: they come back exactly as they were, or an error says what is wrong before anything is written."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from decimal import Decimal
from enum import IntEnum
from importlib import import_module
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosend import Context, Patience, Rules, fold, verify
from cosend.errors import CosendError, StateError
from cosend.site import events
from cosend.site.context import Axis
from cosend.site.values import DEEPEST
from cosend.site.wire import KINDS, decode, encode
from tests.policies import POLICIES, mostly_claims
from tests.site.test_fold import AXES, RANKED, everything, played

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
        Any: st.recursive(SCALARS, branches, max_leaves=5),
        int: st.integers(-(2**63), 2**64 - 1),
        float: FLOATS | st.integers(0, 1),
        str: TEXT,
        bool: st.booleans(),
    }
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Mapping:
        return st.dictionaries(strategy(arguments[0]), strategy(arguments[1]), max_size=3)
    if origin is tuple and arguments[-1] is ...:
        return st.lists(strategy(arguments[0]), max_size=4).map(tuple)
    if origin is tuple:
        return st.tuples(*map(strategy, arguments))
    if type(None) in arguments:
        return st.none() | strategy(arguments[0])
    return simple[hint]


def events_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, *(strategy(hints[field.name], field.name) for field in fields(kind)))


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: str(kind.__name__))
@settings(max_examples=8)
@given(data=st.data())
def test_an_event_of_every_kind_comes_back_exactly(kind: type[Any], data: st.DataObject) -> None:
    event = data.draw(events_of(kind))
    assert repr(decode(encode(event))) == repr(event)  # which tells 1 from 1.0 and True, and a list from a tuple


def test_there_is_a_number_for_every_event() -> None:
    assert set(KINDS.values()) == set(get_args(events.Event))


@pytest.mark.parametrize("axes", [AXES, RANKED], ids=["category", "rank"])
@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
def test_a_log_that_was_bytes_folds_to_the_same_state_byte_for_byte(policy: str, axes: list[Axis]) -> None:
    sites, logs = played(POLICIES[policy], axes, items=40, patience=Patience(wait_limit=40, max_waiting=9, overdue=0.5))
    for site, log in zip(sites, logs, strict=True):
        again = [decode(encode(event)) for event in log]
        assert repr(again) == repr(log)
        assert everything(fold(again)) == everything(site.rules)
        assert verify(again) == []


def test_without_msgspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)
    monkeypatch.delitem(sys.modules, "cosend.site.wire")
    with pytest.raises(CosendError, match=r"events as bytes need msgspec: pip install '\.\[service\]'"):
        import_module("cosend.site.wire")


@pytest.mark.compiled
def test_cosend_is_imported_without_what_only_a_service_needs() -> None:
    program = (
        "import sys, cosend\n"
        "print(*sorted({'msgspec', 'cosend.site.wire', 'cosend.stores.event_log'} & set(sys.modules)))\n"
    )
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_numbers_of_numpy_become_plain_ones() -> None:
    given_ = (np.int64(3), np.float64(0.1), np.float32(0.5), np.bool_(True), np.str_("a"), np.uint64(2**64 - 1))
    item = {"age": np.int64(7), np.int64(1): [np.float64(2.0)], "pair": (np.int8(1), "x")}
    event = decode(encode(events.Answered((1,), given_, (item,))))
    plain = (3, 0.1, 0.5, True, "a", 2**64 - 1), ({"age": 7, 1: [2.0], "pair": (1, "x")},)
    assert repr(event) == repr(events.Answered((1,), *plain))
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


@pytest.mark.parametrize(
    "bad",
    [
        {1, 2},
        frozenset(),
        object(),
        Decimal(1),
        1j,
        bytearray(b"a"),
        Colour.RED,
        np.arange(2),
        np.longdouble(1),
        range(2),
    ],
    ids=lambda bad: type(bad).__name__,
)
def test_what_msgpack_cannot_carry_is_refused_with_its_place_and_what_is_allowed(bad: Any) -> None:
    for label in (bad, [bad], (0, bad), {"x": {"y": bad}}):
        with pytest.raises(StateError, match=r"Answered cannot be logged: in `labels`, .* allowed are None, True"):
            encode(events.Answered((1, 2), (0, label)))
    with pytest.raises(StateError, match="Answered cannot be logged: in `items`"):
        encode(events.Answered((1,), (0,), ({"x": bad},)))
    with pytest.raises(StateError, match="Started cannot be logged: in `policy`"):
        encode(replace(a_start(), policy={"name": bad}))


@pytest.mark.parametrize("key", [(1, 2), frozenset(), Colour.RED], ids=["tuple", "set", "enum"])
def test_a_key_that_is_no_scalar_is_refused(key: Any) -> None:
    with pytest.raises(StateError, match="in `items`"):
        encode(events.Answered((1,), (0,), ({key: 1},)))


def a_start() -> events.Started:
    log: list[events.Event] = []
    Rules("lab", local={"a": 0, "b": 0.5}, axes=AXES, journal=log.append)
    assert isinstance(log[0], events.Started)
    return log[0]


def test_numbers_and_text_that_msgpack_has_no_room_for_are_refused() -> None:
    for label in (2**64, -(2**63) - 1, "\ud800", [2**64], (2**64,)):
        with pytest.raises(StateError, match="Answered cannot be logged"):
            encode(events.Answered((1,), (label,)))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(StateError, match="Answered cannot be logged"):
        encode(events.Answered((1,), (endless,)))


def test_an_event_whose_fields_are_of_another_type_is_refused_before_it_is_written() -> None:
    nonsense: Any = {1, 2}
    text: Any = ("one",)
    with pytest.raises(StateError, match=r"ArmPaused cannot be logged: .* Expected `str`, got `array`"):
        encode(events.ArmPaused(nonsense))
    for event in (events.Withdrawn(text), events.Chosen(1, ((0.5,),), ("a",), text, (1.0,)), events.ArmRemoved(text)):
        with pytest.raises(StateError, match="cannot be logged"):
            encode(event)
    stranger: Any = "nonsense"
    with pytest.raises(StateError, match="'nonsense' is not an event"):
        encode(stranger)


GOOD = events.Chosen(1, ((0.5, "a"),), ("tree",), (3,), (1.0,), {"far": (2, 1)}, ("wild",), (0,), (7,), {"tree": 0.1})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("first", "1"),
        ("first", 1.5),
        ("contexts", (0.5,)),
        ("contexts", ("ab",)),
        ("arms", (1,)),
        ("arms", "tree"),
        ("kinds", (None,)),
        ("kinds", (1.5,)),
        ("propensities", ("x",)),
        ("told", {"far": (2,)}),
        ("without", (b"wild",)),
        ("again", (True,)),
        ("cells", ("7",)),
        ("costs", {"tree": None}),
        ("costs", ["tree"]),
    ],
)
def test_one_field_of_another_type_is_enough_to_refuse_an_event(name: str, wrong: Any) -> None:
    assert decode(encode(GOOD)) == GOOD
    with pytest.raises(StateError, match="Chosen cannot be logged"):
        encode(replace(GOOD, **{name: wrong}))


def test_bytes_that_are_no_event_are_refused_with_what_is_wrong_and_where() -> None:
    pack = msgspec.msgpack.encode
    wrong = {
        "have no version of the encoding": b"",
        "have version 9 of the encoding; this cosend reads version 1": b"\x09" + pack([10, [1]]),
        "are not an event: Input data was truncated": b"\x01",
        r"are not an event: Invalid value 99 - at `\$\[0\]`": b"\x01" + pack([99, 1]),
        r"are not an event: Expected `int`, got `str` - at `\$\[1\]\[1\]`": b"\x01" + pack([10, [1, "2"]]),
        "are not an event: Expected `array` of at least length 2": b"\x01" + pack([10]),
        "are not an event: Expected `array` of at most length 1, got 2": b"\x01" + pack([10, [1], 3]),
        "are not an event: Expected `array`, got `object`": b"\x01" + pack({"ids": [1]}),
        "trailing characters": b"\x01" + pack([10, [1]]) + b"\x01",
        "unknown extension 7": b"\x01" + pack([5, [1], [msgspec.msgpack.Ext(7, b"")]]),
    }
    for sentence, data in wrong.items():
        with pytest.raises(StateError, match=sentence):
            decode(data)


@given(st.binary(max_size=40))
def test_random_bytes_are_an_event_or_our_error(data: bytes) -> None:
    try:
        event = decode(b"\x01" + data)
    except StateError:
        return
    assert type(event) in KINDS.values()


def test_an_event_cut_anywhere_is_refused() -> None:
    label = {"deep": [(1, ("two",)), None]}
    data = encode(events.Answered((1, 2), (label, math.nan), (None, {"x": 1.5}), ({}, {"other": 1})))
    for length in range(len(data)):
        with pytest.raises(StateError):
            decode(data[:length])


def lines(batch: int, batches: int) -> list[events.Event]:
    """Return the events of items with two axes and text labels, all of which are answered and labelled."""
    draw, log = random.Random(1), list[events.Event]()
    axes: list[Axis] = [Context("x", range=(0, 1)), Context("y", range=(0, 1))]
    rules = Rules("north", local={"young": 0.0, "old": 0.1}, axes=axes, journal=log.append)
    for _ in range(batches):
        step = rules.choose(rules.place([[draw.random() for _ in range(batch)] for _ in axes]))
        ids = range(step.first, step.first + batch)
        rules.complete(ids, draw.choices(["normal", "attack"], k=batch))
        rules.settle(ids, draw.choices(["normal", "attack"], k=batch), draw.choices([0.0, 1.0], k=batch))
    return log[1:]


@pytest.mark.parametrize(("batch", "most"), [(64, 63), (1, 105)])
def test_an_item_with_its_answer_and_label_takes_few_bytes(batch: int, most: int) -> None:
    data = [encode(event) for event in lines(batch, 320 // batch)]
    assert sum(map(len, data)) / 320 < most


def test_the_costs_of_a_start_stay_whole_numbers_if_they_were() -> None:
    start = decode(encode(a_start()))
    assert isinstance(start, events.Started)
    assert json.dumps(start.local) == json.dumps(a_start().local)
