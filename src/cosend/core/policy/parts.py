"""What policies are made of: a partition (equal cells, or cubes that split) and a rule (by quota, or by index).

Policy        what a learner needs of any policy
BasePolicy    the options of all of them
EqualCells    the context space in equal cells, and what happens when the horizon is unknown
SplitCubes    the context space in cubes that split where many items come; no horizon is needed
ByQuota       the paper's rule: train, explore and exploit by quota
ByIndex       the arm that could be the best
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from cosend.core.checks import check_number, check_one_of, check_whole, make_plain
from cosend.core.kernel import columns as col
from cosend.core.kernel import cos, cubes
from cosend.core.kernel.ledger import MOST, Ledger
from cosend.core.kernel.partition import LARGEST_KEY, slices_for, slices_within
from cosend.core.kernel.quotas import exponent_for
from cosend.errors import SettingError

Order = Literal["pseudocode", "random", "train_first"]
TrainingCount = Literal["reported", "own_and_mine"]
Doubling = Literal["reset", "keep"]
ShareLabels = Literal["training", "always"]

ORDER_CODES: Final = {
    "pseudocode": cos.PSEUDOCODE,
    "random": cos.RANDOM,
    "train_first": cos.TRAIN_FIRST,
}
MOST_CUBE_AXES: Final = 24  # a child's key has a bit for every axis beside its parent's row
LN2: Final = math.log(2.0)

# What is beyond these helps nobody, and the compiled rules could not count so far.
MOST_ITEMS: Final = 10**15  # 30 years of a million items a second
MOST_CELLS: Final = MOST
MOST_FUNCTIONS: Final = 10**6
LARGEST_ALPHA: Final = 10.0
LARGEST_NUMBER: Final = 1e9  # of rewards, items or units that an option counts


def measured(ledger: Ledger, dimensions: int) -> int:
    """Return how many of the axes are numbers: categories are not cut, so no rate depends on them."""
    return dimensions - int(ledger.site[col.CATEGORIES]).bit_count()


class Policy(ABC):
    """What a learner needs of a policy."""

    @property
    @abstractmethod
    def share_labels(self) -> ShareLabels:
        """Whether a label is passed on to the peer after training calls only, or after every call."""

    @property
    @abstractmethod
    def doubles(self) -> bool:
        """Whether the horizon is guessed, and the partition laid anew whenever the guess doubles."""

    @property
    @abstractmethod
    def keeps(self) -> bool:
        """Whether what is known is kept when a cell is replaced by smaller ones."""

    @property
    @abstractmethod
    def first_horizon(self) -> int:
        """The horizon of the first epoch; 0 if there is none."""

    @property
    def mixes(self) -> bool:
        """Whether forecasts of all views are mixed; else one view decides."""
        return False

    @abstractmethod
    def views(self, dimensions: int, categories: int = 0) -> tuple[int, ...]:
        """Return the views of a context: the axes of each as bits, the time axis after the others.

        `categories` are the axes that have codes, as bits.
        """

    @abstractmethod
    def slices_at(self, horizon: int, axes: int) -> int:
        """Return the slices per axis of a view with so many axes, for a horizon."""

    @abstractmethod
    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the settings as plain data, with the name of the policy."""


