"""What the plots of experiments have in common: looks, and a figure of Matplotlib as a file.

What differs in colour differs in lightness, dash, marker or hatch as well, so that it differs in grey. Matplotlib is
imported when a plot is drawn, not before: the rest of cosend works without it.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from cosend.errors import CosendError, install

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result: TypeAlias = Mapping[str, Any]  # what an experiment has found
Plot: TypeAlias = "Callable[[Result], Figure]"

LINES = ("#000000", "#D55E00", "#0072B2", "#117733", "#AA4499", "#E69F00", "#56B4E9", "#882255")
DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1.2)), (0, (7, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (4, 3)))
MARKERS = "os^DvPX*<"
FILLS = ("#332288", "#F5E9B8", "#D55E00", "#88CCEE", "#117733", "#E69F00")  # neighbours are far apart in lightness
HATCHES = ("", "///", "...", "xx", "\\\\\\", "++")
STYLE = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "hatch.linewidth": 0.6}


def styled(plot: Plot) -> Plot:
    """Draw in one style, whatever the user's matplotlibrc says; without Matplotlib, say how to get it."""

    @wraps(plot)
    def draw(result: Result) -> Figure:
        try:
            from matplotlib import style
        except ImportError as error:
            raise CosendError(f"plots need Matplotlib: {install('reports')}") from error
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
