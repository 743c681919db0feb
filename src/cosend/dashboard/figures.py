"""The figures of the pages as SVG: over time, which arm wins where, and who sends to whom.

They are drawn as those of a report are, with the same colours: a site has one, and its own models are shades of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cosend.dashboard.flows import as_shares
from cosend.dashboard.summary import Means, Summary
from cosend.dashboard.where import Square, Winner, winner
from cosend.reports.flow import flow
from cosend.reports.svg import WIDTH, Drawing, colour, on_colour, spread, width_of
from cosend.reports.text import counted, round_numbers, short_number, short_text
from cosend.reports.use import SHADES

MOST_POINTS: Final = 48  # of a curve
LEFT, TOP, BOTTOM, HEIGHT = 34.0, 12.0, 24.0, 168.0
HATCH: Final = "url(#unsure)"  # a pattern that the page has
STRIP: Final = 44.0
BARS: Final = 34.0
MOST_VALUES: Final = 12  # of a category


class Arm(NamedTuple):
    """How an arm looks in figures."""

    name: str
    cost: float
    ink: str
    opacity: float
    on: str  # the colour of words on it
    is_peer: bool

    @property
    def words(self) -> str:
        """What it is called: a model, or where an item goes."""
        return f"\N{RIGHTWARDS ARROW} {self.name}" if self.is_peer else self.name


class Scale(NamedTuple):
    """An axis of the context in its own units."""

    name: str
    ticks: list[tuple[float, str]]  # places in [0, 1]
    values: list[str] | None = None  # of a category: its values, by their codes
    value_at: Callable[[float], str] = "{:.3g}".format  # what stands at a place, in the units of the axis


def arms_of(summary: Summary) -> list[Arm]:
    """Return how the arms look, in their order."""
    sites, found, shade = summary.sites, list[Arm](), 0
    home = sites.index(summary.site)
    for arm in summary.arms:
        if arm["kind"] == "peer":
            place = sites.index(arm["name"])
            found.append(Arm(arm["name"], arm["cost"], colour(place), 1.0, on_colour(place), True))
        else:
            opacity = SHADES[min(shade, len(SHADES) - 1)]
            on = on_colour(home) if opacity == 1.0 else "var(--text)"
            found.append(Arm(arm["name"], arm["cost"], colour(home), opacity, on, False))
            shade += 1
    return found


# Over time


def thinned(curve: Sequence[Means], most: int = MOST_POINTS) -> list[Means]:
    """Return at most so many means: neighbours become one, three at least."""
    step = max(3, -(-len(curve) // most))
    return [_mean(curve[start : start + step]) for start in range(0, len(curve), step)]


def _mean(some: Sequence[Means]) -> Means:
    local = [each.local for each in some if each.local is not None]
    middle = [sum(values) / len(some) for values in zip(*(each[1:4] for each in some), strict=True)]
    return Means(some[-1].at_s, middle[0], middle[1], middle[2], sum(local) / len(local) if local else None)


def over_time(curve: Sequence[Means], now_s: float, what: str) -> Drawing:
    """Draw reward or error since the start, beside always using the best local classifier."""
    points = thinned(curve)
    drawing = Drawing(HEIGHT, f"{what} over time")
    ours = [(each.at_s, each.reward if what == "reward" else each.error) for each in points]
    beside = [
        (each.at_s, each.local if what == "reward" else 1.0 - each.local) for each in points if each.local is not None
    ]
    if len(ours) < 2:
        drawing.text(WIDTH / 2, HEIGHT / 2, "waiting for labels", anchor="middle", kind="soft")
        return drawing
    plane = _Plane(drawing, now_s, [value for _, value in (*ours, *beside)])
    plane.grid()
    lines = [("always local", beside, "var(--soft)", 1.5, True)] if len(beside) > 1 else []
    lines.append((what, ours, "var(--c0)", 2.4, False))
    for _, line, ink, width, dashed in lines:
        drawing.curve([(plane.x(at), plane.y(value)) for at, value in line], ink, width=width, dashed=dashed)
    places = spread([plane.y(line[-1][1]) for _, line, *_ in lines], 14, TOP + 4, HEIGHT - BOTTOM)
    for (words, _, ink, width, _), place in zip(lines, places, strict=True):
        drawing.text(plane.right + 6, place + 4, words, ink=ink, kind="strong" if width > 2 else "")
    return drawing


class _Plane:
    """From seconds and shares to places."""

    def __init__(self, drawing: Drawing, now_s: float, values: Sequence[float]) -> None:
        self._drawing, self._now_s = drawing, max(now_s, 1.0)
        low, high = min(values), max(values)
        room = max(0.04, 0.15 * (high - low))
        self._low, self._high = max(min(0.0, low), low - room), min(1.0, high + room)
        self.right = WIDTH - 76.0

    def x(self, at_s: float) -> float:
        return LEFT + min(1.0, at_s / self._now_s) * (self.right - LEFT)

    def y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low or 1.0)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    def grid(self) -> None:
        for value in round_numbers(self._low, self._high, 5):
            self._drawing.line(LEFT, self.y(value), self.right, self.y(value), "grid")
            self._drawing.text(LEFT - 5, self.y(value) + 4, short_text(value), anchor="end", kind="soft")
        for place, words, anchor in ((LEFT, f"{duration(self._now_s)} ago", "start"), (self.right, "now", "end")):
            self._drawing.text(place, HEIGHT - 6, words, anchor=anchor, kind="soft")


def duration(seconds: float) -> str:
    """Return a time as people say it: 0.4 s, 12 s, 3 min, 2.5 h, 3 days."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 1.95 * size:
            number = f"{seconds / size:.1f}".removesuffix(".0") if seconds < 10 * size else f"{seconds / size:.0f}"
            return f"{number} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


