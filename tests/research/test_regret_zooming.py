"""Cubes that split against equal cells: the comparison itself, and what it comes to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from research.lipschitz import SIDE, LipschitzProblem
from research.regret import zooming
from research.regret.run import Run, over_seeds, runs
from research.regret.settings import PROBLEMS, Settings

from cosend import simulate
from cosend.algorithm.policies import CellKLUCB, Policy, Zooming, ZoomingKLUCB

pytestmark = pytest.mark.compiled

PROBLEM = {problem.name: problem for problem in PROBLEMS}


def a_run(policy: str, regret: float, **other: Any) -> Run:
    facts: dict[str, Any] = {"problem": "line", "seed": 0, "horizon": 1_000, "exploited": 0.9, "cells": 10, **other}
    return Run(policy=policy, regret=regret, slope=None, parts={}, items=[], curve=[], **facts)


def test_a_ratio_is_taken_seed_by_seed_at_the_longest_horizon_of_both() -> None:
    done = [
        *(a_run("CoS", 100.0, seed=seed, horizon=horizon) for seed in (0, 1) for horizon in (1_000, 2_000)),
        *(a_run("Zooming", regret, seed=seed, cells=30 + seed) for seed, regret in enumerate((50.0, 200.0))),
        a_run("Zooming", 1.0, horizon=500),
    ]
    (found,) = zooming.comparisons(done)
    assert (found["policy"], found["against"], found["horizon"], found["seeds"]) == ("Zooming", "CoS", 1_000, 2)
    assert found["ratio"] == pytest.approx(1.0)  # half and double
    assert math.sqrt(math.prod(found["ratio_ci"])) == pytest.approx(1.0)
    assert (found["cubes"], found["cells"]) == (30.5, 10)
    assert zooming.comparisons(done[:4]) == []


@pytest.mark.parametrize(
    ("problem", "ends", "exploited", "word"),
    [
        ("line", [0.9, 1.29], 0.9, "holds"),
        ("line", [0.9, 1.31], 0.9, "unclear"),
        ("line", [1.31, 2.0], 0.9, "FAILS"),
        ("line", [0.9, 1.1], 0.4, "exploring"),
        ("line", [1.31, 2.0], 0.4, "FAILS"),
        ("line", None, 0.9, "unclear"),
        ("hot-line", [0.5, 0.99], 0.9, "holds"),
        ("hot-line", [0.9, 1.2], 0.9, "unclear"),
        ("hot-line", [1.01, 1.2], 0.9, "FAILS"),
    ],
)
def test_what_is_said_about_the_claim(problem: str, ends: list[float] | None, exploited: float, word: str) -> None:
    both = [(a_run("Zooming", 1.0, exploited=exploited), a_run("CoS", 1.0, exploited=exploited))]
    assert zooming.claim(PROBLEM[problem], ends, both) == word
    assert word in zooming.CLAIMS


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("policy", [Zooming(contexts="concentrated"), ZoomingKLUCB()], ids=["quota", "index"])
def test_memory_follows_the_visited_part(dimensions: int, policy: Policy) -> None:
    """Every cube that is kept reaches into the cube of the contexts, and the smallest ones are no larger than that."""
    problem = LipschitzProblem(functions=(2, 2), dimensions=dimensions, contexts="concentrated")
    contexts, gains = problem.stream(20_000)
    learners = problem.learners(policy)
    simulate(learners, contexts, gains)
    low, kept = problem.corners()[0], list(learners[0].cells().values())
    for cell in kept:
        corner = np.array(cell.axes) / cell.slices
        assert (corner < low + SIDE).all()
        assert (corner + 1 / cell.slices > low).all()
    assert max(cell.slices for cell in kept) >= 1 / SIDE


def compared(problem: str) -> dict[str, Any]:
    """Return what came of comparing every policy whose cubes split on a problem."""
    names = ("CoS", "CellKLUCB", "Zooming", "ZoomingLate", "ZoomingKLUCB")
    settings = Settings(seeds=4, problems=(problem,), policies=names, items=100_000)
    return {each["policy"]: each for each in zooming.comparisons(list(runs(settings)))}


@pytest.mark.claims
@pytest.mark.parametrize("problem", ["rough", "square", "cube", "rough-cube"])
def test_zooming_wins_by_index_and_loses_little_by_quota_where_contexts_are_uniform(problem: str) -> None:
    """docs/research/theory.md, as the next one."""
    found = compared(problem)
    assert found["ZoomingKLUCB"]["ratio_ci"][1] < 0.6
    assert found["Zooming"]["ratio_ci"][1] < 1.3
    assert found["ZoomingLate"]["claim"] == "holds"


@pytest.mark.claims
@pytest.mark.parametrize("problem", ["hot-line", "hot-square", "hot-cube"])
def test_zooming_loses_by_quota_where_contexts_stay_in_a_small_cube(problem: str) -> None:
    found = compared(problem)
    assert found["Zooming"]["claim"] == "FAILS"
    assert found["ZoomingLate"]["ratio"] < found["Zooming"]["ratio"]
    assert problem != "hot-square" or found["ZoomingKLUCB"]["claim"] == "holds"


@pytest.mark.claims
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_by_index_zooming_wins_in_a_small_part_where_accuracies_are_steep(dimensions: int) -> None:
    """It is told how steep they are, and equal cells are told the horizon."""

    def regret(problem: LipschitzProblem, policy: Policy, items: int = 100_000) -> float:
        contexts, gains = problem.stream(items, problem.seed)
        return float(problem.regret(contexts, simulate(problem.learners(policy), contexts, gains))[-1])

    logs = []
    for seed in range(8):
        kind: dict[str, Any] = {"functions": (2, 2), "dimensions": dimensions, "lipschitz": 10.0, "seed": seed}
        problem = LipschitzProblem(contexts="concentrated", **kind)
        cells = regret(problem, CellKLUCB(horizon=100_000))
        logs.append(math.log(regret(problem, ZoomingKLUCB(lipschitz=10.0)) / cells))
    found = over_seeds(logs)
    assert found is not None
    assert found.high is not None
    assert math.exp(found.high) < 1.0
