"""From items to points: the place of an item on every axis, and how points are written for others.

A point is an array of numbers: places in [0, 1], the codes of categories, or not a number where an item has no place.
Spelled, as in events and calls to peers, it is a tuple that needs no state to be read: the values of categories
instead of this site's codes, and None where an item has no place.

Where every feature of the items is looked at, each becomes an axis by itself: it is watched from the first item that
has it, for 128 items. The result stays the same for ever:

    a number                   an axis that is cut at quantiles of these values; values that repeat are told apart
    text, or a truth value     the same, by how frequent the values are: 0 for the most frequent one, 1 for the next
    texts that hardly repeat   an axis for each of their numbers (length, words, ...: `axes.TEXT_NUMBERS`) that differs
                               from item to item, and none for the text itself: it tells nothing about later items. If
                               most are one word each, no axis at all: names and identifiers
    lists of numbers           axes for the directions in which these vectors differ most, at most 8; none for a vector
                               of another length than most
    nothing of these           no axis
    in fewer than 4 items      no axis: names that are new with every item tell nothing, and each axis is work for all
                               items to come
    the same for every item    no axis, until the first item that has another value or none; this can come of the
                               features of the first 128 items only, and those that come later get an axis

An item may lack a feature, or have one of another kind than before: it then has no place on that axis. A view of
4 or 16 slices of an axis sees quantiles, and a view of all its places sees single values.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast
from zlib import crc32

import numpy as np

from cosend.algorithm.layout import MOST_CODES, Floats
from cosend.algorithm.learner import MOST_FEATURES
from cosend.algorithm.mixture_views import EXACT
from cosend.axes import (
    NO_FEATURES,
    TEXT_NUMBERS,
    Axis,
    Column,
    Item,
    number_name,
    numbers_of,
    plain_name,
    read_columns,
    watches,
)
from cosend.engine.learnt_arms import Opinions
from cosend.errors import ContextError, FeatureWarning, StateError, levels_to_the_user

SHARED: Final = MOST_CODES - 1  # the code of all values that came when no other was left
Spelled = tuple[Any, ...]

# Of features that get axes by themselves.
ENOUGH: Final = 128  # items after which a feature is known well enough
SLICES: Final = 64  # that quantiles cut
WITHIN: Final = EXACT // SLICES  # places in each of them
RARE: Final = 4  # items that must have a feature, of those it was watched for; or another number of a text than most
FEW: Final = 16  # texts that are never too many
DIRECTIONS: Final = 8  # of a vector that get axes
LONGEST: Final = 4_096  # numbers of a vector that is looked at
STEPS: Final = 30  # in which directions are found
ALIKE: Final = 1e-9  # the spread along a direction, compared with the widest, below which it is noise
MOST_NAMES: Final = 2_000  # of features that are ever watched
LARGEST: Final = 2**63 - 1  # whole number that a log can hold
MANY: Final = 8  # items from which on their numbers are read together
LISTS: Final = (list, tuple, np.ndarray)
PLAIN: Final = frozenset((float, int, type(None)))
NUMBERS: Final = frozenset((float, int))
COMPARED: Final = frozenset((float, int, str, bool))  # whose values are equal or not, and no more to it
AT_ONCE: Final = 256  # items whose places are looked up together
MIXER: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: neighbours get different places


class Encoder:
    """Places items on the axes, and remembers what that takes: the newest label, recent values, codes, features."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self.given = self.axes[:-1] if watches(axes) else self.axes
        self.read = tuple(axis for axis in self.given if not axis.hears)  # off items: the first of those given
        self.heard = {n: axis.hears for n, axis in enumerate(self.given) if axis.hears}  # by axis: the model
        self.names = tuple(axis.description for axis in self.read)  # as sites compare them
        self.ranked = {n: axis.ranked for n, axis in enumerate(self.given) if axis.ranked}
        self.categories = [n for n, axis in enumerate(self.given) if axis.is_category]
        self.read_categories = [n for n in self.categories if n not in self.heard]
        self.newest_id = 0  # of the newest decision whose true label is known
        self.newest_label: Any = None
        self.recent: dict[int, RecentValues] = {}  # by axis
        self.codes = {axis: Codes(said=axis in self.heard) for axis in self.categories}
        self.features = FeatureAxes() if watches(self.axes) else None
        self.lacks = self.features is not None or bool(self.heard)  # whether an item may lack a value
        self.spells = self.lacks or bool(self.codes)  # whether a spelled point differs from the point itself

    def draft(self) -> Encoder:
        """Return a copy that can place items while this one remembers nothing of them."""
        other = copy(self)
        other.recent = {axis: RecentValues(each.window, each.values) for axis, each in self.recent.items()}
        other.codes = {axis: Codes(each.values, said=each.said) for axis, each in self.codes.items()}
        other.features = None if self.features is None else self.features.draft()
        return other

    @property
    def axis_names(self) -> tuple[str, ...]:
        """All axes by name: those given, with their settings where a name is not enough, then features."""
        created = self.features.axis_names if self.features is not None else ()
        names = [plain_name(axis) for axis in self.given]
        twice = {name for name, count in Counter([*names, *created]).items() if count > 1}
        both = zip(names, self.given, strict=True)
        return (*(axis.description if name in twice else name for name, axis in both), *created)

    @property
    def feature_axes(self) -> FeatureAxes:
        """The knowledge about features; raises if only given axes are looked at."""
        if self.features is None:
            raise StateError("the site looks at the given axes only, not at every feature")
        return self.features

    def remember_label(self, ids: Sequence[int], truths: Sequence[Any]) -> None:
        newest = max(ids) if ids else 0
        if newest > self.newest_id:
            self.newest_id, self.newest_label = newest, truths[ids.index(newest)]

    # Items of this site

    def place(self, columns: Sequence[Column], arrivals: int) -> Floats:
        """Return [item, axis]: where new items lie that come after `arrivals` others, on axes that are read off them.

        They are remembered.
        """
        places: list[Column] = []
        for n, (axis, column) in enumerate(zip(self.read, columns, strict=False)):
            if axis.ranked:
                places.append(self.rank(n, column))
            elif axis.is_category:
                codes = self.codes[n]
                places.append([codes.code(value) for value in column])
            else:
                places.append(axis.place(column, self.newest_label, arrivals))
        return np.ascontiguousarray(np.array(places, np.float64).T)  # a few long rows are read faster than many short

    def rank(self, axis: int, column: Column) -> list[float]:
        """Return the rank of each value among those before it, and remember them."""
        recent = self.recent.setdefault(axis, RecentValues(self.ranked[axis]))
        return [recent.rank(float(value)) for value in column]

    def look(self, items: Sequence[Any], arrivals: int) -> Floats:
        """Return [item, axis]: where each item would lie if it came next, whatever the others are; nothing changes.

        It has no place yet on axes that hear models.
        """
        columns = read_columns(self.axes, items)
        points = np.full((len(items), len(self.given)), np.nan)
        for n, column in enumerate(columns[: len(self.read)]):
            points[:, n] = self._look_on(n, column, arrivals)
        return points if self.features is None else np.hstack([points, self.features.place(cast("Any", columns[-1]))])

    def _look_on(self, n: int, column: Column, arrivals: int) -> list[float]:
        axis = self.given[n]
        if axis.ranked:
            recent = self.recent.get(n) or RecentValues(axis.ranked)
            return [recent.look(float(value)) for value in column]
        if axis.is_category:
            return [self.codes[n].find(value) for value in column]
        return [float(axis.place(column[k : k + 1], self.newest_label, arrivals)[0]) for k in range(len(column))]

    # Opinions of models, as places

    def with_room(self, points: Floats) -> Floats:
        """Return points with axes that hear models behind those that are read; items have no place there yet."""
        room, read = np.full((len(points), len(self.heard)), np.nan), len(self.read)
        return np.hstack([points[:, :read], room, points[:, read:]])

    def without_room(self, points: Floats) -> Floats:
        """Return points without the axes that hear models."""
        return np.delete(points, [*self.heard], axis=1)

    def hear(self, points: Floats, heard: Opinions, code: Callable[[Codes, Any], float]) -> None:
        """Enter the places of items on the axes that hear models, by their opinions and how sure they are."""
        for axis, model in self.heard.items():
            said, sure = heard.said.get(model), heard.sure.get(model)
            if said is not None and axis in self.codes:
                points[:, axis] = [code(self.codes[axis], label) for label in said]
            elif said is not None and sure is not None:
                points[:, axis] = [math.nan if label is None else p for label, p in zip(said, sure, strict=True)]

    def hear_spelled(self, contexts: Sequence[Spelled], heard: Opinions) -> list[Spelled]:
        """Return spelled points with what models say about the items."""
        columns = list[Sequence[Any]]()
        for axis, model in self.heard.items():
            nothing = [None] * len(contexts)
            said: Sequence[Any] = heard.said.get(model, nothing)
            if axis not in self.codes:
                sure = [*map(none_for_nan, heard.sure[model].tolist())] if model in heard.sure else nothing
                said = [None if label is None else p for label, p in zip(said, sure, strict=True)]
            columns.append(said)
        first, end = len(self.read), len(self.given)
        both = zip(contexts, zip(*columns, strict=True), strict=True)
        return [(*context[:first], *said, *context[end:]) for context, said in both]

    # Points in words, and back

    def spell(self, point: Floats) -> Spelled:
        """Return a point as others read it."""
        spelled: list[Any] = point.tolist()
        for axis, codes in self.codes.items():
            spelled[axis] = codes.value(spelled[axis])
        return tuple(map(none_for_nan, spelled)) if self.lacks else tuple(spelled)

    def spell_all(self, points: Floats) -> list[Spelled]:
        if self.spells:
            return [self.spell(point) for point in points]
        return list(map(tuple, points.tolist()))

    def point(self, spelled: Sequence[Any], dimensions: int, code: Callable[[Codes, Any], float]) -> tuple[float, ...]:
        """Return the point that was spelled; it has no place on axes that were created or are heard since then."""
        if not self.spells and None not in spelled:
            return tuple(spelled)
        point = list(spelled)
        for axis, codes in self.codes.items():
            if axis < len(point):
                known = codes.said or isinstance(point[axis], str | int | float | None)
                if not known or point[axis] != point[axis]:
                    raise ContextError(f"axis {axis} of a context is not a value: {point[axis]!r}")
                point[axis] = float(code(codes, point[axis]))
        missing = [math.nan] * (dimensions - len(point)) if self.lacks else []
        return (*(math.nan if value is None else value for value in point), *missing)

    # Items of peers that may describe them by other axes

    def describe(
        self, items: Sequence[Any], contexts: Sequence[Spelled], axes: Sequence[str], arrivals: int, *, lenient: bool
    ) -> list[Spelled]:
        """Return the contexts of a peer's items on the given axes of this site; nothing is remembered about them.

        Axes that the peer's context lacks are read off the item. If that fails, a lenient site goes without.
        Opinions come later: they are those of this site's models.
        """
        columns = [self._described(n, items, contexts, axes, arrivals, lenient) for n in range(len(self.read))]
        columns += [[None] * len(items)] * len(self.heard)
        return list(zip(*columns, strict=True)) if columns else [()] * len(items)

    def _described(
        self,
        n: int,
        items: Sequence[Any],
        contexts: Sequence[Spelled],
        axes: Sequence[str],
        arrivals: int,
        lenient: bool,
    ) -> list[Any]:
        axis = self.given[n]
        if axis.description in axes:
            place = [*axes].index(axis.description)
            return [context[place] if place < len(context) else None for context in contexts]
        try:
            values = axis.read(items)
        except ContextError:
            if len(items) > 1:  # find out which
                alone = [self._described(n, [item], [()], axes, arrivals, lenient) for item in items]
                return [place for places in alone for place in places]
            if lenient:
                return [None]
            raise
        return [*values] if axis.is_category else self._look_on(n, values, arrivals)


