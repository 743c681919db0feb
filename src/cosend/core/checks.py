"""Checks that more than one kind of settings needs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from cosend.errors import RewardError, SettingError


def check_whole(setting: str, value: object, least: int = 1) -> None:
    """Raise unless `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(setting, value, f"a whole number of at least {least}")


def check_one_of(setting: str, value: object, allowed: Iterable[str]) -> None:
    """Raise unless `value` is one of the allowed words."""
    words = list(allowed)
    if value not in words:
        raise SettingError(setting, value, "one of " + ", ".join(repr(word) for word in words))


def check_between(setting: str, value: Any, low: float, high: float, allowed: str) -> None:
    """Raise unless low < value < high."""
    if not is_number(value) or not low < value < high:
        raise SettingError(setting, value, allowed)


def check_unit(what: str, value: Any, where: str) -> None:
    """Raise unless `value` is in [0, 1], as gains and costs are."""
    if not is_number(value) or not 0.0 <= value <= 1.0:
        raise RewardError(what, value, where)


def is_number(value: object) -> bool:
    """Tell whether a value is a finite real number; NumPy's scalars are, text is not."""
    try:
        return not isinstance(value, str | bytes) and math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return False
