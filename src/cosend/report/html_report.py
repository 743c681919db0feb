"""The report of a run: one page that needs nothing else, the result as JSON, and every figure as a file.

    folder/report.html    opens offline, on a phone too; the figures are inside
    folder/results.json   the result as it was given
    folder/plots/*.svg    the figures of the policy of the run

The same result gives the same bytes: no date but that of the result, no random id.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from cosend.charts.figures import (
    CSS,
    Drawing,
    Line,
    Look,
    Patch,
    Scale,
    Strip,
    flow_chart,
    interval_chart,
    line_chart,
    looks_of_arms,
    map_chart,
    strip_chart,
)
from cosend.checks import check_path
from cosend.errors import SettingError
from cosend.report import verdict as words
from cosend.report.verdict import Result, Row
from cosend.text import counted, round_numbers, templates

PLOTS: Final = ("reward", "error", "use", "flow", "phases")
FILES: Final = ("report.html", "results.json", *(f"plots/{name}.svg" for name in PLOTS))
MOST_SITES: Final = 12  # that are drawn
LINE_INKS: Final = ("var(--c4)", "var(--c3)", "var(--c6)", "var(--c5)")
LEAST_FLOW: Final = 0.5  # percent that can be seen
LEAST_LEARNING: Final = 2.0  # percent of the items: below, the picture would be empty
PHASES: Final = (
    ("explore", "to try an arm", Look("var(--c1)", 0.9)),
    ("train", "to train a peer", Look("var(--c3)", 0.9)),
)
NOTHING: Final = "\N{EN DASH}"  # in a cell without a number
# Of the table of sites: key, title, decimals, whether a phone has room for it, meaning.
Column: TypeAlias = tuple[str, str, int, bool, str]
COLUMNS: Final[Sequence[Column]] = (
    ("mean_reward", "Reward", 3, True, "per item: 1 for a correct prediction, minus the cost of the arm that was used"),
    ("error", "Error %", 2, True, "items with an incorrect prediction"),
    ("score", "Score", 3, True, "the mean score of the answers, before costs"),
    ("sent", "Sent %", 1, True, "items that were sent to a peer"),
    ("cost", "Cost", 1, False, "the cost of all arms that were used, in total"),
    ("training", "Training %", 2, False, "items used to train a peer"),
    ("exploration", "Exploration %", 2, False, "items on which an arm was tried to learn its accuracy"),
    ("regret", "Regret", 1, False, "reward lost, in total, against always using the best arm of each cell"),
)
MEANINGS_OF_SCORES: Final = {
    "mean_reward": "per item: the score of the answer, minus the cost of the arm that was used",
    "exploration": "items on which an arm was tried to learn how well it does",
}
View: TypeAlias = Mapping[str, Any]  # what one policy did: phases, use, flows
Used: TypeAlias = Mapping[str, Any]  # by one site: arms, owners, cells, counts


def write_report(result: Result, folder: Path) -> Path:
    """Write the report of a run into a folder and return the path of its page; `run/result.py` makes the result."""
    check_path("folder", folder)
    figures = figures_of_run(result)
    page = _page(result, figures)
    data = msgspec.json.format(msgspec.json.encode(result)).decode()  # NaN becomes null
    with writing(folder):
        (folder / "plots").mkdir(parents=True, exist_ok=True)
        for name in (*PLOTS, "score"):
            (folder / "plots" / f"{name}.svg").unlink(missing_ok=True)  # of an earlier report in the same folder
        for name, drawings in figures.items():
            _write(folder / "plots" / f"{name}.svg", drawings[0].standalone())
        _write(folder / "results.json", data + "\n")
        return _write(folder / "report.html", page)


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


# The folder


def check_ready(folder: Path, files: Iterable[str], setting: str = "folder") -> None:
    """Raise unless these files can be written into a folder, before a long run; leaves nothing behind."""
    check_path(setting, folder)
    with writing(folder, setting):
        for path in (folder / name for name in files):
            if path.is_dir():
                raise IsADirectoryError(f"{path.name} is a folder there")
            place = next(place for place in (path, *path.parents) if place.exists())
            if place != path and not place.is_dir():
                raise NotADirectoryError(f"{place.name} is a file there")
            if not os.access(place, os.W_OK):
                raise PermissionError(f"no permission to write {path.name}")


@contextmanager
def writing(folder: Path, setting: str = "folder") -> Iterator[None]:
    """Turn errors of the system, while files are written, into ours."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        where = f", {error.filename}" if error.filename and str(error.filename) != str(folder) else ""
        raise SettingError(setting, str(folder), f"a folder that can be written to ({why}{where})") from error


