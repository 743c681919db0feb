"""The plots of a run. Each takes the result of the run as plain data and returns a Matplotlib figure.

    error_over_time   a line per policy
    phases_over_time  stacked areas, a panel per site
    winners           which arm is the best in which cell
    flows             who labels whose items

What differs in colour differs in lightness, dash, marker, hatch or letter as well, so that it differs in grey.
Matplotlib is imported when a plot is drawn, not before: the rest of cosend works without it.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from cosend.errors import CosendError
from cosend.reports.text import short_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Result: TypeAlias = Mapping[str, Any]  # the result of a run; write_report says what is in it
Plot: TypeAlias = "Callable[[Result], Figure]"

MOST_PANELS = 24  # sites that get a panel or a row of their own
WIDTH = 9.0  # inches
LINES = ("#000000", "#D55E00", "#0072B2", "#117733", "#AA4499", "#E69F00", "#56B4E9", "#882255")
DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1.2)), (0, (7, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (4, 3)))
MARKERS = "os^DvPX*<"
FILLS = ("#332288", "#F5E9B8", "#D55E00", "#88CCEE", "#117733", "#E69F00")  # neighbours are far apart in lightness
HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")
PHASES = {  # name: what the legend says, colour, hatch
    "train": ("training: a peer learns", "#332288", "///"),
    "explore": ("exploration: an arm is tried", "#E69F00", ""),
    "exploit": ("exploitation: the best arm is used", "#DCEFF7", ""),
}
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "hatch.linewidth": 0.6}


def styled(plot: Plot) -> Plot:
    """Draw in one style, whatever the user's matplotlibrc says; without Matplotlib, say how to get it."""

    @wraps(plot)
    def draw(result: Result) -> Figure:
        try:
            from matplotlib import style
        except ImportError as error:
            raise CosendError("plots need Matplotlib: pip install 'cosend[reports]'") from error
        with style.context(["default", STYLE]):
            return plot(result)

    return draw


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG file; the same figure gives the same bytes."""
    from matplotlib import style

    file = io.BytesIO()
    with style.context(["default", STYLE]), warnings.catch_warnings():
        # A letter that the font lacks becomes a box here; the tables of the report have the name in full.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format="png", dpi=150, metadata={"Software": None}, facecolor="white")
    return file.getvalue()


@styled
def error_over_time(result: Result) -> Figure:
    """Return a line per policy: the share of wrong labels among all items so far."""
    curves = {name: curve for name, curve in result["error_curves"].items() if curve["item"]}
    figure = _figure(max(4.6, 1.0 + 0.3 * len(curves)))
    axes = figure.add_subplot()
    lines = {}
    for k, (policy, curve) in enumerate(curves.items()):
        step = max(1, len(curve["item"]) // 8)
        (lines[policy],) = axes.plot(
            curve["item"],
            curve["error"],
            color=LINES[k % len(LINES)],
            linestyle=DASHES[k % len(DASHES)],
            marker=MARKERS[k % len(MARKERS)],
            markevery=(k * step // 8 % step, step),  # shifted, so that the markers of close lines stay apart
            markersize=5,
            linewidth=1.5 if k else 2.4,
            zorder=3 if k else 4,
        )
    _error_axis(axes, list(curves.values()))
    axes.set_xlabel("items seen (number, all sites)")
    axes.grid(alpha=0.3)
    order = sorted(curves, key=lambda policy: -curves[policy]["error"][-1])  # as the lines end, from top to bottom
    figure.legend(
        [lines[policy] for policy in order],
        [_shown(f"{policy} ({curves[policy]['error'][-1]:.2f} %)", 30) for policy in order],
        loc="outside right upper",
        title="policy (error at the end)",
        handlelength=4,
        frameon=False,
    )
    return figure


def _error_axis(axes: Axes, curves: Sequence[Mapping[str, Any]]) -> None:
    """Show the errors after the first items, on a log axis if the policies end far apart."""
    start = max((curve["item"][-1] for curve in curves), default=0) * 0.02  # before, one mistake is a large share
    late = [y for curve in curves for x, y in zip(curve["item"], curve["error"], strict=True) if x >= start]
    ends = [curve["error"][-1] for curve in curves]
    axes.set_ylabel("wrong labels so far (% of items)")
    if ends and min(ends) > 0 and max(ends) / min(ends) > 8:
        from matplotlib.ticker import LogLocator, NullFormatter

        axes.set_yscale("log", nonpositive="mask")
        axes.set_ylabel("wrong labels so far (% of items, log scale)")
        axes.set_ylim(min(y for y in late if y > 0) * 0.8, max(late) * 1.25)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, max(late, default=0) * 1.08 or 1)
    axes.xaxis.set_major_formatter("{x:,.0f}")


@styled
def phases_over_time(result: Result) -> Figure:
    """Return stacked areas per site: which share of the items was training, exploration and exploitation."""
    from matplotlib.patches import Patch

    sites = {name: phases for name, phases in result["phases"].items() if phases["item"]}
    rows = math.ceil(min(len(sites), MOST_PANELS) / 2)
    figure = _figure(1.2 + 2.1 * rows)
    columns, apart = min(len(sites), 2), {"wspace": 0.08}
    panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False, gridspec_kw=apart).flat)
    for panel, (site, phases) in zip(panels, sites.items(), strict=False):
        edges = _edges(phases["item"])
        shares = [[*phases[phase], phases[phase][-1]] for phase in PHASES]  # a step needs its last value twice
        areas = panel.stackplot(edges, *shares, colors=[colour for _, colour, _ in PHASES.values()], step="post")
        for area, (_, _, hatch) in zip(areas, PHASES.values(), strict=True):
            area.set(hatch=hatch, edgecolor="white", linewidth=0)
        panel.set(title=_shown(site, 44), ylim=(0, 100), xlim=(edges[0], edges[-1]))
        panel.locator_params(axis="x", nbins=5)
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.tick_params(labelbottom=True)
    for panel in panels[len(sites) :]:
        panel.set_visible(False)
    figure.supxlabel("item (number)", fontsize=10)
    figure.supylabel("share of the items around it (%)", fontsize=10)
    handles = [Patch(label=text, fc=colour, hatch=hatch, ec="white") for text, colour, hatch in PHASES.values()]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False, handlelength=2.5, handleheight=1)
    _say_left_out(figure, len(sites))
    return figure


def _edges(centres: Sequence[float]) -> list[float]:
    """Return where the bins around these centres begin, and where the last one ends."""
    if len(centres) == 1:
        return [0, 2 * centres[0] or 1]
    inner = [(a + b) / 2 for a, b in pairwise(centres)]
    return [max(0, 2 * centres[0] - inner[0]), *inner, 2 * centres[-1] - inner[-1]]


@styled
def winners(result: Result) -> Figure:
    """Return a heat map of the best arm per visited cell: a row per site on one axis, else a map per site."""
    from matplotlib.patches import Patch

    sites = {name: won for name, won in result["winners"].items() if won["cells"]}
    a, b = _two_axes(result, sites)
    grids = {name: _grid(won, a, b) for name, won in list(sites.items())[:MOST_PANELS]}
    arms = list(dict.fromkeys(arm for name in grids for arm in sites[name]["arms"] if arm in _won(grids[name])))
    peers = set(result["sites"])
    labels = [f"{_letter(k)}  {'send to ' if arm in peers else ''}{arm}" for k, arm in enumerate(arms)]
    labels = [*(_shown(label, 26) for label in labels), "blank: no item"]
    room = 1.0 + 0.25 * sum(1 + 0.7 * label.count("\n") for label in labels)  # what the legend needs, in inches
    names = [_shown(name, 30) for name in result["context"]]
    title = "Best arm per cell"
    if b is None:
        figure = _figure(max(1.2 + 0.62 * len(grids), room))
        _strip(figure.add_subplot(xlabel=f"slice of {names[0]} (number)"), grids, arms, result["slices"])
    else:
        if len(names) > 2:
            title += (
                f" of the two most visited of {len(names)} axes; where several cells coincide, the arm with most items"
            )
        figure = _figure(max(0.7 + 3.4 * math.ceil(len(grids) / 2), room), layout="compressed")
        _maps(figure, grids, arms, result["slices"], (names[a], names[b]))
    figure.suptitle("\n".join(textwrap.wrap(title, 64)), fontsize=11, x=0.01, ha="left")
    handles = [Patch(**_fill(k)) for k in range(len(arms))] + [Patch(fc="white", ec="#999999")]
    figure.legend(
        handles, labels, loc="outside right upper", title="arm", frameon=False, handlelength=2.2, handleheight=1.3
    )
    _say_left_out(figure, len(sites))
    return figure


Grid: TypeAlias = dict[tuple[int, int], tuple[str, int]]  # place -> the arm that wins there, arrivals


def _two_axes(result: Result, sites: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the axes to draw: those over whose slices the items spread most."""
    if len(result["context"]) < 2:
        return 0, None
    spread = []
    for axis in range(len(result["context"])):
        arrivals: Counter[int] = Counter()
        for won in sites.values():
            for cell, count in zip(won["cells"], won["arrivals"], strict=True):
                arrivals[cell[axis]] += count
        total = arrivals.total() or 1
        spread.append((sum((count / total) ** 2 for count in arrivals.values()), axis))
    a, b = sorted(axis for _, axis in sorted(spread)[:2])
    return a, b


