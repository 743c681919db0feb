"""Play a problem with a policy or a baseline, and measure error, regret and speed.

Error is in % of the items of learner 1. Regret is the reward, right minus paid, that learner 1 lost over the whole
stream against the best function of every cell of all three axes together, twelve slices each, known in advance: it is
the same yardstick for every row of a setting. Speed is all decisions that were made, divided by the time on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm.cells import keys_of
from cosend.algorithm.layout import Ints
from cosend.simulation.baselines import Values, best_fixed, epsilon_greedy, linucb
from cosend.simulation.simulate import simulate
from research.beyond.learnt import with_learnt
from research.beyond.problems import Outcome, Problem
from research.beyond.settings import CONTEXTS, EVERY_FEATURE, POLICIES, TOGETHER, NamedPolicy
from research.paper.run import four_learners
from research.paper.settings import LEARNERS, SLICES

WARM_UP: Final = 200  # items that are played first and not timed: compiling and importing are no decisions

Play = Callable[[Problem, int], Outcome]  # the problem, and the seed of the policy
Numbers = dict[str, Any]  # a part of a row of the results


class Place(NamedTuple):
    """Where a row of the results belongs."""

    part: str
    setting: str
    scenario: str
    context: str | None  # None if none is used
    policy: str
    kind: str  # policy, field, baseline, or hindsight: it knows all labels in advance


class Job(NamedTuple):
    """One row of the results that can be computed."""

    place: Place
    work: Callable[[], Numbers]


class Method(NamedTuple):
    """Something that decides, with the context that it gets."""

    name: str
    kind: str
    context: str | None
    play: Play
    sites: int = 1  # that decide while it is played; 0 if nothing is decided as the items come
    most_seeds: int | None = None  # for what takes long
    learnt: bool = False  # it plays with what every learner learns itself as two more of its functions


def measured(problems: Callable[[], Sequence[Problem]], method: Method) -> Numbers:
    """Play a method on the problem of every seed and return error, regret and speed."""
    return summary(*played(problems, method))


def played(
    problems: Callable[[], Sequence[Problem]], method: Method
) -> tuple[Sequence[Problem], list[Outcome], float | None]:
    """Play a method on the problem of every seed and return these, what came of them, and decisions per second."""
    by_seed = problems()[: method.most_seeds]
    given = [with_learnt(each, method.context == EVERY_FEATURE) for each in by_seed] if method.learnt else by_seed
    method.play(given[0].part(slice(WARM_UP)), 0)
    outcomes, seconds = [], 0.0
    for seed, problem in enumerate(given):
        start = time.perf_counter()
        outcomes.append(method.play(problem, seed))
        seconds += time.perf_counter() - start
    decisions = method.sites * sum(len(problem.labels) for problem in by_seed)
    return by_seed, outcomes, decisions / seconds if decisions else None


def summary(problems: Sequence[Problem], outcomes: Sequence[Outcome], speed: float | None) -> Numbers:
    """Return the numbers of a row from what came of every seed."""
    errors = [percent_wrong(outcome.right) for outcome in outcomes]
    paid = [100 * float(outcome.paid.mean()) for outcome in outcomes]
    regrets = [problem.oracle.reward - each.reward for problem, each in zip(problems, outcomes, strict=True)]
    return {
        "seeds": len(problems),
        "error": float(np.mean(errors)),
        "error_by_seed": errors,
        "paid": float(np.mean(paid)),
        "paid_by_seed": paid,
        "regret": float(np.mean(regrets)),
        "decisions_per_second": speed,
    }


def percent_wrong(right: npt.NDArray[Any]) -> float:
    """Return the share of wrong labels in %."""
    return 100 * float(np.mean(1.0 - right))


def policy_methods(
    policies: Sequence[NamedPolicy] = POLICIES, contexts: Sequence[str] = tuple(CONTEXTS)
) -> list[Method]:
    """Return every policy with every context that it is made for."""
    return [
        Method(
            policy.name,
            "policy",
            context,
            partial(play_policy, policy, context),
            len(LEARNERS),
            learnt=policy.learnt,
        )
        for policy in policies
        for context in policy.contexts
        if context in contexts
    ]


def play_policy(policy: NamedPolicy, context: str, problem: Problem, seed: int) -> Outcome:
    """Replay the four learners, all on the same stream, and return what came of it at the first."""
    axes = CONTEXTS[context]
    settings = policy.build(len(problem.labels), len(axes))
    learners = four_learners(
        settings,
        dimensions=len(axes),
        peer_cost=problem.peer_cost,
        seed=seed,
        score_local=policy.score_local,
        functions=problem.own,
    )
    trace = simulate(learners, problem.contexts[:, axes], problem.right, delay=simulation_delay(problem))
    return problem.outcome(trace.functions[:, 0])


def simulation_delay(problem: Problem) -> Ints:
    """Return the delays of a problem as a simulation takes them: of every item at every learner."""
    return np.repeat(problem.delays[:, None], len(LEARNERS), axis=1)


def bandit_methods(contexts: Sequence[str]) -> Iterator[Method]:
    """Yield our own bandits over flat arms; they know every label before the next item, whatever the delay."""
    for context in contexts:
        yield Method("epsilon_greedy", "baseline", context, partial(_greedy, CONTEXTS[context]))
        yield Method("linucb", "baseline", context, _linucb(CONTEXTS[context]))


def _greedy(axes: tuple[int, ...], problem: Problem, seed: int) -> Outcome:
    cells = keys_of(problem.contexts[:, axes], SLICES)
    return problem.outcome(epsilon_greedy(problem.values, cells, seed=seed))


def _linucb(axes: tuple[int, ...]) -> Play:
    return lambda problem, seed: problem.outcome(linucb(problem.values, problem.contexts[:, axes]))


def simple_methods() -> list[Method]:
    """Return what uses no context: repeat the newest known label, and know the best function beforehand."""
    return [
        Method("persistence", "baseline", None, lambda problem, seed: problem.said(problem.contexts[:, 0]), 0),
        Method("win_stay_lose_shift", "baseline", None, lambda problem, seed: shifted(problem), 0),
        Method("best_fixed", "hindsight", None, lambda problem, seed: problem.outcome(best_fixed(problem.values)), 0),
        Method("per_cell_oracle", "hindsight", TOGETHER, lambda problem, seed: problem.oracle, 0),
    ]


def shifted(problem: Problem) -> Outcome:
    """Return what came of staying with a function as long as it is right."""
    return problem.outcome(win_stay_lose_shift(problem.right, problem.delays))


def win_stay_lose_shift(right: Values, delays: Ints) -> Ints:
    """Stay with the function of the newest labelled item if it was right, else switch to the next one.

    delays  [item]: how many items later a label is known; 0 and 1 are before the next item
    """
    items, functions = right.shape
    picked, newest = np.zeros(items, np.int64), -1
    due: list[list[int]] = [[] for _ in range(items)]
    for item in range(items):
        newest = max([newest, *due[item]])
        if newest >= 0:
            picked[item] = (picked[newest] + (right[newest, picked[newest]] < 0.5)) % functions
        if item + max(1, delays[item]) < items:
            due[item + max(1, delays[item])].append(item)
    return picked
