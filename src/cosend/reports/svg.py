"""Figures as SVG: text that scales with the page, colours that follow the screen, and no library to load.

A figure is as wide as a phone, so that its words can be read there; on wide screens two stand side by side. Colours and
fonts come from the style of the page, and `alone` puts that style into the file of a single figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from cosend.reports.style import COLOURS, FIGURE, VARIABLES

WIDTH: Final = 360.0
LETTER: Final = 6.4  # about the width of a letter in the widest of the fonts of figures
BOLD: Final = 7.4  # and of a bold one


def number(value: float) -> str:
    """Return a number as short as a picture needs it."""
    return f"{value:.1f}".removesuffix(".0")


def colour(place: int) -> str:
    """Return the colour of the site at a place."""
    return f"var(--c{place % COLOURS})"


def on_colour(place: int) -> str:
    """Return the colour of words on the colour of a site."""
    return f"var(--k{place % COLOURS})"


class Drawing:
    """The parts of one figure, in the order they are drawn; `words` is what it says to who cannot see it."""

    def __init__(self, height: float, words: str, *, width: float = WIDTH) -> None:
        self.width, self.height, self.words = width, height, words
        self._parts: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> None:
        """Draw a straight line of a kind that the style knows."""
        self._parts.append(f'<path class="{kind}" d="M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"/>')

    def curve(
        self,
        points: Sequence[tuple[float, float]],
        ink: str,
        *,
        width: float = 1.6,
        dashed: bool = False,
        faint: bool = False,
    ) -> None:
        """Draw a line through points."""
        path = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        dash = (' stroke-dasharray="4 4"' if dashed else "") + (' stroke-opacity="0.4"' if faint else "")
        self._parts.append(f'<path class="curve" stroke="{ink}" stroke-width="{number(width)}"{dash} d="M{path}"/>')

    def area(self, path: str, ink: str, opacity: float = 1.0) -> None:
        """Fill a path."""
        self._parts.append(f'<path d="{path}" fill="{ink}" fill-opacity="{opacity:.2g}"/>')

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        ink: str,
        *,
        opacity: float = 1.0,
        tip: str = "",
        round_by: float = 0.0,
    ) -> None:
        """Fill a rectangle; `tip` is what a pointer over it shows."""
        corners = f' rx="{number(round_by)}"' if round_by else ' shape-rendering="crispEdges"'
        shape = f'x="{x:.2f}" y="{number(y)}" width="{width:.2f}" height="{number(height)}"{corners}'
        title = f"<title>{escape(tip)}</title>" if tip else ""
        self._parts.append(f'<rect {shape} fill="{ink}" fill-opacity="{opacity:.2g}">{title}</rect>')

    def dot(self, x: float, y: float, ink: str, radius: float = 3.0) -> None:
        """Draw a filled circle."""
        self._parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" fill="{ink}"/>')

    def text(
        self, x: float, y: float, words: str, *, kind: str = "", anchor: str = "start", ink: str = "", size: float = 0
    ) -> None:
        """Write words; `anchor` says which end of them is at x: start, middle or end."""
        look = f' class="{kind}"' if kind else ""
        look += f' style="fill:{ink}"' if ink else ""
        look += f' font-size="{number(size)}"' if size else ""
        end = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text x="{number(x)}" y="{number(y)}"{end}{look}>{escape(words)}</text>')

    def inline(self) -> str:
        """Return the figure as a part of a page."""
        return self._svg("")

    def alone(self) -> str:
        """Return the figure as a file of its own, on the ground that its words need."""
        ground = '<rect width="100%" height="100%" fill="var(--back)"/>'
        size = f' width="{number(1.8 * self.width)}" height="{number(1.8 * self.height)}"'
        return self._svg(f"<style>{VARIABLES}{FIGURE}</style>{ground}", f' xmlns="http://www.w3.org/2000/svg"{size}')

    def _svg(self, head: str, more: str = "") -> str:
        box = f"0 0 {number(self.width)} {number(self.height)}"
        title = f"<title>{escape(self.words)}</title>"
        return f'<svg class="figure" viewBox="{box}" role="img"{more}>{title}{head}{"".join(self._parts)}</svg>'


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Return places near the wanted ones that are at least so far apart, in the same order, from low to high."""
    order = sorted(range(len(wanted)), key=lambda n: wanted[n])
    placed: dict[int, float] = {}
    last = low - apart
    for n in order:
        last = placed[n] = max(wanted[n], last + apart)
    ceiling = high
    for n in reversed(order):
        ceiling = placed[n] = min(placed[n], ceiling)
        ceiling -= apart
    return [placed[n] for n in range(len(wanted))]


def width_of(words: str, *, bold: bool = False) -> float:
    """Return about how much room words need."""
    return len(words) * (BOLD if bold else LETTER)
