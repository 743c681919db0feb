"""A site in this process: its engine, driven in the caller's thread, with its models and peers called directly."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, get_args

import numpy as np

from cosend.algorithm.layout import MARGIN, OUT, Floats
from cosend.algorithm.learner import PHASES, Learner
from cosend.algorithm.memory import Watch
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import Policy, ShareLabels
from cosend.algorithm.readout import explained
from cosend.algorithm.state import State
from cosend.algorithm.values import LabelledData, Phase, ScoreLocal, read_point
from cosend.alone import NETWORK, Alone, one_at_a_time
from cosend.axes import (
    Axis,
    Column,
    as_axes,
    as_rows,
    check_one,
    read_columns,
    warn_of_no_names,
    watches,
)
from cosend.checks import (
    any_missing,
    as_list,
    check_callable,
    check_kind,
    check_one_of,
    check_whole,
    is_missing,
    no_score,
)
from cosend.engine.arm_health import IN_ITEMS, Breakers
from cosend.engine.budget import Budget, Spending
from cosend.engine.encoding import Codes
from cosend.engine.engine import Batch, Engine, LearnsFrom
from cosend.engine.events import Event, Journal
from cosend.engine.fold import fold
from cosend.engine.learnt_arms import Learnt, Opinions, grow, learnt_arms
from cosend.engine.money import Money, amount, as_cost
from cosend.engine.needs import (
    AskPeer,
    Call,
    CallPeer,
    Decision,
    Failure,
    FitTrees,
    Forward,
    Need,
    Peer,
    Pending,
    Reply,
    RunModel,
    TellPeer,
    TrainModel,
)
from cosend.engine.recording import AT_ONCE, Recording, read_recording
from cosend.engine.scoring import Score, right_or_wrong
from cosend.engine.sharing import Sharing
from cosend.engine.site_state import SiteState
from cosend.engine.snapshot import check_fits, restore, state_of
from cosend.errors import (
    ArmError,
    CosendError,
    NetworkError,
    SettingError,
    SomeUnanswered,
    StateError,
    in_one_line,
    shown,
)
from cosend.explanation import ArmForecast, Explanation, Weights, in_few_words, named_forecasts
from cosend.explanation import weighted_views as weighted_views
from cosend.models.adapters import (
    Classifier,
    all_known_labels,
    all_say_free_text,
    answers_of,
    as_classifier,
    plain,
    predictions,
    teach,
)
from cosend.store.state_file import read_state, write_state
from cosend.text import SmallTable, counted, plain_number, short_text

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
NOBODY: Final = "best local"  # the caller whose questions no label follows; it only breaks ties


class Site:
    """Routes each item to a local model or to a peer, and learns from true labels which of them is right where.

    classifiers    name -> scikit-learn or river model, or a function from item to label
    context        the axes that a decision may depend on: one or several, for example `Feature("duration",
                   scale="log")`. By default every feature of the items; `AllFeatures()` adds them to given axes.
                   `Confidence("tree")` and `Says("tree")` are the opinion of one of its models
    policy         how it decides: by default `MixedViews(max_cells=200_000)`
    costs          name -> cost of using a local model, in [0, 1]: by default 0
    prices         name -> the same in money, for models without a cost
    money          what a correct answer is worth, so that prices can be compared with it
    budget         what it may spend, as a `Budget`, for example `Budget(per_item=0.0007)`: by default no limit
    clock          returns the time in seconds, for a budget by the hour: by default the clock of the computer
    reward         (label, truth) -> gain in [0, 1]; or a `Reward`: what each mistake costs, and the units of scores. By
                   default 1 for a correct label and 0 for others
    patience       how long it waits for labels: by default for ever
    retries        how many further tries an item gets when an arm has failed, the last one among local models
    strict_labels  refuse a true label that no arm could have given; by default that raises a warning, once
    score_local    which models a label scores: "all" that cost nothing, because they are asked about every item, or
                   only the one that was "used". By default "all", or "used" if a policy is given
    learnt         whether it also learns two models from its own labels, which are arms like all others: "grown", trees
                   over the features, and "stack", which combines what all models say. By default it does if labels
                   score all models. `{"mine": Learnt.STACK}` among the classifiers names one of them
    shares         the features, and named functions of its context, that peers may see: by default all. An item
                   without names for its values then stays here
    withholds      the features that peers may not see
    share_labels   when peers are told true labels: after "training" calls, "always" after a call, or "never". By
                   default as the policy says
    learns_from    which labels a model that learns gets: "all" at this site, or those of items that it was "used" for
    journal        a function that takes every event, for example `list.append`; `fold` rebuilds the site from them

    A label is anything hashable: text, a number, a tuple, an Enum. None and NaN mean no answer; a model that says
    anything else, such as a list or an array, has failed.

    An arm that fails is no error: the item gets another arm. After three failures in a row an arm backs off: it is
    skipped for 2, 4, 8 ... 64 items, and `backing_off()` says why. If no arm is left, `classify` raises `NoAnswer`.

    Without classifiers (`classifiers={}`) a site uses the arms that it learns; its first decisions have no answer.

    Several threads may use a site: they take turns, and sites that have peers share one lock, because they call each
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
        prices: Mapping[str, float] | None = None,
        money: Money | None = None,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.time,
        reward: Callable[[Any, Any], float] = right_or_wrong,
        patience: Patience | None = None,
        seed: int = 0,
        retries: int = 3,
        strict_labels: bool = False,
        learns_from: LearnsFrom = "all",
        score_local: ScoreLocal | None = None,
        learnt: bool | None = None,
        shares: Sequence[str] | None = None,
        withholds: Sequence[str] = (),
        share_labels: ShareLabels | None = None,
        journal: Journal | None = None,
    ) -> None:
        costs = {} if costs is None else costs
        check_models(name, classifiers, costs)
        costs = with_prices(name, classifiers, costs, {} if prices is None else prices, money)
        check_callable(f"the reward of site {name!r}", reward, "a function (label, truth) -> gain in [0, 1]")
        check_whole("retries", retries, least=0)
        check_kind("strict_labels", strict_labels, bool, "True or False")
        check_one_of("learns_from", learns_from, get_args(LearnsFrom))
        if share_labels is not None:
            check_one_of("share_labels", share_labels, get_args(ShareLabels))
        if journal is not None:
            check_callable("journal", journal, "a function that takes an event, for example log.append")
        check_callable("clock", clock, "a function that returns the time in seconds")
        self.name, self.money, self._clock = name, money, clock
        learns = learnt_arms(name, classifiers, learnt, policy, score_local)
        self.axes: tuple[Axis, ...] = as_axes(name, context, learns)
        self.classifiers: dict[str, Classifier] = {
            arm: as_classifier(model) for arm, model in classifiers.items() if arm not in learns
        }
        self.peers: dict[str, Peer] = {}
        state = SiteState(
            name,
            local={
                arm: costs.get(arm, 0.0) for arm in (*classifiers, *(arm for arm in learns if arm not in classifiers))
            },
            learnt=learns,
            axes=self.axes,
            policy=policy,
            patience=patience,
            seed=seed,
            score_local=score_local,
            share_labels=share_labels,
            journal=journal,
        )
        options: dict[str, Any] = {"reward": reward, "retries": retries, "strict_labels": strict_labels}
        options["sharing"] = Sharing(shares, withholds)
        self.engine = Engine(state, learns_from=learns_from, back_off=IN_ITEMS, **options)
        self.alone = Alone()
        self._guard_by(state.learner.alone)
        self._look_at_models()
        if budget is not None:
            self.set_budget(budget)
        self._warns_of_no_names = watches(self.axes)
        self._telling: set[str] = set()  # peers that are being told something

    def __repr__(self) -> str:
        learner = self.learner
        arms = f"{counted(len(self.classifiers), 'classifier')}, {counted(len(self.peers), 'peer')}"
        waiting = f"{counted(learner.pending_count, 'label')} pending"
        return f"<Site {self.name!r}: {arms}, {counted(learner.arrivals, 'item')}, {waiting}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    @property
    def learner(self) -> Learner:
        """Its knowledge."""
        return self.engine.state.learner

    @property
    def score_local(self) -> ScoreLocal:
        """Which models a label scores."""
        return self.learner.score_local

    @one_at_a_time
    def pending(self) -> dict[int, Pending]:
        """Return what waits for its true label, by id."""
        return self.engine.state.pending()

    # Items

    @one_at_a_time
    def classify(self, item: Any) -> Decision:
        """Label an item with a local model or by a peer.

        Its features are read by name: of a mapping, a row of pandas, a named tuple, a dataclass, or a row of a NumPy
        array with named fields. A function that is a model gets the item as it is.
        """
        if type(item) is not dict:
            check_one(item)
        batch = self._decided([item], self._read([item]))
        if batch.errors:
            raise batch.errors[0]
        return batch.decision(0)

    @one_at_a_time
    def choose(self, item: Any) -> str:
        """Return the arm that `classify` would take for this item now; nothing is decided, learnt or remembered.

        Free models are run on the item where labels score them, because what they say is part of the choice; peers are
        asked how much labelled data they have where the policy needs to know. The arm itself is not used: if it failed,
        `classify` would take another one. Errors are those of `classify`.

        The knowledge of the site is copied for this, which takes milliseconds where it has many cells.

        >>> from cosend import Site
        >>> site = Site("here", classifiers={"zero": lambda item: 0, "one": lambda item: 1}, learnt=False)
        >>> for n in range(20):
        ...     site.learn(site.classify({"x": n}), 1)
        >>> site.choose({"x": 20})
        'one'
        >>> site
        <Site 'here': 2 classifiers, 0 peers, 20 items, 0 labels pending>
        """
        return self._drafted(item, self.engine.draft()).arms[0]

    def _drafted(self, item: Any, engine: Engine) -> Batch:
        """Let a draft of the engine route an item, and use no arm; raises as `classify` does."""
        if type(item) is not dict:
            check_one(item)
        columns = read_columns(self.axes, [item])
        engine.now += 1
        engine.at = float(self._clock()) if engine.state.goes_by_time else None
        batch = engine.submit([item], columns)
        needs = deque(engine.take())
        while needs:
            need = needs.popleft()
            if isinstance(need, RunModel) and need.is_opinion:
                engine.heard(need, 0, *answers_of(need.model, self.classifiers[need.model], need.items))
            elif isinstance(need, AskPeer):
                engine.reported(need, self._reports(need))
            needs += engine.take()
        if batch.errors:
            raise batch.errors[0]
        return batch

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
        sites = [self, *(peer for peer in self.peers.values() if isinstance(peer, Site))]
        spends = self.engine.state.accounts is not None
        if len(rows) > 1 and (spends or any(site.may_drop(len(rows)) for site in sites)):
            # Decisions that expire are passed on before the next item, as they would be one by one; and the cost that
            # an answer reports is spent before it.
            parts = [([row], [column[n : n + 1] for column in columns]) for n, row in enumerate(rows)]
        else:
            parts = [(rows, columns)]
        batches: list[Batch] = []
        try:
            batches += (self._decided(*part) for part in parts)
        except BaseException:
            for batch in batches:
                self._abandon(batch)
            raise
        if not any(batch.errors for batch in batches):
            return [batch.decision(row) for batch in batches for row in range(len(batch.items))]
        decisions: list[Decision | None] = []
        errors = {}
        for batch in batches:
            errors.update({len(decisions) + row: error for row, error in batch.errors.items()})
            decisions += [None if n in batch.errors else batch.decision(n) for n in range(len(batch.items))]
        raise SomeUnanswered(self.name, decisions, dict(sorted(errors.items())))

    def _read(self, items: Sequence[Any]) -> list[Column]:
        """Return what the axes read off items; if every feature is looked at, say once that an item has none."""
        columns: list[Any] = read_columns(self.axes, items)
        if self._warns_of_no_names and warn_of_no_names(self.name, items, columns[-1]):
            self._warns_of_no_names = False
        return columns

    def _decided(self, items: Sequence[Any], columns: Sequence[Column]) -> Batch:
        """Decide on items; whatever interrupts this, Ctrl-C too, leaves no unknown decision behind."""
        engine = self.engine
        if engine.state.outbox:
            self._tell_all()  # a peer that cannot be told anything yet is not called either
        engine.now += len(items)
        engine.at = float(self._clock()) if engine.state.goes_by_time else None
        batch = engine.submit(items, columns)
        try:
            self._execute(engine.take())
        except BaseException:
            self._abandon(batch)
            raise
        return batch

    def _abandon(self, batch: Batch) -> None:
        with suppress(StateError):  # the journal is behind: it must be recovered from
            self.engine.abandon(batch)
            self._execute(self.engine.take())

    # Needs of the engine

    def _execute(self, needs: Sequence[Need]) -> list[CosendError]:
        """Do what the engine needs, and what follows from that; returns what went wrong in teaching."""
        engine, waiting, errors = self.engine, deque[Need](), list[CosendError]()
        while needs or waiting:
            for need in needs:  # what a peer is to be told goes first, as if items came one by one
                (waiting.appendleft if isinstance(need, TellPeer) else waiting.append)(need)
            need = waiting.popleft()
            if isinstance(need, RunModel):
                answers, sure, costs = answers_of(need.model, self.classifiers[need.model], need.items)
                if need.is_opinion:
                    engine.heard(need, 0, answers, sure, costs)
                else:
                    engine.answered(need, 0, answers, costs=costs)
            elif isinstance(need, CallPeer):
                engine.answered(need, 0, _called(self.peers[need.peer], need.call))
            elif isinstance(need, AskPeer):
                engine.reported(need, self._reports(need))
            elif isinstance(need, TellPeer):
                if not engine.breakers.is_failing(need.peer):  # else it is told before the next items
                    errors += self._tell(need.peer)
            elif isinstance(need, TrainModel | FitTrees):
                errors += self._train(need)
            needs = engine.take()
        return errors

    def _reports(self, need: AskPeer) -> list[LabelledData] | Failure:
        """Return how much labelled data a peer says it has, or whatever keeps it from saying so."""
        peer = self.peers[need.peer]
        of_item = getattr(peer, "report_of", None)  # of one that may describe items in another way
        try:
            if of_item is None:
                return [peer.report(context) for context in need.contexts]
            items = [batch.shared[row] for batch, row in need.waiting]
            return [of_item(item, context, need.axes) for item, context in zip(items, need.contexts, strict=True)]
        except Exception as error:  # of the peer, or of the way to it
            return Failure(in_one_line(error), "network")

    def _tell_all(self) -> None:
        for peer in [*self.engine.state.outbox]:
            self._tell(peer)

    def _tell(self, peer: str) -> list[CosendError]:
        """Tell a peer all that is queued for it; one that cannot be reached keeps its queue.

        Returns what went wrong at a peer that was told.
        """
        engine, errors = self.engine, list[CosendError]()
        if peer in self._telling or peer in engine.breakers.skipped(engine.now) or peer not in self.peers:
            return errors  # what it answers may come back here: that is told when this is done
        self._telling.add(peer)
        try:
            while forwards := engine.state.forwards(peer, 1):
                reason = _taught(self.peers[peer], forwards[0], errors)
                if reason is not None:
                    engine.breakers.failed(peer, engine.now, reason)
                    break
                engine.state.peer_told(peer, 1)
        finally:
            self._telling.discard(peer)
        return errors

    def _train(self, need: TrainModel | FitTrees) -> list[CosendError]:
        errors: list[CosendError] = []
        if isinstance(need, FitTrees):  # a service began this fit
            self.engine.fitted(need, grow(need.window))
            return errors
        for item, truth in need.examples:
            try:
                teach(need.model, self.classifiers[need.model], item, truth)
            except CosendError as error:
                errors.append(error)
        return errors

    # True labels

    def learn(
        self,
        decision: int | Decision,
        truth: Any = None,
        cost: float | None = None,
        *,
        score: Score | None = None,
        price: float | None = None,
    ) -> None:
        """Learn the true label of an item, or a score; `cost` is what the decision really cost, if that is known.

        `price` is the same in money.

        None, NaN, NaT and `pd.NA` are no label: it is missing, and the decision stays pending. So are they no score.

        score  what the answer was worth, where no true label is known: in [0, 1], or in the units of the `Reward`. By
               arm, where more is known: of the arm that was used, and of free local models. An arm that
               the site learns itself has the score of a model that said the same.

        A score teaches the site which arm to use. Models, and arms that the site learns itself, learn from labels only.

        >>> from cosend import Site
        >>> models = {"short": lambda item: item["text"][:9], "long": lambda item: item["text"]}
        >>> site = Site("here", classifiers=models)
        >>> site.learn(site.classify({"text": "an item"}), score=0.7)
        >>> decision = site.classify({"text": "another item"})
        >>> site.learn(decision, score={"short": 0.2, "long": 0.9})
        """
        scores = None if score is None else [score]
        prices = None if price is None else [price]
        self.learn_many([decision], [truth], None if cost is None else [cost], scores=scores, prices=prices)

    @one_at_a_time
    def learn_many(
        self,
        decisions: Iterable[int | Decision],
        truths: Iterable[Any] | None = None,
        costs: Iterable[float | None] | None = None,
        *,
        scores: Iterable[Score | None] | None = None,
        prices: Iterable[float | None] | None = None,
    ) -> int:
        """Learn many true labels or scores at once, with the same result as one by one; decisions by themselves or id.

        Returns how many of them are missing, as `learn` has it: these decisions stay pending. If a model fails to
        learn, all labels are learnt and passed on before the first failure is raised.
        """
        given = as_list("decisions", decisions, "a list of ids")
        ids = [each.id if isinstance(each, Decision) else each for each in given]
        if truths is None and scores is None:
            raise SettingError("truths", None, "a list of labels, or scores in their place")
        labels = [None] * len(ids) if truths is None else as_list("truths", truths, "a list of labels")
        labels = [plain(truth) for truth in labels]
        costs = None if costs is None else as_list("costs", costs, "a list of costs, or None")
        earned = None if scores is None else as_list("scores", scores, "a list of scores, or None")
        paid = None if prices is None else as_list("prices", prices, "a list of prices, or None")
        columns: dict[str, Sequence[Any] | None] = {"truths": labels, "costs": costs, "scores": earned, "prices": paid}
        for name, column in columns.items():
            if column is not None and len(column) != len(ids):
                raise SettingError(name, len(column), f"as many as decisions ({len(ids)})")
        if paid is not None:
            both = zip(ids, costs or [None] * len(ids), paid, strict=True)
            costs = [as_cost(self.money, cost, price, f"decision {id_}") for id_, cost, price in both]
        if earned is not None:
            labels, earned = labels_or_scores(ids, labels, earned)
        missing = 0
        if any_missing(labels):
            blank = [n for n, truth in enumerate(labels) if is_missing(truth) and (earned is None or earned[n] is None)]
            missing = len(blank)
        if missing:
            self.engine.state.notes_of(ids)  # raises if one of them is not pending
            known = sorted({*range(len(ids))}.difference(blank))
            ids, labels = [ids[n] for n in known], [labels[n] for n in known]
            costs = None if costs is None else [costs[n] for n in known]
            earned = None if earned is None else [earned[n] for n in known]
        if ids or not missing:
            self.engine.learn(ids, labels, costs, earned)
            for error in self._execute(self.engine.take()):
                raise error
        return missing

    @one_at_a_time
    def begin_with(
        self,
        items: Any,
        truths: Iterable[Any] | None = None,
        *,
        arms: Iterable[str] | None = None,
        scores: Iterable[float | None] | None = None,
        propensities: Iterable[float] | None = None,
    ) -> int:
        """Learn what is known before the first item, or later: a recording with labels, or another system's log.

        Each row counts as an item of the site, and is an event like any other. Returns how many were learnt: not those
        whose label or score is missing, and not those that no free local model could label.

        truths        the true labels: every free local model is run on the rows, and labels teach the site, the models
                      that learn and the arms that it learns itself
        arms, scores  which local arm was used for each row, and the score of that: no model is run
        propensities  how likely that arm was for its row, where it is known: rows are thinned until every arm was as
                      likely as the least likely one, so that it does not matter on what the other system has decided

        >>> from cosend import Site
        >>> site = Site("here", classifiers={"one": lambda item: 1, "zero": lambda item: 0})
        >>> site.begin_with([{"x": 0.1}, {"x": 0.2}], [1, 1])
        2
        >>> site.begin_with([{"x": 0.3}, {"x": 0.4}], arms=["one", "zero"], scores=[0.9, 0.2])
        2
        """
        rows = as_rows(f"the items for site {self.name!r}", items)
        recording = read_recording(rows, truths, arms, scores, propensities, self.learner.seed)
        if recording.arms:
            self.engine.check_log(recording.arms, recording.known)
        learnt, done = 0, 0
        while done < len(recording.rows):
            count = 1 if self.may_drop(AT_ONCE) else AT_ONCE
            part = recording.part(done, count)
            done += count
            learnt += self._begin_with(part)
        return learnt

    def _begin_with(self, part: Recording) -> int:
        columns = self._read(part.rows)
        if part.arms:
            self.engine.enter_log(part.rows, columns, part.arms, part.known)
            self._execute(self.engine.take())
            return len(part.rows)
        batch = self.engine.submit(part.rows, columns, recorded=True)
        try:
            self._execute(self.engine.take())
        except BaseException:
            self._abandon(batch)
            raise
        made = [row for row, id_ in enumerate(batch.ids) if id_ and row not in batch.errors]
        known = [plain(part.known[row]) for row in made]
        self.engine.learn([batch.ids[row] for row in made], known, counted=False)
        for error in self._execute(self.engine.take()):
            raise error
        return len(made)

    @one_at_a_time
    def may_drop(self, items: int) -> bool:
        """Tell whether anything here could expire while this many items come or are answered."""
        return self.learner.registry.may_overflow(items, self.learner.arrivals)

    @one_at_a_time
    def is_pending(self, decision: int | Decision) -> bool:
        """Tell whether a decision waits for its label."""
        return (decision.id if isinstance(decision, Decision) else decision) in self.learner.registry

    # Arms join and leave, pause and resume

    @one_at_a_time
    def add_classifier(self, name: str, model: Any, cost: float | None = None, *, price: float | None = None) -> None:
        """Add a local model, or `Learnt.STACK` or `Learnt.GROWN`; without a cost or price it costs nothing."""
        cost = self._cost(name, cost, price)
        if isinstance(model, Learnt):
            self.engine.state.add_model(name, cost, model.value)
        else:
            classifier = as_classifier(model)
            self.learner.arms.check_new(name, cost)
            self.classifiers[name] = classifier  # first: whatever can be chosen must be there, also after Ctrl-C
            self.engine.state.add_model(name, cost)
        self._look_at_models()

    def add_peer(
        self, name: str, peer: Peer, cost: float | None = None, functions: int = 1, *, price: float | None = None
    ) -> None:
        """Add a peer that announces this many models. From now on, all sites that have peers share a lock."""
        cost = self._cost(name, cost, price)
        if name == self.name:
            raise NetworkError(f"site {name!r} cannot be its own peer")
        for verb in ("report", "serve", "teach"):
            check_callable(f"{verb} of peer {name!r}", getattr(peer, verb, None), "a method of the peer, as of a Site")
        with NETWORK.lock, self.alone.lock:
            self.learner.arms.check_new(name, cost, functions)
            self._guard_by(NETWORK)
            self.peers[name] = peer  # first, for the same reason
            self.engine.state.add_peer(name, cost, functions)

    @one_at_a_time
    def remove(self, name: str) -> None:
        """Remove a local model or a peer; decisions pending for it are dropped, and answers to it."""
        forwards = self.engine.remove(name)
        self.classifiers.pop(name, None)
        self._look_at_models()
        peer = self.peers.pop(name, None)
        for forward in forwards if peer is not None else ():
            if peer is None or _taught(peer, forward, []) is not None:
                break
        self._execute(self.engine.take())

    @one_at_a_time
    def set_cost(self, arm: str, cost: float | None = None, *, price: float | None = None) -> None:
        """Change the cost of a local model or of calling a peer, or its price, from now on."""
        if cost is None and price is None:
            raise SettingError(f"the cost of arm {arm!r}", None, "a cost in [0, 1] or a price")
        self.engine.state.set_cost(arm, self._cost(arm, cost, price))

    def _cost(self, arm: str, cost: float | None, price: float | None) -> float:
        known = as_cost(self.money, cost, price, f"arm {arm!r} of site {self.name!r}")
        return 0.0 if known is None else known

    @one_at_a_time
    def pause(self, arm: str) -> None:
        """Stop using a local model or a peer until `resume`; what was learnt about it is kept."""
        self.engine.state.pause(arm)

    @one_at_a_time
    def resume(self, arm: str) -> None:
        """Resume a local model or a peer, with what was known about it."""
        self.engine.state.resume(arm)

    @one_at_a_time
    def backing_off(self) -> dict[str, str]:
        """Return the arms that are backing off, and why each failed the last time."""
        return self.engine.breakers.reasons(self.engine.now)

    def _look_at_models(self) -> None:
        self.engine.known_labels = all_known_labels(self.classifiers.values())
        self.engine.free_text = all_say_free_text(self.classifiers.values())
        self.engine.learning = frozenset(name for name, model in self.classifiers.items() if model.learns)

    # Being a peer

    @one_at_a_time
    def report(self, context: tuple[Any, ...]) -> LabelledData:
        """Return how much labelled data there is around a context."""
        return self.engine.state.report(context)

    @one_at_a_time
    def report_of(self, item: Any, context: tuple[Any, ...], axes: tuple[str, ...]) -> LabelledData:
        """Return how much labelled data there is around an item of a peer, whose axes have these names."""
        return self.engine.state.report_on(item, context, axes)

    @one_at_a_time
    def serve(self, call: Call) -> list[Reply]:
        """Answer a peer's questions with local models; one that fails is replaced by another."""
        questions = call.questions
        if len(questions) > 1 and (self.engine.state.watches_peers or self.may_drop(len(questions))):
            return [reply for question in questions for reply in self.serve(call._replace(questions=[question]))]
        self.engine.now += len(questions)
        batch = self.engine.asked(call)
        try:
            self._execute(self.engine.take())
        except BaseException:
            self._abandon(batch)
            raise
        return batch.replies()

    @one_at_a_time
    def teach(self, forward: Forward) -> None:
        """Take the true label of an item that was answered for a peer; one that is not pending changes nothing."""
        errors = self.engine.taught(forward.caller, [forward])
        errors += self._execute(self.engine.take())
        for error in errors:
            raise error

    # Settings

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The names of the axes; features that have got one are behind those that were given."""
        return self.engine.state.encoder.axis_names

    @one_at_a_time
    def weights(self) -> Weights:
        """Return by name the parts of the context, and how much weight each has: a dict that prints as a table."""
        return weighted_views(self.learner.views(), self.axis_names)

    @one_at_a_time
    def explain(self, item: Any) -> Explanation:
        """Return why `classify` would take an arm for an item now: a sentence and tables to print, or fields to read.

        A decision of this site can be explained too, whether or not its label has come: by its context, with what is
        known now. Right after `classify`, this explains the decision. Nothing changes, and free models are run on
        an item, as in `choose`. Only `MixedViews` can be explained.

        >>> from cosend import Site, axes
        >>> models = {"small": lambda item: "a", "large": lambda item: item["topic"]}
        >>> site = Site("here", classifiers=models, costs={"large": 0.2}, context=axes.Category("topic"), learnt=False)
        >>> for n in range(100):
        ...     item = {"topic": "ab"[n * 7 % 10 // 5]}
        ...     site.learn(site.classify(item), item["topic"])
        >>> print(site.explain({"topic": "b"}).sentence())
        topic = b: small is right 3% of the time, large 100% less 20% cost: large
        """
        engine = self.engine.draft()
        state, watch = engine.state, engine.state.learner.watch()
        if isinstance(item, Decision):
            subject, arm, phase, now = self._as_decided(item, engine)
        else:
            batch = self._drafted(item, engine)
            arm, phase = now, _ = batch.arms[0], PHASES[batch.kinds[0]]
            axes = state.encoder.axis_names
            subject = in_few_words(item, weighted_views(state.learner.views(), axes), axes)
        views = named_forecasts(explained(state.learner.ledger, state.learner.arms.names), state.encoder.axis_names)
        by_labels = engine.reward is right_or_wrong and not self.engine.counts.scored_by_hand
        return Explanation(subject, arm, phase, self._weighed(watch, arm), views, now, by_labels)

    def _as_decided(self, decision: Decision, engine: Engine) -> tuple[str, str, Phase, str]:
        """Return what to call a decision, its arm and phase, and the arm that a draft chooses in its context now."""
        state, learner = engine.state, engine.state.learner
        learner.arms.number(decision.arm)  # raises if it has left, or was never here
        point = read_point(self.name, state.point(decision.context), learner.dimensions)
        silent = {arm for arm in state.learnt.kinds if arm != decision.arm and not state.learnt.can_say(arm)}
        silent |= {*state.unpaid_arms()} - {decision.arm}
        at = float(self._clock()) if state.goes_by_time else None
        (now,) = state.choose(point[None], without=silent, at=at).arms
        both = [(state.encoder.axis_names[n], decision.context[n]) for n in state.encoder.categories]
        where = ", ".join(f"{name} = {short_text(value)}" for name, value in both)
        return f"decision {decision.id}" + (f" ({where})" if where else ""), decision.arm, decision.phase, now

    def _weighed(self, watch: Watch, chosen: str) -> list[ArmForecast]:
        """Return what a choice went by."""
        arms, backing_off = self.learner.arms, self.engine.breakers.skipped(self.engine.now)
        margin, found = float(self.learner.ledger.parameters[MARGIN]), list[ArmForecast]()
        columns = (watch.means.tolist(), watch.costs.tolist(), watch.worths.tolist())
        for name, usual, gain, cost, worth in zip(arms.names, arms.costs, *columns, strict=True):
            is_out, is_peer = cost == OUT, name in arms.peers
            state = "paused" if name in arms.paused else "backing off" if name in backing_off else "not now"
            state = "chosen" if name == chosen else state if is_out else ""
            cost = (usual if is_out else cost) + (margin if is_peer else 0.0)
            kind = "peer" if is_peer else "local"
            found.append(ArmForecast(name, kind, gain, cost, None if is_out else worth, state))
        return found

    @one_at_a_time
    def best_model(self, items: Sequence[Any]) -> list[str]:
        """Return for every item the local model that has done best so far around its context.

        Nothing is decided, explored or remembered: the same items get the same answer in any order. An arm that the
        site learns itself, and that has learnt nothing yet, is named only where there is no other.

        >>> from cosend import Site, axes
        >>> models = {"zero": lambda item: 0, "one": lambda item: 1}
        >>> site = Site("here", classifiers=models, context=axes.Feature("x", range=(0, 1)))
        >>> for _ in range(10):
        ...     site.learn(site.classify({"x": 0.5}), 1)
        >>> site.best_model([{"x": 0.5}])
        ['one']
        """
        state, arms = self.engine.state, self.learner.arms
        points = self._points(items)
        flags = [(False, False)] * len(points)  # neither training nor a label to come: nothing is entered
        silent = {arm for arm in state.learnt.kinds if not state.learnt.can_say(arm)}
        without = silent if arms.own.keys() - arms.paused - silent else ()
        answers = self.learner.answer_many(
            points, caller=NOBODY, requests=[0] * len(points), flags=flags, without=without
        )
        return [answer.function for answer in answers]

    def _points(self, items: Sequence[Any]) -> Floats:
        """Return where items would lie now; models are only asked where their opinions are part of the context."""
        state, paused = self.engine.state, self.learner.arms.paused
        points = state.encoder.look(items, self.learner.arrivals)
        if state.encoder.heard:
            state.encoder.hear(points, self._opinions(items, points, without=paused), Codes.find)
        return points

    @one_at_a_time
    def predict(self, arm: str, items: Sequence[Any]) -> list[Any]:
        """Return what a local model says about items: nothing is decided, learnt or remembered.

        An arm that the site learns itself hears the others; before it has learnt anything, it says None, and a stack
        what most of the others say.
        """
        if arm not in self.engine.state.learnt.kinds:
            return predictions(arm, self.classifiers[arm], items).labels
        points = self.engine.state.encoder.look(items, self.learner.arrivals)
        return [*self._opinions(items, points).said.get(arm, [None] * len(items))]

    def _opinions(self, items: Sequence[Any], points: Floats, without: Collection[str] = ()) -> Opinions:
        """Return what free local models say about items, those among them that the site learns itself."""
        state, said, sure = self.engine.state, dict[str, Sequence[Any]](), dict[str, Any]()
        for name, cost in self.learner.arms.own.items():
            if name in self.classifiers and not cost and name not in without:
                answers, confidences, _ = answers_of(name, self.classifiers[name], items)
                said[name] = [None if type(each) is Failure or is_missing(each) else each for each in answers]
                if confidences is not None:
                    sure[name] = np.array(confidences, np.float32)
        arms = [arm for arm in state.learnt.kinds if arm not in without]
        seen, newest = state.look(items, points), state.encoder.newest_label
        learnt = state.learnt.opinions(arms, seen, newest, Opinions(said, sure))
        return Opinions({**said, **learnt.said}, {**sure, **learnt.sure})

    @one_at_a_time
    def learnt(self) -> dict[str, LearntArm]:
        """Return the arms that it learns itself, and from how many labels."""
        return learnt_by(self.engine.state)

    @one_at_a_time
    def summary(self) -> Summary:
        """Return how its arms have done since it was built or loaded: a table to print, or to show in a notebook.

        >>> from cosend import Site, axes
        >>> site = Site("here", classifiers={"one": lambda item: 1}, context=axes.Feature("x", range=(0, 1)))
        >>> site.learn(site.classify({"x": 0.5}), 1)
        >>> print(site.summary())
        here: 1 item, 0 labels pending
        arm     kind  cost  decisions  share  labels  mean reward  state
        one    local     0          0     0%       0
        grown  local     0          0     0%       0
        stack  local     0          1   100%       1        1.000
        """
        learner, counts = self.learner, self.engine.counts
        states = dict.fromkeys(self.backing_off(), "backing off") | dict.fromkeys(learner.arms.paused, "paused")
        arms = [
            ArmSummary(
                arm,
                kind,
                cost,
                counts.decisions_of([arm]),
                counts.labels_of(arm),
                counts.mean_reward([arm]),
                states.get(arm, ""),
                counts.labels_of(arm) + counts.opinions[arm],
                None if self.money is None else self.money.price(cost),
                amount(self.money, self.engine.state.spent.of(arm)),
            )
            for kind, of_kind in (("local", learner.arms.own), ("peer", learner.arms.peers))
            for arm, cost in of_kind.items()
        ]
        known_by = "score" if counts.only_scores else "label"
        currency = "" if self.money is None else self.money.currency
        spending = self.spending()
        return Summary(self.name, learner.arrivals, learner.pending_count, arms, known_by, currency, spending)

    @one_at_a_time
    def spending(self) -> list[Spending]:
        """Return how much of its budget is spent: an entry for each limit, none without a budget."""
        accounts = self.engine.state.accounts
        return [] if accounts is None else accounts.spending(self.money)

    @one_at_a_time
    def set_budget(self, budget: Budget | None) -> None:
        """Keep to another budget from now on, or to none; a limit of the same kind keeps what was spent.

        >>> from cosend import Budget, Site
        >>> site = Site("here", classifiers={"free": lambda item: 0, "paid": lambda item: 1}, costs={"paid": 0.5})
        >>> site.set_budget(Budget(total=10.0))
        >>> print(*site.spending())
        budget of 10 costs in total: spent 0 costs
        """
        if budget is not None:
            check_kind("budget", budget, Budget, "a Budget, for example Budget(per_item=0.0007)")
            budget = budget.in_costs(self.money)
        self.engine.state.set_budget(budget)

    # Saved state

    def _guard_by(self, alone: Alone) -> None:
        """Let one thread at a time use it and its learner, by this lock."""
        self.alone = self.engine.state.learner.alone = alone

    @one_at_a_time
    def state(self) -> State:
        """Return everything it needs, except the models it was given, to continue as if it had never stopped."""
        state = state_of(self.engine.state)
        state.facts["site"]["items"] = self.engine.now
        state.facts["site"]["breakers"] = self.engine.breakers.rows()
        return state

    @one_at_a_time
    def restore(self, state: State) -> Callable[[], None]:
        """Check that a state fits and return the function that puts it there, which cannot fail."""
        if self.engine.state.journal is not None:
            raise StateError(
                f"site {self.name!r} has a journal, so it cannot continue from a saved state: recover from the journal"
            )
        put_there = restore(self.engine.state, state)
        try:
            saved = state.facts["site"]
            breakers, items = Breakers(IN_ITEMS, saved["breakers"]), float(int(saved["items"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateError(f"the saved state of site {self.name!r} is damaged: {error!r}") from error

        def commit() -> None:
            with self.alone.lock:
                put_there()
                self._guard_by(self.alone)
                self.engine.breakers, self.engine.now = breakers, items

        return commit

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save what it knows to a file; its models are not saved."""
        write_state(self.state(), path)

    @one_at_a_time
    def load(self, path: str | os.PathLike[str]) -> None:
        """Continue from what `save` has written for a site of the same name, models, peers and context.

        Saved values (costs, policy, patience, seed) override the arguments of the site.
        """
        self.restore(read_state(path))()

    @one_at_a_time
    def recover(self, log: Iterable[Event], journal: Journal | None = None) -> None:
        """Continue from the events that a journal got, for a site of the same name, models, peers and context.

        `journal` takes the events from now on.
        """
        state = fold(log, axes=self.axes, journal=journal)
        check_fits(state.learner, self.engine.state)
        self.engine.state = state
        self._guard_by(self.alone)


# Parts of a site


def check_models(site: Any, classifiers: Any, costs: Any) -> None:
    """Raise unless a site may have this name, these models and these costs of them."""
    if not isinstance(site, str) or not NAME.fullmatch(site):
        allowed = "letters, digits, '_', '.' or '-', starting with a letter or digit"
        raise SettingError("the name of a site", site, allowed)
    check_kind(f"the classifiers of site {site!r}", classifiers, Mapping, "a mapping from names to models")
    check_kind(f"the costs of site {site!r}", costs, Mapping, "a mapping from classifiers to costs")
    unknown = [arm for arm in costs if arm not in classifiers]
    if unknown:
        raise ArmError(f"site {site!r} has a cost for {unknown[0]!r}, which is not one of its classifiers")


def labels_or_scores(
    decisions: Sequence[Any], labels: Sequence[Any], scores: Sequence[Score | None]
) -> tuple[list[Any], list[Score | None] | None]:
    """Return labels, None where there is a score, and scores, None where there is none; None without any score."""
    found = [None if no_score(score) else score for score in scores]
    if all(score is None for score in found):
        return [*labels], None
    for decision, label, score in zip(decisions, labels, found, strict=True):
        if score is not None and not is_missing(label):
            raise SettingError(f"decision {decision!r}", f"the label {shown(label)} and a score", "one of the two")
    both = zip(labels, found, strict=True)
    return [label if score is None else None for label, score in both], found


def with_prices(
    site: str, classifiers: Mapping[str, Any], costs: Mapping[str, float], prices: Any, money: Money | None
) -> Mapping[str, float]:
    """Return the costs of models with those that are given as prices."""
    check_kind(f"the prices of site {site!r}", prices, Mapping, "a mapping from classifiers to prices")
    if money is not None:
        check_kind("money", money, Money, 'a Money, such as Money(0.02, "USD")')
    for arm in prices:
        if arm not in classifiers:
            raise ArmError(f"site {site!r} has a price for {arm!r}, which is not one of its classifiers")
    found = {
        arm: as_cost(money, costs.get(arm), price, f"arm {arm!r} of site {site!r}") for arm, price in prices.items()
    }
    return {**costs, **{arm: cost for arm, cost in found.items() if cost is not None}}


# Answers of arms


def _called(peer: Peer, call: Call) -> list[Any]:
    """Return what a peer answers; whatever keeps it from answering is a failure for every question."""
    count = len(call.questions)
    try:
        replies = peer.serve(call)
        if not isinstance(replies, list) or not all(isinstance(reply, Reply) for reply in replies):
            raise NetworkError("it must give a list of replies")
        if len(replies) != count:
            raise NetworkError(f"it gave {len(replies)} replies to {count} questions")
    except Exception as error:  # of the peer, of the way to it, or of what it sent
        return [Failure(in_one_line(error), "network")] * count
    return [reply.label if reply.failed is None else Failure(str(reply.failed)) for reply in replies]


def _taught(peer: Peer, forward: Forward, errors: list[CosendError]) -> str | None:
    """Tell a peer a label; returns why it cannot be reached, None if it has taken it."""
    try:
        peer.teach(forward)
    except (NetworkError, StateError) as error:  # it cannot be reached, or cannot take anything now
        return in_one_line(error)
    except CosendError as error:  # it was told, and could not learn from it
        errors.append(error)
    except Exception as error:  # whatever lies between here and there
        return in_one_line(error)
    return None


# How arms have done


class LearntArm(NamedTuple):
    """An arm that a site learns itself."""

    kind: str  # "grown" or "stack"
    labels: int  # that it could learn from
    fitted: int  # how many of them had come when it was fitted last; 0 before the first fit


def learnt_by(state: SiteState) -> dict[str, LearntArm]:
    """Return the arms that a site learns itself."""
    learnt = state.learnt
    return {
        arm: LearntArm(kind.value, learnt.count, learnt.fitted if kind is Learnt.GROWN else learnt.count)
        for arm, kind in learnt.kinds.items()
    }


class ArmSummary(NamedTuple):
    """How one arm has done."""

    name: str
    kind: str  # "local" or "peer"
    cost: float
    decisions: int
    labels: int  # of its decisions, and scores
    mean_reward: float | None  # of these, net of its cost; None before the first label
    state: str  # "" if it can be used, else "paused" or "backing off"
    scored: int  # labels that have scored it: of its decisions, and of others on which it had an opinion
    price: float | None = None  # its cost in money, where a site knows the value of a correct prediction
    spent: float = 0.0  # what its decisions have cost since the site was created: in money, if there are prices


class Summary(NamedTuple):
    """How a site has done: print it, show it in a notebook, or read its fields."""

    site: str
    items: int
    pending: int
    arms: Sequence[ArmSummary]
    known_by: str = "label"  # what has come: labels, or "score" if nothing else has
    currency: str = ""  # of prices
    spending: Sequence[Spending] = ()  # how the limits of a budget stand

    def table(self) -> SmallTable:
        """Return it as a table."""
        decisions = sum(arm.decisions for arm in self.arms)
        title = f"{self.site}: {counted(self.items, 'item')}, {counted(self.pending, self.known_by)} pending"
        title = "; ".join([title, *map(str, self.spending)])
        heading = ["arm", "kind", "cost", "decisions", "share", f"{self.known_by}s", "mean reward", "state"]
        rows = [_arm_row(arm, decisions) for arm in self.arms]
        if any(arm.price is not None for arm in self.arms):
            heading.insert(3, f"price {self.currency}".strip())
            for arm, row in zip(self.arms, rows, strict=True):
                row.insert(3, plain_number(arm.price or 0.0, 6))
        if any(arm.spent for arm in self.arms):
            heading.insert(-1, f"spent {self.currency}".strip())
            for arm, row in zip(self.arms, rows, strict=True):
                row.insert(-1, plain_number(arm.spent, 6))
        return SmallTable(title, heading, rows)

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def _arm_row(arm: ArmSummary, decisions: int) -> list[str]:
    share = f"{100 * arm.decisions / decisions:.0f}%" if decisions else ""
    reward = "" if arm.mean_reward is None else f"{arm.mean_reward:.3f}"
    numbers = plain_number(arm.cost, 6), f"{arm.decisions:,}", share, f"{arm.labels:,}", reward
    return [arm.name, arm.kind, *numbers, arm.state]
