"""From an item to its context: one number in [0, 1] for each axis, or the value of a category.

    Feature("age")                       a feature, by its rank among the last 1,000 values
    Feature("duration", scale="log")     a feature, scaled
    Feature("prompt", of="length")       a number of a text; `text_numbers("prompt")` has all of them
    Category("service")                  a feature with a separate cell for each value
    PreviousLabel("normal", "attack")    the newest label that is known
    Time(20_000)                         how much of the stream has passed
    TimeOfDay("timestamp")               0 is midnight, 0.5 noon
    FromFunction(lambda item: ...)       anything else
    Confidence("tree")                   how sure a free local model is of its opinion on the item
    Says("tree")                         the label that it says
    AllFeatures()                        every feature; each gets an axis, after the others, once enough items were seen

An axis works in two steps. `read` takes a column off the items of a batch: it may
run code of the user and may refuse an item, and it changes nothing. `place` turns the column into places on the axis:
it may use what the site remembers, and never refuses. An axis that hears a model has no column to read: its places come
with the opinions on the items, which are known before the choice.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

import numpy as np

from cosend.algorithm.layout import Floats
from cosend.checks import as_list, check_callable, check_kind, check_one_of, check_text, check_whole, is_number
from cosend.errors import ContextError, FeatureWarning, SettingError, in_one_line, levels_to_the_user, listed, shown
from cosend.models.adapters import DICT, NAMED, check_names, is_table, named, plain

Scale = Literal["linear", "log", "rank"]
Outside = Literal["error", "clip"]
Column = Sequence[Any] | Floats

LOG_RANGE: Final = (0.0, 1e9)
DAY_S: Final = 86_400.0
MANY: Final = 16  # values that an array scales faster than a list
NUMBERS: Final = frozenset({int, float})
TEXT: Final = frozenset((str,))
TEXT_NUMBERS: Final = ("length", "words", "digits", "other scripts", "code", "lines", "question")
LOOKED_AT: Final = 4_096  # characters of a text: so a long one takes no longer
BLANKS: Final = " \t\n\v\f\r"  # what is no part of a word, in any version of Unicode
ASCII: Final = bytes(range(128))
DIGITS: Final = b"0123456789"
CODE: Final = b"#$&*+/;<=>@[\\]^_`{|}~"  # marks that prose hardly has
QUESTIONS: Final = ("?", "\u061f", "\uff1f")
Item = Mapping[str, Any]
AN_AXIS: Final = "an axis such as axes.Feature('age'), or a list of at least one"
EVERY_FEATURE: Final = "every feature"
NO_FEATURES: Final[Item] = {}
HEARS_LEARNT: Final = False  # whether a site without a context also looks at how sure its learnt arms are
BUT_TEXT: Final = '; for text, use axes.Category({}), in a network file kind = "category"'


class Axis(ABC):
    """One axis of a context; on most, a value is in [0, 1] as it is read, and any label will do."""

    __slots__ = ()

    @property
    def description(self) -> str:
        """Its kind and its settings: two of the same description place an item at the same point."""
        return repr(self)

    @property
    def is_category(self) -> bool:
        """Whether it has a cell for every value, instead of numbers in [0, 1]."""
        return False

    @property
    def ranked(self) -> int:
        """Among how many recent values its numbers are ranked; 0 if they are not."""
        return 0

    @property
    def watches(self) -> bool:
        """Whether it stands for every feature: for axes that come later."""
        return False

    @property
    def hears(self) -> str:
        """The local model whose opinion it is; empty if it is read off the item."""
        return ""

    @abstractmethod
    def read(self, items: Sequence[Any]) -> Column:
        """Return a value for every item, or raise."""

    def place(self, column: Column, newest_label: Any, arrivals: int) -> Column:
        """Return where the values lie, for items that come after `arrivals` others; ranks and codes are not its job."""
        return column

    def check_labels(self, labels: Iterable[Any]) -> None:  # noqa: B027 - most axes take any label
        """Raise if the axis could not place the next item after one of these true labels."""


@dataclass(frozen=True, slots=True)
class Feature(Axis):
    """A feature of the item as an axis.

    scale    "linear" over `range`; "log" for counts and sizes, over `range` or up to a thousand million; "rank" among
             the last `window` values, for features whose range is not known. By default "linear" if a range is given,
             else "rank"
    outside  what to do with a value outside `range`: refuse the item, or "clip" it to the nearest end
    of       a number of a text, instead of the text itself: one of `TEXT_NUMBERS`

    >>> Feature("age", range=(0, 100)).read([{"age": 25}])
    [0.25]
    >>> Feature("age", range=(0, 100), outside="clip").read([{"age": 120}])
    [1.0]
    """

    feature: str
    scale: Scale | None = field(default=None, kw_only=True)
    range: tuple[float, float] | None = field(default=None, kw_only=True)
    outside: Outside = field(default="error", kw_only=True)
    window: int = field(default=1_000, kw_only=True)
    of: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_kind("the feature of a context", self.feature, str, "text")
        if self.of is not None:
            check_one_of("of", self.of, TEXT_NUMBERS)
        scale: Any = ("rank" if self.range is None else "linear") if self.scale is None else self.scale
        check_one_of("scale", scale, get_args(Scale))
        object.__setattr__(self, "scale", scale)  # settings are frozen
        check_one_of("outside", self.outside, get_args(Outside))
        check_whole("window", self.window)
        if self.range is None and (self.scale == "linear" or (self.scale == "rank" and self.outside != "error")):
            allowed = "(low, high); if that is not known, use scale='rank' without outside"
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

    def __repr__(self) -> str:
        """Return how it is made; sites compare that, and one without `of` says what it always said."""
        given = [each.name for each in fields(self) if each.name != "of" or self.of is not None]
        return f"Feature({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"

    @property
    def ranked(self) -> int:
        return self.window if self.scale == "rank" else 0

    def read(self, items: Sequence[Any]) -> Column:
        """Return the feature of every item, scaled unless it is to be ranked."""
        if len(items) >= MANY and self.scale == "linear" and self.of is None:
            places = scaled_column(feature_column(items, self.feature), *(self.range or LOG_RANGE))
            if places is not None:
                return places
        values = number_column(items, self.feature) if self.of is None else text_column(items, self.feature, self.of)
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


@dataclass(frozen=True, slots=True)
class Category(Axis):
    """A feature whose values have nothing between them: text, truth values, numbers that are names."""

    feature: str

    def __post_init__(self) -> None:
        check_kind("the feature of a context", self.feature, str, "text")

    @property
    def is_category(self) -> bool:
        return True

    def read(self, items: Sequence[Any]) -> list[Any]:
        values = [plain(value) for value in feature_column(items, self.feature)]
        for value in values:
            if not isinstance(value, str | int | float) or value != value:
                raise ContextError(
                    f"category {self.feature!r} must be text, a truth value or a number, got {shown(value)}"
                )
        return values


@dataclass(frozen=True, slots=True, init=False)
class PreviousLabel(Axis):
    """The true label of the newest item whose label is known; the first class before there is one.

    Name all classes, in their order on the axis.
    """

    classes: tuple[Any, ...]

    def __init__(self, *classes: Any) -> None:
        try:
            different = len(set(classes))
        except TypeError:  # a list, or an array
            raise SettingError("classes", classes, "two or more different labels that can be hashed") from None
        if different < 2 or different != len(classes):
            raise SettingError("classes", classes, "two or more different labels")
        object.__setattr__(self, "classes", classes)  # settings are frozen

    def read(self, items: Sequence[Any]) -> Floats:
        """Return a blank for every item: what counts is what the site remembers."""
        return np.zeros(len(items))

    def place(self, column: Column, newest_label: Any, arrivals: int) -> Column:
        """Return where the newest label lies among the classes."""
        if newest_label is None:
            return column
        return np.full(len(column), self.classes.index(newest_label) / (len(self.classes) - 1))

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
class Time(Axis):
    """How much of a site's stream has passed."""

    horizon: int

    def __post_init__(self) -> None:
        check_whole("horizon", self.horizon)
        if not is_number(self.horizon):
            raise SettingError("horizon", self.horizon, "a number of items that a float can hold")

    def read(self, items: Sequence[Any]) -> Floats:
        """Return a blank for every item: what counts is how many came before it."""
        return np.zeros(len(items))

    def place(self, column: Column, newest_label: Any, arrivals: int) -> Column:
        """Return the share of the horizon that has passed; 1 after its end."""
        return [min(1.0, (arrivals + 1 + n) / self.horizon) for n in range(len(column))]


