"""The views of the slow twin of `MixedViews`, and how features get some (exactness: Mixed views, Features)."""

import itertools
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.oracle.twin_values import Context, TwinCell, TwinSettings

Key = tuple[int, ...]
CODES = 4096


class View(NamedTuple):
    """One way to look at an item."""

    axes: tuple[int, ...] = ()
    slices: int = 1
    memory: float = 1.0
    up: int = 0  # the next coarser view of the same axes
    is_fine: bool = False
    is_pattern: bool = False


def views_of(settings: TwinSettings) -> list[View]:
    """Return the views in the order of SPEC 7."""
    d = settings.dimensions
    parts: list[tuple[int, ...]] = [(axis,) for axis in range(d)]
    if 2 < d <= 12:
        parts += itertools.combinations(range(d), 2)
    if 1 < d <= 12:
        parts += [tuple(range(d))]
    views = [View(memory=0.9), View(), *([View()] if settings.adds_up else [])]
    for axes in parts:
        codes = [axis for axis in axes if axis in settings.categories]
        numbers = len(axes) - len(codes)
        levels = [1] if not numbers else [4, 16, 64] if d <= 12 else [4, 16, 1024]
        for level, slices in enumerate(levels):
            if slices**numbers * CODES ** len(codes) > 2**48:
                break
            views.append(View(axes, slices, up=len(views) - 1 if level else 0, is_fine=level > 0))
    return [*views, View(memory=0.9, is_pattern=True), View(is_pattern=True)]


@dataclass
class Kept:
    """What is kept with a decision until its label comes."""

    rows: list[Key | None]  # in every view
    forecasts: dict[str, list[float]] = field(default_factory=dict)  # of own functions
    used: list[float] = field(default_factory=list)  # of the arm that was used


class GrowingViews:
    """The part of a twin that gets views while it runs."""

    _settings: TwinSettings
    _kept: dict[int, Kept]
    mixed: list[View]
    weights: list[float]
    times: list[int]  # for how many views each stands
    rows: list[dict[Key, TwinCell]]
    features: int  # that have got axes
    unchanged: int  # that have none because they never changed
    giver: int  # the view that stands for those of these

    def _key(self, number: int, context: Context) -> Key | None:
        raise NotImplementedError

    def _has_room(self) -> bool:
        raise NotImplementedError

    def add_axes(self, count: int, same: int = 0, places: tuple[float, ...] = ()) -> None:
        """Add axes of features behind the others (exactness: Mixed views, features)."""
        before, first, stood_for = len(self.mixed), self._settings.dimensions + self.features, sum(self.times)
        last = first + count
        self.features += count
        self.unchanged += same - len(places)
        if same:
            self.mixed.append(View())
            self.giver = before
        for axis in range(first, last):
            self._add_levels((axis,), [4, 16, 2**20])
            for other in range(axis) if last + self.unchanged <= 12 else ():
                self._add_levels((other, axis), [4, 16, 64])
        new = range(before, len(self.mixed))
        self._begin(new, 3 * same)
        heirs = [n for n in new if len(self.mixed[n].axes) == 1 and self.mixed[n].axes[0] >= last - len(places)]
        if heirs:
            self._inherit(heirs, places)
        total = stood_for + sum(self.times[n] for n in new if n not in heirs)
        for n in range(len(self.mixed)):
            known = n < before or n in heirs
            self.weights[n] = self.weights[n] * (stood_for / total) if known else self.times[n] / total

    def _begin(self, new: range, stands_for: int) -> None:
        """Begin views that know nothing; what waits has no rows in them, and the first view's forecasts."""
        self.times += [stands_for if stands_for and n == new[0] else 1 for n in new]
        self.rows += [{} for _ in new]
        self.weights += [0.0 for _ in new]
        for kept in self._kept.values():
            kept.rows = kept.rows + [None for _ in new]
            kept.used = kept.used + [kept.used[0] for _ in new]
            for name, said in kept.forecasts.items():
                kept.forecasts[name] = said + [said[0] for _ in new] if said else said

    def _inherit(self, heirs: list[int], places: tuple[float, ...]) -> None:
        """Let views of features that change have what the one has that stood for them."""
        stood_for = self.times[self.giver]
        part = self.weights[self.giver] / stood_for
        self.times[self.giver] -= len(heirs)
        self.weights[self.giver] = part * self.times[self.giver]
        given = self.rows[self.giver].get(())
        for arm in given.arms.values() if given is not None else ():
            arm.evidence /= stood_for
        for n, heir in enumerate(heirs):
            self.weights[heir] = part
            key = self._key(heir, (places[n // 3],) * (self.mixed[heir].axes[0] + 1))
            assert key is not None
            if given is not None and (given.labels >= 32 or not self.mixed[heir].is_fine) and self._has_room():
                self.rows[heir][key] = deepcopy(given)
            self._hand_on(heir, key if key in self.rows[heir] else None)
        for arm in given.arms.values() if given is not None else ():
            arm.evidence *= self.times[self.giver]

    def _hand_on(self, heir: int, key: Key | None) -> None:
        """Let what waits have had a row of an heir where it had one of the view that stood for it."""
        for kept in self._kept.values():
            kept.rows[heir] = None if kept.rows[self.giver] is None else key
            kept.used[heir] = kept.used[self.giver]
            for said in kept.forecasts.values():
                if said:
                    said[heir] = said[self.giver]

    def _add_levels(self, axes: tuple[int, ...], levels: list[int]) -> None:
        codes = [axis for axis in axes if axis in self._settings.categories]
        for level, slices in enumerate(levels):
            if slices ** (len(axes) - len(codes)) * CODES ** len(codes) <= 2**48:
                self.mixed.append(View(axes, slices, up=len(self.mixed) - 1 if level else 0, is_fine=level > 0))
