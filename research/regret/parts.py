"""Where regret comes from: training, exploration, and the suboptimal and near-optimal arms of the paper's lemmas.

Training and exploration are what the policy says they are. An item that was exploited is suboptimal if its arm is
in the lemmas' set of suboptimal arms: in its cell, the best value of the arm is below the worst value of the
cell's optimal arm by more than a_1 t^theta. Cells and threshold are those of Theorem 1 for every policy, so that one
yardstick serves them all.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cosend.algorithm.cells import keys_of, slices_for
from cosend.algorithm.layout import EXPLOIT, EXPLORE, TRAIN, Floats
from cosend.simulation.loop import Trace
from research.lipschitz import LipschitzProblem, parts_of

PARTS = ("training", "exploration", "suboptimal", "near_optimal")


def split(problem: LipschitzProblem, contexts: Floats, trace: Trace, losses: Floats, site: int = 0) -> dict[str, float]:
    """Return how much of the regret of a site each part has."""
    phases, suboptimal = trace.phases[:, site], suboptimal_items(problem, contexts, trace, site)
    exploited = phases == EXPLOIT
    chosen = (phases == TRAIN, phases == EXPLORE, exploited & suboptimal, exploited & ~suboptimal)
    return {part: float(losses[items].sum()) for part, items in zip(PARTS, chosen, strict=True)}


def suboptimal_items(problem: LipschitzProblem, contexts: Floats, trace: Trace, site: int) -> npt.NDArray[np.bool_]:
    """Return for every item of a site whether the arm that it got is suboptimal in its cell at that step."""
    horizon, setting = len(trace.arms), problem.setting
    slices = slices_for(horizon, 3 * problem.alpha + problem.dimensions)
    behind = arms_behind(problem, slices, site)
    coarseness = 2 * problem.lipschitz * math.pow(problem.dimensions, problem.alpha / 2) + 6  # a_1
    own_contexts = problem.contexts_at(contexts, site)
    found = np.zeros(horizon, np.bool_)
    for part in parts_of(horizon):
        steps = np.arange(part.start, part.stop) + 1.0
        cells = keys_of(own_contexts[part], slices)
        found[part] = behind[cells, trace.arms[part, site]] > coarseness * steps ** (-setting.exploration_exponent / 2)
    return found


def arms_behind(problem: LipschitzProblem, slices: int, site: int) -> Floats:
    """Return how far every arm is behind in every cell, at least: [cell, arm].

    The optimal arm of a cell is the best at its centre; an arm's best value is compared with that arm's worst one. The
    worst value of a peer is taken as that of its best single function, which is never too high.
    """
    axes = np.indices((slices,) * problem.dimensions).reshape(problem.dimensions, -1).T
    places, heights = problem.peaks()
    low, high = axes[:, None, :] / slices, (axes[:, None, :] + 1) / slices
    nearest = np.linalg.norm(np.maximum(0.0, np.maximum(low - places, places - high)), axis=2)
    farthest = np.linalg.norm(np.maximum(places - low, high - places), axis=2)
    best = problem.arm_values(problem.accuracy_at(nearest, heights), site)
    worst = problem.arm_values(problem.accuracy_at(farthest, heights), site)
    optimal = problem.arm_values(problem.accuracies((axes + 0.5) / slices), site).argmax(axis=1)
    behind: Floats = np.take_along_axis(worst, optimal[:, None], axis=1) - best
    return behind
