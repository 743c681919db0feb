"""How a site decides, as one value that is checked when it is built.

CellPolicy   what all have in common: cells, how fine they are, and what happens when the horizon is unknown
CoS          the paper's algorithm: train, explore and exploit by quota
CellKLUCB    an index policy in the same cells: explores only where an arm may still be the best
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from cosend.core import columns as col
from cosend.core import rules
from cosend.core.checks import check_between, check_one_of, check_whole
from cosend.core.ledger import Ledger
from cosend.core.partition import LARGEST_KEY, slices_for, slices_within
from cosend.core.quotas import exponent_for
from cosend.errors import SettingError

Order = Literal["pseudocode", "random", "train_first"]
TrainingCount = Literal["reported", "own_and_mine"]
Doubling = Literal["reset", "keep"]
ShareLabels = Literal["training", "always"]

ORDER_CODES: Final = {
    "pseudocode": rules.PSEUDOCODE,
    "random": rules.RANDOM,
    "train_first": rules.TRAIN_FIRST,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CellPolicy:
    """What all policies that learn cell by cell have in common.

    horizon         how many items the site will see; None doubles a guess as the stream goes on
    alpha           how smooth accuracies are in the context: |difference| <= L * distance^alpha
    slices          cells per axis; None derives it from horizon, alpha and the number of axes
    max_cells       a memory limit: at most so many cells (each takes about 50 bytes per arm), or None
    doubling        what happens to the counts when the guessed horizon doubles
    time_dimension  time as one more axis, for classifiers that learn and for drift
    share_labels    pass the label on to a peer after training calls only, or after every call
    """

    horizon: int | None = None
    alpha: float = 1.0
    slices: int | None = None
    max_cells: int | None = None
    doubling: Doubling = "reset"
    time_dimension: bool = False
    share_labels: ShareLabels = "training"

    def __post_init__(self) -> None:
        for setting in ("horizon", "slices", "max_cells"):
            if getattr(self, setting) is not None:
                check_whole(setting, getattr(self, setting))
        check_between("alpha", self.alpha, 0.0, math.inf, "a number above 0")
        check_one_of("doubling", self.doubling, get_args(Doubling))
        check_one_of("share_labels", self.share_labels, get_args(ShareLabels))
        if not isinstance(self.time_dimension, bool):
            raise SettingError("time_dimension", self.time_dimension, "True or False")
        self._check_time_dimension()

    def _check_time_dimension(self) -> None:
        if not self.time_dimension or self.horizon is not None:
            return
        if self.slices is not None:
            raise SettingError("time_dimension", True, "used with a horizon when slices are given")
        if self.doubling == "keep":
            raise SettingError("time_dimension", True, "used with a horizon or with doubling='reset'")

    @property
    def doubles(self) -> bool:
        """Whether the horizon is guessed: neither it nor the slices are given."""
        return self.horizon is None and self.slices is None

    def axes(self, dimensions: int) -> int:
        """Return how many axes the partition has for contexts of so many dimensions."""
        return dimensions + self.time_dimension

    def derived_slices(self, horizon: int, axes: int) -> int:
        """Return the slices per axis that the theory asks for."""
        return slices_for(horizon, 3 * self.alpha + axes)

    def slices_at(self, horizon: int, dimensions: int) -> int:
        """Return the slices per axis for a horizon."""
        axes = self.axes(dimensions)
        slices = self.slices or self.derived_slices(horizon, axes)
        if self.max_cells is not None:
            slices = min(slices, slices_within(self.max_cells, axes))
        if slices**axes > LARGEST_KEY:
            raise SettingError("max_cells", self.max_cells, f"given: {slices} slices on {axes} axes are too many")
        return slices

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        site = ledger.site
        ledger.parameters[:] = 0.0  # a quota that is known already may be another one now
        ledger.parameters[col.EXPONENT] = exponent_for(self.alpha, self.axes(dimensions))
        site[col.DIMENSIONS] = dimensions
        site[col.TIMED] = self.time_dimension
        site[col.DOUBLING] = self.doubles
        site[col.MAX_PEER_FUNCTIONS] = announced_functions

    def facts(self) -> dict[str, Any]:
        """Return the settings as plain data, with the name of the policy."""
        return {"name": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True, slots=True)
class CoS(CellPolicy):
    """The paper's algorithm: train peers, explore and exploit by quota, in equal cells of the context space.

    exploration_exponent    z in the quota t^z ln t; None derives it from alpha and the number of axes
    max_peer_functions      how many classifiers a peer has at most; None takes what the peers announce
    order                   what comes first when several arms are owed a sample
    training_count          what counts as a peer's labelled data: all it reports, or its own and what this site sent

    The other options are those of every `CellPolicy`.
    """

    exploration_exponent: float | None = None
    max_peer_functions: int | None = None
    order: Order = "pseudocode"
    training_count: TrainingCount = "reported"

    def __post_init__(self) -> None:
        CellPolicy.__post_init__(self)
        if self.max_peer_functions is not None:
            check_whole("max_peer_functions", self.max_peer_functions)
        if self.exploration_exponent is not None:
            check_between("exploration_exponent", self.exploration_exponent, 0.0, 1.0, "in (0, 1)")
        check_one_of("order", self.order, get_args(Order))
        check_one_of("training_count", self.training_count, get_args(TrainingCount))

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        CellPolicy.write_to(self, ledger, dimensions, self.max_peer_functions or announced_functions)
        ledger.site[col.RULE] = rules.BY_QUOTA
        ledger.site[col.ORDER] = ORDER_CODES[self.order]
        ledger.site[col.COUNTS_MINE_ONLY] = self.training_count == "own_and_mine"
        if self.exploration_exponent is not None:
            ledger.parameters[col.EXPONENT] = self.exploration_exponent


@dataclass(frozen=True, kw_only=True, slots=True)
class CellKLUCB(CellPolicy):
    """An index policy: in every cell, use the arm whose mean could still be the highest, net of its cost.

    It explores an arm only as long as it may be the best there, which costs far less than the quotas of `CoS`. Nothing
    is trained: peers learn from their own items, and from every call with `share_labels="always"`. The options are
    those of every `CellPolicy`; the counts are kept by default when the guessed horizon doubles.
    """

    doubling: Doubling = "keep"

    def derived_slices(self, horizon: int, axes: int) -> int:
        """Return m = ceil(T^(1/(2 alpha + d))), which balances the regret of an index policy."""
        return slices_for(horizon, 2 * self.alpha + axes)

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        CellPolicy.write_to(self, ledger, dimensions, announced_functions)
        ledger.site[col.RULE] = rules.BY_KL_INDEX


POLICIES: Final[dict[str, type[CellPolicy]]] = {policy.__name__: policy for policy in (CoS, CellKLUCB)}


def policy_from(facts: dict[str, Any]) -> CellPolicy:
    """Return the policy that `facts` were taken from."""
    settings = dict(facts)
    name = settings.pop("name")
    check_one_of("policy", name, POLICIES)
    return POLICIES[name](**settings)
