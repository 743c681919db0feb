"""What the runs come to: rows and details for results.json, the table, and remarks. The plots are in plots.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from cosend.text import counted
from research import bounds
from research.output import Section, TableText, as_markdown
from research.output import write as write_all
from research.regret import zooming
from research.regret.parts import PARTS
from research.regret.plots import parts_of_regret, regret_over_items
from research.regret.run import Run, Slope, log_log_slope, over_seeds
from research.regret.settings import MOSTLY, POLICIES, PROBLEMS, NamedPolicy, NamedProblem, theorem_applies

FILES: Final = ("results.json", "table.md", "regret.png", "parts.png")
NONE: Final = "-"  # in the table: there is no such number

VERDICTS: Final = {
    "below": "the whole interval of the slope in the run is below the exponent",
    "unclear": "the interval holds the exponent, or there is only one seed",
    "above": "the whole interval is above the exponent",
    "exploring": "the horizon is too short for this policy: more than half of the items are still exploration, and "
    "regret grows nearly with every item",
    "unproven": "the exponent assumes peers that know which of their functions is best, and here they have "
    "to learn it from our labels; or, of MixedViews, there is none",
}


def results(runs: Sequence[Run]) -> dict[str, Any]:
    """Return everything as plain data: a row for every policy, problem and horizon, and details for the longest."""
    rows, details = [], []
    for problem in PROBLEMS:
        for policy in POLICIES:
            own = [run for run in runs if (run.policy, run.problem) == (policy.name, problem.name)]
            horizons = sorted({run.horizon for run in own})
            rows += [row(policy, problem, [run for run in own if run.horizon == horizon]) for horizon in horizons]
            if own:
                details.append(detail(policy, problem, own))
    used = {each["problem"] for each in rows}
    settings = {problem.name: asdict(problem.problem) for problem in PROBLEMS if problem.name in used}
    return {"rows": rows, "details": details, "comparisons": zooming.comparisons(runs), "problems": settings}


def row(policy: NamedPolicy, problem: NamedProblem, own: Sequence[Run]) -> dict[str, Any]:
    """Return the row of a policy on a problem for one horizon; bound and exponent are None where there is none."""
    slope, bound = over_seeds([run.slope for run in own]), bound_for(policy, problem)
    applies = theorem_applies(policy, problem.problem)
    return {
        "policy": policy.name,
        "problem": problem.name,
        "horizon": own[0].horizon,
        "seeds": len(own),
        "regret": float(np.mean([run.regret for run in own])),
        "slope": slope and slope.mean,
        "slope_ci": interval(slope),
        "bound": bound and bound(own[0].horizon),
        "exponent": policy.exponent(problem.problem) if applies and policy.exponent else None,
    }


def bound_for(policy: NamedPolicy, problem: NamedProblem) -> Callable[[int], float] | None:
    """Return the bound that the theorem of a policy gives for a horizon, or None where no theorem applies."""
    bound = policy.bound if theorem_applies(policy, problem.problem) else None
    return bound and (lambda horizon: bound(problem.problem.setting, horizon))


def detail(policy: NamedPolicy, problem: NamedProblem, runs: Sequence[Run]) -> dict[str, Any]:
    """Return what else is known of a policy on a problem, at the longest horizon that was run."""
    longest = [run for run in runs if run.horizon == max(run.horizon for run in runs)]
    summary, bound = row(policy, problem, longest), bound_for(policy, problem)
    over_horizons = slope_over_horizons(policy, runs)
    exploited = float(np.mean([run.exploited for run in longest]))
    return {
        "policy": policy.name,
        "problem": problem.name,
        "horizon": longest[0].horizon,
        "verdict": verdict(summary, exploited),
        "exploited": exploited,
        "slope_over_horizons": over_horizons and over_horizons.mean,
        "slope_over_horizons_ci": interval(over_horizons),
        "log_power": policy.log_power,
        "regrets": [{"horizon": run.horizon, "seed": run.seed, "regret": run.regret} for run in runs],
        "below_bound": bound and all(run.regret <= bound(run.horizon) for run in runs),
        "parts": {part: float(np.mean([run.parts[part] for run in longest])) for part in PARTS},
        "part_bounds": part_bounds(problem, longest[0].horizon) if policy.name == "CoS" else None,
        "cells": float(np.mean([run.cells for run in longest])),
        "curve": {"item": longest[0].items, "regret": np.mean([run.curve for run in longest], axis=0).tolist()},
        "bound_curve": bound and [bound(item) for item in longest[0].items],
    }


def interval(slope: Slope | None) -> list[float] | None:
    """Return the ends of a confidence interval, if there is one."""
    return None if slope is None or slope.low is None or slope.high is None else [slope.low, slope.high]


def slope_over_horizons(policy: NamedPolicy, runs: Sequence[Run]) -> Slope | None:
    """Return how regret at the end grows with the horizon, the logarithm of the policy's theorem divided out."""
    by_seed = {seed: [run for run in runs if run.seed == seed] for seed in dict.fromkeys(run.seed for run in runs)}
    most = max(len(own) for own in by_seed.values())
    whole = [own for own in by_seed.values() if len(own) == most > 1]  # a stopped seed lacks its longest horizons
    return over_seeds(
        [log_log_slope([run.horizon for run in own], [run.regret for run in own], policy.log_power) for own in whole]
    )


