"""The engine of a site: everything that happens to an item, without input, output or clock.

    submit    items come in          -> local models that cost nothing are asked for their opinions first
    heard     opinions come in       -> an arm is chosen; an opinion that is there is the answer
    answered  an arm has answered    -> the item is done; if it failed, another arm is chosen, or the item is given up
    reported  a peer has told how much labelled data it has
    asked     a peer's questions come in, answered by local models the same way
    learn     true labels or scores come in   -> models learn from labels, peers are told
    taught    true labels or scores from a peer for what was answered for it
    fitted    trees of a learnt arm are fitted
    tick      time has passed        -> opinions that are late are no longer waited for

Each verb changes the state, writes its events, and leaves needs: run this model, call that peer, tell it this, train
that model, these items are done. `take` hands them out; the driver of the engine executes them, now or later, and
reports back with the need itself. So nothing here waits, and any number of items can be in flight.

A free model that fails, says nothing, or is late has no opinion on the item, which cannot use it. If a chosen
arm fails, the item gets up to `retries` further tries, each without what has failed for it, the last one among local
models; after a peer was too late, no further peer is asked. An item is given up when no arm is left. If local models
had no answer, for example before the first label of models that learn, the item waits for its label without one.
Arms that the site learns itself do not hide that a model has failed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from itertools import islice
from operator import eq
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from cosend.algorithm.boosting import Trees
from cosend.algorithm.layout import TRAIN, Floats
from cosend.algorithm.learner import NOBODY, PHASES
from cosend.algorithm.values import LabelledData
from cosend.axes import Column, FromFunction
from cosend.checks import NEVER_MISSING, check_unit, is_missing
from cosend.engine.arm_health import IN_ITEMS, NO_ARMS, BackOff, Breakers, Counts
from cosend.engine.events import Shown
from cosend.engine.learnt_arms import Learnt, Opinions, Seen, Sure, Window
from cosend.engine.needs import (
    QUESTION,
    SILENT,
    AskPeer,
    Call,
    CallPeer,
    Decision,
    Done,
    Failure,
    FitTrees,
    Forward,
    Need,
    Reply,
    Rows,
    RunModel,
    Scored,
    TellPeer,
    TrainModel,
    as_answer,
    columns_of,
)
from cosend.engine.scoring import (
    NO_GAIN,
    UNITS,
    FreeTextCheck,
    Gain,
    LabelCheck,
    Reward,
    Score,
    Where,
    gain_of,
    gains_by_arm,
    gains_of,
    right_or_wrong,
    scores_of,
)
from cosend.engine.sharing import EVERYTHING, NamesCheck, Sharing
from cosend.engine.site_state import Example, Heard, Note, SiteState, Step
from cosend.errors import (
    ArmError,
    ContextError,
    CosendError,
    NoAnswer,
    RewardError,
    SettingError,
    in_one_line,
    listed,
    shown,
)

LearnsFrom: TypeAlias = Literal["used", "all"]
Told: TypeAlias = Mapping[str, LabelledData]
NO_TIME: Final = "no time is left to ask it"
LATE: Final = "its opinion is late"
UNPAID: Final = "the budget is spent"
LATE_AFTER: Final = 4.0  # times the usual time of a model, if another model has given its opinion
LEAST_LATE: Final = 0.05  # seconds
USUAL_WEIGHT: Final = 0.1  # of the newest time
FRESH: Final = 1.0  # seconds for which a report that came with a reply is worth something
MOST_REPORTS: Final = 100_000
MOST_OWED: Final = 100_000  # forwards in the queue of a peer: one that takes nothing is asked no longer from then on
ENDED_FOR: Final = 600.0  # seconds for which it is remembered that a question is no longer to be answered
MOST_ENDED: Final = 100_000


class Batch:
    """Items that came together: the site's own, or the questions of one peer. A row is the place of an item.

    owner     whatever the driver wants to find later
    observer  the model whose opinion is shown to the client (shadow mode), or None
    caller    the peer that asks, or None
    recorded  whether these are rows of a recording: no client waits for an answer, and only free local models are used
    """

    def __init__(
        self, items: Sequence[Any], owner: Any = None, observer: str | None = None, *, recorded: bool = False
    ) -> None:
        count = len(items)
        self.items, self.owner, self.observer = items, owner, observer
        self.shared: Sequence[Any] = items  # what peers may see of each; None: that one stays here
        self.stays: Collection[int] = ()  # the rows of these
        self.read: Sequence[Column] = ()  # what the axes read off the items
        self.recorded = recorded
        self.caller: str | None = None
        self.requests: Sequence[int] = ()
        self.flags: Sequence[tuple[bool, bool]] = ()  # (training, labelled) of a peer's questions
        self.opinions: dict[str, list[Any]] = {}  # by model that was asked before the choice
        self.learnt: set[str] = set()  # those of them that the site learns itself: they are never waited for
        self.sure: dict[str, Sure] = {}  # by model that says how sure it is of its opinions
        self.paid: dict[str, list[float]] = {}  # by model that says what its opinions cost
        self.seen: list[bytes] = []  # by row: what learnt arms see of the item; empty if there were none so far
        self.missing: list[int] = []  # by row: opinions that have not come; empty if no model was asked
        self.given_up: set[str] = set()  # models whose opinions are no longer waited for
        self.since = 0.0  # when opinions were asked for
        self.silent: dict[int, dict[str, str]] = {}  # by row: models without an opinion, and why
        self.reasons: dict[int, dict[str, str]] = {}  # by row: arms that have failed, and why
        self.again: dict[int, int] = {}  # by row: the arrival of an item that is rerouted
        self.told: dict[int, Told] = {}  # by row: what peers have reported while it waits
        self.told_since = 0.0  # when the first peer was asked for a report, 0 if none was
        self.released = self.chosen = 0  # rows whose opinions are there, and rows that were chosen
        self.blocked = False  # a peer must report before the next row can be chosen
        self.points: Floats | None = None  # of rows that are encoded and not chosen
        self.ids: list[int] = [0] * count
        self.arms: list[str] = [""] * count
        self.kinds: list[int] = [0] * count
        self.cells: list[int] = [0] * count
        self.propensities: list[float] = [math.nan] * count
        self.contexts: list[tuple[Any, ...]] = [()] * count
        self.labels: list[Any] = [None] * count
        self.answered_by: dict[int, str] = {}  # by row: the observer, where it has answered
        self.errors: dict[int, NoAnswer] = {}
        self.costs: dict[str, float] = {}  # by arm: what it cost when it was chosen
        self.done = bytearray(count)
        self.left = count
        self.abandoned = False  # no client waits for it: late answers of its arms are ignored

    def enter(self, rows: Sequence[int], step: Step) -> None:
        """Take the choices that were made for these items."""
        self.costs.update(step.costs)
        if isinstance(rows, range):
            part = slice(rows.start, rows.stop)
            self.ids[part] = range(step.first, step.first + len(rows))
            self.arms[part], self.kinds[part], self.cells[part] = step.arms, step.kinds, step.cells
            self.propensities[part], self.contexts[part] = step.propensities, step.contexts
            return
        for n, row in enumerate(rows):
            self.ids[row], self.arms[row], self.kinds[row] = step.first + n, step.arms[n], step.kinds[n]
            self.cells[row], self.propensities[row] = step.cells[n], step.propensities[n]
            self.contexts[row] = step.contexts[n]

    def decision(self, row: int) -> Decision:
        kind, cell = PHASES[self.kinds[row]], self.cells[row]
        label, arm = self.labels[row], self.arms[row]
        what = self.contexts[row], self.propensities[row], self.costs[arm]
        return Decision(self.ids[row], label, arm, kind, cell, *what)

    def replies(self) -> list[Reply]:
        errors = self.errors
        return [Reply(label, str(errors[n]) if n in errors else None) for n, label in enumerate(self.labels)]


class Engine:
    """Drives one `SiteState`.

    reward        (label, truth) -> gain in [0, 1], or a `Reward`
    retries       further tries of an item whose arm has failed
    learns_from   which labels a model that learns gets: "all", or those of items that it was "used" for
    learning      the local models that learn
    known_labels  all labels that local models can give, None if that is not known
    free_text     whether all that local models say is free text, as far as that is known
    back_off      how long arms are skipped that keep failing, in the driver's time
    in_order      when a peer must report before an item can be chosen, later items of the batch wait: batches then
                  give the same decisions as one item at a time
    report_limit  for how long reports of peers about one item are waited for in all, None for no limit
    sharing       what peers may see of an item
    """

    def __init__(
        self,
        state: SiteState,
        *,
        reward: Gain = right_or_wrong,
        retries: int = 3,
        learns_from: LearnsFrom = "all",
        learning: Collection[str] = (),
        known_labels: frozenset[Any] | None = None,
        free_text: bool = False,
        strict_labels: bool = False,
        back_off: BackOff = IN_ITEMS,
        in_order: bool = True,
        report_limit: float | None = None,
        counts: Counts | None = None,
        sharing: Sharing = EVERYTHING,
    ) -> None:
        self.state, self.retries, self.learns_from = state, retries, learns_from
        self.reward, self.units = (reward.gain, reward.range) if isinstance(reward, Reward) else (reward, UNITS)
        self.learning, self.known_labels, self.free_text = frozenset(learning), known_labels, free_text
        self.in_order, self.report_limit = in_order, report_limit
        self.label_check, self.free_text_check = LabelCheck(state.name, strict=strict_labels), FreeTextCheck()
        self.breakers, self.counts = Breakers(back_off), Counts() if counts is None else counts
        self.now = 0.0  # the driver's time: set before a verb is called
        self.at: float | None = None  # the time of day in seconds, for a budget by the hour: set with the other
        self.offline: frozenset[str] = NO_ARMS  # peers that cannot be asked now
        self.observer: str | None = None  # the model that answers in shadow mode
        self.in_flight = 0  # items
        self.moves = 0  # answers that have come, so that an engine that does not move is noticed
        self.shown_early: set[int] = set()  # decisions that an observer has answered before their arm
        self._needs: list[Need] = []
        self._asks: dict[str, list[tuple[Batch, int]]] = {}  # by peer: items that wait for its report
        self._listening: dict[int, Batch] = {}  # batches that wait for opinions
        self._usual: dict[str, float] = {}  # by model: how long an opinion takes
        self._reports: dict[tuple[str, int], tuple[float, LabelledData]] = {}  # by peer and cell: when, and what
        self._ended: dict[
            tuple[str, int], float
        ] = {}  # by caller and request: withdrawn or taught before it was answered
        self._fitting: Window | None = None  # what a fit was asked for
        self._seen_arms: Any = None
        self._asked_first: tuple[str, ...] = ()
        self.sharing = sharing
        self._check_sharing()
        functions = [axis.name for axis in state.encoder.read if isinstance(axis, FromFunction)]
        self._names_check = NamesCheck(state.name, sharing, functions) if sharing.limits else None
        self._fit_if_due()  # one that was interrupted

    def draft(self) -> Engine:
        """Return a copy that can make one choice while this one, and all that it knows, stays as it is."""
        other = copy(self)
        other.state, other.breakers, other.counts = self.state.draft(), deepcopy(self.breakers), Counts()
        other.shown_early, other._ended = self.shown_early.copy(), self._ended.copy()
        other._usual, other._reports = self._usual.copy(), self._reports.copy()
        other._needs, other._asks, other._listening = [], {}, {}
        return other

    def _check_sharing(self) -> None:
        """Raise if peers may not see an axis without which the policy, which is theirs too, can do nothing."""
        policy, told = self.state.learner.policy, self._told_places
        if policy.mixes or told is None:
            return
        for n, axis in enumerate(self.state.encoder.read):
            if n not in told:
                name, what = type(policy).__name__, f"what peers of site {self.state.name!r} see"
                allowed = f"MixedViews, or a context without {axis.description}: {name} cannot do without that axis"
                raise SettingError(what, "all but what is withheld", allowed)

    @property
    def _told_places(self) -> Sequence[int] | None:
        """The axes on which peers are told the places of items; None for all that are read off items."""
        labels = self.state.learner.policy.share_labels != "never"
        if labels and not self.sharing.limits:
            return None
        return [n for n, axis in enumerate(self.state.encoder.read) if self.sharing.tells(axis, labels=labels)]

    @property
    def told_axes(self) -> tuple[str, ...] | None:
        """The axes of contexts that peers are told, by name; None for all that there are."""
        told = self._told_places
        return None if told is None else tuple(self.state.encoder.names[n] for n in told)

    @property
    def _call_axes(self) -> tuple[str, ...]:
        told = self.told_axes
        return self.state.encoder.names if told is None else told

    def take(self) -> Sequence[Need]:
        """Return what is needed now, once."""
        state = self.state
        if not (self._needs or self._asks or state.to_tell):
            return ()
        if self._asks:
            for peer, waiting in self._asks.items():
                told = self._told_parts([batch.contexts[row] for batch, row in waiting])
                self._needs.append(AskPeer(peer, waiting, told, self._call_axes))
            self._asks = {}
        if state.to_tell:
            self._needs += map(TellPeer, state.to_tell)
            state.to_tell = {}
        needs, self._needs = self._needs, []
        return needs

    # Items come, and free models are heard first

    def submit(
        self, items: Sequence[Any], read: Sequence[Column], owner: Any = None, *, recorded: bool = False
    ) -> Batch:
        """Take items of the site's own stream, with what the axes have read off them; or rows of a recording."""
        batch = Batch(items, owner, None if recorded else self.observer, recorded=recorded)
        batch.read = read
        if self._names_check is not None:
            self._names_check.check(items)
            batch.shared = [self.sharing.part_of(item) for item in items]
            batch.stays = {row for row, each in enumerate(batch.shared) if each is None}
        self.in_flight += len(items)
        self._listen(batch)
        return batch

    def asked(self, call: Call, owner: Any = None) -> Batch:
        """Take the questions of a peer; raises if none of them can be understood."""
        requests, items, contexts, training, labelled = columns_of(call.questions, 5)
        batch = Batch(items, owner)
        batch.caller, batch.requests = call.caller, requests
        batch.flags = [*zip(training, labelled, strict=True)]
        described, unfit = self._described(items, contexts, call.axes)
        batch.contexts = [*described]
        self.counts.served[call.caller] += len(items)
        for row, why in unfit.items():
            batch.errors[row] = NoAnswer.told(self.state.name, why)
            batch.done[row] = 1
        batch.left -= len(unfit)
        self._listen(batch)
        return batch

    def _described(
        self, items: Sequence[Any], contexts: Sequence[Any], axes: Sequence[str] | None
    ) -> tuple[Sequence[Any], dict[int, str]]:
        """Return contexts as this site spells them, and by row why it cannot; raises if it can describe none."""
        try:
            return self.state.describe(items, contexts, axes), {}
        except ContextError:
            described, unfit = [*contexts], dict[int, str]()
            for row, (item, context) in enumerate(zip(items, contexts, strict=True)):
                try:
                    (described[row],) = self.state.describe([item], [context], axes)
                except ContextError as error:
                    unfit[row] = str(error)
            if len(unfit) == len(described):
                raise
            return described, unfit

    def _listen(self, batch: Batch) -> None:
        """Ask free models for their opinions; without any, choose at once."""
        models = self._models_to_hear(batch)
        if models and len(batch.items):
            count = len(batch.items)
            batch.missing, batch.since = [len(models)] * count, self.now
            self._listening[id(batch)] = batch
            rows = range(count)
            self.breakers.used(models, self.now)
            for model in models:
                batch.opinions[model] = [None] * count
                self._needs.append(RunModel(model, batch, rows, batch.items, True))
        else:
            self._advance(batch)

    def _models_to_hear(self, batch: Batch) -> Sequence[str]:
        """Return the models that are heard before the choice: those that cost nothing, if labels score them."""
        arms = self.state.learner.arms
        if arms is not self._seen_arms:  # they have changed
            self._seen_arms = arms
            learnt = self.state.learnt.kinds
            hears = learnt or self.state.learner.score_local == "all"
            free = [name for name, cost in arms.own.items() if hears and not cost and name not in learnt]
            self._asked_first = tuple(name for name in free if name not in arms.paused)
        if batch.recorded:
            learnt = self.state.learnt.kinds
            return [name for name, cost in arms.own.items() if not cost and name not in (*learnt, *arms.paused)]
        skipped = self.breakers.skipped(self.now)
        models: Sequence[str] = self._asked_first
        if skipped:
            models = [name for name in models if name not in skipped]
        if batch.observer is not None and batch.observer not in models:
            models = [*models, batch.observer]
        return models

    def heard(
        self,
        need: RunModel,
        start: int,
        answers: Sequence[Any],
        confidences: Sequence[float] | None = None,
        costs: Sequence[float] | None = None,
    ) -> None:
        """Take the opinions of a model on some items of a batch, from `start` on: labels or failures.

        confidences  how sure it is of each, if it gives that
        costs        what each cost, if it reports that
        """
        self.moves += 1
        batch, model, end = need.batch, need.model, start + len(answers)
        labels = self._opinions(batch, model, start, answers)
        if batch.abandoned:
            return
        column, missing = batch.opinions[model], batch.missing
        if model in batch.given_up:
            self._heard_late(batch, model, start, labels)
            return
        column[start:end] = labels
        if confidences is not None:
            sure = batch.sure.setdefault(model, np.full(len(column), np.nan, np.float32))
            sure[start:end] = confidences
        if costs is not None:
            batch.paid.setdefault(model, [math.nan] * len(column))[start:end] = costs
        for row in range(start, end):
            missing[row] -= 1
        if end == len(column):
            spent = self.now - batch.since
            usual = self._usual.get(model)
            self._usual[model] = spent if usual is None else usual + USUAL_WEIGHT * (spent - usual)
        if missing[batch.released] <= 0:
            self._advance(batch)

    def _opinions(self, batch: Batch, model: str, start: int, answers: Sequence[Any]) -> Sequence[Any]:
        """Return labels, None where the model says nothing, which is noted with the reason."""
        if NEVER_MISSING.issuperset(map(type, answers)):
            self.breakers.worked(model)
            return answers
        labels, failures = list[Any](), list[Failure]()
        for row, given in enumerate(answers, start):
            answer = as_answer(model, given)
            if isinstance(answer, Failure):
                failures.append(answer)
                batch.silent.setdefault(row, {})[model] = answer.reason
            elif answer is None:
                batch.silent.setdefault(row, {})[model] = SILENT
            labels.append(None if isinstance(answer, Failure) else answer)
        if failures:
            self._count_failures(model, failures, worked=len(failures) < len(answers))
        else:
            self.breakers.worked(model)
        return labels

    def _heard_late(self, batch: Batch, model: str, start: int, labels: Sequence[Any]) -> None:
        """Take opinions that were no longer waited for: after the choice they are still scored."""
        known = [(row, label) for row, label in enumerate(labels, start) if label is not None]
        for row, label in known:
            if row >= batch.released:  # others are waited for, so it is in time after all
                batch.opinions[model][row] = label
                del batch.silent[row][model]
        both = [(batch.ids[row], label) for row, label in known if row < batch.released and batch.ids[row]]
        if both:
            ids, said = zip(*both, strict=True)
            self.state.opine(model, ids, said)

    def tick(self) -> None:
        """Stop waiting for opinions that are late, where another model has given one."""
        for batch in [batch for batch in self._listening.values() if not batch.recorded]:
            waited = self.now - batch.since
            for model, column in batch.opinions.items():
                # Before it is known how long a model takes, only clients of a shadow model need not wait for it.
                usual = self._usual.get(model, math.inf if batch.observer is None else 0.0)
                if model in batch.given_up or model in batch.learnt or model == batch.observer:
                    continue
                if waited < max(LEAST_LATE, LATE_AFTER * usual):
                    continue
                rows = range(batch.released, len(column))
                late = [n for n in rows if column[n] is None and model not in batch.silent.get(n, ())]
                if late and all(self._has_opinion(batch, n) for n in late):
                    batch.given_up.add(model)
                    for row in late:
                        batch.silent.setdefault(row, {})[model] = LATE
                        batch.missing[row] -= 1
            self._advance(batch)

    def _has_opinion(self, batch: Batch, row: int) -> bool:
        return any(column[row] is not None for column in batch.opinions.values())

    def _advance(self, batch: Batch) -> None:
        """Route the items whose opinions are there, in their order."""
        count = len(batch.items)
        end = batch.released
        if not batch.missing:
            end = count
        else:
            while end < count and batch.missing[end] <= 0:
                end += 1
        if end == count:
            self._listening.pop(id(batch), None)
        batch.released = max(batch.released, end)
        if batch.chosen < batch.released and not batch.blocked:
            self._choose_new(batch)

    def _ask_learnt(self, batch: Batch, start: int, seen: Seen) -> None:
        """Let learnt arms say what they think of the items from `start` on, whose other opinions are there."""
        state, count = self.state, len(seen.values)
        arms, part = state.learner.arms, slice(start, start + count)
        able = [arm for arm in state.learnt.kinds if arm in arms.own and arm not in arms.paused]
        heard = Opinions(
            {model: column[part] for model, column in batch.opinions.items() if model not in batch.learnt},
            {model: column[part] for model, column in batch.sure.items() if model not in batch.learnt},
        )
        said, sure = state.learnt.opinions(able, seen, state.encoder.newest_label, heard)
        batch.learnt.update(said)
        for arm in said:
            batch.opinions.setdefault(arm, [None] * len(batch.items))[part] = said[arm]
        for arm in sure:
            batch.sure.setdefault(arm, np.full(len(batch.items), np.nan, np.float32))[part] = sure[arm]

    def _heard_on(self, batch: Batch, rows: range) -> Opinions:
        """Return what models have said about items that follow each other, those that the site learns among them."""
        part = slice(rows.start, rows.stop)
        sure = {model: column[part] for model, column in batch.sure.items()}
        return Opinions({model: column[part] for model, column in batch.opinions.items()}, sure)

    def _learnt_silent(self, batch: Batch, row: int) -> Collection[str]:
        """Return the learnt arms that have said nothing about an item: they have learnt nothing yet."""
        learnt, opinions = self.state.learnt.kinds, batch.opinions
        return [arm for arm in learnt if arm not in opinions or opinions[arm][row] is None]

    def _stood_for(self, batch: Batch, row: int) -> Collection[str]:
        """Return the models that a stack replaces: before the first label or score, nothing else is known."""
        learnt, opinions = self.state.learnt, batch.opinions
        if not learnt.untold:
            return ()
        votes = any(
            kind is Learnt.STACK and opinions[arm][row] is not None
            for arm, kind in learnt.kinds.items()
            if arm in opinions
        )
        return [model for model in opinions if model not in learnt.kinds] if votes else ()

    # An arm is chosen

    def _choose_new(self, batch: Batch) -> None:
        """Route all items of a batch that can be routed now."""
        while batch.chosen < batch.released and not batch.blocked:
            start = batch.chosen
            if batch.done[start]:  # a peer's question that cannot be understood
                batch.chosen += 1
                continue
            if batch.caller is not None:
                end = self._end_of_run(batch, start, batch.released)
                if self.state.learnt:
                    points = self._points(batch, range(start, end))
                    self._ask_learnt(batch, start, self.state.look(batch.items[start:end], points))
                if self.state.encoder.heard:
                    heard = self._heard_on(batch, range(start, end))
                    batch.contexts[start:end] = self.state.encoder.hear_spelled(batch.contexts[start:end], heard)
                batch.chosen = end
                self._serve(batch, range(start, end), self._without(batch, start))
                continue
            if batch.points is None:
                whole = start == 0 and batch.released == len(batch.items)
                read = batch.read if whole else [column[start : batch.released] for column in batch.read]
                batch.points, seen = self.state.encode(read)
                if self.state.learnt:
                    batch.seen = batch.seen or [b""] * len(batch.items)
                    batch.seen[start : start + len(batch.points)] = seen.packed()
                    self._ask_learnt(batch, start, seen)
                if self.state.encoder.heard:
                    self.state.hear(batch.points, self._heard_on(batch, range(start, start + len(batch.points))))
            points = batch.points
            end = self._end_of_run(batch, start, start + len(points))
            chosen = self._choose(batch, range(start, end), points[: end - start], self._without(batch, start))
            batch.chosen += chosen
            batch.points = points[chosen:] if chosen < len(points) else None

    def _end_of_run(self, batch: Batch, start: int, end: int) -> int:
        """Return the end of the items from `start` on that can be chosen together: the same arms can be used."""
        if not batch.silent and not batch.stays and (batch.caller is None or not any(batch.done)):
            return end
        models, stays = batch.silent.get(start, {}).keys(), start in batch.stays
        for row in range(start + 1, end):
            if batch.silent.get(row, {}).keys() != models or batch.done[row] or (row in batch.stays) != stays:
                return row
        return end

    def _without(self, batch: Batch, row: int) -> frozenset[str] | None:
        """Return the arms that an item cannot use; None if it is given up."""
        reasons, silent = batch.reasons.get(row), batch.silent.get(row)
        excluded = NO_ARMS if silent is None else frozenset(silent)
        if self.state.learnt:
            excluded = excluded.union(self._learnt_silent(batch, row), self._stood_for(batch, row))
        if reasons is not None:
            excluded = excluded.union(reasons)
        if batch.recorded:
            arms = self.state.learner.arms
            excluded = excluded.union(name for name, cost in arms.own.items() if cost)
        if batch.caller is not None or batch.recorded:
            return self._left_out(excluded, local_only=True)
        excluded = excluded.union(self.state.unpaid_arms())
        tries = 0
        if reasons is not None:
            tries = sum(reason not in (NO_TIME, SILENT) for reason in reasons.values())
            if tries > self.retries:
                return None
        return self._left_out(excluded, local_only=row in batch.stays or 0 < tries == self.retries)

    def _left_out(self, excluded: frozenset[str], *, local_only: bool) -> frozenset[str] | None:
        """Return the arms that cannot be chosen; one that is skipped is used if nothing else is left."""
        arms = self.state.learner.arms
        skipped = self.breakers.skipped(self.now) | self.offline
        if self.state.outbox:
            skipped = skipped.union(peer for peer, queue in self.state.outbox.items() if len(queue) >= MOST_OWED)
        if local_only and arms.peers:
            excluded = excluded.union(arms.peers)
        if not excluded and not skipped and not arms.paused:
            return NO_ARMS
        usable = set(arms.names) - arms.paused - excluded
        if not usable:
            return None
        return (excluded | skipped if usable - skipped else excluded) & set(arms.names)

    def _choose(
        self, batch: Batch, rows: Sequence[int], points: Floats, without: frozenset[str] | None, told: Told = NOBODY
    ) -> int:
        """Route items, and return how many are done: the others wait until a peer has reported."""
        if without is None:
            self._give_up(batch, rows, points)
            return len(rows)
        if len(rows) > 1 and not batch.recorded and not without.issuperset(self.state.unpaid_arms(len(rows))):
            # The first of them may spend what is left of a total.
            for n, row in enumerate(rows):
                self._choose(batch, [row], points[n : n + 1], self._without(batch, row), told)
            return len(rows)
        state, done = self.state, 0
        while True:
            some = rows[done:] if done else rows
            again = [batch.again.get(row, 0) for row in some] if batch.again else ()
            heard = self._heard_of(batch, some)
            left = points[done:] if done else points
            step = state.choose(
                left,
                told=told,
                without=without,
                again=again,
                heard=heard,
                at=self.at,
                pays=not batch.recorded,
            )
            count = len(step.arms)
            if count:
                self._enter(batch, some[:count], step, heard if count == len(some) else heard.first(count))
            if step.ask is None:
                return len(rows)
            done, told = done + count, NOBODY if count else told
            known = self._fresh_report(step.ask.peer, step.ask.cell)
            if known is not None:
                told = {**told, step.ask.peer: known}
                continue
            row = rows[done]
            batch.contexts[row], batch.told[row] = step.ask.context, told
            self._asks.setdefault(step.ask.peer, []).append((batch, row))
            done, told = done + 1, NOBODY
            if self.in_order:
                batch.blocked = True
                return done
            if done == len(rows):
                return done

    def _heard_of(self, batch: Batch, rows: Sequence[int]) -> Heard:
        """Return what is known about items before the choice, with what models have said that said anything."""
        items = self._kept(batch, rows)
        known = [(model, batch.sure[model]) for model in batch.opinions if model in batch.sure]  # in this order
        if isinstance(rows, range) and rows.step == 1:
            part = slice(rows.start, rows.stop)
            columns: dict[str, Sequence[Any]] = {model: column[part] for model, column in batch.opinions.items()}
            sure, seen = {model: column[part] for model, column in known}, batch.seen[part]
        else:
            columns = {model: [column[row] for row in rows] for model, column in batch.opinions.items()}
            sure = {model: column[[*rows]] for model, column in known}
            seen = [batch.seen[row] for row in rows] if batch.seen else []
        if batch.silent:
            columns = {model: column for model, column in columns.items() if any(said is not None for said in column)}
            sure = {model: column for model, column in sure.items() if model in columns}
        return Heard(columns, sure, items, seen)

    def _kept(self, batch: Batch, rows: Sequence[int]) -> list[Any]:
        """Return copies of items for models that learn, which may change their input."""
        return [copy(batch.items[row]) for row in rows] if self.learning else []

    def _enter(self, batch: Batch, rows: Sequence[int], step: Step, heard: Heard) -> None:
        """Take choices: an opinion that is there is the answer; the other arms are used."""
        opinions = heard.opinions
        batch.enter(rows, step)
        shown = self._show(batch, rows, opinions) if batch.observer is not None else ()
        for arm, places in _by_arm(step.arms).items():
            used = rows if len(places) == len(rows) else [rows[place] for place in places]
            column = opinions.get(arm)
            if column is not None:
                self._say(batch, arm, used, column if used is rows else [column[place] for place in places])
                continue
            batch.again.update(zip(used, [step.arrivals[place] for place in places], strict=True))
            if shown:
                self.shown_early.update(batch.ids[row] for row in used if row in shown)
            self._use(batch, arm, used)

    def _say(self, batch: Batch, arm: str, rows: Sequence[int], opinions: Sequence[Any]) -> None:
        """Answer with opinions; what they cost is kept with the decisions, if it is known."""
        if arm in batch.paid:
            self._complete(batch, arm, rows, opinions, [batch.paid[arm][row] for row in rows])
        else:
            self._answer(batch, arm, rows, opinions)

    def _use(self, batch: Batch, arm: str, rows: Sequence[int]) -> None:
        self.breakers.used((arm,), self.now)
        is_own = arm in self.state.learner.arms.own
        items = batch.items if is_own else batch.shared
        items = items if len(rows) == len(items) else [items[row] for row in rows]
        if is_own:
            self._needs.append(RunModel(arm, batch, rows, items, False))
            return
        training = [batch.kinds[row] == TRAIN for row in rows]
        always = self.state.learner.policy.share_labels == "always"
        labelled = [True] * len(rows) if always else training
        contexts = self._told_parts([batch.contexts[row] for row in rows])
        questions = Rows(QUESTION, [batch.ids[row] for row in rows], items, contexts, training, labelled)
        call = Call(arm, self.state.name, questions, self._call_axes)
        self._needs.append(CallPeer(arm, batch, rows, call, any(labelled)))

    def _told_parts(self, contexts: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the parts of contexts that a peer is told: it reads features off the item, and has its own models."""
        told, read = self._told_places, len(self.state.encoder.read)
        if told is None:
            return [context[:read] for context in contexts]
        return [tuple(context[n] for n in told) for context in contexts]

    def _show(self, batch: Batch, rows: Sequence[int], opinions: Mapping[str, Sequence[Any]]) -> set[int]:
        """Answer clients with the opinion of the observer where it has one; decisions are only learnt from."""
        observer = batch.observer or ""
        column = opinions.get(observer, [None] * len(rows))
        shown = [(row, label) for row, label in zip(rows, column, strict=True) if label is not None]
        shown = [(row, label) for row, label in shown if not batch.done[row]]
        if shown:
            ids = tuple(batch.ids[row] for row, _ in shown)
            self.state.write(Shown(ids, tuple(label for _, label in shown), observer))
            for row, label in shown:
                batch.labels[row], batch.answered_by[row] = label, observer
            self._finish(batch, [row for row, _ in shown])
        return {row for row, _ in shown}

    def _finish(self, batch: Batch, rows: Sequence[int]) -> None:
        for row in rows:
            batch.done[row] = 1
        batch.left -= len(rows)
        if batch.caller is None:
            self.in_flight -= len(rows)
        self._needs.append(Done(batch, rows))

    def _give_up(self, batch: Batch, rows: Sequence[int], points: Floats) -> None:
        """Say that no arm is left for items. Where models had no answer, the true label may still come."""
        arms = self.state.learner.arms
        for n, row in enumerate(rows):
            silent = batch.silent.get(row, {}) | batch.reasons.get(row, {})
            if {*silent.values()} <= {SILENT}:  # what has failed is not hidden by what has learnt nothing
                silent |= dict.fromkeys(self._learnt_silent(batch, row), SILENT)
            blank = [arm for arm, why in silent.items() if why == SILENT and arm in arms.own and arm not in arms.paused]
            observer = batch.observer if batch.observer in arms.own else None  # it may have left since
            observed = observer is not None and batch.opinions[observer][row] is not None
            point = points[n : n + 1]
            if observed and not blank:
                self._let_observer_decide(batch, row, point)
            elif blank:
                step = self._only(batch, row, point, blank)
                batch.enter([row], step)
                if observed:
                    self._show(batch, [row], {name: column[row : row + 1] for name, column in batch.opinions.items()})
                self._complete(batch, step.arms[0], [row], [None])
            else:
                unpaid = dict.fromkeys(() if batch.recorded else self.state.unpaid_arms(), UNPAID)
                batch.errors[row] = NoAnswer(self.state.name, unpaid | silent)
                self.counts.unanswered += 1
                self._finish(batch, [row])

    def _only(self, batch: Batch, row: int, point: Floats, arms: Collection[str]) -> Step:
        without = frozenset(self.state.learner.arms.names) - frozenset(arms)
        heard, again = self._heard_of(batch, [row]), [batch.again.get(row, 0)]
        pays = not batch.recorded
        return self.state.choose(point, without=without, again=again, heard=heard, at=self.at, pays=pays)

    def _let_observer_decide(self, batch: Batch, row: int, point: Floats) -> None:
        """Take the model that answers anyway as the arm, though no arm is left, even if it is paused.

        So its answers are decisions like all others: recorded, and the same when the request is repeated.
        """
        observer, state = batch.observer or "", self.state
        is_paused = observer in state.learner.arms.paused
        if is_paused:
            state.resume(observer)
        step = self._only(batch, row, point, [observer])
        if is_paused:
            state.pause(observer)
        self._enter(batch, [row], step, self._heard_of(batch, [row]))

    # A peer's questions are answered

    def _serve(self, batch: Batch, rows: Sequence[int], without: frozenset[str] | None) -> None:
        if self._ended:
            rows = self._still_wanted(batch, rows)
        if not rows:
            return
        if without is None:
            for row in rows:
                why = batch.silent.get(row, {}) | batch.reasons.get(row, {})
                batch.errors[row], batch.ids[row] = NoAnswer(self.state.name, why), 0
            self._finish(batch, rows)
            return
        heard = self._heard_of(batch, rows)
        columns: Any = [[column[row] for row in rows] for column in (batch.requests, batch.contexts, batch.flags)]
        models, ids = self.state.serve(batch.caller or "", *columns, without=without, heard=heard)
        for row, model, id_ in zip(rows, models, ids, strict=True):
            batch.arms[row], batch.ids[row] = model, id_
        for model, places in _by_arm(models).items():
            used = rows if len(places) == len(rows) else [rows[place] for place in places]
            column = heard.opinions.get(model)
            if column is not None:
                self._say(batch, model, used, column if used is rows else [column[place] for place in places])
            else:
                self._use(batch, model, used)

    def _still_wanted(self, batch: Batch, rows: Sequence[int]) -> Sequence[int]:
        """Return the rows of questions that were not ended before they came, or before they could be answered."""
        gone = [row for row in rows if (batch.caller, batch.requests[row]) in self._ended]
        for row in gone:
            batch.errors[row] = NoAnswer.told(self.state.name, f"{batch.caller!r} wants no answer any more")
        if gone:
            self._finish(batch, gone)
        return [row for row in rows if row not in gone] if gone else rows

    # An arm has answered, or failed

    def answered(
        self,
        need: RunModel | CallPeer,
        start: int,
        answers: Sequence[Any],
        reports: Sequence[LabelledData] = (),
        costs: Sequence[float] | None = None,
    ) -> None:
        """Take what a chosen arm says about some items, from `start` on: labels or failures.

        costs  what each answer cost, if the arm reports it; not a number where it does not
        """
        self.moves += 1
        batch, arm = need.batch, need.model if isinstance(need, RunModel) else need.peer
        if batch.abandoned:
            self.breakers.forget_probe(arm)
            return
        rows = need.rows if len(answers) == len(need.rows) else need.rows[start : start + len(answers)]
        if reports:
            self._remember_reports(arm, batch, rows, reports)
        if NEVER_MISSING.issuperset(map(type, answers)):
            self.breakers.worked(arm)
            self._complete(batch, arm, rows, answers, costs or ())
            return
        good, bad, paid = list[tuple[int, Any]](), list[tuple[int, Failure]](), list[float]()
        for n, (row, given) in enumerate(zip(rows, answers, strict=True)):
            answer = as_answer(arm, given)
            if answer is None or isinstance(answer, Failure):
                bad.append((row, answer or Failure(SILENT)))
            else:
                good.append((row, answer))
                paid += () if costs is None else (costs[n],)
        if good:
            self.breakers.worked(arm)
            self._complete(batch, arm, [row for row, _ in good], [label for _, label in good], paid)
        if bad:
            self._failed(batch, arm, bad, worked=bool(good))

    def _complete(
        self, batch: Batch, arm: str, rows: Sequence[int], labels: Sequence[Any], costs: Sequence[float] = ()
    ) -> None:
        """Enter answers, and what they cost; empty if none of them reports it."""
        ids = [batch.ids[row] for row in rows]
        if 0 in ids:  # no label will follow for some
            some = [n for n, id_ in enumerate(ids) if id_]
            known = [ids[n] for n in some], [labels[n] for n in some]
            late = self.state.complete(*known, [costs[n] for n in some] if costs else ())
        else:
            late = self.state.complete(ids, labels, costs)
        if late and batch.caller is None:  # they have expired, but what clients are told must not be lost
            said = dict(zip(ids, labels, strict=True))
            self.state.write(Shown(tuple(late), tuple(said[id_] for id_ in late)))
        self.shown_early.difference_update(ids)
        self._answer(batch, arm, rows, labels)

    def _answer(self, batch: Batch, arm: str, rows: Sequence[int], labels: Sequence[Any]) -> None:
        if batch.caller is None and not batch.recorded:
            self.counts.decided(arm, [batch.kinds[row] for row in rows])
        if batch.observer is not None:
            both = [(row, label) for row, label in zip(rows, labels, strict=True) if not batch.done[row]]
            rows, labels = [row for row, _ in both], [label for _, label in both]
        for row, label in zip(rows, labels, strict=True):
            batch.labels[row] = label
        if rows:
            self._finish(batch, rows)

    def _failed(self, batch: Batch, arm: str, failures: Sequence[tuple[int, Failure]], *, worked: bool) -> None:
        """Take choices back for which an arm has failed, and choose again."""
        true = [failure for _, failure in failures if failure.reason != SILENT]
        if true:
            self._count_failures(arm, true, worked=worked)
        else:
            self.breakers.worked(arm)
        reason = true[0].reason if true else SILENT
        ids = [batch.ids[row] for row, _ in failures if batch.ids[row]]
        pending = self.state.fail(ids, arm, reason)
        self.shown_early.difference_update(ids)
        late = arm in self.state.learner.arms.peers and any(failure.kind == "time" for failure in true)
        again = []
        for row, failure in failures:
            gone = batch.caller is not None and batch.ids[row] and batch.ids[row] not in pending
            self._exclude(batch, row, arm, failure.reason, late=late)
            batch.ids[row] = 0
            if gone:  # its caller has withdrawn it
                batch.errors[row] = NoAnswer.told(self.state.name, failure.reason)
                self._finish(batch, [row])
            elif not batch.done[row]:  # else an observer has answered it
                again.append(row)
        self._choose_again(batch, again)

    def _exclude(self, batch: Batch, row: int, arm: str, reason: str, *, late: bool) -> None:
        """Note that an arm has failed for an item; after a peer that was too late, no time is left for another one."""
        rest = dict.fromkeys(self.state.learner.arms.peers, NO_TIME) if late else {}
        batch.reasons[row] = {**rest, **batch.reasons.get(row, {}), arm: reason}

    def _count_failures(self, arm: str, failures: Sequence[Failure], *, worked: bool) -> None:
        reason, kinds = failures[0].reason, [failure.kind for failure in failures]
        self.counts.failed(arm, kinds, reason)
        if {*kinds} == {"item"}:
            self.breakers.forget_probe(arm)
            return
        wait_s = max(failure.wait_s for failure in failures)
        if worked and not wait_s:
            self.breakers.worked(arm)
        elif self.breakers.failed(arm, self.now, reason, wait_s):
            self.counts.opened(arm, reason)

    def _choose_again(self, batch: Batch, rows: Sequence[int]) -> None:
        """Reroute items whose arm has failed, those together for which the same arms can be used."""
        groups: dict[frozenset[str] | None, list[int]] = {}
        for row in rows:
            groups.setdefault(self._without(batch, row), []).append(row)
        for without, together in groups.items():
            if batch.caller is not None:
                self._serve(batch, together, without)
                continue
            done = self._choose(batch, together, self._points(batch, together), without)
            for row in together[done:]:  # one before them waits for a report: they are asked about alone
                self._choose(batch, [row], self._points(batch, [row]), without)

    def _points(self, batch: Batch, rows: Sequence[int]) -> Floats:
        """Return where items lie that were encoded before."""
        return np.array([self.state.point(batch.contexts[row]) for row in rows], np.float64)

    # A peer has reported how much labelled data it has

    def reported(self, need: AskPeer, reports: Sequence[LabelledData] | Failure) -> None:
        """Take the reports of a peer about the items that wait for them, or that there are none."""
        self.moves += 1
        if not isinstance(reports, Failure):
            try:
                for report in reports:
                    self.state.learner.check_told({need.peer: report})
            except CosendError as error:
                reports = Failure(in_one_line(error), "network")
        if isinstance(reports, Failure):
            self._count_failures(need.peer, [reports], worked=False)
            self.state.fail([], need.peer, reports.reason)
        for n, (batch, row) in enumerate(need.waiting):
            if batch.abandoned:
                continue
            told = batch.told.pop(row, NOBODY)
            if isinstance(reports, Failure):
                self._exclude(batch, row, need.peer, reports.reason, late=reports.kind == "time")
                told = NOBODY
            else:
                peers = self.state.learner.arms.peers  # one may have left since it reported
                told = {peer: report for peer, report in told.items() if peer in peers} | {need.peer: reports[n]}
                self._limit_reports(batch, row, told)
            batch.blocked = False
            self._choose(batch, [row], self._points(batch, [row]), self._without(batch, row), told)
            if not batch.blocked and batch.chosen < batch.released:
                self._choose_new(batch)

    def _limit_reports(self, batch: Batch, row: int, told: Told) -> None:
        """Skip peers that have not reported when no time is left: many of them would take too long."""
        batch.told_since = batch.told_since or self.now
        if self.report_limit is not None and self.now - batch.told_since > self.report_limit:
            rest = {peer: NO_TIME for peer in self.state.learner.arms.peers if peer not in told}
            batch.reasons[row] = {**rest, **batch.reasons.get(row, {})}

    def _remember_reports(self, peer: str, batch: Batch, rows: Sequence[int], reports: Sequence[LabelledData]) -> None:
        if len(self._reports) > MOST_REPORTS:
            self._reports.clear()
        for row, report in zip(rows, reports, strict=True):
            self._reports[peer, batch.cells[row]] = self.now, report

    def _fresh_report(self, peer: str, cell: int) -> LabelledData | None:
        """Return what came with a reply a moment ago, if anything did; one item alone has time to ask."""
        if self.in_order or self.in_flight < 2:
            return None
        at, report = self._reports.get((peer, cell), (-math.inf, None))
        return report if self.now - at < FRESH else None

    def forget_peer(self, peer: str) -> None:
        self._reports = {key: value for key, value in self._reports.items() if key[0] != peer}

    # True labels

    def check_labels(
        self,
        ids: Sequence[int],
        truths: Sequence[Any],
        given: Sequence[Score | None] | None = None,
        names: Sequence[str] | None = None,
    ) -> tuple[list[Note], list[float], dict[str, list[float]]]:
        """Return the notes on decisions, what they gain and what opinions gain; raises if a label is bad.

        given  scores, where they came instead of labels, which are None there
        names  what clients call the decisions, for messages; None: by their ids
        """
        notes = self.state.notes_of(ids)
        known = truths if given is None else [truth for truth in truths if truth is not None]
        for axis in self.state.encoder.axes:
            axis.check_labels(known)
        called: Sequence[Any] = ids if names is None else [*map(repr, names)]

        def where(n: int) -> str:
            return f"decision {called[n]} of site {self.state.name!r}"

        gains, scores = self._gains(notes, truths, where)
        if self.reward is right_or_wrong:  # else labels need not be compared with what arms say
            peers = self.state.learner.arms.peers
            self.label_check.check(truths, None if peers else self.known_labels, self.state.kinds, called)
            if known and not self.free_text_check.is_over:
                why = "its models answer with free text" if self.free_text else ""
                why = why or ("its scores have a range" if self.units != UNITS else "")
                self.free_text_check.check(truths, lambda n: self._said_by_models(ids[n], notes[n]), why, where)
        if given is not None:
            self._score_by_hand(ids, notes, given, gains, scores, where)
        return notes, gains, scores

    def _said_by_models(self, id_: int, note: Note) -> list[Any]:
        """Return what arms said about an item, without those that the site learns itself: these repeat labels."""
        learner, learnt = self.state.learner, self.state.learnt.kinds
        ((arm, _, _),) = learner.find([id_])
        both = zip((learner.arms.names[arm], *note.models), (note.label, *note.said), strict=True)
        return [said for model, said in both if said is not None and model not in learnt]

    def _score_by_hand(
        self,
        ids: Sequence[int],
        notes: Sequence[Note],
        given: Sequence[Score | None],
        gains: list[float],
        scores: dict[str, list[float]],
        where: Where,
    ) -> None:
        """Enter scores that were given: of the arm, and of free local models where labels score these."""
        learner = self.state.learner
        arms, every = learner.arms, learner.score_local == "all"
        for n, (score, (arm, _, _)) in enumerate(zip(given, learner.find(ids), strict=True)):
            if score is None:
                continue
            used = arms.names[arm]
            score = self._as_others_said(score, used, notes[n])
            found = gains_by_arm(score, used, arms.names, self.units, where(n))
            gain = found.pop(used)
            gains[n] = NO_GAIN if notes[n].label is None else gain
            for model, cost in arms.own.items() if found and every else ():
                if model in found and not cost:
                    scores.setdefault(model, [NO_GAIN] * len(ids))[n] = found[model]

    def _as_others_said(self, score: Score, used: str, note: Note) -> Score:
        """Return a score by arm with one for an arm that the site learns: the score of a model that said the same."""
        if not isinstance(score, Mapping) or used in score or used not in self.state.learnt.kinds:
            return score
        both = zip(note.models, note.said, strict=True)
        same = [score.get(model) for model, said in both if said is not None and said == note.label]
        known = [each for each in same if not is_missing(each)]
        return {**score, used: known[0]} if known else score

    def learn(
        self,
        ids: Sequence[int],
        truths: Sequence[Any],
        costs: Sequence[float | None] | None = None,
        given: Sequence[Score | None] | None = None,
        *,
        names: Sequence[str] | None = None,
        counted: bool = True,
    ) -> Scored:
        """Learn the true labels of the site's own decisions, or scores; a bad one among them changes nothing.

        given, names    as in `check_labels`
        counted         whether they are counted as labels of decisions; labels of a recording are not
        """
        notes, gains, scores = self.check_labels(ids, truths, given, names)
        learnt = self.state.learnt
        end = learnt.end_of_run(notes, 0) if learnt else len(ids)
        if end == len(ids):
            return self._learn(ids, truths, costs, notes, gains, scores, counted=counted)
        self.state.check_settled(ids, gains, costs)
        start, found = 0, list[Scored]()
        while start < len(ids):
            part = slice(start, end)
            paid = None if costs is None else costs[part]
            some = notes[part], gains[part], {model: column[part] for model, column in scores.items()}
            found.append(self._learn(ids[part], truths[part], paid, *some, counted=counted))
            start, end = end, learnt.end_of_run(notes, end)
        return Scored.joined(found)

    def _learn(
        self,
        ids: Sequence[int],
        truths: Sequence[Any],
        costs: Sequence[float | None] | None,
        notes: Sequence[Note],
        gains: list[float],
        scores: dict[str, list[float]],
        *,
        counted: bool,
    ) -> Scored:
        """Learn labels that were checked, and that no fit of trees parts."""
        if self.state.learnt:
            self._add_belated(notes, truths, scores)
        settled = self.state.settle(ids, truths, gains, costs, scores)
        arms, known = self.state.learner.arms, self.state.learner.arms.costs
        used = [arm for arm, _, _ in settled.found]
        names, labels = [arms.names[arm] for arm in used], [note.label for note in notes]
        paid = [known[arm] for arm in used]
        if settled.costs is not None:
            paid = [each if cost is None else cost for each, cost in zip(paid, settled.costs, strict=True)]
        both = zip(truths, self._right(labels, truths, gains), strict=True)
        right = [None if truth is None else same for truth, same in both]
        if counted:
            self.counts.learnt(names, right, gains, paid)
            self.counts.scored(names, scores)
        self._train(settled.examples)
        self._fit_if_due()
        return Scored(names, right, gains, paid, scores)

    def check_log(self, arms: Sequence[str], scores: Sequence[float]) -> list[float]:
        """Return what the rows of a log have gained, or raise for the first that is wrong."""
        own, gains = self.state.learner.arms.own, list[float]()
        for row, (arm, score) in enumerate(zip(arms, scores, strict=True), start=1):
            if arm not in own:
                raise ArmError(f"site {self.state.name!r} has no local arm {shown(arm)}: it has {listed(own)}")
            gains.append(gains_by_arm(score, arm, own, self.units, f"row {row} of the log")[arm])
        return gains

    def enter_log(
        self, items: Sequence[Any], read: Sequence[Column], arms: Sequence[str], scores: Sequence[float]
    ) -> None:
        """Enter what another system has decided and gained: rows of a log, with local arms and scores for all."""
        state, done, gains = self.state, 0, self.check_log(arms, scores)
        while done < len(items):
            points, seen = state.encode([column[done:] for column in read])
            packed = seen.packed() if state.learnt else []
            ids, gained = list[int](), list[float]()
            for arm, places in _by_arm(arms[done : done + len(points)]).items():
                others = frozenset(state.learner.arms.names) - {arm}
                heard = Heard({}, {}, (), [packed[place] for place in places] if packed else ())
                step = state.choose(points[places], without=others, heard=heard, pays=False)
                ids += range(step.first, step.first + len(places))
                gained += [gains[done + place] for place in places]
            state.complete(ids, [None] * len(ids))
            state.settle(ids, [None] * len(ids), gained)
            done += len(points)

    def _add_belated(self, notes: Sequence[Note], truths: Sequence[Any], scores: dict[str, list[float]]) -> None:
        """Let trees that had no opinion on items be scored by what they say now."""
        said = self.state.learnt.belated(notes) if self.state.learner.score_local == "all" else {}
        for arm, column in said.items():
            for n, (label, truth) in enumerate(zip(column, truths, strict=True)):
                if label is not None and truth is not None:
                    with suppress(RewardError):  # the label is none the worse for it
                        gain = gain_of(self.reward, label, truth, arm)
                        scores.setdefault(arm, [NO_GAIN] * len(notes))[n] = gain

    def _right(self, labels: Sequence[Any], truths: Sequence[Any], gains: Sequence[float]) -> Iterable[bool]:
        if self.reward is right_or_wrong:
            return [gain == 1.0 for gain in gains]
        try:
            return [bool(same) for same in map(eq, labels, truths)]
        except Exception:  # labels of the user's that cannot be compared
            return [False] * len(labels)

    def _gains(
        self, notes: Sequence[Note], truths: Sequence[Any], where: Where
    ) -> tuple[list[float], dict[str, list[float]]]:
        """Return what arms and opinions gain by true labels; not a number where there is a score instead of one."""
        labels, every = [note.label for note in notes], self.state.learner.score_local == "all"
        opinions = _opinion_columns(notes) if every else {}
        if any(truth is None for truth in truths):
            labels = _where_known(labels, truths)
            opinions = {model: _where_known(column, truths) for model, column in opinions.items()}
        gains = gains_of(self.reward, labels, truths, where)
        return gains, scores_of(self.reward, opinions, truths, where)

    def _train(self, examples: Sequence[Example]) -> None:
        if not examples or not self.learning:
            return
        for model in self.state.learner.arms.own:
            if model in self.learning:
                some = [each for each in examples if self.learns_from == "all" or each.arm == model]
                if some:
                    self._needs.append(TrainModel(model, [(each.item, each.truth) for each in some]))

    def _fit_if_due(self) -> None:
        window = self.state.learnt.fitting
        if window is not None and window is not self._fitting:
            self._fitting = window
            self._needs.append(FitTrees(window))

    def fitted(self, need: FitTrees, trees: Trees | None) -> None:
        """Take trees that were fitted; without any, because that failed, the next label retries it."""
        self._fitting = None
        if trees is not None:
            self.state.fitted(trees)
            self._fit_if_due()

    def taught(self, caller: str, forwards: Sequence[Forward]) -> list[CosendError]:
        """Take true labels or scores from a peer, or that there will be none; what is not pending changes nothing.

        Returns what was wrong with labels from which nothing can be learnt; they are no longer waited for.
        """
        state, pending = self.state, self.state.answering.of(caller)
        notes, gone, told = state.learner.registry.notes, list[int](), dict[int, tuple[Any, float | None]]()
        _, _, requests, labels, ends, scores = columns_of(forwards, 6)
        for request, truth, withdrawn, score in zip(requests, labels, ends, scores, strict=True):
            id_ = pending.get(request)
            if self._listening or (withdrawn and id_ is None):  # its question may come, or wait for opinions
                self._ended[caller, request] = self.now
            if id_ is None:
                continue
            if withdrawn or id_ not in notes or (score is None and is_missing(truth)):  # there is nothing to learn from
                gone.append(id_)
            else:
                told.setdefault(request, (truth if score is None else None, score))
        errors = self._teach(caller, told, gone)
        if gone:
            state.withdraw([*dict.fromkeys(gone)])
        self._forget_ended()
        return errors

    def _teach(self, caller: str, told: dict[int, tuple[Any, float | None]], gone: list[int]) -> list[CosendError]:
        """Learn true labels or scores by request; if nothing can be learnt from one, it is added to `gone`."""
        state = self.state
        pending, errors = state.answering.of(caller), list[CosendError]()
        where = f"an answer of site {state.name!r} to {caller!r}"

        def gains_for(requests: Sequence[int]) -> tuple[list[float], dict[str, list[float]]]:
            notes = [state.learner.registry.notes[pending[request]] for request in requests]
            gains, opinions = self._gains(notes, [told[request][0] for request in requests], lambda _: where)
            for n, request in enumerate(requests):
                score = told[request][1]
                if score is not None:
                    check_unit("score", score, where)
                    gains[n] = NO_GAIN if notes[n].label is None else float(score)
            return gains, opinions

        good = [*told]
        try:
            gains, scores = gains_for(good)
        except CosendError:  # find out which of them is bad
            good = []
            for request in told:
                try:
                    gains_for([request])
                    good.append(request)
                except CosendError as error:
                    errors.append(error)
                    gone.append(pending[request])
            gains, scores = gains_for(good)
        if good:
            settled = state.teach(caller, good, [told[request][0] for request in good], gains, scores)
            self.counts.taught[caller] += len(good)
            self._train(settled.examples)
        return errors

    def _forget_ended(self) -> None:
        """Forget what was ended long ago: until then, a question may still come over a slow connection."""
        for key in [*islice(self._ended, max(2, len(self._ended) - MOST_ENDED))]:  # the oldest are first
            if self._ended[key] < self.now - ENDED_FOR or len(self._ended) > MOST_ENDED:
                del self._ended[key]

    # When something is interrupted, or an arm changes

    def abandon(self, batch: Batch) -> None:
        """Take back the decisions of a batch, which were not sent yet. A journal that is behind rules that out."""
        batch.abandoned = True
        self._listening.pop(id(batch), None)
        self._needs = [need for need in self._needs if getattr(need, "batch", None) is not batch]
        if batch.caller is None:
            self.in_flight -= batch.left
        self.shown_early.difference_update(batch.ids)
        self.state.withdraw([id_ for id_ in batch.ids if id_])

    def remove(self, name: str) -> list[Forward]:
        """Remove an arm; returns what it should still be told if it is a peer."""
        forwards = self.state.remove(name)
        self.breakers.forget(name)  # a new arm of that name starts over
        self.forget_peer(name)
        return forwards


def _by_arm(arms: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of items by their arm."""
    if len({*arms}) == 1:
        return {arms[0]: [*range(len(arms))]}
    places: dict[str, list[int]] = {}
    for place, arm in enumerate(arms):
        places.setdefault(arm, []).append(place)
    return places


def _where_known(labels: Sequence[Any], truths: Sequence[Any]) -> list[Any]:
    """Return labels, None where there is no true one."""
    return [None if truth is None else label for label, truth in zip(labels, truths, strict=True)]


def _opinion_columns(notes: Sequence[Note]) -> dict[str, Sequence[Any]]:
    if len(notes) == 1:  # much quicker than what follows
        return {model: (label,) for model, label in zip(notes[0].models, notes[0].said, strict=True)}
    kinds = dict.fromkeys(note.models for note in notes)
    if len(kinds) == 1:
        (models,) = kinds
        return dict(zip(models, zip(*(note.said for note in notes), strict=True), strict=True)) if models else {}
    heard: Iterator[dict[str, Any]] = (dict(zip(note.models, note.said, strict=True)) for note in notes)
    rows = [*heard]
    return {model: [row.get(model) for row in rows] for model in dict.fromkeys(m for each in kinds for m in each)}
