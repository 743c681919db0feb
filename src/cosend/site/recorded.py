"""Axes that are known from what was recorded, or from what was found out: they have a name, and read nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cosend.errors import StateError
from cosend.site.context import Column
from cosend.site.past import Past


@dataclass(frozen=True, slots=True)
class RecordedAxis:
    """An axis as a log knows it: it cannot read items, but it stands where the axis stood."""

    description: str
    is_category: bool
    ranked: int
    watches: bool = False

    def read(self, items: Sequence[Any]) -> Column:
        """Refuse: a log does not know how to read an item."""
        raise StateError(f"the axis {self.description} is known from a log only: give the site its axes to go on")

    def place(self, column: Column, past: Past, arrivals: int) -> Column:
        """Return the values as they are."""
        return column

    def check_labels(self, labels: Iterable[Any]) -> None:
        """Accept any label."""
