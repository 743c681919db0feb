"""One batch of items on its way through a site: chosen for, labelled, and chosen for again where an arm has failed.

An arm that fails is a reply for the items it was given, and for no others. They are tried again without it, `retries`
times, the last time among local classifiers only; a peer that does not say how much it knows has failed too. An item
is given up when no arm is left, and then it alone.

A model that says None has no answer: another arm is taken, and nothing has failed. If that leaves none, as it does
before the first label where all models learn, the item waits for its label without an answer, and scores nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import repeat
from typing import TYPE_CHECKING, Any

from cosend.classifiers.adapters import Classifier, predictions
from cosend.classifiers.vote import NEWEST, ballot_of
from cosend.core.kernel.bookkeeping import TRAIN
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.learner import PHASES
from cosend.core.learner.values import AskPeer, LabelledData
from cosend.core.missing import any_missing, is_missing
from cosend.errors import ClassifierError, NetworkError, NoAnswer, StateError, in_one_line
from cosend.site.backoff import NO_ARMS
from cosend.site.messages import SILENT, Call, Decision, Question, Reply, heard, main_reason
from cosend.site.rows import columns_of

if TYPE_CHECKING:
    from cosend.site.site import Site

Replies = list[Reply]


class Tries:
    """Items that are tried with one arm after another. A place is the number of an item."""

    def __init__(self, site: Site, items: Sequence[Any]) -> None:
        self.site, self.items = site, items
        self.tickets = [0] * len(items)  # 0: not chosen for yet, or no label will follow
        self.labels: list[Any] = [None] * len(items)
        self.errors: dict[int, NoAnswer] = {}  # by place: those that were given up
        self.reasons: dict[int, dict[str, str]] = {}  # by place: arms that have failed, and why
        self.failing: list[int] = []  # places to choose for again
        self.uses: list[tuple[str, int]] = []  # arms that have labelled items, and how many
        self.listens = site.listens
        self.said: dict[int, dict[str, Any]] = {}  # by place: what classifiers said that were run beside the arm

    def by_failures(self, places: Iterable[int]) -> dict[frozenset[str], list[int]]:
        """Return the places together that may be chosen for together: the same arms have failed for them."""
        if not self.reasons:
            return {NO_ARMS: list(places)}
        groups: dict[frozenset[str], list[int]] = {}
        for place in places:
            groups.setdefault(frozenset(self.reasons.get(place, ())), []).append(place)
        return groups

    def note_failures(self, arm: str, failed: Iterable[tuple[int, str]]) -> None:
        """Take note of the places for which an arm has failed, and why."""
        for place, reason in failed:
            self.reasons.setdefault(place, {})[arm] = reason
            self.failing.append(place)

    def give_up(self, places: Iterable[int]) -> None:
        """Say of items that no arm is left for them, and why."""
        for place in places:
            self.errors[place] = NoAnswer(self.site.name, self.reasons.get(place, {}))

    def run_beside(self, uses: Mapping[str, Sequence[int]]) -> None:
        """Run local classifiers on items that other arms label; `uses` has the places by arm. Votes come last."""
        site = self.site
        new = {arm: [place for place in places if place not in self.said] for arm, places in uses.items()}
        if not any(new.values()):
            return
        known = {NEWEST: site.rules.past.newest_label} if site.votes else {}
        self.said.update((place, {**known}) for places in new.values() for place in places)
        for name in site.run_beside():
            if name not in site.votes:
                self._listen_to(name, [place for arm, some in new.items() if arm != name for place in some])

    def _listen_to(self, name: str, places: list[int]) -> None:
        """Have a classifier say what it would make of items; where it fails, nothing is known of that."""
        if not places:
            return
        classifier, items = self.site.classifiers[name], self._seen_by(name, places)
        try:
            labels = predictions(name, classifier, items)
        except ClassifierError as error:
            replies = replies_alone(name, classifier, items, error)
            places = [place for place, reply in zip(places, replies, strict=True) if reply.failed is None]
            labels = [reply.label for reply in replies if reply.failed is None]
            if not places:
                self.site.arm_failed(name, str(replies[0].failed))
                return
        for place, label in zip(places, labels, strict=True):
            if not is_missing(label):
                self.said[place][name] = label
        self.site.arm_worked(name)

    def _seen_by(self, arm: str, places: Sequence[int]) -> list[Any]:
        """Return what a classifier sees of items: a vote what the others have said of them."""
        votes = self.site.votes
        if arm not in votes:
            return [self.items[place] for place in places]
        return [ballot_of(votes[arm], self.said[place], votes) for place in places]

    def predict(self, arm: str, places: list[int]) -> None:
        """Let a local classifier label items."""
        classifier, items = self.site.classifiers[arm], self._seen_by(arm, places)
        keeps = self.site.keeps_item(classifier)
        try:
            labels = predictions(arm, classifier, items)
        except ClassifierError as error:
            self.enter(arm, places, replies_alone(arm, classifier, items, error), keeps=keeps)
        else:
            if any_missing(labels):
                self.enter(arm, places, [*map(Reply, labels)], keeps=keeps)
            else:
                self._complete(arm, places, labels, keeps=keeps)

    def enter(self, arm: str, places: list[int], replies: Replies, *, keeps: bool) -> None:
        """Enter what an arm has answered, and take back what it has not."""
        replies = [*map(heard, replies)]
        good = [place for place, reply in zip(places, replies, strict=True) if reply.failed is None]
        if good:
            self._complete(arm, good, [reply.label for reply in replies if reply.failed is None], keeps=keeps)
        if len(good) == len(places):
            return
        bad = [(place, reply.failed) for place, reply in zip(places, replies, strict=True) if reply.failed is not None]
        reason = main_reason(why for _, why in bad)
        if not good and reason != SILENT:
            self.site.arm_failed(arm, reason)
        self._take_back(arm, bad, reason)

    def _complete(self, arm: str, places: list[int], labels: list[Any], *, keeps: bool) -> None:
        """Enter the labels that an arm has given."""
        ids = [self.tickets[place] for place in places]
        items = [copy(self.items[place]) for place in places] if keeps else []
        others = self._others(arm, places, labels) if self.listens else []
        if 0 in ids:
            self.site.rules.complete(*labelled(ids, labels, items, others))
        else:
            self.site.rules.complete(ids, labels, items, others)
        self.site.arm_worked(arm)
        self.uses.append((arm, len(labels)))
        for place, label in zip(places, labels, strict=True):
            self.labels[place] = label

    def _others(self, arm: str, places: list[int], labels: list[Any]) -> list[dict[str, Any]]:
        """Return what classifiers said that were run beside an arm; one chosen later was perhaps among them."""
        self.run_beside({arm: places})
        site = self.site
        if arm in site.classifiers:
            for place, label in zip(places, labels, strict=True):
                if label is not None:
                    self.said[place][arm] = label
        for name in site.run_beside() if site.votes and site.score_local == "all" else ():
            if name in site.votes and name != arm:
                self._listen_to(name, places)
        return [{name: label for name, label in self.said[place].items() if name != arm} for place in places]

    def _take_back(self, arm: str, bad: Sequence[tuple[int, str]], reason: str) -> None:
        """Take back the choices of an arm for which it has failed."""
        ids = [self.tickets[place] for place, _ in bad if self.tickets[place]]
        _, forwards = self.site.rules.fail(ids, arm, reason)
        self.site.post(forwards)
        self.note_failures(arm, bad)


class Deciding(Tries):
    """The items of one call of `classify_many`."""

    def __init__(self, site: Site, items: Sequence[Any], points: Floats) -> None:
        super().__init__(site, items)
        self.points = points
        self.contexts = site.rules.spell_all(points)
        self.made: list[tuple[Any, ...]] = [()] * len(items)  # id, arm, kind, cell, propensity, arrival
        self.again: dict[int, int] = {}  # by place

    def run(self) -> None:
        """Find a label for every item, or say why there is none."""
        retries = self.site.retries
        places: Iterable[int] = range(len(self.items))
        while places:
            for failed, alike in self.by_failures(places).items():
                for tries, together in self._by_tries(alike).items():
                    self._choose(together, failed, local_only=0 < tries == retries)
            failing, self.failing = self.failing, []
            places = [place for place in failing if self._tries(place) <= retries]
            self.give_up(place for place in failing if self._tries(place) > retries)

    def _by_tries(self, places: list[int]) -> dict[int, list[int]]:
        """Return the places together for which as many arms have failed."""
        groups: dict[int, list[int]] = {}
        for place in places if self.reasons else ():
            groups.setdefault(self._tries(place), []).append(place)
        return groups or {0: places}

    def _tries(self, place: int) -> int:
        """Return how many arms have failed for an item; one that has no answer has not."""
        return sum(why != SILENT for why in self.reasons.get(place, {}).values())

    def give_up(self, places: Iterable[int]) -> None:
        """Say of items that no arm is left for them; where classifiers had no answer, the label may still come."""
        for place in places:
            reasons = self.reasons.get(place, {})
            silent = {arm for arm, why in reasons.items() if why == SILENT and arm in self.site.classifiers}
            if silent:
                self._leave_blank(place, silent)
            else:
                super().give_up([place])

    def _leave_blank(self, place: int, silent: set[str]) -> None:
        """Let an item wait for its label without an answer, as one of the classifiers that had none."""
        rules = self.site.rules
        others = frozenset(rules.learner.arms.names) - silent
        step = rules.choose(self.points[[place]], without=others, again=[self.again.get(place, 0)])
        self.site.post(step.forwards)
        arm, rest = step.arms[0], (step.kinds, step.cells, step.propensities, step.arrivals)
        self.made[place], self.tickets[place] = (step.first, arm, *(column[0] for column in rest)), step.first
        self._complete(arm, [place], [None], keeps=self.site.keeps_item(self.site.classifiers[arm]))

    def decisions(self) -> list[Decision]:
        """Return the decisions in the order of the items, all of which have one."""
        return [self.decision(place) for place in range(len(self.items))]

    def decision(self, place: int) -> Decision:
        """Return the decision of an item."""
        ticket, arm, kind, cell, propensity, _ = self.made[place]
        return Decision(ticket, self.labels[place], arm, PHASES[kind], cell, self.contexts[place], propensity)

    def note_failures(self, arm: str, failed: Iterable[tuple[int, str]]) -> None:
        """Take note of the places for which an arm has failed, and that these items were counted before."""
        super().note_failures(arm, failed)
        for place, _ in failed:
            if self.made[place]:  # else it was not chosen for yet: a peer did not say how much it knows
                self.again[place] = self.made[place][-1]  # also if its wait is over

    def _choose(self, places: list[int], failed: frozenset[str], *, local_only: bool) -> None:
        """Choose for items without the arms that failed for them, and let the chosen ones label them."""
        site = self.site
        told: dict[str, LabelledData] = {}
        uses: dict[str, list[int]] = {}
        while places:
            without = site.left_out(failed, local_only=local_only)
            if without is None:
                self.give_up(places)
                break
            again = [self.again.get(place, 0) for place in places] if self.again else []
            points = self.points if len(places) == len(self.items) else self.points[places]
            step = site.rules.choose(points, told=told, without=without, again=again)
            first, arms, *columns, ask, forwards, _ = step
            if forwards:
                site.post(forwards)
            rows = zip(range(first, first + len(arms)), arms, *columns, strict=True)
            for place, row in zip(places, rows, strict=False):
                self.made[place], self.tickets[place] = row, row[0]
                uses.setdefault(row[1], []).append(place)
            places, told = places[len(arms) :], {} if arms else told
            if ask is not None and not self._ask(ask, places[0], told, uses):
                places, told = places[1:], {}  # its next try comes after those of the others
        if self.listens:
            self.run_beside(uses)  # all items at once, which models are faster with
        for arm, numbers in uses.items():
            if arm in site.classifiers:
                self.predict(arm, numbers)
            else:
                self._call(arm, numbers)

    def _ask(self, ask: AskPeer, place: int, told: dict[str, LabelledData], uses: dict[str, list[int]]) -> bool:
        """Ask a peer how much labelled data it has for an item; false if it does not say, which is a failed try.

        It must hear before of the items for which it was chosen already, as it would one by one.
        """
        if ask.peer in uses:
            self._call(ask.peer, uses.pop(ask.peer))
        try:
            peer, context = self.site.peers[ask.peer], ask.context[: len(self.site.rules.given)]
            of_item = getattr(peer, "report_of", None)  # of one that may describe items in another way
            known = self.items[place], context, self.site.rules.named
            report = peer.report(context) if of_item is None else of_item(*known)
            self.site.learner.check_told({ask.peer: report})
            told[ask.peer] = report
        except Exception as error:  # whatever keeps a peer from answering
            reason = in_one_line(error)
            self.site.rules.fail([], ask.peer, reason)
            self.site.arm_failed(ask.peer, reason)
            self.note_failures(ask.peer, [(place, reason)])
            return False
        return True

    def _call(self, peer: str, places: list[int]) -> None:
        """Have a peer label items."""
        always = self.site.rules.learner.policy.share_labels == "always"
        questions = []
        for place in places:
            ticket, _, kind, *_ = self.made[place]
            training = kind == TRAIN
            context = self.contexts[place][: len(self.site.rules.given)]
            questions.append(Question(ticket, self.items[place], context, training, training or always))
        call = Call(peer, self.site.name, questions, self.site.rules.named)
        replies = called(lambda: self.site.peers[peer].serve(call), len(questions))
        self.enter(peer, places, replies, keeps=self.site.keeps_item(None))


class Answering(Tries):
    """The questions of one call of a peer, answered by local classifiers."""

    def __init__(self, site: Site, caller: str, questions: Sequence[Question]) -> None:
        super().__init__(site, columns_of(questions, 5)[1])
        self.caller, self.questions = caller, questions

    def run(self) -> Replies:
        """Find a label for every question, or say why there is none; on Ctrl-C, nothing waits for a label."""
        places: Iterable[int] = range(len(self.questions))
        try:
            while places:
                for failed, together in self.by_failures(places).items():
                    without = self.site.left_out(failed, local_only=True)
                    if without is None:
                        self.give_up(together)
                    else:
                        self._serve(together, without)
                places, self.failing = self.failing, []
        except BaseException:
            self._abandon()
            raise
        return [self._reply(place) for place in range(len(self.questions))]

    def _reply(self, place: int) -> Reply:
        error = self.errors.get(place)
        return Reply(self.labels[place], None if error is None else str(error))

    def _abandon(self) -> None:
        """Take back what was answered: nobody was told. A journal that is behind rules that out."""
        rules = self.site.rules
        with suppress(StateError):
            tickets = rules.served_tickets(self.caller, [question.request for question in self.questions])
            self.site.post(rules.withdraw(tickets))

    def _serve(self, places: list[int], without: frozenset[str]) -> None:
        rules = self.site.rules
        serving = rules.serve(self.caller, [self.questions[place] for place in places], without)
        self.site.post(serving.forwards)
        uses: dict[str, list[int]] = {}
        for place, function, ticket in zip(places, serving.functions, serving.tickets, strict=True):
            self.tickets[place] = ticket
            uses.setdefault(function, []).append(place)
        if self.listens:
            self.run_beside(uses)
        for function, together in uses.items():
            self.predict(function, together)


def labelled(ids: list[int], *columns: list[Any]) -> list[list[Any]]:
    """Return ids, and what belongs to them, without those for which no label will follow."""
    return [[value for ticket, value in zip(ids, column, strict=False) if ticket] for column in (ids, *columns)]


def said_by(site: Site, arm: str, items: Sequence[Any]) -> list[Any]:
    """Return what a local classifier says of items: nothing is decided, learnt or remembered.

    A vote hears the others, and says None where nobody has said anything.
    """
    if arm not in site.votes:
        return predictions(arm, site.classifiers[arm], items)
    return [
        predictions(arm, site.votes[arm], [ballot])[0] if any(said is not None for said in ballot.values()) else None
        for ballot in _ballots(site, arm, items)
    ]


def _ballots(site: Site, vote: str, items: Sequence[Any]) -> list[Any]:
    """Return what a vote sees of items that are not decided for."""
    said: list[dict[str, Any]] = [{NEWEST: site.rules.past.newest_label} for _ in items]
    for name in site.run_beside():
        if name not in site.votes:
            for row, reply in zip(said, replies_of(name, site.classifiers[name], items), strict=True):
                row.update({name: reply.label} if reply.failed is None else {})
    return [ballot_of(site.votes[vote], row, site.votes) for row in said]


def replies_of(name: str, classifier: Classifier, items: Sequence[Any]) -> Replies:
    """Return what a classifier says of items; if it fails on all of them together, each gets a chance of its own."""
    try:
        return list(map(Reply, predictions(name, classifier, items), repeat(None)))
    except ClassifierError as error:
        return replies_alone(name, classifier, items, error)


def replies_alone(name: str, classifier: Classifier, items: Sequence[Any], error: ClassifierError) -> Replies:
    """Return what a classifier says of each item alone, after it has failed on all of them together."""
    if len(items) == 1:
        return [Reply(None, str(error))]
    return [reply for item in items for reply in replies_of(name, classifier, [item])]


def called(call: Callable[[], Any], count: int) -> Replies:
    """Return what a peer answers; whatever keeps it from answering is a failed reply to every question."""
    try:
        replies = call()
        if not isinstance(replies, list) or not all(isinstance(reply, Reply) for reply in replies):
            raise NetworkError("it must give a list of replies")
        if len(replies) != count:
            raise NetworkError(f"it gave {len(replies)} replies to {count} questions")
    except Exception as error:  # of the peer, of the way to it, or of what it sent
        return [Reply(None, in_one_line(error))] * count
    return replies
