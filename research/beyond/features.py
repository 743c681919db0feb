"""The part in which nobody chooses a context: every feature is looked at, beside the contexts of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Final

import numpy as np

from cosend.algorithm.policies import DEFAULT_CELLS, MixedViews
from cosend.simulation.simulate import simulate
from research.beyond.field import field_without_context
from research.beyond.play import Job, Method, jobs_for, policy_methods, simulation_delay
from research.beyond.problems import (
    Outcome,
    Problem,
    delays_of,
    window_data,
    window_problems,
    with_delays,
)
from research.beyond.settings import (
    EVERY_FEATURE,
    LATE,
    POLICIES,
    TOGETHER,
    WINDOWS,
    Settings,
)
from research.paper.run import four_learners
from research.paper.settings import LEARNERS, SCENARIOS


def no_context(settings: Settings) -> Iterator[Job]:
    """Yield the rows of all windows, with labels that come before the next item and late, without a context."""
    mixed = policy_methods([policy for policy in POLICIES if policy.name == "MixedViews"], [TOGETHER])
    for window, scenario, delay in product(WINDOWS, SCENARIOS, (1, LATE)):
        problems = partial(with_features, settings, window.start, scenario, delay)
        methods = [WITHOUT_CONTEXT, *mixed, *field_without_context()]
        yield from jobs_for("no-context", f"{window.name}, {delay} late", scenario, problems, methods)


@lru_cache(maxsize=1)
def with_features(settings: Settings, start: int, scenario: str, delay: int) -> list[Problem]:
    """Return a window with its items, whose labels come so late."""
    items = [item for item, _ in window_data(settings.data, start, settings.rows).window.rows()][-settings.rows :]
    delays = delays_of(delay, settings.rows, 0)
    problems = window_problems(settings, start, scenario)
    return [replace(with_delays(problem, delays), items=items) for problem in problems]


def play_features(problem: Problem, seed: int) -> Outcome:
    """Replay the four learners without a context, as sites do to which none is given."""
    policy = MixedViews(max_cells=DEFAULT_CELLS)
    learners = four_learners(policy, dimensions=0, peer_cost=problem.peer_cost, seed=seed, score_local="all")
    nothing = np.zeros((len(problem.labels), 0))
    trace = simulate(learners, nothing, problem.right, delay=simulation_delay(problem), features=problem.items)
    return problem.outcome(trace.functions[:, 0])


WITHOUT_CONTEXT: Final = Method("MixedViews", "policy", EVERY_FEATURE, play_features, len(LEARNERS))
