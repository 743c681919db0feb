"""The report of a run: one page that needs nothing else, the result as JSON, and every figure as a file.

    folder/report.html    opens offline, on a phone too; the figures are inside
    folder/results.json   the result as it was given
    folder/plots/*.svg    the figures of the policy of the run

The same result gives the same bytes: no date but that of the result, no random id.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

from cosend.core.checks import check_path
from cosend.reports import flow, lines, phases, use
from cosend.reports.folder import writing
from cosend.reports.lines import Result
from cosend.reports.style import FIGURE, PAGE, VARIABLES
from cosend.reports.svg import Drawing
from cosend.reports.tables import MEANINGS_OF_COLUMNS, models_table, overall_table, sites_table
from cosend.reports.text import counted
from cosend.reports.verdict import MEANINGS, made, more, sends, setting, verdict

PLOTS: Final = ("reward", "error", "change", "use", "flow", "phases")
FILES: Final = ("report.html", "results.json", *(f"plots/{name}.svg" for name in PLOTS))


def write_report(result: Result, folder: Path) -> Path:
    """Write the report of a run into a folder and return the path of its page.

    The result is plain data. Shares are percentages; None is what does not apply.

        {"title": str, "items": int, "unlabelled": items whose label is not known, "sites": [str], "context": [axis],
         "goes_by": [str], "slices": int, "seeds": [int],
         "policy": str, "is_default": bool, "stopped": str, may be left out, "notes": [str], "others_see": str or None,
         "data": [SHA-256 of a stream], "made": {"version", "date", "command"}, may be left out,
         "models": {site: [{"model", "share", "cost", "error", "alone"}]},
         "overall": [{"policy", "error", "mean_reward", "reward_interval", "sent", "behind", "behind_interval",
                      "behind_in": streams, "hindsight": bool, "learns": bool}],
         "rows": [{"site", "policy", "error", "mean_reward", "sent", "cost", "training", "exploration", "regret",
                   "hindsight": bool}],
         "error_curves": {policy: {"item": [int], "error": [float]}},      errors so far
         "curves": {policy: {"item": [float], "error": [float], "reward": [float]}},  around an item
         "change": None or {"item": int, "part": int, "reward": {policy: [before, after, at the end]}},
         "axes": [{"name": str, "bins": int, "ticks": [[place, text]], "words": bool}],
         "phases": {site: {"item": [int], "train": [float], "explore": [float], "exploit": [float]}},
         "winners": {site: {"arms": [str], "cells": [[int, ...]], "best": [int], "arrivals": [int]}},
         "use": {site: {"arms": [str], "owners": [site], "cells": [[int, ...]], "counts": [[int, ...]]}},
         "flows": {"from": [site], "to": [site], "percent": [[float]]},
         "others": {policy: {"phases", "winners", "use", "flows"}}}
    """
    check_path("folder", folder)
    figures = drawn(result)
    page = _page(result, figures)
    data = json.dumps(_finite(result), indent=2, ensure_ascii=False, allow_nan=False)
    with writing(folder):
        (folder / "plots").mkdir(parents=True, exist_ok=True)
        for name in PLOTS:
            path = folder / "plots" / f"{name}.svg"
            if figures.get(name):
                _write(path, figures[name][0].alone())
            else:
                path.unlink(missing_ok=True)  # of an earlier report in the same folder
        _write(folder / "results.json", data + "\n")
        return _write(folder / "report.html", page)


def drawn(result: Result) -> dict[str, list[Drawing]]:
    """Return the figures of the policy of the run that have something to show, by name."""
    found: dict[str, list[Drawing]] = {}
    shown = [line for line in lines.few(result) if line.policy in result["curves"]]
    if shown:
        found["reward"] = [lines.over_time(result, "reward", "reward per item", shown)]
        found["error"] = [lines.over_time(result, "error", "wrong labels in %", shown)]
    if result["change"]:
        found["change"] = [lines.before_and_after(result, shown)]
    return found | _looked_at(result, result)


def _looked_at(result: Result, view: Mapping[str, Any]) -> dict[str, list[Drawing]]:
    """Return the figures that a policy has for itself."""
    found: dict[str, list[Drawing]] = {}
    if use.has_use(view):
        found["use"] = use.where(result, view)
    if flow.has_flow(view):
        found["flow"] = [flow.flow(view)]
    if phases.says_something(view):
        found["phases"] = [phases.over_time(view)]
    return found


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


def _page(result: Result, figures: Mapping[str, list[Drawing]]) -> str:
    title = escape(result["title"])
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{VARIABLES}{PAGE}{FIGURE}</style></head><body>",
        f"<h1>{title}</h1>",
        f'<p class="verdict">{escape(verdict(result))}</p>',
        f'<p class="lead">{escape(more(result))}</p>',
        *([f'<p class="stopped">{escape(result["stopped"])}</p>'] if result.get("stopped") else []),
        f'<p class="soft">{escape(setting(result))}</p>',
        *([f"<p>{escape(result['others_see'])}</p>"] if result.get("others_see") else []),
        overall_table(result),
        f'<p class="soft">{escape(_how_to_read(result))}</p>',
        *(f'<p class="soft">{escape(note[:1].upper() + note[1:])}.</p>' for note in result.get("notes", ())),
        *_over_time(result, figures),
        *_for_policy(result, result["policy"], figures, level=2),
        *_other_policies(result),
        f"<h2>What {escape(result['policy'])} used</h2>",
        '<p class="soft">For which share of the items a model or a peer was used, what was paid for it, how often it '
        "was wrong there, and the reward per item of the model alone.</p>",
        models_table(result),
        "<h2>Site by site</h2>",
        sites_table(result),
        _meanings(result),
        "<footer><p>The numbers are in results.json, the figures in the folder plots, beside this page.</p>",
        *([f"<p>{_made(result)}</p>"] if made(result) else []),
        "</footer>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _made(result: Result) -> str:
    return "<br>".join(f"{escape(name)}: <code>{escape(value)}</code>" for name, value in made(result))


def _how_to_read(result: Result) -> str:
    words = "Reward per item: 1 for a right label, less what was paid. Means over the sites"
    streams = len(result["seeds"])
    if streams == 1:
        return f"{words}, for one stream; cosend run --seeds 5 adds intervals."
    return f"{words} and over {counted(streams, 'stream')}, with Student's 95 % interval over the streams."


def _over_time(result: Result, figures: Mapping[str, list[Drawing]]) -> list[str]:
    if "reward" not in figures:
        return []
    name = escape(result["policy"])
    parts = [
        f"<h2>How {name} learns</h2>",
        "<p>Reward and errors as they come, over all sites together. The label of an item is known only later, so "
        "everyone starts in the dark.</p>",
        f'<div class="figures">{_figure(figures["reward"][0], "Higher is better.")}'
        f"{_figure(figures['error'][0], 'Lower is better. An error costs 1, asking a peer costs less.')}</div>",
        _all_policies(result),
    ]
    if "change" in figures:
        parts += [f"<h2>What the change did to {name}</h2>", f"<p>{escape(_change_words(result))}</p>"]
        parts.append(f'<div class="narrow">{_figure(figures["change"][0], _change_caption(result))}</div>')
    return parts


def _all_policies(result: Result) -> str:
    if len(result["overall"]) <= len(lines.few(result)):
        return ""
    everyone = [line for line in lines.every(result) if line.policy in result["curves"]]
    figure = lines.over_time(result, "reward", "reward per item", everyone)
    return (
        f'<details><summary>All policies over time</summary><div class="narrow">{_figure(figure, "")}</div></details>'
    )


def _change_words(result: Result) -> str:
    before, after, end = result["change"]["reward"][result["policy"]]
    words = (
        f"After {result['change']['item']:,} items at a site the mix of items changes. {result['policy']} goes from "
        f"{before:.3f} to {after:.3f} and ends at {end:.3f}"
    )
    alone = result["change"]["reward"].get("never send")
    if alone is None:
        return f"{words}."
    return f"{words}; without peers it goes from {alone[0]:.3f} to {alone[1]:.3f} and ends at {alone[2]:.3f}."


def _change_caption(result: Result) -> str:
    return f"Mean reward of {result['change']['part']:,} items of each site before, just after, and at the end."


def _for_policy(result: Result, policy: str, figures: Mapping[str, list[Drawing]], level: int) -> list[str]:
    """Return the figures of one policy under its name."""
    name, axes = escape(policy), escape(" and ".join(result["context"][:2]))
    words = {
        "use": (
            f"Which model {name} uses at which {axes}",
            "The second half of the items of each site, in the first stream. A colour is the site whose model labels "
            "the item: shades are the site's own models, an arrow means that the item is sent to that peer. "
            + ("The height is the share of items." if len(result["axes"]) == 1 else "The most used arm is shown."),
        ),
        "flow": (
            f"Who sends how much to whom under {name}",
            "On the left the items of a site, on the right who labels them. A band is as high as its share of items.",
        ),
        "phases": (
            f"What {name} spends on learning",
            "The share of items used for learning, in the first stream: an arm was tried, or a peer trained, on "
            "purpose. "
            "A full box is all items.",
        ),
    }
    parts = []
    for key, (title, caption) in words.items():
        if key in figures:
            parts.append(f"<h{level}>{title}</h{level}>")
            if len(figures[key]) == 1:
                parts.append(f'<div class="narrow">{_figure(figures[key][0], caption)}</div>')
            else:
                each = "".join(_figure(figure, "") for figure in figures[key])
                parts.append(f'<p class="soft">{escape(caption)}</p><div class="figures">{each}</div>')
    return parts


def _other_policies(result: Result) -> list[str]:
    parts = []
    for policy, view in result["others"].items():
        figures = _looked_at(result, view)
        if figures:
            inside = "".join(_for_policy(result, policy, figures, level=3))
            parts.append(f"<details><summary>The same figures for {escape(policy)}</summary>{inside}</details>")
    return parts


def _figure(drawing: Drawing, caption: str) -> str:
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{drawing.inline()}{below}</figure>"


def _meanings(result: Result) -> str:
    played = {row["policy"]: MEANINGS[row["policy"]] for row in result["overall"] if row["policy"] in MEANINGS}
    columns = {name: words for name, words in MEANINGS_OF_COLUMNS.items() if name != "Sent %" or sends(result)}
    words = [*columns.items(), *played.items()]
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(meaning)}</td></tr>" for name, meaning in words)
    return f'<details class="words"><summary>What columns and rows mean</summary><table>{rows}</table></details>'
