"""What the experiment consists of: the window, the classifiers and their training rows, contexts and parameters."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from cosend.checks import check_whole
from cosend.errors import SettingError

WINDOW_START: Final = 65_000  # the window that fits the paper's error rates
WINDOW_ROWS: Final = 20_000
SLICES: Final = 12  # ceil(20,000 ** (1/4))
PEER_FUNCTIONS: Final = 2
LEARNERS: Final = ("learner1", "learner2", "learner3", "learner4")
ATTACK, NORMAL = 1, 0


class Function(NamedTuple):
    """A classification function: a model and the rows it is trained on."""

    name: str
    model: str
    rows: tuple[int, int] = (0, 5_000)
    label: int | None = None


NAIVE_BAYES: Final = Function("naive_bayes", "naive_bayes", (0, 5_000))
RBF: Final = Function("rbf_network", "rbf_network", (0, 5_000))
LOGISTIC: Final = Function("logistic", "logistic", (20_000, 25_000))
PERCEPTRON: Final = Function("voted_perceptron", "voted_perceptron", (20_000, 25_000))
J48: Final = Function("j48", "tree", (15_000, 20_000))
RANDOM_TREE: Final = Function("random_tree", "random_tree", (15_000, 20_000))
ALWAYS_1: Final = Function("always_1", "always", label=ATTACK)
ALWAYS_0: Final = Function("always_0", "always", label=NORMAL)
RANDOM: Final = Function("random", "random", (20_000, 25_000))

# Learner by learner, two functions each. S2 has no good one.
SCENARIOS: Final = {
    "S1": (NAIVE_BAYES, LOGISTIC, ALWAYS_1, PERCEPTRON, RBF, J48, RANDOM_TREE, ALWAYS_0),
    "S2": (NAIVE_BAYES, RANDOM, ALWAYS_1, RANDOM, RBF, J48, RANDOM_TREE, ALWAYS_0),
}
PARAMETERS: Final = {"C1": 1 / 8, "C2": 1 / 2}  # the exponent z of the quotas
CONTEXTS: Final = ("previous_label", "src_bytes", "time")
ORDERS: Final = ("pseudocode", "random", "train_first")
TRAINING_COUNTS: Final = ("reported", "own_and_mine")
BOOSTING_ROWS: Final = (10_000, 30_000)  # 20,000 other rows, a stretch that AdaBoost does well with
WINDOWS: Final = (100, 1_000)
TRAINING_END: Final = 30_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a user may change."""

    data: Path | None = None
    start: int = WINDOW_START
    rows: int = WINDOW_ROWS
    seeds: int = 5

    def __post_init__(self) -> None:
        check_whole("seeds", self.seeds)
        check_whole("rows", self.rows, least=10)
        if not isinstance(self.start, int) or self.start < TRAINING_END + max(WINDOWS):
            allowed = f"at least {TRAINING_END + max(WINDOWS):,}: earlier rows train the classifiers"
            raise SettingError("start", self.start, allowed)

    @property
    def is_the_papers(self) -> bool:
        """Whether the window is the one that the paper's numbers belong to."""
        return (self.start, self.rows) == (WINDOW_START, WINDOW_ROWS)


def paper() -> dict[str, Any]:
    """Return the paper's numbers."""
    return tomllib.loads(files(__package__).joinpath("paper.toml").read_text())
