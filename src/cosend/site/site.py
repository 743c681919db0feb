"""A site: its rules, driven here and now, with peers that are reached directly."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import cached_property
from typing import Any, Protocol, TypeVar

from cosend.classifiers.adapters import as_classifier, predictions
from cosend.core.learner.values import AskPeer, LabelledData
from cosend.errors import CosendError, NetworkError
from cosend.site.messages import AnsweredItem, Call, Decision, Forward, Predict, Request
from cosend.site.rules import SiteRules

Result = TypeVar("Result")


class Peer(Protocol):
    """What a site needs of another one."""

    def report(self, context: tuple[float, ...]) -> LabelledData:
        """Return how much labelled data it has around a context."""
        ...

    def answer_now(self, call: Call) -> list[AnsweredItem]:
        """Label items with its own classifiers."""
        ...

    def be_taught(self, forward: Forward) -> None:
        """Take the true label of an item that it answered."""
        ...


class Site(SiteRules):
    """A site that classifies and learns in this process; `SiteRules` explains its options."""

    @cached_property
    def peers(self) -> dict[str, Peer]:
        """The sites that it may call, by name."""
        return {}

    # What a user calls

    def classify(self, item: Any) -> Decision:
        """Label an item with an own classifier or by a peer."""
        return self.classify_many([item])[0]

    def classify_many(self, items: Iterable[Any]) -> list[Decision]:
        """Label many items at once, with the same result as one by one."""
        return self._drive(self.decide(items))

    def learn(self, decision: int, truth: Any, cost: float | None = None) -> None:
        """Learn the true label of an item; `cost` is what the decision really cost, if that was not known before."""
        self.learn_many([decision], [truth], [cost])

    def learn_many(
        self, decisions: Iterable[int], truths: Iterable[Any], costs: Iterable[float | None] | None = None
    ) -> None:
        """Learn many true labels at once, with the same result as one by one.

        If a model or a peer fails to learn, all labels are settled and passed on before the first failure is raised.
        """
        settled = self.settle(decisions, truths, costs)
        for forward in settled.forwards:
            try:
                self.peers[forward.peer].be_taught(forward)
            except CosendError as error:
                settled.errors.append(error)
        settled.complain()

    # Arms that join and leave

    def add_classifier(self, name: str, model: Any, cost: float = 0.0) -> None:
        """Add an own classifier."""
        classifier = as_classifier(model)
        self.learner.add_own(name, cost)
        self.classifiers[name] = classifier

    def add_peer(self, name: str, peer: Peer, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that says it has so many classifiers."""
        if name == self.name:
            raise NetworkError(f"site {name!r} cannot be its own peer")
        self.learner.add_peer(name, cost, functions)
        self.peers[name] = peer

    def remove(self, name: str) -> None:
        """Remove an own classifier or a peer; decisions that wait for its reward are dropped, and answers to it."""
        dropped = [self.open.pop(decision, None) for decision in self.learner.remove(name)]
        self._forget([ticket for ticket, entry in self.open.items() if entry.caller == name])
        self.classifiers.pop(name, None)
        peer = self.peers.pop(name, None)
        for entry in dropped:
            if peer is not None and entry is not None and entry.forward is not None:
                peer.be_taught(Forward(*entry.forward, truth=None, withdrawn=True))

    def set_cost(self, arm: str, cost: float) -> None:
        """Change the cost of an own classifier or of calling a peer, from now on."""
        self.learner.set_cost(arm, cost)

    # Being a peer

    def answer_now(self, call: Call) -> list[AnsweredItem]:
        """Answer a peer's call here and now."""
        return self._drive(self.answer(call))

    # Here and now

    def _drive(self, steps: Generator[Request, Any, Result]) -> Result:
        try:
            request = next(steps)
            while True:
                try:
                    reply = self._perform(request)
                except Exception as error:  # the rules take back what they have begun, and raise it again
                    request = steps.throw(error)
                else:
                    request = steps.send(reply)
        except StopIteration as done:
            result: Result = done.value
            return result

    def _perform(self, request: Request) -> Any:
        match request:
            case Predict(name, items):
                return predictions(name, self.classifiers[name], items)
            case AskPeer(peer, context):
                return self.peers[peer].report(context)
            case Call(peer):
                return self.peers[peer].answer_now(request)
            case Forward(peer):
                return self.peers[peer].be_taught(request)
