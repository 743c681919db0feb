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
        self.weights: dict[tuple[str, str], list[float]] = {}  # of the axes that are directions of vectors

    def item(self, item: Mapping[str, Any]) -> list[float]:
        """Watch an item, and return where it lies."""
        is_first = not (self.axes or self.out or self.same)
        for name in [name for name, values in self.seen.items() if len(values) >= 128]:
            watched = self.seen.pop(name)
            vectors = [value for value in watched if isinstance(value, list)]
            values = [value for value in watched if value is not None and not isinstance(value, list)]
            texts = [value for value in values if isinstance(value, str)]
            room = 900 - len(self.axes) - len(self.same)
            if len(vectors) > len(values):
                self._directions(name, vectors, room)
            elif len(values) < 4 or room <= 0:
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
        left = self._left()
        for name, values in self.seen.items():
            vector = _vector(item.get(name))
            values.append(_known(item.get(name)) if vector is None or max(512, len(vector)) > left else vector)
            left -= max(512, len(vector)) if values[-1] is vector and vector is not None else 0
        return [_place(values, self._value(axis, item)) for axis, values in self.axes.items()]

    def _value(self, axis: tuple[str, str], item: Mapping[str, Any]) -> Any:
        name, number = axis
        if axis not in self.weights:
            return number_of(_known(item.get(name)), number) if number else _known(item.get(name))
        vector = _vector(item.get(name))
        return _along(vector, self.weights[axis]) if vector and len(vector) == len(self.weights[axis]) else None

    def _directions(self, name: str, vectors: list[list[float]], room: int) -> None:
        lengths = [len(each) for each in vectors]
        length = max(lengths, key=lambda each: (lengths.count(each), each))
        rows = [each for each in vectors if len(each) == length]
        fits = len(rows) >= 4 and max(512, length) <= self._left()
        found = list(enumerate(_directions(rows), 1)) if fits else []
        for n, weights in found:
            column = [_along(row, weights) for row in rows]
            if len(column) - max(map(column.count, column)) >= 4 and room > 0:
                self.axes[name, f"direction {n}"], self.weights[name, f"direction {n}"] = column, weights
                room -= 1
        if all(name != axis for axis, _ in self.axes):
            self.out.append(name)

    def _left(self) -> int:
        lengths = {name: max(512, len(weights)) for (name, _), weights in self.weights.items()}
        return 8_192 - sum(lengths.values())

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


def _directions(rows: list[list[float]]) -> list[list[float]]:
    """Return the directions in which vectors differ most, as exactness has them: Vectors."""
    largest = max(abs(each) for row in rows for each in row)
    scaled = [[each / largest if largest else each for each in row] for row in rows]
    means = [math.fsum(column) / len(rows) for column in zip(*scaled, strict=True)]
    centred = [[each - mean for each, mean in zip(row, means, strict=True)] for row in scaled]
    products = [[_along(one, other) for other in centred] for one in centred]
    columns = [[(((8 * i + k + 1) * GOLDEN % 2**64) >> 40) / 2**24 - 0.5 for i in range(len(rows))] for k in range(8)]
    spread: list[float] = []
    for _ in range(30):
        columns, spread = _orthogonal([[_along(row, column) for row in products] for column in columns])
    places = list(zip(*centred, strict=True))
    kept = [column for column, width in zip(columns, spread, strict=True) if width > 1e-9 * spread[0]]
    return _orthogonal([[_along(list(place), column) for place in places] for column in kept])[0]


def _orthogonal(columns: list[list[float]]) -> tuple[list[list[float]], list[float]]:
    done: list[list[float]] = []
    lengths = []
    for column in columns:
        for before in done:
            part = math.fsum(one * other for one, other in zip(column, before, strict=True))
            column = [one - part * other for one, other in zip(column, before, strict=True)]
        lengths.append(math.sqrt(math.fsum(each * each for each in column)))
        done.append([each / lengths[-1] if lengths[-1] else 0.0 for each in column])
    return done, lengths


def _along(vector: list[float], weights: list[float]) -> float:
    total = 0.0
    for one, other in zip(vector, weights, strict=True):
        total += one * other
    return total


def _vector(value: Any) -> list[float] | None:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 4096:
        return None
    if any(isinstance(each, str | bool) or _known(each) is None or abs(each) == math.inf for each in value):
        return None
    return [float(each) for each in value]


def _known(value: Any) -> Any:
    if not isinstance(value, str | bool | int | float) or value != value:
        return None
    if type(value) is not int or abs(value) < 2**63:
        return value
    return float(value) if abs(value) < 2**1023 else None


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