@dataclass(frozen=True, slots=True)
class TimeOfDay(Axis):
    """The time of day of a feature that holds seconds since 1970 or a `datetime`.

    Seconds, NumPy's `datetime64` and a `datetime` with a time zone give the time of day in UTC; a `datetime` without
    one is taken as it is.
    """

    feature: str

    def __post_init__(self) -> None:
        check_kind("the feature of a context", self.feature, str, "text")

    def read(self, items: Sequence[Any]) -> list[float]:
        """Return the share of the day that has passed."""
        return [time_of_day(self.feature, moment) for moment in feature_column(items, self.feature)]


@dataclass(frozen=True, slots=True)
class FromFunction(Axis):
    """Whatever a function of the user says."""

    function: Callable[[Any], float]
    name: str = "function"

    def __post_init__(self) -> None:
        check_callable("the function of a context", self.function, "a function from an item to a number in [0, 1]")
        check_kind("the name of a context", self.name, str, "text")

    @property
    def description(self) -> str:
        return f"function {self.name!r}"

    def read(self, items: Sequence[Any]) -> list[float]:
        """Return the value of the function for every item, if it is in [0, 1]."""
        return [self._value(item) for item in items]

    def _value(self, item: Any) -> float:
        try:
            value = self.function(item)
        except Exception as error:  # a user's function may raise anything
            raise ContextError(f"context {self.name!r} failed: {in_one_line(error)}") from error
        if not is_number(value) or not 0.0 <= value <= 1.0:
            raise ContextError(f"context {self.name!r} must be in [0, 1], its function returned {shown(value)}")
        return float(value)


