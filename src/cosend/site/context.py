"""From an item to its context: one number in [0, 1] for each axis, or the value of a category.

    Context("age")                              a feature, by its rank among the last 1,000 values
    Context("duration", scale="log")            a feature, scaled
    Context.category("service")                 a feature with a cell of its own for every value
    Context.previous_label("normal", "attack")  the newest label that is known
    Context.time(20_000)                        how far the stream has come
    Context.time_of_day("timestamp")            0 is midnight, 0.5 noon
    Context.function(lambda item: ...)          anything else
    Context.features()                          every feature; their axes come when enough items have, behind the others

Several contexts are several axes. An axis works in two steps. `read` takes a column off the items of a batch: it may
run code of the user and may refuse an item, and it changes nothing. `place` turns the column into places on the axis:
it may use and change what the site remembers, and never refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from cosend.classifiers.adapters import check_names, plain
from cosend.core.checks import check_callable, check_kind, check_one_of, check_whole, is_number
from cosend.core.kernel.ledger import Floats
from cosend.errors import ContextError, SettingError, in_one_line, shown
from cosend.site.features import AllFeatures
from cosend.site.items import MANY, feature_column, number_column, scaled_column, time_of_day
from cosend.site.past import Codes, Past, RecentValues

Scale = Literal["linear", "log", "rank"]
Outside = Literal["error", "clip"]
Column = Sequence[Any] | Floats

LOG_RANGE: Final = (0.0, 1e9)


@runtime_checkable
class Axis(Protocol):
    """One axis of a context."""

    @property
    def description(self) -> str:
        """What the axis is, with its settings: two of the same description place an item at the same point."""
        ...

    @property
    def is_category(self) -> bool:
        """Whether it has a cell for every value, in place of numbers in [0, 1]."""
        ...

    @property
    def ranked(self) -> int:
        """Among how many recent values its numbers are ranked; 0 if they are not."""
        ...

    def read(self, items: Sequence[Any]) -> Column:
        """Return a value for every item, or raise."""
        ...

    def place(self, column: Column, past: Past, arrivals: int) -> Column:
        """Return where the values lie, for items that come after `arrivals` others; ranks and codes are not its job."""
        ...

    def check_labels(self, labels: Iterable[Any]) -> None:
        """Raise if the axis could not place the next item after one of these true labels."""
        ...


class _Axis:
    """What most axes have in common: the value is in [0, 1] as it is read, and any label will do."""

    __slots__ = ()

    @property
    def description(self) -> str:
        """The axis with its settings."""
        return repr(self)

    @property
    def is_category(self) -> bool:
        """Numbers."""
        return False

    @property
    def ranked(self) -> int:
        """Not ranked."""
        return 0

    def place(self, column: Column, past: Past, arrivals: int) -> Column:
        """Return the values as they are."""
        return column

    def check_labels(self, labels: Iterable[Any]) -> None:
        """Accept any label."""


@dataclass(frozen=True, slots=True)
class Context(_Axis):
    """A feature of the item as an axis.

    scale    "linear" over `range`; "log" for counts and sizes, over `range` or up to a thousand million; "rank" among
             the last `window` values, for features whose range is not known. By default "linear" if a range is given,
             else "rank"
    outside  what to do with a value outside `range`: refuse the item, or "clip" it to the nearest end

    >>> Context("age", range=(0, 100)).read([{"age": 25}])
    [0.25]
    >>> Context("age", range=(0, 100), outside="clip").read([{"age": 120}])
    [1.0]
    """

    feature: str
    scale: Scale | None = field(default=None, kw_only=True)
    range: tuple[float, float] | None = field(default=None, kw_only=True)
    outside: Outside = field(default="error", kw_only=True)
    window: int = field(default=1_000, kw_only=True)

    def __post_init__(self) -> None:
        check_kind("the feature of a context", self.feature, str, "text")
        scale: Any = ("rank" if self.range is None else "linear") if self.scale is None else self.scale
        check_one_of("scale", scale, get_args(Scale))
        object.__setattr__(self, "scale", scale)  # settings are frozen
        check_one_of("outside", self.outside, get_args(Outside))
        check_whole("window", self.window)
        if self.range is None and (self.scale == "linear" or (self.scale == "rank" and self.outside != "error")):
            allowed = "(low, high); if that is not known, use scale='rank', and leave out outside"
            raise SettingError("range", None, allowed)
        if self.range is not None and not self._range_makes_sense(self.range):
            allowed = "(low, high) with low < high" + (
                ", low >= 0 and different logarithms" if self.scale == "log" else ""
            )
            raise SettingError("range", self.range, allowed)

    def _range_makes_sense(self, given: Any) -> bool:
        if not isinstance(given, Sequence) or len(given) != 2 or not all(is_number(end) for end in given):
            return False
        low, high = given
        if self.scale == "log":
            return bool(low >= 0 and math.log1p(low) < math.log1p(high))
        return is_number(high - low) and low < high

    @property
    def ranked(self) -> int:
        """Among how many recent values it is ranked."""
        return self.window if self.scale == "rank" else 0

    def read(self, items: Sequence[Any]) -> Column:
        """Return the feature of every item, scaled unless it is to be ranked."""
        if len(items) >= MANY and self.scale == "linear":
            places = scaled_column(feature_column(items, self.feature), *(self.range or LOG_RANGE))
            if places is not None:
                return places
        values = number_column(items, self.feature)
        if self.scale == "rank":
            return values
        low, high = self.range or LOG_RANGE
        if self.outside == "clip":
            values = [min(max(value, low), high) for value in values]
        elif values and not low <= min(values) <= max(values) <= high:
            value = next(value for value in values if not low <= value <= high)
            raise ContextError(
                f"feature {self.feature!r} must be in [{low:g}, {high:g}], got {shown(value)}: "
                f"give the context another range, or outside='clip'"
            )
        if self.scale == "log":  # NumPy's log1p may differ from this one in the last bit
            low, high, values = math.log1p(low), math.log1p(high), list(map(math.log1p, values))
        width = high - low
        return [part if (part := (value - low) / width) < 1.0 else 1.0 for value in values]

    @staticmethod
    def category(feature: str) -> Category:
        """Return a feature as an axis that has a cell for each of its values; new values get one when they come."""
        return Category(feature)

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

        Seconds, NumPy's `datetime64` and a `datetime` with a time zone give the time of day in UTC; a `datetime`
        without one is taken as it is.
        """
        return TimeOfDay(feature)

    @staticmethod
    def features(*, without: Sequence[str] = ()) -> AllFeatures:
        """Return every feature of an item, but for some, as axes; a site without a context has that."""
        check_names("the features that are left out", without)
        return AllFeatures(tuple(without))

    @staticmethod
    def function(function: Callable[[Any], float], name: str = "function") -> FromFunction:
        """Return a function from an item to a number in [0, 1] as an axis."""
        return FromFunction(function, name)


