"""How a site decides, as one value that is checked when it is built.

CoS           the paper's algorithm: equal cells, by quota
CellKLUCB     equal cells, by an index: explores only where an arm may still be the best
Zooming       the paper's adaptive version: cubes that split, by quota
ZoomingKLUCB  cubes that split where two arms are hard to tell apart, by an index
MixedViews    (mixed.py) every part of the context forecasts, and the forecasts are mixed
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

from cosend.core.checks import check_between, check_number, check_one_of
from cosend.core.kernel import bookkeeping as rules
from cosend.core.kernel import columns as col
from cosend.core.kernel import cubes
from cosend.core.kernel.ledger import Ledger
from cosend.core.kernel.partition import slices_for
from cosend.core.policy.mixed import MixedViews
from cosend.core.policy.parts import ByIndex, ByQuota, Doubling, EqualCells, Policy, SplitCubes

Arrivals = Literal["uniform", "concentrated"]
STEEPEST: Final = 1e300  # twice that is still a number


@dataclass(frozen=True, kw_only=True)
class CoS(ByQuota, EqualCells):
    """The paper's algorithm: train peers, explore and exploit by quota, in equal cells of the context space.

    exploration_exponent    z in the quota t^z ln t; None derives it from alpha and the number of axes

    The other options are those of `ByQuota`, `EqualCells` and `BasePolicy`.

    >>> CoS(horizon=10_000).slices_at(10_000, 1)  # T^(1/(3 alpha + d)) slices of the one axis
    10
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

    lipschitz  how steep accuracies are in the context: |difference| <= lipschitz * distance^alpha; if in doubt, too
               large. `split_after` (labels, not items) and `inherit` are divided by its square

    The other options are those of `ByIndex`, `SplitCubes` and `BasePolicy`.

    >>> ZoomingKLUCB(lipschitz=-1)
    Traceback (most recent call last):
    cosend.errors.SettingError: lipschitz must be a number above 0 and at most 1e+300, got -1
    """

    split_after: float = 16.0
    inherit: float = 8.0
    lipschitz: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("lipschitz", self.lipschitz, STEEPEST)

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay.

        A cube hides lipschitz * side^alpha, and n rewards leave 1/sqrt(n) to chance: they are equal at n proportional
        to lipschitz^-2 side^(-2 alpha).
        """
        super().write_to(ledger, dimensions, announced_functions)
        known = ledger.parameters
        known[col.SPLIT_AFTER] = self.split_after / self.lipschitz / self.lipschitz
        known[col.INHERITED] = self.inherit / self.lipschitz / self.lipschitz
        known[col.STEEPNESS] = 2.0 * self.lipschitz  # two arms, in opposite directions
        ledger.site[col.RULE] = rules.BY_KL_INDEX
        ledger.site[col.ZOOMS] = cubes.IF_UNRESOLVED


POLICIES: Final[dict[str, type[Policy]]] = {
    policy.__name__: policy for policy in (CoS, CellKLUCB, Zooming, ZoomingKLUCB, MixedViews)
}


def policy_from(facts: dict[str, Any]) -> Policy:
    """Return the policy that `facts` were taken from."""
    settings = dict(facts)
    name = settings.pop("name")
    check_one_of("policy", name, POLICIES)
    return POLICIES[name](**settings)