def none_for_nan(value: Any) -> Any:
    return None if value != value else value


# Remembered values of ranked axes and of categories


class RecentValues:
    """The last values of a feature, to tell how a new one ranks among them."""

    def __init__(self, window: int, values: Sequence[float] = ()) -> None:
        self.window = window
        self.values = deque(values)
        self._sorted = sorted(values)

    def rank(self, value: float) -> float:
        """Return the share of recent values below this one, equal ones half, and remember it."""
        rank = self.look(value)
        self.values.append(value)
        insort(self._sorted, value)
        if len(self.values) > self.window:
            del self._sorted[bisect_left(self._sorted, self.values.popleft())]
        return rank

    def look(self, value: float) -> float:
        """Return the share of recent values below this one, equal ones half, without remembering it."""
        below, up_to = bisect_left(self._sorted, value), bisect_right(self._sorted, value)
        return (below + up_to) / (2 * len(self._sorted)) if self._sorted else 0.5


class Codes:
    """The values of a category in the order they came: a value's code is its place. The last code is shared.

    said  they are the labels that a model says: what has no code, and an item of which it says nothing, has no place
    """

    def __init__(self, values: Sequence[Any] = (), *, said: bool = False) -> None:
        self.values, self.said = list(values), said
        self.other = math.nan if said else SHARED
        self._codes = {value: code for code, value in enumerate(self.values)}

    def code(self, value: Any) -> float:
        """Return the code of a value, assigning the next free one; None stands for values beyond the limit."""
        code = self.find(value)
        if code == len(self.values) and code < SHARED:
            self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def find(self, value: Any) -> float:
        """Return the code of a value, or the one that it would get: a cell that was never visited."""
        code = SHARED if value is None else self._codes.get(value, len(self.values))
        return code if code < SHARED else self.other

    def value(self, code: float) -> Any:
        """Return the value of a code; None for the code that is shared, and where there is none."""
        return self.values[int(code)] if code < SHARED else None


