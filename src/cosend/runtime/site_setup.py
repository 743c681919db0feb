"""The parts of a running site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numba
import numpy as np

from cosend.algorithm.layout import first_bad_axis, grown, row_for, slice_of
from cosend.algorithm.learner import Learner
from cosend.algorithm.pending import Patience
from cosend.algorithm.policies import Policy, ShareLabels
from cosend.algorithm.values import LabelledData, ScoreLocal
from cosend.axes import Axis, Feature
from cosend.engine.budget import Budget
from cosend.engine.engine import LearnsFrom
from cosend.engine.events import Event
from cosend.engine.fold import fold
from cosend.engine.learnt_arms import Learnt, learnt_arms, warm_up
from cosend.engine.money import Money
from cosend.engine.scoring import Gain, right_or_wrong
from cosend.engine.site_state import Heard, SiteState
from cosend.models.adapters import Classifier
from cosend.text import plain_number

LIMIT_S: Final = 1.0
THREADS: Final = 4
DAY_S: Final = 86_400.0
PEER: Final = "\0"  # no peer has this name
MANY: Final = 100  # items: more than what waits has room for at first


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A site: what `Site` takes, and what only matters when it runs.

    hashes        by classifier: of what its model is made of, where that is known; it tells another one of that name
    limits_s      by classifier: how long a call of it may take; 1 s unless given
    threads       by classifier: in how many threads it runs at once; 4 unless given, always 1 if it learns
    learns_from   "all": a classifier that learns does so from every label of the site; "used": of what it answered
    learnt        as of a Site
    score_local   "used": a label scores the arm that was used; "all": also the classifiers that cost nothing, which are
                  run on every item, so that it is done when the slowest of them has answered. Unless given, "used" if a
                  policy is, else "all"
    shares, withholds, share_labels    as of a Site
    keep_s        how long decisions are remembered after they were made: as long, the same id gets the same answer
    peers         the sites that it may ask: what a call of each costs, and how many classifiers it has
    discover      whether a site that appears in the network becomes a peer too
    call_cost     what it tells others that a call of it costs
    deadline_s    how long a peer may take for an answer
    most_flights  items that may be on their way at once; more are refused until some are answered
    """

    name: str
    classifiers: Mapping[str, Classifier | Learnt]
    axes: Sequence[Axis]
    policy: Policy | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    reward: Gain = right_or_wrong
    money: Money | None = None
    budget: Budget | None = None
    patience: Patience | None = None
    seed: int = 0
    retries: int = 3
    strict_labels: bool = False
    learns_from: LearnsFrom = "all"
    score_local: ScoreLocal | None = None
    learnt: bool | None = None
    shares: Sequence[str] | None = None
    withholds: Sequence[str] = ()
    share_labels: ShareLabels | None = None
    hashes: Mapping[str, str] = field(default_factory=dict)
    limits_s: Mapping[str, float] = field(default_factory=dict)
    threads: Mapping[str, int] = field(default_factory=dict)
    keep_s: float = 7 * DAY_S
    peers: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    discover: bool = False
    call_cost: float = 0.0
    deadline_s: float = 1.0
    most_flights: int = 100_000

    @cached_property
    def context(self) -> tuple[str, ...]:
        return tuple(axis.description for axis in self.axes)

    def cost(self, arm: str) -> float:
        return self.peers[arm][0] if arm in self.peers else self.costs.get(arm, 0.0)

    @property
    def budget_in_costs(self) -> Budget | None:
        return None if self.budget is None else self.budget.in_costs(self.money)

    def in_words(self, cost: float) -> str:
        """Return a cost as people read it, with the amount of money that it is."""
        number = plain_number(cost, 6)
        return number if self.money is None else f"{number} ({self.money.text(cost)})"

    @cached_property
    def models(self) -> dict[str, Classifier]:
        """The classifiers that are models; the others are learnt arms, which the engine has."""
        return {name: each for name, each in self.classifiers.items() if not isinstance(each, Learnt)}

    @cached_property
    def learnt_arms(self) -> dict[str, str]:
        """The learnt arms, by name."""
        return learnt_arms(self.name, self.classifiers, self.learnt, self.policy, self.score_local)

    @cached_property
    def local(self) -> tuple[str, ...]:
        """The names of all local arms."""
        return tuple({**self.classifiers, **self.learnt_arms})

    def warm_up(self) -> None:
        """Have everything compiled and loaded that a running site may need, so that nothing is read from a file later.

        A site that has used up its open files must still be able to decide.
        """
        config: Any = numba.config
        if config.DISABLE_JIT:
            return
        warm_up()
        _try_out(self.new_state(None))
        log: list[Event] = []
        two = {"a model": 0.0, "another": 0.0}
        _try_out(SiteState("a site", local=two, axes=[Feature("any", range=(0, 1))], journal=log.append))
        fold(log)

    def new_state(self, journal: Callable[[Any], object] | None) -> SiteState:
        return SiteState(
            self.name,
            local={arm: self.cost(arm) for arm in self.local},
            learnt=self.learnt_arms,
            fits_at_once=False,
            axes=self.axes,
            policy=self.policy,
            patience=self.patience,
            seed=self.seed,
            score_local=self.score_local,
            share_labels=self.share_labels,
            journal=journal,
        )


