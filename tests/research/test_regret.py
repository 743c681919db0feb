"""Measured regret and the theorems."""

from __future__ import annotations

import numpy as np
import pytest
from research.bounds import theorem_1
from research.lipschitz import LipschitzProblem

from cosend import CoS, simulate

pytestmark = pytest.mark.compiled

PROBLEMS = [
    LipschitzProblem(functions=(2, 2, 2, 2)),
    LipschitzProblem(functions=(3, 1), alpha=0.5, call_cost=0.1),
    LipschitzProblem(functions=(2, 2), dimensions=2),
    LipschitzProblem(functions=(4,), dimensions=3, lipschitz=2.0),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_regret_stays_below_theorem_1_at_every_step(problem: LipschitzProblem, seed: int) -> None:
    horizon = 50_000
    contexts, gains = problem.stream(horizon, seed)
    trace = simulate(problem.learners(CoS(horizon=horizon, alpha=problem.alpha), seed), contexts, gains)
    regret = problem.regret(contexts, trace)
    steps = np.unique(np.geomspace(2, horizon, 60).astype(int))
    bounds = np.array([theorem_1(problem.setting, int(step)) for step in steps])
    assert (regret[steps - 1] <= bounds).all()


@pytest.mark.parametrize("functions", [(2,), (1, 1)], ids=["one site", "two sites"])
def test_slope_of_regret_is_below_the_exponent_of_theorem_1(functions: tuple[int, ...]) -> None:
    """Theorem 1 is of order T^0.75 for alpha = d = 1.

    With the derived quotas every item is owed a sample until T^0.25 passes Z ln T, about a million items for two arms.
    Up to there regret grows linearly, so the slope is measured on the last two thirds of four million.
    """
    horizon = 4_000_000
    problem = LipschitzProblem(functions=functions)
    contexts, gains = problem.stream(horizon)
    trace = simulate(problem.learners(CoS(horizon=horizon)), contexts, gains)
    regret = problem.regret(contexts, trace)
    steps = np.unique(np.geomspace(horizon / 3, horizon, 30).astype(int))
    slope = float(np.polyfit(np.log(steps), np.log(regret[steps - 1]), 1)[0])
    assert problem.setting.regret_exponent == 0.75
    assert slope < 0.75
    assert regret[-1] < theorem_1(problem.setting, horizon)


def test_exploiting_learners_approach_the_benchmark() -> None:
    """With a quota that practice would choose, regret per item falls by more than half from 2,000 to 200,000 items."""
    problem = LipschitzProblem(functions=(2, 2), lipschitz=0.8)
    rates = []
    for horizon in (2_000, 200_000):
        contexts, gains = problem.stream(horizon)
        learners = problem.learners(CoS(horizon=horizon, exploration_exponent=0.125, max_peer_functions=2))
        rates.append(problem.regret(contexts, simulate(learners, contexts, gains))[-1] / horizon)
    assert rates[1] < rates[0] / 2
