"""From items to points: where an item lies on every axis, and how points are written for others.

A point is an array of numbers: places in [0, 1], the codes of categories, or not a number where an item has no place.
Spelled, as in events and calls to peers, it is a tuple that needs no state to be read: the values of categories
instead of this site's codes, and None where an item has no place.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from cosend.algorithm.cells import MOST_CODES
from cosend.algorithm.layout import Floats
from cosend.axes import Axis, Column, plain_name, read_columns, watches
from cosend.engine.features import FeatureAxes
from cosend.errors import ContextError, StateError

SHARED: Final = MOST_CODES - 1  # the code of all values that came when no other was left
Spelled = tuple[Any, ...]


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
    """The values of a category in the order they came: a value's code is its place. The last code is shared."""

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self.values = list(values)
        self._codes = {value: code for code, value in enumerate(self.values)}

    def code(self, value: Any) -> int:
        """Return the code of a value, assigning the next free one; None stands for values beyond the limit."""
        code = self.find(value)
        if code == len(self.values) and code < SHARED:
            self._codes[value] = code
            self.values.append(value)
        return code

    def find(self, value: Any) -> int:
        """Return the code of a value, or the one that it would get: a cell that was never visited."""
        return SHARED if value is None else self._codes.get(value, len(self.values))

    def value(self, code: int) -> Any:
        """Return the value of a code; None for the code that is shared."""
        return self.values[code] if code < SHARED else None


class Encoder:
    """Places items on the axes, and remembers what that takes: the newest label, recent values, codes, features."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self.given = self.axes[:-1] if watches(axes) else self.axes
        self.names = tuple(axis.description for axis in self.given)  # as sites compare them
        self.ranked = {n: axis.ranked for n, axis in enumerate(self.given) if axis.ranked}
        self.categories = [n for n, axis in enumerate(self.given) if axis.is_category]
        self.newest_id = 0  # of the newest decision whose true label is known
        self.newest_label: Any = None
        self.recent: dict[int, RecentValues] = {}  # by axis
        self.codes = {axis: Codes() for axis in self.categories}
        self.features = FeatureAxes() if watches(self.axes) else None

    @property
    def axis_names(self) -> tuple[str, ...]:
        """All axes by name: those given, with their settings where a name is not enough, then features."""
        created = [feature.name for feature in (self.features.axes if self.features is not None else ())]
        names = [plain_name(axis) for axis in self.given]
        twice = {name for name, count in Counter([*names, *created]).items() if count > 1}
        both = zip(names, self.names, strict=True)
        return (*(described if name in twice else name for name, described in both), *created)

    @property
    def feature_axes(self) -> FeatureAxes:
        """What is known about features; raises if only given axes are looked at."""
        if self.features is None:
            raise StateError("the site looks at the given axes only, not at every feature")
        return self.features

    def remember_label(self, ids: Sequence[int], truths: Sequence[Any]) -> None:
        newest = max(ids) if ids else 0
        if newest > self.newest_id:
            self.newest_id, self.newest_label = newest, truths[ids.index(newest)]

    # Items of this site

    def place(self, columns: Sequence[Column], arrivals: int) -> Floats:
        """Return [item, given axis]: where new items lie that come after `arrivals` others; they are remembered."""
        places: list[Column] = []
        for n, (axis, column) in enumerate(zip(self.given, columns, strict=False)):
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
        """Return [item, axis]: where each item would lie if it came next, whatever the others are; nothing changes."""
        columns = read_columns(self.axes, items)
        points = np.empty((len(items), len(self.given)))
        for n, column in enumerate(columns[: len(self.given)]):
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

    # Points in words, and back

    def spell(self, point: Floats) -> Spelled:
        """Return a point as others read it."""
        spelled: list[Any] = point.tolist()
        for axis, codes in self.codes.items():
            spelled[axis] = codes.value(int(spelled[axis]))
        return tuple(spelled) if self.features is None else tuple(map(none_for_nan, spelled))

    def spell_all(self, points: Floats) -> list[Spelled]:
        if self.codes or self.features is not None:
            return [self.spell(point) for point in points]
        return list(map(tuple, points.tolist()))

    @property
    def spells(self) -> bool:
        """Whether a spelled point differs from the point itself."""
        return bool(self.codes) or self.features is not None

    def point(self, spelled: Sequence[Any], dimensions: int, code: Callable[[Codes, Any], int]) -> tuple[float, ...]:
        """Return the point that was spelled; on axes that were created since then, it has no place."""
        if not self.spells and None not in spelled:
            return tuple(spelled)
        point = list(spelled)
        for axis, codes in self.codes.items():
            if axis < len(point):
                if not isinstance(point[axis], str | int | float | None) or point[axis] != point[axis]:
                    raise ContextError(f"axis {axis} of a context is not a value: {point[axis]!r}")
                point[axis] = float(code(codes, point[axis]))
        missing = [] if self.features is None else [math.nan] * (dimensions - len(point))
        return (*(math.nan if value is None else value for value in point), *missing)

    # Items of peers that may describe them by other axes

    def describe(
        self, items: Sequence[Any], contexts: Sequence[Spelled], axes: Sequence[str], arrivals: int, *, lenient: bool
    ) -> list[Spelled]:
        """Return the contexts of a peer's items on the given axes of this site; nothing is remembered about them.

        What the peer's context does not tell is read off the item. If that fails, a lenient site goes without.
        """
        columns = [self._described(n, items, contexts, axes, arrivals, lenient) for n in range(len(self.given))]
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
