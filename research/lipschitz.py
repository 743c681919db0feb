"""Problems whose true accuracies are known, so that regret can be measured and not only estimated.

Every function is best near a place of its own in the context space and gets worse with the distance: accuracy =
peak - L * distance^alpha, never below the floor. That is Hoelder continuous with exactly this L and alpha.

    contexts  uniform        anywhere in [0, 1]^d
              concentrated   in a small cube only; the functions have their places in such cubes too
    arrivals  homogeneous    every item comes to every site
              heterogeneous  every site has a stream of its own, and a cube of its own if contexts are concentrated
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from cosend.algorithm.layout import Floats
from cosend.algorithm.learner import Learner
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import ScoreLocal
from cosend.checks import check_between, check_one_of, check_unit, check_whole
from cosend.simulation.loop import Trace
from research.bounds import Setting

Contexts = Literal["uniform", "concentrated"]
Arrivals = Literal["homogeneous", "heterogeneous"]
Items = npt.NDArray[np.int32]  # [slot, site], as `simulate` takes them

FLOOR: Final = 0.05
SIDE: Final = 0.1  # of the cube in which contexts concentrate
ROWS_AT_ONCE: Final = 1 << 18  # ten million items are worked on in parts, to keep memory small


@dataclass(frozen=True, kw_only=True)
class LipschitzProblem:
    """Sites with functions of known accuracy.

    functions  how many each site has
    call_cost  what calling any peer costs
    contexts, arrivals  where items come from and where they arrive, see above
    seed       of the places and heights of the functions, and of the cubes
    """

    functions: tuple[int, ...] = (2, 2, 2, 2)
    dimensions: int = 1
    alpha: float = 1.0
    lipschitz: float = 1.0
    call_cost: float = 0.0
    contexts: Contexts = "uniform"
    arrivals: Arrivals = "homogeneous"
    seed: int = 0

    def __post_init__(self) -> None:
        for count in self.functions:
            check_whole("functions", count)
        check_whole("dimensions", self.dimensions)
        check_between("alpha", self.alpha, 0.0, 1.0 + 1e-12, "in (0, 1]")
        check_unit("call_cost", self.call_cost, "calling a peer")
        check_one_of("contexts", self.contexts, get_args(Contexts))
        check_one_of("arrivals", self.arrivals, get_args(Arrivals))

    @property
    def sites(self) -> int:
        """How many sites there are."""
        return len(self.functions)

    @property
    def streams(self) -> int:
        """How many streams there are: one for all sites, or one for each."""
        return self.sites if self.arrivals == "heterogeneous" else 1

    @property
    def setting(self) -> Setting:
        """What the bounds need to know of the first site."""
        return Setting(
            own=self.functions[0],
            learners=self.sites,
            peer_functions=max(self.functions),
            dimensions=self.dimensions,
            alpha=self.alpha,
            lipschitz=self.lipschitz,
            cost_spread=self.call_cost if self.sites > 1 else 0.0,
        )

    def learners(self, policy: Policy, seed: int = 0, score_local: ScoreLocal = "used") -> list[Learner]:
        """Return fresh learners, one for each site, that are each other's peers."""
        names = [f"site{i}" for i in range(self.sites)]
        return [
            Learner(
                name,
                own={f"{name}.f{j}": 0.0 for j in range(count)},
                peers={peer: self.call_cost for peer in names if peer != name},
                dimensions=self.dimensions,
                policy=policy,
                seed=seed,
                score_local=score_local,
            )
            for name, count in zip(names, self.functions, strict=True)
        ]

    def corners(self) -> Floats:
        """Return the lowest corner of the cube in which each stream has its contexts: [stream, axis]."""
        if self.contexts == "uniform":
            return np.zeros((self.streams, self.dimensions))
        random = np.random.default_rng([self.seed, 3])
        return random.random((self.streams, self.dimensions)) * (1.0 - SIDE)

    @property
    def side(self) -> float:
        """The side of these cubes; 1 is the whole space."""
        return 1.0 if self.contexts == "uniform" else SIDE

    def peaks(self) -> tuple[Floats, Floats]:
        """Return where every function is best, [function, axis], and how good it is there, [function]."""
        random = np.random.default_rng([self.seed, 1])
        total = sum(self.functions)
        places, heights = random.random((total, self.dimensions)), random.uniform(0.8, 0.95, total)
        cubes = np.arange(total) % self.streams  # all cubes in turn, so that two functions of a site suit two streams
        return self.corners()[cubes] + self.side * places, heights

    def accuracies(self, contexts: Floats) -> Floats:
        """Return the true accuracy of every function for every context: [item, function]."""
        places, heights = self.peaks()
        return self.accuracy_at(np.linalg.norm(contexts[:, None, :] - places[None, :, :], axis=2), heights)

    def accuracy_at(self, distances: Floats, heights: Floats) -> Floats:
        """Return how good functions are at distances from their places: [..., function]."""
        accuracies: Floats = np.maximum(FLOOR, heights - self.lipschitz * distances**self.alpha)
        return accuracies

    def stream(self, slots: int, seed: int = 0) -> tuple[Floats, npt.NDArray[np.uint8]]:
        """Return the contexts of all items, and for every function whether it is right about every item.

        Item `slot * streams + stream` is the one that comes in that slot to that stream.
        """
        random = np.random.default_rng([self.seed, 2, seed])
        contexts = random.random((slots * self.streams, self.dimensions))
        contexts = np.tile(self.corners(), (slots, 1)) + self.side * contexts
        right = np.zeros((len(contexts), sum(self.functions)), np.uint8)
        for part in parts_of(len(contexts)):
            accuracies = self.accuracies(contexts[part])
            right[part] = random.random(accuracies.shape) < accuracies
        return contexts, right

    def items(self, slots: int) -> Items:
        """Return which item comes in which slot to which site."""
        first = np.arange(slots, dtype=np.int32)[:, None] * self.streams
        return np.ascontiguousarray(first + np.arange(self.sites, dtype=np.int32) % self.streams)

    def contexts_at(self, contexts: Floats, site: int) -> Floats:
        """Return the contexts of the items that come to a site."""
        return contexts[site % self.streams :: self.streams]

    def arm_values(self, accuracies: Floats, site: int = 0) -> Floats:
        """Return what every arm of a site is worth, accuracy minus cost, from [item, function] to [item, arm].

        A peer is worth the accuracy of the function that it would pick itself.
        """
        by_site = np.split(accuracies, np.cumsum(self.functions)[:-1], axis=1)
        peers = [part.max(axis=1, keepdims=True) - self.call_cost for k, part in enumerate(by_site) if k != site]
        return np.hstack([by_site[site], *peers])

    def losses(self, contexts: Floats, trace: Trace, site: int = 0) -> Floats:
        """Return by how much every item of a site fell short of the benchmark, in true accuracies minus costs."""
        own_contexts = self.contexts_at(contexts, site)
        losses = np.zeros(len(own_contexts))
        for part in parts_of(len(losses)):
            accuracies = self.accuracies(own_contexts[part])
            functions, arms = trace.functions[part, site].astype(np.int64), trace.arms[part, site]
            used = np.take_along_axis(accuracies, functions[:, None], axis=1)[:, 0]
            paid = np.where(arms >= self.functions[site], self.call_cost, 0.0)
            losses[part] = self.arm_values(accuracies, site).max(axis=1) - (used - paid)
        return losses

    def regret(self, contexts: Floats, trace: Trace, site: int = 0) -> Floats:
        """Return the regret of a site after every item, from the true accuracies of the functions it used."""
        return np.cumsum(self.losses(contexts, trace, site))


def parts_of(rows: int) -> Iterator[slice]:
    """Yield slices that together cover so many rows."""
    for start in range(0, rows, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, rows))
