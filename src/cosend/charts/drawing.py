"""The parts of a figure: SVG text that scales with the page, colours that follow the screen, and no library to load.

A figure is as wide as a phone, so that its words can be read there; on a wide screen it is scaled up. A site has one
colour in all figures, and its models are shades of it. The colours follow Okabe and Ito, so that colour-blind people
can tell them apart; on dark screens they are lighter. Colours and fonts come from `charts.css`, which the page
includes, and which `Drawing.standalone` puts into the file of a single figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Final, NamedTuple

CSS: Final = files(__package__).joinpath("charts.css").read_text(encoding="utf-8")
COLOURS: Final = 8  # c0 to c7 of charts.css
SHADES: Final = (1.0, 0.66, 0.42, 0.28)
WIDTH: Final = 360.0
LETTER, BOLD_LETTER = 6.4, 7.4  # about the width of a letter, and of a bold one, in the widest font
HATCH: Final = (
    '<defs><pattern id="unsure" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="3.2" height="5" fill="var(--card)" fill-opacity=".82"/></pattern></defs>'
)


class Look(NamedTuple):
    """How something is filled, and the colour of words on it."""

    ink: str
    opacity: float = 1.0
    on: str = "var(--text)"


def looks_of_arms(owners: Sequence[str], sites: Sequence[str]) -> list[Look]:
    """Return the look of every arm: the colour of the site that owns it, in a lighter shade for each further model."""
    seen: Counter[str] = Counter()
    found = []
    for owner in owners:
        place, opacity = sites.index(owner) % COLOURS, SHADES[min(seen[owner], len(SHADES) - 1)]
        found.append(Look(f"var(--c{place})", opacity, f"var(--k{place})" if opacity == 1.0 else "var(--text)"))
        seen[owner] += 1
    return found


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Return places near the wanted ones, in the same order, at least `apart` from each other, from low to high."""
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
    return len(words) * (BOLD_LETTER if bold else LETTER)


class Drawing:
    """The parts of one figure, in the order they are drawn; `words` describes it to people who cannot see it."""

    def __init__(self, height: float, words: str, *, width: float = WIDTH) -> None:
        self.width, self.height, self.words = width, height, words
        self._parts: list[str] = []
        self._is_hatched = False

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> None:
        """Draw a straight line of a kind that charts.css knows."""
        self._parts.append(f'<path class="{kind}" d="M{_short(x1)} {_short(y1)}L{_short(x2)} {_short(y2)}"/>')

    def curve(
        self,
        points: Sequence[tuple[float, float]],
        ink: str,
        width: float = 1.6,
        dashed: bool = False,
        opacity: float = 1,
    ) -> None:
        path = "L".join(f"{_short(x)} {_short(y)}" for x, y in points)
        dash = (' stroke-dasharray="4 4"' if dashed else "") + (f' stroke-opacity="{opacity}"' if opacity < 1 else "")
        self._parts.append(f'<path class="curve" stroke="{ink}" stroke-width="{_short(width)}"{dash} d="M{path}"/>')

    def area(self, path: str, look: Look) -> None:
        self._parts.append(f'<path d="{path}" fill="{look.ink}" fill-opacity="{look.opacity:.2g}"/>')

    def box(
        self, x: float, y: float, width: float, height: float, look: Look, tip: str = "", radius: float = 0.0
    ) -> None:
        """Fill a rectangle; `tip` is shown while the pointer is over it."""
        corners = f' rx="{_short(radius)}"' if radius else ' shape-rendering="crispEdges"'
        shape = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"{corners}'
        title = f"<title>{escape(tip)}</title>" if tip else ""
        self._parts.append(f'<rect {shape} fill="{look.ink}" fill-opacity="{look.opacity:.2g}">{title}</rect>')

    def hatch(self, x: float, y: float, width: float, height: float, tip: str = "") -> None:
        self._is_hatched = True
        self.box(x, y, width, height, Look("url(#unsure)"), tip)

    def dot(self, x: float, y: float, ink: str, radius: float = 3.0) -> None:
        self._parts.append(f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{_short(radius)}" fill="{ink}"/>')

    def text(
        self, x: float, y: float, words: str, kind: str = "", anchor: str = "start", ink: str = "", size: float = 0
    ) -> None:
        """Write words; `anchor` says which end of them is at x: start, middle or end."""
        if not words:
            return
        look = f' class="{kind}"' if kind else ""
        look += f' style="fill:{ink}"' if ink else ""
        look += f' font-size="{_short(size)}"' if size else ""
        end = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text x="{_short(x)}" y="{_short(y)}"{end}{look}>{escape(words)}</text>')

    def inline(self) -> str:
        return self._svg("")

    def standalone(self) -> str:
        """Return the figure as a file with its own style and background."""
        background = '<rect width="100%" height="100%" fill="var(--back)"/>'
        size = f' width="{_short(1.8 * self.width)}" height="{_short(1.8 * self.height)}"'
        return self._svg(f"<style>{CSS}</style>{background}", f' xmlns="http://www.w3.org/2000/svg"{size}')

    def _svg(self, head: str, more: str = "") -> str:
        box = f"0 0 {_short(self.width)} {_short(self.height)}"
        title = f"<title>{escape(self.words)}</title>{HATCH if self._is_hatched else ''}"
        return f'<svg class="figure" viewBox="{box}" role="img"{more}>{title}{head}{"".join(self._parts)}</svg>'


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
