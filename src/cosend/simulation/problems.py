"""Problems whose true accuracies are known, so that regret can be measured and not only estimated.

Every function is best near a place of its own in the context space and gets worse with the distance: accuracy =
peak - L * distance^alpha, never below the floor. That is Hoelder continuous with exactly this L and alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cosend.core.benchmark import arm_values, cumulative_regret, peer_value
from cosend.core.bounds import Setting
from cosend.core.checks import check_between, check_whole
from cosend.core.learner import Learner
from cosend.core.ledger import Floats
from cosend.core.policy_parts import Policy
from cosend.simulation.replay import Trace

FLOOR = 0.05


@dataclass(frozen=True, kw_only=True)
class LipschitzProblem:
    """Sites with functions of known accuracy.

    functions  how many each site has
    call_cost  what calling any peer costs
    """

    functions: tuple[int, ...] = (2, 2, 2, 2)
    dimensions: int = 1
    alpha: float = 1.0
    lipschitz: float = 1.0
    call_cost: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for count in self.functions:
            check_whole("functions", count)
        check_whole("dimensions", self.dimensions)
        check_between("alpha", self.alpha, 0.0, 1.0 + 1e-12, "in (0, 1]")

    @property
    def setting(self) -> Setting:
        """What the bounds need to know of the first site."""
        return Setting(
            own=self.functions[0],
            learners=len(self.functions),
            peer_functions=max(self.functions),
            dimensions=self.dimensions,
            alpha=self.alpha,
            lipschitz=self.lipschitz,
            cost_spread=self.call_cost,
        )

    def learners(self, policy: Policy, seed: int = 0) -> list[Learner]:
        """Return fresh learners, one for each site, that are each other's peers."""
        names = [f"site{i}" for i in range(len(self.functions))]
        return [
            Learner(
                name,
                own={f"{name}.f{j}": 0.0 for j in range(count)},
                peers={peer: self.call_cost for peer in names if peer != name},
                dimensions=self.dimensions,
                policy=policy,
                seed=seed,
            )
            for name, count in zip(names, self.functions, strict=True)
        ]

    def accuracies(self, contexts: Floats) -> Floats:
        """Return the true accuracy of every function for every context: [item, function]."""
        random = np.random.default_rng([self.seed, 1])
        total = sum(self.functions)
        places = random.random((total, self.dimensions))
        peaks = random.uniform(0.8, 0.95, total)
        distances = np.linalg.norm(contexts[:, None, :] - places[None, :, :], axis=2)
        accuracies: Floats = np.maximum(FLOOR, peaks - self.lipschitz * distances**self.alpha)
        return accuracies

    def stream(self, items: int, seed: int = 0) -> tuple[Floats, npt.NDArray[np.uint8]]:
        """Return uniform contexts, and for every function whether it is right about every item."""
        random = np.random.default_rng([self.seed, 2, seed])
        contexts = random.random((items, self.dimensions))
        right = random.random((items, sum(self.functions))) < self.accuracies(contexts)
        return contexts, right.astype(np.uint8)

    def regret(self, contexts: Floats, trace: Trace, site: int = 0) -> Floats:
        """Return the regret of a site after every item, from the true accuracies of the functions it used."""
        accuracies = self.accuracies(contexts)
        by_site = np.split(accuracies, np.cumsum(self.functions)[:-1], axis=1)
        peers = [peer_value(part, [0.0] * part.shape[1]) for k, part in enumerate(by_site) if k != site]
        costs: Sequence[float] = [self.call_cost] * len(peers)
        values = arm_values(by_site[site], [0.0] * self.functions[site], peers, costs)
        used = np.take_along_axis(accuracies, trace.functions[:, site, None].astype(np.int64), axis=1)[:, 0]
        paid = np.where(trace.arms[:, site] >= self.functions[site], self.call_cost, 0.0)
        return cumulative_regret(values, used - paid)
