"""A learner: the rules of one site, without its models.

Two verbs: `choose` an arm for a context, `learn` the reward of a choice when it is known. It never waits: when the
rule must know how much labelled data a peer has, `choose` returns that question and is called again with the reply.
As a peer of others it has two more: `report` how much labelled data it has, and `answer` a call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Final, Self, TypeAlias, get_args

import numpy as np

from cosend.algorithm import api
from cosend.algorithm import layout as col
from cosend.algorithm.arms import Arms
from cosend.algorithm.cos import ASK
from cosend.algorithm.layout import EXPLOIT, EXPLORE, MOST, MOST_AXES, TRAIN, Floats, Ints, Ledger
from cosend.algorithm.memory import MixedMemory, Watch, new_memory
from cosend.algorithm.mixture_views import Handed, NewAxes
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import Policy, how_to_decide
from cosend.algorithm.readout import compare_views, explained, look_inside
from cosend.algorithm.state import State, restored, state_of
from cosend.algorithm.values import (
    Answer,
    AskPeer,
    Batch,
    Cell,
    Choice,
    LabelledData,
    Phase,
    PointLike,
    ScoreLocal,
    View,
    ViewForecast,
    bad_context,
    category_bits,
    check_points,
    read_point,
    read_points,
)
from cosend.alone import Alone, one_at_a_time
from cosend.checks import (
    LARGEST,
    as_list,
    check_count,
    check_counts,
    check_kind,
    check_one_of,
    check_text,
    check_unit,
    check_whole,
)
from cosend.errors import ArmError, DecisionError, SettingError, SettledDecision, UnknownDecision

Made: TypeAlias = tuple[list[int], list[int], list[int], list[int]]  # phases, arms, cells and candidates of choices
Waited: TypeAlias = tuple[int, int, int]  # arm, kind and arrival of a pending id; the arm is -1 if it is not pending
NOBODY: Final[Mapping[str, LabelledData]] = {}
PHASES: Final = {TRAIN: Phase.TRAIN, EXPLORE: Phase.EXPLORE, EXPLOIT: Phase.EXPLOIT}
ENTRIES: Final = 8  # the place of the table of pending decisions among the arrays
MOST_FEATURES: Final = 900  # that get axes: a view of one of them is a bit of a double, however high


class Learner:
    """Chooses an arm for every context and learns from late rewards which one is best where.

    name        of the site; draws depend on it
    own, peers  the arms with their costs in [0, 1], for example {"tree": 0.0, "forest": 0.02}
    dimensions  of a context; 0 if there is none, which only `MixedViews` can do without. `add_axes` adds some
    categories  the axes, by number, that are not numbers in [0, 1] but codes 0, 1, 2, ... with a cell each
    policy      how it chooses; `MixedViews(max_cells=200_000)` unless given
    improving   those of its own arms that learn from labels themselves: `MixedViews` forgets how right they once were
    score_local  "all": a label scores every local model that costs nothing, which is the default of a `Site`. Here the
                default is "used", because a learner runs no model: `learn` must be given the gain of each, and a
                `replay` knows it

    Several threads may use it: they take turns. A change of its arms or axes is made in a draft, a private copy, and
    the learner becomes the draft in one statement that calls nothing: Ctrl-C comes before or after it.

    >>> learner = Learner("edge", own={"small": 0.0, "large": 0.1})
    >>> for _ in range(20):
    ...     choice = learner.choose(0.37)
    ...     learner.learn(choice.id, gain=float(choice.arm == "large"))
    >>> learner.choose(0.37).arm
    'large'
    """

    def __init__(
        self,
        name: str,
        *,
        own: Mapping[str, float],
        peers: Mapping[str, float] | None = None,
        dimensions: int = 1,
        categories: Collection[int] = (),
        policy: Policy | None = None,
        patience: Patience | None = None,
        seed: int = 0,
        score_local: ScoreLocal = "used",
        improving: Collection[str] = (),
    ) -> None:
        patience = Patience() if patience is None else patience
        check_text("the name of a learner", name)
        check_whole("seed", seed, least=0)
        check_one_of("score_local", score_local, get_args(ScoreLocal))
        policy, _ = how_to_decide(policy, score_local)
        check_kind(f"the policy of site {name!r}", policy, Policy, "a policy, for example CoS()")
        check_kind(f"the patience of site {name!r}", patience, Patience, "a Patience")
        _check_dimensions(name, dimensions, policy)
        self.alone = Alone()
        self.name, self.given, self.dimensions, self.seed = name, dimensions, dimensions, seed
        self.features: list[tuple[int, int, int]] = []  # new axes, features that never changed, and those that did
        self.categories, self.score_local = category_bits(categories, dimensions), score_local
        self.policy: Policy = policy
        self.arms = Arms(name, own, {} if peers is None else peers, improving)
        self.memory = new_memory(self.arms, dimensions, self.categories, policy, patience, seed, score_local == "all")
        self.registry = self.memory.registry
        self._context = np.zeros(dimensions)
        self._asked = np.zeros(len(self.arms), np.bool_)

    def __repr__(self) -> str:
        arms = f"{len(self.arms.own)} own, {len(self.arms.peers)} peers"
        return f"<Learner {self.name!r}: {arms}, {self.arrivals} items, {self.pending_count} wait>"

    @property
    def ledger(self) -> Ledger:
        """What it knows, as flat arrays."""
        return self.memory.ledger

    @property
    def patience(self) -> Patience:
        """How long it waits for labels."""
        return self.registry.patience

    @property
    def arrivals(self) -> int:
        """How many items have arrived."""
        return self.memory.ledger.site.item(col.ARRIVALS)

    @property
    def last_id(self) -> int:
        """The newest id that was given out."""
        return self.memory.ledger.site.item(col.LAST_ID)

    @property
    def pending_count(self) -> int:
        """How many decisions and answers are pending."""
        return len(self.registry)

    # Choosing

    def choose(
        self,
        context: PointLike,
        told: Mapping[str, LabelledData] = NOBODY,
        *,
        without: Collection[str] = (),
        again: int = 0,
    ) -> Choice | AskPeer:
        """Choose an arm for the next item, or say which peer must be asked first.

        After an `AskPeer`, call again with the same context and everything that peers have `told` for this item.
        `without` are arms that may not be chosen this time. `again` is for an item whose arm has failed, as `fail`
        returns it: the item is not counted once more.
        """
        lock = self.alone.lock
        lock.acquire()  # quicker than a with statement, and much quicker than the decorator
        try:
            if type(context) is float and self.dimensions == 1:
                self._context[0] = context
            else:
                self._context[:] = read_point(self.name, context, self.dimensions)
            out = self._numbers_out(without) if without or self.arms.paused else ()
            if told:
                self._record(told)
            phase, arm, cell, candidates, id = self._choose_one(self._context, out, again)
            name = self.arms.names[arm]
            if phase == ASK:
                return AskPeer(name, tuple(self._context.tolist()), cell)
        finally:
            if told:
                self._asked[:] = False
            lock.release()
        return Choice(id, PHASES[phase], name, cell, 1.0 / candidates)

    @one_at_a_time
    def choose_many(
        self,
        contexts: Sequence[PointLike],
        told: Mapping[str, LabelledData] = NOBODY,
        *,
        without: Collection[str] = (),
    ) -> Batch:
        """Choose for many contexts at once, with the same result as one by one.

        `told` belongs to the first of them. When a peer must be asked, the batch ends there: call again with the rest.
        """
        points = read_points(self.name, contexts, self.dimensions, self.categories, self.memory.may_lack)
        made, ask = self.decide(points, told, without)
        first = self.last_id - len(made[0]) + 1
        choices = [
            Choice(first + n, PHASES[phase], self.arms.names[arm], cell, 1.0 / candidates)
            for n, (phase, arm, cell, candidates) in enumerate(zip(*made, strict=True))
        ]
        return Batch(choices, ask)

    def decide(
        self,
        points: Floats,
        told: Mapping[str, LabelledData] = NOBODY,
        without: Collection[str] = (),
        again: Sequence[int] = (),
    ) -> tuple[Made, AskPeer | None]:
        """Choose for points that were read before: phases, arms, cells and candidates, and the peer to ask.

        The ids of the choices are the last that were given out, in their order.
        """
        self.check_told(told)
        if not len(points):
            return ([], [], [], []), None
        out = self._numbers_out(without) if without or self.arms.paused else ()
        if told or len(points) > 1:  # all of them before anything is entered; a single one is checked where it is used
            check_points(self.name, points, self.categories, self.memory.may_lack)
        try:
            if told:
                self._context[:] = points[0]
                self._record(told)
            if len(points) == 1:
                phase, arm, cell, candidates, _ = self._choose_one(points[0], out, again[0] if again else 0)
                made: Made = [phase], [arm], [cell], [candidates]
            else:
                made = self._choose_all(points, out, again)
        finally:
            if told:
                self._asked[:] = False
        if made[0][-1] == ASK:
            _, arm, cell, _ = (column.pop() for column in made)
            return made, AskPeer(self.arms.names[arm], tuple(points[len(made[0])].tolist()), cell)
        return made, None

    def decide_at(self, point: Floats, costs: Floats, again: int = 0) -> tuple[int, int, int, int]:
        """Choose for one point that was checked, at other costs: phase, arm, cell and candidates.

        OUT is the cost of an arm that may not be chosen; one may. Only for policies that mix views: no peer is asked.
        """
        memory = self.memory
        while (made := memory.choose_one(memory.at_costs(costs), point, self._asked, again))[0] < ASK:
            memory.make_way(made[0])
        self.explore_freely()
        return made[:4]

    def explore_freely(self) -> None:
        """Forget how often it was paid for to learn about arms: a budget pays for that."""
        self.memory.ledger.site[col.PAID_EXPLORED] = 0

    def check_points(self, points: Floats) -> None:
        """Raise unless these can be points of items."""
        check_points(self.name, points, self.categories, self.memory.may_lack)

    def check_out(self, without: Collection[str]) -> frozenset[str]:
        """Return the arms that may not be chosen, paused ones among them, or raise if that leaves none."""
        self._numbers_out(without)
        return frozenset(self.arms.paused).union(without)

    def _choose_one(self, point: Floats, out: Collection[int], again: int) -> tuple[int, int, int, int, int]:
        memory, asked = self.memory, self._asked
        while (made := memory.choose_one(memory.without(out) if out else memory.arrays, point, asked, again))[0] < ASK:
            if made[0] == api.BAD_CONTEXT:
                raise bad_context(self.name, point, made[1])
            memory.make_way(made[0])
        return made

    def _choose_all(self, points: Floats, out: Collection[int], again: Sequence[int]) -> Made:
        """Choose for points up to the first for which a peer must be asked, which is the last of the result then."""
        numbers = np.array(again, np.int64) if again else np.zeros(len(points), np.int64)
        made, done = np.empty((len(points), 4), np.int64), 0
        while done < len(points):
            done = api.choose_many(self.memory.without(out), points, self._asked, numbers, done, made)
            if done < len(points):
                status = int(made[done, 0])
                if status == ASK:
                    break
                self.memory.make_way(status)
        phases, arms, cells, candidates = made[: done + 1].T.tolist()
        return phases, arms, cells, candidates

    def _numbers_out(self, without: Collection[str]) -> Collection[int]:
        """Return the numbers of arms that may not be chosen, or raise if that leaves none."""
        out = {self.arms.number(name) for name in without}
        if len(self.arms.paused | set(without)) == len(self.arms):
            raise ArmError(f"site {self.name!r} has no arm left: {', '.join(self.arms.names)} are paused or excluded")
        return out

    def check_told(self, told: Mapping[str, LabelledData]) -> None:
        """Raise unless these can be reports of peers."""
        if not told:
            return
        check_kind(f"what site {self.name!r} was told", told, Mapping, "a mapping from peers to LabelledData")
        for peer, data in told.items():
            if peer not in self.arms.peers:
                has = ", ".join(self.arms.peers) or "none"
                raise ArmError(f"site {self.name!r} has no peer {peer!r} that could tell anything: it has {has}")
            what = f"what peer {peer!r} told site {self.name!r}"
            check_kind(what, data, LabelledData, "a LabelledData")
            check_count(f"{what}, arrivals", data.arrivals)
            check_count(f"{what}, taught", data.taught)

    def _record(self, told: Mapping[str, LabelledData]) -> None:
        """Enter what peers report for the context that was read, if it is valid."""
        check_points(self.name, self._context[None], self.categories, self.memory.may_lack)
        self.check_told(told)
        for peer, data in told.items():
            number, arrivals, taught = self.arms.number(peer), min(data.arrivals, MOST), min(data.taught, MOST)
            while not api.record_one(self.memory.arrays, self._context, number, arrivals, taught):
                self.memory.make_way(api.NO_ROOM)
            self._asked[number] = True

    # Late labels

    def learn(
        self, decision: int, gain: float, cost: float | None = None, others: Mapping[str, float] | None = None
    ) -> None:
        """Learn what a decision gained: 1 for a right label, 0 for a wrong one, or anything between.

        `cost` is what it really cost, if that differs from the arm's known cost or was not known before. `others` are
        the gains of local models that were run only to be scored.
        """
        if others:
            self.learn_many([decision], [gain], [cost], [others])
        elif cost is not None or type(gain) is not float or type(decision) is not int or not 0.0 <= gain <= 1.0:
            self.learn_many([decision], [gain], [cost])
        else:
            lock = self.alone.lock
            lock.acquire()  # as in `choose`
            try:
                if self.registry.narrow and abs(decision) <= LARGEST:
                    self.registry.widen(np.array([decision]))
                if abs(decision) > LARGEST or not api.learn_one(self.memory.arrays, decision, gain):
                    raise self.no_label_wanted(decision)
                self.registry.notes.pop(decision, None)
            finally:
                lock.release()

    @one_at_a_time
    def learn_many(
        self,
        decisions: Iterable[int],
        gains: Iterable[float],
        costs: Iterable[float | None] | None = None,
        others: Sequence[Mapping[str, float] | None] = (),
    ) -> None:
        """Learn from many labels at once, with the same result as one by one; a bad one among them changes nothing."""
        decisions = as_list("decisions", decisions, "a list of ids")
        gains = as_list("gains", gains, "a list of numbers in [0, 1]")
        costs = None if costs is None else as_list("costs", costs, "a list of costs, or None")
        ids, found = self.look_up(decisions)
        if others and len(others) != len(ids):
            raise SettingError("others", len(others), f"as many as decisions ({len(ids)})")
        self.settle(ids, found, gains, costs, self._scores(ids, found, others) if any(others) else None)

    def settle(
        self,
        tickets: Sequence[int],
        found: Sequence[Waited],
        gains: Sequence[float],
        costs: Sequence[float | None] | None = None,
        scores: Floats | None = None,
    ) -> None:
        """Learn from labels for ids that were looked up just now; a bad one among them changes nothing.

        scores  [id, local model]: gains of opinions, not a number where there is none and for the arm itself
        """
        if not len(tickets) == len(gains) == len(gains if costs is None else costs):
            given = f"{len(gains)} and {len(gains if costs is None else costs)}"
            raise SettingError("gains and costs", given, f"as many as decisions ({len(tickets)})")
        rewards = self._rewards(tickets, found, gains, costs)
        if self.registry.narrow:
            self.registry.widen(np.array(tickets, np.int64))
        if len(tickets) == 1 and scores is None:
            api.learn_one(self.memory.arrays, tickets[0], rewards[0])
        else:
            self.check_different(tickets)
            ids, gained = np.array(tickets, np.int64), np.array(rewards, np.float64)
            api.learn_many(self.memory.arrays, ids, gained, np.empty((len(ids), 0)) if scores is None else scores)
        self.forget_notes(tickets)

    @one_at_a_time
    def try_free_models(self) -> None:
        """Take note that some labels do not score every local model that costs nothing: these are tried from now on."""
        site = self.ledger.site
        if site[col.SCORES] == col.ALL_FREE:
            site[col.SCORES] = col.SOME_FREE

    def look_up(self, decisions: Sequence[int]) -> tuple[list[int], list[Waited]]:
        """Return ids, and (arm, kind, arrival) of each, or raise if one is not pending."""
        ids = [*decisions]
        if {*map(type, ids)} != {int}:
            ids = [int(each) if isinstance(each, np.integer) else each for each in ids]
        found = self.find(ids)
        for id, (arm, _, _) in zip(ids, found, strict=True):
            if arm < 0:
                raise self.no_label_wanted(id)
        return ids, found

    def still_pending(self, tickets: Sequence[int]) -> Sequence[int]:
        """Return the ids that are still pending: some may have expired, or their arm may have left."""
        if len(tickets) == 1:
            return tickets if self.find(tickets)[0][0] >= 0 else []
        found, missing = self._looked_up(tickets)
        if missing < 0:
            return tickets
        return [id for id, arm in zip(tickets, found[:, 0].tolist(), strict=True) if arm >= 0]

    def find(self, tickets: Sequence[int]) -> list[Waited]:
        """Return (arm, kind, arrival) of each id; the arm is -1 if it is not pending."""
        if len(tickets) == 1:
            self._check_ids(tickets)
            return [api.look_one(self.memory.arrays[ENTRIES], tickets[0])]
        return list(map(tuple, self._looked_up(tickets)[0].tolist()))

    def _looked_up(self, ids: Sequence[int]) -> tuple[Ints, int]:
        """Return [id, (arm, kind, arrival)], and the place of the first id that is not pending, -1 if all are."""
        self._check_ids(ids)
        found = np.empty((len(ids), 3), np.int64)
        missing = api.look_up(self.memory.arrays[ENTRIES], np.array(ids, np.int64), found)
        return found, missing

    def _check_ids(self, ids: Sequence[int]) -> None:
        """Raise unless these can be ids; 1.0 and True equal 1, but are no ids."""
        if ids and (set(map(type, ids)) != {int} or not 0 < min(ids) <= max(ids) <= LARGEST):
            raise self.no_label_wanted(next(id for id in ids if type(id) is not int or not 0 < id <= LARGEST))

    def no_label_wanted(self, decision: object) -> DecisionError:
        """Return the error for a label whose decision is not pending."""
        if type(decision) is int and 1 <= decision <= self.last_id:
            return SettledDecision(self.name, decision)
        return UnknownDecision(self.name, decision, self.last_id)

    def check_different(self, tickets: Sequence[int]) -> None:
        """Raise if an id occurs twice."""
        if len(set(tickets)) < len(tickets):
            raise SettledDecision(self.name, next(each for n, each in enumerate(tickets) if each in tickets[:n]))

    def check_rewards(
        self, ids: Sequence[int], found: Sequence[Waited], gains: Sequence[float], costs: Sequence[float | None] | None
    ) -> None:
        """Raise if labels cannot be learnt together: one is bad, or is there twice."""
        self.check_different(ids)
        known = [gain if gain == gain else 0.0 for gain in gains]  # not a number: nobody had an answer
        self._rewards(ids, found, known, costs)

    def _rewards(
        self, ids: Sequence[int], found: Sequence[Waited], gains: Sequence[float], costs: Sequence[float | None] | None
    ) -> list[float]:
        for gain, id in zip(gains, ids, strict=True):
            if type(gain) is not float or not 0.0 <= gain <= 1.0:
                check_unit("gain", gain, f"decision {id} of site {self.name!r}")
        rewards = [*map(float, gains)]
        if costs is not None:
            known = self.arms.costs
            for n, cost in enumerate(costs):
                if cost is not None:
                    check_unit("cost", cost, f"decision {ids[n]} of site {self.name!r}")
                    # The known cost is subtracted where means are compared: only the difference belongs in here.
                    rewards[n] = gains[n] - cost + known[found[n][0]]
        return rewards

    def _scores(
        self, ids: Sequence[int], found: Sequence[Waited], others: Sequence[Mapping[str, float] | None]
    ) -> Floats:
        """Return the gains of local models that were run only to be scored: [id, model]."""
        number_of = {name: number for number, name in enumerate(self.arms.own)}
        nothing, rows = [np.nan] * len(number_of), []
        for id, (used, _, _), gains in zip(ids, found, others, strict=True):
            row = nothing.copy()
            for name, gain in (gains or {}).items():
                arm = number_of.get(name, used)
                if arm == used:
                    self.arms.number(name)  # raises if there is none
                    raise ArmError(f"decision {id} of site {self.name!r} cannot score {name!r} alongside its arm")
                if type(gain) is not float or not 0.0 <= gain <= 1.0:
                    check_unit("gain", gain, f"{name!r} for decision {id} of site {self.name!r}")
                row[arm] = gain
            rows.append(row)
        return np.array(rows, np.float64)

    @one_at_a_time
    def withdraw(self, decision: int) -> None:
        """Take a decision back: it no longer counts, and no label is expected."""
        self.withdraw_many([decision])

    @one_at_a_time
    def withdraw_many(self, decisions: Iterable[int]) -> list[Waited]:
        """Take decisions and answers back; returns (arm, kind, arrival) of each."""
        ids, found = self.look_up(as_list("decisions", decisions, "a list of ids"))
        self.check_different(ids)
        if self.registry.narrow:
            self.registry.widen(np.array(ids, np.int64))
        api.undo_many(self.memory.arrays, np.array(ids, np.int64))
        self.forget_notes(ids)
        return found

    @one_at_a_time
    def fail(self, decision: int) -> int:
        """Withdraw a decision whose arm has failed; it never gets a reward. Returns what `choose` takes as `again`."""
        ((_, _, arrival),) = self.withdraw_many([decision])
        return arrival

    def forget_notes(self, tickets: Sequence[int]) -> None:
        """Forget the notes of ids that are no longer pending."""
        notes = self.registry.notes
        for ticket in tickets if notes else ():
            notes.pop(ticket, None)

    @one_at_a_time
    def take_overdue(self) -> list[int]:
        """Return the ids that have expired since the last call."""
        expired = [id for id, _, _ in self.registry.take_overdue()]
        self.forget_notes(expired)
        return expired

    # Being a peer

    @one_at_a_time
    def report(self, context: PointLike) -> LabelledData:
        """Report how much labelled data there is around a context."""
        self._context[:] = read_point(self.name, context, self.dimensions)
        arrivals, taught = api.report_one(self.memory.arrays, self._context)
        if arrivals == api.BAD_CONTEXT:
            raise bad_context(self.name, self._context, taught)
        return LabelledData(arrivals, taught)

    @one_at_a_time
    def answer(
        self, context: PointLike, *, caller: str, request: int, training: bool, labelled: bool = False
    ) -> Answer:
        """Choose the local model with which to answer a peer's call.

        `request` is the caller's decision id. `labelled` says that the label will follow, as after every training.
        """
        point = read_point(self.name, context, self.dimensions)
        return self.answer_many([point], caller=caller, requests=[request], flags=[(training, labelled)])[0]

    @one_at_a_time
    def answer_many(
        self,
        contexts: Sequence[PointLike] | Floats,
        *,
        caller: str,
        requests: Sequence[int],
        flags: Sequence[tuple[bool, bool]],
        without: Collection[str] = (),
    ) -> list[Answer]:
        """Answer many questions of one peer at once; `flags` are (training, labelled) of each."""
        points, out = self.check_answers(contexts, caller, requests, without)
        functions, ids = self.memory.answer(points, out, caller, requests, flags)
        return [Answer(self.arms.names[n], id or None) for n, id in zip(functions, ids, strict=True)]

    def check_answers(
        self,
        contexts: Sequence[PointLike] | Floats,
        caller: str,
        requests: Sequence[int],
        without: Collection[str] = (),
    ) -> tuple[Floats, Collection[int]]:
        """Return the points of a call and the numbers of the arms that are out, or raise; nothing changes."""
        check_text(f"the caller of site {self.name!r}", caller)
        check_counts(f"the request of caller {caller!r}", requests)
        points = read_points(self.name, contexts, self.dimensions, self.categories, self.memory.may_lack)
        out = self._numbers_out(without) if without or self.arms.paused else ()
        if all(name in without or name in self.arms.paused for name in self.arms.own):
            raise ArmError(f"site {self.name!r} has no classifier left with which to answer {caller!r}")
        return points, out

    # Entering again what was decided before, without deciding

    def enter(self, points: Floats, arms: Ints, phases: Ints, again: Ints, without: Collection[str] = ()) -> None:
        """Enter choices as they were made, by the numbers of their arms; some arms could not be chosen."""
        done, out = 0, [self.arms.number(name) for name in without]
        while done < len(points):
            done, status = api.enter_many(self.memory.without(out), points, arms, phases, again, done)
            if done < len(points):
                self.memory.make_way(status)

    def enter_told(self, context: Floats, told: Mapping[str, LabelledData]) -> None:
        """Enter what peers reported for a context."""
        self._context[:] = context
        self._record(told)
        self._asked[:] = False

    def enter_question(self, context: Floats, again: int) -> None:
        """Enter that a peer had to be asked before an item could be chosen for: its cell was visited."""
        while (status := api.visit_one(self.memory.arrays, context, again)) != api.READY:
            self.memory.make_way(status)

    def enter_answers(self, points: Floats, functions: Ints) -> None:
        """Enter answers as they were given, by the numbers of their models."""
        done = 0
        while (done := api.enter_answers(self.memory.arrays, points, functions, done)) < len(points):
            self.memory.make_way(api.NO_ROOM)

    # Changing arms and axes

    @one_at_a_time
    def add_own(self, name: str, cost: float = 0.0, *, improves: bool = False) -> None:
        """Add a local model; what is known about the other arms stays."""
        self._join(lambda arms: arms.add_own(name, cost, improves=improves))

    @one_at_a_time
    def add_peer(self, name: str, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that announces this many models; what is known about the other arms stays."""
        self._join(lambda arms: arms.add_peer(name, cost, functions))

    def _join(self, add: Callable[[Arms], int]) -> None:
        arms = deepcopy(self.arms)
        number = add(arms)
        draft = self._draft(arms)
        draft.memory.insert(number)
        self.__dict__ = draft.__dict__

    @one_at_a_time
    def remove(self, name: str) -> list[int]:
        """Remove an arm; its pending decisions are dropped, and their ids returned."""
        arms = deepcopy(self.arms)
        number = arms.remove(name)
        draft = self._draft(arms)
        gone = draft.memory.delete(number)
        draft.forget_notes(gone)
        self.__dict__ = draft.__dict__
        return gone

    @one_at_a_time
    def set_cost(self, name: str, cost: float) -> None:
        """Change the cost of an arm from now on."""
        self._change_costs(lambda arms: arms.set_cost(name, cost))

    @one_at_a_time
    def pause(self, name: str) -> None:
        """Do not choose an arm until `resume`; what was learnt about it stays, and so do its pending decisions."""
        self._change_costs(lambda arms: arms.paused.add(arms.names[arms.number(name)]))

    @one_at_a_time
    def resume(self, name: str) -> None:
        """Resume an arm, with what was known about it."""
        self._change_costs(lambda arms: arms.paused.discard(arms.names[arms.number(name)]))

    def _change_costs(self, change: Callable[[Arms], object]) -> None:
        """Change the costs of arms; all else is shared with the draft."""
        arms = deepcopy(self.arms)
        change(arms)
        draft = copy(self)
        draft.arms, draft.memory = arms, self.memory.with_costs(arms)
        self.__dict__ = draft.__dict__

    @one_at_a_time
    def draft(self) -> Self:
        """Return a copy that can choose for one item while this one stays as it is.

        What is pending is copied only if some of it could expire meanwhile: there can be a million.
        """
        draft = self._draft(deepcopy(self.arms))
        draft.memory.part_draft(is_needed=self.registry.may_overflow(1, self.arrivals))
        draft.registry, draft._context = draft.memory.registry, self._context.copy()
        return draft

    @one_at_a_time
    def watch(self) -> Watch:
        """Note from now on what every choice of this draft goes by."""
        if not self.policy.mixes:
            raise SettingError("policy", self.policy, "one that mixes views, to be explained")
        watch = self.memory.choose_one = Watch()
        return watch

    def _draft(self, arms: Arms) -> Self:
        draft = copy(self)
        draft.arms, draft.memory, draft.features = arms, self.memory.draft(arms), self.features.copy()
        draft.registry, draft._asked = draft.memory.registry, np.zeros(len(arms), np.bool_)
        return draft

    @one_at_a_time
    def add_axes(self, count: int, same: int = 0, places: Sequence[float] = ()) -> Handed:
        """Add `count` axes behind the others, of features that are known now; what is known stays.

        `same` features never changed so far: they get none, and are looked at together. The last axes are of features
        that were such and change now; `places` are those of the values that they had.
        """
        new = NewAxes(count, same, tuple(places))
        check_whole("axes", count, least=0 if same else 1)
        features = sum(axes for axes, _, _ in self.features) + self.unchanged + count + same - len(places)
        if features > MOST_FEATURES:
            raise SettingError("axes", count, f"at most {MOST_FEATURES} in all")
        if len(places) > min(count, self.unchanged):
            raise SettingError("features that changed", len(places), "axes of features that never had")
        draft = self._draft(deepcopy(self.arms))
        memory = draft.memory
        if not isinstance(memory, MixedMemory):
            raise SettingError("axes", new.axes, "added to MixedViews")
        handed = memory.add_axes(self.dimensions, new)
        draft.features.append((count, same, len(places)))
        draft.dimensions += count
        draft._context = np.zeros(draft.dimensions)
        self.__dict__ = draft.__dict__
        return handed

    @property
    def unchanged(self) -> int:
        """How many features have no axis because they never changed."""
        return sum(same - changed for _, same, changed in self.features)

    # Looking inside

    @one_at_a_time
    def cells(self) -> dict[int, Cell]:
        """Return what is known about every visited cell, by the cell's key as in `Choice.cell`."""
        return look_inside(self.memory.ledger, {**self.arms.own, **self.arms.peers})

    @one_at_a_time
    def views(self) -> list[View]:
        """Return the parts of the context, and how much weight each has."""
        return compare_views(self.memory.ledger)

    @one_at_a_time
    def explain(self, context: PointLike) -> list[ViewForecast]:
        """Return what every view of `MixedViews` forecasts for a context, the largest weight first."""
        if not self.policy.mixes:
            raise SettingError("policy", self.policy, "one that mixes views, to be explained")
        point = read_point(self.name, context, self.dimensions)
        axis = api.forecast_one(self.memory.arrays, point)
        if axis >= 0:
            raise bad_context(self.name, point, axis)
        return explained(self.memory.ledger, self.arms.names)

    # Saving

    @one_at_a_time
    def state(self) -> State:
        """Return everything it needs to continue as if it had never stopped."""
        return state_of(self)

    @classmethod
    def from_state(cls, state: State) -> Learner:
        """Return the learner that a state was taken from."""
        check_kind("state", state, State, "a State, as `state()` gives it")
        return restored(cls, state)


def _check_dimensions(site: str, dimensions: int, policy: Policy) -> None:
    check_whole("dimensions", dimensions, least=0)
    if dimensions == 0 and not policy.mixes:
        allowed = f"at least 1 with {type(policy).__name__}: only MixedViews can do without a context"
        raise SettingError(f"the number of axes of site {site!r}", dimensions, allowed)
    if dimensions > MOST_AXES:
        raise SettingError("dimensions", dimensions, f"at most {MOST_AXES}")
