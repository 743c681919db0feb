"""The slow twin of the features in `engine/encoding.py`, written from exactness: Features."""

import math
import struct
from collections.abc import Mapping
from typing import Any
from zlib import crc32

PLACES = 2**20
GOLDEN = 0x9E3779B97F4A7C15
NUMBERS = ("length", "words", "digits", "other scripts", "code", "lines", "question")
BLANKS = " \t\n\v\f\r"
QUESTIONS = "?\u061f\uff1f"
MARKS = "#$&*+/;<=>@[\\]^_`{|}~"


class FeaturesTwin:
    """Watches features one item at a time, and places values one at a time."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.seen: dict[str, list[Any]] = {}
        self.out: list[str] = []
        self.same: dict[str, Any] = {}  # by name: the value that all items had
        self.axes: dict[tuple[str, str], list[Any]] = {}  # by name, and number of a text: its values, in their order

    def item(self, item: Mapping[str, Any]) -> list[float]:
        """Watch an item, and return where it lies."""
        is_first = not (self.axes or self.out or self.same)
        for name in [name for name, values in self.seen.items() if len(values) >= 128]:
            watched = self.seen.pop(name)
            values = [value for value in watched if value is not None]
            texts = [value for value in values if isinstance(value, str)]
            room = 900 - len(self.axes) - len(self.same)
            if len(values) < 4 or room <= 0:
                self.out.append(name)
            elif texts and len(set(values)) > max(16, len(values) // 2):
                self._text(name, texts)
            elif is_first and all(
                value == watched[0] for value in (*watched, _known(item.get(name)) if item else watched[0])
            ):
                self.same[name] = watched[0]
            else:
                self.axes[name, ""] = values
        for name in [name for name, value in self.same.items() if item and _known(item.get(name)) != value]:
            self.axes[name, ""] = [self.same.pop(name)]
        for name in item:
            names = {*self.seen, *(axis for axis, _ in self.axes), *self.out, *self.same}
            if name not in names and len(names) < 2000 and len(self.axes) + len(self.same) < 900:
                self.seen[name] = []
        for name, values in self.seen.items():
            values.append(_known(item.get(name)))
        return [
            _place(values, number_of(_known(item.get(name)), number) if number else _known(item.get(name)))
            for (name, number), values in self.axes.items()
        ]

    def _text(self, name: str, texts: list[str]) -> None:
        prose = [text for text in texts if number_of(text, "words") >= 2 or number_of(text, "other scripts") > 0]
        for number in NUMBERS if len(prose) >= len(texts) / 2 else ():
            column = [number_of(text, number) for text in texts]
            commonest = max(map(column.count, column))
            if len(column) - commonest >= 4 and len(self.axes) + len(self.same) < 900:
                self.axes[name, number] = column
        if all(name != axis for axis, _ in self.axes):
            self.out.append(name)


def number_of(value: Any, number: str) -> Any:
    """Return a number of a text, character by character; None if it is no text."""
    if not isinstance(value, str):
        return None
    start = value[:4096]
    share = max(1, len(start))
    if number == "length":
        return float(len(value))
    if number == "words":
        return float(sum(each not in BLANKS and (n == 0 or start[n - 1] in BLANKS) for n, each in enumerate(start)))
    if number == "digits":
        return sum("0" <= each <= "9" for each in start) / share
    if number == "other scripts":
        return sum(ord(each) > 127 for each in start) / share
    if number == "code":
        return sum(each in MARKS for each in start) / share
    if number == "lines":
        return 1.0 + sum(each == "\n" for each in start)
    end = [each for each in value[-4096:] if each not in BLANKS][-1:]
    return 2.0 if end and end[0] in QUESTIONS else float(any(each in QUESTIONS for each in start))


def _known(value: Any) -> Any:
    if not isinstance(value, str | bool | int | float) or value != value:
        return None
    return float(value) if type(value) is int and abs(value) >= 2**63 else value


def _place(values: list[Any], value: Any) -> float:
    if not any(isinstance(each, str | bool) for each in values):
        is_one = value is not None and not isinstance(value, str | bool)
        return (
            _place_of_number(values, float(value), len(set(values)) * 2 <= max(2, len(values))) if is_one else math.nan
        )
    different = list(dict.fromkeys(values))
    by_count = sorted(different, key=lambda each: (-values.count(each), different.index(each)))
    codes = [by_count.index(each) for each in values]
    if value is None:
        return math.nan
    if value in by_count:
        return _place_of_number(codes, float(by_count.index(value)), True)
    return _place_of_number(codes, float(len(by_count) + crc32(repr(value).encode(errors="backslashreplace"))), True)


def _place_of_number(values: list[Any], value: float, repeats: bool) -> float:
    ordered = sorted(float(each) for each in values)
    edges = [ordered[k * len(ordered) // 64] for k in range(1, 64)]
    part = (sum(edge < value for edge in edges) + sum(edge <= value for edge in edges)) // 2
    within = 0
    if repeats:
        (bits,) = struct.unpack("<Q", struct.pack("<d", value + 0.0))
        within = (bits * GOLDEN % 2**64) // 2**50
    return (part * 2**14 + within + 0.5) / PLACES
