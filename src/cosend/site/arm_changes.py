"""Arms that join, leave, pause, resume, and cost something else: the transitions of a site that change its arms."""

from __future__ import annotations

from cosend.site import events
from cosend.site.messages import Forward
from cosend.site.transition import Transitions


class ArmChanges(Transitions):
    """The transitions that change an arm."""

    def add_local(self, name: str, cost: float = 0.0) -> None:
        """Add a local classifier; what is known of the other arms stays."""
        self._change(self.learner.add_own, name, cost)
        self._write(events.ArmAdded(name, float(cost)))

    def add_peer(self, name: str, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that announces this many classifiers; what is known of the other arms stays."""
        self._change(self.learner.add_peer, name, cost, functions)
        self._write(events.ArmAdded(name, float(cost), functions))

    def remove(self, name: str) -> list[Forward]:
        """Remove an arm; what waits for it no longer does, nor does what was answered for it.

        Returns what it must be told if it is a peer that was promised labels.
        """
        number = self.learner.arms.number(name)
        waiting = [(entry.id, entry.arm, entry.kind) for entry in self.learner.registry.of_arm(number)]
        self._change(self.learner.arms.check_may_leave, name)
        forwards = self._gone(*zip(*waiting, strict=True)) if waiting else []
        asked = self.served.of_caller(name) if name in self.learner.arms.peers else []
        self.learner.remove(name)
        self._forget_scores(name)
        self.learner.withdraw_many(asked)
        self.served.forget(asked)
        self._write(events.ArmRemoved(name))
        return forwards

    def _forget_scores(self, name: str) -> None:
        """Forget what a classifier that has left said of items that others labelled: a new one may get its name."""
        notes = self.learner.registry.notes
        for ticket, (label, item, others) in notes.items():
            if others and name in others:
                notes[ticket] = label, item, {other: said for other, said in others.items() if other != name} or None

    def pause(self, name: str) -> None:
        """Choose an arm no longer until `resume`; what was learnt of it is kept."""
        self._change(self.learner.pause, name)
        self._write(events.ArmPaused(name))

    def resume(self, name: str) -> None:
        """Let an arm be chosen again, with what was known of it."""
        self._change(self.learner.resume, name)
        self._write(events.ArmResumed(name))

    def set_cost(self, name: str, cost: float) -> None:
        """Change what using an arm costs from now on."""
        self._change(self.learner.set_cost, name, cost)
        self._write(events.CostChanged(name, float(cost)))
