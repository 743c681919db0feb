"""Charts as SVG text: lines over time, strips and maps of the context, flows between sites, and an interval.

Each kind of chart is a function from plain values to a `Drawing`. Places on axes are numbers in [0, 1], so that a chart
knows nothing about units.

A figure is as wide as a phone unless it is given another width, so that its words can be read there. A site has one
colour in all figures, and its models are shades of it. The colours follow Okabe and Ito, so that colour-blind people
can tell them apart; on dark screens they are lighter. Colours and fonts come from `charts.css`, which the page
includes, and which `Drawing.standalone` puts into the file of a single figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Final, NamedTuple

from cosend.text import round_numbers, short_text

CSS: Final = files(__package__).joinpath("charts.css").read_text(encoding="utf-8")
COLOURS: Final = 8  # c0 to c7 of charts.css
SHADES: Final = (1.0, 0.66, 0.42, 0.28)
WIDTH: Final = 360.0
WIDE: Final = 720.0  # on a screen
LETTER, BOLD_LETTER = 6.4, 7.4  # about the width of a letter, and of a bold one, in the widest font
HATCH: Final = (
    '<defs><pattern id="unsure" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="3.2" height="5" fill="var(--card)" fill-opacity=".82"/></pattern></defs>'
)
LEFT: Final = 34.0  # room for the numbers next to a line chart
EDGE: Final = 8.0
ROW: Final = 16.0  # height of a line of a legend
MOST_NAME: Final = 140.0  # room for the names of lines
SAMPLE: Final = 18.0  # of a line, next to its name
Span = tuple[float, float]


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


OTHERS: Final = (6, 4, 5, 7)  # colours of further models of a site, in this order, where no site has them


def looks_apart(owners: Sequence[str], sites: Sequence[str], here: str, others: Sequence[int] = OTHERS) -> list[Look]:
    """Return the look of every arm of a site: different colours for its models too, as long as there are any."""
    left = [colour for colour in others if colour >= len(sites)]
    found = looks_of_arms(owners, sites)
    further = [n for n, owner in enumerate(owners) if owner == here][1:]
    for n, colour in zip(further, left, strict=False):
        found[n] = Look(f"var(--c{colour})", 1.0, f"var(--k{colour})")
    rest = further[len(left) :]
    for n, shade in zip(rest, looks_of_arms([here, *(here for _ in rest)], sites)[1:], strict=True):
        found[n] = shade
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

    def mark(self, x: float, top: float, bottom: float, kind: str, tip: str) -> None:
        """Draw a dashed line that hangs on a triangle; `tip` is shown while the pointer is over it."""
        line = f"M{_short(x)} {_short(top + 4)}V{_short(bottom)}"
        head = f"M{_short(x - 4)} {_short(top - 4)}H{_short(x + 4)}L{_short(x)} {_short(top + 3)}Z"
        title = f"<title>{escape(tip)}</title>"
        self._parts.append(f'<g class="mark {kind}">{title}<path class="turn" d="{line}"/><path d="{head}"/></g>')

    def tick(self, x: float, bottom: float, tip: str) -> None:
        """Draw a short line that rises from another; `tip` is shown while the pointer is over it."""
        line = f'<path d="M{_short(x)} {_short(bottom - 4)}V{_short(bottom)}"/>'
        self._parts.append(f'<g class="mark minor"><title>{escape(tip)}</title>{line}</g>')

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
        scale = max(1.0, 1.8 * WIDTH / self.width)
        size = f' width="{_short(scale * self.width)}" height="{_short(scale * self.height)}"'
        return self._svg(f"<style>{CSS}</style>{background}", f' xmlns="http://www.w3.org/2000/svg"{size}')

    def _svg(self, head: str, more: str = "") -> str:
        box = f"0 0 {_short(self.width)} {_short(self.height)}"
        title = f"<title>{escape(self.words)}</title>{HATCH if self._is_hatched else ''}"
        return f'<svg class="figure" viewBox="{box}" role="img"{more}>{title}{head}{"".join(self._parts)}</svg>'


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


# Parts of charts

BACKGROUND: Final = Look("var(--grid)")


class Line(NamedTuple):
    """A named line through points."""

    name: str
    ink: str
    width: float = 1.7
    dashed: bool = False
    points: Sequence[tuple[float, float]] = ()

    @property
    def is_main(self) -> bool:
        return self.width > 2


class Scale(NamedTuple):
    """An axis: its name, and what is written at some places in [0, 1]."""

    name: str
    ticks: Sequence[tuple[float, str]]


class Patch(NamedTuple):
    """A filled rectangle on a strip or a map; places are in [0, 1], from left to right and from bottom to top."""

    x: Span
    y: Span
    look: Look
    tip: str = ""
    is_sure: bool = True  # else it is hatched
    words: str = ""  # written on it where there is room
    strength: float = 1.0  # how much of its colour it has; what lies under it does not show through


class Strip(NamedTuple):
    """One row of a strip chart."""

    title: str
    patches: Sequence[Patch]
    note: str = ""  # at the right end of the title
    height: float = 46.0
    legend: Sequence[tuple[str, Look]] = ()  # below it


Legend = Sequence[tuple[str, Look]]


# Lines


def line_chart(
    words: str,
    lines: Sequence[Line],
    across: Scale,
    x_range: Span,
    *,
    title: str = "",
    floor: float | None = None,
    least_room: float = 0.0,
    mark: tuple[float, str] | None = None,
    height: float = 250.0,
    width: float = WIDTH,
    names_above: bool = False,
) -> Drawing:
    """Draw lines, each with its name at its end; the last line lies under all others.

    floor        where the vertical axis begins; without it, a little below the lowest value
    least_room   how much room there is at least above and below the values
    mark         a place on the horizontal axis, and what happened there
    names_above  the names are above the lines, in the order of the lines, so that two charts have them in the same one
    """
    longest = max(width_of(line.name, bold=line.is_main) for line in lines)
    per_row = max(1, int((width - EDGE) / (longest + SAMPLE + 14)))
    above = ROW * -(-len(lines) // per_row) if names_above else 0.0
    drawing = Drawing(height + above, words, width=width)
    names = [short_text(line.name) for line in lines]
    top, bottom = (38.0 if title else 12.0) + above, height + above - (38.0 if across.name else 24.0)
    room_for_names = max(width_of(name, bold=line.is_main) for line, name in zip(lines, names, strict=True))
    right = width - (2.5 * EDGE if names_above else min(MOST_NAME, 12 + room_for_names))
    values = [value for line in lines for _, value in line.points]
    room = max(least_room, (max(values) - min(values)) * 0.06 or 0.05)
    low, high = min(values) - room if floor is None else floor, max(values) + room

    def x(value: float) -> float:
        return LEFT + (value - x_range[0]) / (x_range[1] - x_range[0] or 1) * (right - LEFT)

    def y(value: float) -> float:
        return bottom - (value - low) / (high - low or 1) * (bottom - top)

    drawing.text(4, 13, title, "strong")
    for value in round_numbers(low, high, 6 if title else 5):
        drawing.line(LEFT, y(value), right, y(value), "grid")
        drawing.text(LEFT - 5, y(value) + 4, short_text(value), "soft", "end")
    for place, text in across.ticks:
        at = LEFT + place * (right - LEFT)
        drawing.text(at, bottom + 15, text, "soft", "start" if width_of(text) / 2 > at else "middle")
    drawing.text((LEFT + right) / 2, drawing.height - 5, across.name, "soft", "middle")
    if mark is not None:
        drawing.line(x(mark[0]), top - 4, x(mark[0]), bottom, "turn")
        drawing.text(x(mark[0]), top - 8, mark[1], "soft", "middle", size=10)
    for line in reversed(lines):
        drawing.curve([(x(a), y(b)) for a, b in line.points], line.ink, line.width, line.dashed)
    if names_above:
        for n, line in enumerate(lines):
            at, base = 4 + n % per_row * (longest + SAMPLE + 14), 30 + ROW * (n // per_row)
            drawing.curve([(at, base - 4), (at + SAMPLE, base - 4)], line.ink, line.width, line.dashed)
            drawing.text(at + SAMPLE + 5, base, line.name, "strong" if line.is_main else "")
        return drawing
    ends = [y(line.points[-1][1]) for line in lines]
    for line, name, end, place in zip(lines, names, ends, spread(ends, 14, top + 4, bottom), strict=True):
        drawing.curve([(right + 2, end), (right + 8, place)], line.ink, 1)
        drawing.text(right + 10, place + 4, name, "strong" if line.is_main else "", ink=line.ink)
    return drawing


# Strips and maps


def strip_chart(
    words: str,
    strips: Sequence[Strip],
    scale: Scale,
    legend: Legend = (),
    *,
    up: Scale | None = None,
    width: float = WIDTH,
) -> Drawing:
    """Draw patches along one axis, a strip for each row.

    up  the axis of every strip, from bottom to top; its name is at the right end of the title
    """
    heads = [22.0 if strip.title else 6.0 for strip in strips]
    below = [_height(strip.legend, width) for strip in strips]
    base = sum(heads) + sum(strip.height for strip in strips) + sum(below) + (18.0 if any(below) else 0.0)
    left = EDGE if up is None else LEFT + 4
    height = base + (12 if any(below) else 38) + _height(legend, width)
    drawing, top, wide = Drawing(height, words, width=width), 0.0, width - left - EDGE
    for strip, head, more in zip(strips, heads, below, strict=True):
        top += head
        drawing.text(left, top - 7, strip.title, "strong")
        drawing.text(width - EDGE, top - 7, strip.note or (up.name if up else ""), "soft", "end")
        frame = (left, top, wide, strip.height)
        drawing.box(*frame, BACKGROUND, radius=3)
        for patch in strip.patches:
            _fill(drawing, patch, frame)
        for patch in strip.patches:
            _write(drawing, patch, frame)
        for place, text in up.ticks if up else ():
            drawing.text(left - 5, top + 8 + (strip.height - 8) * (1 - place), text, "soft", "end")
        top += strip.height
        last = strip is strips[-1]
        _draw_legend(drawing, strip.legend, top + (50 if last else 16), left)
        top += more
    _ticks_below(drawing, scale, left, wide, base - (below[-1] + 18 if any(below) else 0) + 15)
    _draw_legend(drawing, legend, base + 50, left)
    return drawing


def map_chart(words: str, title: str, patches: Sequence[Patch], axes: tuple[Scale, Scale], legend: Legend) -> Drawing:
    """Draw patches over two axes: the first goes across, the second up."""
    across, up = axes
    head = 22.0 if title else 0.0
    left, top, wide, high = 66.0, head + 18.0, WIDTH - 74.0, 240.0
    drawing = Drawing(top + high + 38 + _height(legend), words)
    drawing.text(4, 13, title, "strong")
    drawing.box(left, top, wide, high, BACKGROUND, radius=3)
    for patch in patches:
        _fill(drawing, patch, (left, top, wide, high))
    for place, text in up.ticks:
        drawing.text(left - 5, top + high * (1 - place) + 4, short_text(text, 10), "soft", "end")
    drawing.text(4, top - 8, short_text(up.name, 60), "strong")
    _ticks_below(drawing, across, left, wide, top + high + 15)
    _draw_legend(drawing, legend, top + high + 50)
    return drawing


def _fill(drawing: Drawing, patch: Patch, frame: tuple[float, float, float, float]) -> None:
    left, top, wide, high = frame
    (x1, x2), (y1, y2) = patch.x, patch.y
    place = (left + wide * x1, top + high * (1 - y2), wide * (x2 - x1), high * (y2 - y1))
    if not patch.is_sure or patch.strength < 1.0:  # what lies under it must not show through
        drawing.box(*place, Look("var(--card)"))
    drawing.box(*place, patch.look._replace(opacity=patch.look.opacity * patch.strength), patch.tip)
    if not patch.is_sure:
        drawing.hatch(*place, patch.tip)


def _write(drawing: Drawing, patch: Patch, frame: tuple[float, float, float, float]) -> None:
    left, top, wide, high = frame
    letters = int((wide * (patch.x[1] - patch.x[0]) - 4) / BOLD_LETTER)
    if patch.words and letters >= min(6, len(patch.words)):
        is_full = patch.is_sure and patch.strength > 0.9
        x, ink = left + wide * (patch.x[0] + patch.x[1]) / 2, patch.look.on if is_full else "var(--text)"
        drawing.text(x, top + high / 2 + 4, short_text(patch.words, letters), "strong", "middle", ink)


def _ticks_below(drawing: Drawing, scale: Scale, left: float, wide: float, base: float) -> None:
    letters = max(2, int(wide / max(1, len(scale.ticks)) / LETTER))
    for place, text in scale.ticks:
        x = left + wide * place
        anchor = "start" if x < 20 else "end" if x > drawing.width - 20 else "middle"
        drawing.text(x, base, short_text(text, letters), "soft", anchor)
    drawing.text(left + wide / 2, base + 16, scale.name, "strong", "middle")


def _height(legend: Legend, width: float = WIDTH) -> float:
    return 12 + ROW * -(-len(legend) // _columns(width)) if legend else 0.0


def _columns(width: float) -> int:
    return int(width // 180)


def _draw_legend(drawing: Drawing, legend: Legend, top: float, left: float = EDGE) -> None:
    columns = _columns(drawing.width)
    for n, (name, look) in enumerate(legend):
        x, y = left + n % columns * (drawing.width - left + EDGE) / columns, top + ROW * (n // columns)
        drawing.box(x, y - 9, 11, 11, look, radius=2)
        drawing.text(x + 17, y, short_text(name, 26))


# Flows

FLOW_LEFT, BAR, GAP, FLOW_TOP = 78.0, 9.0, 12.0, 22.0


def flow_chart(
    sites: Sequence[str],
    percent: Sequence[Sequence[float]],
    notes: Mapping[str, str] | None = None,
    *,
    width: float = WIDTH,
) -> Drawing:
    """Draw a band from every site to each site that answers its items; a site is as high as all of its items.

    percent  a row for every site: which share of its items each site answers
    notes    what is written under the names of some sites, instead of how much they keep
    """
    scale = max(22.0, min(62.0, 320.0 / len(sites))) / 100
    taken = [sum(row[j] for row in percent) for j in range(len(sites))]
    drawing = Drawing(scale * 100 * len(sites) + GAP * (len(sites) - 1) + 30, "Traffic between sites", width=width)
    left, letters = FLOW_LEFT * width / WIDTH, int(13 * width / WIDTH)
    drawing.text(left, 12, "arrive at", "soft", "end")
    drawing.text(width - left, 12, "answered by", "soft")
    starts, ends = _tops([100.0] * len(sites), scale), _tops(taken, scale)
    looks = looks_of_arms(sites, sites)
    used_left, used_right = [0.0] * len(sites), [0.0] * len(sites)
    for i, row in enumerate(percent):
        for j, share in enumerate(row):
            if share > 0:
                y1, y2 = starts[i] + used_left[i] * scale, ends[j] + used_right[j] * scale
                band = _band(y1, y2, share * scale, (left + BAR + 6, width - left - BAR - 6))
                drawing.area(band, looks[j]._replace(opacity=0.62 if i == j else 0.34))
                if share * scale >= 10.5:
                    drawing.text(left + BAR + 12, y1 + share * scale / 2 + 4, f"{share:.0f}%", size=10)
                used_left[i] += share
                used_right[j] += share
    for n, site in enumerate(sites):
        drawing.box(left + 6, starts[n], BAR, 100 * scale, looks[n], radius=2)
        drawing.box(width - left - BAR - 6, ends[n], BAR, max(taken[n] * scale, 1.0), looks[n], radius=2)
        middle, has_note = starts[n] + 50 * scale, scale > 0.24
        name, note = short_text(site, letters), (notes or {}).get(site, f"keeps {percent[n][n]:.0f}%")
        drawing.text(left, middle + (0 if has_note else 4), name, "strong", "end")
        drawing.text(left, middle + 13, note if has_note else "", "soft", "end", size=10)
        drawing.text(width - left, ends[n] + taken[n] * scale / 2 + 4, name, "strong")
    return drawing


def _tops(sizes: Sequence[float], scale: float) -> list[float]:
    return [FLOW_TOP + sum(sizes[:n]) * scale + n * GAP for n in range(len(sizes))]


def _band(y1: float, y2: float, height: float, across: Span) -> str:
    (x1, x2), middle = across, sum(across) / 2
    there = f"M{x1:.1f} {y1:.2f}C{middle:.1f} {y1:.2f} {middle:.1f} {y2:.2f} {x2:.1f} {y2:.2f}"
    low1, low2 = y1 + height, y2 + height
    return f"{there}V{low2:.2f}C{middle:.1f} {low2:.2f} {middle:.1f} {low1:.2f} {x1:.1f} {low1:.2f}Z"


BAR_WIDTH: Final = 280.0


def bar_chart(value: float, half: float, ends: Span, ink: str) -> Drawing:
    """Draw a bar from the left end to a value, and the interval of that; an arrow if the value is further left."""
    drawing = Drawing(16, f"{value:.3f}", width=BAR_WIDTH)
    drawing.line(0.5, 0, 0.5, 16, "axis")
    drawing.line(BAR_WIDTH - 0.5, 0, BAR_WIDTH - 0.5, 16, "axis")
    if value < ends[0]:
        drawing.area("M8 4L1 8L8 12Z", Look("var(--soft)", 0.7))
        return drawing
    drawing.box(0, 4, _along(value, ends), 8, Look(ink, 0.45))
    if half:
        drawing.curve([(_along(value - half, ends), 8), (_along(value + half, ends), 8)], ink, 1.4)
    drawing.dot(_along(value, ends), 8, ink, 2.6)
    return drawing


def bar_axis(ends: Span, names: Sequence[tuple[float, str]]) -> Drawing:
    """Draw the axis of bars: the numbers of both ends and round ones between them, and names above some places.

    Names that would overlap are above one another.
    """
    spans, rows = [_span(name, value, ends) for value, name in names], list[int]()
    for n, (start, end) in enumerate(spans):
        below = {row for row, (a, b) in zip(rows, spans[:n], strict=True) if start < b and a < end}
        rows.append(min({*range(n + 1)} - below))
    above = 12.0 * max(rows, default=0)
    drawing = Drawing(28 + above, "from {:.3f} to {:.3f}".format(*ends), width=BAR_WIDTH)
    between = [value for value in round_numbers(*ends, 5) if 40 < _along(value, ends) < BAR_WIDTH - 40]
    for value in (ends[0], *between, ends[1]):
        drawing.text(
            _along(value, ends), 25 + above, f"{value:.3f}".rstrip("0").rstrip("."), "soft", _anchor(value, ends)
        )
    for (value, name), row in zip(names, rows, strict=True):
        drawing.text(_along(value, ends), 10 + above - 12 * row, name, "", _anchor(value, ends))
    return drawing


def _span(name: str, value: float, ends: Span) -> Span:
    """Return from where to where a name above the axis of bars goes, with a gap at both ends."""
    x, wide = _along(value, ends), width_of(name)
    start = {"start": x, "middle": x - wide / 2, "end": x - wide}[_anchor(value, ends)]
    return start - 4, start + wide + 4


def _along(value: float, ends: Span) -> float:
    return min(1.0, max(0.0, (value - ends[0]) / (ends[1] - ends[0] or 1))) * BAR_WIDTH


def _anchor(value: float, ends: Span) -> str:
    x = _along(value, ends)
    return "start" if x < 30 else "end" if x > BAR_WIDTH - 50 else "middle"
