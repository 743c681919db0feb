"""Answers of an arm that are held back until the classifiers have answered that are run beside it, to be scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from cosend.node.workers import Answers

Heard: TypeAlias = Callable[[int, int, Answers], None]  # the places of the first and after the last, and their answers


class Held:
    """The answers for some items: `then` hears those of the arm when nobody is missing any more.

    An item is done only then, so that what others said of it stands in the event of its answer. The time limits of the
    models are the limit of that, because a model that is too slow has failed.
    """

    def __init__(self, count: int, others: int, then: Heard) -> None:
        self.said: list[dict[str, Any]] = [{} for _ in range(count)]
        self._missing, self._then = count * (1 + others), then
        self._parts: list[tuple[int, int, Answers]] = []

    def answered(self, start: int, end: int, answers: Answers) -> None:
        """Take what the arm has answered."""
        self._parts.append((start, end, answers))
        self._less(end - start)

    def heard(self, name: str, start: int, labels: Sequence[Any], is_label: Callable[[Any], bool]) -> None:
        """Take what a classifier has said beside it; one that has failed on an item has said None of it."""
        for said, label in zip(self.said[start:], labels, strict=False):
            if label is not None and is_label(label):
                said[name] = label
        self._less(len(labels))

    def _less(self, count: int) -> None:
        self._missing -= count
        if not self._missing:
            for part in self._parts:
                self._then(*part)
