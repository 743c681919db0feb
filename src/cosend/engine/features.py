"""Every feature of the items as an axis: what a site has seen of them, and where a value lies.

A feature is watched from the first item that has it, for 128 items. What comes of that stays as it is for ever:

    a number                   an axis that is cut at quantiles of these values; values that repeat are told apart
    text, or a truth value     the same, by how frequent the values are: 0 for the most frequent one, 1 for the next
    texts that hardly repeat   no axis: names and identifiers tell nothing of items to come
    nothing of these           no axis
    in fewer than 4 items      no axis: names that are new with every item tell nothing, and each axis is work for all
                               items to come
    the same for every item    no axis, until the first item that has another value or none; this can come of the
                               features of the first 128 items only, and those that come later get an axis

An item may lack a feature, or have one of another kind than before: it then has no place on that axis. Whoever looks at
4 or 16 slices of an axis sees quantiles, and whoever looks at all of its places sees single values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from cosend.algorithm.layout import Floats
from cosend.algorithm.learner import MOST_FEATURES
from cosend.algorithm.mixture_views import EXACT
from cosend.axes import NO_FEATURES, Item

ENOUGH: Final = 128  # items after which a feature is known well enough
SLICES: Final = 64  # that quantiles cut
WITHIN: Final = EXACT // SLICES  # places in each of them
RARE: Final = 4  # items that must have a feature, of those it was watched for
FEW: Final = 16  # texts that are never too many
MOST_NAMES: Final = 2_000  # of features that are ever watched
LARGEST: Final = 2**63 - 1  # whole number that a log can hold
MANY: Final = 8  # items from which on their numbers are read together
PLAIN: Final = frozenset((float, int, type(None)))
COMPARED: Final = frozenset((float, int, str, bool))  # whose values are equal or not, and no more to it
AT_ONCE: Final = 256  # items whose places are looked up together
MIXER: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: neighbours get different places


class FeatureAxis(NamedTuple):
    """A feature that has an axis."""

    name: str
    edges: tuple[float, ...]
    repeats: bool  # its values repeat, so that each has a place of its own
    values: tuple[Any, ...]  # of a text or truth value, the most frequent one first; the number of each is its place


class NewAxes(NamedTuple):
    """What has come of watching features."""

    axes: list[FeatureAxis]
    ignored: list[str]  # that get no axis
    constant: list[str]  # that every item had, all with the same value


@dataclass
class FeatureAxes:
    """What a site knows of the features of its items."""

    seen: dict[str, list[Any]] = field(default_factory=dict)  # by name: values while it is watched, None if missing
    ignored: set[str] = field(default_factory=set)  # that get no axis
    axes: list[FeatureAxis] = field(default_factory=list)  # in the order of the axes
    constant: dict[str, Any] = field(default_factory=dict)  # by name: the one value of features that never changed
    own: bool = False  # items of the site itself have come; those of peers are no longer watched then

    def __post_init__(self) -> None:
        self._prepare()

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
        there, coming = [value for value in values if value is not None], known(item.get(name)) if item else values[0]
        room = len(self.axes) + len(self.constant) + len(found.axes) + len(found.constant) < MOST_FEATURES
        if not _tells_something(there) or not room:
            found.ignored.append(name)
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
        """Return [item, axis]: where items lie on the axes that there are; not a number where one lacks a value."""
        if not self.axes or not items:
            return np.zeros((len(items), len(self.axes)))
        both = zip(self.axes, self._codes, strict=True)
        columns = [
            codes_of(feature.name, codes, items) if codes else numbers(feature.name, items) for feature, codes in both
        ]
        raw = np.array(columns).T
        return np.vstack([self._places(raw[first : first + AT_ONCE]) for first in range(0, len(items), AT_ONCE)])

    def _look(self, item: Item) -> None:
        """Remember the features of an item that are watched, or that nobody has seen before."""
        if not self._names.issuperset(item):
            for name in item:
                if name not in self._names and isinstance(name, str) and self._has_room():
                    self.seen[name] = []
                    self._names.add(name)
        for name, values in self.seen.items():
            values.append(known(item.get(name)))
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
        self._edges = np.array([feature.edges for feature in self.axes])
        self._repeats = np.array([feature.repeats for feature in self.axes], bool)

    def _places(self, raw: Floats) -> Floats:
        """Return [item, axis]: the slice by rank; a value that several edges share lies in the middle of theirs."""
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


def axis_of(name: str, values: Sequence[Any]) -> FeatureAxis:
    different: tuple[Any, ...] = ()
    if any(isinstance(value, str | bool) for value in values):
        by_count = sorted(Counter(values).items(), key=lambda each: -each[1])  # of the same count, the first to come
        different = tuple(value for value, _ in by_count)
        values = [different.index(value) for value in values]
    ordered = sorted(map(number, values))
    edges = tuple(ordered[cut * len(ordered) // SLICES] for cut in range(1, SLICES))
    return FeatureAxis(name, edges, bool(different) or 2 * len(set(ordered)) <= max(2, len(ordered)), different)


def _tells_something(values: Sequence[Any]) -> bool:
    different = set(values)
    has_text = any(isinstance(value, str) for value in different)
    return len(values) >= RARE and not (has_text and len(different) > max(FEW, len(values) // 2))


def features_state(watched: FeatureAxes | None) -> Any:
    """Return what a site knows of features as plain data, which nothing changes later."""
    if watched is None:
        return None
    seen = {name: list(values) for name, values in watched.seen.items()}
    axes = [[name, list(edges), repeats, list(values)] for name, edges, repeats, values in watched.axes]
    same = dict(watched.constant)
    return {"seen": seen, "out": sorted(watched.ignored), "axes": axes, "same": same, "own": watched.own}


def read_features(saved: Any) -> FeatureAxes | None:
    """Return what a site knew of features when it was saved, or raise ValueError or TypeError."""
    if saved is None:
        return None
    axes = [
        FeatureAxis(str(name), tuple(map(float, edges)), bool(repeats), tuple(values))
        for name, edges, repeats, values in saved["axes"]
    ]
    if any(len(feature.edges) != SLICES - 1 for feature in axes):
        raise ValueError("it has features with other edges")
    seen = {str(name): list(values) for name, values in saved["seen"].items()}
    if any(value is not None and known(value) is None for values in seen.values() for value in values):
        raise ValueError("it has watched values that are neither text, truth values nor numbers")
    same = {str(name): value for name, value in saved["same"].items()}
    otherwise = {*seen, *saved["out"], *(feature.name for feature in axes)}
    if any(known(value) is None for value in same.values()) or same.keys() & otherwise:
        raise ValueError("it has features that never changed without a value, or that are known otherwise")
    return FeatureAxes(seen, set(saved["out"]), axes, same, bool(saved["own"]))
