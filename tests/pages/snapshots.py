"""Snapshots made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cosend.algorithm.layout import EXPLOIT
from cosend.pages.over_time import RANGES, Recent, Series, series_of
from cosend.pages.rendering import render_charts, render_events
from cosend.pages.site_view import Flow, Local, Reason, Row, Snapshot
from cosend.runtime.gossip import Traffic
from cosend.runtime.label_history import History
from cosend.runtime.past_decisions import Past

DASH = "&ndash;"
FACTS: dict[str, Any] = {
    "site": "north", "version": "1.2.3", "mode": "apply", "answered_by": None, "policy": {"name": "CoS"}, "up_s": 90.0,
    "items": 12_345, "in_flight": 1, "unanswered": 2, "decisions": 12_000, "recent_error": 0.125, "recent_reward": 0.85,
    "recent_score": None, "recent_gain": 0.875, "scores": 0, "unit": None, "currency": None, "score_range": (0.0, 1.0),
    "labels": {"learnt": 11_000, "duplicate": 0, "unknown": 3, "expired": 4_200},
}  # fmt: skip
ARM: dict[str, Any] = {
    "name": "young", "kind": "local", "cost": 0.0, "price": None, "spent": 0.0,
    "paused": False, "present": True, "refused": None, "breaker": "closed",
    "failures": 0, "last_failure": None, "decisions": {"exploit": 3}, "labels": 100,
    "mean_gain": 0.9, "mean_score": 0.9, "mean_over": 100, "seconds_per_item": 0.002, "learnt": None,
}  # fmt: skip


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def a_history(gains: Sequence[float], local: str, local_gain: float = 0.5, labels: int = 10) -> tuple[History, Clock]:
    """Return the history of a site that learns some labels every second, and its clock."""
    clock = Clock()
    history = History(clock)
    for gain in gains:
        history.learnt([gain] * labels, [0.0] * labels, {local: [local_gain] * labels})
        history.decided(labels, 3, 1)
        history.answered(0.004)
        clock.now += 1.0
    return history, clock


def ranges(local: str, gains: Sequence[float] = (0.9,) * 60) -> Callable[[str], Series]:
    """Return the time ranges of a site to which the arm `local` belongs, and to which things have happened."""
    history, _ = a_history(gains, local)
    for kind in ("offline", "back", "cost", "mode", "fitted"):
        history.mark(kind, local, local, local)
    return lambda name: series_of(history, RANGES[name], local)


def over_time(found: Callable[[str], Series], snapshot: Snapshot, name: str) -> dict[str, str]:
    """Return what the page shows of a time range."""

    def moment(at_s: float) -> float:
        return 1e9 + at_s

    return {**render_charts(found(name), snapshot, moment), **render_events(found(name), moment)}


def arm(name: str, **facts: Any) -> dict[str, Any]:
    return {**ARM, "name": name, **facts}


def decision(number: int = 12_345, reason: Reason | None = None, **facts: Any) -> Row:
    past = Past(
        **{
            "arm": "young",
            "kind": EXPLOIT,
            "cell": 0,
            "cost": 0.0,
            "propensity": 1.0,
            "context": (),
            "shown": "ill",
            **facts,
        }
    )
    return Row(number, past, reason or Reason(), past.score)


def a_snapshot(**facts: Any) -> Snapshot:
    given: dict[str, Any] = {
        "facts": FACTS,
        "arms": [arm("young"), arm("old"), arm("south", kind="peer", cost=0.05)],
        "pending": {"decisions": 7, "for_peers": 0, "oldest_s": 130.0, "middle_s": 4.0},
        "recent": Recent(37.0, 2_220, 1_200, 3, 0.0031, 0.021),
        "local": Local("young", 0.7),
        "traffic": {"north": Traffic(1.0, 100, {"south": 20}, 0.1, 0.85), "south": Traffic(1.0, 50, {}, None, None)},
        "flows": [Flow("north", 30, {"south": 10}), Flow("south", 0, {})],
        "window_s": 20.0,
    }
    return Snapshot(**{**given, **facts})
