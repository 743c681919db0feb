"""The charts of a time range: points from the stretches of a site's history, and marks in words.

The points are means over a sliding part of the range, so that a line shows how a site does and not luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cosend.charts.time_chart import Event
from cosend.runtime.label_history import History, Mark, Stretch
from cosend.text import short_text

RANGES: Final[dict[str, float | None]] = {"5m": 300.0, "1h": 3_600.0, "6h": 21_600.0, "24h": 86_400.0, "all": None}
NAMES: Final = {"5m": "5 min", "1h": "1 h", "6h": "6 h", "24h": "24 h", "all": "all"}
DEFAULT: Final = "all"
MOST_POINTS: Final = 120
SHORTEST_S: Final = 3.0  # of a stretch that has a point
SMOOTH: Final = 15  # a mean covers this part of the range
FEWEST: Final = 10  # labels of a mean
LONG_S: Final = 20.0
PARTLY: Final = 0.4  # the newest stretch, if it is a long one, has a rate when so much of it is over
RECENT_S: Final = 60.0
MOST_TICKS: Final = 5
SIXTY: Final = (1, 2, 5, 10, 20, 30)
UNITS: Final = ((1.0, "s", SIXTY), (60.0, "min", SIXTY), (3_600.0, "h", (1, 2, 3, 6, 12)))
DAYS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000)
STEPS: Final = [(size * each, size, unit) for size, unit, many in (*UNITS, (86_400.0, "d", DAYS)) for each in many]
LONGEST_NAME: Final = 24
LONGEST_VALUE: Final = 40
WORDS: Final = {
    "offline": ("{about} offline", "bad"),
    "back": ("{about} back", "good"),
    "backing off": ("{about} backing off", "bad"),
    "works": ("{about} works again", "good"),
    "cost": ("cost of {about}: {before} \N{RIGHTWARDS ARROW} {after}", ""),
    "paused": ("{about} paused", ""),
    "resumed": ("{about} resumed", ""),
    "mode": ("shadow mode: {about} answers", ""),
    "live": ("mode: live", ""),
    "budget": ("budget: {before} \N{RIGHTWARDS ARROW} {after}", ""),
    "fitted": ("{about} fitted to {after} labels", "minor"),
    "rebuilt": ("rebuilt from the event log", "bad"),
    "joined": ("{about} joined", ""),
    "left": ("{about} left", ""),
    "started": ("started", "minor"),
}


class Point(NamedTuple):
    """Counts up to a moment; None where they are not known."""

    at_s: float
    items: float | None  # per second
    sent: float | None  # per second
    reward: float | None
    error: float | None  # what the mean gain lacks of 1
    advantage: float | None  # of the reward over the best local model
    local_error: float | None
    median_s: float | None  # time to answer a request
    slow_s: float | None  # 99% are answered in this time


class Series(NamedTuple):
    """A time range."""

    span: tuple[float, float]  # in seconds since the process started
    points: Sequence[Point]
    events: Sequence[Event]
    total: float | None  # the advantage of all labels of the range together


class Recent(NamedTuple):
    """The last minute."""

    per_s: float | None = None
    items: int = 0
    sent: int = 0
    explored: int = 0
    median_s: float | None = None
    slow_s: float | None = None


def step_of(history: History, range_s: float | None) -> float:
    """Return how long the points of a range lie apart."""
    if range_s is not None:
        return float(history.last(range_s).each_s)
    each = history.each_s
    return each * max(SHORTEST_S // each, -(-len(history.stretches) // MOST_POINTS), 1.0)


def series_of(history: History, range_s: float | None, local: str | None) -> Series:
    """Return the points of the last seconds, or of all of the time; `local` is the best local model, if it is known."""
    up_s, groups = history.up_s, _groups(history, range_s)
    start_s = 0.0 if range_s is None else max(0.0, up_s - range_s)
    each_s = step_of(history, range_s)
    window = max(1, round(((up_s if range_s is None else range_s) / each_s) / SMOOTH))
    points, total, is_compared = list[Point](), 0.0, False
    for place, (number, _) in enumerate(groups):
        end_s = min(up_s, (number + 1) * each_s)
        if end_s <= max(start_s, number * each_s):
            continue
        points.append(_point(groups, place, window, each_s, end_s, local))
        gained = _advantage(groups[place][1], local)
        is_compared |= gained is not None
        total += (gained or 0.0) * groups[place][1].labels
    marks = [Mark(0.0, "started"), *history.fits, *history.marks]
    events = [event_of(mark) for mark in marks if mark.at_s >= start_s]
    return Series((start_s, up_s), points, events, total if is_compared else None)


def _groups(history: History, range_s: float | None) -> list[tuple[int, Stretch]]:
    """Return stretches with their numbers, as long as points lie apart, up to now."""
    if range_s is not None:
        tier = history.last(range_s)
        found = dict(enumerate(tier.stretches, tier.first))
        each_s = float(tier.each_s)
    else:
        each_s, found = step_of(history, None), {}
        together = round(each_s / history.each_s)
        for number, stretch in enumerate(history.stretches):
            found.setdefault(number // together, Stretch()).merge(stretch)
    last = int(history.up_s / each_s)
    oldest = 0 if range_s is None else max(0, last - int(1.2 * range_s / each_s) - 1)
    return [(number, found.get(number, Stretch())) for number in range(oldest, last + 1)]


def _point(
    groups: Sequence[tuple[int, Stretch]], place: int, window: int, each_s: float, end_s: float, local: str | None
) -> Point:
    number, here = groups[place]
    some = _latest(groups, place, window)
    lasted = end_s - number * each_s
    has_rate = lasted >= each_s * (1.0 if each_s < LONG_S else PARTLY)
    error = 1.0 - some.gain / some.labels if some.labels else None
    reward = (some.gain - some.cost) / some.labels if some.labels else None
    known, count = some.local.get(local or "", (0.0, 0))
    return Point(
        end_s,
        here.items / lasted if has_rate else None,
        here.sent / lasted if has_rate else None,
        reward,
        error,
        _advantage(some, local),
        1.0 - known / count if count else None,
        here.times.quantile(0.5) if here.times is not None else None,
        here.times.quantile(0.99) if here.times is not None else None,
    )


def _latest(groups: Sequence[tuple[int, Stretch]], place: int, window: int) -> Stretch:
    """Return the labels up to a place: in a window, and in the time before it as long as these are few."""
    some = Stretch()
    for earlier in range(place, -1, -1):
        if place - earlier >= window and some.labels >= FEWEST:
            break
        if (each := groups[earlier][1]).labels:
            some.add(each.labels, each.gain, each.cost, each.local)
    return some if some.labels >= FEWEST else Stretch()  # the mean of fewer would be luck


def _advantage(stretch: Stretch, local: str | None) -> float | None:
    known, count = stretch.local.get(local or "", (0.0, 0))
    if not count or not stretch.labels:
        return None
    return (stretch.gain - stretch.cost) / stretch.labels - known / count


def event_of(mark: Mark) -> Event:
    """Return in words what happened."""
    words, look = WORDS["live" if mark.kind == "mode" and not mark.about else mark.kind]
    about, (before, after) = short_text(mark.about, LONGEST_NAME), (mark.before, mark.after)
    before, after = short_text(before, LONGEST_VALUE), short_text(after, LONGEST_VALUE)
    return Event(mark.at_s, words.format(about=about, before=before, after=after), look)


def recent_of(history: History) -> Recent:
    """Return what happened in the last minute, or since the start."""
    tier, up_s, some = history.last(RECENT_S), history.up_s, Stretch()
    first = int(max(0.0, up_s - RECENT_S) / tier.each_s)
    for number, stretch in enumerate(tier.stretches, tier.first):
        if number >= first:
            some.merge(stretch)
    lasted = up_s - first * tier.each_s
    times = some.times
    return Recent(
        some.items / lasted if lasted >= 1.0 else None,
        some.items,
        some.sent,
        some.explored,
        None if times is None else times.quantile(0.5),
        None if times is None else times.quantile(0.99),
    )


def ticks_of(span: tuple[float, float]) -> list[tuple[float, str]]:
    """Return round times before now, each with its name."""
    start_s, now_s = span
    length = now_s - start_s
    step, size, unit = next((each for each in STEPS if length / each[0] <= MOST_TICKS), STEPS[-1])
    count = int(length / step + 1e-9)
    far = [n for n in range(count, 0, -1) if n * step < length * 1.001]
    named = [(now_s - n * step, f"\N{MINUS SIGN}{n * step / size:g} {unit}") for n in far]
    return [*named, (now_s, "now")]
