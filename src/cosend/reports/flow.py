"""Who sends how much to whom, as a flow: items arrive on the left and are labelled on the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cosend.reports.svg import WIDTH, Drawing, colour
from cosend.reports.text import short_text

MOST_SITES: Final = 12
LEFT: Final = 78.0
BAR: Final = 9.0
GAP: Final = 12.0
SMALLEST: Final = 0.5  # percent that is drawn


def has_flow(view: Mapping[str, Any]) -> bool:
    """Tell whether a policy has sent anything that can be seen."""
    percent = view["flows"]["percent"]
    return any(share >= SMALLEST for i, row in enumerate(percent) for j, share in enumerate(row) if i != j)


def flow(view: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> Drawing:
    """Draw a band from every site to everyone who labels its items; a site is as high as 100 % of its items.

    `notes` is what stands under the names of some sites, in the place of how much they keep.
    """
    flows = view["flows"]
    sites, percent = list(flows["from"])[:MOST_SITES], [row[:MOST_SITES] for row in flows["percent"][:MOST_SITES]]
    scale = max(22.0, min(62.0, 320.0 / len(sites))) / 100
    taken = [sum(row[j] for row in percent) for j in range(len(sites))]
    height = scale * 100 * len(sites) + GAP * (len(sites) - 1)
    drawing = Drawing(height + 30, "Who sends how much to whom")
    drawing.text(LEFT, 12, "arrive at", anchor="end", kind="soft")
    drawing.text(WIDTH - LEFT, 12, "labelled by", kind="soft")
    ends = _tops(taken, scale, 22.0)
    starts = _tops([100.0] * len(sites), scale, 22.0)
    used_left, used_right = [0.0] * len(sites), [0.0] * len(sites)
    for i in range(len(sites)):
        for j in range(len(sites)):
            if percent[i][j] > 0:
                y1, y2 = starts[i] + used_left[i] * scale, ends[j] + used_right[j] * scale
                drawing.area(_band(y1, y2, percent[i][j] * scale), colour(j), 0.62 if i == j else 0.34)
                if percent[i][j] * scale >= 9:
                    middle = y1 + percent[i][j] * scale / 2
                    drawing.text(LEFT + BAR + 12, middle + 4, f"{percent[i][j]:.0f} %", size=10)
                used_left[i] += percent[i][j]
                used_right[j] += percent[i][j]
    for n, site in enumerate(sites):
        words = (notes or {}).get(site, f"keeps {percent[n][n]:.0f} %")
        _end(drawing, site, n, starts[n], 100 * scale, words, left=True)
        _end(drawing, site, n, ends[n], taken[n] * scale, "", left=False)
    return drawing


def _tops(sizes: list[float], scale: float, top: float) -> list[float]:
    found = []
    for size in sizes:
        found.append(top)
        top += size * scale + GAP
    return found


def _band(y1: float, y2: float, height: float) -> str:
    x1, x2, middle = LEFT + BAR + 6, WIDTH - LEFT - BAR - 6, WIDTH / 2
    there = f"M{x1:.1f} {y1:.2f}C{middle:.1f} {y1:.2f} {middle:.1f} {y2:.2f} {x2:.1f} {y2:.2f}"
    low1, low2 = y1 + height, y2 + height
    return f"{there}V{low2:.2f}C{middle:.1f} {low2:.2f} {middle:.1f} {low1:.2f} {x1:.1f} {low1:.2f}Z"


def _end(drawing: Drawing, site: str, n: int, top: float, height: float, words: str, *, left: bool) -> None:
    x = LEFT + 6 if left else WIDTH - LEFT - BAR - 6
    drawing.box(x, top, BAR, max(height, 1.0), colour(n), round_by=2)
    middle, anchor = top + height / 2, "end" if left else "start"
    x = LEFT if left else WIDTH - LEFT
    two_lines = bool(words) and height > 24
    drawing.text(x, middle + (0 if two_lines else 4), short_text(site, 13), kind="strong", anchor=anchor)
    if two_lines:
        drawing.text(x, middle + 13, words, kind="soft", anchor=anchor, size=10)
