"""From an item to its context: one number in [0, 1] for each axis.

    Context("duration", scale="log")            a feature
    Context.previous_label("normal", "attack")  the newest label that is known
    Context.time(20_000)                        how far the stream has come
    Context.time_of_day("timestamp")            0 is midnight, 0.5 noon
    Context.function(lambda item: ...)          anything else

Several contexts are several axes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

from cosend.core.checks import check_callable, check_kind, check_one_of, check_whole, is_number
from cosend.errors import ContextError, SettingError

Scale = Literal["linear", "log", "rank"]
Outside = Literal["error", "clip"]

DAY_S: Final = 86_400.0
DEFAULT_RANGE: Final[dict[str, tuple[float, float]]] = {"linear": (0.0, 1.0), "log": (0.0, 1e9), "rank": (0.0, 1.0)}


@dataclass(slots=True)
class Past:
    """What a site remembers to place the next item."""

    newest_labelled: int = 0  # id of the newest decision whose label is known
    newest_label: Any = None
    recent: dict[str, RecentValues] = field(default_factory=dict)


class RecentValues:
    """The last values of a feature, to tell how a new one ranks among them."""

    def __init__(self, window: int, values: Sequence[float] = ()) -> None:
        self.window = window
        self.values = deque(values)
        self._sorted = sorted(values)

    def rank(self, value: float) -> float:
        """Return the share of recent values below this one, equal ones half, and remember it."""
        below, up_to = bisect_left(self._sorted, value), bisect_right(self._sorted, value)
        rank = (below + up_to) / (2 * len(self._sorted)) if self._sorted else 0.5
        self.values.append(value)
        insort(self._sorted, value)
        if len(self.values) > self.window:
            del self._sorted[bisect_left(self._sorted, self.values.popleft())]
        return rank


@runtime_checkable
class Axis(Protocol):
    """One number of a context. `read` may refuse an item and changes nothing; `place` never refuses."""

    @property
    def description(self) -> str:
        """What the axis is, with its settings: two of the same description place an item at the same point."""
        ...

    def read(self, item: Any, past: Past, arrival: int) -> float:
        """Return the value of an item that will be the site's `arrival`-th."""
        ...

    def place(self, value: float, past: Past) -> float:
        """Return where a value lies in [0, 1]."""
        ...

    def check_label(self, label: Any) -> None:
        """Raise if the axis could not place the next item after this true label."""
        ...


class _Axis:
    """What most axes have in common: the value is in [0, 1] as it is read, and any label will do."""

    __slots__ = ()

    @property
    def description(self) -> str:
        """The axis with its settings."""
        return repr(self)

    def place(self, value: float, past: Past) -> float:
        """Return the value as it is."""
        return value

    def check_label(self, label: Any) -> None:
        """Accept any label."""


@dataclass(frozen=True, slots=True)
class Context(_Axis):
    """A feature of the item as an axis.

    scale    "linear" over `range`; "log" for counts and sizes, over `range` or up to a thousand million; "rank" among
             the last `window` values, for features whose range is not known
    outside  what to do with a value outside `range`: refuse the item, or "clip" it to the nearest end
    """

    feature: str
    scale: Scale = field(default="linear", kw_only=True)
    range: tuple[float, float] | None = field(default=None, kw_only=True)
    outside: Outside = field(default="error", kw_only=True)
    window: int = field(default=1_000, kw_only=True)

    def __post_init__(self) -> None:
        check_kind("the feature of a context", self.feature, str, "text")
        check_one_of("scale", self.scale, get_args(Scale))
        check_one_of("outside", self.outside, get_args(Outside))
        check_whole("window", self.window)
        if self.range is not None and not self._range_makes_sense(self.range):
            allowed = "(low, high) with low < high" + (" and low >= 0" if self.scale == "log" else "")
            raise SettingError("range", self.range, allowed)

    def _range_makes_sense(self, given: Any) -> bool:
        if not isinstance(given, Sequence) or len(given) != 2 or not all(is_number(end) for end in given):
            return False
        low, high = given
        return is_number(high - low) and low < high and (low >= 0 or self.scale != "log")

    def read(self, item: Any, past: Past, arrival: int) -> float:
        """Return the feature, scaled unless it is to be ranked."""
        value = _number(item, self.feature)
        if self.scale == "rank":
            return value
        low, high = self.range or DEFAULT_RANGE[self.scale]
        if self.outside == "clip":
            value = min(max(value, low), high)
        if not low <= value <= high:
            raise ContextError(
                f"feature {self.feature!r} must be in [{low:g}, {high:g}], got {value!r}: "
                f"give the context another range, or outside='clip'"
            )
        if self.scale == "log":
            low, high, value = math.log1p(low), math.log1p(high), math.log1p(value)
        return min(1.0, (value - low) / (high - low))

    def place(self, value: float, past: Past) -> float:
        """Return the scaled feature, or its rank among the recent ones."""
        if self.scale != "rank":
            return value
        return past.recent.setdefault(self.description, RecentValues(self.window)).rank(value)

    @staticmethod
    def previous_label(*classes: Any) -> PreviousLabel:
        """Return the newest known true label as an axis; name all classes, in the order they shall lie on it."""
        return PreviousLabel(classes)

    @staticmethod
    def time(horizon: int) -> Time:
        """Return the share of `horizon` items that have come as an axis."""
        return Time(horizon)

    @staticmethod
    def time_of_day(feature: str) -> TimeOfDay:
        """Return the time of day of a feature that holds seconds since 1970 or a `datetime` as an axis.

        Seconds, and a `datetime` with a time zone, give the time of day in UTC; one without is taken as it is.
        """
        return TimeOfDay(feature)

    @staticmethod
    def function(function: Callable[[Any], float], name: str = "function") -> FromFunction:
        """Return a function from an item to a number in [0, 1] as an axis."""
        return FromFunction(function, name)


