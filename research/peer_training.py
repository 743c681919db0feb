"""What labels passed on to peers are worth to an index policy: `python -m research.peer_training`.

The numbers of docs/contributing/0001-training-of-peers.md come from here.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from cosend.algorithm.policies import CellKLUCB, Policy, ZoomingKLUCB
from research.lipschitz import LipschitzProblem
from research.regret.run import Run, Slope, drawn, log_log_slope, measured, over_seeds
from research.regret.settings import HORIZON_PARTS, POLICIES, PROBLEMS, NamedPolicy
from research.regret.zooming import log_ratio

OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "nobody": {"share_labels": "training"},
    "always": {"share_labels": "always"},
}
MAKERS: Final[dict[str, Callable[[LipschitzProblem, int, dict[str, Any]], Policy]]] = {
    "CellKLUCB": lambda problem, horizon, options: CellKLUCB(horizon=horizon, alpha=problem.alpha, **options),
    "ZoomingKLUCB": lambda problem, horizon, options: ZoomingKLUCB(alpha=problem.alpha, **options),
}


class Row(NamedTuple):
    """How a policy with an option did on a problem, over seeds."""

    problem: str
    policy: str
    option: str
    regret: float
    worst: float  # regret of a seed
    slope: Slope | None  # of the regret over T
    ratio: Slope | None  # logarithm of the regret over that with labels for nobody


def variant(name: str, option: str) -> NamedPolicy:
    """Return an index policy with one of the options."""
    base = next(policy for policy in POLICIES if policy.name == name)
    return base._replace(make=lambda problem, horizon: MAKERS[name](problem, horizon, OPTIONS[option]))


def rows(problems: Sequence[str], seeds: int, items: int) -> Iterator[Row]:
    """Yield a row for every problem, policy and option."""
    for named in (known for known in PROBLEMS if known.name in problems):
        longest = min(items, named.horizon)
        done: dict[tuple[str, str], list[list[Run]]] = {(name, option): [] for name in MAKERS for option in OPTIONS}
        for seed in range(seeds):
            streams = [(longest // part, drawn(named, seed, longest // part)) for part in HORIZON_PARTS]
            for (name, option), by_seed in done.items():
                policy = variant(name, option)
                by_seed.append([measured(named, policy, stream, horizon) for horizon, stream in streams])
        for (name, option), by_seed in done.items():
            yield row(named.name, name, option, by_seed, done[name, "nobody"])


def row(problem: str, policy: str, option: str, by_seed: list[list[Run]], untrained: list[list[Run]]) -> Row:
    """Return what the runs of an option come to; the last run of a seed has the longest horizon."""
    ends = [runs[-1].regret for runs in by_seed]
    slopes = [log_log_slope([run.horizon for run in runs], [run.regret for run in runs]) for runs in by_seed]
    ratios = [log_ratio(with_it[-1], without[-1]) for with_it, without in zip(by_seed, untrained, strict=True)]
    return Row(problem, policy, option, sum(ends) / len(ends), max(ends), over_seeds(slopes), over_seeds(ratios))


def line(each: Row) -> str:
    """Return a row of a Markdown table."""
    slope = "-" if each.slope is None else f"{each.slope.mean:.2f}"
    ratio = "-" if each.ratio is None else f"{math.exp(each.ratio.mean):.2f}"
    if each.ratio is not None and each.ratio.low is not None and each.ratio.high is not None:
        ratio += f" ({math.exp(each.ratio.low):.2f} to {math.exp(each.ratio.high):.2f})"
    names = f"{each.problem} | {each.policy} | {each.option}"
    return f"| {names} | {each.regret:,.0f} | {each.worst:,.0f} | {slope} | {ratio} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=["apart", "hot-line", "hot-cube"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--items", type=int, default=400_000)
    chosen = parser.parse_args()
    print("| problem | policy | labels | regret | worst seed | slope over T | ratio to nobody |\n|" + " --- |" * 7)
    for each in rows(chosen.problems, chosen.seeds, chosen.items):
        print(line(each), flush=True)


if __name__ == "__main__":
    main()
