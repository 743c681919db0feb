"""What experiments show: tables and remarks on the console and as Markdown, and plots, in the same looks for all.

What differs in colour differs in lightness, dash, marker or hatch as well, so that it differs in grey. Matplotlib is
imported when a plot is drawn, not before: the rest works without it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console
from rich.table import Table

from cosend.text import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cells: TypeAlias = list[str]
TableText: TypeAlias = tuple[str, Cells, list[Cells]]  # title, heading, rows
Section: TypeAlias = tuple[TableText, Sequence[str]]  # a table, and what has to be said about it
Plot: TypeAlias = "Callable[[Any], Figure | None]"  # None if there is nothing to draw

LINES = ("#000000", "#D55E00", "#0072B2", "#117733", "#AA4499", "#E69F00", "#56B4E9", "#882255")
DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1.2)), (0, (7, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (4, 3)))
MARKERS = "os^DvPX*<"
FILLS = ("#332288", "#F5E9B8", "#D55E00", "#88CCEE", "#117733", "#E69F00")  # neighbours are far apart in lightness
HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "hatch.linewidth": 0.6}


def look(n: int) -> dict[str, Any]:
    """Return the look of a line that is told apart from all others."""
    return {"color": LINES[n % len(LINES)], "linestyle": DASHES[n % len(DASHES)], "marker": MARKERS[n % len(MARKERS)]}


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def write(
    folder: Path, results: Mapping[str, Any], markdown: Mapping[str, str], plots: Mapping[str, Plot]
) -> list[str]:
    """Write results.json, Markdown by the name of its file, and plots by theirs; returns the names of the files."""
    from matplotlib import style

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    names = ["results.json", *markdown]
    for name, text in markdown.items():
        (folder / name).write_text(text)
    # In one style, whatever the user's matplotlibrc says. A letter that the font lacks becomes a box.
    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for name, plot in plots.items():
            figure = plot(results)
            if figure is not None:
                figure.savefig(folder / name, dpi=150, metadata={"Software": None}, facecolor="white")
                names.append(name)
    return names


def as_markdown(title: str, caption: str, sections: Iterable[Section], remarks: Sequence[str] = ()) -> str:
    """Return tables, each with what has to be said about it, and remarks about the whole."""
    lines = [f"# {title}", "", caption]
    for (name, heading, rows), said in sections:
        lines += ["", f"## {name}", "", *markdown_table(heading, rows), *([""] if said else []), *bullets(said)]
    if remarks:
        lines += ["", "## Remarks", "", *bullets(remarks)]
    return "\n".join(lines) + "\n"


def bullets(remarks: Iterable[str]) -> list[str]:
    """Return remarks as the lines of a list."""
    return [f"- {remark}" for remark in remarks]


def print_sections(console: Console, sections: Iterable[Section], remarks: Iterable[str]) -> None:
    """Print the same; nothing else fits into 80 columns."""
    for (title, heading, rows), said in sections:
        table = Table(title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False)
        for n, name in enumerate(heading):
            are_numbers = all(row[n][:1] in "+-.0123456789" for row in rows)
            table.add_column(name, justify="right" if are_numbers else "left", no_wrap=n == 0)
        for row in rows:
            table.add_row(*row)
        console.print(table)
        for remark in bullets(said):
            console.print(remark, highlight=False)
    for remark in bullets(remarks):
        console.print(remark, highlight=False)