# Features that get axes by themselves


class FeatureAxis(NamedTuple):
    """A feature that has an axis."""

    name: str
    edges: tuple[float, ...]
    repeats: bool  # its values repeat, so that each has its own place
    values: tuple[Any, ...]  # of a text or truth value, the most frequent one first; the number of each is its place
    of: str = ""  # the number of a text, or the direction of a vector, that it is; else the feature itself
    weights: tuple[float, ...] = ()  # of the numbers of a vector

    @property
    def title(self) -> str:
        return number_name(self.name, self.of)


NO_NUMBERS: Final = (math.nan,) * len(TEXT_NUMBERS)
WORDS: Final = TEXT_NUMBERS.index("words")
OTHER_SCRIPTS: Final = TEXT_NUMBERS.index("other scripts")  # which may have no blanks between words


class NewAxes(NamedTuple):
    """The result of watching features."""

    axes: list[FeatureAxis]
    ignored: list[str]  # that get no axis
    constant: list[str]  # that every item had, all with the same value


@dataclass
class FeatureAxes:
    """The knowledge of a site about the features of its items."""

    seen: dict[str, list[Any]] = field(default_factory=dict)  # by name: values while it is watched, None if missing
    ignored: set[str] = field(default_factory=set)  # that get no axis
    axes: list[FeatureAxis] = field(default_factory=list)  # in the order of the axes
    constant: dict[str, Any] = field(default_factory=dict)  # by name: the one value of features that never changed
    own: bool = False  # items of the site itself have come; those of peers are no longer watched then

    def __post_init__(self) -> None:
        self._prepare()

    def draft(self) -> FeatureAxes:
        """Return a copy that can watch items while this one stays as it is."""
        other = copy(self)
        other.seen = {name: values.copy() for name, values in self.seen.items()}
        other.ignored, other.constant, other.axes = self.ignored.copy(), self.constant.copy(), self.axes.copy()
        other._names = self._names.copy()
        return other

    @property
    def axis_names(self) -> list[str]:
        """The axes by name; a number of a text is called otherwise if a feature has its name."""
        names, taken = list[str](), {feature.name for feature in self.axes if not feature.of}
        for feature in self.axes:
            name = feature.title
            while feature.of and name in taken:
                name = f"({name})"
            names.append(name)
            taken.add(name)
        return names

    def found(self, item: Item = NO_FEATURES) -> NewAxes | None:
        """Return what is known well enough by now, and before this item comes; None if nothing new. Nothing changes."""
        changed = self._changed(item)
        if self._oldest < ENOUGH and not changed:
            return None
        found = NewAxes([], [], [])
        for name, values in self.seen.items():
            if len(values) >= ENOUGH:
                self._judge(name, values, item, found)
        found.axes.extend(axis_of(name, [self.constant[name]]) for name in changed)
        return found

    def _judge(self, name: str, values: Sequence[Any], item: Item, found: NewAxes) -> None:
        """Enter what has come of watching a feature before an item comes."""
        vectors = [value for value in values if type(value) is tuple]
        there = [value for value in values if value is not None and type(value) is not tuple]
        coming = known(item.get(name)) if item else values[0]
        room = MOST_FEATURES - len(self.axes) - len(self.constant) - len(found.axes) - len(found.constant)
        if len(vectors) > len(there):
            found.axes.extend(directions := axes_of_vectors(name, vectors)[: max(0, room)])
            found.ignored.extend(() if directions else (name,))
        elif len(there) < RARE or room <= 0:
            found.ignored.append(name)
        elif _hardly_repeats(there):
            of_text = axes_of_text(name, there)[:room]
            found.axes.extend(of_text)
            found.ignored.extend(() if of_text else (name,))
        elif self._is_first and all(value == values[0] for value in (*values, coming)):
            found.constant.append(name)
        else:
            found.axes.append(axis_of(name, there))

    def _changed(self, item: Item) -> list[str]:
        """Return the features that never changed before this item; one that has no features at all says nothing."""
        values = [*map(item.get, self.constant)]
        if not item or (COMPARED.issuperset(map(type, values)) and values == self._constants):  # mostly, and quick
            return []
        return [name for name, value in self.constant.items() if known(item.get(name)) != value]

    def enter(self, found: NewAxes) -> None:
        for name in found.constant:
            self.constant[name], *others = self.seen[name]
            if self.constant[name] is None or any(other != self.constant[name] for other in others):
                raise ValueError(f"feature {name!r} is said to be the same always, and is not")
        for name in (*(feature.name for feature in found.axes), *found.ignored, *found.constant):
            self.seen.pop(name, None)
        for feature in found.axes:
            self.constant.pop(feature.name, None)
        self.ignored.update(found.ignored)
        self.axes.extend(found.axes)
        self._prepare()

    def places_before(self, found: NewAxes) -> list[float]:
        """Return where the values lie that features had which get axes because they change: the last that are axes."""
        changed = [feature for feature in found.axes if feature.name in self.constant]
        return [FeatureAxes(axes=[each]).place([{each.name: self.constant[each.name]}])[0, 0] for each in changed]

    def watch(self, items: Sequence[Item], *, own: bool = True) -> tuple[int, dict[str, tuple[Any, ...]]]:
        """Watch items up to the first, but for the very first, before which something new is known.

        Returns how many these are, and what was remembered of them.
        """
        self._belongs_to(own)
        before, count = {name: len(values) for name, values in self.seen.items()}, 0
        for item in items:
            if count and (self._oldest >= ENOUGH or self._changed(item)):
                break
            count += 1
            self._look(item)
        new = {name: tuple(values[before.get(name, 0) :]) for name, values in self.seen.items()}
        return count, new

    def _belongs_to(self, own: bool) -> None:
        """Forget items of peers that were watched, if the first of the site itself comes."""
        if own and not self.own:
            self.own = True
            self.seen.clear()
            self._prepare()

    def remember(self, values: Mapping[str, Iterable[Any]], *, own: bool) -> None:
        self._belongs_to(own)
        for name, new in values.items():
            self.seen.setdefault(name, []).extend(new)
        self._prepare()

    def place(self, items: Sequence[Item]) -> Floats:
        """Return [item, axis]: the places of items on the existing axes; not a number where one lacks a value."""
        return self.places(self.numbers(items))

    def numbers(self, items: Sequence[Item]) -> Floats:
        """Return [item, axis]: the values of features, the codes of text and truth values; not a number without one."""
        if not self.axes or not items:
            return np.zeros((len(items), len(self.axes)))
        both = zip(self.axes, self._codes, strict=True)
        columns = [
            codes_of(feature.name, codes, items) if codes else numbers(feature.name, items) for feature, codes in both
        ]
        for name, numbers_with_axes in self._texts.items():
            found = [self._numbers_of_text(item.get(name)) for item in items]
            for axis, place in numbers_with_axes:
                columns[axis] = [row[place] for row in found]
        for name, (axes, weights) in self._vectors.items():
            along = _along([vector(item.get(name)) for item in items], weights)
            for place, axis in enumerate(axes):
                columns[axis] = along[:, place]
        return np.array(columns).T

    def _numbers_of_text(self, value: Any) -> tuple[float, ...]:
        text = known(value)
        return numbers_of(text) if isinstance(text, str) else NO_NUMBERS

    def places(self, raw: Floats) -> Floats:
        """Return [item, axis]: the places of these numbers on the axes."""
        if not raw.size:
            return raw
        return np.vstack([self._places(raw[first : first + AT_ONCE]) for first in range(0, len(raw), AT_ONCE)])

    def _look(self, item: Item) -> None:
        """Remember the features of an item that are watched, or that are new."""
        if not self._names.issuperset(item):
            for name in item:
                if name not in self._names and isinstance(name, str) and self._has_room():
                    self.seen[name] = []
                    self._names.add(name)
                    _warn_of_list(name, item[name])
        for name, values in self.seen.items():
            value = item.get(name)
            values.append(vector(value) if isinstance(value, LISTS) else known(value))
        self._oldest += bool(self.seen)  # all of them are watched, so it is the first of them that is the oldest

    def _has_room(self) -> bool:
        """Tell whether one more name may be watched: where names are new again and again, they say nothing."""
        return len(self._names) < MOST_NAMES and len(self.axes) + len(self.constant) < MOST_FEATURES

    def _prepare(self) -> None:
        """Note what is looked up for every item."""
        self._names = {*self.seen, *self.ignored, *self.constant, *(feature.name for feature in self.axes)}
        self._constants = [*self.constant.values()]
        self._is_first = not (self.ignored or self.constant or self.axes)  # nothing was found yet
        self._oldest: int = max(map(len, self.seen.values()), default=0)
        self._codes = [{value: code for code, value in enumerate(feature.values)} for feature in self.axes]
        self._texts: dict[str, list[tuple[int, int]]] = {}  # by name: axes, and the place of the number of each
        for axis, feature in enumerate(self.axes):
            if feature.of and not feature.weights:
                self._texts.setdefault(feature.name, []).append((axis, TEXT_NUMBERS.index(feature.of)))
        along: dict[str, list[int]] = {}
        for axis, feature in enumerate(self.axes):
            if feature.weights:
                along.setdefault(feature.name, []).append(axis)
        self._vectors = {
            name: (axes, np.array([self.axes[axis].weights for axis in axes]).T) for name, axes in along.items()
        }
        self._edges = np.array([feature.edges for feature in self.axes])
        self._repeats = np.array([feature.repeats for feature in self.axes], bool)

    def _places(self, raw: Floats) -> Floats:
        """Return [item, axis]: the slice by rank; a value that several edges share gets the middle of their slices."""
        below, up_to = (self._edges < raw[..., None]).sum(-1), (self._edges <= raw[..., None]).sum(-1)
        bits = (raw + 0.0).view(np.uint64)  # so that there is one zero
        within = np.where(self._repeats, (bits * MIXER) >> np.uint64(65 - WITHIN.bit_length()), np.uint64(0))
        places: Floats = ((below + up_to) // 2 * WITHIN + within.astype(np.int64) + 0.5) / EXACT
        return np.where(np.isnan(raw), np.nan, places)


def known(value: Any) -> Any:
    """Return a value that an axis can be made of: text, a truth value or a number; None for all others."""
    kind = type(value)
    if kind is float:
        return value if value == value else None
    if kind is str or kind is bool:
        return value
    if kind is int:
        return value if -LARGEST <= value <= LARGEST else _as_float(value)
    if isinstance(value, np.longdouble):  # which `item` gives back as it is
        return near if math.isfinite(near := float(value)) else None
    return known(value.item()) if isinstance(value, np.generic) and not isinstance(value, np.clongdouble) else None


def _as_float(value: int) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def number(value: Any) -> float:
    if type(value) is float:
        return value
    value = known(value)
    return math.nan if value is None or type(value) is bool or type(value) is str else float(value)


def numbers(name: str, items: Sequence[Item]) -> Sequence[float] | Floats:
    values = [item.get(name) for item in items]
    if len(values) >= MANY and PLAIN.issuperset(map(type, values)):
        with suppress(OverflowError):  # a whole number beyond all floats
            return np.array(values, np.float64)
    return [number(value) for value in values]


def codes_of(name: str, codes: Mapping[Any, int], items: Sequence[Item]) -> list[float]:
    """Return the codes of the values of a text or truth value; one that came too late for a code gets a larger one."""
    return [_code(codes, known(item.get(name))) for item in items]


def _code(codes: Mapping[Any, int], value: Any) -> float:
    if value is None:
        return math.nan
    code = codes.get(value)
    return float(len(codes) + crc32(repr(value).encode(errors="backslashreplace")) if code is None else code)


def vector(value: Any) -> tuple[float, ...] | None:
    """Return a list of finite numbers as a vector; None for all others."""
    if not isinstance(value, LISTS) or not 0 < len(value) <= LONGEST:
        return None
    found = value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
    if not NUMBERS.issuperset(map(type, found)):
        found = [number(each) for each in found]
    try:
        return tuple(map(float, found)) if math.isfinite(math.fsum(found)) else None
    except OverflowError:  # a whole number, or a sum, that no float can hold
        return None


def _warn_of_list(name: str, value: Any) -> None:
    if isinstance(value, LISTS) and len(value) and vector(value) is None:
        what = f"feature {name!r} is a list of {len(value):,} values"
        allowed = f"a list is looked at if it has at most {LONGEST:,} finite numbers"
        warnings.warn(f"{what}, and only models see it: {allowed}", FeatureWarning, stacklevel=levels_to_the_user())


def axes_of_vectors(name: str, vectors: Sequence[tuple[float, ...]]) -> list[FeatureAxis]:
    """Return axes for the directions in which vectors differ most."""
    lengths = Counter(map(len, vectors))
    length = max(lengths, key=lambda each: (lengths[each], each))
    rows = [each for each in vectors if len(each) == length]
    if len(rows) < RARE:
        return []
    weights = principal_directions(np.array(rows))
    along = _along(rows, weights)
    both = enumerate(zip(along.T.tolist(), weights.T.tolist(), strict=True), 1)
    return [
        axis_of(name, column, f"direction {n}")._replace(weights=tuple(each))
        for n, (column, each) in both
        if _differs(column)
    ]


def principal_directions(rows: Floats) -> Floats:
    """Return [number, direction]: along which rows differ most, the widest first, each of length 1.

    Orthogonal iteration on the products of rows. Every sum has one order, so that all machines find the same bits.
    """
    largest = np.abs(rows).max()
    centred = rows / largest if largest else rows
    centred = centred - np.array([math.fsum(column) / len(rows) for column in centred.T.tolist()])
    products = np.zeros((len(rows), len(rows)))
    for column in centred.T:
        products += np.multiply.outer(column, column)
    # Numbers without a pattern to start from.
    places = np.arange(len(rows) * DIRECTIONS, dtype=np.uint64).reshape(-1, DIRECTIONS) + np.uint64(1)
    found = ((places * MIXER) >> np.uint64(40)).astype(np.float64) / 2.0**24 - 0.5
    for _ in range(STEPS):
        found, spread = _orthogonal(_product(products, found))
    along = _product(centred.T, found)
    kept = [n for n, width in enumerate(spread) if width > ALIKE * spread[0]]
    return _orthogonal(along[:, kept])[0]


def _product(left: Floats, right: Floats) -> Floats:
    """Return the product of two matrices, added up in the order of the inner index."""
    total = np.zeros((len(left), right.shape[1]))
    for n in range(len(right)):
        total += left[:, n : n + 1] * right[n]
    return total


def _orthogonal(columns: Floats) -> tuple[Floats, list[float]]:
    """Return columns of length 1, each without its part along those before it; and how long they were without it."""
    done, lengths = np.zeros_like(columns), list[float]()
    for n in range(columns.shape[1]):
        rest = columns[:, n]
        for before in done[:, :n].T:
            rest = rest - math.fsum((rest * before).tolist()) * before
        lengths.append(math.sqrt(math.fsum((rest * rest).tolist())))
        done[:, n] = rest / lengths[-1] if lengths[-1] > 0.0 else 0.0
    return done, lengths


def _along(vectors: Sequence[tuple[float, ...] | None], weights: Floats) -> Floats:
    """Return [vector, direction]: how far each vector lies along each direction; not a number if it has another length.

    `accumulate` adds one number after the other, which `sum` does not.
    """
    found = np.full((len(vectors), weights.shape[1]), np.nan)
    for n, each in enumerate(vectors):
        if each is not None and len(each) == len(weights):
            found[n] = np.add.accumulate(np.array(each)[:, None] * weights)[-1]
    return found


def axes_of_text(name: str, values: Sequence[Any]) -> list[FeatureAxis]:
    """Return axes for the numbers of texts that differ enough; none for names and identifiers, which are one word.

    Values that are no texts have none.
    """
    rows = [numbers_of(value) for value in values if isinstance(value, str)]
    if 2 * sum(row[WORDS] > 1 or row[OTHER_SCRIPTS] > 0 for row in rows) < len(rows):
        return []
    both = zip(TEXT_NUMBERS, zip(*rows, strict=True), strict=True)
    return [axis_of(name, column, of) for of, column in both if _differs(column)]


def _differs(column: Sequence[float]) -> bool:
    return len(column) - Counter(column).most_common(1)[0][1] >= RARE


def axis_of(name: str, values: Sequence[Any], of: str = "") -> FeatureAxis:
    different: tuple[Any, ...] = ()
    if any(isinstance(value, str | bool) for value in values):
        by_count = sorted(Counter(values).items(), key=lambda each: -each[1])  # of the same count, the first to come
        different = tuple(value for value, _ in by_count)
        values = [different.index(value) for value in values]
    ordered = sorted(map(number, values))
    edges = tuple(ordered[cut * len(ordered) // SLICES] for cut in range(1, SLICES))
    return FeatureAxis(name, edges, bool(different) or 2 * len(set(ordered)) <= max(2, len(ordered)), different, of)


def _hardly_repeats(values: Sequence[Any]) -> bool:
    """Tell whether there are texts among values, and more different ones than a category could have."""
    different = set(values)
    return len(different) > max(FEW, len(values) // 2) and any(isinstance(value, str) for value in different)


def features_state(watched: FeatureAxes | None) -> Any:
    """Return what a site knows about features as plain data, which nothing changes later."""
    if watched is None:
        return None
    seen = {name: list(values) for name, values in watched.seen.items()}
    axes = [
        [name, list(edges), repeats, list(values), *([of] if of else ()), *([list(weights)] if weights else ())]
        for name, edges, repeats, values, of, weights in watched.axes
    ]
    same = dict(watched.constant)
    return {"seen": seen, "out": sorted(watched.ignored), "axes": axes, "same": same, "own": watched.own}


def read_features(saved: Any) -> FeatureAxes | None:
    """Return what a site knew of features when it was saved, or raise ValueError or TypeError."""
    if saved is None:
        return None
    axes = [
        FeatureAxis(str(name), tuple(map(float, edges)), bool(repeats), tuple(values), *_of(*of))
        for name, edges, repeats, values, *of in saved["axes"]
    ]
    if any(len(feature.edges) != SLICES - 1 for feature in axes):
        raise ValueError("it has features with other edges")
    seen = {str(name): [_watched(value) for value in values] for name, values in saved["seen"].items()}
    same = {str(name): value for name, value in saved["same"].items()}
    otherwise = {*seen, *saved["out"], *(feature.name for feature in axes)}
    if any(known(value) is None for value in same.values()) or same.keys() & otherwise:
        raise ValueError("it has features that never changed without a value, or that are known otherwise")
    return FeatureAxes(seen, set(saved["out"]), axes, same, bool(saved["own"]))


def _of(made: str = "", weights: Sequence[float] = ()) -> tuple[str, tuple[float, ...]]:
    return str(made), tuple(map(float, weights))


def _watched(value: Any) -> Any:
    found = vector(value) if isinstance(value, LISTS) else known(value)
    if found is None and value is not None:
        raise ValueError("it has watched values that are neither text, truth values, numbers nor vectors")
    return found
