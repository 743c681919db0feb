"""What is on its way through a running site: requests, and the items in them, each of which flies on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from cosend.core.learner.learner import PHASES
from cosend.errors import NoAnswer
from cosend.site.messages import SILENT

NO_TIME: Final = "no time is left to ask it"
PHASE_NAMES: Final = {kind: phase.name.lower() for kind, phase in PHASES.items()}


class Decided(msgspec.Struct, gc=False, omit_defaults=True):
    """The answer for an item: its label, and how it came about."""

    id: str  # the client's own, or the site's number
    label: Any
    arm: str
    phase: str  # train, explore or exploit
    cell: int
    cost: float
    propensity: float  # nan, which JSON has as null, if it is not known
    answered_by: str | None = None  # the classifier whose label this is, while decisions are only observed


Result = Decided | NoAnswer


class Request:
    """Items that came together and are answered together.

    observer  the classifier that answers them while what was decided is only learnt from; an item is answered when the
              observer has labelled it and an arm is chosen, whatever becomes of that arm
    """

    __slots__ = (
        "answers",
        "asking_since",
        "choices",
        "done",
        "items",
        "left",
        "names",
        "numbers",
        "observer",
        "results",
        "shown",
    )

    def __init__(self, items: Sequence[Any], names: Sequence[str | None] | None, observer: str | None) -> None:
        self.items, self.names, self.observer = items, names, observer
        self.left = len(items)  # answers that are still missing
        self.results: list[Any] = [None] * len(items)
        is_plain = names is None and observer is None
        self.numbers: list[int] | None = None if is_plain else [0] * len(items)  # of the decisions, where that matters
        self.asking_since = 0.0  # when peers were first asked how much they know, 0 if they were not
        self.shown: dict[int, Any] = {}  # by place: what the observer says, None if it has failed
        self.choices: dict[int, Decided] = {}  # by place, while there is an observer: what was chosen
        self.answers: dict[int, Result] = {}  # and what came of it
        self.done: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()

    def name(self, place: int) -> str | None:
        """Return the client's own id of an item."""
        return None if self.names is None else self.names[place]


class Flight(NamedTuple):
    """An item for which an arm was chosen."""

    request: Request
    place: int
    item: Any
    id: int
    kind: int
    cell: int
    propensity: float
    arrival: int  # what `choose` takes as `again` if the arm fails
    context: tuple[Any, ...]
    reasons: dict[str, str]  # by arm that must not be chosen: why it failed, or that no time is left to ask it

    @property
    def tries(self) -> int:
        """How many arms were tried for it, and failed; one that had no answer has not."""
        return sum(reason not in (NO_TIME, SILENT) for reason in self.reasons.values())

    @property
    def silent(self) -> frozenset[str]:
        """The arms that had no answer for it."""
        return frozenset(arm for arm, reason in self.reasons.items() if reason == SILENT)

    def without(self, arms: Iterable[str], but: Container[str]) -> Flight:
        """Return the same with arms that are not to be tried because no time is left, but for some."""
        out = {arm: NO_TIME for arm in arms if arm not in but}
        return self._replace(reasons={**out, **self.reasons})


class Flights(NamedTuple):
    """Many of them, as columns: making an object of every item would take longer than most of what is done with it."""

    requests: Sequence[Request]
    places: Sequence[int]
    items: Sequence[Any]
    ids: Sequence[int]
    kinds: Sequence[int]
    cells: Sequence[int]
    propensities: Sequence[float]
    arrivals: Sequence[int]
    contexts: Sequence[tuple[Any, ...]]
    reasons: Sequence[dict[str, str]]

    def at(self, rows: Sequence[int]) -> Flights:
        """Return some of them."""
        if len(rows) == len(self.requests):
            return self
        if len(rows) == 1:
            return self.part(rows[0], rows[0] + 1)
        return Flights(*map(itemgetter(*rows), self))

    def part(self, start: int, end: int) -> Flights:
        """Return those from one on, up to another."""
        if end - start == len(self.requests):
            return self
        columns: Iterator[Any] = (column[start:end] for column in self)
        return Flights(*columns)

    def with_others(self, others: Flights) -> Flights:
        """Return these and then others."""
        columns: Iterator[Any] = ([*ours, *theirs] for ours, theirs in zip(self, others, strict=True))
        return Flights(*columns)

    def one_by_one(self) -> Iterator[Flight]:
        """Return each of them."""
        return map(Flight, *self)
