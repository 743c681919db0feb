"""Where items lie: the part of the rules that places them, and the words in which places travel between sites.

A context is spelled as others understand it: a number in [0, 1] for each axis, the value of a category, or None where
an item has no place. Sites need not describe items alike. A caller names its axes; the one that is called takes from
them what it knows, and reads the rest off the item itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cosend.core.kernel.ledger import Floats
from cosend.core.learner.values import LabelledData
from cosend.errors import ContextError, SettingError, StateError
from cosend.site import events
from cosend.site.context import Axis, Column, place_columns, plain_name
from cosend.site.features import Findings, Item, Watched, features_in
from cosend.site.messages import QUESTION, Call, Question
from cosend.site.past import Codes
from cosend.site.rows import Rows, columns_of
from cosend.site.transition import Transitions

Spelled = tuple[Any, ...]


class Placing(Transitions):
    """The transitions that place items."""

    axes: tuple[Axis, ...]
    given: tuple[Axis, ...]  # those that do not stand for features
    named: tuple[str, ...]  # these with their settings, as sites compare them
    _ranked: dict[int, int]

    @property
    def axis_names(self) -> tuple[str, ...]:
        """All axes by name: those that were given, with their settings where a name is not enough, and features."""
        laid = [feature.name for feature in (self.past.features.laid if self.past.features is not None else ())]
        names = [plain_name(axis) for axis in self.given]
        twice = {name for name, count in Counter([*names, *laid]).items() if count > 1}
        both = zip(names, self.named, strict=True)
        return (*(described if name in twice else name for name, described in both), *laid)

    def place(self, columns: Sequence[Column]) -> Floats:
        """Return the contexts of new items, [item, axis], from what the axes have read off them.

        These may be fewer than there are items, if some features will be known well enough then to get axes: the others
        can be placed when these have been chosen for.
        """
        if len(columns) != len(self.axes):
            raise SettingError("columns", len(columns), f"as many as axes ({len(self.axes)})")
        if self.past.features is None:
            return self._place_given(columns)
        given, items = columns[:-1], features_in(columns)
        count = self._watch(items, own=True)
        points = self._place_given([column[:count] for column in given]) if given else np.zeros((count, 0))
        return np.hstack([points, self.past.features.place(items[:count])])

    def placed(self, columns: Sequence[Column], count: int) -> Iterable[tuple[int, Floats]]:
        """Place so many items; those of a part must be chosen for before the next part is asked for."""
        return [(0, self.place(columns))] if self.past.features is None else self._placed(columns, count)

    def _placed(self, columns: Sequence[Column], count: int) -> Iterator[tuple[int, Floats]]:
        start = 0
        while start < count:
            points = self.place([column[start:] for column in columns] if start else columns)
            yield start, points
            start += len(points)

    def _watch(self, items: Sequence[Item], *, own: bool) -> int:
        """Give axes to features that are known well enough, and watch items up to the first before which more are.

        Those of peers are watched only as long as the site has had none of its own.
        """
        features = self.watched
        if features.own and not own:
            return len(items)
        found = features.found(items[0]) if items else features.found()
        if found is not None:
            self._change(self.lay, found)
            names, edges, repeats, values = zip(*found.laid, strict=True) if found.laid else ((), (), (), ())
            self._write(events.Laid(names, edges, repeats, values, tuple(found.out), tuple(found.same)))
        is_first = own and not features.own
        count, seen = self._change(features.watch, items, own=own)
        self._write(events.Watched(seen, own) if seen or is_first else None)
        return count

    @property
    def watched(self) -> Watched:
        """What is known of the features; raises if only given axes are looked at."""
        if self.past.features is None:
            raise StateError(f"site {self.name!r} watches no features")
        return self.past.features

    @property
    def watches_peers(self) -> bool:
        """Whether items of peers are watched: there is no other yet."""
        return self.past.features is not None and not self.past.features.own

    def lay(self, found: Findings) -> None:
        """Give axes to features, and note those that never changed."""
        watched = self.watched
        if found.laid or found.same:
            self.learner.add_axes(len(found.laid), len(found.same), watched.places_before(found))
        watched.enter(found)

    def _place_given(self, columns: Sequence[Column]) -> Floats:
        """Return the places on the axes that were given."""
        if not self.past.codes and not self._ranked:  # nothing is remembered of the items
            return place_columns(self.given, columns, self.past, self.learner.arrivals)
        known = {axis: len(codes.values) for axis, codes in self.past.codes.items()}
        points = self._change(place_columns, self.given, columns, self.past, self.learner.arrivals)
        event = None
        if self.journal is not None:
            values = {axis: tuple(float(value) for value in columns[axis]) for axis in self._ranked}
            new = {axis: tuple(codes.values[known[axis] :]) for axis, codes in self.past.codes.items()}
            if values or any(new.values()):
                event = events.Placed(values, new)
        self._write(event)
        return points

    # In words

    def spell(self, point: Floats) -> Spelled:
        """Return a context as others understand it: the values of categories in place of this site's codes."""
        spelled: list[Any] = point.tolist()
        for axis, codes in self.past.codes.items():
            spelled[axis] = codes.value(int(spelled[axis]))
        return tuple(spelled) if self.past.features is None else tuple(_said(value) for value in spelled)

    def spell_all(self, points: Floats) -> list[Spelled]:
        """Return contexts as others understand them."""
        if self.past.codes or self.past.features is not None:
            return [self.spell(point) for point in points]
        return list(map(tuple, points.tolist()))

    def understand(self, context: Sequence[Any], code: Callable[[Codes, Any], int]) -> tuple[float, ...]:
        """Return a context that was spelled as a point, with this site's codes for the values of categories.

        Features that have got axes since then have no place in it.
        """
        if not self.past.codes and self.past.features is None:
            return tuple(context)
        point = list(context)
        for axis, codes in self.past.codes.items():
            if axis < len(point):
                if not isinstance(point[axis], str | int | float | None) or point[axis] != point[axis]:
                    raise ContextError(
                        f"axis {axis} of a context of site {self.name!r} is not a value: {point[axis]!r}"
                    )
                point[axis] = float(code(codes, point[axis]))
        if self.past.features is None:
            return tuple(point)
        lacking = self.learner.dimensions - len(point)
        return (*(math.nan if value is None else value for value in point), *[math.nan] * lacking)

    # Items of sites that describe them in another way

    def described(self, call: Call) -> Sequence[Question]:
        """Return the questions of a call with contexts as this site spells them."""
        if call.axes is None or (self.past.features is None and call.axes == self.named):
            return call.questions
        requests, items, contexts, *flags = columns_of(call.questions, 5)
        return Rows(QUESTION, requests, items, self.describe(items, contexts, call.axes), *flags)

    def describe(
        self, items: Sequence[Any], contexts: Sequence[Spelled], axes: Sequence[str], *, watch: bool = True
    ) -> list[Spelled]:
        """Return the contexts of a peer's items as this site spells them; `axes` are the names of the peer's.

        Its own past tells ranks, the newest label and the time; only features are watched, unless told not to.
        """
        columns = [self._described(n, items, contexts, axes) for n in range(len(self.given))]
        rows: list[Spelled] = list(zip(*columns, strict=True)) if columns else [()] * len(items)
        if self.past.features is None:
            return rows
        read: Any = self.axes[-1].read(items)
        done = 0 if watch else len(items)
        while done < len(items):  # all of them before any is answered
            done += self._watch(read[done:], own=False)
        places = self.past.features.place(read).tolist()
        return [(*row, *map(_said, place)) for row, place in zip(rows, places, strict=True)]

    def report_of(self, item: Any, context: Spelled, axes: tuple[str, ...]) -> LabelledData:
        """Return how much labelled data there is around an item of a peer; nothing changes."""
        if self.past.features is not None or axes != self.named:
            (context,) = self.describe([item], [context], axes, watch=False)
        return self.learner.report(self.understand(context, Codes.find))

    def _described(self, n: int, items: Sequence[Any], contexts: Sequence[Spelled], axes: Sequence[str]) -> list[Any]:
        """Return where a peer's items lie on one of the given axes, as this site spells it."""
        axis = self.given[n]
        if axis.description in axes:
            place = [*axes].index(axis.description)
            return [context[place] if place < len(context) else None for context in contexts]
        return self._read_off(n, axis, items)

    def _read_off(self, n: int, axis: Axis, items: Sequence[Any]) -> list[Any]:
        """Return where items lie on an axis that their caller does not know; nothing is remembered of them."""
        try:
            values = axis.read(items)
        except ContextError:
            if len(items) > 1:  # find out which
                return [place for item in items for place in self._read_off(n, axis, [item])]
            if self.learner.policy.mixes:
                return [None]
            raise
        if axis.is_category:
            return [*values]
        if axis.ranked:
            recent = self.past.recent.get(n)
            return [0.5 if recent is None else recent.look(float(value)) for value in values]
        # Each for itself: none of them counts as an arrival here.
        return [float(axis.place([value], self.past, self.learner.arrivals)[0]) for value in values]


def _said(value: Any) -> Any:
    return None if value != value else value
