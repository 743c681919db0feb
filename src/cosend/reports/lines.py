"""Figures of lines: error and reward over time, and what a change of the stream did. A line has its name at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from cosend.reports.svg import Drawing, spread, width_of
from cosend.reports.text import round_numbers, short_text

Result: TypeAlias = Mapping[str, Any]  # the result of a run; write_report says what is in it

INKS: Final = ("var(--c4)", "var(--c3)", "var(--c6)", "var(--c5)")
LEFT: Final = 32.0
MOST_ROOM: Final = 140.0  # for the names of lines
TOP: Final = 38.0
BOTTOM: Final = 38.0
HEIGHT: Final = 250.0
OURS: Final = 2.6  # width of the line of the run's policy
ROW: Final = 14.0  # of a name


class Line(NamedTuple):
    """A policy as a line."""

    policy: str
    ink: str
    width: float
    dashed: bool

    @property
    def is_ours(self) -> bool:
        """Whether it is the policy of the run."""
        return self.width == OURS


def few(result: Result) -> list[Line]:
    """Return the policies worth a line: that of the run, the best other, the paper's, never sending, and the oracle."""
    rows = {row["policy"]: row for row in result["overall"]}
    playing = [row for row in rows.values() if not row["hindsight"] and row["policy"] != result["policy"]]
    best = [max(playing, key=lambda row: row["mean_reward"])["policy"]] if playing else []
    names = dict.fromkeys([*best, "CoS", "never send", "best fixed" if "never send" not in rows else ""])
    lines = [Line(result["policy"], "var(--text)", OURS, False)] if result["policy"] in rows else []
    drawn = [name for name in names if name in rows and name != result["policy"]]
    lines += [Line(name, INKS[n], 1.7, rows[name]["hindsight"]) for n, name in enumerate(drawn)]
    return [*lines, *([Line("oracle per cell", "var(--soft)", 1.4, True)] if "oracle per cell" in rows else [])]


def every(result: Result) -> list[Line]:
    """Return a line for every policy, that of the run in front."""
    known = {line.policy: line for line in few(result)}
    others = [row["policy"] for row in result["overall"] if row["policy"] not in known]
    return [*known.values(), *(Line(name, "var(--c7)", 1.0, False) for name in others)]


class _Plane:
    """From numbers to places of the drawing."""

    def __init__(self, drawing: Drawing, xs: tuple[float, float], ys: tuple[float, float], room: float) -> None:
        self.drawing, self.xs, self.ys = drawing, xs, ys
        self.bottom, self.right = drawing.height - BOTTOM, drawing.width - room

    def x(self, value: float) -> float:
        low, high = self.xs
        return LEFT + (value - low) / (high - low or 1) * (self.right - LEFT)

    def y(self, value: float) -> float:
        low, high = self.ys
        return self.bottom - (value - low) / (high - low or 1) * (self.bottom - TOP)

    def grid(self, title: str, text: Callable[[float], str]) -> None:
        """Draw the lines of round values, with a title above them."""
        for value in round_numbers(*self.ys):
            self.drawing.line(LEFT, self.y(value), self.right, self.y(value), "grid")
            self.drawing.text(LEFT - 5, self.y(value) + 4, text(value), anchor="end", kind="soft")
        self.drawing.text(4, 13, title, kind="strong")

    def names(self, ends: Sequence[tuple[Line, float]], names: Mapping[Line, str]) -> None:
        """Write the names of lines beside their ends, as near as they can stand without covering each other."""
        places = spread([self.y(value) for _, value in ends], ROW, TOP, self.bottom)
        for (line, value), place in zip(ends, places, strict=True):
            self.drawing.line(self.right + 2, self.y(value), self.right + 8, place, "grid")
            kind = "strong" if line.is_ours else ""
            self.drawing.text(self.right + 10, place + 4, names[line], ink=line.ink, kind=kind)