@dataclass(frozen=True, slots=True)
class Category(_Axis):
    """A feature whose values have nothing between them: text, truth values, numbers that are names."""

    feature: str

    def __post_init__(self) -> None:
        check_kind("the feature of a context", self.feature, str, "text")

    @property
    def is_category(self) -> bool:
        """It has a cell for every value."""
        return True

    def read(self, items: Sequence[Any]) -> list[Any]:
        """Return the value of every item."""
        values = [plain(value) for value in feature_column(items, self.feature)]
        for value in values:
            if not isinstance(value, str | int | float) or value != value:
                raise ContextError(
                    f"category {self.feature!r} must be text, a truth value or a number, got {shown(value)}"
                )
        return values


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

    def read(self, items: Sequence[Any]) -> Floats:
        """Return a blank for every item: what counts is what the site remembers."""
        return np.zeros(len(items))

    def place(self, column: Column, past: Past, arrivals: int) -> Column:
        """Return where the newest label lies among the classes."""
        if past.newest_labelled == 0:
            return column
        return np.full(len(column), self.classes.index(past.newest_label) / (len(self.classes) - 1))

    def check_labels(self, labels: Iterable[Any]) -> None:
        """Raise unless the labels are classes."""
        for label in labels:
            try:
                known = label in self.classes
            except Exception:  # the comparison of an array, or of whatever the user's label is
                known = False
            if not known:
                named = ", ".join(repr(each) for each in self.classes)
                raise ContextError(f"the label {shown(label)} is not one of the classes of the context: {named}")


