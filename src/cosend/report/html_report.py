"""The report of a run: one page that needs nothing else, the result as JSON, and every figure as a file.

    folder/report.html    opens offline, on a phone too; the figures are inside
    folder/results.json   the result as it was given
    folder/plots/*.svg    the figures of the policy of the run

The same result gives the same bytes: no date but the one in the result, no random id.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from cosend.charts.figures import (
    BACKGROUND,
    CSS,
    EDGE,
    LEFT,
    WIDE,
    WIDTH,
    Drawing,
    Line,
    Look,
    Patch,
    Scale,
    Strip,
    bar_axis,
    bar_chart,
    flow_chart,
    line_chart,
    looks_apart,
    map_chart,
    strip_chart,
    width_of,
)
from cosend.checks import check_path
from cosend.errors import SettingError
from cosend.report import verdict as words
from cosend.report.verdict import Result, Row
from cosend.text import counted, round_numbers, templates

PLOTS: Final = ("reward", "error", "use", "flow", "phases")
FILES: Final = ("report.html", "results.json", *(f"plots/{name}.svg" for name in PLOTS))
MOST_SITES: Final = 12  # that are drawn
LINE_INKS: Final = ("var(--c4)", "var(--c5)", "var(--c3)")
MODEL_INKS: Final = (1, 2, 3, 7, 6, 4, 5)  # of further models of a site; neighbours are far apart
LEAST_FLOW: Final = 0.5  # percent that can be seen
LEAST_LEARNING: Final = 2.0  # percent of the items: below, the picture would be empty
LEAST_NAMED: Final = 0.6  # of the height: below, a name would lie over another colour
LEAST_USED: Final = 0.01  # of the items of a site: below, an arm has no line in the legend
PHASES: Final = (
    ("explore", "an arm was tried", Look("var(--c1)", 0.9)),
    ("train", "a peer was trained", Look("var(--c3)", 0.9)),
)
NOTHING: Final = "\N{EN DASH}"  # in a cell without a number
# Of the table of sites: key, title, decimals, whether a phone has room for it, meaning.
Column: TypeAlias = tuple[str, str, int, bool, str]
COLUMNS: Final[Sequence[Column]] = (
    ("mean_reward", "Reward", 3, True, "per item: 1 for a correct prediction, minus the cost of the arm that was used"),
    ("error", "Error %", 2, True, "items with an incorrect prediction"),
    ("score", "Score", 3, True, "the mean score of the answers, before costs"),
    ("sent", "Sent %", 1, True, "items that were sent to a peer"),
    ("cost", "Total cost", 1, False, "the cost of all arms that were used, in total"),
    ("training", "Training %", 2, False, "items used to train a peer"),
    ("exploration", "Exploration %", 2, False, "items on which an arm was tried to learn its accuracy"),
    ("regret", "Regret", 1, False, "reward lost, in total, against the oracle; negative where a policy earns more"),
)
MEANINGS_OF_SCORES: Final = {
    "exploration": "items on which an arm was tried to learn how well it does",
}
View: TypeAlias = Mapping[str, Any]  # what one policy did: phases, use, flows
Used: TypeAlias = Mapping[str, Any]  # by one site: arms, owners, cells, counts


class Figure(NamedTuple):
    """One figure as a screen shows it, and as a phone does."""

    wide: Drawing
    phone: Drawing


Figures: TypeAlias = dict[str, list[Figure]]


def for_phones(figures: Figures) -> Figures:
    """Return figures of one width for all screens, where they are many."""
    return {key: [Figure(each.phone, each.phone) for each in drawn] for key, drawn in figures.items()}


def in_both_widths(draw: Callable[[float], Drawing]) -> Figure:
    return Figure(draw(WIDE), draw(WIDTH))


def write_report(result: Result, folder: Path) -> Path:
    """Write the report of a run into a folder and return the path of its page; `run/result.py` makes the result."""
    check_path("folder", folder)
    figures = figures_of_run(result)
    page = _page(result, figures)
    data = msgspec.json.format(msgspec.json.encode(result)).decode()  # NaN becomes null
    with writing(folder):
        (folder / "plots").mkdir(parents=True, exist_ok=True)
        for name in (*PLOTS, "score", *(f"use-{n}" for n in range(2, MOST_SITES + 1))):
            (folder / "plots" / f"{name}.svg").unlink(missing_ok=True)  # of an earlier report in the same folder
        for name, drawn in figures.items():
            for n, figure in enumerate(drawn, start=1):
                _write(folder / "plots" / f"{plot_name(name, n)}.svg", figure.wide.standalone())
        _write(folder / "results.json", data + "\n")
        return _write(folder / "report.html", page)


def plot_name(key: str, number: int) -> str:
    """Return the name of a file for a figure; the first of several of a kind has the name of the kind."""
    return key if number == 1 else f"{key}-{number}"


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


def _page(result: Result, figures: Figures) -> str:
    rows, apart = words.playing(result), words.knowing(result)
    everyone, own, every = [*rows, *apart], few_lines(result), every_line(result)
    ends, names = ends_of_bars(result)
    others = {policy: for_phones(figures_of_policy(result, view)) for policy, view in result["others"].items()}
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
        bars={row["policy"]: _bar(row, result, ends) for row in everyone},
        axis_of_bars=bar_axis(ends, names),
        is_any_below=any(row["mean_reward"] < ends[0] for row in everyone),
        plot_name=plot_name,
        streams=len(result["seeds"]),
        figures=figures,
        every_policy=line_figure(result, "reward", every, names_above=False) if len(every) > len(own) else None,
        others={policy: drawn for policy, drawn in others.items() if drawn},
        axes=" and ".join(result["context"][:2]),
        columns=[_in_words(column, result) for column in COLUMNS if column[0] not in without],
        sites={site: _site_rows(result, site) for site in result["sites"]},
    )


def _in_words(column: Column, result: Result) -> Column:
    """Return a column with its meaning where there are scores and no labels."""
    key, title, decimals, phone, meaning = column
    if words.is_scored(result):
        reward = f"per item: {words.what_a_score_gains(result)}, minus the cost of the arm that was used"
        meaning = {**MEANINGS_OF_SCORES, "mean_reward": reward}.get(key, meaning)
    return key, title, decimals, phone, meaning


def _number(value: float | None, decimals: int) -> str:
    return f"{value:,.{decimals}f}" if value is not None and math.isfinite(value) else NOTHING


def ends_of_bars(result: Result) -> tuple[tuple[float, float], list[tuple[float, str]]]:
    """Return from where to where the bars of rewards go, from the best single model to the oracle, and their names."""
    known = {row["policy"]: row["mean_reward"] for row in result["overall"]}
    names = [(known[name], name) for name in ("best single model", "oracle") if name in known]
    low, high = known.get("best single model"), max(known.values(), default=1.0)
    if low is None or not high > low:
        low = min(0.0, *known.values()) if known else 0.0
    return (low, high), [(value, name) for value, name in names if low <= value]


def _bar(row: Row, result: Result, ends: tuple[float, float]) -> Drawing:
    ink = "var(--c0)" if row["policy"] == result["policy"] else "var(--soft)"
    return bar_chart(row["mean_reward"], row["reward_interval"] or 0.0, ends, ink)


def _site_rows(result: Result, site: str) -> list[dict[str, Any]]:
    """Return the rows of a site, best reward first; baselines that know the future come last."""
    rows = [row for row in result["rows"] if row["site"] == site]
    rows.sort(key=lambda row: (bool(row["hindsight"]), -_or_lowest(row["mean_reward"])))
    best = max((_or_lowest(row["mean_reward"]) for row in rows if not row["hindsight"]), default=-math.inf)
    return [{**row, "is_best": not row["hindsight"] and row["mean_reward"] == best} for row in rows]


def _or_lowest(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else -math.inf


# Figures


def figures_of_run(result: Result) -> Figures:
    found: Figures = {}
    lines = few_lines(result)
    if lines:
        found = {key: [line_figure(result, key, lines)] for key in ("reward", quality_of(result))}
    return found | figures_of_policy(result, result)


def figures_of_policy(result: Result, view: View) -> Figures:
    found: Figures = {}
    if any(used["cells"] for used in view["use"].values()):
        found["use"] = use_figures(result, view)
    sites, percent = view["flows"]["from"][:MOST_SITES], view["flows"]["percent"]
    if any(share >= LEAST_FLOW for i, row in enumerate(percent) for j, share in enumerate(row) if i != j):
        shares = [row[:MOST_SITES] for row in percent[:MOST_SITES]]
        found["flow"] = [in_both_widths(lambda width: flow_chart(sites, shares, width=width))]
    learning = [a + b for each in view["phases"].values() for a, b in zip(each["train"], each["explore"], strict=True)]
    if learning and sum(learning) / len(learning) >= LEAST_LEARNING:
        found["phases"] = [in_both_widths(lambda width: phases_figure(view, width))]
    return found


def quality_of(result: Result, *, other: bool = False) -> str:
    """Return the key of what says how good answers were, "score" or "error"; or of the one that does not."""
    return "score" if words.is_scored(result) != other else "error"


def few_lines(result: Result) -> list[Line]:
    """Return the policies worth a line: the run's, a better one, itself without peers, and those in hindsight."""
    rows = {row["policy"]: row for row in result["overall"] if row["policy"] in result["curves"]}
    own = result["policy"]
    best = [row["policy"] for row in words.playing(result)[:1] if row["policy"] in rows]
    shown = [name for name in dict.fromkeys([*best, "local only", "no learnt arms"]) if name in rows and name != own]
    lines = [Line(own, "var(--text)", 2.6)] if own in rows else []
    lines += [Line(name, LINE_INKS[n]) for n, name in enumerate(shown)]
    apart = (Line("best single model", "var(--c7)", 1.4), Line("oracle", "var(--soft)", 1.4, True))
    return [*lines, *(line for line in apart if line.name in rows)]