def verdict(summary: dict[str, Any], exploited: float) -> str:
    """Return how the slope compares with the theorem's exponent, as a word of `VERDICTS`."""
    ends, exponent = summary["slope_ci"], summary["exponent"]
    if exponent is None:
        return "unproven"
    if exploited < MOSTLY:
        return "exploring"
    if ends is None or ends[0] <= exponent <= ends[1]:
        return "unclear"
    return "below" if ends[1] < exponent else "above"


def part_bounds(problem: NamedProblem, horizon: int) -> dict[str, float]:
    """Return what the lemmas say about the parts; training and exploration share one."""
    setting = problem.problem.setting
    return {
        "training_and_exploration": bounds.exploration_bound(setting, horizon),
        "suboptimal": bounds.suboptimal_bound(setting, horizon),
        "near_optimal": bounds.near_optimal_bound(setting, horizon),
    }


def table(found: dict[str, Any]) -> TableText:
    """Return a line for every problem and policy, at the longest horizon; it fits into 80 columns."""
    heading = ["problem", "policy", "T", "regret", "in run", "over T", "exp.", "bound", "verdict"]
    last = {(each["problem"], each["policy"], each["horizon"]): each for each in found["rows"]}
    lines = []
    for each in found["details"]:
        summary = last[each["problem"], each["policy"], each["horizon"]]
        lines.append(
            [
                each["problem"],
                each["policy"],
                short(each["horizon"]),
                f"{summary['regret']:,.0f}",
                shown(summary["slope"], summary["slope_ci"]),
                shown(each["slope_over_horizons"], each["slope_over_horizons_ci"]),
                NONE if summary["exponent"] is None else f"{summary['exponent']:.3f}".removeprefix("0"),
                NONE if summary["bound"] is None else f"{summary['bound']:.0e}".replace("e+0", "e"),
                each["verdict"],
            ]
        )
    return f"Regret of the first site and its slopes, 95 % intervals over {_seeds(found)}", heading, lines


