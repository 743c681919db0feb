"""Which labels are none."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from cosend.core.missing import any_missing, is_missing

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
