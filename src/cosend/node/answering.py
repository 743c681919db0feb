"""What a running site does for its peers: label items, tell how much labelled data it has, and take labels.

Items whose label will follow are on the disk before they are answered, and labels before they are acknowledged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from cosend.core.learner.values import LabelledData
from cosend.errors import ContextError, CosendError, NoAnswer, Unavailable
from cosend.links.link import Answered, Context
from cosend.node.deciding import NONE, copies
from cosend.node.labels import are_labels, is_label, kind_of, replies_of
from cosend.node.workers import Answers, Replies
from cosend.site.features import EVERY_FEATURE
from cosend.site.messages import REPLY, Call, Forward, Question, Reply, main_reason
from cosend.site.rewards import a_label, gains_of, other_gains
from cosend.site.rows import Rows, columns_of

LATEST_S: Final = 600.0
MOST_WITHDRAWN: Final = 100_000

if TYPE_CHECKING:
    from cosend.node.node import Node


class Answering:
    """Answers the peers of a node, which may be made anew from its log meanwhile."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._withdrawn: dict[tuple[str, int], float] = {}  # by caller and request: when; it was not known then

    async def call(self, call: Call) -> Answered:
        """Label items with local classifiers."""
        self._check()
        with self.node.deciding.whole_changes():
            return await self._call(call)

    async def _call(self, call: Call) -> Answered:
        node = self.node
        questions, unfit = self._described(call)
        answer = _Answer(node, call.caller, questions)
        answer.errors.update(self._withdrawn_before(call) | unfit)
        try:
            await answer.run()
            if not answer.deciding.is_open:  # the disk has failed meanwhile: what models said was not taken
                raise Unavailable(f"site {node.setup.name!r} had to start again from its log")
            reports = []
            _, _, contexts, training, _ = columns_of(answer.questions, 5)
            if any(training) and not unfit:
                reports = [node.rules.report(context) for context in contexts]
            if any(answer.tickets):
                await node.commits.done()
        except BaseException:
            answer.abandon()
            raise
        node.counts.served[call.caller] += len(call.questions)
        return Answered(answer.replies(), reports)

    def _described(self, call: Call) -> tuple[Sequence[Question], dict[int, str]]:
        """Return questions as this site describes items, and by place why it cannot; raises if it can do none."""
        rules = self.node.rules
        try:
            return rules.described(call), {}
        except ContextError:
            questions, unfit = [*call.questions], dict[int, str]()
            for place, question in enumerate(call.questions):
                try:
                    (questions[place],) = rules.described(call._replace(questions=[question]))
                except ContextError as error:
                    unfit[place] = str(error)
            if len(unfit) == len(questions):
                raise
            return questions, unfit

    def _withdrawn_before(self, call: Call) -> dict[int, str]:
        """Return the places of requests that were withdrawn before they came, with the reason not to answer them.

        Those that went along are answered.
        """
        if not self._withdrawn:
            return {}
        found = [
            place
            for place, question in enumerate(call.questions)
            if self._withdrawn.pop((call.caller, question.request), None) is not None
        ]
        return dict.fromkeys(found, f"it was withdrawn by {call.caller!r} before it came")

    async def report(self, caller: str, contexts: Sequence[Context]) -> list[LabelledData]:
        """Tell how much labelled data there is around contexts, on the axes that the caller announces."""
        self._check()
        told = None if self.node.link is None else self.node.link.peers().get(caller)
        rules = self.node.rules
        axes = rules.named if told is None else told.context
        axes = axes[:-1] if axes and axes[-1].startswith(EVERY_FEATURE) else axes
        return [rules.report_of(None, context, axes) for context in contexts]

    async def post(self, caller: str, forwards: Sequence[Forward]) -> None:
        """Take labels, or that there will be none; what is not awaited any more was taken before."""
        self._check()
        with self.node.deciding.whole_changes():
            self._take(caller, forwards)
        await self.node.commits.done()

    def _take(self, caller: str, forwards: Sequence[Forward]) -> None:
        node = self.node
        tickets, notes = node.rules.served.of(caller), node.rules.learner.registry.notes
        gone = []
        truths: dict[int, Any] = {}  # by request
        _, _, requests, labels, ends = columns_of(forwards, 5)
        for request, truth, withdrawn in zip(requests, labels, ends, strict=True):
            ticket = tickets.get(request)
            if ticket is None:
                if withdrawn:
                    self._withdrawn[caller, request] = time.monotonic()
            elif withdrawn or ticket not in notes:  # without an answer there is nothing to learn from
                gone.append(ticket)
            else:
                truths.setdefault(request, truth)
        gone += self._teach(caller, truths)
        if gone:
            node.rules.withdraw(list(dict.fromkeys(gone)))
        self._forget_withdrawn()

    def _forget_withdrawn(self) -> None:
        """Forget what was withdrawn long ago: until then, a call may still come over a connection that was slow."""
        since = time.monotonic() - LATEST_S
        for key in [*islice(self._withdrawn, max(2, len(self._withdrawn) - MOST_WITHDRAWN))]:  # the oldest are first
            if self._withdrawn[key] < since or len(self._withdrawn) > MOST_WITHDRAWN:
                del self._withdrawn[key]

    def _teach(self, caller: str, truths: dict[int, Any]) -> list[int]:
        """Learn labels, by request; returns the tickets of those from which nothing can be learnt."""
        node, tickets = self.node, self.node.rules.served.of(caller)
        gone = list[int]()
        if not are_labels([*truths.values()]):  # a peer may say anything
            gone += [tickets[request] for request, truth in truths.items() if not is_label(truth)]
            truths = {request: truth for request, truth in truths.items() if is_label(truth)}
        good = truths
        try:
            gains, others = self._gains([tickets[request] for request in good], [*good.values()])
        except CosendError:  # one of them is bad: find out which
            good, gains, others = {}, [], []
            for request, truth in truths.items():
                try:
                    gain, scored = self._gains([tickets[request]], [truth])
                except CosendError:
                    gone.append(tickets[request])
                else:
                    good, gains, others = {**good, request: truth}, gains + gain, others + (scored or [{}])
        if good:
            lessons = node.rules.teach(caller, [*good], [*good.values()], gains, others if any(others) else [])
            node.deciding.teach(lessons)
            node.counts.taught[caller] += len(good)
        return gone

    def _gains(self, tickets: list[int], truths: list[Any]) -> tuple[list[float], list[dict[str, float]]]:
        """Return what answers gain now that the truth is known, and what classifiers gain that were run beside them."""
        notes, reward = self.node.rules.learner.registry.notes, self.node.setup.reward
        gains = gains_of(reward, [notes[ticket][0] for ticket in tickets], truths, a_label)
        return gains, other_gains(reward, self.node.rules.others_of(tickets), truths, a_label)

    def _check(self) -> None:
        self.node.check_ready()


