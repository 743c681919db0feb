"""The rules of a site, without input and output: items and labels in, decisions, requests and forwards out.

`decide` and `answer` are generators: they yield what they need (run a classifier, ask or call a peer, tell a peer that
no label will come) and go on with the reply. Whatever drives them decides how that is done; `Site` does it here, now.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from cosend.classifiers.adapters import Classifier, as_classifier, plain, teach
from cosend.core.checks import as_list, check_callable, check_kind, check_text, check_unit
from cosend.core.learner.learner import Learner
from cosend.core.learner.values import Answer, Choice, LabelledData, Phase, View
from cosend.core.learner.waiting import Patience
from cosend.core.policy.parts import Policy
from cosend.core.policy.policies import ContextSelection
from cosend.errors import ArmError, ClassifierError, CosendError, RewardError, SettingError, UnknownDecision
from cosend.site.context import Axis, Past, check_items, read_contexts
from cosend.site.messages import AnsweredItem, Call, Decision, Forward, Predict, Question, Request

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
T = TypeVar("T")


class Open(NamedTuple):
    """What a site keeps until the label comes."""

    label: Any
    arm: str
    item: Any  # None unless the classifier that answered learns
    forward: tuple[str, int] | None  # the peer to tell, and its ticket
    caller: str | None  # the peer whose item it is, None for an own one


class Settled(NamedTuple):
    """What is left to do after labels were learnt."""

    forwards: list[Forward]
    errors: list[CosendError]

    def complain(self) -> None:
        """Raise the first thing that went wrong, if anything did."""
        if self.errors:
            raise self.errors[0]


def right_or_wrong(label: Any, truth: Any) -> float:
    """Return 1 for a right label and 0 for a wrong one."""
    return 1.0 if label == truth else 0.0


class SiteRules:
    """Decides for every item which own classifier or peer labels it, and learns from the truth which was best.

    classifiers  name -> scikit-learn or river model, or a function from item to label
    context      one axis or several: `Context("duration", scale="log")`; "auto" finds out which of the
                 `candidates` to trust
    candidates   name -> axis: what "auto" chooses from, each alone or all together; `trust()` shows how they fare
    policy       how it decides; `ZoomingKLUCB()`, which needs to know nothing beforehand, unless given
    costs        name -> cost of using an own classifier in [0, 1]; 0 unless given
    reward       (label, truth) -> gain in [0, 1]; right or wrong unless given
    patience     how long it waits for labels; for ever unless given
    """

    def __init__(
        self,
        name: str,
        *,
        classifiers: Mapping[str, Any],
        context: Axis | Sequence[Axis] | Literal["auto"],
        candidates: Mapping[str, Axis] | None = None,
        policy: Policy | None = None,
        costs: Mapping[str, float] | None = None,
        reward: Callable[[Any, Any], float] = right_or_wrong,
        patience: Patience | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise SettingError(
                "the name of a site", name, "letters, digits, '_', '.' or '-', starting with a letter or digit"
            )
        check_kind(f"the classifiers of site {name!r}", classifiers, Mapping, "a mapping from names to models")
        costs = {} if costs is None else costs
        check_kind(f"the costs of site {name!r}", costs, Mapping, "a mapping from classifiers to costs")
        check_callable(f"the reward of site {name!r}", reward, "a function (label, truth) -> gain in [0, 1]")
        unknown = [arm for arm in costs if arm not in classifiers]
        if unknown:
            raise ArmError(f"site {name!r} has a cost for {unknown[0]!r}, which is none of its classifiers")
        self.name = name
        self.axes: tuple[Axis, ...] = _axes(name, context, candidates)
        self.axis_names = tuple(candidates or [axis.description for axis in self.axes])
        if context == "auto" and not isinstance(policy, ContextSelection):
            policy = ContextSelection() if policy is None else ContextSelection(policy)
        self.classifiers: dict[str, Classifier] = {arm: as_classifier(model) for arm, model in classifiers.items()}
        self.reward = reward
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

    def decide(self, items: Iterable[Any]) -> Generator[Request, Any, list[Decision]]:
        """Decide for items; yields what it needs and returns the decisions.

        If an arm fails, the items still count as arrivals but the choices are taken back.
        """
        items = as_list(f"the items for site {self.name!r}", items, "a list of items")
        check_items(self.axes, items, self.past, self.learner.arrivals)
        choices: list[Choice] = []
        answered: dict[int, Open] = {}
        decisions: list[Decision] = []
        try:
            for part in self._parts(items):
                decisions += yield from self._decide(part, choices, answered)
        except Exception:
            yield from self._take_back(choices, answered)
            raise
        return decisions

    def answer(self, call: Call) -> Generator[Request, Any, list[AnsweredItem]]:
        """Answer a peer's call with own classifiers; yields what it needs and returns a label for each item."""
        tickets: list[int] = []
        answers: list[AnsweredItem] = []
        try:
            for part in self._parts(call.questions):
                answers += yield from self._answer(call.caller, part, tickets)
        except Exception:
            self._forget(tickets)
            raise
        return answers

    def settle(
        self, decisions: Iterable[int], truths: Iterable[Any], costs: Iterable[float | None] | None = None
    ) -> Settled:
        """Learn the true labels of own decisions; returns what is to be passed on, and what went wrong in a model."""
        decisions = as_list("decisions", decisions, "a list of ids")
        truths = [plain(truth) for truth in as_list("truths", truths, "a list of labels")]
        if len(truths) != len(decisions):
            raise SettingError("truths", len(truths), f"as many as decisions ({len(decisions)})")
        for decision, truth in zip(decisions, truths, strict=True):
            self._check_own(decision)
            for axis in self.axes:
                axis.check_label(truth)
        gains = [self._gain(decision, truth) for decision, truth in zip(decisions, truths, strict=True)]
        self.learner.learn_many(decisions, gains, costs)
        return self._close(decisions, truths)

    def _check_own(self, decision: int) -> None:
        self.learner.room.require(decision)
        if self.open[decision].caller is not None:  # an answer to a peer: its label comes from there
            raise UnknownDecision(self.name, decision, self.learner.room.last)

    def trust(self) -> dict[str, View]:
        """Return by name the parts of the context that may be trusted, and how each of them fares."""
        names = [*self.axis_names, "time"]
        return {" + ".join(names[axis] for axis in view.axes) or "none": view for view in self.learner.views()}

    def report(self, context: tuple[float, ...]) -> LabelledData:
        """Return how much labelled data there is around a context."""
        return self.learner.report(context)

    def be_taught(self, forward: Forward) -> None:
        """Take the label of an item that was answered for a peer; one that waits no longer changes nothing."""
        entry = self.open.get(forward.ticket)
        if entry is None or entry.caller is None:
            return
        if forward.withdrawn:
            self._forget([forward.ticket])
            return
        self.learner.learn(forward.ticket, self._gain(forward.ticket, forward.truth))
        self._close([forward.ticket], [forward.truth]).complain()

    def _parts(self, items: Sequence[T]) -> list[Sequence[T]]:
        """Return the items in one part, or one by one if something could become overdue between two of them."""
        if len(items) > 1 and self.learner.room.may_overflow(len(items), self.learner.arrivals):
            return [[item] for item in items]
        return [items]

    def _decide(
        self, items: Sequence[Any], choices: list[Choice], answered: dict[int, Open]
    ) -> Generator[Request, Any, list[Decision]]:
        contexts = read_contexts(self.axes, items, self.past, self.learner.arrivals)
        first = len(choices)
        yield from self._choose(contexts, choices)
        made = choices[first:]
        yield from self._drop_overdue()
        yield from self._use_own(items, made, answered)
        yield from self._use_peers(items, contexts, made, answered)
        self.open.update((choice.id, answered[choice.id]) for choice in made)
        return [
            Decision(each.id, answered[each.id].label, each.arm, each.phase, each.cell, context, each.propensity)
            for each, context in zip(made, contexts, strict=True)
        ]

    def _answer(
        self, caller: str, questions: Sequence[Question], tickets: list[int]
    ) -> Generator[Request, Any, list[AnsweredItem]]:
        made: list[Answer] = []
        for request, _, context, training, labelled in questions:
            own = self.learner.answer(context, caller=caller, request=request, training=training, labelled=labelled)
            made.append(own)
            if own.ticket is not None:
                tickets.append(own.ticket)
        yield from self._drop_overdue()
        uses = [(own.function, question.item) for own, question in zip(made, questions, strict=True)]
        labels = yield from self._predict(uses)
        answers = [AnsweredItem(label, own.ticket) for label, own in zip(labels, made, strict=True)]
        for (label, ticket), (arm, item) in zip(answers, uses, strict=True):
            if ticket is not None:
                self.open[ticket] = Open(label, arm, self._item_to_keep(arm, item), None, caller)
        return answers

    def _choose(self, contexts: list[tuple[float, ...]], choices: list[Choice]) -> Generator[Request, Any, None]:
        told: dict[str, LabelledData] = {}
        while contexts:
            batch = self.learner.choose_many(contexts, told)
            if batch.choices:
                told = {}
            choices += batch.choices
            contexts = contexts[len(batch.choices) :]
            if batch.ask is not None:
                told[batch.ask.peer] = yield batch.ask

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
            if made.arm not in self.classifiers:
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
        yield from self._drop_overdue()

    def _drop_overdue(self) -> Generator[Request, Any, None]:
        """Close what waits no longer; a peer that was promised the label is told that there will be none."""
        for decision in self.learner.take_dropped():
            entry = self.open.pop(decision, None)
            if entry is not None and entry.forward is not None:
                yield Forward(*entry.forward, truth=None, withdrawn=True)

    def _forget(self, tickets: list[int]) -> None:
        for ticket in tickets:
            if ticket in self.learner.room.entries:
                self.learner.withdraw(ticket)
            self.open.pop(ticket, None)

    def _item_to_keep(self, arm: str, item: Any) -> Any:
        return item if self.classifiers[arm].learns else None

    def _gain(self, decision: int, truth: Any) -> float:
        where = f"decision {decision} of site {self.name!r}"
        try:
            gain = self.reward(self.open[decision].label, truth)
        except Exception as error:  # a user's function may raise anything, and so may a comparison of arrays
            raise RewardError("gain", error, where) from error
        check_unit("gain", gain, where)
        return float(gain)

    def _close(self, decisions: Sequence[int], truths: Sequence[Any]) -> Settled:
        """Close what has its label, all of it, and only then say what went wrong in a model."""
        settled = Settled([], [])
        for decision, truth in zip(decisions, truths, strict=True):
            entry = self.open.pop(decision)
            if entry.caller is None and decision > self.past.newest_labelled:
                self.past.newest_labelled, self.past.newest_label = int(decision), truth
            if entry.forward is not None:
                settled.forwards.append(Forward(*entry.forward, truth=truth))
            if entry.item is not None and entry.arm in self.classifiers:
                try:
                    teach(entry.arm, self.classifiers[entry.arm], entry.item, truth)
                except ClassifierError as error:
                    settled.errors.append(error)
        return settled


def _axes(site: str, context: Any, candidates: Any) -> tuple[Axis, ...]:
    if (context == "auto") != (candidates is not None):
        allowed = "given with context='auto', and only then: a mapping from names to Contexts"
        raise SettingError(f"the candidates of site {site!r}", candidates, allowed)
    if context == "auto":
        check_kind(f"the candidates of site {site!r}", candidates, Mapping, "a mapping from names to Contexts")
        for each in candidates:
            check_text(f"the name of a candidate of site {site!r}", each)
        context = tuple(candidates.values())
    axes = tuple(context) if isinstance(context, list | tuple) else (context,)
    for axis in axes:
        if not isinstance(axis, Axis):
            raise SettingError(f"the context of site {site!r}", axis, "a Context, or a list of them")
    if not axes:
        raise SettingError(f"the context of site {site!r}", context, "a Context, or a list of at least one")
    return axes
