"""What is measured: parts, policies, contexts, windows, delays and costs, each in one list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cosend.algorithm.policies import (
    CellKLUCB,
    CoS,
    MixedViews,
    Policy,
    Zooming,
    ZoomingKLUCB,
)
from cosend.algorithm.values import ScoreLocal
from cosend.checks import check_one_of, check_whole
from cosend.errors import SettingError
from research.paper.settings import PARAMETERS, PEER_FUNCTIONS, SLICES, WINDOW_ROWS, WINDOW_START

PARTS: Final = ("windows", "delays", "late", "no-context", "costs", "drift", "unseen", "liar", "learning", "default")

AXES: Final = ("previous_label", "src_bytes", "time")
TOGETHER: Final = "together"
SHARED: Final = (*AXES, TOGETHER)  # the contexts that everybody can be given
CONTEXTS: Final = {**{name: (n,) for n, name in enumerate(AXES)}, TOGETHER: (0, 1, 2)}


class Window(NamedTuple):
    """A stretch of the file."""

    name: str
    start: int


# Both classes have at least a fifth of the rows; the rates of label switches spread over two decades.
WINDOWS: Final = (
    Window("main", WINDOW_START),
    Window("few switches", 101_000),
    Window("some switches", 441_000),
    Window("more switches", 331_000),
    Window("many switches", 131_000),
)
MAIN: Final = WINDOWS[0]
# No rule and no constant was chosen on them. Both classes have at least a fifth of the rows and no row is in another
# window; of the starts at whole thousands these halve the classes best. What is left of the file has few switches.
UNSEEN: Final = (Window("unseen, early", 32_000), Window("unseen, last", 474_000))
EVERY_FEATURE: Final = "every feature"  # in the place of a context

RANDOM_DELAY: Final = "random"
LONGEST_RANDOM_DELAY: Final = 1_000  # random delays are uniform from 0 to this
DELAYS: Final[tuple[int | str, ...]] = (0, 1, 100, 1_000, RANDOM_DELAY)  # items until the label is known
PEER_COSTS: Final = (0.05, 0.2)
LATE: Final = 100  # items, in the part that has all windows with late labels

STILL: Final = "nothing changes"
RUNNING_ITEMS: Final = 500  # over which the running error of the drift part is taken
BACK_WITHIN: Final = 1.0  # points above the error before the drift that count as recovered

LEARNT: Final = " with learnt arms"  # behind the name of a player
WITH_LEARNT: Final = "MixedViews" + LEARNT
LEARNT_SEEDS: Final = 2  # where learnt arms see every feature: what they say takes minutes for every seed


class NamedPolicy(NamedTuple):
    """A policy by its name in the tables: from the number of items and of axes to its settings."""

    name: str
    build: Callable[[int, int], Policy]
    contexts: tuple[str, ...] = SHARED
    score_local: ScoreLocal = "used"
    learnt: bool = False  # every learner has what it learns itself, trees and a stack, as two more functions


def slices_for(axes: int) -> int | None:
    """Return the paper's twelve slices for one axis; several have as many as the theory of the policy asks for."""
    return SLICES if axes == 1 else None


def cos(rows: int, axes: int) -> CoS:
    """Return CoS with the paper's better parameters, C1."""
    return CoS(
        horizon=rows,
        slices=slices_for(axes),
        exploration_exponent=PARAMETERS["C1"],
        max_peer_functions=PEER_FUNCTIONS,
    )


def cell_kl_ucb(rows: int, axes: int) -> CellKLUCB:
    """Return the index policy in the same cells."""
    return CellKLUCB(horizon=rows, slices=slices_for(axes))


POLICIES: Final = (
    NamedPolicy("CoS", cos),
    NamedPolicy("CellKLUCB", cell_kl_ucb),
    NamedPolicy("Zooming", lambda rows, axes: Zooming()),
    NamedPolicy("ZoomingKLUCB", lambda rows, axes: ZoomingKLUCB()),
    NamedPolicy("MixedViews", lambda rows, axes: MixedViews(), score_local="all"),
    NamedPolicy(WITH_LEARNT, lambda rows, axes: MixedViews(), (TOGETHER,), score_local="all", learnt=True),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a user may change."""

    data: Path | None = None
    rows: int = WINDOW_ROWS
    seeds: int = 5
    parts: tuple[str, ...] = PARTS

    def __post_init__(self) -> None:
        check_whole("seeds", self.seeds)
        check_whole("rows", self.rows, least=1_000)
        for part in self.parts:
            check_one_of("part", part, PARTS)
        if len(set(self.parts)) != len(self.parts):
            raise SettingError("parts", self.parts, "each named once")
