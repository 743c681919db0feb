"""What arms have cost once more: every decision of a log with its last known cost, added up as fractions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from cosend.engine import events


def spent(log: Iterable[Any]) -> dict[str, float]:
    """Return by arm what all decisions of a site have cost, of arms that have cost anything."""
    arm_of: dict[int, str] = {}
    cost_of: dict[int, float] = {}
    said: set[int] = set()
    for event in log:
        if isinstance(event, events.Chosen):
            for id_, arm in enumerate(event.arms, event.first):
                arm_of[id_], cost_of[id_] = arm, event.costs.get(arm, 0.0)
        elif isinstance(event, events.Answered):
            paid = event.paid or (math.nan,) * len(event.ids)
            silent = {id_ for id_, label in zip(event.ids, event.labels, strict=True) if label is None}
            cost_of |= dict.fromkeys(silent - said, 0.0)
            told = {id_: cost for id_, cost in zip(event.ids, paid, strict=True) if not math.isnan(cost)}
            cost_of |= told
            said |= told.keys()
        elif isinstance(event, events.Failed):
            cost_of |= dict.fromkeys(event.ids, 0.0)
        elif isinstance(event, events.Labelled):
            cost_of |= {id_: cost for id_, cost in zip(event.ids, event.costs, strict=False) if cost is not None}
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for id_, arm in arm_of.items():
        total[arm] += Fraction(cost_of[id_])
    return {arm: float(cost) for arm, cost in total.items() if cost}