class _Answer:
    """The questions of one call, tried with one local classifier after another."""

    def __init__(self, node: Node, caller: str, questions: Sequence[Question]) -> None:
        self.rules, self.deciding, self.commits = node.rules, node.deciding, node.commits
        self.caller, self.questions = caller, questions
        self.items: Sequence[Any] = columns_of(questions, 5)[1]
        self.tickets = [0] * len(questions)  # 0: no label will follow
        self.labels: list[Any] = [None] * len(questions)
        self.reasons: dict[int, dict[str, str]] = {}  # by place: classifiers that have failed, and why
        self.errors: dict[int, str] = {}  # by place: why there is no answer

    async def run(self) -> None:
        """Find a label for every question, or say why there is none."""
        places: Sequence[int] = [place for place in range(len(self.questions)) if place not in self.errors]
        while places:
            self._failing: list[int] = []
            uses: dict[str, list[int]] = {}
            for failed, together in self._by_failures(places).items():
                self._choose(failed, together, uses)
            for done in [self._predict(function, together) for function, together in uses.items()]:
                await done
            places = sorted(self._failing)  # parts of them may have failed in any order

    def replies(self) -> Sequence[Reply]:
        """Return a reply for each question."""
        if not self.errors:
            return Rows(REPLY, self.labels, [None] * len(self.labels))
        return [Reply(label, self.errors.get(place)) for place, label in enumerate(self.labels)]

    def abandon(self) -> None:
        """Take back what was answered: nobody was told."""
        if self.deciding.is_open:
            self.rules.withdraw([ticket for ticket in self.tickets if ticket])

    def _by_failures(self, places: Sequence[int]) -> Mapping[frozenset[str], Sequence[int]]:
        if not self.reasons:
            return {NONE: places}
        groups: dict[frozenset[str], list[int]] = {}
        for place in places:
            groups.setdefault(frozenset(self.reasons.get(place, ())), []).append(place)
        return groups

    def _choose(self, failed: frozenset[str], places: Sequence[int], uses: dict[str, list[int]]) -> None:
        without = self.deciding.left_out(failed, local_only=True)
        if without is None:
            for place in places:
                self.errors[place] = str(NoAnswer(self.rules.name, self.reasons.get(place, {})))
                self.tickets[place] = 0
            return
        whole = len(places) == len(self.questions)
        questions = self.questions if whole else [self.questions[place] for place in places]
        serving = self.rules.serve(self.caller, questions, without)
        self.deciding.post(serving.forwards)
        if whole and len({*serving.functions}) == 1:  # mostly, and then there is nothing to sort
            self.tickets, uses[serving.functions[0]] = serving.tickets, [*places]
            return
        for place, function, ticket in zip(places, serving.functions, serving.tickets, strict=True):
            self.tickets[place] = ticket
            uses.setdefault(function, []).append(place)

    def _predict(self, function: str, places: list[int]) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left = len(places)

        def then(start: int, end: int, answers: Answers) -> None:
            nonlocal left
            left -= end - start
            try:
                if self.deciding.is_open and not done.cancelled():
                    self._enter(function, places[start:end], answers)
            finally:
                if not left and not done.done():
                    done.set_result(None)

        ids, items = self.tickets, self.items
        if len(places) < len(items):
            ids, items = [ids[place] for place in places], [items[place] for place in places]
        self.deciding.beside.label(function, ids, items, then)
        return done

    def _enter(self, function: str, places: list[int], answers: Answers) -> None:
        """Enter what a classifier has answered, and take back what it has not."""
        if not isinstance(answers, Replies) and are_labels(answers):
            self._enter_labels(function, places, answers)
            return
        good, bad = list[int](), list[int]()
        for place, (label, failed) in zip(places, replies_of(function, answers), strict=True):
            (good if failed is None else bad).append(place)
            self.labels[place] = label
            if failed is not None:
                self.reasons.setdefault(place, {})[function] = failed
        if good:
            self._enter_labels(function, good, [self.labels[place] for place in good])
        if bad:
            self._take_back(function, bad, answers, worked=bool(good))

    def _enter_labels(self, function: str, places: list[int], labels: list[Any]) -> None:
        for place, label in zip(places, labels, strict=True):
            self.labels[place] = label
        kept = [place for place in places if self.tickets[place]] if any(self.tickets) else []
        if kept:
            items = copies([self.items[n] for n in kept]) if self.deciding.keeps(function) else []
            ids = [self.tickets[n] for n in kept]
            self.rules.complete(ids, [self.labels[n] for n in kept], items, self.deciding.beside.said(ids))
        self.deciding.worked(function)

    def _take_back(self, function: str, bad: list[int], answers: Answers, *, worked: bool) -> None:
        ids = [self.tickets[place] for place in bad if self.tickets[place]]
        reason = main_reason(self.reasons[place][function] for place in bad)
        again = self.deciding.take_back(function, ids, reason, kind_of(answers), worked=worked)
        for place in bad:
            if self.tickets[place] and self.tickets[place] not in again:  # its caller has withdrawn it
                self.errors[place] = self.reasons[place][function]
                self.tickets[place] = 0
            else:
                self._failing.append(place)
