"""The report of a run: one page that needs nothing else, the result as JSON, and every plot as a picture.

    folder/report.html    opens offline, on a phone too; the pictures are inside
    folder/results.json   the result as it was given
    folder/plots/*.png    the same pictures

The same result gives the same bytes: no date, no random id.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from cosend.core.checks import check_path
from cosend.reports import plots
from cosend.reports.folder import writing
from cosend.reports.plots import Plot, Result


class Section(NamedTuple):
    """A plot with its words."""

    name: str
    title: str
    explanation: str
    plot: Plot
    has_data: Callable[[Result], bool]


class Column(NamedTuple):
    """A column of the table."""

    key: str
    title: str
    decimals: int
    explanation: str


SECTIONS = (
    Section(
        "error_over_time",
        "Error over time",
        "Of all items seen so far, at all sites together, the share that got a wrong label. Lower is better. A learner "
        "falls while it learns; a policy that does not learn stays level unless the stream changes. The axis leaves "
        "out the very first items, where a single mistake is a large share.",
        plots.error_over_time,
        lambda result: any(curve["item"] for curve in result["error_curves"].values()),
    ),
    Section(
        "phases_over_time",
        "Phases over time",
        "What the items were used for. In training a site sends an item so that the peer learns, in exploration it "
        "tries an arm that it knows too little about, in exploitation it uses the arm that it holds for the best. The "
        "first two are the price of learning and should shrink.",
        plots.phases_over_time,
        lambda result: any(phases["item"] for phases in result["phases"].values()),
    ),
    Section(
        "winners",
        "Which arm wins in which cell",
        "The context is cut into cells, and each site learns the best arm of each cell by itself: a local classifier, "
        "or a peer to send the item to. Each letter is an arm; a number below it is how many items came to that "
        "cell. A cell of few items is not settled yet.",
        plots.winners,
        lambda result: any(won["cells"] for won in result["winners"].values()),
    ),
    Section(
        "flows",
        "Who sends how much to whom",
        "A row is a site, and its numbers add up to 100 % of the items that arrived there. The framed number is what "
        "the site labelled itself; the others are what it sent to each peer.",
        plots.flows,
        lambda result: bool(result["flows"]["percent"]),
    ),
)

COLUMNS = (
    Column("error", "Error (%)", 2, "items that got a wrong label"),
    Column("mean_reward", "Mean reward", 4, "per item: 1 for a right label, less what the chosen arm costs"),
    Column("sent", "Sent (%)", 1, "items that were sent to a peer"),
    Column("cost", "Cost", 1, "what was paid for all chosen arms together"),
    Column("training", "Training (%)", 2, "items that served to train a peer"),
    Column("exploration", "Exploration (%)", 2, "items on which an arm was tried to learn its accuracy"),
    Column("regret", "Regret", 1, "reward lost, in total, against always using the best arm of each cell"),
)

FILES = ("report.html", "results.json", *(f"plots/{section.name}.png" for section in SECTIONS))
NOTHING = "\N{EN DASH}"  # in a cell without a number

CSS = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #57606a; --line: #d0d7de; --best: #dff3e4; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171b; --text: #e6e9ec; --soft: #a3abb4; --line: #3a424b; --best: #1d4429; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 64rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .4rem; }
p { max-width: 46rem; margin: .4rem 0 .8rem; }
.soft, dd { color: var(--soft); }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
.picture { background: #fff; padding: .5rem; }
.picture img { display: block; width: 100%; min-width: 36rem; max-width: 60rem; height: auto; margin: 0 auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; vertical-align: bottom; }
th[scope=row], th[scope=rowgroup], thead th:first-child { text-align: left; }
th[scope=row] { font-weight: normal; padding-left: 1.4rem; white-space: normal; min-width: 9rem; }
th[scope=rowgroup] { white-space: normal; }
.best { background: var(--best); font-weight: bold; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem; margin: 1rem 0; }
dd { margin: 0; }
"""


