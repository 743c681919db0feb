"""The part in which the default of a site plays beside `ZoomingKLUCB`, both as they come, in all settings there are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import exp, inf, log
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.text import TableText
from research.beyond.play import Job, jobs_for, policy_methods
from research.beyond.problems import changed_window
from research.beyond.settings import (
    DELAYS,
    LATE,
    MAIN,
    PEER_COSTS,
    POLICIES,
    SHARED,
    TOGETHER,
    WINDOWS,
    Settings,
    Window,
)
from research.paper.settings import SCENARIOS

Row = dict[str, Any]

OURS, BESIDE = "MixedViews", "ZoomingKLUCB"
CLEARLY: Final = 1.05  # times as much, and two standard errors more, is clearly worse


class Setting(NamedTuple):
    """Where both play."""

    window: Window
    delay: int | str
    cost: float
    contexts: tuple[str, ...]


def every_setting() -> Iterator[Setting]:
    """Yield all windows with all delays, the time alone with two of them; and two windows with calls that cost."""
    for window, delay in product(WINDOWS, DELAYS):
        yield Setting(window, delay, 0.0, tuple(each for each in SHARED if each != "time" or delay in (1, LATE)))
    for window, cost, delay in product((MAIN, WINDOWS[-1]), PEER_COSTS, (1, LATE)):
        yield Setting(window, delay, cost, SHARED)


def default(settings: Settings) -> Iterator[Job]:
    """Yield the rows of both in all settings."""
    both = [policy for policy in POLICIES if policy.name in (OURS, BESIDE)]
    for (window, delay, cost, contexts), scenario in product(every_setting(), SCENARIOS):
        problems = partial(changed_window, settings, window.start, scenario, delay, cost)
        setting = f"{window.name}, {delay} late, {cost:g} per call"
        yield from jobs_for("default", setting, scenario, problems, policy_methods(both, contexts))


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
