"""What is on its way through a running site: requests, and the items in them, each of which flies on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from cosend.core.kernel.ledger import Floats
from cosend.core.learner.learner import PHASES
from cosend.errors import NoAnswer
from cosend.site.context import Column
from cosend.stores.decisions import Kept

PHASE_NAMES = {kind: phase.name.lower() for kind, phase in PHASES.items()}


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


class Answer(msgspec.Struct, gc=False, array_like=True):
    """What is kept of a decision that someone was told."""

    decided: tuple[str, Any, str, str, int, float, float, str | None]
    context: tuple[Any, ...]
    label: Any  # that the arm gave, if another one was told


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Answer).decode


def read_answer(kept: Kept) -> tuple[Decided, Answer]:
    """Return what was told of a decision, and what else is kept of it."""
    answer = _DECODE(kept.answer)
    return Decided(*answer.decided), answer


class Request:
    """Items that came together and are answered together."""

    __slots__ = ("columns", "done", "items", "left", "names", "results")

    def __init__(self, items: Sequence[Any], columns: list[Column], names: Sequence[str | None]) -> None:
        self.items, self.columns, self.names = items, columns, names
        self.left = len(items)
        self.results: list[Decided | NoAnswer | None] = [None] * len(items)
        self.done: asyncio.Future[list[Decided | NoAnswer]] = asyncio.get_running_loop().create_future()


class Flight:
    """An item on its way: chosen for, perhaps more than once, until an arm has labelled it."""

    id: int
    arm: str
    kind: int
    cell: int
    cost: float
    propensity: float
    label: Any  # of its arm
    shown: Any  # of the classifier that answers while decisions are only observed

    __slots__ = (
        "again",
        "arm",
        "cell",
        "context",
        "cost",
        "id",
        "item",
        "kind",
        "label",
        "missing",
        "place",
        "point",
        "propensity",
        "reasons",
        "request",
        "shown",
        "shown_by",
    )

    def __init__(self, request: Request, place: int, point: Floats, context: tuple[Any, ...]) -> None:
        self.request, self.place, self.point, self.context = request, place, point, context
        self.item = request.items[place]
        self.again = 0  # its arrival, if it was chosen for before
        self.reasons: dict[str, str] | None = None  # by arm that has failed for it
        self.missing = 1  # answers: of its arm, and of the classifier that answers while decisions are only observed
        self.shown_by: str | None = None

    @property
    def name(self) -> str | None:
        """The client's own id of it."""
        return self.request.names[self.place]

    def chosen(
        self, ticket: int, arm: str, kind: int, cell: int, propensity: float, arrival: int, *, cost: float
    ) -> None:
        """Take an arm."""
        self.id, self.arm, self.kind, self.cell = ticket, arm, kind, cell
        self.propensity, self.again, self.cost = propensity, arrival, cost

    def answer(self, name: str) -> tuple[Decided, bytes]:
        """Return what its client is told, and what is kept of that."""
        label = self.label if self.shown_by is None else self.shown
        phase, by = PHASE_NAMES[self.kind], self.shown_by
        decided = Decided(name, label, self.arm, phase, self.cell, self.cost, self.propensity, by)
        told = (name, label, self.arm, phase, self.cell, self.cost, self.propensity, by)
        return decided, _ENCODE((told, self.context, self.label))
