"""The part of an item that peers may see: some of its features, and the axes of the context that read only these.

A site that keeps nothing back sends items as they are. Else a call has the features of the item that may leave, as a
dict, and the places on axes that tell nothing else: a function of the user may read anything, so its axis leaves only
if `shares` has its name. An item without names for its values cannot be divided: it stays where it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cosend.axes import Axis, Category, Feature, FromFunction, PreviousLabel, Time, TimeOfDay
from cosend.checks import check_text
from cosend.errors import FeatureWarning, SettingError, levels_to_the_user, listed
from cosend.models.adapters import check_names, named


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which features of its items peers may see.

    shares     only these, and axes of functions with these names; None: all
    withholds  all but these
    """

    shares: Sequence[str] | None = None
    withholds: Sequence[str] = ()

    def __post_init__(self) -> None:
        for key, names in (("shares", self.shares), ("withholds", self.withholds)):
            if names is not None:
                check_names(key, names)
                for name in names:
                    check_text(f"a feature of {key}", name)
                object.__setattr__(self, key, tuple(names))  # settings are frozen
        for name in self.withholds:
            if name in (self.shares or ()):
                raise SettingError("withholds", name, "a feature that is not in shares: peers see it, or they do not")

    @property
    def limits(self) -> bool:
        """Whether anything is kept back."""
        return self.shares is not None or bool(self.withholds)

    def has(self, feature: Any) -> bool:
        """Tell whether a feature may leave."""
        return feature not in self.withholds and (self.shares is None or feature in self.shares)

    def part_of(self, item: Any) -> dict[Any, Any] | None:
        """Return what peers may see of an item; None if it cannot be divided."""
        try:
            features = named(item)
            return None if features is None else {name: features[name] for name in features if self.has(name)}
        except Exception:  # a mapping of the user's may raise anything
            return None

    def tells(self, axis: Axis, *, labels: bool) -> bool:
        """Tell whether peers may see the places of items on an axis.

        labels  whether they may see true labels
        """
        if isinstance(axis, PreviousLabel):
            return labels
        if not self.limits or isinstance(axis, Time):
            return True
        if isinstance(axis, FromFunction):
            return axis.name in (self.shares or ())
        return isinstance(axis, Feature | Category | TimeOfDay) and self.has(axis.feature)


EVERYTHING: Final = Sharing()


class NamesCheck:
    """Looks once whether items have what `shares` and `withholds` name: a name with a typo would keep nothing back."""

    def __init__(self, site: str, sharing: Sharing, functions: Collection[str]) -> None:
        """Take the names of axes of functions too: `shares` may have them."""
        self.site = site
        self._waits = [
            (key, name)
            for key, names in (("withholds", sharing.withholds), ("shares", sharing.shares or ()))
            for name in names
            if key == "withholds" or name not in functions
        ]

    def check(self, items: Sequence[Any]) -> None:
        """Warn of names that the first item with names for its values does not have."""
        if not self._waits or not items:
            return
        has = _names_of(items[0])
        if has is None:
            return
        missing = [(key, name) for key, name in self._waits if name not in has]
        self._waits = []
        for key, name in missing:
            sentence = f"site {self.site!r} {key} {name!r}, and an item has no such feature: it has {listed(has)}"
            sentence += "; a name with a typo keeps nothing back" if key == "withholds" else ""
            warnings.warn(sentence, FeatureWarning, stacklevel=levels_to_the_user())


def _names_of(item: Any) -> list[Any] | None:
    try:
        features = named(item)
        return None if features is None else list(features)
    except Exception:  # a mapping of the user's may raise anything
        return None
