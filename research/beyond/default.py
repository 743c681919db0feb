"""What came of the part in which the default of a site plays beside `ZoomingKLUCB`."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, inf, log
from typing import Any, Final, NamedTuple

import numpy as np

from research.beyond.parts import BESIDE, OURS
from research.beyond.settings import TOGETHER
from research.output import TableText

Row = dict[str, Any]

CLEARLY: Final = 1.05  # times as much, and two standard errors more, is clearly worse


class Pair(NamedTuple):
    """What came of both in one setting: error + paid in %, of every seed."""

    setting: str
    scenario: str
    context: str
    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> float:
        """How many times as much the default loses; 1 if neither loses anything."""
        ours, theirs = sum(self.ours), sum(self.theirs)
        return 1.0 if ours == theirs else ours / theirs if theirs else inf

    @property
    def is_clear(self) -> bool:
        """Whether the default is worse by more than 5 % and by more than two standard errors."""
        more = np.subtract(self.ours, self.theirs)
        error = float(more.std(ddof=1)) / len(more) ** 0.5 if len(more) > 1 else inf
        return self.ratio > CLEARLY and float(more.mean()) > 2 * error


def pairs(rows: list[Row]) -> list[Pair]:
    """Return both rows of every setting."""
    found: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row["part"] == "default":
            lost = np.add(row["error_by_seed"], row["paid_by_seed"]).tolist()
            found.setdefault((row["setting"], row["scenario"], row["context"]), {})[row["policy"]] = lost
    return [Pair(*where, both[OURS], both[BESIDE]) for where, both in found.items() if len(both) == 2]


def table(rows: list[Row]) -> TableText:
    """Return where the default is worse, the clearest first."""
    lines = [
        _line(pair) for pair in sorted(pairs(rows), key=lambda pair: (-pair.is_clear, -pair.ratio)) if pair.ratio > 1
    ]
    title = f"default: where {OURS} loses more than {BESIDE} (error + paid in %)"
    return title, ["setting", "setup", "context", OURS, BESIDE, "clearly"], lines


def _line(pair: Pair) -> list[str]:
    means = [f"{np.mean(each):.3f}" for each in (pair.ours, pair.theirs)]
    return [pair.setting, pair.scenario, pair.context, *means, "yes" if pair.is_clear else ""]


def remarks(rows: list[Row]) -> Iterator[str]:
    """Say in how many settings the default is worse, and how both compare on average."""
    found = pairs(rows)
    if not found:
        return
    worse, clear = sum(pair.ratio > 1 for pair in found), sum(pair.is_clear for pair in found)
    yield (
        f"Default: of {len(found)} settings {OURS} loses more than {BESIDE} in {worse}, and by more than 5 % "
        f"and two standard errors in {clear}."
    )
    for kind in dict.fromkeys(pair.setting.partition(", ")[2] for pair in found):
        ratios = [pair.ratio for pair in found if pair.context == TOGETHER and pair.setting.endswith(f", {kind}")]
        finite = [ratio for ratio in ratios if 0.0 < ratio < inf]
        if finite:
            mean = exp(sum(map(log, finite)) / len(finite))
            yield (
                f"Default, {kind}, all contexts together: {OURS} loses {mean:.2f} times as much as {BESIDE} "
                f"(geometric mean of {len(finite)} settings in which both lose something)."
            )
