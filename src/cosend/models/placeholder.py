"""The place of a model that this process does not load, because workers run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cosend.errors import ClassifierError


class RunsElsewhere:
    """A classifier that other processes run: it has a name and a cost here, and learns nothing."""

    learns = False

    def predict(self, items: Sequence[Any]) -> list[Any]:
        """Nobody asks it here; whoever does is told so."""
        raise ClassifierError("its model is not in this process: workers run it")

    def learn(self, item: Any, label: Any) -> None:
        """Learn nothing: it is never taught."""
