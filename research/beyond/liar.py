"""The liar part: one peer answers wrong on purpose and reports false counts, in a real network of sites.

Learner 2 lies to all others. What that costs learner 1 is measured against the same network without learner 2, and
stated beside what a useless arm is owed at most: the samples that the policy takes before it rules an arm out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.algorithm.cos import exploration_quota, exponent_for
from cosend.algorithm.learner import Learner
from cosend.algorithm.policies import CoS
from cosend.algorithm.values import Cell, LabelledData
from cosend.axes import Feature
from cosend.engine.needs import Call, Forward, Peer, Reply
from cosend.network import Network
from cosend.site import Site
from research.beyond.play import WARM_UP, Job, Numbers, Place, summary
from research.beyond.problems import Outcome, Problem, every_nth, window_problems
from research.beyond.settings import AXES, MAIN, POLICIES, NamedPolicy, Settings, cos
from research.paper.settings import LEARNERS, PEER_FUNCTIONS

LIAR: Final = LEARNERS[1]
ITEMS: Final = 4_000  # of the window, every n-th: sites with classifiers are slower than a simulation
CONTEXT: Final = "src_bytes"
HUGE: Final = 10**9


class Lies(NamedTuple):
    """From which share of the stream on a peer answers wrong, and what it reports instead of the truth."""

    name: str
    wrong_from: float = 0.0
    reports: LabelledData | None = None


LIES: Final = (
    Lies("honest", wrong_from=1.0),
    Lies("wrong, claims huge counts", reports=LabelledData(HUGE, HUGE)),
    Lies("wrong, claims to know nothing", reports=LabelledData(0, 0)),
    Lies("wrong from the middle on", wrong_from=0.5),
)
ABSENT: Final = "not there"

# A peer decides what it reports, but not how often it was trained by this learner.
OWN_AND_MINE: Final = NamedPolicy(
    "CoS, own_and_mine", lambda rows, axes: replace(cos(rows, axes), training_count="own_and_mine")
)
# Of the others it is not known in advance what a useless arm is owed.
WITH_A_PRICE: Final = ("CoS", "CellKLUCB", "ZoomingKLUCB")
DEFAULT: Final = "MixedViews"  # plays too, and has no such price
LIED_TO: Final = (*(policy for policy in POLICIES if policy.name in (*WITH_A_PRICE, DEFAULT)), OWN_AND_MINE)


class Liar:
    """A peer that stands before an honest one. It even knows the truth, to be wrong whenever it wants to."""

    def __init__(self, peer: Peer, lies: Lies, truths: list[int]) -> None:
        self.peer, self.lies, self.truths = peer, lies, truths

    def report(self, context: tuple[float, ...]) -> LabelledData:
        """Return any number."""
        return self.peer.report(context) if self.lies.reports is None else self.lies.reports

    def serve(self, call: Call) -> list[Reply]:
        """Answer, but with the wrong label where it lies."""
        answers = self.peer.serve(call)
        numbers = [question.item["number"] for question in call.questions]
        first = self.lies.wrong_from * len(self.truths)
        return [
            Reply(1 - self.truths[number] if number >= first else label, failed)
            for number, (label, failed) in zip(numbers, answers, strict=True)
        ]

    def teach(self, forward: Forward) -> None:
        """Listen, as an honest peer does."""
        self.peer.teach(forward)


def liar(settings: Settings) -> Iterator[Job]:
    """Yield the rows of every kind of lie, and of a network without the liar."""
    for policy in LIED_TO:
        for lies in (None, *LIES):
            place = Place("liar", ABSENT if lies is None else lies.name, "S1", CONTEXT, policy.name, "policy")
            yield Job(place, partial(lied_to, settings, policy, lies))


@lru_cache(maxsize=1)
def thinned(settings: Settings) -> list[Problem]:
    """Return the paper's window with every n-th item."""
    problems = window_problems(settings, MAIN.start, "S1")
    return [every_nth(problem, max(1, len(problem.labels) // ITEMS)) for problem in problems]


def lied_to(settings: Settings, policy: NamedPolicy, lies: Lies | None) -> Numbers:
    """Play a network of sites with a liar, or without it, and say how often it was called and what it was owed."""
    problems, outcomes, calls, owed, seconds = thinned(settings), [], [], [], 0.0
    warm_up = problems[0].part(slice(WARM_UP))
    play_network(network_of_sites(warm_up, policy, 0), warm_up)
    for seed, problem in enumerate(problems):
        network = network_of_sites(problem, policy, seed)
        place_liar(network, lies, problem.labels.tolist())
        start = time.perf_counter()
        outcome, called = play_network(network, problem)
        seconds += time.perf_counter() - start
        outcomes.append(outcome)
        calls.append(called)
        if lies and policy.name != DEFAULT:
            owed.append(owed_to_useless(network.sites[LEARNERS[0]].learner))
    decisions = len(LEARNERS) * sum(len(problem.labels) for problem in problems)
    return {
        **summary(problems, outcomes, decisions / seconds),
        "wrong": float(np.mean([np.sum(1.0 - outcome.right) for outcome in outcomes])),
        "calls": float(np.mean(calls)),
        "owed": float(np.mean(owed)) if owed else None,
    }


def network_of_sites(problem: Problem, policy: NamedPolicy, seed: int) -> Network:
    """Return the four learners as sites whose functions look up what they say."""
    said = np.where(problem.right, problem.labels[:, None], 1 - problem.labels[:, None]).tolist()
    return Network(
        Site(
            name,
            classifiers={
                f"{name}.{n + 1}": partial(_look_up, said, place * PEER_FUNCTIONS + n) for n in range(PEER_FUNCTIONS)
            },
            context=Feature(CONTEXT, range=(0, 1)),
            policy=policy.build(len(said), 1),
            score_local=policy.score_local,
            learnt=policy.learnt,
            seed=seed,
        )
        for place, name in enumerate(LEARNERS)
    )


def _look_up(said: Any, function: int, item: dict[str, Any]) -> Any:
    return said[item["number"]][function]


def place_liar(network: Network, lies: Lies | None, truths: list[int]) -> None:
    """Let the liar stand before the honest peer wherever that is known, or let it leave."""
    if lies is None:
        network.remove(LIAR)
        return
    liar = Liar(network.sites[LIAR], lies, truths)
    for site in network.sites.values():
        if LIAR in site.peers:
            site.peers[LIAR] = liar


def play_network(network: Network, problem: Problem) -> tuple[Outcome, int]:
    """Play the stream at every site; returns what came of it at learner 1, and how often it called the liar."""
    points = problem.contexts[:, AXES.index(CONTEXT)].tolist()
    stream = [
        ({"number": n, CONTEXT: point}, label)
        for n, (point, label) in enumerate(zip(points, problem.labels.tolist(), strict=True))
    ]
    events = [event for event in network.run(dict.fromkeys(network.sites, stream)) if event.site == LEARNERS[0]]
    right = np.array([event.decision.label == event.truth for event in events], np.float64)
    return Outcome(right, np.zeros(len(right))), sum(event.decision.arm == LIAR for event in events)


def owed_to_useless(learner: Learner) -> float:
    """Return how many samples an arm that is never right is owed, added up over the cells that were visited."""
    cells = [cell for cell in learner.cells().values() if cell.labelled.arrivals]
    owed = _owed_by_quota(learner, learner.policy) if isinstance(learner.policy, CoS) else None
    return sum(min(cell.labelled.arrivals, _owed_by_index(cell) if owed is None else owed) for cell in cells)


def _owed_by_quota(learner: Learner, policy: CoS) -> float:
    """Return one more than the quota of the last step; the one of training only if it does not hang on the peer."""
    exponent = policy.exploration_exponent or exponent_for(policy.alpha, learner.dimensions)
    quota = exploration_quota(learner.arrivals, exponent)
    training = math.floor(PEER_FUNCTIONS * quota) + 1 if policy.training_count == "own_and_mine" else 0
    return math.floor(quota) + 1 + training


def _owed_by_index(cell: Cell) -> float:
    """Return the first sample and ln(items) / kl(0, best mean) more, with kl(0, q) = -ln(1 - q)."""
    items = cell.labelled.arrivals
    best = max(estimate.mean_reward for estimate in cell.estimates.values())
    return 1 + math.log(items) / -math.log(min(max(1.0 - best, 1 / (1 + items)), 0.999))