@dataclass(frozen=True, slots=True)
class PreviousLabel(_Axis):
    """The true label of the newest item whose label is known; the first class before there is one."""

    classes: tuple[Any, ...]

    def __post_init__(self) -> None:
        try:
            different = len(set(self.classes))
        except TypeError:  # a list, or an array
            raise SettingError("classes", self.classes, "two or more different labels that can be hashed") from None
        if different < 2 or different != len(self.classes):
            raise SettingError("classes", self.classes, "two or more different labels")

    def read(self, item: Any, past: Past, arrival: int) -> float:
        """Return where the newest label lies among the classes."""
        if past.newest_labelled == 0:
            return 0.0
        return self.classes.index(past.newest_label) / (len(self.classes) - 1)

    def check_label(self, label: Any) -> None:
        """Raise unless the label is one of the classes."""
        try:
            known = label in self.classes
        except Exception:  # the comparison of an array, or of whatever the user's label is
            known = False
        if not known:
            named = ", ".join(repr(each) for each in self.classes)
            raise ContextError(f"the label {label!r} is none of the classes of the context: {named}")


@dataclass(frozen=True, slots=True)
class Time(_Axis):
    """How far the stream of a site has come."""

    horizon: int

    def __post_init__(self) -> None:
        check_whole("horizon", self.horizon)

    def read(self, item: Any, past: Past, arrival: int) -> float:
        """Return the share of the horizon that has passed; 1 after its end."""
        return min(1.0, arrival / self.horizon)


@dataclass(frozen=True, slots=True)
class TimeOfDay(_Axis):
    """The time of day that a feature tells, in UTC unless it is a `datetime` without a time zone."""

    feature: str

    def __post_init__(self) -> None:
        check_kind("the feature of a context", self.feature, str, "text")

    def read(self, item: Any, past: Past, arrival: int) -> float:
        """Return the share of the day that has passed."""
        moment = _feature(item, self.feature)
        if isinstance(moment, datetime) and moment == moment:  # pandas' NaT is a datetime too, and equals nothing
            seconds = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
            ahead = moment.utcoffset() or timedelta()
            return (seconds - ahead.total_seconds()) % DAY_S / DAY_S
        return _number(item, self.feature) % DAY_S / DAY_S


@dataclass(frozen=True, slots=True)
class FromFunction(_Axis):
    """Whatever a function of the user says."""

    function: Callable[[Any], float]
    name: str = "function"

    def __post_init__(self) -> None:
        check_callable("the function of a context", self.function, "a function from an item to a number in [0, 1]")
        check_kind("the name of a context", self.name, str, "text")

    @property
    def description(self) -> str:
        """The name; two functions cannot be compared."""
        return f"function {self.name!r}"

    def read(self, item: Any, past: Past, arrival: int) -> float:
        """Return what the function says, if it is in [0, 1]."""
        try:
            value = self.function(item)
        except Exception as error:  # a user's function may raise anything
            raise ContextError(f"context {self.name!r} failed: {type(error).__name__}: {error}") from error
        if not is_number(value) or not 0.0 <= value <= 1.0:
            raise ContextError(f"context {self.name!r} must be in [0, 1], its function returned {value!r}")
        return float(value)


def check_items(axes: Sequence[Axis], items: Sequence[Any], past: Past, arrivals: int) -> list[list[float]]:
    """Return what the axes read off items that come after `arrivals` others, or raise; nothing changes."""
    return [[axis.read(item, past, arrivals + 1 + n) for axis in axes] for n, item in enumerate(items)]


def read_contexts(axes: Sequence[Axis], items: Sequence[Any], past: Past, arrivals: int) -> list[tuple[float, ...]]:
    """Return the contexts of items that come after `arrivals` others; `past` changes only if all can be read."""
    values = check_items(axes, items, past, arrivals)
    return [tuple(axis.place(value, past) for axis, value in zip(axes, row, strict=True)) for row in values]


def _feature(item: Any, feature: str) -> Any:
    if not isinstance(item, Mapping) or feature not in item:
        has = ", ".join(str(key) for key in item) if isinstance(item, Mapping) else f"no features: it is {item!r}"
        raise ContextError(f"the item has no feature {feature!r}; it has {has}")
    return item[feature]


def _number(item: Any, feature: str) -> float:
    value = _feature(item, feature)
    if not is_number(value):
        raise ContextError(f"feature {feature!r} must be a finite number, got {value!r}")
    return float(value)
