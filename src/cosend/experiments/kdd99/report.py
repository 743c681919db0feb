"""The tables of the paper with ours beside every number, what differs and why, and the plots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cosend.experiments.kdd99 import settings as fixed
from cosend.experiments.kdd99.run import Curves
from cosend.reports.plots import DASHES, LINES, MARKERS, png

Row = list[str]
TableText = tuple[str, Row, list[Row]]  # title, heading, rows

# How far a number may be from the paper's before the report explains it, in points of %.
TOLERANCE = 1.5


def write(results: dict[str, Any], curves: Curves, folder: Path) -> None:
    """Write results.json, tables.md and the plots into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "tables.md").write_text(markdown(results))
    (folder / "errors_over_time.png").write_bytes(png(errors_over_time(curves)))
    (folder / "phase_shares.png").write_bytes(png(phase_shares(results)))
    (folder / "error_per_baseline.png").write_bytes(png(error_per_baseline(results)))


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def tables(results: dict[str, Any]) -> list[TableText]:
    """Return all tables as text."""
    return [_functions(results), _cos(results, "error"), _cos(results, "training"), _cos(results, "exploration")] + [
        _baselines(results, scenario) for scenario in fixed.SCENARIOS
    ]


def _functions(results: dict[str, Any]) -> TableText:
    rows = [
        [row["scenario"], f"learner {row['learner']}", row["name"], beside(row["error"], row["paper_error"])]
        for row in results["functions"]
    ]
    return "Errors of the functions in %: ours (paper)", ["setup", "learner", "function", "error"], rows


def _cos(results: dict[str, Any], number: str) -> TableText:
    heading = ["order", "training count", "parameters, setup", *fixed.CONTEXTS]
    by_key: dict[tuple[str, ...], dict[str, str]] = {}
    for row in results["rows"]:
        key = (row["order"], row["training_count"], f"{row['parameters']},{row['scenario']}")
        printed = None if row["paper"] is None else row["paper"][number]
        by_key.setdefault(key, {})[row["context"]] = beside(row[number], printed)
    rows = [[*key, *(cells[context] for context in fixed.CONTEXTS)] for key, cells in by_key.items()]
    return f"CoS at learner 1, {number} in %: ours (paper)", heading, rows


def _baselines(results: dict[str, Any], scenario: str) -> TableText:
    rows = [
        [row["name"], row["context"] or "", beside(row["error"], row["paper_error"])]
        for row in results["baselines"]
        if row["scenario"] == scenario
    ]
    return f"Baselines in setup {scenario}, error in %: ours (paper)", ["baseline", "context", "error"], rows


def beside(ours: float, printed: float | None) -> str:
    """Return our number with the paper's in brackets."""
    return f"{ours:.2f}" if printed is None else f"{ours:.2f} ({printed:g})"


def remarks(results: dict[str, Any]) -> list[str]:
    """Return what differs from the paper by more than the tolerance, and why."""
    return [*_remarks_on_functions(results), *_remarks_on_cos(results), *_remarks_on_baselines(results)]


def _remarks_on_functions(results: dict[str, Any]) -> Iterator[str]:
    for row in results["functions"]:
        if _far(row["error"], row["paper_error"]):
            yield f"{row['name']} ({row['scenario']}): {beside(row['error'], row['paper_error'])} %."


def _remarks_on_cos(results: dict[str, Any]) -> Iterator[str]:
    main = [row for row in results["rows"] if row["order"] == "pseudocode" and row["training_count"] == "reported"]
    for row in main:
        if row["paper"] is None:
            continue
        name = f"CoS {row['parameters']},{row['scenario']}, {row['context']}"
        for number in ("error", "exploration"):
            if _far(row[number], row["paper"][number]):
                yield f"{name}: {number} {beside(row[number], row['paper'][number])} %. {_why(row, number)}"
    if any(row["paper"] for row in main):
        yield (
            "Training: with own functions first (order pseudocode) every learner has explored, and so seen, as much as "
            "its quota for training asks for, and nobody needs training. The paper prints training shares above 0, so "
            "its own runs cannot have used this order; train_first with own_and_mine comes close."
        )


def _why(row: dict[str, Any], number: str) -> str:
    if row["context"] == "src_bytes":
        return (
            "The paper does not say how src_bytes was scaled to [0, 1]; ours is log(1 + x) over the window's largest."
        )
    if row["parameters"] == "C2":
        return (
            "With z = 1/2 nearly all items are training or exploration, and the order decides which: see train_first."
        )
    return f"The stand-ins for the paper's classifiers are not the same models, which moves this {number}."


def _remarks_on_baselines(results: dict[str, Any]) -> Iterator[str]:
    for row in results["baselines"]:
        if _far(row["error"], row["paper_error"]):
            yield (
                f"{row['name']} ({row['scenario']}): {beside(row['error'], row['paper_error'])} %. The paper names "
                "neither the 20,000 rows it was trained on, nor its weak learners, nor how often it was trained again."
            )


def _far(ours: float, printed: float | None) -> bool:
    return printed is not None and abs(ours - printed) > TOLERANCE


