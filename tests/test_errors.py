"""However long a value or a list is, the sentence of an error stays one that can be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cosend.errors import (
    LONGEST_SENTENCE,
    CosendError,
    ModelError,
    NetworkError,
    NetworkFileError,
    RewardError,
    SettingError,
    StreamError,
    UnknownDecision,
    in_one_line,
    listed,
    shown,
)

LONG = "x" * 10_000
LONG_ERRORS: list[Callable[[], CosendError]] = [
    lambda: SettingError("alpha", LONG, "a number"),
    lambda: RewardError("cost", LONG, "arm 'a'"),
    lambda: UnknownDecision("here", LONG, 3),
    lambda: StreamError(LONG, "nothing", file="a.csv", column=LONG),
    lambda: ModelError(LONG, f"it says {in_one_line(ValueError(LONG))}", "no more"),
    lambda: NetworkError(f"there is a stream for {LONG!r}, which is not a site of the network"),
    lambda: NetworkFileError("my.toml", [f"{n}: {LONG}" for n in range(100)]),
]
KINDS = ["setting", "reward", "decision", "stream", "model", "network", "scenario"]


@pytest.mark.parametrize("make", LONG_ERRORS, ids=KINDS)
def test_a_message_stays_short_and_keeps_its_beginning_and_its_end(make: Callable[[], CosendError]) -> None:
    said = str(make())
    assert len(said) <= LONGEST_SENTENCE + 100
    assert "characters) ..." in said
    beginning = (
        "alpha must be a number",
        "cost must be",
        "site 'here'",
        "a.csv",
        "there is",
        "my.toml has 100 mistakes",
        "model 'xxx",
    )
    end = (
        "xxx'",
        "for arm 'a'",
        "ids run from 1 to 3",
        "; nothing",
        "not a site of the network",
        "and 80 more",
        "; no more",
    )
    assert said.startswith(beginning)
    assert said.endswith(end)


def test_short_values_are_shown_whole_and_what_cannot_be_printed_by_its_type() -> None:
    class Unprintable:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert shown({"a": [1, 2]}) == "{'a': [1, 2]}"
    assert shown(10**5000) == "a value of type int that cannot be printed"
    assert shown(Unprintable()) == "a value of type Unprintable that cannot be printed"


def test_a_list_of_names_is_cut_and_says_how_many_more_there_are() -> None:
    assert listed([]) == "none"
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed([str(n) for n in range(10)]).endswith("'8', '9'")
    assert listed({f"column {n}": n for n in range(100_000)}).endswith("'column 9' and 99,990 more")
