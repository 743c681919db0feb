"""How a site decides, as one value that is checked when it is built.

CoS           the paper's algorithm: equal cells, by quota
CellKLUCB     equal cells, by an index: explores only where an arm may still be the best
CellThompson  equal cells, by sampling what an arm may be worth
Zooming       the paper's adaptive version: cubes that split, by quota
ZoomingKLUCB  cubes that split where two arms are hard to tell apart, by an index
MixedViews    (mixed.py) every part of the context forecasts, and the forecasts are mixed

Around any of them but the last:
ChangeAware       restarts what it knows of an arm that has changed
ContextSelection  finds out which part of the context to trust
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cosend.core.checks import check_between, check_kind, check_number, check_one_of, make_plain
from cosend.core.kernel import bookkeeping as rules
from cosend.core.kernel import columns as col
from cosend.core.kernel import cubes
from cosend.core.kernel.changes import WINDOW_COLUMNS
from cosend.core.kernel.ledger import Ledger
from cosend.core.kernel.partition import slices_for
from cosend.core.policy.mixed import MixedViews
from cosend.core.policy.parts import ByIndex, ByQuota, Doubling, EqualCells, Policy, ShareLabels, SplitCubes
from cosend.errors import SettingError

Arrivals = Literal["uniform", "concentrated"]
MOST_CANDIDATES: Final = 32
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
class CellThompson(CellKLUCB):
    """Thompson sampling: in every cell, draw what each arm may be worth and use the best draw, net of its cost.

    The belief about an arm in a new cell begins with the arm's mean over all cells, counted as a single reward. The
    options are those of `CellKLUCB`.
    """

    def views(self, dimensions: int, categories: int = 0) -> tuple[int, ...]:
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


@dataclass(frozen=True)
class Wrapper(Policy):
    """Another policy, with something added."""

    policy: Policy

    def __post_init__(self) -> None:
        make_plain(self)
        check_kind(f"the policy inside {type(self).__name__}", self.policy, Policy, "a policy, for example CellKLUCB()")
        if self.policy.mixes:
            raise SettingError(f"the policy inside {type(self).__name__}", self.policy, "one that does not mix views")

    @property
    def share_labels(self) -> ShareLabels:
        """As the policy inside."""
        return self.policy.share_labels

    @property
    def doubles(self) -> bool:
        """As the policy inside."""
        return self.policy.doubles

    @property
    def keeps(self) -> bool:
        """As the policy inside."""
        return self.policy.keeps

    @property
    def first_horizon(self) -> int:
        """As the policy inside."""
        return self.policy.first_horizon

    @property
    def reward_columns(self) -> int:
        """As the policy inside."""
        return self.policy.reward_columns

    def views(self, dimensions: int, categories: int = 0) -> tuple[int, ...]:
        """Return the views of the policy inside."""
        return self.policy.views(dimensions)

    def candidate_count(self, dimensions: int) -> int:
        """Return what the policy inside does."""
        return self.policy.candidate_count(dimensions)

    def slices_at(self, horizon: int, axes: int) -> int:
        """Return what the policy inside does."""
        return self.policy.slices_at(horizon, axes)

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        self.policy.write_to(ledger, dimensions, announced_functions)

    def facts(self) -> dict[str, Any]:
        """Return the settings as plain data, with the name of the policy."""
        return {"name": type(self).__name__, **vars(self), "policy": self.policy.facts()}


@dataclass(frozen=True)
class ChangeAware(Wrapper):
    """A policy that notices when an arm has changed in a cell, and restarts that estimate from its recent rewards.

    policy  what decides
    rising  arms may get better while nobody uses them, as peers do that learn: look at each now and then, for at most a
            twentieth of the errors, and be optimistic about one that grows

    >>> ChangeAware(ZoomingKLUCB()).facts()["policy"]["name"]
    'ZoomingKLUCB'
    """

    rising: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rising, bool):
            raise SettingError("rising", self.rising, "True or False")

    @property
    def reward_columns(self) -> int:
        """Sum, count and mean, and the window of recent rewards."""
        return WINDOW_COLUMNS

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, announced_functions)
        ledger.site[col.NOTICES], ledger.site[col.RISING] = True, self.rising


@dataclass(frozen=True)
class ContextSelection(Wrapper):
    """A policy that finds out which part of the context to trust.

    policy      what decides, in the cells of the part that is trusted
    candidates  the parts: for each the numbers of its axes, and () for none at all. "auto" is each axis alone, and all
    """

    policy: Policy = field(default_factory=ZoomingKLUCB)
    candidates: Literal["auto"] | tuple[tuple[int, ...], ...] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "candidates", _checked(self.candidates))

    def parts(self, dimensions: int) -> tuple[tuple[int, ...], ...]:
        """Return the candidates for contexts of so many dimensions, each as the numbers of its axes."""
        if self.candidates == "auto":
            every = tuple(range(dimensions))
            return tuple(dict.fromkeys([*((axis,) for axis in every), every]))
        for axes in self.candidates:
            if axes and max(axes) >= dimensions:
                raise SettingError("candidates", axes, f"numbers of axes, 0 to {dimensions - 1}")
        return self.candidates

    def views(self, dimensions: int, categories: int = 0) -> tuple[int, ...]:
        """Return a view for each candidate, and those that the policy inside has beside its first."""
        everything, *others = self.policy.views(dimensions)
        time_axis = everything & (1 << dimensions)
        return (*(sum(1 << axis for axis in axes) | time_axis for axes in self.parts(dimensions)), *others)

    def candidate_count(self, dimensions: int) -> int:
        """Return how many candidates there are."""
        return len(self.parts(dimensions))

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, announced_functions)
        ledger.site[col.VIEWS] = len(self.views(dimensions))
        ledger.site[col.CANDIDATES] = self.candidate_count(dimensions)
        ledger.site[col.STEADY] = False


def _checked(candidates: Any) -> Literal["auto"] | tuple[tuple[int, ...], ...]:
    """Return candidates as tuples, or raise."""
    if isinstance(candidates, str) and candidates == "auto":
        return "auto"
    allowed = "'auto', or for each candidate the numbers of its axes: [(0,), (1,), (0, 1), ()]"
    try:
        parts = tuple(tuple(sorted(axes)) for axes in candidates)
    except TypeError:
        raise SettingError("candidates", candidates, allowed) from None
    whole = all(type(axis) is int and axis >= 0 for axes in parts for axis in axes)
    whole = whole and all(len(set(axes)) == len(axes) for axes in parts)
    if not whole or not 1 <= len(parts) <= MOST_CANDIDATES or len(set(parts)) != len(parts):
        raise SettingError("candidates", candidates, f"{allowed}; all different, at most {MOST_CANDIDATES}")
    return parts


POLICIES: Final[dict[str, type[Policy]]] = {
    policy.__name__: policy
    for policy in (CoS, CellKLUCB, CellThompson, Zooming, ZoomingKLUCB, MixedViews, ChangeAware, ContextSelection)
}


def policy_from(facts: dict[str, Any]) -> Policy:
    """Return the policy that `facts` were taken from."""
    settings = dict(facts)
    name = settings.pop("name")
    check_one_of("policy", name, POLICIES)
    if POLICIES[name] is MixedViews:
        settings.setdefault("adds_up", False)  # facts from before there was this option
    if "policy" in settings:
        settings["policy"] = policy_from(settings["policy"])
    return POLICIES[name](**settings)
