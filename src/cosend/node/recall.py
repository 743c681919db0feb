"""What a site was told and has told of one decision, from its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cosend.node.flight import PHASE_NAMES, Decided
from cosend.site.events import Answered, Chosen, Labelled, Shown
from cosend.site.wire import decode
from cosend.stores.log_index import LogIndex, Row


@dataclass
class Past:
    """A decision that someone was told."""

    arm: str
    kind: int
    cell: int
    cost: float
    propensity: float
    context: tuple[Any, ...]
    at: float = 0.0  # when it was answered, in seconds since 1970
    told: bool = False
    label: Any = None  # that the arm gave
    shown: Any = None  # that the client was told
    shown_by: str | None = None
    labelled: bool = False
    truth: Any = None

    def decided(self, name: str) -> Decided:
        """Return what its client was told."""
        phase = PHASE_NAMES[self.kind]
        return Decided(name, self.shown, self.arm, phase, self.cell, self.cost, self.propensity, self.shown_by)


def recall(index: LogIndex, number: int, widest: int) -> Past | None:
    """Return a decision by its number; None if nobody was told of it, or its events were removed.

    No event may tell of decisions whose numbers are further apart than `widest`.
    """
    past: Past | None = None
    for row in index.events_of(number, widest) if number > 0 else ():
        event = decode(row.event)
        if isinstance(event, Chosen):
            past = _chosen(event, number - event.first)
        elif past is not None and isinstance(event, Answered | Shown) and number in event.ids:
            _answered(past, row, event, event.ids.index(number))
    if past is None or not past.told:
        return None
    for event_number in index.labelled([number]).values():
        _labelled(past, index.events(event_number, 1), number)
    return past


def _chosen(event: Chosen, place: int) -> Past:
    arm = event.arms[place]
    cell = event.cells[place] if event.cells else 0
    return Past(
        arm, event.kinds[place], cell, event.costs.get(arm, 0.0), event.propensities[place], event.contexts[place]
    )


def _answered(past: Past, row: Row, event: Answered | Shown, place: int) -> None:
    past.at, past.told, past.shown = row.at, True, event.labels[place]
    if isinstance(event, Shown) and event.classifier:
        past.shown_by = event.classifier
    else:
        past.label = event.labels[place]


def _labelled(past: Past, rows: list[Row], number: int) -> None:
    past.labelled = True
    for row in rows:
        event = decode(row.event)
        if isinstance(event, Labelled) and number in event.ids:
            past.truth = event.truths[event.ids.index(number)]