# The page


def _page(result: Result, figures: Mapping[str, list[Drawing]]) -> str:
    rows, apart = words.playing(result), words.knowing(result)
    everyone, own, every = [*rows, *apart], few_lines(result), every_line(result)
    ends = [row["mean_reward"] + sign * (row["reward_interval"] or 0) for row in everyone for sign in (-1, 1)]
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    others = {policy: figures_of_policy(result, view) for policy, view in result["others"].items()}
    without = {quality_of(result, other=True), *([] if words.sends(result) else ["sent"])}
    page = templates(__package__)
    page.filters["number"] = _number
    return page.get_template("report.html").render(
        result=result,
        words=words,
        css=CSS,
        nothing=NOTHING,
        rows=rows,
        apart=apart,
        sends=words.sends(result),
        intervals={row["policy"]: _interval(row, span) for row in everyone},
        streams=len(result["seeds"]),
        figures=figures,
        every_policy=line_figure(result, "reward", every) if len(every) > len(own) else None,
        others={policy: drawn for policy, drawn in others.items() if drawn},
        axes=" and ".join(result["context"][:2]),
        columns=[_in_words(column, result) for column in COLUMNS if column[0] not in without],
        sites={site: _site_rows(result, site) for site in result["sites"]},
    )


def _in_words(column: Column, result: Result) -> Column:
    """Return a column with its meaning where there are scores and no labels."""
    key, title, decimals, phone, meaning = column
    return key, title, decimals, phone, MEANINGS_OF_SCORES.get(key, meaning) if words.is_scored(result) else meaning