def every_line(result: Result) -> list[Line]:
    """Return a line for every policy, the one of the run in front."""
    known = {line.name: line for line in few_lines(result)}
    others = [name for name in result["curves"] if name not in known]
    return [*known.values(), *(Line(name, "var(--c7)", 1.0) for name in others)]


def line_figure(result: Result, key: str, lines: Sequence[Line], *, names_above: bool = True) -> Figure:
    """Draw error or reward around every item, with the moment at which the stream changes."""
    title = {"reward": "reward per item", "error": "incorrect predictions in %", "score": "mean score"}[key]
    curves = [result["curves"][line.name] for line in lines]
    last = max(_end(curve["item"]) for curve in curves)
    rows = {row["policy"]: row for row in result["overall"]}
    named = [
        line._replace(
            name=words.shown(rows[line.name]) if names_above else line.name,
            points=list(zip(curve["item"], curve[key], strict=True)),
        )
        for line, curve in zip(lines, curves, strict=True)
    ]
    return in_both_widths(
        lambda width: line_chart(
            f"{title} over time",
            named,
            Scale("items that a site has seen", _counts_to(last)),
            (0.0, last),
            title=title,
            floor=0.0 if key == "error" else None,
            mark=(result["change"]["item"], "the mix changes") if result["change"] else None,
            height=250.0 if names_above else max(250.0, 14.0 * len(lines) + 80),
            width=width,
            names_above=names_above,
        )
    )