def _try_out(state: SiteState) -> None:
    """Let a state do everything that it does, often and seldom."""
    for codes in state.encoder.codes.values():
        codes.code(0.0)  # so that the point of zeros has a value on every axis
    _decide(state)
    _grow(state)
    _look_inside(state.learner)
    _change_arms(state)
    _learn_features(state.learner)


def _decide(state: SiteState) -> None:
    own, dimensions = [*state.learner.arms.own], state.learner.dimensions
    for count in (1, 2):
        points = np.zeros((count, dimensions))
        first = state.choose(points).first
        again = state.fail([*range(first, first + count)], own[0], "a trial")
        opinions = {model: ["any"] * count for model in own}
        step = state.choose(points, again=[*again.values()], heard=Heard(opinions))
        ids = [*range(step.first, step.first + count)]
        scores = {model: [0.0] * count for model in own}
        state.settle(ids, ["any"] * count, [0.0] * count, scores=scores)
        _answer_a_peer(state, (0.0,) * dimensions, count)


def _grow(state: SiteState) -> None:
    """Let more be pending than there is room for, and let there be more cells."""
    learner = state.learner
    step = state.choose(np.zeros((MANY, learner.dimensions)))
    learner.memory.use(grown(learner.ledger))
    state.complete([*range(step.first, step.first + MANY)], [None] * MANY)
    row_for(learner.ledger, slice_of(0.5, 2))
    learner.registry.may_overflow(MANY, learner.arrivals)


def _look_inside(learner: Learner) -> None:
    """Do what people who look at a site make it do, and a start from a snapshot."""
    point = np.zeros(learner.dimensions)
    first_bad_axis(point, learner.categories, learner.policy.mixes)
    if learner.policy.mixes:
        learner.explain(point)
    else:
        first_bad_axis(point, learner.categories, False)
    learner.cells()
    learner.views()
    learner.last_id in learner.registry  # noqa: B015 - to have it loaded
    Learner.from_state(learner.state())


def _change_arms(state: SiteState) -> None:
    """Let a peer come, report what it knows, and leave with all that is pending for it; the same with a model."""
    point, own = np.zeros((1, state.learner.dimensions)), [*state.learner.arms.own]
    state.add_peer(PEER, 0.0, 1)
    state.choose(point, told={PEER: LabelledData(1, 1)})
    state.choose(point, told={PEER: LabelledData(1, 1)}, without=own)
    state.remove(PEER)
    state.add_model(PEER, 0.0)
    state.choose(point, without=own)
    state.remove(PEER)


def _learn_features(learner: Learner) -> None:
    """Let features be found, some of which never change and then do."""
    if learner.policy.mixes:
        learner.add_axes(0, 2, [])
        learner.add_axes(2, 0, [0.5])


def _answer_a_peer(state: SiteState, context: tuple[float, ...], count: int) -> None:
    requests, nothing, contexts = [*range(1, count + 1)], [None] * count, [context] * count
    for training in (False, True):
        _, ids = state.serve(PEER, requests, contexts, [(training, True)] * count)
        state.complete(ids, nothing)
        state.teach(PEER, requests, nothing, [0.0] * count)
    _, ids = state.serve(PEER, [1], [context], [(False, True)])
    state.withdraw(ids)
    state.serve(PEER, [1], [context], [(False, False)])
    state.report(context)