def _grid(won: Mapping[str, Any], a: int, b: int | None) -> Grid:
    """Return who wins at each place; where several cells fall on one place, the arm whose cells had most items."""
    votes: dict[tuple[int, int], Counter[str]] = {}
    for cell, best, arrivals in zip(won["cells"], won["best"], won["arrivals"], strict=True):
        place = (cell[a], 0 if b is None else cell[b])
        votes.setdefault(place, Counter())[won["arms"][best]] += arrivals
    return {place: (count.most_common(1)[0][0], count.total()) for place, count in votes.items()}


def _won(grid: Grid) -> set[str]:
    return {arm for arm, _ in grid.values()}


def _strip(axes: Axes, grids: Mapping[str, Grid], arms: Sequence[str], slices: int) -> None:
    rows = {(x, row): value for row, grid in enumerate(grids.values()) for (x, _), value in grid.items()}
    _cells(axes, rows, arms, slices, counts=slices <= 14)
    axes.set_yticks(range(len(grids)), [_shown(site, 20) for site in grids])
    axes.set(xlim=(-0.5, slices - 0.5), ylim=(len(grids) - 0.5, -0.5))
    _whole_numbers(axes.xaxis)


def _maps(figure: Figure, grids: Mapping[str, Grid], arms: Sequence[str], slices: int, names: tuple[str, str]) -> None:
    columns = min(len(grids), 2)
    panels = list(figure.subplots(math.ceil(len(grids) / 2), columns, squeeze=False).flat)
    for k, (panel, (site, grid)) in enumerate(zip(panels, grids.items(), strict=False)):
        _cells(panel, grid, arms, slices, counts=False)
        panel.set_title(_shown(site, 34), fontsize=10)
        panel.set(xlim=(-0.5, slices - 0.5), ylim=(-0.5, slices - 0.5), aspect="equal")
        if k % columns == 0:
            panel.set_ylabel(f"slice of {names[1]} (number)")
        if k + columns >= len(grids):
            panel.set_xlabel(f"slice of {names[0]} (number)")
        _whole_numbers(panel.xaxis)
        _whole_numbers(panel.yaxis)
    for panel in panels[len(grids) :]:
        panel.set_visible(False)