def markdown(results: dict[str, Any]) -> str:
    """Return all tables and remarks as Markdown."""
    window = results["window"]
    lines = [
        "# The paper's experiment",
        "",
        f"KDD Cup 1999, rows {window['start']:,} to {window['start'] + window['rows'] - 1:,}, "
        f"{window['attacks']:.1f} % attacks. Numbers are %, means over the seeds.",
    ]
    for title, heading, rows in tables(results):
        lines += ["", f"## {title}", "", _line(heading), _line(["---"] * len(heading)), *(_line(row) for row in rows)]
    notes = remarks(results)
    if notes:
        lines += ["", "## What differs, and why", "", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _line(cells: Row) -> str:
    return "| " + " | ".join(cells) + " |"


def errors_over_time(curves: Curves) -> Any:
    """Draw the cumulative errors of CoS for each context, with the main baselines."""
    figure = _figure(10, 4.2)
    for place, scenario in enumerate(fixed.SCENARIOS, start=1):
        axes = figure.add_subplot(1, len(fixed.SCENARIOS), place)
        lines = {f"CoS, {context}": curves.cos[scenario, context] for context in fixed.CONTEXTS}
        lines |= {name: curves.baselines[scenario, name] for name in ("swa_100", "swa_1000", "persistence")}
        _draw_lines(axes, lines)
        axes.set_title(f"Setup {scenario}, parameters C1")
        axes.set_xlabel("items")
        axes.set_ylabel("errors so far (count, log scale)")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylim(0.8, None)
        axes.legend(fontsize=8)
    return figure


def _draw_lines(axes: Any, lines: dict[str, Any]) -> None:
    for n, (name, errors) in enumerate(lines.items()):
        items = np.unique(np.linspace(0, len(errors) - 1, 400).astype(int))
        look = {"color": LINES[n], "linestyle": DASHES[n], "marker": MARKERS[n], "markevery": (9 * n, 66)}
        axes.plot(items + 1, np.maximum(errors[items], 0.5), label=name, markersize=4, linewidth=1.4, **look)


def phase_shares(results: dict[str, Any]) -> Any:
    """Draw the shares of training, exploration and exploitation for every order and context."""
    figure = _figure(10, 4.2)
    chosen = [row for row in results["rows"] if row["scenario"] == "S1" and row["training_count"] == "own_and_mine"]
    for place, parameters in enumerate(fixed.PARAMETERS, start=1):
        axes = figure.add_subplot(1, len(fixed.PARAMETERS), place)
        rows = [row for row in chosen if row["parameters"] == parameters]
        names = [f"{row['context']}\n{row['order']}" for row in rows]
        left = np.zeros(len(rows))
        for phase, grey, hatch in (("training", "0.25", ""), ("exploration", "0.6", "//")):
            shares = np.array([row[phase] for row in rows])
            axes.barh(names, shares, left=left, color=grey, hatch=hatch, edgecolor="white", label=phase)
            left += shares
        axes.barh(names, 100 - left, left=left, color="0.9", edgecolor="white", label="exploitation")
        axes.set_title(f"S1, {parameters}, training counted own_and_mine")
        axes.set_xlabel("share of items (%)")
        axes.tick_params(axis="y", labelsize=7)
        axes.invert_yaxis()
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False)
    return figure


def error_per_baseline(results: dict[str, Any]) -> Any:
    """Draw the error of CoS and of every baseline, the paper's number beside it."""
    figure = _figure(10, 5.2)
    for place, scenario in enumerate(fixed.SCENARIOS, start=1):
        axes = figure.add_subplot(1, len(fixed.SCENARIOS), place)
        names, ours, printed = _bars(results, scenario)
        spots = np.arange(len(names))
        axes.barh(spots, ours, color="0.45", label="ours")
        known = [n for n, value in enumerate(printed) if value is not None]
        axes.scatter([printed[n] for n in known], spots[known], marker="D", color="black", zorder=3, label="paper")
        axes.set_yticks(spots, names, fontsize=7)
        axes.set_xscale("log")
        axes.set_xlim(0.1, 100)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("error (%, log scale)")
        axes.set_title(f"Setup {scenario}")
        axes.invert_yaxis()
        axes.legend(fontsize=8, loc="lower right")
    return figure


def _bars(results: dict[str, Any], scenario: str) -> tuple[list[str], list[float], list[float | None]]:
    names, ours, printed = list[str](), list[float](), list[float | None]()
    for row in results["rows"]:
        if (row["scenario"], row["parameters"], row["order"], row["training_count"]) == (
            scenario,
            "C1",
            "pseudocode",
            "reported",
        ):
            names.append(f"CoS, {row['context']}")
            ours.append(row["error"])
            printed.append(None if row["paper"] is None else row["paper"]["error"])
    for row in results["baselines"]:
        if row["scenario"] == scenario:
            names.append(row["name"] + (f", {row['context']}" if row["context"] else ""))
            ours.append(row["error"])
            printed.append(row["paper_error"])
    return names, ours, printed
