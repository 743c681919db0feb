"""What all transitions of a site have in common: a state, a journal, and care that the journal is never behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import repeat
from typing import Any, Final, ParamSpec, Self, TypeVar

from cosend.core.kernel.bookkeeping import TAUGHT, TRAIN
from cosend.core.learner.arms import Arms
from cosend.core.learner.learner import Learner
from cosend.errors import CosendError, StateError
from cosend.reports.text import counted
from cosend.site.events import Event, Journal
from cosend.site.messages import FORWARD, Forward, Open
from cosend.site.past import Past
from cosend.site.rewards import Others
from cosend.site.served import ServedRequests

P = ParamSpec("P")
T = TypeVar("T")
NOTHING: Final = None  # and not {}: the collector of garbage need not look at a note without containers


class Transitions:
    """The state of a site, and how a transition changes it."""

    name: str
    learner: Learner
    past: Past
    served: ServedRequests
    journal: Journal | None
    _unwritten = False

    def __repr__(self) -> str:
        arms = self.learner.arms
        return f"<Rules of site {self.name!r}: {in_short(len(arms.own), len(arms.peers), self.learner)}>"

    def _change(self, change: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Change the state. Whatever interrupts this before the event is written leaves the journal behind the state.

        Nothing may go on then: the state must be folded from the journal. An error of ours was found by a check, before
        anything changed.
        """
        if self.journal is None:  # there is nothing that could be behind
            return change(*arguments, **options)
        self._begin()
        before = self.learner.last_id
        try:
            return change(*arguments, **options)
        except CosendError:
            self._unwritten = self._unwritten and self.learner.last_id != before
            raise

    def _become(self, change: Callable[[Self], T]) -> T:
        """Change a draft of the state, and become the draft in one statement that calls nothing.

        Whatever interrupts this comes before it, when nothing has changed, or after it: then the state is the new one,
        whole, and if there is a journal it is behind, as in `_change`.
        """
        if self.journal is not None:
            self.check_written()
        draft, is_behind = copy(self), self.journal is not None
        draft.learner, draft.journal = copy(self.learner), None
        result = change(draft)
        self.learner.__dict__, self.served, self._unwritten = draft.learner.__dict__, draft.served, is_behind
        return result

    def _begin(self) -> None:
        """Begin a change, which ends with `_write`; raises if an earlier one was interrupted before that."""
        if self.journal is not None:
            self.check_written()
            self._unwritten = True

    def _keep(self, answers: Iterable[tuple[int, Any]], labels: Sequence[Any], others: Sequence[Others]) -> None:
        """Begin a change and keep what was answered, by id; `labels` and `others` are in these notes too."""
        self._begin()
        self.learner.registry.notes.update(answers)
        self.past.remember_kinds(labels, others)

    @property
    def is_behind(self) -> bool:
        """Whether the journal is behind the state, because a change was interrupted before it was written."""
        return self._unwritten

    def check_written(self) -> None:
        """Raise if the journal is behind the state."""
        if self._unwritten:
            raise StateError(f"site {self.name!r} was stopped before it wrote its journal: recover from the journal")

    def _write(self, *happened: Event | None) -> None:
        """Write the events of a change, if there are any; when all are written, the journal has caught up."""
        if self.journal is not None:
            for event in happened:
                if event is not None:
                    self.journal(event)
        self._unwritten = False

    def promised(self, arm: int, kind: int) -> bool:
        """Tell whether a peer was promised the label of a choice: after trainings, or after every call."""
        is_peer = arm >= len(self.learner.arms.own)
        return is_peer and (kind == TRAIN or self.learner.policy.share_labels == "always")

    def forget_overdue(self) -> list[Forward]:
        """Forget what became overdue, and return what peers are to be told: no label will come for it."""
        overdue = self.learner.registry.take_overdue()
        if not overdue:
            return []
        ids, arms, kinds = zip(*overdue, strict=True)
        return self._gone(ids, arms, kinds)

    def _gone(
        self, ids: Sequence[int], arms: Sequence[int], kinds: Sequence[int], of: Arms | None = None
    ) -> list[Forward]:
        """Forget the notes of what waits no longer, and return what peers are to be told.

        The numbers are those of these arms, or else of those that there are now.
        """
        self.learner.forget_notes(ids)
        if TAUGHT in kinds:
            self.served.forget([ticket for ticket, kind in zip(ids, kinds, strict=True) if kind == TAUGHT])
        always = self.learner.policy.share_labels == "always"
        if not always and TRAIN not in kinds:  # nothing was promised
            return []
        known = of or self.learner.arms
        names, own = known.names, len(known.own)
        return [
            FORWARD((names[arm], self.name, ticket, None, True))
            for ticket, arm, kind in zip(ids, arms, kinds, strict=True)
            if arm >= own and kind != TAUGHT and (always or kind == TRAIN)
        ]

    def _strike(self, ids: Sequence[int]) -> tuple[list[Forward], list[int]]:
        """Take back what waits under ids; returns what peers are to be told, and the arrivals of the items."""
        found = self._change(self.learner.withdraw_many, ids)
        if not found:
            return [], []
        arms, kinds, arrivals = zip(*found, strict=True)
        return self._gone(ids, arms, kinds), [*arrivals]

    # What is answered for peers

    def strike_served(self, caller: str, requests: Sequence[int]) -> None:
        """Take back what was answered before for requests that are answered once more."""
        tickets = self.served.tickets(caller, requests)
        if tickets:
            self.learner.withdraw_many(tickets)
            self.served.forget(tickets)

    def remember_served(self, caller: str, requests: Sequence[int], tickets: Sequence[int]) -> None:
        """Remember who asked for what now waits under ids; some may be overdue already."""
        if any(tickets):
            self.served.add(caller, requests, tickets)

    def served_tickets(self, caller: str, requests: Sequence[int]) -> list[int]:
        """Return the ids under which labels of a caller's requests are awaited; other requests are passed over."""
        return self.served.tickets(caller, requests)

    # Looking inside

    def open(self) -> dict[int, Open]:
        """Return all that waits for its label, by id."""
        names, notes = self.learner.arms.names, self.learner.registry.notes
        waiting = {}
        for entry in self.learner.registry.entries():
            note, asker = notes.get(entry.id), self.served.asker(entry.id)
            label = None if note is None else note[0]
            caller = None if asker is None else asker[0]
            waiting[entry.id] = Open(names[entry.arm], label, caller, note is not None)
        return waiting


def notes_of(labels: Sequence[Any], items: Sequence[Any], others: Sequence[Others]) -> Iterable[Any]:
    """Return what is kept beside ids until their true labels come; the same text again and again is kept once."""
    if items or others or len(labels) == 1 or set(map(type, labels)) != {str}:  # 1 and True are equal, not the same
        return zip(labels, items or repeat(None), others or repeat(NOTHING), strict=False)
    notes = {label: (label, None, NOTHING) for label in set(labels)}
    return map(notes.__getitem__, labels)


def in_short(classifiers: int, peers: int, learner: Learner) -> str:
    """Return what a site has, for its repr."""
    arms = f"{counted(classifiers, 'classifier')}, {counted(peers, 'peer')}"
    return f"{arms}, {counted(learner.arrivals, 'item')}, {counted(learner.waiting_count, 'label')} awaited"