def _end(centres: Sequence[float]) -> float:
    return centres[-1] + (centres[-1] - centres[-2]) / 2 if len(centres) > 1 else 2 * centres[-1]


def _counts_to(last: float) -> list[tuple[float, str]]:
    """Return ticks for numbers of items, to the end of the axis."""
    found = round_numbers(0.0, last)
    if len(found) > 1 and last - found[-1] > 0.6 * (found[1] - found[0]):
        found.append(last)
    return [(min(1.0, value / last), f"{value:,.0f}") for value in found]


def phases_figure(view: View, width: float) -> Drawing:
    """Draw for every site the share of items that were used for learning."""
    sites = {name: each for name, each in list(view["phases"].items())[:MOST_SITES] if each["item"]}
    used = [phase for phase in PHASES if any(max(each[phase[0]]) > 0 for each in sites.values())]
    last = max(_end(each["item"]) for each in sites.values())
    most = max(a + b for each in sites.values() for a, b in zip(each["train"], each["explore"], strict=True))
    top = next((each for each in (5, 10, 20, 50) if each >= most), 100)
    strips = []
    for site, each in sites.items():
        bins, patches, total = len(each["item"]), list[Patch](), 0.0
        for n in range(bins):
            base = 0.0
            for key, name, look in PHASES:
                share = each[key][n] / top
                if share > 0:
                    tip = f"{name}: {each[key][n]:.1f}%"
                    patches.append(Patch((n / bins, (n + 1) / bins), (base, min(1.0, base + share)), look, tip))
                base, total = base + share, total + each[key][n]
        strips.append(Strip(site, patches, f"{total / bins:.0f}% in all", 54.0))
    legend = [(text, look) for _, text, look in used]
    across, up = Scale("items that a site has seen", _counts_to(last)), Scale("", [(0.0, "0%"), (1.0, f"{top}%")])
    return strip_chart("Items used for learning, over time", strips, across, legend, up=up, width=width)


