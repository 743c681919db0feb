"""MixedViews: every part of the context forecasts every arm, and forecasts are mixed by how well each part has done.

Which views there are, for d axes of which some are categories:

    no context, with short and with long memory
    unless told not to: what the cells of all views with long memory say of an item, added up
    each axis, each two axes (3 to 12 of them), all axes together (2 to 12): in 4, 16 and 64 slices each
    the pattern of who was right about the newest labelled item, with short and with long memory
    each feature that has got an axis: in 4, 16 and 2^20 slices, of which every value has one to itself
    with each axis before it, if there are not more than 12 by then: in 4, 16 and 64 slices
    features that never changed, all together: one view that stands for those that each of them would have

A category has one cell per value in place of slices. With more than 12 axes there are no views of several of them, and
the finest slices are so fine that every value that repeats has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final, NamedTuple, get_args

from cosend.core.checks import check_between, check_kind, check_number, check_one_of, check_whole, make_plain
from cosend.core.kernel import columns as col
from cosend.core.kernel.bookkeeping import BY_MIXTURE
from cosend.core.kernel.ledger import MOST, Floats, Ledger
from cosend.core.kernel.mixed_rows import ALL_AXES, ONE_AXIS, ONE_CODE, PATTERNS, SAME, TWO_AXES, WHOLE
from cosend.core.kernel.mixed_sum import SUM
from cosend.core.kernel.partition import MOST_CODES
from cosend.core.policy.parts import MOST_CELLS, Policy, ShareLabels

LEVELS: Final = (4, 16, 64)  # slices per axis
FINEST: Final = 1024  # slices: values that repeat, as sizes and counts do, mostly have one of their own
LEVELS_OF_MANY: Final = (4, 16, FINEST)
EXACT: Final = 2**20  # slices of a feature: every value has one of its own
LEVELS_OF_FEATURES: Final = (4, 16, EXACT)
MOST_TOGETHER: Final = 12  # axes that are also looked at two by two, and all together
MOST_KEYS: Final = 2**48  # of a view, so that there are bits for its number
SHORT_MEMORY: Final = 0.9
LARGEST_BONUS: Final = 1e6


class Plan(NamedTuple):
    """A view before it is laid."""

    kind: int
    axes: tuple[int, ...] = ()
    slices: int = 1
    memory: float = 1.0
    up: int = 0
    fine: bool = False


def plans_for(dimensions: int, categories: int, adds_up: bool) -> list[Plan]:
    """Return all views of a context of so many axes; `categories` are those that have codes, as bits."""
    plans = [Plan(WHOLE, memory=SHORT_MEMORY), Plan(WHOLE), *([Plan(SUM)] if adds_up else [])]
    levels = LEVELS if dimensions <= MOST_TOGETHER else LEVELS_OF_MANY
    for axes in _parts(dimensions):
        plans += _levels_of(axes, levels, categories, len(plans))
    return [*plans, Plan(PATTERNS, memory=SHORT_MEMORY), Plan(PATTERNS)]


def _levels_of(axes: tuple[int, ...], levels: Sequence[int], categories: int, first: int) -> Iterator[Plan]:
    """Yield the views of some axes, the coarsest first, which has the number `first`."""
    numbers = [axis for axis in axes if not categories >> axis & 1]
    kind = (ONE_AXIS if numbers else ONE_CODE) if len(axes) == 1 else TWO_AXES if len(axes) == 2 else ALL_AXES
    for level, slices in enumerate(levels if numbers else (1,)):
        if slices ** len(numbers) * MOST_CODES ** (len(axes) - len(numbers)) > MOST_KEYS:
            return
        yield Plan(kind, axes, slices, up=first + level - 1 if level else 0, fine=level > 0)


class NewAxes(NamedTuple):
    """Features that are known now."""

    axes: int  # how many get one behind the others
    same: int = 0  # that never changed so far, and get none; this can happen once
    places: tuple[float, ...] = ()  # of the last of these, which were such ones: where the value lies that they had


def plans_for_features(dimensions: int, new: NewAxes, categories: int, views: int, same: int) -> list[Plan]:
    """Return the views of features beside those that there are, as there are views; `same` never changed before."""
    total, plans = dimensions + new.axes, [Plan(SAME)] if new.same else []
    together = total + same + new.same - len(new.places) <= MOST_TOGETHER
    for axis in range(dimensions, total):
        plans += _levels_of((axis,), LEVELS_OF_FEATURES, categories, views + len(plans))
        for other in range(axis) if together else ():
            plans += _levels_of((other, axis), LEVELS, categories, views + len(plans))
    return plans


def _parts(dimensions: int) -> Iterator[tuple[int, ...]]:
    """Yield the axes that are looked at together."""
    every = range(dimensions)
    yield from ((axis,) for axis in every)
    if 2 < dimensions <= MOST_TOGETHER:
        yield from combinations(every, 2)
    if 1 < dimensions <= MOST_TOGETHER:
        yield tuple(every)


def view_that_reports(plans: Sequence[Plan], dimensions: int) -> int:
    """Return the view that tells peers how much labelled data there is: that of all axes, or of the whole."""
    return next((n for n, plan in enumerate(plans) if len(plan.axes) == dimensions > 0), 1)


@dataclass(frozen=True, kw_only=True)
class MixedViews(Policy):
    """Mix what all parts of the context forecast; needs neither a horizon nor the right context.

    max_cells     a memory limit: at most so many cells of all views together, or None
    share         of the weight that is spread over all views at a label, so that none is lost when things change; less
                  of it where gains are noise
    bonus         how much is hoped of arms that labels do not score unless they are used: peers, mostly
    home_margin   by how much a peer must be better than what there is at home
    share_labels  pass the label on to a peer after training calls only, or after every call
    adds_up       mix in one view more, a logistic regression: it adds up what the cells of an item in all other views
                  say of an arm. Better where several features say something together

    It is made for `score_local="all"`. With "used", late labels can trap it.
    """

    max_cells: int | None = None
    share: float = 0.035
    bonus: float = 0.2
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

    @property
    def doubles(self) -> bool:
        """No horizon is guessed."""
        return False

    @property
    def keeps(self) -> bool:
        """Cells stay as they are."""
        return True

    @property
    def first_horizon(self) -> int:
        """There is none."""
        return 0

    @property
    def mixes(self) -> bool:
        """It does."""
        return True

    def views(self, dimensions: int, categories: int = 0) -> tuple[int, ...]:
        """Return the axes of every view as bits."""
        return tuple(sum(1 << axis for axis in plan.axes) for plan in plans_for(dimensions, categories, self.adds_up))

    def slices_at(self, horizon: int, axes: int) -> int:
        """Return 1: each view has its own number."""
        return 1

    def write_to(self, ledger: Ledger, dimensions: int, announced_functions: int) -> None:
        """Write these settings into the ledger of a site; its counters stay."""
        site, known = ledger.site, ledger.parameters
        plans = plans_for(dimensions, int(site[col.CATEGORIES]), self.adds_up)
        known[:] = 0.0
        known[col.SHARE], known[col.BONUS], known[col.MARGIN] = self.share, self.bonus, self.home_margin
        known[col.SAME_VIEW] = next((n for n, view in enumerate(ledger.views) if view[col.VIEW_KIND] == SAME), 0)
        site[col.DIMENSIONS], site[col.MAX_PEER_FUNCTIONS] = dimensions, announced_functions
        site[col.RULE], site[col.KEEPS] = BY_MIXTURE, True
        site[col.VIEWS], site[col.REPORTS] = len(ledger.views), view_that_reports(plans, dimensions)
        site[col.MAX_ROWS] = MOST if self.max_cells is None else self.max_cells

    def facts(self) -> dict[str, Any]:
        """Return the settings as plain data, with the name of the policy."""
        return {"name": type(self).__name__, **asdict(self)}


def lay_views(ledger: Ledger, policy: MixedViews) -> None:
    """Lay the views of a site that has seen nothing yet, all with the same weight."""
    plans = plans_for(int(ledger.site[col.DIMENSIONS]), int(ledger.site[col.CATEGORIES]), policy.adds_up)
    lay_plans(ledger.views, plans, len(plans))


def lay_plans(views: Floats, plans: Sequence[Plan], count: int) -> None:
    """Write plans down, for a site that has so many of them."""
    for view, plan in zip(views, plans, strict=True):
        view[col.VIEW_AXES] = sum(1 << axis for axis in plan.axes)
        view[col.VIEW_KIND], view[col.VIEW_SLICES], view[col.VIEW_MEMORY] = plan.kind, plan.slices, plan.memory
        view[[col.VIEW_FIRST, col.VIEW_SECOND]] = (*plan.axes, 0, 0)[:2]
        view[col.VIEW_UP], view[col.VIEW_FINE] = plan.up, plan.fine
        view[col.VIEW_WEIGHT] = 1.0 / count
