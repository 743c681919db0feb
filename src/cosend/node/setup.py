"""What a site that runs is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from cosend.classifiers.adapters import Classifier
from cosend.core.kernel.ledger import grown, row_for
from cosend.core.kernel.partition import first_bad_axis, slice_of
from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import LabelledData, ScoreLocal
from cosend.core.policy.parts import Policy
from cosend.site.context import Axis, Context
from cosend.site.events import Event
from cosend.site.fold import fold
from cosend.site.lessons import LearnsFrom
from cosend.site.messages import Question
from cosend.site.rewards import right_or_wrong
from cosend.site.rules import Rules

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
    score_local   "used": a label scores the arm that was used; "all": also the classifiers that cost nothing, which are
                  run on every item, so that it is done when the slowest of them has answered. Unless given, "used" if a
                  policy is, else "all"
    keep_s        how long decisions are remembered after they were made: as long, the same id gets the same answer
    peers         the sites that it may ask: what a call of each costs, and how many classifiers it has
    discover      whether a site that appears in the network becomes a peer too
    call_cost     what it tells others that a call of it costs
    deadline_s    how long a peer may take for an answer
    most_flights  items that may be on their way at once; more are refused until some are answered
    """

    name: str
    classifiers: Mapping[str, Classifier]
    axes: Sequence[Axis]
    policy: Policy | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    reward: Callable[[Any, Any], float] = right_or_wrong
    patience: Patience | None = None
    seed: int = 0
    retries: int = 3
    strict_labels: bool = False
    learns_from: LearnsFrom = "all"
    score_local: ScoreLocal | None = None
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
        """How it describes items, in words."""
        return tuple(axis.description for axis in self.axes)

    def cost(self, arm: str) -> float:
        """Return what a classifier or a peer costs."""
        return self.peers[arm][0] if arm in self.peers else self.costs.get(arm, 0.0)

    def warm_up(self) -> None:
        """Have everything compiled and loaded that a running site may need, so that nothing is read from a file later.

        A site that has used up its open files must still be able to decide.
        """
        _try_out(self.new_rules(None))
        log: list[Event] = []
        two = {"a model": 0.0, "another": 0.0}
        _try_out(Rules("a site", local=two, axes=[Context("any", range=(0, 1))], journal=log.append))
        fold(log)

    def new_rules(self, journal: Callable[[Any], object] | None) -> Rules:
        """Return the rules of a site that knows nothing yet."""
        return Rules(
            self.name,
            local={arm: self.cost(arm) for arm in self.classifiers},
            axes=self.axes,
            policy=self.policy,
            patience=self.patience,
            seed=self.seed,
            score_local=self.score_local,
            journal=journal,
        )


def _try_out(rules: Rules) -> None:
    """Let rules do all that they do, often and seldom."""
    _decide(rules)
    _grow(rules)
    _look_inside(rules.learner)
    _change_arms(rules)
    _learn_features(rules.learner)


def _decide(rules: Rules) -> None:
    own, dimensions = next(iter(rules.learner.arms.own)), rules.learner.dimensions
    for count in (1, 2):
        points = np.zeros((count, dimensions))
        first = rules.choose(points).first
        again, _ = rules.fail([*range(first, first + count)], own, "a trial")
        step = rules.choose(points, again=[*again.values()])
        ids = [*range(step.first, step.first + len(step.arms))]
        rules.complete(ids, [None] * len(ids))
        rules.settle(ids, [None] * len(ids), [0.0] * len(ids), others=_all_but(step.arms, rules))
        _answer_a_peer(rules, (0.0,) * dimensions, count)


def _grow(rules: Rules) -> None:
    """Let more wait than there is room for, and let there be more cells."""
    learner = rules.learner
    step = rules.choose(np.zeros((MANY, learner.dimensions)))
    learner.memory.use(grown(learner.ledger))
    rules.complete([*range(step.first, step.first + MANY)], [None] * MANY)
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


def _change_arms(rules: Rules) -> None:
    """Let a peer come, tell what it knows, and go with all that waits for it; the same with a classifier."""
    point, own = np.zeros((1, rules.learner.dimensions)), [*rules.learner.arms.own]
    rules.add_peer(PEER, 0.0, 1)
    rules.choose(point, told={PEER: LabelledData(1, 1)})
    rules.choose(point, told={PEER: LabelledData(1, 1)}, without=own)
    rules.remove(PEER)
    rules.add_local(PEER, 0.0)
    rules.choose(point, without=own)
    rules.remove(PEER)


def _learn_features(learner: Learner) -> None:
    """Let features be found, some of which never change and then do."""
    if learner.policy.mixes:
        learner.add_axes(0, 2, [])
        learner.add_axes(2, 0, [0.5])


def _all_but(arms: Sequence[str], rules: Rules) -> list[dict[str, float]]:
    """Return of each item a gain for all local classifiers but its arm."""
    own = rules.learner.arms.own
    return [{name: 0.0 for name in own if name != arm} for arm in arms]


def _answer_a_peer(rules: Rules, context: tuple[float, ...], count: int) -> None:
    requests, nothing = [*range(1, count + 1)], [None] * count
    for training in (False, True):
        served = rules.serve(PEER, [Question(n, None, context, training, True) for n in requests])
        rules.complete(served.tickets, nothing)
        rules.teach(PEER, requests, nothing, [0.0] * count)
    rules.withdraw(rules.serve(PEER, [Question(1, None, context, False, True)]).tickets)
    rules.serve(PEER, [Question(1, None, context, False, False)])
    rules.report(context)
