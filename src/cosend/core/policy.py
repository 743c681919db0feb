"""How a site decides, as one value that is checked when it is built.

CoS           the paper's algorithm: equal cells, by quota
CellKLUCB     equal cells, by an index: explores only where an arm may still be the best
CellThompson  equal cells, by sampling what an arm may be worth
Zooming       the paper's adaptive version: cubes that split, by quota
ZoomingKLUCB  cubes that split where two arms are hard to tell apart, by an index
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

from cosend.core import columns as col
from cosend.core import cubes, rules
from cosend.core.checks import check_between, check_one_of
from cosend.core.ledger import Ledger
from cosend.core.partition import slices_for
from cosend.core.policy_parts import ByIndex, ByQuota, Doubling, EqualCells, Policy, SplitCubes

Arrivals = Literal["uniform", "concentrated"]


@dataclass(frozen=True, kw_only=True)
class CoS(ByQuota, EqualCells):
    """The paper's algorithm: train peers, explore and exploit by quota, in equal cells of the context space.

    exploration_exponent    z in the quota t^z ln t; None derives it from alpha and the number of axes

    The other options are those of `ByQuota`, `EqualCells` and `BasePolicy`.
    """

    exploration_exponent: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exploration_exponent is not None:
            check_between("exploration_exponent", self.exploration_exponent, 0.0, 1.0, "in (0, 1)")

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, announced_functions)
        ledger.site[col.RULE] = rules.BY_QUOTA
        if self.exploration_exponent is not None:
            ledger.parameters[col.EXPONENT] = self.exploration_exponent


@dataclass(frozen=True, kw_only=True)
class CellKLUCB(ByIndex, EqualCells):
    """An index policy: in every cell, use the arm whose mean could still be the highest, net of its cost.

    It explores an arm only as long as it may be the best there, which costs far less than the quotas of `CoS`. The
    options are those of `ByIndex`, `EqualCells` and `BasePolicy`; the counts are kept by default when the guessed
    horizon doubles.
    """

    doubling: Doubling = "keep"

    def derived_slices(self, horizon: int, axes: int) -> int:
        """Return m = ceil(T^(1/(2 alpha + d))), which balances the regret of an index policy."""
        return slices_for(horizon, 2 * self.alpha + axes)

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, announced_functions)
        ledger.site[col.RULE] = rules.BY_KL_INDEX


@dataclass(frozen=True, kw_only=True)
class CellThompson(CellKLUCB):
    """Thompson sampling: in every cell, draw what each arm may be worth and use the best draw, net of its cost.

    The belief about an arm in a new cell begins with the arm's mean over all cells, counted as a single reward. The
    options are those of `CellKLUCB`.
    """

    def views(self, dimensions: int) -> tuple[int, ...]:
        """Return the view of all axes, and that of none, which the prior comes from."""
        return (*super().views(dimensions), 0)

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, announced_functions)
        ledger.site[col.RULE] = rules.BY_SAMPLE


@dataclass(frozen=True, kw_only=True)
class Zooming(ByQuota, SplitCubes):
    """The paper's adaptive version (DCZA): cubes that split where items come, by quotas that grow with the level.

    contexts  "uniform" or "concentrated": what the rate of splitting is the best for

    The other options are those of `ByQuota`, `SplitCubes` and `BasePolicy`.
    """

    contexts: Arrivals = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of("contexts", self.contexts, ("uniform", "concentrated"))

    def split_rate(self, dimensions: int) -> float:
        """Return rho: (3 alpha + sqrt(9 alpha^2 + 8 alpha d)) / 2, or 3 alpha when contexts concentrate."""
        if self.contexts == "concentrated":
            return 3 * self.alpha
        axes = self.axes(dimensions)
        return (3 * self.alpha + math.sqrt(9 * self.alpha**2 + 8 * self.alpha * axes)) / 2

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, announced_functions)
        ledger.site[col.RULE] = rules.BY_QUOTA


@dataclass(frozen=True, kw_only=True)
class ZoomingKLUCB(ByIndex, SplitCubes):
    """An index policy in cubes that split where two arms are hard to tell apart; no horizon is needed.

    The options are those of `ByIndex`, `SplitCubes` and `BasePolicy`.
    """

    split_after: float = 4.0
    inherit: float = 2.0

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, announced_functions)
        ledger.site[col.RULE] = rules.BY_KL_INDEX
        ledger.site[col.ZOOMS] = cubes.IF_UNRESOLVED


POLICIES: Final[dict[str, type[Policy]]] = {
    policy.__name__: policy for policy in (CoS, CellKLUCB, CellThompson, Zooming, ZoomingKLUCB)
}


def policy_from(facts: dict[str, Any]) -> Policy:
    """Return the policy that `facts` were taken from."""
    settings = dict(facts)
    name = settings.pop("name")
    check_one_of("policy", name, POLICIES)
    return POLICIES[name](**settings)


@dataclass(frozen=True, kw_only=True)
class Sel(CellKLUCB):
    masks: tuple[int, ...] = (1, 2, 4)
    memory: float = 0.999

    def views(self, dimensions: int) -> tuple[int, ...]:
        return self.masks

    def candidate_count(self, dimensions: int) -> int:
        return len(self.masks)

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        super().write_to(ledger, dimensions, announced_functions)
        ledger.parameters[col.MEMORY] = self.memory


@dataclass(frozen=True, kw_only=True)
class SelZ(ZoomingKLUCB):
    masks: tuple[int, ...] = (1, 2, 4)
    memory: float = 0.999

    def views(self, dimensions: int) -> tuple[int, ...]:
        return self.masks

    def candidate_count(self, dimensions: int) -> int:
        return len(self.masks)

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        super().write_to(ledger, dimensions, announced_functions)
        ledger.parameters[col.MEMORY] = self.memory
