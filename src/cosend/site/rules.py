"""The rules of a site as synchronous transitions, without input and output.

    place, choose           items come in             -> which arms label them, or which peer must be asked first
    complete, fail          an arm has answered, or has not
    serve                   a peer's call comes in    -> which local classifiers answer it
    settle, teach           true labels come in       -> what is to be passed on, and which models learn
    withdraw                no label will come
    add_local, add_peer, remove, pause, resume, set_cost    an arm changes

A transition checks everything, then changes the state, writes its event to the journal, and returns what is needed
next, all of it at once. None waits and none runs code of the user: classifiers, rewards and contexts belong to whoever
drives the rules. So any number of items can be in flight, and the order of the transitions is that of the events.

Whoever drives them with many items in flight sends the calls of a step before its forwards, and keeps their order on
the way to a peer: one that hears that no label will come before it is asked would wait for it. For the same reason, an
answer that `fail` does not return is not tried again. What is cancelled is withdrawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import repeat
from operator import ne
from typing import Any

import numpy as np

from cosend.core.checks import check_text
from cosend.core.kernel.bookkeeping import TAUGHT
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.default import how_to_decide
from cosend.core.learner.learner import NOBODY, Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import LabelledData, ScoreLocal
from cosend.core.policy.parts import Policy
from cosend.errors import ContextError, DecisionError, SettingError, UnansweredDecision, UnknownDecision
from cosend.site import events
from cosend.site.arm_changes import ArmChanges
from cosend.site.context import Axis
from cosend.site.features import Watched, watches
from cosend.site.lessons import lessons_of
from cosend.site.messages import FORWARD, Forward, Lesson, Question, Serving, Settled, Step
from cosend.site.past import Codes, Past
from cosend.site.placing import Placing
from cosend.site.rewards import Others, in_event
from cosend.site.rows import columns_of
from cosend.site.served import ServedRequests
from cosend.site.transition import notes_of
from cosend.version import VERSION as SOFTWARE


class Rules(ArmChanges, Placing):
    """Everything that a site knows, and the only ways to change it.

    local    the local classifiers with their costs
    axes     of a context; they place items, and are not part of the state
    policy, score_local    as of a Site
    journal  what every event is written to, for example `list.append`; None writes nothing
    """

    def __init__(
        self,
        name: str,
        *,
        local: Mapping[str, float],
        axes: Sequence[Axis],
        policy: Policy | None = None,
        patience: Patience | None = None,
        seed: int = 0,
        score_local: ScoreLocal | None = None,
        journal: events.Journal | None = None,
    ) -> None:
        self.name, self.axes = name, tuple(axes)
        self.given = self.axes[:-1] if watches(axes) else self.axes
        self.named = tuple(axis.description for axis in self.given)
        categories = [n for n, axis in enumerate(axes) if axis.is_category]
        policy, score_local = how_to_decide(policy, score_local, watches=watches(axes))
        if watches(axes) and isinstance(policy, Policy) and not policy.mixes:  # what is none, the learner refuses
            allowed = "MixedViews where every feature is looked at; others need a context, without Context.features()"
            raise SettingError(f"the policy of site {name!r}", policy, allowed)
        self.learner = Learner(
            name,
            own=local,
            dimensions=len(self.given),
            categories=categories,
            policy=policy,
            patience=patience,
            seed=seed,
            score_local=score_local,
        )
        features = Watched() if watches(self.axes) else None
        self.past = Past(codes={axis: Codes() for axis in categories}, features=features)
        self.served = ServedRequests()
        self.journal = journal
        self._ranked = {n: axis.ranked for n, axis in enumerate(axes) if axis.ranked}
        if journal is not None:
            journal(self._started())

    def _started(self) -> events.Started:
        learner = self.learner
        return events.Started(
            version=events.VERSION,
            software=SOFTWARE,
            site=self.name,
            seed=learner.seed,
            policy=learner.policy.facts(),
            patience=asdict(learner.patience),
            axes=tuple(axis.description for axis in self.axes),
            categories=tuple(self.past.codes),
            ranked=dict(self._ranked),
            local=dict(learner.arms.own),
            score_local=learner.score_local,
            features=self.past.features is not None,
        )

    # Items

    def choose(
        self,
        points: Floats,
        *,
        told: Mapping[str, LabelledData] = NOBODY,
        without: Collection[str] = (),
        again: Sequence[int] = (),
    ) -> Step:
        """Choose arms for items, up to the first for which a peer must be asked; call again with the rest.

        `told` is what peers have told of the first item, `without` the arms that may not be chosen this time, `again`
        what `fail` returned for items that are chosen for once more.
        """
        learner = self.learner
        self._check_points(points, again)
        (kinds, arms, cells, candidates), ask = self._change(learner.decide, points, told, without, again)
        names, count = learner.arms.names, len(arms)
        step = Step(
            learner.last_id - count + 1,
            [names[arm] for arm in arms],
            kinds,
            cells,
            [1.0 / each for each in candidates],
            self._arrivals(again[:count], count),
            None if ask is None else ask._replace(context=self.spell(points[count])),
            self.forget_overdue(),
        )
        return step if self.journal is None else self._written(step, points, told, tuple(without), tuple(again))

    def _check_points(self, points: Floats, again: Sequence[int]) -> None:
        """Raise unless compiled code may walk through these."""
        axes = self.learner.dimensions
        if points.ndim != 2 or points.shape[1] != axes or points.dtype != np.float64:
            raise ContextError(f"contexts of site {self.name!r} must be [item, {axes} axes], as `place` gives")
        if again and (len(again) != len(points) or not 0 <= min(again) <= max(again) <= self.learner.arrivals):
            raise SettingError("again", again, "the arrival of each item as `choose` gave it, or 0 for a new one")

    def _arrivals(self, again: Sequence[int], count: int) -> list[int]:
        """Return the numbers of so many items that were chosen for just now; some were counted before."""
        last = self.learner.arrivals
        if not again:
            return [*range(last - count + 1, last + 1)]
        number, numbers = last - again.count(0), []
        for before in again:
            number += before == 0
            numbers.append(before or number)
        return numbers

    def _written(
        self,
        step: Step,
        points: Floats,
        told: Mapping[str, LabelledData],
        without: tuple[str, ...],
        again: tuple[int, ...],
    ) -> Step:
        """Write what was chosen, and return it with the contexts as they were written."""
        heard, count = {peer: (int(data[0]), int(data[1])) for peer, data in told.items()}, len(step.arms)
        chosen, asked = None, None
        contexts = tuple(self.spell_all(points[:count]))
        if count:
            arms, kinds, propensities = tuple(step.arms), tuple(step.kinds), tuple(step.propensities)
            costs = {arm: cost for arm in set(arms) if (cost := self.learner.arms.cost(arm))}
            which = without, again[:count], tuple(step.cells), costs
            chosen = events.Chosen(step.first, contexts, arms, kinds, propensities, heard, *which)
            heard = {}
        if step.ask is not None:
            number = again[count] if again else 0
            asked = events.Asked(step.ask.peer, step.ask.context, heard, without, number)
        self._write(chosen, asked)
        return step._replace(contexts=contexts)

    def complete(
        self,
        ids: Sequence[int],
        labels: Sequence[Any],
        items: Sequence[Any] = (),
        others: Sequence[Others] = (),
    ) -> list[int]:
        """Enter what arms have answered: decisions of this site, or answers for a peer.

        `items` are kept for classifiers that learn, None where they do not; `others` is what other local classifiers
        said. What waits no longer, because it became overdue or its arm has left, is left alone and returned.
        """
        if not len(ids) == len(labels) == len(items or labels) == len(others or labels):
            lengths = f"{len(labels)}, {len(items)} and {len(others)}"
            raise SettingError("labels, items and others", lengths, f"as many as ids ({len(ids)}), or none")
        others = [each or None for each in others] if any(others) else ()
        notes = notes_of(labels, items, others)
        waiting = self.learner.still_waiting(ids)
        if len(waiting) < len(ids) or (len(ids) > 1 and not isinstance(ids, range) and len(set(ids)) < len(ids)):
            return self._complete_some(ids, waiting, dict(zip(ids, notes, strict=True)), bool(items))
        self._keep(zip(ids, notes, strict=True), labels, others)
        event = None
        if self.journal is not None and len(ids):
            event = events.Answered(tuple(ids), tuple(labels), tuple(items), in_event(others))
        self._write(event)
        return []

    def _complete_some(
        self, ids: Sequence[int], waiting: Sequence[int], notes: dict[int, Any], with_items: bool
    ) -> list[int]:
        """Enter the notes of those that still wait, and return the others."""
        answered = {ticket: notes[ticket] for ticket in waiting}
        labels, items, others = zip(*answered.values(), strict=True) if answered else ((), (), ())
        self._keep(answered.items(), labels, others)
        event = None
        if self.journal is not None and answered:
            event = events.Answered(tuple(answered), labels, items if with_items else (), in_event(others))
        self._write(event)
        return [ticket for ticket in ids if ticket not in answered]

    def fail(self, ids: Sequence[int], arm: str, reason: str) -> tuple[dict[int, int], list[Forward]]:
        """Take choices back because their arm has failed: never a reward.

        Returns for each id that still waited what `choose` takes as `again`, and what peers are to be told, because an
        answer may have been lost on its way. Without ids it is only written down.
        """
        check_text("the arm that failed", arm)
        waiting = self.learner.still_waiting(ids)
        forwards, arrivals = self._strike(waiting)
        self._write(events.Failed(tuple(waiting), arm, reason))
        return dict(zip(waiting, arrivals, strict=True)), forwards

    def withdraw(self, ids: Sequence[int]) -> list[Forward]:
        """Take back what no label will come for; ids that wait no longer are passed over."""
        waiting = self.learner.still_waiting(ids)
        forwards, _ = self._strike(waiting)
        self._write(events.Withdrawn(tuple(waiting)) if waiting else None)
        return forwards

    # True labels

    def labels_of(self, ids: Sequence[int]) -> list[Any]:
        """Return what was answered for own decisions that wait for their label, or raise."""
        notes = self.learner.registry.notes
        try:
            if self.served.is_empty():
                return [notes[ticket][0] for ticket in ids]
        except (KeyError, TypeError):
            pass  # one of them does not wait, or has no answer: find out what is wrong with it
        tickets, found = self.learner.look_up(ids)
        return [label for label, *_ in self._notes(tickets, found)]

    def _notes(self, tickets: Sequence[int], found: Sequence[Sequence[int]]) -> list[Any]:
        """Return the notes of own decisions that were looked up: (label, item, others) of each, or raise."""
        for n, (_, kind, _) in enumerate(found):
            if kind == TAUGHT:  # an answer to a peer: its label comes from there
                raise UnknownDecision(self.name, tickets[n], self.learner.last_id)
        return self._answers(tickets)

    def _answers(self, tickets: Sequence[int]) -> list[Any]:
        notes = self.learner.registry.notes
        try:
            return [notes[ticket] for ticket in tickets]
        except KeyError as error:
            raise UnansweredDecision(self.name, error.args[0]) from None

    def others_of(self, ids: Sequence[int]) -> list[Others]:
        """Return what local classifiers said that are scored, for decisions or answers that wait."""
        notes = self.learner.registry.notes
        return [notes[ticket][2] for ticket in ids] if self.learner.score_local == "all" else []

    def settle(
        self,
        ids: Sequence[int],
        truths: Sequence[Any],
        gains: Sequence[float],
        costs: Sequence[float | None] | None = None,
        others: Sequence[Mapping[str, float]] = (),
    ) -> Settled:
        """Learn the true labels of own decisions, which have been answered.

        `others` is what local classifiers gain that were run beside the arms, to be scored. A gain that is not a number
        is of a decision that nobody had an answer for: nobody is scored, and models learn from it.
        """
        tickets, found = self.learner.look_up(ids)
        notes = self._notes(tickets, found)
        if len(truths) != len(tickets):
            raise SettingError("truths", len(truths), f"as many as decisions ({len(tickets)})")
        settle = self._settle_some if any(map(ne, gains, gains)) else self.learner.settle
        self._change(settle, tickets, found, gains, costs, others)
        self.past.remember_labels(tickets, truths)
        if self.journal is not None:
            paid = () if costs is None or all(cost is None for cost in costs) else tuple(costs)
            learnt = tuple(truths), tuple(map(float, gains)), paid, tuple(map(dict, others))
            self._write(events.Labelled(tuple(tickets), *learnt))
        lessons = lessons_of(self.learner.arms, found, notes, truths)
        return Settled(self._forwards(tickets, found, truths), lessons, found)

    def _settle_some(
        self,
        tickets: Sequence[int],
        found: Sequence[Sequence[int]],
        gains: Sequence[float],
        costs: Sequence[float | None] | None,
        others: Sequence[Mapping[str, float]],
    ) -> None:
        """Learn from labels where anything was gained or lost, and take back the choices where nothing was."""
        self.learner.check_different(tickets)
        columns: Any = tickets, found, gains, costs or repeat(None), others or repeat({})
        rows = [row for row in zip(*columns, strict=False) if row[2] == row[2]]
        if rows:
            ids, waited, scored, paid, beside = zip(*rows, strict=True)
            self.learner.settle(ids, waited, scored, paid if costs else None, beside if others else ())
        self.learner.withdraw_many([ticket for ticket, gain in zip(tickets, gains, strict=True) if gain != gain])

    def _forwards(self, tickets: Sequence[int], found: Sequence[Sequence[int]], truths: Sequence[Any]) -> list[Forward]:
        names, first_peer = self.learner.arms.names, len(self.learner.arms.own)
        if first_peer == len(names):
            return []
        always = self.learner.policy.share_labels == "always"
        return [
            FORWARD((names[arm], self.name, ticket, truth, False))
            for ticket, truth, (arm, kind, _) in zip(tickets, truths, found, strict=True)
            if arm >= first_peer and (always or self.promised(arm, kind))
        ]

    # Being a peer

    def report(self, context: Sequence[Any]) -> LabelledData:
        """Return how much labelled data there is around a context as a peer spells it; nothing changes."""
        return self.learner.report(self.understand(context, Codes.find))

    def serve(self, caller: str, questions: Sequence[Question], without: Collection[str] = ()) -> Serving:
        """Choose the local classifiers with which to answer a peer.

        What is answered waits for its label if one will follow. If it was answered before, it no longer waits for that:
        a caller that asks again never got the first answer.
        """
        requests, _, spelled, training, labelled = columns_of(questions, 5)
        contexts = [*map(tuple, spelled)]
        if len({*requests}) < len(requests):
            raise SettingError(f"the requests of caller {caller!r}", [*requests], "all different")
        flags = [*zip(training, labelled, strict=True)]
        before = []  # they are struck, and no other event says so
        if (False, False) in flags and not self.served.is_empty():
            both = zip(requests, flags, strict=True)
            before = self.served_tickets(caller, [request for request, follows in both if not any(follows)])
        serving = self._change(self._serve, caller, requests, contexts, flags, without)
        event = None
        if self.journal is not None and any(serving.tickets):
            columns: Any = requests, serving.tickets, contexts, serving.functions, training
            if not all(serving.tickets):
                columns = zip(*[row for row in zip(*columns, strict=True) if row[1]], strict=True)
            numbers, tickets, places, functions, trained = columns
            event = events.Served(caller, numbers, tickets[0], tuple(places), tuple(functions), trained, tuple(without))
        self._write(events.Withdrawn(tuple(before)) if before else None, event)
        return serving

    def _serve(
        self,
        caller: str,
        requests: Sequence[int],
        contexts: Sequence[tuple[Any, ...]],
        flags: Sequence[tuple[bool, bool]],
        without: Collection[str],
    ) -> Serving:
        learner, codes = self.learner, self.past.codes
        is_spelled = codes or self.past.features is not None
        found = [self.understand(each, Codes.find) for each in contexts] if is_spelled else contexts
        points, out = learner.check_answers(found, caller, requests, without)
        self.strike_served(caller, requests)
        if codes:
            both = zip(contexts, flags, found, strict=True)
            known = [self.understand(each, Codes.code) if any(flag) else point for each, flag, point in both]
            points, _ = learner.check_answers(known, caller, requests, without)
        functions, tickets = learner.memory.answer(points, out, caller, requests, flags)
        self.remember_served(caller, requests, tickets)
        names = learner.arms.names
        return Serving([names[function] for function in functions], tickets, self.forget_overdue())

    def teach(
        self,
        caller: str,
        requests: Sequence[int],
        truths: Sequence[Any],
        gains: Sequence[float],
        others: Sequence[Mapping[str, float]] = (),
    ) -> list[Lesson]:
        """Learn the true labels of items that were answered for a peer, all of which must be awaited."""
        awaited = self.served_tickets(caller, requests)
        for request in requests if len(awaited) < len(requests) else ():
            if self.served.ticket(caller, request) is None:
                sentence = f"site {self.name!r} awaits no label for request {request!r} of caller {caller!r}"
                raise DecisionError(self.name, request, sentence)
        if len(truths) != len(requests):
            raise SettingError("truths", len(truths), f"as many as requests ({len(requests)})")
        tickets, found = self.learner.look_up(awaited)
        notes = self._answers(tickets)
        self._change(self.learner.settle, tickets, found, gains, None, others)
        self.served.forget(tickets)
        if self.journal is not None:
            told = tuple(truths), tuple(map(float, gains)), tuple(map(dict, others))
            self._write(events.Taught(caller, tuple(requests), *told))
        return lessons_of(self.learner.arms, found, notes, truths)
