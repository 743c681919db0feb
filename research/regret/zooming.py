"""Cubes that split against equal cells: the same rule in both, on the same streams, and whether zooming is worth it.

The claim: zooming beats equal cells when contexts concentrate, and loses at most a factor of 1.3 when they are uniform.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from research.regret.run import Run, Slope, over_seeds
from research.regret.settings import MOSTLY, PROBLEMS, NamedProblem

PAIRS: Final = (("Zooming", "CoS"), ("ZoomingLate", "CoS"), ("ZoomingKLUCB", "CellKLUCB"))  # with cubes, with cells
WORST: Final = {"uniform": 1.3, "concentrated": 1.0}  # the ratio of regrets below which the claim holds

CLAIMS: Final = {
    "holds": "the whole interval is below 1 where contexts concentrate, below 1.3 where they are uniform",
    "unclear": "the interval reaches over this limit, or there is only one seed",
    "FAILS": "the whole interval is above it",
    "exploring": "both explore most of the items, and a ratio near 1 says nothing",
}


def comparisons(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return what zooming does to the regret, for every problem and pair of policies that was run."""
    found = []
    for problem in PROBLEMS:
        of_problem = [run for run in runs if run.problem == problem.name]
        for names in PAIRS:
            cubes, cells = ({(r.horizon, r.seed): r for r in of_problem if r.policy == name} for name in names)
            shared = cubes.keys() & cells.keys()
            if shared:
                longest = max(horizon for horizon, _ in shared)
                seeds = sorted(seed for horizon, seed in shared if horizon == longest)
                found.append(comparison(problem, [(cubes[longest, seed], cells[longest, seed]) for seed in seeds]))
    return found


def comparison(problem: NamedProblem, both: Sequence[tuple[Run, Run]]) -> dict[str, Any]:
    """Return how two policies compare over seeds; a ratio is the geometric mean of those of the seeds."""
    logs = over_seeds([log_ratio(cubes, cells) for cubes, cells in both])
    cubes, cells = both[0]
    return {
        "problem": problem.name,
        "contexts": problem.problem.contexts,
        "policy": cubes.policy,
        "against": cells.policy,
        "horizon": cubes.horizon,
        "seeds": len(both),
        "ratio": None if logs is None else math.exp(logs.mean),
        "ratio_ci": ends(logs),
        "cubes": float(np.mean([each.cells for each, _ in both])),
        "cells": float(np.mean([each.cells for _, each in both])),
        "claim": claim(problem, ends(logs), both),
    }


def log_ratio(cubes: Run, cells: Run) -> float | None:
    """Return the logarithm of the ratio of two regrets, or None if one of them is not above 0."""
    return math.log(cubes.regret / cells.regret) if cubes.regret > 0 and cells.regret > 0 else None


def ends(logs: Slope | None) -> list[float] | None:
    """Return the ends of the interval of a ratio, if there is one."""
    return None if logs is None or logs.low is None or logs.high is None else [math.exp(logs.low), math.exp(logs.high)]


def claim(problem: NamedProblem, interval: list[float] | None, both: Sequence[tuple[Run, Run]]) -> str:
    """Return whether the claim holds, as a word of `CLAIMS`."""
    limit = WORST[problem.problem.contexts]
    if interval is not None and interval[0] > limit:
        return "FAILS"
    if all(np.mean([pair[k].exploited for pair in both]) < MOSTLY for k in (0, 1)):
        return "exploring"
    return "holds" if interval is not None and interval[1] < limit else "unclear"


def table(found: Sequence[dict[str, Any]]) -> tuple[str, list[str], list[list[str]]]:
    """Return a line for every comparison."""
    heading = ["where", "problem", "zooming", "against", "ratio", "95 %", "cubes", "cells", "claim"]
    lines = [
        [
            "all" if each["contexts"] == "uniform" else "cube",
            each["problem"],
            each["policy"],
            each["against"],
            "-" if each["ratio"] is None else f"{each['ratio']:.2f}",
            "-" if each["ratio_ci"] is None else "{:.2f}-{:.2f}".format(*each["ratio_ci"]),
            f"{each['cubes']:,.0f}",
            f"{each['cells']:,.0f}",
            each["claim"],
        ]
        for each in sorted(found, key=lambda each: [pair[0] for pair in PAIRS].index(each["policy"]))
    ]
    return "Regret in cubes that split, as a ratio to that in equal cells", heading, lines


def remarks(found: Sequence[dict[str, Any]]) -> list[str]:
    """Return what the columns of this table mean."""
    if not found:
        return []
    used = {each["claim"] for each in found}
    return [
        "where: contexts all over the space, or in a small cube of it.",
        "ratio: geometric mean over the seeds, at the longest horizon that both were run for.",
        "cubes, cells: how many the site keeps estimates for, cubes that were split included.",
        *(f"{word}: {meaning}." for word, meaning in CLAIMS.items() if word in used),
    ]
