"""Charts over time that can be read value by value: lines, marks for events, and texts for a pointer.

A chart is a `Drawing` and its `Readings`: the places of its points from left to right, what is said at each, and the
marks. A page can let a pointer or the arrow keys walk along them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from cosend.charts.figures import WIDTH, Drawing, Look, Span, width_of
from cosend.text import round_numbers

HEIGHT: Final = 156.0
LEFT, RIGHT, TOP, BELOW = 38.0, 10.0, 30.0, 20.0
MARK_TOP: Final = 22.0
TOGETHER: Final = 7.0  # marks that are no further apart are one
SMALL_LETTER: Final = 5.6  # about the width of a letter of a mark
OUTLIERS: Final = 0.03  # of the values at either end may lie outside
FEWEST_CLIPPED: Final = 20  # values, for an axis to leave any outside


class Curve(NamedTuple):
    """A named line over time: its points as (seconds, value), and what is said at each."""

    name: str
    points: Sequence[tuple[float, float]]
    said: Sequence[str]
    ink: str = "var(--text)"
    width: float = 1.8
    dashed: bool = False


class Event(NamedTuple):
    """Something that happened: when, in words, and how it looks: bad, good, minor or neither."""

    at_s: float
    words: str
    look: str = ""


class Readings(NamedTuple):
    """The texts for a pointer: by place from left to right, when it was, and what each curve says there."""

    x: list[float]
    at_s: list[float]
    lines: list[tuple[str, list[str]]]
    marks: list[tuple[float, str]]

    def plain(self, moment: Callable[[float], float]) -> dict[str, Any]:
        """Return it as plain data, with moments in the units of a function."""
        return {
            "x": self.x,
            "at": [moment(at) for at in self.at_s],
            "lines": self.lines,
            "marks": self.marks,
            "left": LEFT,
            "right": WIDTH - RIGHT,
        }


def clipped(values: Sequence[float], least_room: float, zero: bool) -> Span:
    """Return where an axis begins and ends: of very many values, a few may lie outside."""
    some = sorted(values)
    cut = int(OUTLIERS * len(some)) if len(some) >= FEWEST_CLIPPED else 0
    low, high = some[cut], some[-1 - cut]
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    room = 0.08 * (high - low)
    high = max(high + room, low + least_room)
    return (low if zero and low == 0.0 else low - room), high


def time_chart(
    words: str,
    curves: Sequence[Curve],
    span: Span,
    ticks: Sequence[tuple[float, str]],
    in_words: Callable[[float], str],
    *,
    events: Sequence[Event] = (),
    zero: bool = True,
    least_room: float = 0.0,
    fill: str = "",
    values: Sequence[float] | None = None,
    is_labelled: bool = False,
) -> tuple[Drawing, Readings]:
    """Draw curves over a span of time; there must be a point.

    ticks        what is written at which second
    in_words     what is written at a value of the vertical axis
    zero         whether that axis contains 0
    least_room   how much it covers at least
    fill         the colour between 0 and the first curve
    values       where something is written on that axis, instead of at round values
    is_labelled  whether the events are named, where there is room
    """
    drawing, bottom = Drawing(HEIGHT, words), HEIGHT - BELOW
    low, high = clipped([value for curve in curves for _, value in curve.points], least_room, zero)

    def x(at_s: float) -> float:
        share = (at_s - span[0]) / (span[1] - span[0] or 1.0)
        return LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return bottom - (min(high, max(low, value)) - low) / (high - low or 1.0) * (bottom - TOP)

    for value in round_numbers(low, high, 6) if values is None else values:
        if low <= value <= high:
            drawing.line(LEFT, y(value), WIDTH - RIGHT, y(value), "axis" if zero and not value else "grid")
            drawing.text(LEFT - 5, y(value) + 4, in_words(value), "soft", "end")
    for at_s, text in ticks:
        anchor = "start" if x(at_s) < LEFT + 8 else "end" if x(at_s) > WIDTH - 30 else "middle"
        drawing.text(x(at_s), bottom + 15, text, "soft", anchor)
    marks = _draw_events(drawing, [(x(each.at_s), each) for each in events], bottom, is_labelled)
    if fill and curves[0].points:
        points = curves[0].points
        path = "L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in points)
        base = y(0.0)
        drawing.area(f"M{x(points[0][0]):.1f} {base:.1f}L{path}L{x(points[-1][0]):.1f} {base:.1f}Z", Look(fill, 0.16))
    for curve in reversed(curves):
        if curve.points:
            drawing.curve([(x(at), y(value)) for at, value in curve.points], curve.ink, curve.width, curve.dashed)
    if not is_labelled or len(curves) > 1:
        _draw_names(drawing, curves)
    return drawing, _readings(curves, x, marks)


def _draw_names(drawing: Drawing, curves: Sequence[Curve]) -> None:
    left = WIDTH - RIGHT - sum(width_of(curve.name) + 34 for curve in curves) + 14
    for curve in curves:
        drawing.curve([(left, 7), (left + 16, 7)], curve.ink, curve.width, curve.dashed)
        drawing.text(left + 21, 11, curve.name, "soft")
        left += width_of(curve.name) + 34


def _draw_events(
    drawing: Drawing, events: Sequence[tuple[float, Event]], bottom: float, is_labelled: bool
) -> list[tuple[float, str]]:
    """Draw marks; those that are close together are one, which looks as the worst of them. Minor ones are ticks."""
    minor = _grouped([each for each in events if each[1].look == "minor"])
    groups = _grouped([each for each in events if each[1].look != "minor"])
    for at, some in minor:
        drawing.tick(at, bottom, _together(some))
    free = WIDTH
    for at, some in reversed(groups):
        looks = [event.look for event in some]
        look = next(kind for kind in ("bad", "", "good") if kind in looks)
        drawing.mark(at, MARK_TOP, bottom, look, _together(some))
        loudest = next(event.words for event in some if event.look == look)
        words = loudest if len(some) == 1 else f"{loudest} +{len(some) - 1}"
        half = SMALL_LETTER * len(words) / 2
        middle = min(max(at, half), free - half)
        if is_labelled and middle >= half and middle + half > at - 2:
            drawing.text(middle, MARK_TOP - 8, words, f"event {look}".strip(), "middle", size=9.5)
            free = middle - half - 8
    return [(round(at, 1), _together(some)) for at, some in sorted([*minor, *groups])]


def _grouped(events: Sequence[tuple[float, Event]]) -> list[tuple[float, list[Event]]]:
    groups = list[tuple[float, list[Event]]]()
    for at, event in sorted(events):
        if groups and at - groups[-1][0] < TOGETHER:
            groups[-1][1].append(event)
        else:
            groups.append((at, [event]))
    return groups


def _together(events: Sequence[Event]) -> str:
    return "\n".join(event.words for event in events)


def _readings(curves: Sequence[Curve], x: Callable[[float], float], marks: list[tuple[float, str]]) -> Readings:
    moments = sorted({at for curve in curves for at, _ in curve.points})
    said = [dict(zip((at for at, _ in curve.points), curve.said, strict=True)) for curve in curves]
    lines = [(curve.name, [known.get(at, "") for at in moments]) for curve, known in zip(curves, said, strict=True)]
    return Readings([round(x(at), 1) for at in moments], moments, lines, marks)
