"""Arms that join, leave, pause, resume, and cost something else: the transitions of a site that change its arms."""

from __future__ import annotations

from cosend.site import events
from cosend.site.messages import Forward
from cosend.site.transition import Transitions


class ArmChanges(Transitions):
    """The transitions that change an arm."""

    def add_local(self, name: str, cost: float = 0.0) -> None:
        """Add a local classifier; what is known of the other arms stays."""
        self._become(lambda draft: draft.learner.add_own(name, cost))
        self._write(events.ArmAdded(name, float(cost)))

    def add_peer(self, name: str, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that announces this many classifiers; what is known of the other arms stays."""
        self._become(lambda draft: draft.learner.add_peer(name, cost, functions))
        self._write(events.ArmAdded(name, float(cost), functions))

    def remove(self, name: str) -> list[Forward]:
        """Remove an arm; what waits for it no longer does, nor does what was answered for it.

        Returns what it must be told if it is a peer that was promised labels.
        """
        forwards = self._become(lambda draft: draft._removed(name))
        self._write(events.ArmRemoved(name))
        return forwards

    def _removed(self, name: str) -> list[Forward]:
        arms, registry = self.learner.arms, self.learner.registry
        waiting = registry.of_arm(arms.number(name))
        self.served = self.served.draft()
        self.learner.remove(name)
        ids, _, numbers, kinds, _ = waiting.T.tolist()
        forwards = self._gone(ids, numbers, kinds, arms)
        asked = self.served.of_caller(name) if name in arms.peers else []
        self._forget_scores(name)
        # Ctrl-C while an answer was taken back may have left one that waits no longer.
        self.learner.withdraw_many([ticket for ticket in asked if ticket in self.learner.registry])
        self.served.forget(asked)
        return forwards

    def _forget_scores(self, name: str) -> None:
        """Forget what a classifier that has left said of items that others labelled: a new one may get its name."""
        notes = self.learner.registry.notes
        for ticket, (label, item, others) in notes.items():
            if others and name in others:
                notes[ticket] = label, item, {other: said for other, said in others.items() if other != name} or None

    def pause(self, name: str) -> None:
        """Choose an arm no longer until `resume`; what was learnt of it is kept."""
        self._become(lambda draft: draft.learner.pause(name))
        self._write(events.ArmPaused(name))

    def resume(self, name: str) -> None:
        """Let an arm be chosen again, with what was known of it."""
        self._become(lambda draft: draft.learner.resume(name))
        self._write(events.ArmResumed(name))

    def set_cost(self, name: str, cost: float) -> None:
        """Change what using an arm costs from now on."""
        self._become(lambda draft: draft.learner.set_cost(name, cost))
        self._write(events.CostChanged(name, float(cost)))