def over_time(result: Result, key: str, title: str, lines: Sequence[Line]) -> Drawing:
    """Draw error or reward around every item, with the moment at which the stream changes."""
    curves = {line: result["curves"][line.policy] for line in lines if line.policy in result["curves"]}
    drawing = Drawing(HEIGHT if len(lines) < 8 else ROW * len(lines) + 80, f"{title} over time")
    values = [value for curve in curves.values() for value in curve[key]]
    last = max(2 * curve["item"][-1] - _edge(curve["item"]) for curve in curves.values())
    names = {line: short_text(line.policy) for line in curves}
    plane = _Plane(drawing, (0.0, last), _padded(values, floor=0.0 if key == "error" else None), _room(names))
    plane.grid(title, short_text)
    for value in round_numbers(0.0, last, 5):
        drawing.text(plane.x(value), plane.bottom + 15, f"{value:,.0f}", anchor="middle", kind="soft")
    drawing.text(
        (LEFT + plane.right) / 2, drawing.height - 5, "items that a site has seen", anchor="middle", kind="soft"
    )
    _turn(plane, result)
    for line, curve in reversed(curves.items()):  # the policy of the run is drawn last, above all others
        points = [(plane.x(x), plane.y(y)) for x, y in zip(curve["item"], curve[key], strict=True)]
        drawing.curve(points, line.ink, width=line.width, dashed=line.dashed)
    plane.names([(line, curve[key][-1]) for line, curve in curves.items()], names)
    return drawing


def _room(names: Mapping[Line, str]) -> float:
    """Return how much room the names of lines need beside them."""
    return min(MOST_ROOM, 12 + max(width_of(name, bold=line.is_ours) for line, name in names.items()))


def _edge(centres: Sequence[float]) -> float:
    """Return where the last bin begins."""
    return (centres[-1] + centres[-2]) / 2 if len(centres) > 1 else 0.0


def _padded(values: Sequence[float], floor: float | None) -> tuple[float, float]:
    """Return the ends of an axis with a little room beyond the values."""
    low, high = min(values), max(values)
    room = (high - low) * 0.06 or 0.05
    return (low - room if floor is None else floor), high + room


def _turn(plane: _Plane, result: Result) -> None:
    if result["change"]:
        x = plane.x(result["change"]["item"])
        plane.drawing.line(x, TOP - 4, x, plane.bottom, "turn")
        plane.drawing.text(x, TOP - 8, "the mix changes", anchor="middle", kind="soft", size=10)


def before_and_after(result: Result, lines: Sequence[Line]) -> Drawing:
    """Draw the reward before, just after and long after a change, a line for each policy."""
    change = result["change"]
    drawing = Drawing(220.0, "Reward before, just after and long after the change")
    shown = {line: change["reward"][line.policy] for line in lines if line.policy in change["reward"]}
    everything = [value for each in shown.values() for value in each]
    names = {line: f"{values[-1]:.2f} {short_text(line.policy, 15)}" for line, values in shown.items()}
    plane = _Plane(drawing, (-0.3, 2.1), _padded(everything, None), _room(names))
    plane.grid("reward per item", short_text)
    for n, words in enumerate(("before", "just after", "at the end")):
        drawing.text(plane.x(n), plane.bottom + 16, words, anchor="middle", kind="soft")
        drawing.line(plane.x(n), TOP, plane.x(n), plane.bottom, "grid")
    for line, values in reversed(shown.items()):
        points = [(plane.x(x), plane.y(y)) for x, y in enumerate(values)]
        drawing.curve(points, line.ink, width=line.width, dashed=line.dashed)
        for x, y in points:
            drawing.dot(x, y, line.ink, 3.4 if line.is_ours else 2.4)
    plane.names([(line, values[-1]) for line, values in shown.items()], names)
    return drawing


def range_of(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a reward with its interval as a dot on a line that is the same for all rows."""
    ends = [row["mean_reward"] + sign * (row["reward_interval"] or 0) for row in rows for sign in (-1, 1)]
    low, high = min(ends), max(ends)

    def x(value: float) -> float:
        return 2.0 + 196.0 * float(value - low) / float(high - low or 1)

    drawing = Drawing(16, f"reward {row['mean_reward']:.3f}", width=200)
    drawing.line(0, 8, 200, 8, "grid")
    half, middle = row["reward_interval"] or 0.0, row["mean_reward"]
    ink = "var(--soft)" if row["hindsight"] else "var(--c0)"
    drawing.curve([(x(middle - half), 8), (x(middle + half), 8)], ink, width=5, faint=True)
    drawing.dot(x(middle), 8, ink, 2.8)
    return drawing.inline()