@dataclass(frozen=True, slots=True)
class Opinion(Axis):
    """The opinion of a free local model as an axis: missing where it has no opinion.

    optional  a site without this model, or where it costs something, always lacks the axis; else that is an error
    """

    model: str
    optional: bool = field(default=False, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_text("the model of a context", self.model)
        check_kind("optional", self.optional, bool, "True or False")

    @property
    def hears(self) -> str:
        return self.model

    def read(self, items: Sequence[Any]) -> Floats:
        """Return a blank for every item: what counts is what the model says."""
        return np.zeros(len(items))


@dataclass(frozen=True, slots=True)
class Confidence(Opinion):
    """How sure a free local model is of its opinion: a probability. Missing where it does not say.

    >>> Confidence("tree").description
    "Confidence(model='tree')"
    """


@dataclass(frozen=True, slots=True)
class Says(Opinion):
    """The label that a free local model gives, with a separate cell for each label."""

    @property
    def is_category(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class AllFeatures(Axis):
    """Every feature of an item as an axis, except those in `without`, each once enough items were seen."""

    without: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_names("the excluded features", self.without)
        for name in self.without:
            check_text("an excluded feature", name)
        object.__setattr__(self, "without", tuple(self.without))  # settings are frozen

    @property
    def description(self) -> str:
        """The knowledge about it before an item comes."""
        return f"{EVERY_FEATURE} but {', '.join(self.without)}" if self.without else EVERY_FEATURE

    @property
    def watches(self) -> bool:
        return True

    def read(self, items: Sequence[Any]) -> list[Item]:
        """Return the features of every item; what has none by name has none at all."""
        rows = [item if type(item) is dict else _as_dict(item) for item in items]
        if rows and not TEXT.issuperset(map(type, rows[0])):  # one of them is enough: it is only a warning
            _warn_of_names(rows[0])
        if not self.without:
            return rows
        return [
            row if row is NO_FEATURES else {name: value for name, value in row.items() if name not in self.without}
            for row in rows
        ]


def _as_dict(item: Any) -> Item:
    """Return an item with its values, or raise: no later code has to read it, when errors would come too late."""
    try:
        features = named(item)
        return NO_FEATURES if features is None else dict(features)
    except Exception as error:  # a mapping of the user's may raise anything
        raise ContextError(f"the features of an item cannot be read: {in_one_line(error)}") from error


def _warn_of_names(item: Item) -> None:
    """Warn of features whose names are not text; Python shows that once for each line of the user."""
    wrong = {type(name).__name__ for name in item if not isinstance(name, str)}
    if wrong:
        sentence = f"names of features must be text, and others are not looked at: {', '.join(sorted(wrong))}"
        warnings.warn(sentence, FeatureWarning, stacklevel=levels_to_the_user())


def warn_of_no_names(site: str, items: Sequence[Any], rows: Sequence[Item]) -> bool:
    """Warn if an item has no names for its values: of those, nothing is looked at. Returns whether it has warned."""
    for item, row in zip(items, rows, strict=True):
        if row is NO_FEATURES:
            sentence = f"site {site!r} looks at every feature by its name, and an item has no names: {shown(item)}"
            sentence += f"; give {NAMED}, or give the site a context"
            warnings.warn(sentence, FeatureWarning, stacklevel=levels_to_the_user())
            return True
    return False


def watches(axes: Sequence[Axis]) -> bool:
    """Tell whether the last of the axes stands for every feature."""
    return bool(axes) and axes[-1].watches


def in_order(axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Return axes in the order in which sites have them: read off items, heard from models, every feature."""
    return tuple(sorted(axes, key=lambda axis: (axis.watches, bool(axis.hears))))


def default_axes(learnt: Iterable[str], without: Sequence[str] = ()) -> tuple[Axis, ...]:
    """Return the context of a site that is given none, without some features.

    learnt  the arms that it learns itself
    """
    heard = [Confidence(arm, optional=True) for arm in learnt if HEARS_LEARNT]
    return in_order([AllFeatures(without), *heard])


def plain_name(axis: Axis) -> str:
    """Return what an axis is called: by its feature if it has one. A function has no name but its description."""
    if isinstance(axis, Confidence):
        return f"confidence of {axis.model}"
    if isinstance(axis, Says):
        return f"what {axis.model} says"
    if isinstance(axis, PreviousLabel):
        return "previous label"
    if isinstance(axis, Time):
        return "time"
    name: str = getattr(axis, "feature", axis.description)
    return number_name(name, getattr(axis, "of", None) or "")


def read_columns(axes: Sequence[Axis], items: Sequence[Any]) -> list[Column]:
    """Return what the axes read off items, a column each, or raise."""
    return [axis.read(items) for axis in axes]


def as_axes(site: str, context: Any, learnt: Iterable[str] = ()) -> tuple[Axis, ...]:
    """Return the axes of a site from its `context`: none, one or several; `learnt` as for `default_axes`."""
    if context is None:
        return default_axes(learnt)
    axes = tuple(context) if isinstance(context, list | tuple) else (context,)
    for axis in axes:
        if not isinstance(axis, Axis):
            raise SettingError(f"the context of site {site!r}", axis, AN_AXIS)
    if not axes:
        raise SettingError(f"the context of site {site!r}", context, AN_AXIS)
    last = [axis for axis in axes if isinstance(axis, AllFeatures)]
    if len(last) > 1:
        raise SettingError(f"AllFeatures() of site {site!r}", context, "given once")
    return in_order(axes)


# Texts as numbers


def numbers_of(text: str) -> tuple[float, ...]:
    """Return the `TEXT_NUMBERS` of a text: the same everywhere, and quick whatever its length.

    >>> dict(zip(TEXT_NUMBERS, numbers_of("Is 2 + 2 = 4?")))["question"]
    2.0
    """
    start = text[:LOOKED_AT]
    written, size = start.encode("utf-8", "surrogatepass"), max(1, len(start))
    in_ascii = len(written) - len(written.translate(None, ASCII))
    digits, marks = (len(written) - len(written.translate(None, of)) for of in (DIGITS, CODE))
    question = 2.0 if text[-LOOKED_AT:].rstrip(BLANKS).endswith(QUESTIONS) else 0.0
    if not question and any(mark in start for mark in QUESTIONS):
        question = 1.0
    shares = digits / size, (len(start) - in_ascii) / size, marks / size
    return float(len(text)), float(len(written.split())), *shares, float(1 + written.count(b"\n")), question


def text_numbers(feature: str) -> tuple[Feature, ...]:
    """Return all numbers of a text as axes."""
    return tuple(Feature(feature, of=each) for each in TEXT_NUMBERS)


def number_name(feature: str, of: str) -> str:
    """Return what a feature, or a number of it, is called."""
    return f"{feature}: {of}" if of else feature


def text_column(items: Sequence[Any], feature: str, of: str) -> list[float]:
    """Return a number of a text of every item, or raise for the first that has no text there."""
    values, place = [plain(value) for value in feature_column(items, feature)], TEXT_NUMBERS.index(of)
    for value in values:
        if not isinstance(value, str):
            raise ContextError(f"feature {feature!r} must be text, got {shown(value)}: its {of} is an axis")
    return [numbers_of(value)[place] for value in values]


# Columns of features, read to the same bits as one by one


def as_rows(what: str, items: Any) -> list[Any]:
    """Return the items of a batch one by one: of a list, a DataFrame, or a NumPy array with named fields."""
    if isinstance(items, np.ndarray) and items.dtype.names is not None:
        return _named_rows(what, items)
    rows: list[Any]
    if hasattr(items, "to_dicts"):  # polars
        rows = items.to_dicts()
        return rows
    if hasattr(items, "to_dict") and hasattr(items, "columns"):  # pandas
        rows = items.to_dict("records")
        return rows
    return as_list(what, items, "a list of items, a DataFrame, or an array with named fields")


def _named_rows(what: str, items: np.ndarray[Any, Any]) -> list[Any]:
    """Return the rows of an array with named fields; moments stay moments, and do not become numbers."""
    if items.ndim > 1:
        raise SettingError(what, f"an array of shape {items.shape}", "an array with named fields and one row an item")
    names, rows = items.dtype.names or (), np.atleast_1d(items)
    columns = [list(rows[name]) if rows[name].dtype.kind in "mM" else rows[name].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def check_one(item: Any) -> None:
    """Raise if these are many items."""
    if is_table(item) or (isinstance(item, list) and item and named(item[0]) is not None):
        kind = "a list" if isinstance(item, list) else f"a {type(item).__name__}"
        raise ContextError(f"classify takes one item, got {kind} of {len(item)} items: classify_many takes these")


def feature_column(items: Sequence[Any], feature: str) -> list[Any]:
    """Return a feature of every item, or raise for the first that has none."""
    try:
        if DICT.issuperset(map(type, items)):
            return [item[feature] for item in items]
    except KeyError:
        pass
    return [_feature(item, feature) for item in items]


def _feature(item: Any, feature: str) -> Any:
    features = named(item)
    if features is None:
        sentence = f"the item has no feature {feature!r}; it has no names for its values: it is {shown(item)}"
        raise ContextError(f"{sentence}; give {NAMED}")
    try:
        return features[feature]
    except KeyError:
        has = listed([str(key) for key in features])
        raise ContextError(f"the item has no feature {feature!r}; it has {has}") from None


def number_column(items: Sequence[Any], feature: str) -> list[float]:
    """Return a feature of every item as a finite number, or raise for the first that is none."""
    values = feature_column(items, feature)
    try:
        if NUMBERS.issuperset(map(type, values)) and math.isfinite(sum(values)):  # the sum is only finite if all are
            return list(map(float, values))
    except OverflowError:  # a whole number that no float can hold
        pass
    return [_number(feature, value) for value in values]


def scaled_column(values: list[Any], low: float, high: float) -> Floats | None:
    """Return where many numbers lie between two, to the same bits as one by one; None if any needs a closer look."""
    if not NUMBERS.issuperset(map(type, values)):
        return None
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:  # a whole number that no float can hold
        return None
    if not (low <= numbers.min() and numbers.max() <= high):  # one that is no number is neither
        return None
    return np.minimum((numbers - float(low)) / float(high - low), 1.0)


def _number(feature: str, value: Any) -> float:
    if not is_number(value):
        sentence = f"feature {feature!r} must be a finite number, got {shown(value)}"
        raise ContextError(sentence + (BUT_TEXT.format(shown(feature)) if isinstance(value, str) else ""))
    return float(value)


def time_of_day(feature: str, moment: Any) -> float:
    """Return the share of the day that has passed at a moment: seconds, a `datetime` or a NumPy `datetime64`."""
    if isinstance(moment, np.datetime64):
        seconds = (moment - moment.astype("datetime64[D]")) / np.timedelta64(1, "s")
        if math.isnan(seconds):
            raise ContextError(f"feature {feature!r} must be a date with a time, got {shown(moment)}")
        return float(seconds) / DAY_S
    if isinstance(moment, datetime) and moment == moment:  # pandas' NaT is a datetime too, and equals nothing
        seconds = moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6
        ahead = moment.utcoffset() or timedelta()
        return float((seconds - ahead.total_seconds()) % DAY_S / DAY_S)
    if not is_number(moment):
        raise ContextError(f"feature {feature!r} must be a finite number, got {shown(moment)}")
    return float(moment) % DAY_S / DAY_S
