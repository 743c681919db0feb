"""The paper's regret bounds as functions: the three lemmas and both theorems, corrected, and a bound of ours.

The bounds hold for every horizon but are far above the horizon itself for any practical one: compare slopes
with them, and inequalities, not values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from cosend.algorithm.cells import slices_for
from cosend.algorithm.cos import exponent_for
from cosend.checks import check_between, check_whole

BETA_2: Final = math.pi**2 / 6  # the sum of 1/t^2


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What a bound depends on.

    own             classifiers of the learner itself, |F_i|
    learners        M, the learner itself included
    peer_functions  F_max, how many classifiers a peer has at most
    lipschitz       L, and `alpha`: accuracies differ by at most L * distance^alpha
    cost_spread     the largest cost of an arm minus the smallest
    """

    own: int
    learners: int = 1
    peer_functions: int = 1
    dimensions: int = 1
    alpha: float = 1.0
    lipschitz: float = 1.0
    cost_spread: float = 0.0

    def __post_init__(self) -> None:
        for name in ("own", "learners", "peer_functions", "dimensions"):
            check_whole(name, getattr(self, name))
        check_between("alpha", self.alpha, 0.0, math.inf, "a number above 0")
        check_between("lipschitz", self.lipschitz, -1e-300, math.inf, "a number of at least 0")
        check_between("cost_spread", self.cost_spread, -1e-300, 1.0 + 1e-12, "in [0, 1]")

    @property
    def peers(self) -> int:
        """M - 1."""
        return self.learners - 1

    @property
    def arms(self) -> int:
        """|K_i|, local classifiers and peers."""
        return self.own + self.peers

    @property
    def samples_owed(self) -> int:
        """Z_i: how many quotas there are to fill in a cell."""
        return self.own + self.peers * (self.peer_functions + 1)

    @property
    def slicing(self) -> float:
        """The exponent gamma of the number of slices, T^gamma."""
        return 1 / (3 * self.alpha + self.dimensions)

    @property
    def exploration_exponent(self) -> float:
        """The exponent z of the quotas."""
        return exponent_for(self.alpha, self.dimensions)

    @property
    def regret_exponent(self) -> float:
        """The order of Theorem 1: regret grows as T to this power, up to a logarithm."""
        return (2 * self.alpha + self.dimensions) * self.slicing

    @property
    def largest_loss(self) -> float:
        """What a single wrong step can lose."""
        return 1 + self.cost_spread


def exploration_bound(setting: Setting, horizon: int) -> float:
    """Bound the regret of training and exploration steps (first lemma)."""
    d, cells = setting.dimensions, horizon ** (setting.slicing * setting.dimensions)
    quotas = setting.samples_owed * horizon**setting.exploration_exponent * math.log(horizon)
    first_samples = setting.own + 2 * setting.peers
    return float(2**d * cells * (quotas + first_samples) * setting.largest_loss)


def suboptimal_bound(setting: Setting, horizon: int) -> float:
    """Bound the regret of exploiting a clearly worse arm (second lemma)."""
    d, z = setting.dimensions, setting.exploration_exponent
    cells = horizon ** (setting.slicing * d)
    own_part = 2 ** (d + 1) * setting.arms * BETA_2
    peer_part = 2 ** (d + 2) * setting.peers * setting.peer_functions * BETA_2 / z * horizon ** (z / 2)
    return float(cells * (own_part + peer_part) * setting.largest_loss)


def near_optimal_bound(setting: Setting, horizon: int) -> float:
    """Bound the regret of exploiting an arm that is nearly the best (third lemma)."""
    power = 1 - setting.exploration_exponent / 2
    return float(2 * _coarseness(setting) * horizon**power / power + _peers_slips(setting))


def theorem_1(setting: Setting, horizon: int) -> float:
    """Bound the regret of CoS with its derived slices and quotas (Theorem 1)."""
    a, d, s = setting.alpha, setting.dimensions, 3 * setting.alpha + setting.dimensions
    owed, loss = setting.samples_owed, setting.largest_loss
    near = horizon ** ((2 * a + d) / s) * 2 * _coarseness(setting) * s / (2 * a + d)
    explored = horizon ** ((2 * a + d) / s) * 2**d * owed * math.log(horizon)
    misled = horizon ** ((a + d) / s) * 2 ** (d + 2) * setting.peers * setting.peer_functions * BETA_2 * s / (2 * a)
    first = horizon ** (d / s) * 2**d * (2 * owed * BETA_2 + setting.arms)
    return float(near + (explored + misled + first) * loss + _peers_slips(setting))


def theorem_2(setting: Setting, horizon: int) -> float:
    """Bound the regret of CoS when classifiers learn and time is one more axis (Theorem 2)."""
    return theorem_1(replace(setting, dimensions=setting.dimensions + 1), horizon)


def delayed(bound: float, longest_delay: int) -> float:
    """Bound the regret when labels come up to so many steps late."""
    return bound + longest_delay


def _coarseness(setting: Setting) -> float:
    return 2 * setting.lipschitz * math.pow(setting.dimensions, setting.alpha / 2) + 6  # a_1


def _peers_slips(setting: Setting) -> float:
    return 4 * setting.peers * setting.peer_functions * BETA_2


# Index policies and zooming: docs/research/theory.md


def index_exponent(setting: Setting) -> float:
    """Return the order of the bound below: regret grows as T to this power, up to the root of a logarithm."""
    return (setting.alpha + setting.dimensions) / (2 * setting.alpha + setting.dimensions)


def zooming_exponent(setting: Setting, contexts: str) -> float:
    """Return the order that the authors of DCZA give, for the two rates at which its cubes split."""
    if contexts == "concentrated":
        return 2 / 3
    alpha, d = setting.alpha, setting.dimensions
    rate = (3 * alpha + math.sqrt(9 * alpha**2 + 8 * alpha * d)) / 2
    return (d + rate - alpha) / (d + rate)


def index_bound(setting: Setting, horizon: int) -> float:
    """Bound the regret of KL-UCB in cells, m = ceil(T^(1/(2 alpha + d))) on each axis, for settled peers.

    Settled: a peer answers with the function that is its best for the item. A peer with one function always is.
    """
    slices = slices_for(horizon, 2 * setting.alpha + setting.dimensions)
    cells, log_t = slices**setting.dimensions, math.log(horizon)
    half_diagonal = math.sqrt(setting.dimensions) / (2 * slices)
    coarse = 4 * setting.lipschitz * math.pow(half_diagonal, setting.alpha) * horizon
    explored = math.sqrt(8 * setting.arms * cells * horizon * log_t)
    underrated = 2 + math.e * (log_t**3 / 3 + log_t)
    return float(coarse + explored + cells * (2 * setting.arms + underrated) * setting.largest_loss)
