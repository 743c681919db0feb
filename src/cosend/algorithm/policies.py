"""How a site decides, as one value that is checked when it is built.

CoS           the paper's algorithm: equal cells, by quota
CellKLUCB     equal cells, by an index: explores only where an arm may still be the best
Zooming       the paper's adaptive version: cubes that split, by quota
ZoomingKLUCB  cubes that split where two arms are hard to tell apart, by an index
MixedViews    every part of the context forecasts, and the forecasts are mixed

The first four are made of a partition (`EqualCells` or `SplitCubes`) and a rule (`ByQuota` or `ByIndex`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final, Literal, cast, get_args

from cosend.algorithm import cells, cos
from cosend.algorithm import layout as col
from cosend.algorithm.cells import LARGEST_KEY, slices_for, slices_within
from cosend.algorithm.cos import exponent_for
from cosend.algorithm.layout import BY_KL_INDEX, BY_MIXTURE, BY_QUOTA, MOST, Ledger
from cosend.algorithm.mixture import SAME
from cosend.algorithm.mixture_views import plans_for, view_that_reports
from cosend.algorithm.values import ScoreLocal
from cosend.checks import check_between, check_kind, check_number, check_one_of, check_whole, make_plain
from cosend.errors import SettingError

Order = Literal["pseudocode", "random", "train_first"]
TrainingCount = Literal["reported", "own_and_mine"]
ShareLabels = Literal["training", "always", "never"]
Arrivals = Literal["uniform", "concentrated"]

ORDER_CODES: Final = {"pseudocode": cos.PSEUDOCODE, "random": cos.RANDOM, "train_first": cos.TRAIN_FIRST}
MOST_CUBE_AXES: Final = 24  # a child's key has a bit for every axis and its parent's row
LN2: Final = math.log(2.0)

# Larger values help nobody, and the compiled rules could not count that far.
MOST_ITEMS: Final = 10**15  # 30 years of a million items a second
MOST_CELLS: Final = MOST
MOST_FUNCTIONS: Final = 10**6
LARGEST_ALPHA: Final = 10.0
LARGEST_NUMBER: Final = 1e9  # of rewards or items that an option counts
LARGEST_BONUS: Final = 1e6
STEEPEST: Final = 1e300  # twice that is still a number

DEFAULT_CELLS: Final = 200_000  # of all views, unless a policy says otherwise: 55 MB with five arms


class Policy(ABC):
    """What a learner needs of a policy."""

    mixes: ClassVar[bool] = False  # forecasts of all views are mixed; else one view decides
    horizon: int | None = None
    max_cells: int | None
    share_labels: ShareLabels  # forward a label to the peer after training calls only, after every call, or never

    @property
    def doubles(self) -> bool:
        """Whether the horizon is guessed, and the cells are laid out again whenever the guess doubles."""
        return False

    @property
    def keeps(self) -> bool:
        """Whether what is known is kept when a cell is replaced by smaller ones."""
        return True

    def views(self, dimensions: int, categories: int = 0) -> tuple[int, ...]:
        """Return the axes of every view as bits; `categories` are the axes that have codes, as bits too."""
        return ((1 << dimensions) - 1,)

    def slices_at(self, horizon: int, axes: int) -> int:
        """Return the slices per axis of a view with this many axes, for a horizon."""
        return 1

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        site = ledger.site
        ledger.parameters[:] = 0.0  # a quota that is known already may be another one now
        site[col.DIMENSIONS], site[col.KEEPS] = dimensions, self.keeps
        site[col.MAX_PEER_FUNCTIONS] = announced_functions
        site[col.VIEWS] = len(ledger.views)
        site[col.MAX_ROWS] = MOST
        self._write(ledger, dimensions)

    @abstractmethod
    def _write(self, ledger: Ledger, dimensions: int) -> None: ...

    def facts(self) -> dict[str, Any]:
        """Return the settings as plain data, with the name of the policy."""
        return {"name": type(self).__name__, **asdict(cast("Any", self))}


@dataclass(frozen=True, kw_only=True)
class BasePolicy(Policy):
    """The options of all policies that go by cells.

    horizon       how many items the site will see, if that is known
    alpha         how smooth accuracies are in the context: |difference| <= L * distance^alpha
    max_cells     a memory limit: at most this many cells (each takes about 50 bytes per arm), or None
    share_labels  forward the label to a peer after training calls only, after every call, or never
    """

    horizon: int | None = None
    alpha: float = 1.0
    max_cells: int | None = None
    share_labels: ShareLabels = "training"

    def __post_init__(self) -> None:
        make_plain(self)
        for setting, most in (("horizon", MOST_ITEMS), ("max_cells", MOST_CELLS)):
            if getattr(self, setting) is not None:
                check_whole(setting, getattr(self, setting), most=most)
        check_number("alpha", self.alpha, LARGEST_ALPHA)
        check_one_of("share_labels", self.share_labels, get_args(ShareLabels))

    def _write(self, ledger: Ledger, dimensions: int) -> None:
        site = ledger.site
        ledger.parameters[col.EXPONENT] = exponent_for(self.alpha, _measured(ledger, dimensions))
        site[col.DOUBLING], site[col.STEADY], site[col.ZOOMS] = self.doubles, not self.doubles, cells.NEVER


def _measured(ledger: Ledger, dimensions: int) -> int:
    """Return how many of the axes are numbers: categories are not cut, so no rate depends on them."""
    return dimensions - int(ledger.site[col.CATEGORIES]).bit_count()


@dataclass(frozen=True, kw_only=True)
class EqualCells(BasePolicy):
    """The context space in equal cells.

    slices  cells per axis; None derives it from horizon, alpha and the number of axes. Without a horizon that is
            guessed, and the guess doubles
    """

    slices: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slices is not None:
            check_whole("slices", self.slices, most=LARGEST_KEY)

    @property
    def doubles(self) -> bool:
        """Whether the horizon is guessed: neither it nor the slices are given."""
        return self.horizon is None and self.slices is None

    def derived_slices(self, horizon: int, axes: int) -> int:
        """Return the slices per axis that the theory asks for."""
        return slices_for(horizon, 3 * self.alpha + axes)

    def slices_at(self, horizon: int, axes: int) -> int:
        """Return the slices per axis, within the limit of memory."""
        if axes == 0:
            return 1
        slices = self.slices or self.derived_slices(horizon, axes)
        if self.max_cells is not None:
            slices = min(slices, slices_within(self.max_cells, axes))
        if slices**axes > LARGEST_KEY:
            raise SettingError("max_cells", self.max_cells, f"given: {slices} slices on {axes} axes are too many")
        return slices


@dataclass(frozen=True, kw_only=True)
class SplitCubes(BasePolicy):
    """The context space in cubes that split in two on every axis where many items come.

    split_after  how many items the whole must see before it splits; a cube of half the size 2^r times as many, where r
                 is `split_rate`
    inherit      how many rewards of each arm a part of the whole takes over at most; a part of a cube of half the size
                 4^alpha times as many; 0 starts over
    """

    split_after: float = 1.0
    inherit: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("split_after", self.split_after, LARGEST_NUMBER)
        check_number("inherit", self.inherit, LARGEST_NUMBER, or_0=True)

    @property
    def keeps(self) -> bool:
        """Whether a new cube starts from what its parent knows."""
        return self.inherit > 0

    def slices_at(self, horizon: int, axes: int) -> int:
        """Return 1: cubes are cut by halves, wherever items come."""
        if axes > MOST_CUBE_AXES:
            raise SettingError("the axes of a context", axes, f"at most {MOST_CUBE_AXES} when cells are split")
        return 1

    def split_rate(self, dimensions: int) -> float:
        """Return r: a cube of level p splits after split_after * 2^(r p) items (labels, if it goes by index)."""
        return 2 * self.alpha

    def _write(self, ledger: Ledger, dimensions: int) -> None:
        super()._write(ledger, dimensions)
        known = ledger.parameters
        known[col.SPLIT_AFTER] = self.split_after
        known[col.SPLIT_RATE] = self.split_rate(_measured(ledger, dimensions)) * LN2
        known[col.ZOOM_RATE], known[col.SIDE_RATE] = 2 * self.alpha * LN2, self.alpha * LN2
        known[col.INHERITED] = self.inherit
        ledger.site[col.ZOOMS], ledger.site[col.STEADY] = cells.BY_ARRIVALS, False
        if self.max_cells is not None:
            ledger.site[col.MAX_ROWS] = self.max_cells


@dataclass(frozen=True, kw_only=True)
class ByQuota(BasePolicy):
    """The paper's rule: an arm that has fewer samples than its quota gets one.

    max_peer_functions  how many models a peer has at most; None takes what the peers announce
    order               which arm is tried first when several are owed a sample
    training_count      what counts as a peer's labelled data: all it reports, or its own and what this site sent
    """

    max_peer_functions: int | None = None
    order: Order = "pseudocode"
    training_count: TrainingCount = "reported"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_peer_functions is not None:
            check_whole("max_peer_functions", self.max_peer_functions, most=MOST_FUNCTIONS)
        check_one_of("order", self.order, get_args(Order))
        check_one_of("training_count", self.training_count, get_args(TrainingCount))
        if self.share_labels == "never":
            raise SettingError("share_labels", "never", f"'training' or 'always': {type(self).__name__} trains peers")

    def _write(self, ledger: Ledger, dimensions: int) -> None:
        super()._write(ledger, dimensions)
        site = ledger.site
        site[col.RULE], site[col.ORDER] = BY_QUOTA, ORDER_CODES[self.order]
        site[col.COUNTS_MINE_ONLY] = self.training_count == "own_and_mine"
        if self.max_peer_functions is not None:
            site[col.MAX_PEER_FUNCTIONS] = self.max_peer_functions


@dataclass(frozen=True, kw_only=True)
class ByIndex(BasePolicy):
    """An arm is explored only as long as it may be the best.

    Labels are forwarded after every call unless `share_labels` says otherwise: docs/contributing/0001 has the reasons.
    """

    share_labels: ShareLabels = "always"

    def _write(self, ledger: Ledger, dimensions: int) -> None:
        super()._write(ledger, dimensions)
        ledger.site[col.RULE] = BY_KL_INDEX


@dataclass(frozen=True, kw_only=True)
class CoS(ByQuota, EqualCells):
    """The paper's algorithm: train peers, explore and exploit by quota, in equal cells of the context space.

    exploration_exponent  z in the quota t^z ln t; None derives it from alpha and the number of axes

    The other options are those of `ByQuota`, `EqualCells` and `BasePolicy`. All counts start at 0 when the guessed
    horizon doubles, as in the theorem.

    >>> CoS(horizon=10_000).slices_at(10_000, 1)  # T^(1/(3 alpha + d)) slices of the one axis
    10
    """

    exploration_exponent: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exploration_exponent is not None:
            check_between("exploration_exponent", self.exploration_exponent, 0.0, 1.0, "in (0, 1)")

    @property
    def keeps(self) -> bool:
        """Not the counts of cells that were laid out again."""
        return False

    def _write(self, ledger: Ledger, dimensions: int) -> None:
        super()._write(ledger, dimensions)
        if self.exploration_exponent is not None:
            ledger.parameters[col.EXPONENT] = self.exploration_exponent


@dataclass(frozen=True, kw_only=True)
class CellKLUCB(ByIndex, EqualCells):
    """An index policy: in every cell, use the arm whose mean could still be the highest, net of its cost.

    It explores an arm only as long as it may be the best there, which costs far less than the quotas of `CoS`. The
    options are those of `ByIndex`, `EqualCells` and `BasePolicy`. The counts are kept when the guessed horizon doubles.
    """

    def derived_slices(self, horizon: int, axes: int) -> int:
        """Return m = ceil(T^(1/(2 alpha + d))), which balances the regret of an index policy."""
        return slices_for(horizon, 2 * self.alpha + axes)


@dataclass(frozen=True, kw_only=True)
class Zooming(ByQuota, SplitCubes):
    """The paper's adaptive version (DCZA): cubes that split where items are, by quotas that grow with the level.

    contexts  "uniform" or "concentrated": the distribution for which the rate of splitting is the best

    The other options are those of `ByQuota`, `SplitCubes` and `BasePolicy`.
    """

    contexts: Arrivals = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of("contexts", self.contexts, get_args(Arrivals))

    def split_rate(self, dimensions: int) -> float:
        """Return rho: (3 alpha + sqrt(9 alpha^2 + 8 alpha d)) / 2, or 3 alpha when contexts concentrate."""
        if self.contexts == "concentrated":
            return 3 * self.alpha
        return (3 * self.alpha + math.sqrt(9 * self.alpha**2 + 8 * self.alpha * dimensions)) / 2


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

    def _write(self, ledger: Ledger, dimensions: int) -> None:
        super()._write(ledger, dimensions)
        known = ledger.parameters
        # A cube hides lipschitz * side^alpha, and n rewards leave 1/sqrt(n) to chance: they are equal at n proportional
        # to lipschitz^-2 side^(-2 alpha).
        known[col.SPLIT_AFTER] = self.split_after / self.lipschitz / self.lipschitz
        known[col.INHERITED] = self.inherit / self.lipschitz / self.lipschitz
        known[col.STEEPNESS] = 2.0 * self.lipschitz  # two arms, in opposite directions
        ledger.site[col.ZOOMS] = cells.IF_UNRESOLVED


@dataclass(frozen=True, kw_only=True)
class MixedViews(Policy):
    """Mix what all parts of the context forecast; needs neither a horizon nor the right context.

    max_cells     a memory limit: at most this many cells of all views together, or None
    share         of the weight that is spread over all views at a label, so that none is lost when things change; less
                  of it where gains are noise
    bonus         optimism for arms that labels do not score unless they are used: peers, mostly. Arms that cost
                  something lose it once 50 items, and one in a hundred of all, were paid for only to learn about them
    home_margin   by how much a peer must be better than the local models
    share_labels  forward the label to a peer after training calls only, after every call, or never
    adds_up       mix in one view more, a logistic regression: it adds up what the cells of an item in all other views
                  say about an arm. Better where several features say something together

    It is at its best where labels score all local models (`score_local="all"`).
    """

    mixes: ClassVar[bool] = True
    max_cells: int | None = None
    share: float = 0.035
    bonus: float = 0.05
    home_margin: float = 0.02
    share_labels: ShareLabels = "always"
    adds_up: bool = True

    def __post_init__(self) -> None:
        make_plain(self)
        if self.max_cells is not None:
            check_whole("max_cells", self.max_cells, most=MOST_CELLS)
        check_between("share", self.share, 0.0, 1.0, "in (0, 1)")
        check_number("bonus", self.bonus, LARGEST_BONUS, or_0=True)
        check_number("home_margin", self.home_margin, 1.0, or_0=True)
        check_one_of("share_labels", self.share_labels, get_args(ShareLabels))
        check_kind("adds_up", self.adds_up, bool, "True or False")

    def views(self, dimensions: int, categories: int = 0) -> tuple[int, ...]:
        """Return the axes of every view as bits."""
        return tuple(sum(1 << axis for axis in plan.axes) for plan in plans_for(dimensions, categories, self.adds_up))

    def _write(self, ledger: Ledger, dimensions: int) -> None:
        site, known = ledger.site, ledger.parameters
        plans = plans_for(dimensions, int(site[col.CATEGORIES]), self.adds_up)
        known[col.SHARE], known[col.BONUS], known[col.MARGIN] = self.share, self.bonus, self.home_margin
        known[col.SAME_VIEW] = next((n for n, view in enumerate(ledger.views) if view[col.VIEW_KIND] == SAME), 0)
        site[col.RULE], site[col.REPORTS] = BY_MIXTURE, view_that_reports(plans, dimensions)
        if self.max_cells is not None:
            site[col.MAX_ROWS] = self.max_cells


POLICIES: Final[dict[str, type[Policy]]] = {
    policy.__name__: policy for policy in (CoS, CellKLUCB, Zooming, ZoomingKLUCB, MixedViews)
}


def policy_from(facts: dict[str, Any]) -> Policy:
    """Return the policy that `facts` were taken from."""
    settings = dict(facts)
    name = settings.pop("name")
    check_one_of("policy", name, POLICIES)
    return POLICIES[name](**settings)


def with_labels_shared(policy: Policy, share_labels: ShareLabels | None) -> Policy:
    """Return a policy that forwards labels as a site says; as it is if the site says nothing."""
    if share_labels is None or share_labels == policy.share_labels:
        return policy
    changed: Policy = replace(cast("Any", policy), share_labels=share_labels)
    return changed


def how_to_decide(policy: Policy | None, score_local: ScoreLocal | None) -> tuple[Policy, ScoreLocal]:
    """Return the policy of a site, and which local models a label scores, where the caller does not say.

    A policy that is named is used as it is meant: `CoS` learns from the arm it used.

    >>> how_to_decide(None, None) == (MixedViews(max_cells=DEFAULT_CELLS), "all")
    True
    >>> how_to_decide(CoS(horizon=100), None)[1]
    'used'
    """
    if score_local is None:
        score_local = "all" if policy is None else "used"
    return MixedViews(max_cells=DEFAULT_CELLS) if policy is None else policy, score_local
