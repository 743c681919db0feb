"""A site: a learner with its classifiers, its contexts and what is open between a decision and its label.

The rules of a site do no input or output. `decide` and `answer` are generators: they yield what they need (run a
classifier, ask or call a peer) and go on with the reply. `classify` drives them here and now, with peers that are
reached directly; another driver may do the same over a network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from cosend.classifiers.adapters import Classifier, as_classifier, predictions
from cosend.core.checks import check_unit
from cosend.core.learner import Learner
from cosend.core.policy import CoS
from cosend.core.values import AskPeer, Choice, LabelledData, Phase
from cosend.core.waiting import Patience
from cosend.errors import ArmError, CosendError, NetworkError, SettingError, UnknownDecision
from cosend.site.context import Axis, Past, read_contexts
from cosend.site.messages import AnsweredItem, Call, Decision, Forward, Predict, Question, Request

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
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


class Open(NamedTuple):
    """What a site keeps until the label comes."""

    label: Any
    arm: str
    item: Any  # None unless the classifier that answered learns
    forward: tuple[str, int] | None  # the peer to tell, and its ticket
    caller: str | None  # the peer whose item it is, None for an own one


def right_or_wrong(label: Any, truth: Any) -> float:
    """Return 1 for a right label and 0 for a wrong one."""
    return 1.0 if label == truth else 0.0


class Site:
    """Decides for every item which own classifier or peer labels it, and learns from the truth which was best.

    classifiers  name -> scikit-learn or river model, or a function from item to label
    context      one axis or several: `Context("duration", scale="log")`
    policy       how it decides; `CoS()` if none is given
    costs        name -> cost of using an own classifier in [0, 1]; 0 unless given
    reward       (label, truth) -> gain in [0, 1]; right or wrong unless given
    patience     how long it waits for labels; for ever unless given
    """

    def __init__(
        self,
        name: str,
        *,
        classifiers: Mapping[str, Any],
        context: Axis | Sequence[Axis],
        policy: CoS | None = None,
        costs: Mapping[str, float] | None = None,
        reward: Callable[[Any, Any], float] = right_or_wrong,
        patience: Patience | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise SettingError(
                "the name of a site", name, "letters, digits, '_', '.' or '-', starting with a letter or digit"
            )
        costs = dict(costs or {})
        unknown = [arm for arm in costs if arm not in classifiers]
        if unknown:
            raise ArmError(f"site {name!r} has a cost for {unknown[0]!r}, which is none of its classifiers")
        self.name = name
        self.axes: tuple[Axis, ...] = tuple(context) if isinstance(context, Sequence) else (context,)
        self.classifiers: dict[str, Classifier] = {arm: as_classifier(model) for arm, model in classifiers.items()}
        self.reward = reward
        self.peers: dict[str, Peer] = {}
        self.past = Past()
        self.open: dict[int, Open] = {}
        self.learner = Learner(
            name,
            own={arm: costs.get(arm, 0.0) for arm in classifiers},
            dimensions=len(self.axes),
            policy=policy,
            patience=patience,
            seed=seed,
        )

    # What a user calls

    def classify(self, item: Any) -> Decision:
        """Label an item with an own classifier or by a peer."""
        return self.classify_many([item])[0]

    def classify_many(self, items: Sequence[Any]) -> list[Decision]:
        """Label many items at once, with the same result as one by one."""
        return self._drive(self.decide(items))

    def learn(self, decision: int, truth: Any, cost: float | None = None) -> None:
        """Learn the true label of an item; `cost` is what the decision really cost, if that was not known before."""
        self.learn_many([decision], [truth], [cost])

    def learn_many(
        self, decisions: Sequence[int], truths: Sequence[Any], costs: Sequence[float | None] | None = None
    ) -> None:
        """Learn many true labels at once, with the same result as one by one."""
        for forward in self.settle(decisions, truths, costs):
            self.peers[forward.peer].be_taught(forward)

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
        """Remove an own classifier or a peer; decisions that wait for its reward are dropped."""
        for decision in self.learner.remove(name):
            self.open.pop(decision, None)
        self.classifiers.pop(name, None)
        self.peers.pop(name, None)

    def set_cost(self, arm: str, cost: float) -> None:
        """Change the cost of an own classifier or of calling a peer, from now on."""
        self.learner.set_cost(arm, cost)

    # The rules of a site, without input and output

    def decide(self, items: Sequence[Any]) -> Generator[Request, Any, list[Decision]]:
        """Decide for items; yields what it needs and returns the decisions.

        If an arm fails, the items still count as arrivals but the choices are taken back.
        """
        contexts = read_contexts(self.axes, items, self.past, self.learner.arrivals)
        choices = yield from self._choose(contexts)
        answered: dict[int, Open] = {}
        try:
            yield from self._use_own(items, choices, answered)
            yield from self._use_peers(items, contexts, choices, answered)
        except CosendError:
            yield from self._take_back(choices, answered)
            raise
        self._keep_open(answered)
        return [
            Decision(made.id, answered[made.id].label, made.arm, made.phase, made.cell, context, made.propensity)
            for made, context in zip(choices, contexts, strict=True)
        ]

    def answer(self, call: Call) -> Generator[Request, Any, list[AnsweredItem]]:
        """Answer a peer's call with own classifiers; yields what it needs and returns a label for each item."""
        made = [
            self.learner.answer(
                q.context, caller=call.caller, request=q.request, training=q.training, labelled=q.labelled
            )
            for q in call.questions
        ]
        uses = [(own.function, question.item) for own, question in zip(made, call.questions, strict=True)]
        try:
            labels = yield from self._predict(uses)
        except CosendError:
            self._forget([own.ticket for own in made if own.ticket is not None])
            raise
        answers = [AnsweredItem(label, own.ticket) for label, own in zip(labels, made, strict=True)]
        self._keep_open(
            {
                ticket: Open(label, arm, self._item_to_keep(arm, item), None, call.caller)
                for (label, ticket), (arm, item) in zip(answers, uses, strict=True)
                if ticket is not None
            }
        )
        return answers

    def settle(
        self, decisions: Sequence[int], truths: Sequence[Any], costs: Sequence[float | None] | None = None
    ) -> list[Forward]:
        """Learn the true labels of own decisions; returns what is to be passed on to peers."""
        for decision in decisions:
            self.learner.room.require(decision)
            if self.open[decision].caller is not None:
                raise UnknownDecision(self.name, decision, self.learner.room.last)
        for axis in self.axes:
            for truth in truths:
                axis.check_label(truth)
        if len(truths) != len(decisions):
            raise SettingError("truths", len(truths), f"as many as decisions ({len(decisions)})")
        gains = [self._gain(decision, truth) for decision, truth in zip(decisions, truths, strict=True)]
        self.learner.learn_many(decisions, gains, costs)
        forwards = [self._close(decision, truth) for decision, truth in zip(decisions, truths, strict=True)]
        return [forward for forward in forwards if forward is not None]

    def report(self, context: tuple[float, ...]) -> LabelledData:
        """Return how much labelled data there is around a context."""
        return self.learner.report(context)

    def answer_now(self, call: Call) -> list[AnsweredItem]:
        """Answer a peer's call here and now."""
        return self._drive(self.answer(call))

    def be_taught(self, forward: Forward) -> None:
        """Take the label of an item that was answered for a peer; one that waits no longer changes nothing."""
        entry = self.open.get(forward.ticket)
        if entry is None or entry.caller is None:
            return
        if forward.withdrawn:
            self._forget([forward.ticket])
            return
        self.learner.learn(forward.ticket, self._gain(forward.ticket, forward.truth))
        self._close(forward.ticket, forward.truth)

    def _choose(self, contexts: list[tuple[float, ...]]) -> Generator[Request, Any, list[Choice]]:
        choices: list[Choice] = []
        told: dict[str, LabelledData] = {}
        while len(choices) < len(contexts):
            batch = self.learner.choose_many(contexts[len(choices) :], told)
            if batch.choices:
                told = {}
            choices += batch.choices
            if batch.ask is not None:
                told[batch.ask.peer] = yield batch.ask
        return choices

    def _use_own(
        self, items: Sequence[Any], choices: list[Choice], answered: dict[int, Open]
    ) -> Generator[Request, Any, None]:
        own = [(made, item) for made, item in zip(choices, items, strict=True) if made.arm in self.classifiers]
        labels = yield from self._predict([(made.arm, item) for made, item in own])
        for label, (made, item) in zip(labels, own, strict=True):
            answered[made.id] = Open(label, made.arm, self._item_to_keep(made.arm, item), None, None)

    def _use_peers(
        self,
        items: Sequence[Any],
        contexts: list[tuple[float, ...]],
        choices: list[Choice],
        answered: dict[int, Open],
    ) -> Generator[Request, Any, None]:
        always = self.learner.policy.share_labels == "always"
        questions: dict[str, list[Question]] = {}
        for made, item, context in zip(choices, items, contexts, strict=True):
            if made.arm in self.peers:
                training = made.phase is Phase.TRAIN
                question = Question(made.id, item, context, training, training or always)
                questions.setdefault(made.arm, []).append(question)
        for peer, asked in questions.items():
            answers = yield Call(peer, self.name, asked)
            for (label, ticket), question in zip(answers, asked, strict=True):
                forward = None if ticket is None else (peer, ticket)
                answered[question.request] = Open(label, peer, None, forward, None)

    def _predict(self, uses: list[tuple[str, Any]]) -> Generator[Request, Any, list[Any]]:
        """Run every classifier once, on all items that are for it; labels come in the order of the uses."""
        labels: list[Any] = [None] * len(uses)
        for name in dict.fromkeys(arm for arm, _ in uses):
            places = [n for n, (arm, _) in enumerate(uses) if arm == name]
            predicted = yield Predict(name, [uses[n][1] for n in places])
            for n, label in zip(places, predicted, strict=True):
                labels[n] = label
        return labels

    def _take_back(self, choices: list[Choice], answered: dict[int, Open]) -> Generator[Request, Any, None]:
        self._forget([made.id for made in choices])
        for entry in answered.values():
            if entry.forward is not None:
                yield Forward(*entry.forward, truth=None, withdrawn=True)

    def _forget(self, tickets: list[int]) -> None:
        for ticket in tickets:
            if ticket in self.learner.room.entries:
                self.learner.withdraw(ticket)
            self.open.pop(ticket, None)

    def _keep_open(self, answered: dict[int, Open]) -> None:
        self.open.update(answered)
        for dropped in self.learner.take_dropped():
            self.open.pop(dropped, None)

    def _item_to_keep(self, arm: str, item: Any) -> Any:
        return item if self.classifiers[arm].learns else None

    def _gain(self, decision: int, truth: Any) -> float:
        gain = self.reward(self.open[decision].label, truth)
        check_unit("gain", gain, f"decision {decision} of site {self.name!r}")
        return float(gain)

    def _close(self, decision: int, truth: Any) -> Forward | None:
        entry = self.open.pop(decision)
        if entry.item is not None and entry.arm in self.classifiers:
            self.classifiers[entry.arm].learn(entry.item, truth)
        if entry.caller is None and decision > self.past.newest_labelled:
            self.past.newest_labelled, self.past.newest_label = decision, truth
        return None if entry.forward is None else Forward(*entry.forward, truth=truth)

    # Here and now

    def _drive(self, steps: Generator[Request, Any, Result]) -> Result:
        try:
            request = next(steps)
            while True:
                try:
                    reply = self._perform(request)
                except CosendError as error:
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
