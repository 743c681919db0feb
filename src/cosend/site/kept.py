"""What a site keeps: saved to a file and loaded again, or made anew of the events in its journal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from cosend.alone import Alone, one_at_a_time
from cosend.classifiers.adapters import Classifier
from cosend.classifiers.vote import Vote, votes_among
from cosend.core.learner.state import State
from cosend.errors import StateError
from cosend.site.backoff import Backoff
from cosend.site.context import Axis
from cosend.site.events import ArmAdded, ArmRemoved, Event, Journal, Started
from cosend.site.fold import fold
from cosend.site.lessons import taught_by
from cosend.site.messages import Forward, Lesson
from cosend.site.outbox import Outbox
from cosend.site.rules import Rules
from cosend.site.snapshot import check_fits, check_survives, restore_rules, rules_state
from cosend.stores.state_file import read_state, write_state


class Kept:
    """The part of a site that outlives its process; its classifiers are the user's to keep, all but votes."""

    alone: Alone
    name: str
    axes: tuple[Axis, ...]
    rules: Rules
    votes: dict[str, Vote]
    outbox: Outbox
    _backoff: Backoff
    _items: int

    def guard_by(self, alone: Alone) -> None:
        """Let one thread at a time use it and its learner, by this lock."""
        self.alone = self.rules.learner.alone = alone

    @one_at_a_time
    def state(self) -> State:
        """Return everything it needs, beside its classifiers, to go on as if it had never stopped; votes are in it."""
        state = rules_state(self.rules)
        state.facts["site"]["outbox"] = [list(forward) for forward in self.outbox]
        state.facts["site"]["items"] = self._items
        state.facts["site"]["resting"] = self._backoff.rows()
        state.facts["site"]["votes"] = {name: vote.facts() for name, vote in self.votes.items()}
        for vote in state.facts["site"]["votes"].values():
            check_survives(self.name, vote["labels"])
        return state

    @one_at_a_time
    def restore(self, state: State) -> Callable[[], None]:
        """Check that a state fits and return the function that puts it there, which cannot fail."""
        if self.rules.journal is not None:
            raise StateError(
                f"site {self.name!r} has a journal, so it cannot go on from a saved state: recover from the journal"
            )
        commit_rules = restore_rules(self.rules, state)
        try:
            saved = state.facts["site"]
            outbox = Outbox([Forward(*forward) for forward in saved["outbox"]])
            backoff, items = Backoff(saved["resting"]), int(saved["items"])
            votes = {name: saved.get("votes", {}).get(name, Vote().facts()) for name in self.votes}
            for facts in votes.values():
                Vote().remember(facts)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateError(f"the saved state of site {self.name!r} is damaged: {error!r}") from error

        def commit() -> None:
            with self.alone.lock:
                commit_rules()
                self.guard_by(self.alone)
                self.outbox, self._backoff, self._items = outbox, backoff, items
                for name, facts in votes.items():
                    self.votes[name].remember(facts)

        return commit

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save what it knows to a file; its classifiers are not saved."""
        write_state(self.state(), path)

    @one_at_a_time
    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from what `save` has written for a site of the same name, classifiers, peers and context.

        What was saved (costs, policy, patience, seed) wins over what the site was built with.
        """
        self.restore(read_state(path))()

    @one_at_a_time
    def recover(self, log: Iterable[Event], journal: Journal | None = None) -> None:
        """Go on from the events that a journal got, for a site of the same name, classifiers, peers and context.

        `journal` gets the events from now on. What peers had not been told yet is not in a log, and neither is that a
        classifier was a vote which is none today: to the votes of today, it was a classifier. If a vote is over one
        that has left, build the site with it and remove it before.
        """
        votes: dict[str, Classifier] = {}

        def teach(lessons: Sequence[Lesson]) -> None:
            for lesson in lessons:
                for name, seen in taught_by(lesson, votes, "used"):
                    votes[name].learn(seen, lesson.truth)

        rules = fold(self._with_votes(log, votes), axes=self.axes, journal=journal, lessons=teach)
        check_fits(rules.learner, self.rules)
        self.rules = rules
        self.guard_by(self.alone)
        for name, vote in votes_among(votes).items():
            self.votes[name].remember(vote.facts())

    def _with_votes(self, log: Iterable[Event], votes: dict[str, Classifier]) -> Iterator[Event]:
        """Yield events, and let votes come and go as their arms do: one that joins has learnt nothing yet."""
        for event in log:
            if isinstance(event, ArmRemoved):
                votes.pop(event.arm, None)
            joined = event.local if isinstance(event, Started) else [event.arm] if isinstance(event, ArmAdded) else ()
            votes.update({name: Vote(over=self.votes[name].over) for name in joined if name in self.votes})
            yield event