@dataclass(frozen=True, kw_only=True)
class BasePolicy(Policy):
    """What all policies have in common.

    horizon         how many items the site will see, if that is known
    alpha           how smooth accuracies are in the context: |difference| <= L * distance^alpha
    max_cells       a memory limit: at most so many cells (each takes about 50 bytes per arm), or None
    time_dimension  time as one more axis, for classifiers that learn and for drift; needs a horizon
    share_labels    pass the label on to a peer after training calls only, or after every call
    """

    horizon: int | None = None
    alpha: float = 1.0
    max_cells: int | None = None
    time_dimension: bool = False
    share_labels: ShareLabels = "training"

    def __post_init__(self) -> None:
        make_plain(self)
        for setting, most in (("horizon", MOST_ITEMS), ("max_cells", MOST_CELLS)):
            if getattr(self, setting) is not None:
                check_whole(setting, getattr(self, setting), most=most)
        check_number("alpha", self.alpha, LARGEST_ALPHA)
        check_one_of("share_labels", self.share_labels, get_args(ShareLabels))
        if not isinstance(self.time_dimension, bool):
            raise SettingError("time_dimension", self.time_dimension, "True or False")

    @property
    def doubles(self) -> bool:
        """No horizon is guessed."""
        return False

    @property
    def first_horizon(self) -> int:
        """The horizon, if it is known."""
        return self.horizon or 0

    def axes(self, dimensions: int) -> int:
        """Return how many axes the partition has for contexts of so many dimensions."""
        return dimensions + self.time_dimension

    def views(self, dimensions: int, categories: int = 0) -> tuple[int, ...]:
        """Return the one view of all axes."""
        return ((1 << self.axes(dimensions)) - 1,)

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        site = ledger.site
        ledger.parameters[:] = 0.0  # a quota that is known already may be another one now
        ledger.parameters[col.EXPONENT] = exponent_for(self.alpha, self.axes(measured(ledger, dimensions)))
        site[col.DIMENSIONS] = dimensions
        site[col.TIMED] = self.time_dimension
        site[col.DOUBLING] = self.doubles
        site[col.KEEPS] = self.keeps
        site[col.VIEWS] = 1
        site[col.ZOOMS], site[col.MAX_ROWS] = cubes.NEVER, MOST
        site[col.STEADY] = not self.doubles
        site[col.MAX_PEER_FUNCTIONS] = announced_functions

    def facts(self) -> dict[str, Any]:
        """Return the settings as plain data, with the name of the policy."""
        return {"name": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class EqualCells(BasePolicy):
    """The context space in equal cells.

    slices    cells per axis; None derives it from horizon, alpha and the number of axes
    doubling  what happens to the counts when the guessed horizon doubles: it is guessed without horizon and slices
    """

    slices: int | None = None
    doubling: Doubling = "reset"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slices is not None:
            check_whole("slices", self.slices, most=LARGEST_KEY)
        check_one_of("doubling", self.doubling, get_args(Doubling))
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

    @property
    def keeps(self) -> bool:
        """Whether the counts stay when the guessed horizon doubles."""
        return self.doubling == "keep"

    def derived_slices(self, horizon: int, axes: int) -> int:
        """Return the slices per axis that the theory asks for."""
        return slices_for(horizon, 3 * self.alpha + axes)

    def slices_at(self, horizon: int, axes: int) -> int:
        """Return the slices per axis of a view with so many axes, for a horizon."""
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
                 4^alpha times as many; 0 starts afresh
    """

    split_after: float = 1.0
    inherit: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("split_after", self.split_after, LARGEST_NUMBER)
        check_number("inherit", self.inherit, LARGEST_NUMBER, or_0=True)
        if self.time_dimension and self.horizon is None:
            raise SettingError("time_dimension", True, "used with a horizon")

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

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, announced_functions)
        known = ledger.parameters
        known[col.SPLIT_AFTER] = self.split_after
        known[col.SPLIT_RATE] = self.split_rate(measured(ledger, dimensions)) * LN2
        known[col.ZOOM_RATE], known[col.SIDE_RATE] = 2 * self.alpha * LN2, self.alpha * LN2
        known[col.INHERITED] = self.inherit
        ledger.site[col.ZOOMS] = cubes.BY_ARRIVALS
        ledger.site[col.STEADY] = False
        if self.max_cells is not None:
            ledger.site[col.MAX_ROWS] = self.max_cells


@dataclass(frozen=True, kw_only=True)
class ByQuota(BasePolicy):
    """The paper's rule: an arm that has fewer samples than its quota gets one.

    max_peer_functions  how many classifiers a peer has at most; None takes what the peers announce
    order               what comes first when several arms are owed a sample
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

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        super().write_to(ledger, dimensions, self.max_peer_functions or announced_functions)
        ledger.site[col.ORDER] = ORDER_CODES[self.order]
        ledger.site[col.COUNTS_MINE_ONLY] = self.training_count == "own_and_mine"


@dataclass(frozen=True, kw_only=True)
class ByIndex(BasePolicy):
    """An arm is explored only as long as it may be the best.

    Labels are passed on after every call unless `share_labels` says otherwise: docs/decisions/0001 has the reasons.
    """

    share_labels: ShareLabels = "always"
