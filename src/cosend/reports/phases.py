"""What items were used for over time: to train a peer, to try an arm, or to use the best one known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cosend.reports.svg import WIDTH, Drawing
from cosend.reports.text import round_numbers

MOST_SITES: Final = 12
HIGH: Final = 54.0
ROOM: Final = 24.0
LEFT: Final = 8.0
TRAIN: Final = ("train", "to train a peer", "var(--c3)")
EXPLORE: Final = ("explore", "to try an arm", "var(--c1)")
LEAST: Final = 2.0  # percent of the items of a run: below, the picture would be empty


def says_something(view: Mapping[str, Any]) -> bool:
    """Tell whether a policy spent enough on learning, on purpose, for a picture of it."""
    shares = [a + b for each in view["phases"].values() for a, b in zip(each["train"], each["explore"], strict=True)]
    return bool(shares) and sum(shares) / len(shares) >= LEAST


def over_time(view: Mapping[str, Any]) -> Drawing:
    """Draw for every site the share of items that served to learn."""
    sites = {name: each for name, each in view["phases"].items() if each["item"]}
    sites = dict(list(sites.items())[:MOST_SITES])
    drawing = Drawing((HIGH + ROOM) * len(sites) + 54, "Share of items used for learning, over time")
    last = max(2 * each["item"][-1] - each["item"][-2] if len(each["item"]) > 1 else 1 for each in sites.values())
    for row, (site, each) in enumerate(sites.items()):
        top = row * (HIGH + ROOM) + ROOM
        drawing.text(LEFT, top - 7, site, kind="strong")
        drawing.box(LEFT, top, WIDTH - 2 * LEFT, HIGH, "var(--grid)", round_by=3)
        below = [0.0] * len(each["item"])
        for key, _, ink in (EXPLORE, TRAIN):
            above = [base + share for base, share in zip(below, each[key], strict=True)]
            drawing.area(_steps(below, above, top), ink, 0.9)
            below = above
        drawing.text(WIDTH - LEFT, top - 7, f"{sum(below) / len(below):.0f} % in all", anchor="end", kind="soft")
    base = (HIGH + ROOM) * len(sites) + 2
    for value in round_numbers(0, last, 5):
        drawing.text(
            LEFT + (WIDTH - 2 * LEFT) * min(1.0, value / last),
            base + 13,
            f"{value:,.0f}",
            kind="soft",
            anchor="start" if value == 0 else "middle",
        )
    drawing.text(WIDTH / 2, base + 29, "items that a site has seen", anchor="middle", kind="soft")
    used = [phase for phase in (EXPLORE, TRAIN) if any(max(each[phase[0]]) > 0 for each in sites.values())]
    for n, (_, words, ink) in enumerate(used):
        drawing.box(LEFT + n * 120, base + 40, 10, 10, ink, opacity=0.9, round_by=2)
        drawing.text(LEFT + n * 120 + 15, base + 49, words, kind="soft")
    return drawing


def _steps(below: list[float], above: list[float], top: float) -> str:
    """Return the area between two rows of shares as a path."""
    width = (WIDTH - 2 * LEFT) / len(above)

    def point(n: int, share: float) -> str:
        return f"{LEFT + n * width:.1f} {top + HIGH * (1 - share / 100):.1f}"

    there = [point(n + end, share) for n, share in enumerate(above) for end in (0, 1)]
    back = [point(n + end, share) for n, share in reversed(list(enumerate(below))) for end in (1, 0)]
    return "M" + "L".join([*there, *back]) + "Z"
