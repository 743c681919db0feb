"""What a site remembers to place the next item: the newest label, recent values, and the values of categories.

And the kinds of labels that its arms have given, to tell whether a true label may be one of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number
from typing import Any, Final

from cosend.classifiers.vote import NEWEST
from cosend.core.kernel.partition import MOST_CODES
from cosend.site.features import Watched

SHARED: Final = MOST_CODES - 1  # the code of all values that came when there was no other left


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
        """Return the share of recent values below this one, equal ones half, and forget it."""
        below, up_to = bisect_left(self._sorted, value), bisect_right(self._sorted, value)
        return (below + up_to) / (2 * len(self._sorted)) if self._sorted else 0.5


class Codes:
    """The values of a category in the order they came: a value's code is its place. All too many share the last."""

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self.values = list(values)
        self._codes = {value: code for code, value in enumerate(self.values)}

    def code(self, value: Any) -> int:
        """Return the code of a value, a new one if it was never seen; None is all that came too late for one."""
        code = self.find(value)
        if code == len(self.values) and code < SHARED:
            self._codes[value] = code
            self.values.append(value)
        return code

    def find(self, value: Any) -> int:
        """Return the code of a value, or the one it would get: a cell that nobody has visited."""
        return SHARED if value is None else self._codes.get(value, len(self.values))

    def value(self, code: int) -> Any:
        """Return the value of a code; None for the code that is shared."""
        return self.values[code] if code < SHARED else None


def kind_of(kind: type) -> str:
    """Return in a word what kind of label a type is; 1, 1.0 and True are of one kind, and so are equal labels."""
    if issubclass(kind, str):
        return "text"
    return "a number" if issubclass(kind, Number) else f"a {kind.__name__}"


@dataclass(slots=True)
class Past:
    """What a site remembers of items and labels that have come."""

    newest_labelled: int = 0  # id of the newest decision whose label is known
    newest_label: Any = None
    recent: dict[int, RecentValues] = field(default_factory=dict)  # by axis
    codes: dict[int, Codes] = field(default_factory=dict)  # by axis
    features: Watched | None = None  # if every feature is an axis
    kinds: set[str] = field(default_factory=set)  # of labels that arms have given, in words
    types: set[type] = field(default_factory=set, repr=False, compare=False)  # some of theirs: these need no look

    def remember_kinds(self, labels: Sequence[Any], others: Iterable[Mapping[str, Any] | None]) -> None:
        """Remember which kinds of labels arms have given, and classifiers that were run beside them."""
        if not self.types.issuperset(map(type, labels)):
            self._meet(labels)
        for said in others:
            if said and not self.types.issuperset(map(type, said.values())):
                self._meet([label for name, label in said.items() if name != NEWEST])

    def _meet(self, labels: Iterable[Any]) -> None:
        self.types.update(map(type, labels))
        self.kinds.update(map(kind_of, self.types))

    def remember_labels(self, tickets: Sequence[int], truths: Sequence[Any]) -> None:
        """Remember the label of the newest decision, now that these are known."""
        newest = max(tickets) if tickets else 0
        if newest > self.newest_labelled:
            self.newest_labelled, self.newest_label = newest, truths[tickets.index(newest)]