@dataclass(frozen=True, slots=True)
class Time(_Axis):
    """How far the stream of a site has come."""

    horizon: int

    def __post_init__(self) -> None:
        check_whole("horizon", self.horizon)
        if not is_number(self.horizon):
            raise SettingError("horizon", self.horizon, "a number of items that a float can hold")

    def read(self, items: Sequence[Any]) -> Floats:
        """Return a blank for every item: what counts is how many came before it."""
        return np.zeros(len(items))

    def place(self, column: Column, past: Past, arrivals: int) -> Column:
        """Return the share of the horizon that has passed; 1 after its end."""
        return [min(1.0, (arrivals + 1 + n) / self.horizon) for n in range(len(column))]


@dataclass(frozen=True, slots=True)
class TimeOfDay(_Axis):
    """The time of day that a feature tells, in UTC unless it is a `datetime` without a time zone."""

    feature: str

    def __post_init__(self) -> None:
        check_kind("the feature of a context", self.feature, str, "text")

    def read(self, items: Sequence[Any]) -> list[float]:
        """Return the share of the day that has passed."""
        return [time_of_day(self.feature, moment) for moment in feature_column(items, self.feature)]


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

    def read(self, items: Sequence[Any]) -> list[float]:
        """Return what the function says of every item, if it is in [0, 1]."""
        return [self._value(item) for item in items]

    def _value(self, item: Any) -> float:
        try:
            value = self.function(item)
        except Exception as error:  # a user's function may raise anything
            raise ContextError(f"context {self.name!r} failed: {in_one_line(error)}") from error
        if not is_number(value) or not 0.0 <= value <= 1.0:
            raise ContextError(f"context {self.name!r} must be in [0, 1], its function returned {shown(value)}")
        return float(value)


def plain_name(axis: Axis) -> str:
    """Return what an axis is called: by its feature if it has one. A function has no name but its description."""
    if isinstance(axis, PreviousLabel):
        return "previous label"
    if isinstance(axis, Time):
        return "time"
    name: str = getattr(axis, "feature", axis.description)
    return name


def read_columns(axes: Sequence[Axis], items: Sequence[Any]) -> list[Column]:
    """Return what the axes read off items, a column each, or raise."""
    return [axis.read(items) for axis in axes]


def place_columns(axes: Sequence[Axis], columns: Sequence[Column], past: Past, arrivals: int) -> Floats:
    """Return [item, axis]: where items that come after `arrivals` others lie, by rank or code where an axis says so."""
    places: list[Column] = []
    for n, (axis, column) in enumerate(zip(axes, columns, strict=True)):
        if axis.ranked:
            places.append(rank_all(past, n, axis.ranked, column))
        elif axis.is_category:
            codes = past.codes.setdefault(n, Codes())
            places.append([codes.code(value) for value in column])
        else:
            places.append(axis.place(column, past, arrivals))
    return np.ascontiguousarray(np.array(places, np.float64).T)  # a few long rows are read faster than many short ones


def rank_all(past: Past, axis: int, window: int, column: Column) -> list[float]:
    """Return the rank of each value among those before it."""
    recent = past.recent.setdefault(axis, RecentValues(window))
    return [recent.rank(float(value)) for value in column]


def read_contexts(axes: Sequence[Axis], items: Sequence[Any], past: Past, arrivals: int) -> list[tuple[float, ...]]:
    """Return the contexts of items that come after `arrivals` others; `past` changes only if all can be read."""
    points = place_columns(axes, read_columns(axes, items), past, arrivals)
    return [tuple(point) for point in points.tolist()]


def as_axes(site: str, context: Any) -> tuple[Axis, ...]:
    """Return the axes of a site from what it was given: none, one or several."""
    if context is None:
        return (AllFeatures(),)
    axes = tuple(context) if isinstance(context, list | tuple) else (context,)
    for axis in axes:
        if not isinstance(axis, Axis):
            raise SettingError(f"the context of site {site!r}", axis, "a Context, or a list of them")
    if not axes:
        raise SettingError(f"the context of site {site!r}", context, "a Context, or a list of at least one")
    last = [axis for axis in axes if isinstance(axis, AllFeatures)]
    if len(last) > 1:
        raise SettingError(f"Context.features() of site {site!r}", context, "given once")
    return (*(axis for axis in axes if not isinstance(axis, AllFeatures)), *last)