# Who sends to whom


def network(summary: Summary) -> Drawing | None:
    """Draw the flows of late; None where there is nobody to send to."""
    sites = summary.sites
    if len(sites) < 2:
        return None
    gone = {arm["name"] for arm in summary.arms if arm["kind"] == "peer" and not arm["present"]}
    idle = {each.site for each in summary.flows if not each.items} | (set(sites) - {f.site for f in summary.flows})
    notes = dict.fromkeys(idle, "nothing arrives") | dict.fromkeys(gone, "gone")
    return flow(as_shares(summary.flows, sites), notes)


# Which arm wins where


def where(squares: Sequence[Square], scales: Sequence[Scale], arms: Sequence[Arm]) -> Drawing:
    """Draw which arm wins where: a strip on one axis, a map on two."""
    placed = [_as_drawn(scale, squares, place) for place, scale in enumerate(scales)]
    costs = [arm.cost for arm in arms]
    found = [(square, best) for square in squares if (best := winner(square, costs)) is not None]
    return _strip(found, placed[0], arms) if len(scales) == 1 else _map(found, placed, arms)


class _Drawn(NamedTuple):
    """An axis as it is drawn: from values on it to places in [0, 1]; of a category, its commonest values."""

    scale: Scale
    codes: dict[float, int] | None
    ticks: list[tuple[float, str]]

    def span(self, low: float, high: float) -> tuple[float, float] | None:
        """Return where something lies, None if it is not drawn."""
        if self.codes is None:
            return low, high
        place = self.codes.get(low)
        return None if place is None else (place / len(self.codes), (place + 1) / len(self.codes))

    def words(self, low: float, high: float) -> str:
        """Return a place in words."""
        if self.scale.values is not None:
            return f"{self.scale.name} {self.scale.values[int(low)]}"
        return f"{self.scale.name} from {self.scale.value_at(low)} to {self.scale.value_at(high)}"


def _as_drawn(scale: Scale, squares: Sequence[Square], place: int) -> _Drawn:
    values = scale.values
    if values is None:
        return _Drawn(scale, None, scale.ticks)
    items: dict[float, int] = {}
    for square in squares:
        code = square.spans[place][0]
        if code < len(values):
            items[code] = items.get(code, 0) + square.items
    common = sorted(sorted(items, key=lambda code: -items[code])[:MOST_VALUES], key=lambda c: values[int(c)])
    codes = {code: n for n, code in enumerate(common)}
    ticks = [((n + 0.5) / len(codes), values[int(code)]) for code, n in codes.items()]
    return _Drawn(scale, codes, ticks)


def tip_of(square: Square, best: Winner, places: Sequence[str], arms: Sequence[Arm]) -> str:
    """Return what a pointer over a square shows."""
    lines = [", ".join(places), counted(square.items, "item")]
    order = sorted(range(len(arms)), key=lambda arm: -(_net(square, arm, arms) or -9.0))
    for arm in order:
        reward = _net(square, arm, arms)
        if reward is not None:
            labels = counted(round(square.labels[arm]), "label")
            more = f" \N{PLUS-MINUS SIGN} {best.half:.2f}" if arm == best.arm else ""
            lines.append(f"{arms[arm].words}: {reward:.2f}{more} ({labels})")
    return "\n".join([*lines, "sure" if best.is_sure else "not sure yet"])


def _net(square: Square, arm: int, arms: Sequence[Arm]) -> float | None:
    return square.mean(arm) - arms[arm].cost if square.labels[arm] else None