def _cells(axes: Axes, grid: Grid, arms: Sequence[str], slices: int, *, counts: bool) -> None:
    """Fill the cells, and write into each the letter of its arm and how many items came, as far as there is room."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    for k, arm in enumerate(arms):
        places = [place for place, (best, _) in grid.items() if best == arm]
        if places:
            boxes = [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in places]
            axes.add_collection(PatchCollection(boxes, **_fill(k, 0.5 if slices <= 24 else 0)), autolim=False)
    if slices > 24:
        return
    for (x, y), (arm, arrivals) in grid.items():
        fill = _fill(arms.index(arm))
        text = f"{_letter(arms.index(arm))}\n{short_number(arrivals)}" if counts else _letter(arms.index(arm))
        axes.text(
            x,
            y,
            text,
            ha="center",
            va="center",
            fontsize=8 if slices <= 14 else 6,
            fontweight="bold",
            color=fill["ec"],
            bbox={"boxstyle": "round,pad=0.2" if counts else "circle,pad=0.15", "fc": fill["fc"], "ec": "none"},
        )


def _fill(k: int, linewidth: float = 0.5) -> dict[str, Any]:
    """Return colour and hatch of an arm; the lines on it are white or black, whichever is read better."""
    colour = FILLS[k % len(FILLS)]
    hatch = HATCHES[k // len(FILLS) % len(HATCHES)]
    return {"fc": colour, "ec": _ink(colour), "hatch": hatch, "linewidth": linewidth}


@styled
def flows(result: Result) -> Figure:
    """Return a matrix: which share of each site's items it labelled itself or sent to whom."""
    from matplotlib.colors import to_hex
    from matplotlib.patches import Rectangle

    senders, receivers, percent = (result["flows"][key] for key in ("from", "to", "percent"))
    figure = _figure(min(2.2 + 0.62 * len(senders), 14), width=min(4.2 + 0.95 * len(receivers), 16))
    axes = figure.add_subplot()
    image = axes.imshow(percent, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for i, sender in enumerate(senders):
        for j, receiver in enumerate(receivers):
            share = percent[i][j]
            ink = _ink(to_hex(tuple(image.to_rgba(share))))
            text = f"{share:.0f}" if len(receivers) > 12 else f"{share:.1f}"
            axes.text(j, i, text, ha="center", va="center", color=ink, fontsize=10 if len(receivers) <= 12 else 7)
            if sender == receiver:
                axes.add_patch(Rectangle((j - 0.46, i - 0.44), 0.92, 0.88, fill=False, ec=ink, linewidth=1.2))
    turned = len(receivers) > 12 or max(map(len, receivers), default=0) > 12
    turn: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    axes.set_xticks(range(len(receivers)), [_shown(name, 22) for name in receivers], **turn)
    axes.set_yticks(range(len(senders)), [_shown(name, 22) for name in senders])
    axes.set(xlabel="labelled by (framed: by the site itself)", ylabel="items of")
    figure.colorbar(image, label="share of the site's items (%)")
    return figure


def _figure(
    height: float, width: float = WIDTH, layout: Literal["constrained", "compressed"] = "constrained"
) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def _shown(text: str, width: int) -> str:
    """Return text in lines of a width; a dollar sign is a dollar sign and starts no formula."""
    return "\n".join(textwrap.wrap(text, width)).replace("$", r"\$")


def _say_left_out(figure: Figure, sites: int) -> None:
    if sites > MOST_PANELS:
        figure.text(0.99, 0.002, f"the first {MOST_PANELS} of {sites} sites", ha="right", va="bottom", fontsize=8)


def _ink(colour: str) -> str:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 130 else "white"


def _letter(k: int) -> str:
    return chr(ord("A") + k) if k < 26 else str(k + 1)


def _whole_numbers(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=13, integer=True))