def short(items: int) -> str:
    """Return a number of items in at most five characters: 950, 40k, 10M; rounded only from a hundred thousand on."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if items % size == 0:
            return f"{items // size}{unit}"
    return str(items) if items < 100_000 else f"{items / 1_000:.0f}k"


def _seeds(found: dict[str, Any]) -> str:
    counts = sorted({each["seeds"] for each in found["rows"]})
    return counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"


def shown(slope: float | None, ends: list[float] | None) -> str:
    """Return a slope with half the width of its interval."""
    if slope is None:
        return "none"
    return f"{slope:.3f}" if ends is None else f"{slope:.3f}±{(ends[1] - ends[0]) / 2:.3f}".replace("±0.", "±.")


def on_columns(found: dict[str, Any]) -> list[str]:
    """Return what the columns mean and what has to be said about the numbers."""
    used = dict.fromkeys(each["verdict"] for each in found["details"])
    return [
        "in run: slope of ln regret over ln items, after the first third of the run for the horizon T.",
        "over T: slope of the regret at the end over four horizons up to T, the theorem's logarithm divided out.",
        "exp.: the theorem's exponent; without a bound beside it, it is not proven here. bound: what it allows at T.",
        *(f"{word}: {VERDICTS[word]}." for word in VERDICTS if word in used),
        *_on_horizons(found),
        *_on_bounds(found),
    ]


def _on_horizons(found: dict[str, Any]) -> list[str]:
    """Name those whose slope over T is surely above the exponent, which the verdict on the slope in the run hides."""
    exponents = {(each["policy"], each["problem"]): each["exponent"] for each in found["rows"]}
    above = [
        f"{each['policy']} on {each['problem']}"
        for each in found["details"]
        if each["verdict"] in ("below", "unclear", "above")
        and each["slope_over_horizons_ci"] is not None
        and each["slope_over_horizons_ci"][0] > exponents[each["policy"], each["problem"]]
    ]
    return [f"The whole interval of the slope over T is above the exponent for {', '.join(above)}."] if above else []


def _on_bounds(found: dict[str, Any]) -> list[str]:
    judged = [each for each in found["details"] if each["below_bound"] is not None]
    if not judged:
        return []
    over = [f"{each['policy']} on {each['problem']}" for each in judged if not each["below_bound"]]
    held = "holds in every single run" if not over else f"DOES NOT HOLD for {', '.join(over)}"
    ratios = [each["bound"] / each["regret"] for each in found["rows"] if each["bound"] and each["regret"] > 0]
    if not ratios:
        return [f"The bound {held}."]
    return [f"The bound {held}. It is loose: {min(ratios):,.0f} to {max(ratios):,.0f} times the measured regret."]


def in_short(found: dict[str, Any]) -> str:
    """Return who has the least regret on how many problems, and whether the bounds hold; empty if there is no rival."""
    least = Counter(name for problem in found["problems"] if (name := _least(found, problem)))
    counts = ", ".join(f"{policy} on {counted(number, 'problem')}" for policy, number in least.most_common())
    rest = len(found["problems"]) - least.total()
    apart = [f"On {counted(rest, 'problem')}, no horizon is common to all policies."] if rest else []
    return " ".join([f"Least regret: {counts}.", *apart, *_on_bounds(found)]) if counts else ""


def _least(found: dict[str, Any], problem: str) -> str | None:
    """Return the policy with the least regret on a problem, at the longest horizon of all policies; None if alone."""
    horizons: dict[str, dict[int, float]] = {}
    for each in found["rows"]:
        if each["problem"] == problem:
            horizons.setdefault(each["policy"], {})[each["horizon"]] = each["regret"]
    common = set.intersection(*map(set, horizons.values()))
    return min(horizons, key=lambda name: horizons[name][max(common)]) if common and len(horizons) > 1 else None


def console_sections(found: dict[str, Any]) -> list[Section]:
    """Return the tables with what has to be said about each: of all policies, and of zooming where it was compared."""
    compared = found["comparisons"]
    parts: list[Section] = [(table(found), on_columns(found))]
    return [*parts, (zooming.table(compared), zooming.remarks(compared))] if compared else parts


def remarks(found: dict[str, Any]) -> list[str]:
    """Return what it comes to."""
    return [in_short(found)] if in_short(found) else []


def write(found: dict[str, Any], folder: Path) -> list[str]:
    """Write results.json, table.md and the plots into a folder."""
    text = as_markdown("Regret", in_short(found), console_sections(found))
    plots = {"regret.png": regret_over_items, "parts.png": parts_of_regret}
    return write_all(folder, found, {"table.md": text}, plots)
