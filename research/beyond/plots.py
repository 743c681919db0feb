"""The plots of what was measured; each takes the rows of the results and gives None if its part is not among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from research.beyond.parts import CURVE_STEP
from research.beyond.run import Row
from research.beyond.settings import MAIN
from research.output import LINES, MARKERS, look, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRIFT_CONTEXT: Final = "src_bytes"
THIN: Final = {"markersize": 4, "linewidth": 1.3}
LEAST: Final = 0.01  # %: where a log scale begins


def main_window(rows: Sequence[Row]) -> Figure | None:
    """Draw the error of everything on the paper's window: a line per policy, a marker per context."""
    found = [row for row in rows if (row["part"], row["setting"]) == ("windows", MAIN.name)]
    if not found:
        return None
    scenarios = list(dict.fromkeys(row["scenario"] for row in found))
    policies = list(dict.fromkeys(row["policy"] for row in found))
    contexts = list(dict.fromkeys(row["context"] for row in found))
    figure = new_figure(11, 1.5 + 0.3 * len(policies))
    for place, scenario in enumerate(scenarios, start=1):
        axes = figure.add_subplot(1, len(scenarios), place)
        for n, context in enumerate(contexts):
            own = [row for row in found if (row["scenario"], row["context"]) == (scenario, context)]
            spots = [policies.index(row["policy"]) for row in own]
            label = "no context" if context is None else context.replace("_", " ")
            errors = [max(LEAST, row["error"]) for row in own]
            axes.scatter(errors, spots, marker=MARKERS[n], color=LINES[n], s=28, label=label, zorder=3)
        axes.set_yticks(range(len(policies)), policies if place == 1 else [""] * len(policies), fontsize=8)
        axes.grid(axis="y", color="0.9")
        axes.invert_yaxis()
        axes.set_title(f"Setup {scenario}")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("error (%, log scale)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(contexts), fontsize=8)
    return figure


def drift(rows: Sequence[Row]) -> Figure | None:
    """Draw the running error with a change in the middle."""
    found = [row for row in rows if (row["part"], row["setting"]) == ("drift", "abrupt change")]
    curves = {row["policy"]: row["curve"] for row in found if row["context"] == DRIFT_CONTEXT}
    if not curves:
        return None
    figure = new_figure(9, 4)
    axes = figure.add_subplot()
    for n, (policy, curve) in enumerate(curves.items()):
        items = [CURVE_STEP * step for step in range(len(curve))]
        axes.plot(items, curve, label=policy, **{**look(n), **THIN, "marker": ""})
    axes.axvline(CURVE_STEP * max(map(len, curves.values())) / 2, color="0.6", linewidth=1)
    axes.set_title(f"An abrupt change in the middle, context {DRIFT_CONTEXT}")
    axes.set_xlabel("items")
    axes.set_ylabel("running error (%)")
    axes.set_ylim(0, None)
    axes.legend(fontsize=8)
    return figure


PLOTS: Final[Mapping[str, Callable[[Sequence[Row]], Any]]] = {
    "main_window": main_window,
    "drift": drift,
}
