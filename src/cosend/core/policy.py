"""How a site decides, as one value that is checked when it is built."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

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
class CoS:
    """The paper's algorithm: train peers, explore and exploit by quota, in equal cells of the context space.

    horizon             how many items the site will see; None doubles a guess as the stream goes on
    alpha               how smooth accuracies are in the context: |difference| <= L * distance^alpha
    slices              cells per axis; None derives it from horizon, alpha and the number of axes
    max_cells           a memory limit: at most so many cells (each takes about 50 bytes per arm), or None
    exploration_exponent    z in the quota t^z ln t; None derives it from alpha and the number of axes
    max_peer_functions  how many classifiers a peer has at most; None takes what the peers announce
    order               what comes first when several arms are owed a sample
    training_count      what counts as a peer's labelled data: all it reports, or its own and what this site sent
    doubling            what happens to the counts when the guessed horizon doubles
    time_dimension      time as one more axis, for classifiers that learn and for drift
    share_labels        pass the label on to a peer after training calls only, or after every call
    """

    horizon: int | None = None
    alpha: float = 1.0
    slices: int | None = None
    max_cells: int | None = None
    exploration_exponent: float | None = None
    max_peer_functions: int | None = None
    order: Order = "pseudocode"
    training_count: TrainingCount = "reported"
    doubling: Doubling = "reset"
    time_dimension: bool = False
    share_labels: ShareLabels = "training"

    def __post_init__(self) -> None:
        for setting in ("horizon", "slices", "max_cells", "max_peer_functions"):
            if getattr(self, setting) is not None:
                check_whole(setting, getattr(self, setting))
        check_between("alpha", self.alpha, 0.0, math.inf, "a number above 0")
        if self.exploration_exponent is not None:
            check_between("exploration_exponent", self.exploration_exponent, 0.0, 1.0, "in (0, 1)")
        check_one_of("order", self.order, get_args(Order))
        check_one_of("training_count", self.training_count, get_args(TrainingCount))
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

    def slices_at(self, horizon: int, dimensions: int) -> int:
        """Return the slices per axis for a horizon."""
        axes = self.axes(dimensions)
        slices = self.slices or slices_for(horizon, self.alpha, axes)
        if self.max_cells is not None:
            slices = min(slices, slices_within(self.max_cells, axes))
        if slices**axes > LARGEST_KEY:
            raise SettingError("max_cells", self.max_cells, f"given: {slices} slices on {axes} axes are too many")
        return slices

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        site = ledger.site
        exponent = self.exploration_exponent or exponent_for(self.alpha, self.axes(dimensions))
        ledger.parameters[:] = 0.0  # a quota that is known already may be another one now
        ledger.parameters[col.EXPONENT] = exponent
        site[col.DIMENSIONS] = dimensions
        site[col.TIMED] = self.time_dimension
        site[col.ORDER] = ORDER_CODES[self.order]
        site[col.COUNTS_MINE_ONLY] = self.training_count == "own_and_mine"
        site[col.MAX_PEER_FUNCTIONS] = self.max_peer_functions or announced_functions
        site[col.DOUBLING] = self.doubles
