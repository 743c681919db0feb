"""Where items lie on the axes of the context, in the axes' own units: years, bytes, class names.

A figure needs bins that people can read. An axis of numbers gets equal bins with round numbers as ticks, the
previous label a bin for every class, and a category one for each of its commonest values.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from cosend.algorithm.layout import Ints
from cosend.axes import PreviousLabel
from cosend.axis_format import ticks_of
from cosend.run.prepare import NOTHING, Prepared
from cosend.text import short_text

ALONE: Final = 30  # bins of an axis that is drawn alone
TOGETHER: Final = 14  # bins of each axis of a map
MOST_VALUES: Final = 12  # of a category


class Scale(NamedTuple):
    """The bins of an axis, and its ticks; `words` if every bin has a name."""

    name: str
    bins: int
    ticks: list[tuple[float, str]]  # place from 0 to `bins`, text
    words: bool

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"name": self.name, "bins": self.bins, "ticks": [list(tick) for tick in self.ticks], "words": self.words}


def scale_and_bins(prepared: Prepared, axis: int) -> tuple[Scale, Ints]:
    """Return the scale of an axis, and the bin of every arrival; NOTHING for a value that has none."""
    setting, kind = prepared.axis_sections[axis], prepared.axes[axis]
    name = setting.title
    if kind.is_category:
        return _values(name, _raw(prepared, setting.feature or ""))
    places = prepared.contexts[:, axis]
    if isinstance(kind, PreviousLabel):
        steps = len(kind.classes) - 1
        words = [(n + 0.5, short_text(each)) for n, each in enumerate(kind.classes)]
        return Scale(name, len(words), words, True), np.rint(places * steps).astype(np.int64)
    bins = ALONE if len(prepared.axes) == 1 else TOGETHER
    ticks = [(place * bins, text) for place, text in ticks_of(kind, lambda: _raw(prepared, setting.feature or ""))]
    return Scale(name, bins, ticks, False), np.minimum((places * bins).astype(np.int64), bins - 1)


def _raw(prepared: Prepared, feature: str) -> Any:
    """Return a feature of the item of every arrival."""
    arrived: Any = prepared.arrivals[prepared.arrivals != NOTHING]
    return prepared.items.column(feature)[arrived]


def _values(name: str, raw: Any) -> tuple[Scale, Ints]:
    values, numbers, counts = np.unique(raw, return_inverse=True, return_counts=True)
    commonest = np.sort(np.argsort(-counts, kind="stable")[:MOST_VALUES])
    bin_of = np.full(len(values), NOTHING)
    bin_of[commonest] = np.arange(len(commonest))
    words = [(n + 0.5, short_text(values[each].item())) for n, each in enumerate(commonest)]
    return Scale(name, len(commonest), words, True), bin_of[numbers]