def use_figures(result: Result, view: View) -> list[Figure]:
    """Draw which arms a policy uses where: one figure of strips on one axis, a map for each site on two."""
    sites = [name for name in result["sites"] if view["use"][name]["cells"]][:MOST_SITES]
    if len(result["axes"]) == 1:
        (axis,), up = result["axes"], Scale("share of items", [(0.0, "0%"), (0.5, "50%"), (1.0, "100%")])

        def strips(width: float) -> Drawing:
            rows = [_use_strip(result, view["use"][site], site, width) for site in sites]
            return strip_chart(f"Which arm is used at which {axis['name']}", rows, _scale(axis), up=up, width=width)

        return [in_both_widths(strips)]
    a, b = two_axes(result, view["use"])
    maps = [_map(result, view["use"][site], site, a, b) for site in sites]
    return [Figure(drawing, drawing) for drawing in maps]


def _scale(axis: Mapping[str, Any]) -> Scale:
    return Scale(axis["name"], [(place / axis["bins"], text) for place, text in axis["ticks"]])


def arm_name(used: Used, site: str, arm: int) -> str:
    """Return the name of an arm in a figure: a model, or an arrow to a peer."""
    owner = used["owners"][arm]
    return f"\N{RIGHTWARDS ARROW} {owner}" if owner != site else str(used["arms"][arm])


def looks_by_use(result: Result, used: Used, site: str) -> list[Look]:
    """Return the look of every arm: the colour of the peer, or of the model; the model used most has the site's."""
    totals = [sum(counts) for counts in zip(*used["counts"], strict=True)]
    order = sorted(range(len(totals)), key=lambda arm: -totals[arm])
    looks = looks_apart([used["owners"][arm] for arm in order], result["sites"], site, MODEL_INKS)
    return [looks[order.index(arm)] for arm in range(len(totals))]


def _use_strip(result: Result, used: Used, site: str, width: float) -> Strip:
    """Return the shares of all arms in every bin, the most used at the bottom, and a name on every run of bins."""
    bins, looks = result["axes"][0]["bins"], looks_by_use(result, used, site)
    patches, best, highest, totals = list[Patch](), dict[int, int](), dict[int, float](), Counter[int]()
    for (place,), counts in zip(used["cells"], used["counts"], strict=True):
        total, base = sum(counts), 0.0
        order = sorted(range(len(counts)), key=lambda arm: -counts[arm])
        best[place], highest[place] = order[0], counts[order[0]] / total
        totals.update(dict(enumerate(counts)))
        for arm in order:
            if counts[arm]:
                tip = f"{arm_name(used, site, arm)}: {counts[arm]} of {counted(total, 'item')}"
                y = (base, base + counts[arm] / total)
                patches.append(Patch((place / bins, (place + 1) / bins), y, looks[arm], tip))
                base = y[1]
    for (most, has_room), run in groupby(range(bins), lambda n: (best.get(n), highest.get(n, 0.0) >= LEAST_NAMED)):
        places = [*run]
        if most is not None and has_room:
            x, unseen = (places[0] / bins, (places[-1] + 1) / bins), looks[most]._replace(opacity=0.0)
            room = (x[1] - x[0]) * (width - LEFT - 2 * EDGE) - 8
            name = arm_name(used, site, most)
            patches.append(Patch(x, (0.0, 0.0), unseen, words=name if width_of(name, bold=True) <= room else ""))
    often = [arm for arm, count in totals.most_common() if count >= LEAST_USED * totals.total()]
    legend = [(arm_name(used, site, arm), looks[arm]) for arm in often]
    empty = [("no items", BACKGROUND)] if len(best) < bins else []
    return Strip(f"items of {site}", patches, height=54.0 if width < WIDE else 72.0, legend=[*legend, *empty])


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
    looks = looks_by_use(result, used, site)
    patches, shown = list[Patch](), set[int]()
    for (x, y), count in votes.items():
        arm, times = count.most_common(1)[0]
        tip = f"{arm_name(used, site, arm)}: {times} of {counted(count.total(), 'item')}"
        place = ((x / across["bins"], (x + 1) / across["bins"]), (y / up["bins"], (y + 1) / up["bins"]))
        patches.append(Patch(*place, looks[arm], tip))
        shown.add(arm)
    legend = [(arm_name(used, site, arm), looks[arm]) for arm in sorted(shown)]
    legend += [("no items", BACKGROUND)] if len(votes) < across["bins"] * up["bins"] else []
    return map_chart(f"Which arm {site} uses where", site, patches, (_scale(across), _scale(up)), legend)
