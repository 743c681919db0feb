"""The picture of the first page, docs/images/run-reward.svg: what three clinics earn while the patient mix changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from cosend.charts.figures import Drawing, spread

WIDTH, HEIGHT = 540.0, 292.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 366.0, 66.0, 248.0
LOW, HIGH = 0.5, 1.0
TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SINGLE, ORACLE = "best local model", "oracle"
LOOKS = {SINGLE: ("var(--c4)", 1.8, False), ORACLE: ("var(--soft)", 1.4, True)}
OURS = ("var(--c0)", 2.8, False)
LABELS = {SINGLE: "each clinic's best model", ORACLE: "oracle of the given models"}
STEP = 0.05  # what drops, drops by more; what stays, by less


def title(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the claim of the picture in two lines; refuses if the numbers do not bear it."""
    (ours, then, _), (single, dropped, _) = record["around"][record["policy"]], record["around"][SINGLE]
    if dropped > single - STEP or then < ours - STEP:
        raise SystemExit("the claim of docs/images/run-reward.svg does not hold any more: give it another title")
    return (
        "After the patient mix changes, a clinic's best model",
        f"drops to {dropped:.2f} per patient; cosend stays at {then:.2f}.",
    )


def drawn(record: Mapping[str, Any]) -> str:
    """Return the picture as SVG, of what docs/_tools/recorded.py keeps of the first run."""
    items, rewards, ours = record["items"], record["rewards"], record["policy"]
    last = 2 * record["change"]
    drawing = Drawing(HEIGHT, " ".join(title(record)), width=WIDTH)

    def x(item: float) -> float:
        return LEFT + item / last * (RIGHT - LEFT)

    def y(reward: float) -> float:
        return BOTTOM - (reward - LOW) / (HIGH - LOW) * (BOTTOM - TOP)

    for number, line in enumerate(title(record)):
        drawing.text(4, 17 + 18 * number, line, "strong", size=14)
    drawing.text(4, TOP - 14, "reward per patient; the axis starts at 0.5", "soft")
    for value in TICKS:
        drawing.line(LEFT, y(value), RIGHT, y(value), "grid")
        drawing.text(LEFT - 5, y(value) + 4, f"{value:.1f}", "soft", "end")
    for item in range(0, last + 1, last // 5):
        drawing.text(x(item), BOTTOM + 16, f"{item:,}", "soft", "middle")
    drawing.text((LEFT + RIGHT) / 2, HEIGHT - 8, "patients that a clinic has seen", "soft", "middle")
    drawing.line(x(record["change"]), TOP - 4, x(record["change"]), BOTTOM, "turn")
    drawing.text(x(record["change"]) + 5, BOTTOM - 6, "the patient mix changes", "soft")
    looks = {ORACLE: LOOKS[ORACLE], SINGLE: LOOKS[SINGLE], ours: OURS}
    for name, (ink, width, dashed) in looks.items():
        drawing.curve([(x(a), y(b)) for a, b in zip(items, rewards[name], strict=True)], ink, width, dashed)
    _gap(drawing, x(0.8 * last), y, _after(record, ours), _after(record, SINGLE))
    ends = [y(rewards[name][-1]) for name in looks]
    for name, end, place in zip(looks, ends, spread(ends, 15, TOP, BOTTOM), strict=True):
        drawing.line(RIGHT + 2, end, RIGHT + 8, place)
        drawing.text(
            RIGHT + 11, place + 4, LABELS.get(name, "cosend"), "" if name in LOOKS else "strong", ink=looks[name][0]
        )
    return drawing.standalone()


def _after(record: Mapping[str, Any], name: str) -> float:
    """Return what is earned per patient after the change."""
    rewards: Sequence[float] = record["rewards"][name]
    return fmean(reward for item, reward in zip(record["items"], rewards, strict=True) if item > record["change"])


def _gap(drawing: Drawing, at: float, y: Any, upper: float, lower: float) -> None:
    """Draw how far two lines are apart."""
    top, bottom = y(upper) + 7, y(lower) - 9
    drawing.line(at, top, at, bottom)
    for end in (top, bottom):
        drawing.line(at - 4, end, at + 4, end)
    drawing.text(at + 7, (top + bottom) / 2 + 4, f"+{upper - lower:.2f}", "strong")