def write_report(result: Result, folder: Path) -> Path:
    """Write the report of a run into a folder and return the path of its page.

    The result is plain data. `rows` has an entry per site and policy; shares are percentages; None is what does not
    apply.

        {"title": str, "items": int, "sites": [str], "context": [axis], "slices": int,
         "rows": [{"site", "policy", "error", "mean_reward", "sent", "cost", "training", "exploration", "regret",
                   "hindsight": bool, may be left out}],
         "error_curves": {policy: {"item": [int], "error": [float]}},
         "phases": {site: {"item": [int], "train": [float], "explore": [float], "exploit": [float]}},
         "notes": [str], may be left out,
         "winners": {site: {"arms": [str], "cells": [[int, ...]], "best": [int], "arrivals": [int]}},
         "flows": {"from": [site], "to": [site], "percent": [[float]]}}
    """
    check_path("folder", folder)
    pictures = {section.name: plots.png(section.plot(result)) for section in SECTIONS if section.has_data(result)}
    page = _page(result, pictures)
    data = json.dumps(_finite(result), indent=2, ensure_ascii=False, allow_nan=False)

    with writing(folder):
        (folder / "plots").mkdir(parents=True, exist_ok=True)
        for section in SECTIONS:
            path = folder / "plots" / f"{section.name}.png"
            if section.name in pictures:
                path.write_bytes(pictures[section.name])
            else:
                path.unlink(missing_ok=True)  # of an earlier report in the same folder
        _write(folder / "results.json", data + "\n")
        return _write(folder / "report.html", page)


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _finite(value: Any) -> Any:
    """Return plain data with None for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _page(result: Result, pictures: Mapping[str, bytes]) -> str:
    title = escape(result["title"])
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{CSS}</style></head><body>",
        f'<h1>{title}</h1><p class="soft">{escape(_summary(result))}</p>',
        "<h2>Results</h2>",
        "<p>A row for every policy at every site. The lowest error of each site is marked; what knows the labels in "
        "hindsight is out of competition.</p>",
        *(f"<p>{escape(note[:1].upper() + note[1:])}.</p>" for note in result.get("notes", ())),
        _table(result["rows"]),
        _meanings(),
        *(_section(section, pictures.get(section.name)) for section in SECTIONS),
        '<p class="soft">The numbers are in results.json, the pictures in the folder plots, beside this page.</p>',
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _summary(result: Result) -> str:
    sites, axes = result["sites"], result["context"]
    return " · ".join(
        (
            f"{result['items']:,} items",
            f"{len(sites)} {'site' if len(sites) == 1 else 'sites'}: {', '.join(sites)}",
            f"context: {', '.join(axes) or 'none'}",
            f"{result['slices']} {'slice' if result['slices'] == 1 else 'slices'} per axis",
        )
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f'<th scope="col">{column.title}</th>' for column in COLUMNS)
    sites = dict.fromkeys(row["site"] for row in rows)
    groups = [_group(site, [row for row in rows if row["site"] == site]) for site in sites]
    body = "\n".join(groups)
    return (
        '<div class="wide" tabindex="0"><table>\n'
        f'<thead><tr><th scope="col">Site and policy</th>{head}</tr></thead>\n{body}\n</table></div>'
    )


def _group(site: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of a site under its name."""
    playing = [row for row in rows if not row.get("hindsight")]
    best = min((row["error"] for row in playing if _is_number(row["error"])), default=None)
    lines = [f'<tr><th scope="rowgroup" colspan="{len(COLUMNS) + 1}">{escape(site)}</th></tr>']
    for row in rows:
        mark = " (lowest error)" if row["error"] == best and best is not None and row in playing else ""
        cells = "".join(_cell(row, column, marked=bool(mark) and column.key == "error") for column in COLUMNS)
        lines.append(f'<tr><th scope="row">{escape(row["policy"])}{mark}</th>{cells}</tr>')
    return "<tbody>\n" + "\n".join(lines) + "\n</tbody>"


def _cell(row: Mapping[str, Any], column: Column, *, marked: bool) -> str:
    opening = '<td class="best">' if marked else "<td>"
    return f"{opening}{_number(row[column.key], column.decimals)}</td>"


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _number(value: float | None, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if value is not None and math.isfinite(value) else NOTHING


def _meanings() -> str:
    items = "".join(f"<dt>{column.title}</dt><dd>{column.explanation}</dd>" for column in COLUMNS)
    return f"<dl>{items}<dt>{NOTHING}</dt><dd>does not apply, or is not known</dd></dl>"


def _section(section: Section, picture: bytes | None) -> str:
    head = f"<section><h2>{section.title}</h2>\n"
    if picture is None:
        return f'{head}<p class="soft">Nothing to draw: the run has no data for this plot.</p></section>'
    data = base64.b64encode(picture).decode("ascii")
    image = f'<img alt="Plot: {section.title}" src="data:image/png;base64,{data}">'
    return f'{head}<p>{section.explanation}</p>\n<div class="wide picture" tabindex="0">{image}</div></section>'