def _number(value: float | None, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if value is not None and math.isfinite(value) else NOTHING


def _interval(row: Row, ends: tuple[float, float]) -> Drawing:
    ink = "var(--soft)" if row["hindsight"] else "var(--c0)"
    return interval_chart(row["mean_reward"], row["reward_interval"] or 0.0, ends, ink)


def _site_rows(result: Result, site: str) -> list[dict[str, Any]]:
    """Return the rows of a site, best reward first; baselines that know the future come last."""
    rows = [row for row in result["rows"] if row["site"] == site]
    rows.sort(key=lambda row: (bool(row["hindsight"]), -_or_lowest(row["mean_reward"])))
    best = max((_or_lowest(row["mean_reward"]) for row in rows if not row["hindsight"]), default=-math.inf)
    return [{**row, "is_best": not row["hindsight"] and row["mean_reward"] == best} for row in rows]


def _or_lowest(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else -math.inf


# Figures


def figures_of_run(result: Result) -> dict[str, list[Drawing]]:
    found: dict[str, list[Drawing]] = {}
    lines = few_lines(result)
    if lines:
        found = {key: [line_figure(result, key, lines)] for key in ("reward", quality_of(result))}
    return found | figures_of_policy(result, result)


def figures_of_policy(result: Result, view: View) -> dict[str, list[Drawing]]:
    found: dict[str, list[Drawing]] = {}
    if any(used["cells"] for used in view["use"].values()):
        found["use"] = use_figures(result, view)
    percent = view["flows"]["percent"]
    if any(share >= LEAST_FLOW for i, row in enumerate(percent) for j, share in enumerate(row) if i != j):
        found["flow"] = [
            flow_chart(view["flows"]["from"][:MOST_SITES], [row[:MOST_SITES] for row in percent[:MOST_SITES]])
        ]
    learning = [a + b for each in view["phases"].values() for a, b in zip(each["train"], each["explore"], strict=True)]
    if learning and sum(learning) / len(learning) >= LEAST_LEARNING:
        found["phases"] = [phases_figure(view)]
    return found


def quality_of(result: Result, *, other: bool = False) -> str:
    """Return the key of what says how good answers were, "score" or "error"; or of the one that does not."""
    return "score" if words.is_scored(result) != other else "error"


def few_lines(result: Result) -> list[Line]:
    """Return the policies worth a line: that of the run, the best other, without peers or learning, the paper's."""
    rows = {row["policy"]: row for row in result["overall"] if row["policy"] in result["curves"]}
    own = result["policy"]
    others = [row for row in rows.values() if not row["hindsight"] and row["policy"] != own]
    best = [max(others, key=lambda row: row["mean_reward"])["policy"]] if others else []
    names = dict.fromkeys(
        [*best, "CoS", "never send", "nothing learnt", "best fixed" if "never send" not in rows else ""]
    )
    shown = [name for name in names if name in rows and name != own]
    lines = [Line(own, "var(--text)", 2.6)] if own in rows else []
    lines += [Line(name, LINE_INKS[n], dashed=rows[name]["hindsight"]) for n, name in enumerate(shown)]
    return [*lines, *([Line("oracle per cell", "var(--soft)", 1.4, True)] if "oracle per cell" in rows else [])]


def every_line(result: Result) -> list[Line]:
    """Return a line for every policy, that of the run in front."""
    known = {line.name: line for line in few_lines(result)}
    others = [name for name in result["curves"] if name not in known]
    return [*known.values(), *(Line(name, "var(--c7)", 1.0) for name in others)]


def line_figure(result: Result, key: str, lines: Sequence[Line]) -> Drawing:
    """Draw error or reward around every item, with the moment at which the stream changes."""
    title = {"reward": "reward per item", "error": "incorrect predictions in %", "score": "mean score"}[key]
    curves = [result["curves"][line.name] for line in lines]
    last = max(_end(curve["item"]) for curve in curves)
    ticks = [(value / last, f"{value:,.0f}") for value in round_numbers(0.0, last)]
    return line_chart(
        f"{title} over time",
        [
            line._replace(points=list(zip(curve["item"], curve[key], strict=True)))
            for line, curve in zip(lines, curves, strict=True)
        ],
        Scale("items that a site has seen", ticks),
        (0.0, last),
        title=title,
        floor=0.0 if key == "error" else None,
        mark=(result["change"]["item"], "the mix changes") if result["change"] else None,
        height=250.0 if len(lines) < 8 else 14.0 * len(lines) + 80,
    )


def _end(centres: Sequence[float]) -> float:
    return centres[-1] + (centres[-1] - centres[-2]) / 2 if len(centres) > 1 else 2 * centres[-1]


def phases_figure(view: View) -> Drawing:
    """Draw for every site the share of items that were used for learning."""
    sites = {name: each for name, each in list(view["phases"].items())[:MOST_SITES] if each["item"]}
    used = [phase for phase in PHASES if any(max(each[phase[0]]) > 0 for each in sites.values())]
    last = max(_end(each["item"]) for each in sites.values())
    strips = []
    for site, each in sites.items():
        bins, patches, total = len(each["item"]), list[Patch](), 0.0
        for n in range(bins):
            base = 0.0
            for key, _, look in PHASES:
                share = each[key][n] / 100
                if share > 0:
                    patches.append(Patch((n / bins, (n + 1) / bins), (base, base + share), look))
                base, total = base + share, total + share
        strips.append(Strip(site, patches, f"{100 * total / bins:.0f}% in all", 54.0))
    ticks = [(min(1.0, value / last), f"{value:,.0f}") for value in round_numbers(0.0, last)]
    legend = [(text, look) for _, text, look in used]
    return strip_chart(
        "Share of items used for learning, over time", strips, Scale("items that a site has seen", ticks), legend
    )


def use_figures(result: Result, view: View) -> list[Drawing]:
    """Draw which arms a policy uses where: one figure of strips on one axis, a map for each site on two."""
    sites = [name for name in result["sites"] if view["use"][name]["cells"]][:MOST_SITES]
    if len(result["axes"]) == 1:
        (axis,) = result["axes"]
        strips = [Strip(site, _shares_by_bin(result, view["use"][site], site)) for site in sites]
        return [strip_chart(f"Which arm is used at which {axis['name']}", strips, _scale(axis))]
    a, b = two_axes(result, view["use"])
    return [_map(result, view["use"][site], site, a, b) for site in sites]


def _scale(axis: Mapping[str, Any]) -> Scale:
    return Scale(axis["name"], [(place / axis["bins"], text) for place, text in axis["ticks"]])


def arm_name(used: Used, site: str, arm: int) -> str:
    """Return the name of an arm in a figure: a model without the name of its site, or an arrow to a peer."""
    owner, name = used["owners"][arm], str(used["arms"][arm])
    if owner != site:
        return f"\N{RIGHTWARDS ARROW} {owner}"
    return name.removeprefix(f"{site}_").removeprefix(f"{site}-") or name


def _shares_by_bin(result: Result, used: Used, site: str) -> list[Patch]:
    """Return the shares of all arms in every bin, the most used at the bottom, and a name on every run of bins."""
    bins, looks = result["axes"][0]["bins"], looks_of_arms(used["owners"], result["sites"])
    patches, best = list[Patch](), dict[int, int]()
    for (place,), counts in zip(used["cells"], used["counts"], strict=True):
        total, base = sum(counts), 0.0
        order = sorted(range(len(counts)), key=lambda arm: -counts[arm])
        best[place] = order[0]
        for arm in order:
            if counts[arm]:
                tip = f"{arm_name(used, site, arm)}: {counts[arm]} of {counted(total, 'item')}"
                y = (base, base + counts[arm] / total)
                patches.append(Patch((place / bins, (place + 1) / bins), y, looks[arm], tip))
                base = y[1]
    for most, run in groupby(range(bins), best.get):
        places = [*run]
        if most is not None:
            x, unseen = (places[0] / bins, (places[-1] + 1) / bins), looks[most]._replace(opacity=0.0)
            patches.append(Patch(x, (0.0, 0.0), unseen, words=arm_name(used, site, most)))
    return patches


def two_axes(result: Result, use: Mapping[str, Used]) -> tuple[int, int]:
    """Return the axes to draw: those over whose bins the items spread most."""
    concentration = []
    for axis in range(len(result["axes"])):
        items: Counter[int] = Counter()
        for used in use.values():
            for cell, counts in zip(used["cells"], used["counts"], strict=True):
                items[cell[axis]] += sum(counts)
        total = items.total() or 1
        concentration.append((sum((count / total) ** 2 for count in items.values()), axis))
    a, b = sorted(axis for _, axis in sorted(concentration)[:2])
    return a, b


def _map(result: Result, used: Used, site: str, a: int, b: int) -> Drawing:
    """Draw for one site the most used arm at every place of two axes; several cells at one place are added up."""
    across, up = result["axes"][a], result["axes"][b]
    votes: dict[tuple[int, int], Counter[int]] = {}
    for cell, counts in zip(used["cells"], used["counts"], strict=True):
        votes.setdefault((cell[a], cell[b]), Counter()).update(dict(enumerate(counts)))
    looks = looks_of_arms(used["owners"], result["sites"])
    patches, shown = list[Patch](), set[int]()
    for (x, y), count in votes.items():
        arm, times = count.most_common(1)[0]
        tip = f"{arm_name(used, site, arm)}: {times} of {counted(count.total(), 'item')}"
        place = ((x / across["bins"], (x + 1) / across["bins"]), (y / up["bins"], (y + 1) / up["bins"]))
        patches.append(Patch(*place, looks[arm], tip))
        shown.add(arm)
    legend = [(arm_name(used, site, arm), looks[arm]) for arm in sorted(shown)]
    return map_chart(f"Which arm {site} uses where", site, patches, (_scale(across), _scale(up)), legend)