def _fill(drawing: Drawing, place: Sequence[float], arm: Arm, best: Winner, tip: str) -> None:
    """Fill a square with the colour of its winner; one that is not sure is hatched."""
    x, y, width, height = place
    drawing.box(x, y, width, height, "var(--card)")
    drawing.box(x, y, width, height, arm.ink, opacity=arm.opacity, tip=tip)
    if not best.is_sure:
        drawing.box(x, y, width, height, HATCH, tip=tip)


def _strip(found: Sequence[tuple[Square, Winner]], axis: _Drawn, arms: Sequence[Arm]) -> Drawing:
    left, wide = 8.0, WIDTH - 16.0
    legend = sorted({best.arm for _, best in found})
    drawing = Drawing(STRIP + BARS + 62 + 16 * -(-len(legend) // 2), f"Which arm wins at which {axis.scale.name}")
    drawing.box(left, 0, wide, STRIP, "var(--grid)", round_by=3)
    densest = max((square.items / square.size for square, _ in found), default=1.0)
    for square, best in found:
        span = axis.span(*square.spans[0])
        if span is None:
            continue
        x, width, arm = left + wide * span[0], wide * (span[1] - span[0]), arms[best.arm]
        tip = tip_of(square, best, [axis.words(*square.spans[0])], arms)
        _fill(drawing, (x + 0.4, 0, width - 0.8, STRIP), arm, best, tip)
        if width > width_of(arm.words, bold=True):
            ink = arm.on if best.is_sure else "var(--text)"
            drawing.text(x + width / 2, STRIP / 2 + 4, arm.words, anchor="middle", kind="strong", ink=ink)
        height = BARS * square.items / square.size / densest
        drawing.box(x + 0.4, STRIP + 4, width - 0.8, max(0.6, height), "var(--soft)", opacity=0.45, tip=tip)
    base = STRIP + BARS + 18
    _ticks_below(drawing, axis, left, wide, base)
    _legend(drawing, arms, legend, base + 36)
    return drawing


def _map(found: Sequence[tuple[Square, Winner]], axes: Sequence[_Drawn], arms: Sequence[Arm]) -> Drawing:
    left, top, wide, high = 66.0, 18.0, WIDTH - 74.0, 230.0
    legend = sorted({best.arm for _, best in found})
    across, up = axes
    words = f"Which arm wins at which {across.scale.name} and {up.scale.name}"
    drawing = Drawing(top + high + 54 + 16 * -(-len(legend) // 2), words)
    drawing.box(left, top, wide, high, "var(--grid)", round_by=3)
    for square, best in found:
        x, y = across.span(*square.spans[0]), up.span(*square.spans[1])
        if x is None or y is None:
            continue
        place = (left + wide * x[0] + 0.3, top + high * (1 - y[1]) + 0.3)
        size = (wide * (x[1] - x[0]) - 0.6, high * (y[1] - y[0]) - 0.6)
        tip = tip_of(square, best, [across.words(*square.spans[0]), up.words(*square.spans[1])], arms)
        _fill(drawing, (*place, *size), arms[best.arm], best, tip)
    for at, text in up.ticks:
        drawing.text(left - 5, top + high * (1 - at) + 4, short_text(text, 10), anchor="end", kind="soft")
    drawing.text(left - 5, 9, short_text(up.scale.name, 10), anchor="end", kind="strong")
    _ticks_below(drawing, across, left, wide, top + high + 14)
    _legend(drawing, arms, legend, top + high + 50)
    return drawing


def _ticks_below(drawing: Drawing, axis: _Drawn, left: float, wide: float, base: float) -> None:
    letters = int(wide / max(1, len(axis.ticks)) / 6.2)
    for at, text in axis.ticks:
        x = left + wide * at
        anchor = "start" if x < 20 else "end" if x > WIDTH - 20 else "middle"
        drawing.text(x, base, short_text(text, max(2, letters)), kind="soft", anchor=anchor)
    drawing.text(left + wide / 2, base + 16, axis.scale.name, anchor="middle", kind="strong")


def _legend(drawing: Drawing, arms: Sequence[Arm], shown: Sequence[int], top: float) -> None:
    for n, number in enumerate(shown):
        arm, x, y = arms[number], 8 + (n % 2) * WIDTH / 2, top + 16 * (n // 2)
        drawing.box(x, y - 9, 11, 11, arm.ink, opacity=arm.opacity, round_by=2)
        drawing.text(x + 17, y, short_text(arm.words, 26))


def rate(number: float) -> str:
    """Return a number of items per second."""
    return short_number(number) if number >= 10 else f"{number:.1f}"


def shares(facts: Mapping[str, Any]) -> dict[str, int]:
    """Return the decisions of an arm by phase, those that it has none of left out."""
    return {phase: count for phase, count in facts["decisions"].items() if count}
