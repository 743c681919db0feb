"""The plots: regret over the items with the theorem's bound, and the parts that regret is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from research.output import FILLS, HATCHES, look, new_figure
from research.regret.parts import PARTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
LOOSE = "The bounds are loose: far above the regret, mostly above the items themselves. Compare slopes, not heights."


def regret_over_items(results: Mapping[str, Any]) -> Figure:
    """Return a log-log panel per problem: regret and bound of every policy, and where every item would be lost."""
    from matplotlib.lines import Line2D

    problems = list(dict.fromkeys(each["problem"] for each in results["details"]))
    policies = list(dict.fromkeys(each["policy"] for each in results["details"]))
    rows = math.ceil(len(problems) / COLUMNS)
    figure = new_figure(11, 1.3 + 2.9 * rows)
    panels = list(figure.subplots(rows, min(COLUMNS, len(problems)), squeeze=False).flat)
    for panel, problem in zip(panels, problems, strict=False):
        for each in results["details"]:
            if each["problem"] == problem:
                _draw(panel, each, policies.index(each["policy"]))
        panel.set(title=problem, xscale="log", yscale="log")
        panel.grid(alpha=0.3)
    for panel in panels[len(problems) :]:
        panel.set_visible(False)
    figure.supxlabel("items seen by the site (number, log scale)", fontsize=10)
    figure.supylabel("regret of the first site (rewards, log scale)", fontsize=10)
    handles = [Line2D([], [], label=policy, **look(k)) for k, policy in enumerate(policies)]
    handles += [Line2D([], [], color="0.3", linewidth=0.9, marker="|", label="bound of the same colour")]
    handles += [Line2D([], [], color="0.6", linewidth=1.2, linestyle=":", label="every item lost")]
    place: dict[str, Any] = {"loc": "outside upper center", "frameon": False, "handlelength": 4, "title": LOOSE}
    figure.legend(handles=handles, ncols=min(len(handles), 4), **place)  # more would leave the picture
    return figure


def _draw(axes: Axes, each: Mapping[str, Any], k: int) -> None:
    """Draw the curve of the longest horizon, a marker at the end of every horizon, and the bound."""
    items, own = each["curve"]["item"], look(k)
    axes.plot(items, items, color="0.6", linewidth=1.2, linestyle=":")
    above = [value if value > 0 else math.nan for value in each["curve"]["regret"]]  # a log scale has no zero
    axes.plot(items, above, linewidth=1.8, **{**own, "marker": ""})
    ends: dict[int, list[float]] = {}
    for end in each["regrets"]:
        ends.setdefault(end["horizon"], []).append(end["regret"])
    means = [sum(values) / len(values) or math.nan for values in ends.values()]
    axes.plot(list(ends), means, markersize=5, **{**own, "linestyle": ""})
    if each["bound_curve"] is not None:
        axes.plot(items, each["bound_curve"], color=own["color"], linewidth=0.9, marker="|", markevery=6, markersize=6)


def parts_of_regret(results: Mapping[str, Any]) -> Figure:
    """Return a stacked bar per problem and policy: regret per item by the part that it comes from."""
    details = results["details"]
    figure = new_figure(9, 1.6 + 0.3 * len(details))
    axes = figure.add_subplot()
    names = [f"{each['problem']}, {each['policy']}" for each in details]
    left = [0.0] * len(details)
    for k, part in enumerate(PARTS):
        widths = [each["parts"][part] / each["horizon"] for each in details]
        own: dict[str, Any] = {"color": FILLS[k], "hatch": HATCHES[k], "edgecolor": "0.5", "linewidth": 0.4}
        axes.barh(names, widths, left=left, label=part.replace("_", "-"), **own)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.margins(x=0.03, y=0.01)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("regret per item at the longest horizon (rewards)")
    figure.legend(loc="outside upper center", ncols=len(PARTS), frameon=False, handlelength=2.5)
    return figure
