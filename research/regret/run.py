"""Run every policy on every problem, for every seed and horizon, and keep of each run what the report needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import EXPLOIT, Floats
from cosend.run.result import half_interval
from cosend.simulation.loop import Trace
from cosend.simulation.simulate import simulate
from research.lipschitz import LipschitzProblem
from research.regret.parts import split
from research.regret.settings import NamedPolicy, NamedProblem, Settings, horizons_of

Watch = Callable[[str, int], None]  # what is being run, decisions made so far in all runs

SITE: Final = 0  # whose regret is measured
WINDOW: Final = 3  # the slope within a run is that after the first third
FIT_POINTS: Final = 30
CURVE_POINTS: Final = 60


class Run(NamedTuple):
    """What came out of one policy on one problem with one seed and horizon, at the first site."""

    policy: str
    problem: str
    seed: int
    horizon: int
    regret: float
    slope: float | None  # of regret over the items of the run, after its first third
    exploited: float  # share of the items that were exploited, after its first third
    cells: int  # that the site keeps estimates for
    parts: dict[str, float]
    items: list[int]  # where the curve was taken
    curve: list[float]


class Stream(NamedTuple):
    """A problem drawn by a seed, and what comes to its sites."""

    problem: LipschitzProblem
    seed: int
    contexts: Floats
    gains: npt.NDArray[np.uint8]


def silent(what: str, decisions: int) -> None:
    """Show nothing."""


def decisions_of(settings: Settings) -> int:
    """Return how many decisions all runs together make."""
    return settings.seeds * sum(
        sum(horizons_of(problem, policy)) * problem.problem.sites
        for problem in settings.chosen_problems
        for policy in settings.chosen_policies
    )


def runs(settings: Settings, watch: Watch = silent) -> Iterator[Run]:
    """Yield all runs, one after the other: whoever stops early has the results so far."""
    done = 0
    for named in settings.chosen_problems:
        by_horizon = policies_by_horizon(named, settings.chosen_policies)
        for seed in range(settings.seeds):
            for horizon, policies in by_horizon.items():
                stream = drawn(named, seed, horizon)
                for policy in policies:
                    show = partial(_show, watch, f"{named.name}, {policy.name}", done, named.problem.sites)
                    yield measured(named, policy, stream, horizon, show)
                    done += horizon * named.problem.sites


def _show(watch: Watch, what: str, before: int, sites: int, slots: int, _: Trace) -> None:
    watch(what, before + slots * sites)


def policies_by_horizon(named: NamedProblem, policies: Sequence[NamedPolicy]) -> dict[int, list[NamedPolicy]]:
    """Return which policies are run for which horizon, the longest last: they share its stream."""
    all_horizons = sorted({horizon for policy in policies for horizon in horizons_of(named, policy)})
    return {
        horizon: [policy for policy in policies if horizon in horizons_of(named, policy)] for horizon in all_horizons
    }


def drawn(named: NamedProblem, seed: int, horizon: int) -> Stream:
    """Draw the functions of a problem and its stream; a seed draws both, so that an interval speaks of the kind."""
    problem = replace(named.problem, seed=seed)
    return Stream(problem, seed, *problem.stream(horizon, seed))


def measured(
    named: NamedProblem,
    policy: NamedPolicy,
    stream: Stream,
    horizon: int,
    show: Callable[[int, Trace], None] | None = None,
) -> Run:
    """Run a policy on a stream and measure its regret against the true accuracies."""
    problem, seed, contexts, gains = stream
    learners = problem.learners(policy.make(problem, horizon), seed, policy.score_local)
    trace = simulate(learners, contexts, gains, items=problem.items(horizon), watch=show)
    losses = problem.losses(contexts, trace, SITE)
    regret = np.cumsum(losses)
    window = geometric(horizon // WINDOW, horizon, FIT_POINTS)
    items = geometric(min(100, horizon), horizon, CURVE_POINTS)
    return Run(
        policy=policy.name,
        problem=named.name,
        seed=seed,
        horizon=horizon,
        regret=float(regret[-1]),
        slope=log_log_slope(window, regret[window - 1]),
        exploited=float((trace.phases[horizon // WINDOW :, SITE] == EXPLOIT).mean()),
        cells=len(learners[SITE].cells()),
        parts=split(problem, contexts, trace, losses, SITE),
        items=items.tolist(),
        curve=regret[items - 1].tolist(),
    )


def geometric(first: int, last: int, points: int) -> npt.NDArray[np.int64]:
    """Return whole numbers from first to last, evenly spaced in their logarithm."""
    return np.unique(np.geomspace(max(1, first), last, points).round().astype(np.int64))


class Slope(NamedTuple):
    """A mean slope over independent seeds with its 95 % interval; `low` and `high` are None for a single seed."""

    mean: float
    low: float | None
    high: float | None


def log_log_slope(x: npt.ArrayLike, y: npt.ArrayLike, log_power: float = 0.0) -> float | None:
    """Return the slope of ln(y / (ln x)^log_power) over ln x by least squares, or None where y is not above 0."""
    values, log_x = np.asarray(y, np.float64), np.log(np.asarray(x, np.float64))
    if not (values > 0).all():
        return None
    return float(np.polyfit(log_x, np.log(values) - log_power * np.log(log_x), 1)[0])


def over_seeds(slopes: Sequence[float | None]) -> Slope | None:
    """Return the mean of the seeds' slopes with Student's interval, or None if a seed has none.

    The seeds are independent, the points of one run are not: only the spread between seeds says how sure a slope is.
    """
    known = [slope for slope in slopes if slope is not None]
    if len(known) < max(1, len(slopes)):
        return None
    mean = float(np.mean(known))
    half = half_interval(known)
    return Slope(mean, None, None) if half is None else Slope(mean, mean - half, mean + half)
