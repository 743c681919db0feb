"""Checks of settings and of labels that more than one part of cosend needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar

import numpy as np

from cosend.errors import RewardError, SettingError

LARGEST: Final = 2**63 - 1
NEVER_MISSING: Final = frozenset((str, int, bool))  # types of labels
T = TypeVar("T")


def check_whole(setting: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Raise unless `value` is a whole number of at least `least`, and of at most `most` if that is given."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not whole or (most is not None and isinstance(value, int) and value > most):
        limit = "" if most is None else f" and at most {most:,}"
        raise SettingError(setting, value, f"a whole number of at least {least}{limit}")


def check_count(setting: str, value: object) -> None:
    """Raise unless `value` is a whole number from 0 to the largest that 64 bits hold; NumPy's are allowed."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise SettingError(setting, value, f"a whole number from 0 to {LARGEST}")


def check_counts(setting: str, values: Sequence[int]) -> None:
    """Raise unless `check_count` passes for all values; Python's own whole numbers are checked all at once."""
    if {*map(type, values)} == {int}:
        values = [min(values), max(values)]
    for value in values:
        check_count(setting, value)


def check_text(setting: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise SettingError(setting, value, "text, and not empty")


def check_path(setting: str, value: object) -> None:
    """Raise unless `value` may name a file: text or a path, without a NUL character."""
    text = value.__fspath__() if hasattr(value, "__fspath__") else value
    try:
        good = isinstance(text, str) and b"\0" not in text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        good = False
    if not good:
        raise SettingError(setting, value, "the path of a file or folder, as text without a NUL character or as a Path")


def check_kind(setting: str, value: object, kind: type, allowed: str) -> None:
    if not isinstance(value, kind):
        raise SettingError(setting, value, allowed)


def check_callable(setting: str, value: object, allowed: str) -> None:
    if not callable(value):
        raise SettingError(setting, value, allowed)


def as_list(setting: str, given: Iterable[T], allowed: str) -> list[T]:
    """Return an iterable as a list; text and mappings are refused."""
    if type(given) is list:  # the usual case, without the cost of abstract classes
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise SettingError(setting, given, allowed)
    return list(given)


def check_one_of(setting: str, value: object, allowed: Iterable[str]) -> None:
    words = list(allowed)
    if value not in words:
        raise SettingError(setting, value, "one of " + ", ".join(repr(word) for word in words))


def check_between(setting: str, value: Any, low: float, high: float, allowed: str) -> None:
    if not is_number(value) or not low < value < high:
        raise SettingError(setting, value, allowed)


def check_number(setting: str, value: Any, most: float, *, or_0: bool = False) -> None:
    """Raise unless 0 < value <= most; 0 may be allowed too."""
    if not is_number(value) or not 0 <= value <= most or not (value or or_0):
        raise SettingError(setting, value, f"a number {'0 or more' if or_0 else 'above 0'} and at most {most:,g}")


def check_unit(what: str, value: Any, where: str) -> None:
    """Raise unless `value` is in [0, 1], as gains and costs are."""
    if not is_number(value) or not 0.0 <= value <= 1.0:
        raise RewardError(what, value, where)


def make_plain(settings: Any) -> None:
    """Replace numbers of NumPy and others among the fields of a dataclass by Python's own, which can be saved."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, np.bool_ | np.integer):
            value = value.item()
        elif is_number(value) and not isinstance(value, int):
            value = float(value)
        object.__setattr__(settings, field.name, value)  # settings are frozen


def is_number(value: object) -> bool:
    """Tell whether a value is a finite real number; NumPy's scalars are, text is not."""
    number: Any = value
    try:
        return not isinstance(value, str | bytes) and math.isfinite(number)
    except (TypeError, OverflowError):
        return False


def is_missing(label: Any) -> bool:
    """Tell whether a label is missing: None, or unequal to itself, as NaN, NaT and `pd.NA` are."""
    if label is None:
        return True
    if type(label) in NEVER_MISSING:
        return False
    try:
        differs = label != label
    except Exception:  # a user's label may do anything when it is compared
        return False
    return differs is True or differs is label or (isinstance(differs, np.bool_) and bool(differs))


def no_score(score: Any) -> bool:
    """Tell whether a score is missing, or the scores of all arms are."""
    return all(map(is_missing, score.values())) if isinstance(score, Mapping) else is_missing(score)


def any_missing(labels: Sequence[Any]) -> bool:
    """Tell whether one of these labels is missing."""
    return not NEVER_MISSING.issuperset(map(type, labels)) and any(map(is_missing, labels))
