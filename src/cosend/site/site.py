"""A site: its rules, driven here and now, with its own models and with peers that are reached directly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cosend.alone import NETWORK, one_at_a_time
from cosend.classifiers.adapters import Classifier, as_classifier, plain, teach
from cosend.classifiers.vote import Vote, votes_among
from cosend.core.checks import as_list, check_callable, check_one_of, check_whole
from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import LabelledData, ScoreLocal
from cosend.core.missing import any_missing, is_missing
from cosend.core.policy.parts import Policy
from cosend.errors import (
    CosendError,
    NetworkError,
    SettingError,
    SomeUnanswered,
    StateError,
)
from cosend.site.backoff import Backoff
from cosend.site.batch import Answering, Deciding
from cosend.site.checks import check_models, check_vote
from cosend.site.context import Axis, Column, as_axes, read_columns
from cosend.site.events import Journal
from cosend.site.features import features_in, warn_of_no_names, watches
from cosend.site.items import as_rows, check_one
from cosend.site.kept import Kept
from cosend.site.label_check import LabelCheck, all_labels
from cosend.site.lessons import LearnsFrom, taught_by
from cosend.site.messages import Call, Decision, Forward, Lesson, Open, Peer, Reply
from cosend.site.outbox import Outbox
from cosend.site.rewards import gains_of, other_gains, right_or_wrong
from cosend.site.rules import Rules
from cosend.site.summary import Tallied, Tally
from cosend.site.transition import in_short
from cosend.site.trusting import Trusting


class Site(Kept, Trusting, Tallied):
    """Decides for every item which local classifier or peer labels it, and learns from the truth which was best.

    classifiers    name -> scikit-learn or river model, or a function from item to label
    context        none: every feature of the items is looked at; or one axis or several, for example
                   `Context("duration", scale="log")`, and `Context.features()` for every feature too
    policy         how it decides; `MixedViews(max_cells=200_000)` unless given
    costs          name -> cost of using a local classifier in [0, 1]; 0 unless given
    reward         (label, truth) -> gain in [0, 1]; right or wrong unless given
    patience       how long it waits for labels; for ever unless given
    retries        how many further tries an item gets when an arm has failed, the last one among local classifiers
    strict_labels  refuse a true label that no arm could have given; else it is a warning, once
    score_local    which classifiers a label scores: the arm that was "used", or "all": those that cost nothing are run
                   on every item, as they are for a `Vote` among them. Unless given, "used" if a policy is, else "all"
    learns_from    which labels a model that learns gets: "all" at this site, or those of items that it was "used" for
    journal        what its events are written to, for example `list.append`; `fold` makes its state of them

    Several threads may use it: they take turns, and so do those of all sites that have peers, because these call each
    other. A model is asked within such a turn.
    """

    def __init__(
        self,
        name: str,
        *,
        classifiers: Mapping[str, Any],
        context: Axis | Sequence[Axis] | None = None,
        policy: Policy | None = None,
        costs: Mapping[str, float] | None = None,
        reward: Callable[[Any, Any], float] = right_or_wrong,
        patience: Patience | None = None,
        seed: int = 0,
        retries: int = 3,
        strict_labels: bool = False,
        learns_from: LearnsFrom = "all",
        score_local: ScoreLocal | None = None,
        journal: Journal | None = None,
    ) -> None:
        costs = {} if costs is None else costs
        check_models(name, classifiers, costs)
        check_callable(f"the reward of site {name!r}", reward, "a function (label, truth) -> gain in [0, 1]")
        check_whole("retries", retries, least=0)
        check_one_of("learns_from", learns_from, ("used", "all"))
        if journal is not None:
            check_callable("journal", journal, "a function that takes an event, for example log.append")
        self.name, self.reward, self.retries = name, reward, retries
        self.learns_from = learns_from
        self._labels = LabelCheck(name, strict=strict_labels)
        self.axes: tuple[Axis, ...] = as_axes(name, context)
        self.classifiers: dict[str, Classifier] = {arm: as_classifier(model) for arm, model in classifiers.items()}
        self.peers: dict[str, Peer] = {}
        self.outbox = Outbox()
        local = {arm: costs.get(arm, 0.0) for arm in classifiers}
        choosing: dict[str, Any] = {"policy": policy, "patience": patience, "seed": seed, "score_local": score_local}
        self.rules = Rules(name, local=local, axes=self.axes, journal=journal, **choosing)
        self.guard_by(self.learner.alone)
        self._look_at_classifiers()
        self._backoff = Backoff()
        self.tally = Tally()
        self._warns_of_no_names = watches(self.axes)
        self._items = 0  # that came or were answered for peers

    def __repr__(self) -> str:
        return f"<Site {self.name!r}: {in_short(len(self.classifiers), len(self.peers), self.learner)}>"

    @property
    def learner(self) -> Learner:
        """The rules of its choices, and what they have learnt."""
        return self.rules.learner

    @property
    def score_local(self) -> ScoreLocal:
        """Which classifiers a label scores."""
        return self.learner.score_local

    @property
    def listens(self) -> bool:
        """Whether classifiers are run beside the arm, to be scored or for a vote."""
        return bool(self.votes) or self.rules.learner.score_local == "all"

    @property
    @one_at_a_time
    def open(self) -> dict[int, Open]:
        """What waits for its label, by id."""
        return self.rules.open()

    # What a user calls

    @one_at_a_time
    def classify(self, item: Any) -> Decision:
        """Label an item with a local classifier or by a peer.

        Its features are read by name: of a mapping, a row of pandas, a named tuple, a dataclass, or a row of a NumPy
        array with named fields. A function that is a classifier gets the item as it is.
        """
        if type(item) is not dict:
            check_one(item)
        (batch,) = self._decided([item], self._read([item]))
        if batch.errors:
            raise batch.errors[0]
        return batch.decision(0)

    @one_at_a_time
    def classify_many(self, items: Any) -> list[Decision]:
        """Label many items at once, with the same result as one by one as long as no arm fails.

        `items` may be a list, a DataFrame, or a NumPy array with named fields. If no arm can label some of them,
        `SomeUnanswered` is raised when all others have their decisions, and has these.
        """
        rows = as_rows(f"the items for site {self.name!r}", items)
        columns = self._read(rows)
        if not rows:
            return []
        if len(rows) > 1 and any(
            site.may_drop(len(rows)) for site in (self, *self.peers.values()) if isinstance(site, Site)
        ):
            # What becomes overdue here or at a peer is told around before the next item, as it would be one by one.
            parts = [([row], [column[n : n + 1] for column in columns]) for n, row in enumerate(rows)]
        else:
            parts = [(rows, columns)]
        first = self.learner.last_id + 1
        try:
            batches = [batch for part in parts for batch in self._decided(*part)]
        except BaseException:
            self._abandon(first)
            raise
        if not any(batch.errors for batch in batches):
            return [decision for batch in batches for decision in batch.decisions()]
        raise self._some_unanswered(batches)

    def _read(self, items: Sequence[Any]) -> list[Column]:
        """Return what the axes read off items; if every feature is looked at, say once that an item has none."""
        columns = read_columns(self.axes, items)
        if self._warns_of_no_names and warn_of_no_names(self.name, items, features_in(columns)):
            self._warns_of_no_names = False
        return columns

    def _decided(self, items: Sequence[Any], columns: Sequence[Column]) -> list[Deciding]:
        """Decide for items; whatever interrupts this, Ctrl-C too, leaves nothing behind that nobody knows of."""
        first = self.learner.last_id + 1
        batches: list[Deciding] = []
        self._items += len(items)
        if self.outbox:
            self.post(())  # a peer that cannot be told anything yet is not called either
        try:
            for start, points in self.rules.placed(columns, len(items)):
                batches.append(Deciding(self, items[start : start + len(points)], points))
                batches[-1].run()
        except BaseException:
            self._abandon(first)
            raise
        for batch in batches:
            self.tally.decided(batch.uses)
        return batches

    def _abandon(self, first: int) -> None:
        """Take back all decisions from an id on: nobody was told of them. A journal that is behind rules that out."""
        own = [ticket for ticket, entry in self.open.items() if ticket >= first and entry.caller is None]
        with suppress(StateError):
            self.post(self.rules.withdraw(own))

    def _some_unanswered(self, batches: Sequence[Deciding]) -> SomeUnanswered:
        decisions: list[Decision | None] = []
        errors = {}
        for batch in batches:
            errors.update({len(decisions) + place: error for place, error in batch.errors.items()})
            decisions += [None if n in batch.errors else batch.decision(n) for n in range(len(batch.items))]
        return SomeUnanswered(self.name, decisions, dict(sorted(errors.items())))

    def learn(self, decision: int | Decision, truth: Any, cost: float | None = None) -> None:
        """Learn the true label of an item; `cost` is what the decision really cost, if that was not known before.

        None, NaN, NaT and `pd.NA` are no label: it is missing, and the decision goes on waiting.
        """
        self.learn_many([decision], [truth], None if cost is None else [cost])

    @one_at_a_time
    def learn_many(
        self,
        decisions: Iterable[int | Decision],
        truths: Iterable[Any],
        costs: Iterable[float | None] | None = None,
    ) -> int:
        """Learn many true labels at once, with the same result as one by one; decisions by themselves or by id.

        Returns how many of them are missing, as `learn` has it: these decisions go on waiting. If a model fails to
        learn, all labels are settled and passed on before the first failure is raised.
        """
        given = as_list("decisions", decisions, "a list of ids")
        ids = [each.id if isinstance(each, Decision) else each for each in given]
        truths = [plain(truth) for truth in as_list("truths", truths, "a list of labels")]
        costs = None if costs is None else as_list("costs", costs, "a list of costs, or None")
        if len(truths) != len(ids):
            raise SettingError("truths", len(truths), f"as many as decisions ({len(ids)})")
        labels = self.rules.labels_of(ids)
        missing = [*map(is_missing, truths)] if any_missing(truths) else []
        if missing:
            if costs is not None and len(costs) != len(ids):
                raise SettingError("costs", len(costs), f"as many as decisions ({len(ids)})")
            known = [n for n, is_out in enumerate(missing) if not is_out]
            ids, labels, truths = [[column[n] for n in known] for column in (ids, labels, truths)]
            costs = None if costs is None else [costs[n] for n in known]
            if not known:
                return len(missing)
        for axis in self.axes:
            axis.check_labels(truths)
        gains, others = self._gains(ids, labels, truths)
        if self.reward is right_or_wrong:  # else labels need not be compared with what arms say
            self._labels.check(truths, None if self.peers else self._known_labels, self.rules.past)
        settled = self.rules.settle(ids, truths, gains, costs, others)
        self.tally.learnt(self.learner.arms, settled.found, gains, costs)
        if settled.forwards or settled.lessons:
            self.outbox.add(settled.forwards)  # so that they are not lost if Ctrl-C comes while a model learns
            for error in [*self._let_models_learn(settled.lessons), *self.post(())]:
                raise error
        return sum(missing)

    @one_at_a_time
    def may_drop(self, items: int) -> bool:
        """Tell whether anything here could become overdue while so many items come or are answered."""
        return self.learner.registry.may_overflow(items, self.learner.arrivals)

    @one_at_a_time
    def waits(self, decision: int | Decision) -> bool:
        """Tell whether a decision waits for its label."""
        return (decision.id if isinstance(decision, Decision) else decision) in self.learner.registry

    # Arms that join and leave, pause and resume

    @one_at_a_time
    def add_classifier(self, name: str, model: Any, cost: float = 0.0) -> None:
        """Add a local classifier; a vote begins anew."""
        classifier = Vote(over=model.over) if isinstance(model, Vote) else as_classifier(model)
        check_vote(self.name, name, classifier, self.classifiers)
        self.learner.arms.check_new(name, cost)
        self.classifiers[name] = classifier  # first: whatever can be chosen must be there, also after Ctrl-C
        self._look_at_classifiers()
        self.rules.add_local(name, cost)

    def add_peer(self, name: str, peer: Peer, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that announces this many classifiers. From now on, all sites that have peers share a lock."""
        if name == self.name:
            raise NetworkError(f"site {name!r} cannot be its own peer")
        for verb in ("report", "serve", "teach"):
            check_callable(f"{verb} of peer {name!r}", getattr(peer, verb, None), "a method of the peer, as of a Site")
        with NETWORK.lock, self.alone.lock:
            self.learner.arms.check_new(name, cost, functions)
            self.guard_by(NETWORK)
            self.peers[name] = peer  # first, for the same reason
            self.rules.add_peer(name, cost, functions)

    @one_at_a_time
    def remove(self, name: str) -> None:
        """Remove a local classifier or a peer; decisions that wait for its reward are dropped, and answers to it."""
        forwards = self.rules.remove(name)
        self.classifiers.pop(name, None)
        self._look_at_classifiers()
        self.post(forwards)
        self.peers.pop(name, None)
        self.outbox.forget(name)
        self._backoff.worked(name)  # a new arm of that name starts afresh

    @one_at_a_time
    def set_cost(self, arm: str, cost: float) -> None:
        """Change the cost of a local classifier or of calling a peer, from now on."""
        self.rules.set_cost(arm, cost)

    @one_at_a_time
    def pause(self, arm: str) -> None:
        """Use a local classifier or a peer no longer until `resume`; what was learnt of it is kept."""
        self.rules.pause(arm)

    @one_at_a_time
    def resume(self, arm: str) -> None:
        """Let a local classifier or a peer be used again, with what was known of it."""
        self.rules.resume(arm)

    @one_at_a_time
    def resting(self) -> dict[str, str]:
        """Return the arms that have failed and are left alone for a while, and why each failed the last time."""
        return {arm: self._backoff.reason(arm) for arm in self._backoff.resting(self._items)}

    # Being a peer

    @one_at_a_time
    def report(self, context: tuple[Any, ...]) -> LabelledData:
        """Return how much labelled data there is around a context."""
        return self.rules.report(context)

    @one_at_a_time
    def report_of(self, item: Any, context: tuple[Any, ...], axes: tuple[str, ...]) -> LabelledData:
        """Return how much labelled data there is around an item of a peer, whose axes have these names."""
        return self.rules.report_of(item, context, axes)

    @one_at_a_time
    def serve(self, call: Call) -> list[Reply]:
        """Answer a peer's call with local classifiers; one that fails is replaced by another."""
        questions = call.questions
        if len(questions) > 1 and (self.rules.watches_peers or self.may_drop(len(questions))):
            return [reply for question in questions for reply in self.serve(call._replace(questions=[question]))]
        self._items += len(questions)
        return Answering(self, call.caller, self.rules.described(call)).run()

    @one_at_a_time
    def teach(self, forward: Forward) -> None:
        """Take the true label of an item that was answered for a peer; one that waits no longer changes nothing."""
        ticket = self.rules.served.ticket(forward.caller, forward.request)
        if ticket is None:
            return
        note = self.learner.registry.notes.get(ticket)
        if forward.withdrawn or note is None or is_missing(forward.truth):  # there is nothing to learn from
            self.rules.withdraw([ticket])
            return
        try:
            gains, others = self._gains([ticket], [note[0]], [forward.truth])
        except CosendError:
            self.rules.withdraw([ticket])  # nothing can be learnt from this label, and there will be no other
            raise
        lessons = self.rules.teach(forward.caller, [forward.request], [forward.truth], gains, others)
        for error in self._let_models_learn(lessons):
            raise error

    # What a batch needs of its site

    def left_out(self, failed: frozenset[str], *, local_only: bool) -> frozenset[str] | None:
        """Return the arms that may not be chosen: those that failed, and those that are left alone for a while.

        What is left alone is tried all the same if nothing else is left. None: there is no arm at all.
        """
        arms, resting = self.learner.arms, self._backoff.resting(self._items)
        if not failed and not resting and not local_only and not arms.paused:
            return failed
        failed = failed.union(arms.peers) if local_only else failed
        usable = set(arms.names) - arms.paused - failed
        if not usable:
            return None
        return (failed | resting if usable - resting else failed) & set(arms.names)

    def keeps_item(self, used: Classifier | None) -> bool:
        """Tell whether an item is kept until its label comes: for the model that was used, or for all that learn."""
        return bool(self._learning) if self.learns_from == "all" else used in self._learning

    def run_beside(self) -> list[str]:
        """Return the classifiers that are run on every item beside its arm, to be scored or for a vote.

        They cost nothing, or a vote names them, and they work.
        """
        arms, resting = self.learner.arms, self._backoff.resting(self._items)
        named = {name for vote in self.votes.values() for name in vote.over or ()}
        wanted = [name for name, cost in arms.own.items() if not cost or name in named]
        return [name for name in wanted if name not in resting | arms.paused]

    def arm_worked(self, arm: str) -> None:
        """Take note that an arm has answered."""
        self._backoff.worked(arm)

    def arm_failed(self, arm: str, reason: str) -> None:
        """Take note that an arm has failed, and why, and leave it alone for a while."""
        self._backoff.failed(arm, self._items, reason)

    def post(self, forwards: Sequence[Forward]) -> list[CosendError]:
        """Tell peers what they are to be told. What cannot be delivered is kept and tried again with the next.

        Returns what went wrong at peers that were told.
        """
        self.outbox.add(forwards)
        if not self.outbox:
            return []
        return self.outbox.deliver(self.peers, self._backoff.resting(self._items), self.arm_failed)

    def _gains(
        self, ids: Sequence[int], labels: Sequence[Any], truths: Sequence[Any]
    ) -> tuple[list[float], list[dict[str, float]]]:
        """Return what the labels of arms gain, and those of classifiers that were run to be scored."""

        def where(place: int) -> str:
            return f"decision {ids[place]} of site {self.name!r}"

        gains = gains_of(self.reward, labels, truths, where)
        others = self.rules.others_of(ids)
        return gains, other_gains(self.reward, others, truths, where) if others else []

    def _let_models_learn(self, lessons: Sequence[Lesson]) -> list[CosendError]:
        """Let models learn, all of them, and return what went wrong."""
        errors: list[CosendError] = []
        for lesson in lessons:
            for name, seen in taught_by(lesson, self.classifiers, self.learns_from):
                try:
                    teach(name, self.classifiers[name], seen, lesson.truth)
                except CosendError as error:
                    errors.append(error)
        return errors

    def _look_at_classifiers(self) -> None:
        self._known_labels = all_labels(self.classifiers)
        self.votes: dict[str, Vote] = votes_among(self.classifiers)
        self._learning = [each for each in self.classifiers.values() if each.learns and not isinstance(each, Vote)]
