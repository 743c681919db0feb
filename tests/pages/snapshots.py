"""Snapshots made by hand."""

from __future__ import annotations

from typing import Any

from cosend.algorithm.layout import EXPLOIT
from cosend.pages.over_time import Recent
from cosend.pages.site_view import Flow, Local, Reason, Row, Snapshot
from cosend.runtime.gossip import Traffic
from cosend.runtime.past_decisions import Past

FACTS: dict[str, Any] = {
    "site": "north", "version": "1.2.3", "mode": "apply", "answered_by": None, "policy": {"name": "CoS"}, "up_s": 90.0,
    "items": 12_345, "in_flight": 1, "unanswered": 2, "decisions": 12_000, "recent_error": 0.125, "recent_reward": 0.85,
    "recent_score": None, "recent_gain": 0.875, "scores": 0, "unit": None, "currency": None,
    "labels": {"learnt": 11_000, "duplicate": 0, "unknown": 3, "expired": 4_200},
}  # fmt: skip
ARM: dict[str, Any] = {
    "name": "young", "kind": "local", "cost": 0.0, "price": None, "paused": False, "present": True, "refused": None,
    "breaker": "closed", "failures": 0, "last_failure": None, "decisions": {"exploit": 3}, "labels": 100,
    "mean_gain": 0.9, "seconds_per_item": 0.002,
}  # fmt: skip


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
    return Row(number, past, reason or Reason())


def a_snapshot(**facts: Any) -> Snapshot:
    given: dict[str, Any] = {
        "facts": FACTS,
        "arms": [arm("young"), arm("old"), arm("south", kind="peer", cost=0.05)],
        "pending": {"decisions": 7, "for_peers": 0, "oldest_s": 130.0, "middle_s": 4.0},
        "recent": Recent(37.0, 2_220, 1_200, 3, 0.0031, 0.021),
        "local": Local("young", 0.7, True),
        "traffic": {"north": Traffic(1.0, 100, {"south": 20}, 0.1, 0.85), "south": Traffic(1.0, 50, {}, None, None)},
        "flows": [Flow("north", 30, {"south": 10}), Flow("south", 0, {})],
        "window_s": 20.0,
    }
    return Snapshot(**{**given, **facts})
