"""A learner: the rules of one site, without its classifiers.

Two verbs: `choose` an arm for a context, `learn` the reward of a choice when it is known. It never waits: when the
rule must know how much labelled data a peer has, `choose` returns that question and is called again with the reply.
As a peer of others it has two more: `report` how much labelled data it has, and `answer` a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from cosend.core.checks import as_list, check_count, check_kind, check_text, check_unit, check_whole
from cosend.core.kernel import columns as col
from cosend.core.kernel import entry_points
from cosend.core.kernel.bookkeeping import EXPLOIT, EXPLORE, LOOK, TAUGHT, TRAIN
from cosend.core.kernel.cos import ASK
from cosend.core.kernel.draws import caller_word, site_words
from cosend.core.kernel.ledger import MOST, Floats, Ledger, grown, new_ledger
from cosend.core.kernel.partition import first_bad_axis
from cosend.core.kernel.steps import NO_ROOM
from cosend.core.learner.arms import Arms
from cosend.core.learner.inspection import compare_views, look_inside
from cosend.core.learner.points import Context, bad_context, read_point, read_points
from cosend.core.learner.values import Answer, AskPeer, Batch, Cell, Choice, LabelledData, Phase, View
from cosend.core.learner.waiting import ARM, CONTEXT, KIND, Patience, Waiting, WaitingRoom
from cosend.core.policy.epochs import lay_partition, next_epoch
from cosend.core.policy.parts import Policy
from cosend.core.policy.policies import ZoomingKLUCB
from cosend.errors import ArmError, SettingError, SettledDecision

MOST_DIMENSIONS: Final = 52  # the axes of a view, with that of time, are bits of a double
NOBODY: Final[Mapping[str, LabelledData]] = {}
PHASES: Final = {TRAIN: Phase.TRAIN, EXPLORE: Phase.EXPLORE, EXPLOIT: Phase.EXPLOIT, LOOK: Phase.EXPLORE}


class Learner:
    """Chooses an arm for every context and learns from late rewards which one is best where.

    name        of the site; draws depend on it
    own, peers  the arms with their costs in [0, 1], for example {"tree": 0.0, "forest": 0.02}
    dimensions  of a context
    policy      how it chooses; `ZoomingKLUCB()`, which needs to know nothing beforehand, unless given
    """

    def __init__(
        self,
        name: str,
        *,
        own: Mapping[str, float],
        peers: Mapping[str, float] | None = None,
        dimensions: int = 1,
        policy: Policy | None = None,
        patience: Patience | None = None,
        seed: int = 0,
    ) -> None:
        policy = ZoomingKLUCB() if policy is None else policy
        patience = Patience() if patience is None else patience
        check_text("the name of a learner", name)
        check_whole("dimensions", dimensions)
        if dimensions > MOST_DIMENSIONS:
            raise SettingError("dimensions", dimensions, f"at most {MOST_DIMENSIONS}")
        check_whole("seed", seed, least=0)
        check_kind(f"the policy of site {name!r}", policy, Policy, "a policy, for example CoS()")
        check_kind(f"the patience of site {name!r}", patience, Patience, "a Patience")
        self.name = name
        self.dimensions = dimensions
        self.policy: Policy = policy
        self.seed = seed
        self.arms = Arms(name, own, {} if peers is None else peers)
        self.room = WaitingRoom(name, patience)
        self._dropped: list[int] = []
        self._context = np.zeros(dimensions)
        self._earlier_context = np.zeros(dimensions)
        views = len(policy.views(dimensions))
        self.ledger = new_ledger(len(self.arms), max(16, views), views, policy.reward_columns)
        self.ledger.site[[col.KEY0, col.KEY1]] = site_words(seed, name)
        self._arms_changed()
        self._remembers_contexts = not self.ledger.site[col.STEADY]
        lay_partition(self.ledger, policy)

    @property
    def arrivals(self) -> int:
        """How many items have come."""
        return int(self.ledger.site[col.ARRIVALS])

    @property
    def waiting_count(self) -> int:
        """How many decisions and answers wait for their label."""
        return len(self.room.entries)

    # Choosing

    def choose(self, context: Context, told: Mapping[str, LabelledData] = NOBODY) -> Choice | AskPeer:
        """Choose an arm for the next item, or say which peer must be asked first.

        After an `AskPeer`, call again with the same context and everything that peers have `told` for this item.
        """
        self._read(context)
        try:
            if told or self.room.patience.wait_limit is not None:
                self._prepare(told)
            made = entry_points.choose_one(self._arrays, self._context, self._asked)
            while made[0] < ASK:
                self._make_way(made[0], made[1])
                made = entry_points.choose_one(self._arrays, self._context, self._asked)
        finally:
            if told:
                self._asked[:] = False
        if made[0] == ASK:
            return AskPeer(self.arms.names[made[1]], tuple(self._context.tolist()))
        return self._admit(made, self._context)

    def choose_many(self, contexts: Sequence[Context], told: Mapping[str, LabelledData] = NOBODY) -> Batch:
        """Choose for many contexts at once, with the same result as one by one.

        `told` belongs to the first of them. When a peer must be asked, the batch ends there: call again with the rest.
        """
        points = read_points(self.name, contexts, self.dimensions)
        self._check_told(told)
        if not len(points):
            return Batch([], None)
        if self.room.may_overflow(len(points), self.arrivals):
            return self._one_by_one(points, told)
        try:
            self._context[:] = points[0]
            self._hear(told)
            return self._all_at_once(points)
        finally:
            self._asked[:] = False

    def _all_at_once(self, points: Floats) -> Batch:
        made = np.zeros((len(points), 6), np.int64)
        done, choices = 0, list[Choice]()
        while done < len(points):
            first = done
            done = entry_points.choose_many(self._arrays, points, self._asked, first, made)
            rows = made[first : done + 1].tolist()
            choices += [self._admit(row, points[first + n]) for n, row in enumerate(rows[: done - first])]
            if done < len(points):
                outcome, arm = rows[-1][:2]
                if outcome == ASK:
                    return Batch(choices, AskPeer(self.arms.names[arm], tuple(points[done].tolist())))
                self._make_way(outcome, arm)
        return Batch(choices, None)

    def _one_by_one(self, points: Floats, told: Mapping[str, LabelledData]) -> Batch:
        choices = list[Choice]()
        for point in points:
            choice = self.choose(cast("Context", point), told)
            if isinstance(choice, AskPeer):
                return Batch(choices, choice)
            choices.append(choice)
            told = NOBODY
        return Batch(choices, None)

    def _admit(self, made: Sequence[int], context: Floats) -> Choice:
        phase, arm, row, arrival, cell, candidates = made
        point = tuple(context.tolist()) if self._remembers_contexts else ()
        decision = self._wait((row, arm, phase, arrival, point))
        propensity = 1.0 / candidates if candidates else math.nan
        return Choice(decision, PHASES[phase], self.arms.names[arm], cell, propensity)

    def _wait(self, entry: Waiting) -> int:
        room = self.room
        room.last = ticket = room.last + 1
        room.entries[ticket] = entry
        if len(room.entries) > room.patience.max_waiting:
            self._drop(room.oldest())
        return ticket

    def _read(self, context: Context) -> None:
        if type(context) is float and self.dimensions == 1:
            self._context[0] = context
        else:
            self._context[:] = read_point(self.name, context, self.dimensions)

    def _prepare(self, told: Mapping[str, LabelledData]) -> None:
        """Do what must come before a choice, once it is sure that the context is one."""
        axis = first_bad_axis(self._context)
        if axis >= 0:
            raise bad_context(self.name, self._context, axis)
        self._check_told(told)
        self._settle_overdue()
        self._hear(told)

    def _check_told(self, told: Mapping[str, LabelledData]) -> None:
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

    def _hear(self, told: Mapping[str, LabelledData]) -> None:
        for peer, data in (told or NOBODY).items():
            number, arrivals, taught = self.arms.number(peer), min(data.arrivals, MOST), min(data.taught, MOST)
            while not entry_points.hear_one(self._arrays, self._context, number, arrivals, taught):
                self._make_way(NO_ROOM)
            self._asked[number] = True

    def _make_way(self, outcome: int, axis: int = 0) -> None:
        """Remove what stands in the way of a choice, or raise if it is the context."""
        if outcome == entry_points.BAD_CONTEXT:
            raise bad_context(self.name, self._context, axis)
        if outcome == NO_ROOM:
            self.replace_ledger(grown(self.ledger))
        else:
            self.replace_ledger(next_epoch(self.ledger, self.policy))

    # Learning

    def learn(self, decision: int, gain: float, cost: float | None = None) -> None:
        """Learn what a decision gained: 1 for a right label, 0 for a wrong one, or anything between.

        `cost` is what it really cost, if that differs from the arm's known cost or was not known before.
        """
        row, arm, kind, arrival, context = self.room.require(decision)
        reward = self._reward(decision, arm, gain, cost)
        if context:
            self._earlier_context[:] = context
        entry_points.learn_one(self._arrays, self._earlier_context, row, decision, arrival, arm, kind, reward)
        del self.room.entries[decision]

    def learn_many(
        self, decisions: Iterable[int], gains: Iterable[float], costs: Iterable[float | None] | None = None
    ) -> None:
        """Learn from many labels at once, with the same result as one by one; a bad one among them changes nothing."""
        decisions = as_list("decisions", decisions, "a list of ids")
        gains = as_list("gains", gains, "a list of numbers in [0, 1]")
        costs = [None] * len(decisions) if costs is None else as_list("costs", costs, "a list of costs, or None")
        entries = [self.room.require(decision) for decision in decisions]
        self._check_batch(decisions, gains, costs)
        arms = [entry[ARM] for entry in entries]
        rewards = [self._reward(*each) for each in zip(decisions, arms, gains, costs, strict=True)]
        places = [
            (row, decision, arrival, arm, kind)
            for decision, (row, arm, kind, arrival, _) in zip(decisions, entries, strict=True)
        ]
        axes = self.dimensions if self._remembers_contexts else 0
        contexts = np.array([entry[CONTEXT] for entry in entries], np.float64).reshape(len(entries), axes)
        entry_points.learn_many(
            self._arrays, contexts, np.array(places, np.int64).reshape(-1, 5), np.array(rewards, np.float64)
        )
        for decision in decisions:
            del self.room.entries[decision]

    def _check_batch(self, decisions: Sequence[int], *others: Sequence[object]) -> None:
        if any(len(other) != len(decisions) for other in others):
            lengths = ", ".join(str(len(other)) for other in others)
            raise SettingError("gains and costs", lengths, f"as many as decisions ({len(decisions)})")
        seen = set[int]()
        for decision in decisions:
            if decision in seen:
                raise SettledDecision(self.name, decision)
            seen.add(decision)

    def _reward(self, decision: int, arm: int, gain: float, cost: float | None) -> float:
        if cost is None and type(gain) is float and 0.0 <= gain <= 1.0:
            return gain
        check_unit("gain", gain, f"decision {decision} of site {self.name!r}")
        if cost is None:
            return float(gain)
        check_unit("cost", cost, f"decision {decision} of site {self.name!r}")
        # The known cost is taken off where means are compared, so only the difference belongs in here.
        return gain - cost + float(self.ledger.costs[arm])

    def _settle_overdue(self) -> None:
        arrival = self.arrivals + 1
        while (decision := self.room.overdue(arrival)) is not None:
            self._drop(decision)

    def _drop(self, decision: int) -> None:
        overdue = self.room.patience.overdue
        kind = self.room.entries[decision][KIND]
        self._dropped.append(decision)
        if overdue == "drop" or kind in (TRAIN, TAUGHT):
            self.withdraw(decision)
        else:
            self.learn(decision, overdue)

    def take_dropped(self) -> list[int]:
        """Return the ids that have become overdue since the last call."""
        dropped, self._dropped = self._dropped, []
        return dropped

    def withdraw(self, decision: int) -> None:
        """Take a decision back: it no longer counts, and no label is expected."""
        row, arm, kind, arrival, context = self.room.require(decision)
        del self.room.entries[decision]
        if context:
            self._earlier_context[:] = context
        entry_points.strike_one(self._arrays, self._earlier_context, row, decision, arrival, arm, kind)

    # Being a peer

    def report(self, context: Context) -> LabelledData:
        """Report how much labelled data there is around a context."""
        self._read(context)
        arrivals, taught = entry_points.report_one(self._arrays, self._context)
        if arrivals == entry_points.BAD_CONTEXT:
            raise bad_context(self.name, self._context, taught)
        return LabelledData(arrivals, taught)

    def answer(self, context: Context, *, caller: str, request: int, training: bool, labelled: bool = False) -> Answer:
        """Choose the own function with which to answer a peer's call.

        `request` is the caller's decision id. `labelled` says that the label will follow, as after every training.
        """
        check_text(f"the caller of site {self.name!r}", caller)
        check_count(f"the request of caller {caller!r}", request)
        self._read(context)
        labelled = labelled or training
        word = caller_word(caller)
        arguments = (self._context, word, request, training, labelled)
        function, row = entry_points.answer_one(self._arrays, *arguments)
        while function < 0:
            self._make_way(function, row)
            function, row = entry_points.answer_one(self._arrays, *arguments)
        if not labelled:
            return Answer(self.arms.names[function], None)
        point = tuple(self._context.tolist()) if self._remembers_contexts else ()
        entry = (row, function, TAUGHT, self.arrivals, point)
        return Answer(self.arms.names[function], self._wait(entry))

    # Arms that join and leave

    def add_own(self, name: str, cost: float = 0.0) -> None:
        """Add an own classifier; what is known of the other arms stays."""
        self._insert(self.arms.add_own(name, cost))

    def add_peer(self, name: str, cost: float = 0.0, functions: int = 1) -> None:
        """Add a peer that says it has so many classifiers; what is known of the other arms stays."""
        self._insert(self.arms.add_peer(name, cost, functions))

    def remove(self, name: str) -> list[int]:
        """Remove an arm; decisions that wait for its reward are dropped, and their ids returned."""
        number = self.arms.remove(name)
        self._reshape(lambda array, axis: np.delete(array, number, axis))
        return self.room.leave(number)

    def set_cost(self, name: str, cost: float) -> None:
        """Change the cost of an arm from now on."""
        self.ledger.costs[self.arms.set_cost(name, cost)] = cost

    def _insert(self, number: int) -> None:
        self._reshape(lambda array, axis: np.insert(array, number, 0, axis))
        self.room.make_space(number)

    def _reshape(self, change: Callable[[Any, int], Any]) -> None:
        ledger = self.ledger
        self.ledger = ledger._replace(
            costs=change(ledger.costs, 0), rewards=change(ledger.rewards, 1), counts=change(ledger.counts, 1)
        )
        self._arms_changed()

    def _arms_changed(self) -> None:
        self.ledger.costs[:] = self.arms.costs()
        self.ledger.site[col.OWN_COUNT] = len(self.arms.own)
        self.ledger.site[col.ARM_COUNT] = len(self.arms)
        self.policy.write_to(self.ledger, self.dimensions, self.arms.announced_functions())
        self._asked = np.zeros(len(self.arms), np.bool_)
        self.replace_ledger(self.ledger)

    def replace_ledger(self, ledger: Ledger) -> None:
        """Go on with another ledger: one that has grown, or one that was saved."""
        self.ledger = ledger
        self._arrays = cast("entry_points.Arrays", tuple(ledger))

    # Looking inside

    def cells(self) -> dict[int, Cell]:
        """Return what is known of every visited cell, by the cell's key as in `Choice.cell`."""
        return look_inside(self.ledger, self.arms.names)

    def views(self) -> list[View]:
        """Return the parts of the context that compete to be trusted, and how each of them fares."""
        return compare_views(self.ledger)
