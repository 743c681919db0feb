"""What may name a file, which numbers settings take, and which labels are missing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend.checks import any_missing, check_counts, check_number, check_path, check_whole, is_missing
from cosend.errors import SettingError


@pytest.mark.parametrize("path", ["a.csv", "", Path("a"), "\udcff", "\N{SNOWMAN}"], ids=ascii)
def test_text_and_paths_may_name_a_file(path: Any) -> None:
    check_path("path", path)


@pytest.mark.parametrize("path", [None, 5, b"a", ["a"], "a\0b", Path("a\0b"), "\ud800"], ids=ascii)
def test_what_cannot_name_a_file_is_refused(path: Any) -> None:
    with pytest.raises(SettingError, match="data must be the path of a file or folder"):
        check_path("data", path)


@pytest.mark.parametrize("value", [0, 7, 6.0, True, "6", None])
def test_a_whole_number_is_within_its_limits_or_refused_with_them(value: Any) -> None:
    check_whole("count", 1, most=6)
    check_whole("count", 6, most=6)
    check_whole("count", 10**30)
    with pytest.raises(SettingError, match=r"count must be a whole number of at least 1 and at most 6, got"):
        check_whole("count", value, most=6)


def test_a_number_may_be_0_only_where_that_is_allowed() -> None:
    check_number("size", 0, 5.0, or_0=True)
    check_number("size", 5, 5.0)
    for value, or_0 in ((0, False), (5.1, True), (-0.1, True), (float("nan"), True), ("1", True)):
        with pytest.raises(SettingError, match="at most 5, got"):
            check_number("size", value, 5.0, or_0=or_0)


@pytest.mark.parametrize("values", [[-1], [3, 2**63], [1, True], [1, 1.5], ["1"], [None, 1]])
def test_many_counts_are_refused_as_one_is(values: Any) -> None:
    good: Any
    for good in ([], [0, 2**63 - 1], [np.int64(3), 4], range(3)):
        check_counts("requests", good)
    with pytest.raises(SettingError, match="requests must be a whole number from 0 to 9223372036854775807, got"):
        check_counts("requests", values)


pd: Any = import_module("pandas")
MISSING = [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), pd.NaT, pd.NA]


def kind(label: Any) -> str:
    return type(label).__name__


class Incomparable:
    def __ne__(self, other: object) -> bool:
        raise TypeError("cannot be compared")


@pytest.mark.parametrize("label", MISSING, ids=repr)
def test_what_is_missing(label: Any) -> None:
    assert is_missing(label)
    assert any_missing(["a", label])


@pytest.mark.parametrize("label", ["", 0, False, 0.0, (), Incomparable(), np.array([1, 2]), np.str_("a")], ids=kind)
def test_what_is_a_label(label: Any) -> None:
    assert not is_missing(label)
    assert not any_missing(["a", label])
