"""Decisions that are kept: found by number and by name, whatever the name, and with their labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.stores.decisions import ADD, FORGET, LABEL, SET, Decisions, Kept, first_since
from cosend.stores.event_log import EventLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(tmp_path, site="north") as log:
        yield log


@pytest.fixture
def decisions(log: EventLog) -> Iterator[Decisions]:
    reader = Decisions(log.reader())
    yield reader
    reader.close()


def test_what_was_added_is_found_again(log: EventLog, decisions: Decisions) -> None:
    log.append([], [(ADD, [(1, "one", 5.0, b"a"), (2, None, 6.0, b"b")]), (LABEL, [(b"truth", 2)])])
    assert decisions.named(["one", "two"]) == {"one": (1, False)}
    assert decisions.unnamed([1, 2, 3]) == {2: True}
    assert decisions.kept([1, 2, 3]) == {1, 2}
    assert decisions.get([1, 2, 3]) == {1: Kept(1, "one", 5.0, b"a", None), 2: Kept(2, None, 6.0, b"b", b"truth")}
    assert [each.id for each in decisions.newest(5, 10)] == [2, 1]
    assert [each.id for each in decisions.newest(1, 2)] == [1]
    assert decisions.oldest() == 1
    log.append([], [(FORGET, [(1,)])])
    assert (decisions.named(["one"]), decisions.oldest()) == ({}, 2)


def test_nothing_is_found_where_nothing_is(decisions: Decisions) -> None:
    assert decisions.named([]) == {}
    assert decisions.get([]) == {}
    assert (decisions.oldest(), decisions.first_since(0.0), decisions.setting("key")) == (None, 0, None)
    assert not decisions.has_numbers_as_names()


def test_settings_are_replaced(log: EventLog, decisions: Decisions) -> None:
    for value in (b"a", b"b"):
        log.append([], [(SET, [("key", value)])])
        assert decisions.setting("key") == value


@pytest.mark.parametrize(
    ("name", "is_number"), [("5", True), ("05", True), ("5a", False), ("-5", False), ("#5", False), ("\u0665", False)]
)
def test_numbers_as_names(log: EventLog, decisions: Decisions, name: str, is_number: bool) -> None:
    log.append([], [(ADD, [(1, name, 0.0, b"")])])
    assert decisions.has_numbers_as_names() is is_number


@given(names=st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), min_size=1))
def test_every_name_is_found_and_no_other(tmp_path_factory: pytest.TempPathFactory, names: set[str]) -> None:
    with EventLog(tmp_path_factory.mktemp("log"), site="north") as log:
        rows = list(enumerate(sorted(names), start=1))
        log.append([], [(ADD, [(number, name, 0.0, b"") for number, name in rows])])
        reader = Decisions(log.reader())
        wanted = [*names, *(name + "\0" for name in names), *(name[:-1] for name in names)]
        assert {found: number for found, (number, _) in reader.named(wanted).items() if found in names} == {
            name: number for number, name in rows
        }
        assert set(reader.named(wanted)) <= names
        reader.close()


@given(
    ages=st.lists(st.integers(0, 20), max_size=30), gaps=st.lists(st.integers(1, 5), min_size=30), at=st.integers(0, 21)
)
def test_the_first_that_is_not_older(
    tmp_path_factory: pytest.TempPathFactory, ages: list[int], gaps: list[int], at: int
) -> None:
    numbers = [sum(gaps[: n + 1]) for n in range(len(ages))]
    with EventLog(tmp_path_factory.mktemp("log"), site="north") as log:
        rows = list(zip(numbers, sorted(ages), strict=True))
        log.append([], [(ADD, [(number, None, float(age), b"") for number, age in rows])])
        reader = log.reader()
        found = first_since(reader, "decisions", "id", float(at))
        reader.close()
    assert [number for number, age in rows if age < at] == [number for number in numbers if number < found]
