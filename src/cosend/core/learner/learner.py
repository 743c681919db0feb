"""A learner: the rules of one site, without its classifiers.

Two verbs: `choose` an arm for a context, `learn` the reward of a choice when it is known. It never waits: when the
rule must know how much labelled data a peer has, `choose` returns that question and is called again with the reply.
As a peer of others it has two more: `report` how much labelled data it has, and `answer` a call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, get_args

import numpy as np

from cosend.alone import Alone, one_at_a_time
from cosend.core.checks import check_count, check_counts, check_kind, check_one_of, check_text, check_whole
from cosend.core.kernel import columns as col
from cosend.core.kernel import entry_points
from cosend.core.kernel.bookkeeping import EXPLOIT, EXPLORE, TRAIN
from cosend.core.kernel.cos import ASK
from cosend.core.kernel.ledger import MOST, Floats, Ints, Ledger
from cosend.core.kernel.partition import first_bad_axis
from cosend.core.learner.arms import Arms
from cosend.core.learner.changing import Changing
from cosend.core.learner.default import how_to_decide
from cosend.core.learner.inspection import Inspected
from cosend.core.learner.late_labels import LateLabels
from cosend.core.learner.memory import Memory
from cosend.core.learner.points import (
    PointLike,
    bad_context,
    category_bits,
    check_dimensions,
    check_points,
    read_point,
    read_points,
)
from cosend.core.learner.registry import Patience
from cosend.core.learner.state import State, restored, state_of
from cosend.core.learner.values import (
    Answer,
    AskPeer,
    Batch,
    Choice,
    LabelledData,
    Phase,
    ScoreLocal,
)
from cosend.core.policy.parts import Policy
from cosend.errors import ArmError

Made: TypeAlias = tuple[list[int], list[int], list[int], list[int]]  # phases, arms, cells and candidates of choices
CHOICE: Final = partial(tuple.__new__, Choice)  # twice as fast as by calling the class
NOBODY: Final[Mapping[str, LabelledData]] = {}
PHASES: Final = {TRAIN: Phase.TRAIN, EXPLORE: Phase.EXPLORE, EXPLOIT: Phase.EXPLOIT}


class Learner(LateLabels, Inspected, Changing):
    """Chooses an arm for every context and learns from late rewards which one is best where.

    name        of the site; draws depend on it
    own, peers  the arms with their costs in [0, 1], for example {"tree": 0.0, "forest": 0.02}
    dimensions  of a context; 0 if there is none, which only `MixedViews` can do without. `add_axes` adds some
    categories  the axes, by number, that are not numbers in [0, 1] but codes 0, 1, 2, ... with a cell each
    policy      how it chooses; unless given, `ZoomingKLUCB()`, or `MixedViews()` if labels score all local classifiers
    score_local  "all": a label scores every local classifier that costs nothing, as a `Site` does it unless told. It is
                "used" here unless given, because a learner runs no classifier: `learn` must be told what each gained,
                and a `replay` knows it

    Several threads may use it: they take turns.

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
    ) -> None:
        patience = Patience() if patience is None else patience
        check_text("the name of a learner", name)
        check_whole("seed", seed, least=0)
        check_one_of("score_local", score_local, get_args(ScoreLocal))
        policy, _ = how_to_decide(policy, score_local)
        check_kind(f"the policy of site {name!r}", policy, Policy, "a policy, for example CoS()")
        check_kind(f"the patience of site {name!r}", patience, Patience, "a Patience")
        check_dimensions(name, dimensions, policy)
        self.alone = Alone()
        self.name, self.given, self.dimensions, self.seed = name, dimensions, dimensions, seed
        self.features: list[tuple[int, int, int]] = []
        self.categories, self.score_local = category_bits(categories, dimensions), score_local
        self.policy: Policy = policy
        self.arms = Arms(name, own, {} if peers is None else peers)
        self.memory = Memory(self.arms, dimensions, self.categories, policy, patience, seed, score_local == "all")
        self.registry = self.memory.registry
        self._choose_for = entry_points.choose_one_mixed if policy.mixes else entry_points.choose_one
        self._context = np.zeros(dimensions)
        self._asked = np.zeros(len(self.arms), np.bool_)

    def __repr__(self) -> str:
        arms = f"{len(self.arms.own)} own, {len(self.arms.peers)} peers"
        return f"<Learner {self.name!r}: {arms}, {self.arrivals} items, {self.waiting_count} wait>"

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
        """How many items have come."""
        return self.memory.ledger.site.item(col.ARRIVALS)

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
                self._hear(told, again)
            made = self._choose_for(self.memory.without(out), self._context, self._asked, again)
            while made[0] < ASK:
                self._make_way(made[0], made[1])
                made = self._choose_for(self.memory.without(out), self._context, self._asked, again)
            phase, arm, cell, candidates, ticket = made
            name = self.arms.names[arm]
            if phase == ASK:
                return AskPeer(name, tuple(self._context.tolist()), cell)
        finally:
            if told:
                self._asked[:] = False
            lock.release()
        return CHOICE((ticket, PHASES[phase], name, cell, 1.0 / candidates))

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
        points = read_points(self.name, contexts, self.dimensions, self.categories, self.policy.mixes)
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
        if told or len(points) > 1:  # all of them before anything is entered; one alone is seen where it is used
            check_points(self.name, points, self.categories, self.policy.mixes)
        try:
            if told:
                self._context[:] = points[0]
                self._hear(told, again[0] if again else 0)
            made = self._choose_one(points, out, again) if len(points) == 1 else self._choose_all(points, out, again)
        finally:
            if told:
                self._asked[:] = False
        if made[0][-1] == ASK:
            _, arm, cell, _ = (column.pop() for column in made)
            return made, AskPeer(self.arms.names[arm], tuple(points[len(made[0])].tolist()), cell)
        return made, None

    def _choose_one(self, points: Floats, out: Collection[int], again: Sequence[int]) -> Made:
        number = again[0] if again else 0
        while (row := self._choose_for(self.memory.without(out), points[0], self._asked, number))[0] < ASK:
            if row[0] == entry_points.BAD_CONTEXT:
                raise bad_context(self.name, points[0], row[1])
            self.memory.make_way(row[0])
        return [row[0]], [row[1]], [row[2]], [row[3]]

    def _choose_all(self, points: Floats, out: Collection[int], again: Sequence[int]) -> Made:
        """Choose for points up to the first for which a peer must be asked, which is the last of the result then."""
        numbers = np.array(again, np.int64) if again else np.zeros(len(points), np.int64)
        made, done = np.empty((len(points), 4), np.int64), 0
        while done < len(points):
            done = entry_points.choose_many(self.memory.without(out), points, self._asked, numbers, done, made)
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
            raise ArmError(f"site {self.name!r} has no arm left: {', '.join(self.arms.names)} are paused or left out")
        return out

    def check_told(self, told: Mapping[str, LabelledData]) -> None:
        """Raise unless this is what peers may tell."""
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

    def _hear(self, told: Mapping[str, LabelledData], again: int) -> None:
        """Enter what peers tell of the context that was read, if it is one."""
        axis = first_bad_axis(self._context, self.categories, self.policy.mixes)
        if axis >= 0:
            raise bad_context(self.name, self._context, axis)
        self.check_told(told)
        for peer, data in told.items():
            number, arrivals, taught = self.arms.number(peer), min(data.arrivals, MOST), min(data.taught, MOST)
            while not entry_points.hear_one(self.memory.arrays, self._context, number, arrivals, taught, again):
                self.memory.make_way(entry_points.NO_ROOM)
            self._asked[number] = True

    def _make_way(self, status: int, axis: int) -> None:
        """Remove what stands in the way of a choice, or raise if it is the context."""
        if status == entry_points.BAD_CONTEXT:
            raise bad_context(self.name, self._context, axis)
        self.memory.make_way(status)

    # Being a peer

    @one_at_a_time
    def report(self, context: PointLike) -> LabelledData:
        """Report how much labelled data there is around a context."""
        self._context[:] = read_point(self.name, context, self.dimensions)
        arrivals, taught = entry_points.report_one(self.memory.arrays, self._context)
        if arrivals == entry_points.BAD_CONTEXT:
            raise bad_context(self.name, self._context, taught)
        return LabelledData(arrivals, taught)

    @one_at_a_time
    def answer(
        self, context: PointLike, *, caller: str, request: int, training: bool, labelled: bool = False
    ) -> Answer:
        """Choose the local function with which to answer a peer's call.

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
        functions, tickets = self.memory.answer(points, out, caller, requests, flags)
        return [Answer(self.arms.names[n], ticket or None) for n, ticket in zip(functions, tickets, strict=True)]

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
        points = read_points(self.name, contexts, self.dimensions, self.categories, self.policy.mixes)
        out = self._numbers_out(without) if without or self.arms.paused else ()
        if all(name in without or name in self.arms.paused for name in self.arms.own):
            raise ArmError(f"site {self.name!r} has no classifier left with which to answer {caller!r}")
        return points, out

    # Entering again what was decided before, without deciding

    def enter(self, points: Floats, arms: Ints, phases: Ints, again: Ints) -> None:
        """Enter choices as they were made, by the numbers of their arms."""
        done = 0
        while done < len(points):
            done, status = entry_points.enter_many(self.memory.arrays, points, arms, phases, again, done)
            if done < len(points):
                self.memory.make_way(status)

    def enter_told(self, context: Floats, told: Mapping[str, LabelledData], again: int) -> None:
        """Enter what peers told of a context."""
        self._context[:] = context
        self._hear(told, again)
        self._asked[:] = False

    def enter_question(self, context: Floats, again: int) -> None:
        """Enter that a peer had to be asked before an item could be chosen for: its cell was visited."""
        while (status := entry_points.visit_one(self.memory.arrays, context, again)) != entry_points.READY:
            self.memory.make_way(status)

    def enter_answers(self, points: Floats, functions: Ints) -> None:
        """Enter answers as they were given, by the numbers of their functions."""
        done = 0
        while (done := entry_points.enter_answers(self.memory.arrays, points, functions, done)) < len(points):
            self.memory.make_way(entry_points.NO_ROOM)

    # Saving

    @one_at_a_time
    def state(self) -> State:
        """Return everything it needs to go on as if it had never stopped."""
        return state_of(self)

    @classmethod
    def from_state(cls, state: State) -> Learner:
        """Return the learner that a state was taken from."""
        check_kind("state", state, State, "a State, as `state()` gives it")
        return restored(cls, state)
