"""The arrays of one site, as the compiled rules take them, and room for more of them.

The cells are laid out once when the horizon is known, and again at every doubling when it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from copy import copy, deepcopy
from functools import partial
from itertools import product
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np

from cosend.algorithm import api, mixture_views
from cosend.algorithm import layout as col
from cosend.algorithm.arms import Arms
from cosend.algorithm.cells import LARGEST_KEY, axes_of, bits_of, key_of, radices_of, slices_within
from cosend.algorithm.cos import Asked
from cosend.algorithm.draws import caller_word, site_words
from cosend.algorithm.layout import (
    EMPTY,
    MOST_CODES,
    OUT,
    TAUGHT,
    Floats,
    Ints,
    Ledger,
    clear,
    first_bad_context,
    grown,
    has_room,
    new_ledger,
    row_for,
    slice_of,
)
from cosend.algorithm.mixture import IMPROVING_MEMORY, means_of_arms, memo_width, with_scratch
from cosend.algorithm.mixture_views import Handed, NewAxes
from cosend.algorithm.pending import Patience, PendingTable, Registry
from cosend.algorithm.policies import MixedViews, Policy
from cosend.errors import SettingError

FIRST_EPOCH: Final = 2
ChooseOne: TypeAlias = Callable[[api.Arrays, Floats, Asked, int], tuple[int, int, int, int, int]]


class Memory:
    """The arrays of a site that goes by cells. All that replaces one of them is in here, so `arrays` is never stale."""

    ledger: Ledger
    registry: Registry
    arrays: api.Arrays  # of both, as a plain tuple
    choose_one: ChooseOne = staticmethod(api.choose_one)
    may_lack: ClassVar[bool] = False  # whether a context may lack values

    def __init__(
        self,
        arms: Arms,
        dimensions: int,
        categories: int,
        policy: Policy,
        patience: Patience,
        seed: int,
        scores: bool,
    ) -> None:
        self.arms, self.dimensions, self.policy = arms, dimensions, policy
        views = policy.views(dimensions, categories)
        self.ledger = self._with_scratch(new_ledger(len(arms), max(16, len(views)), len(views)))
        self.ledger.site[[col.KEY0, col.KEY1]] = site_words(seed, arms.site)
        self.ledger.site[col.CATEGORIES], self.ledger.site[col.SCORES] = categories, scores
        self.expired_gain = math.nan if patience.overdue == "drop" else float(patience.overdue)
        self._write_settings()
        self.registry = Registry(self.ledger.site, patience, self.late_width)
        self._lay_out(views)
        self.use(self.ledger)

    def _with_scratch(self, ledger: Ledger) -> Ledger:
        return ledger

    def _lay_out(self, views: Sequence[int]) -> None:
        """Lay out the cells of a site that has seen nothing yet."""
        ledger, policy = self.ledger, self.policy
        site, categories = ledger.site, int(ledger.site[col.CATEGORIES])
        site[col.EPOCH_LENGTH] = FIRST_EPOCH if policy.doubles else policy.horizon or 0
        ledger.views[:, col.VIEW_AXES] = views
        ledger.views[:, col.VIEW_AXIS_COUNT] = [(axes & ~categories).bit_count() for axes in views]
        _cut(ledger, policy)

    @property
    def memo_width(self) -> int:
        """The length of the memo that mixed views keep for a pending decision; 0 without such views."""
        return 0

    @property
    def late_width(self) -> int:
        """How many numbers a late label needs besides its row: none, those of the context, or the memo."""
        return self.memo_width or (0 if self.ledger.site[col.STEADY] else self.dimensions)

    def use(self, ledger: Ledger, table: PendingTable | None = None) -> None:
        """Go on with another ledger, and perhaps another table of pending decisions: grown, or saved."""
        table = (self.registry.table if table is None else table)._replace(counters=ledger.site)
        arrays = (*ledger, table.entries, table.contexts)
        # In one statement that calls nothing: Ctrl-C comes before or after it, and all three belong together.
        self.ledger, self.registry.table, self.arrays = ledger, table, arrays

    def draft(self, arms: Arms) -> Memory:
        """Return a copy that can be changed while this one stays as it is, for a copy of the arms.

        Pending decisions are shared until they change too: there can be a million, and mostly they do not.
        """
        other = copy(self)
        other.arms, other.registry = arms, self.registry.draft()
        other.use(deepcopy(self.ledger))
        return other

    def with_costs(self, arms: Arms) -> Memory:
        """Return the same memory with the costs of these arms; an arm that is paused costs more than any other."""
        other = copy(self)
        costs = np.array(arms.effective_costs())
        other.arms, other.ledger = arms, self.ledger._replace(costs=costs)
        other.arrays = (*self.arrays[:2], costs, *self.arrays[3:])
        return other

    def without(self, out: Collection[int]) -> api.Arrays:
        """Return the arrays for one choice in which some arms, by number, may not be chosen; nothing changes."""
        if not out:
            return self.arrays
        costs = self.ledger.costs.copy()
        costs[list(out)] = OUT
        return self.at_costs(costs)

    def at_costs(self, costs: Floats) -> api.Arrays:
        """Return the arrays for one choice in which arms cost something else; nothing changes."""
        return (*self.arrays[:2], costs, *self.arrays[3:])

    def answer(
        self,
        points: Floats,
        out: Collection[int],
        caller: str,
        requests: Sequence[int],
        flags: Sequence[tuple[bool, bool]],
    ) -> tuple[list[int], list[int]]:
        """Answer questions of a peer, which were checked: models by number, and ids, 0 where no label follows."""
        known = np.ascontiguousarray(np.array([*zip(*flags, strict=True)], np.int32).reshape(2, -1).T)
        known[:, 1] |= known[:, 0]  # after a training the label always follows
        numbers, made, done = np.array(requests, np.int64), np.empty((len(points), 2), np.int64), 0
        word = caller_word(caller)
        while (done := api.answer_many(self.without(out), points, word, numbers, known, done, made)) < len(points):
            self.make_way(api.NO_ROOM)
        return made[:, 0].tolist(), made[:, 1].tolist()

    def make_way(self, status: int) -> None:
        """Remove the obstacle that a compiled step has named."""
        if status == api.EPOCH_OVER:
            self.use(next_epoch(deepcopy(self.ledger), self.policy))  # Ctrl-C must not leave half an epoch
            return
        self.registry.collect_expired()
        self.registry.widen_some()
        ledger = self.ledger if has_room(self.ledger) else grown(self.ledger)
        self.use(ledger, self.registry.table if self.registry.has_room() else self.registry.grown())

    def insert(self, number: int) -> None:
        """Make a place for an arm; what is known about the others stays."""
        if number < len(self.arms) - 1:  # else no pending decision is affected
            self._part_pending()
            self.registry.renumber(number, 1)
        self._reshape(lambda array, axis: np.insert(array, number, 0, axis))

    def delete(self, number: int) -> list[int]:
        """Forget an arm and its pending decisions; returns the ids of these."""
        self._part_pending()
        self.registry.widen_all()
        pending = self.registry.of_arm(number)
        gone, is_answer = pending[:, col.PENDING_ID], pending[:, col.PENDING_KIND] == TAUGHT
        api.undo_many(self.arrays, gone[is_answer])  # the cells count them
        self.registry.forget(gone[~is_answer].tolist())
        self.registry.forget_arm(number)
        self.registry.renumber(number + 1, -1)
        self._reshape(lambda array, axis: np.delete(array, number, axis))
        ids: list[int] = gone.tolist()
        return ids

    def part_draft(self, *, is_needed: bool) -> None:
        """Share pending decisions with no other memory any more; if they are not needed, forget them."""
        if is_needed:
            self._part_pending()
            return
        self.ledger.site[col.PENDING_COUNT] = 0
        self.registry = Registry(self.ledger.site, self.registry.patience, self.late_width)
        self.use(self.ledger)

    def _part_pending(self) -> None:
        """Share pending decisions with no other memory any more."""
        self.registry.part()
        self.use(self.ledger)

    def _reshape(self, change: Callable[[Any, int], Any]) -> None:
        ledger = self.ledger
        self.ledger = self._with_scratch(
            ledger._replace(
                costs=change(ledger.costs, 0), rewards=change(ledger.rewards, 1), counts=change(ledger.counts, 1)
            )
        )
        self._reshape_memos(change)
        self._write_settings()
        self.use(self.ledger)

    def _reshape_memos(self, change: Callable[[Any, int], Any]) -> None:
        """Contexts stay as they are."""

    def _write_settings(self) -> None:
        self.ledger.costs[:] = self.arms.effective_costs()
        self.ledger.site[col.OWN_COUNT] = len(self.arms.own)
        self.ledger.site[col.ARM_COUNT] = len(self.arms)
        self.policy.write_to(self.ledger, self.dimensions, self.arms.announced_functions())
        self.ledger.parameters[col.EXPIRED_GAIN] = self.expired_gain

    def fits(self, rows: Ints, contexts: Floats, count: int) -> bool:
        """Tell whether pending decisions can have been entered in these rows, of which there are `count`."""
        ledger = self.ledger
        known = not ledger.site[col.STEADY] or bool(((rows >= 0) & (rows < count)).all())
        return known and first_bad_context(contexts, int(ledger.site[col.CATEGORIES]), False) < 0


class MixedMemory(Memory):
    """The arrays of a site that mixes views."""

    policy: MixedViews
    choose_one: ChooseOne = staticmethod(api.choose_one_mixed)
    may_lack: ClassVar[bool] = True

    def _with_scratch(self, ledger: Ledger) -> Ledger:
        return with_scratch(ledger)

    def _lay_out(self, views: Sequence[int]) -> None:
        super()._lay_out(views)
        plans = mixture_views.plans_for(self.dimensions, int(self.ledger.site[col.CATEGORIES]), self.policy.adds_up)
        mixture_views.lay_plans(self.ledger.views, plans)

    def _write_settings(self) -> None:
        super()._write_settings()
        improving = self.arms.improving
        keeps = [IMPROVING_MEMORY if name in improving else 1.0 for name in self.arms.names]
        self.ledger.parameters[-len(keeps) :] = keeps  # the last line of the scratch

    @property
    def memo_width(self) -> int:
        """The length of the memo of a pending decision."""
        return memo_width(len(self.ledger.views), len(self.arms.own))

    def delete(self, number: int) -> list[int]:
        """Forget an arm and its pending decisions, and patterns that it was part of."""
        mixture_views.forget_patterns(self.ledger, number)
        return super().delete(number)

    def _reshape_memos(self, change: Callable[[Any, int], Any]) -> None:
        self.registry.widen_all()
        table, views = self.registry.table, len(self.ledger.views)
        memos = mixture_views.with_other_models(table.contexts, views, len(self.arms.own), change)
        self.registry.table = table._replace(contexts=memos)

    def add_axes(self, dimensions: int, new: NewAxes) -> Handed:
        """Make place for features that are known now behind those that were; what is known stays."""
        before, own = len(self.ledger.views), len(self.arms.own)
        self.ledger, handed = mixture_views.add_views(self.ledger, dimensions, new)
        views, widen = len(self.ledger.views), mixture_views.with_more_views
        self.registry.begin_to_widen(
            self.memo_width, partial(widen, before=before, views=views, own=own, handed=handed)
        )
        self._write_settings()
        self.use(self.ledger)
        return handed

    def fits(self, rows: Ints, contexts: Floats, count: int) -> bool:
        """Tell whether the memos of pending decisions name rows that are there, of which there are `count`."""
        return bool(np.isin(contexts[:, : len(self.ledger.views)], np.arange(EMPTY, count)).all())


class Watch:
    """Chooses for a draft, and keeps what its last choice went by.

    costs   by arm: what it counted as; OUT if it could not be chosen
    worths  by arm: the index by which arms were compared
    means   by arm: what all views together forecast
    """

    def __init__(self) -> None:
        self.costs, self.worths, self.means = np.zeros(0), np.zeros(0), np.zeros(0)

    def __call__(self, arrays: api.Arrays, point: Floats, asked: Asked, again: int) -> tuple[int, int, int, int, int]:
        """Return what `choose_one_mixed` does."""
        worths = np.zeros(len(arrays[2]))
        if api.weigh_one(arrays, point, again, worths) == api.READY:
            self.costs, self.worths, self.means = arrays[2].copy(), worths, means_of_arms(Ledger(*arrays[:8])).copy()
        return api.choose_one_mixed(arrays, point, asked, again)


def new_memory(
    arms: Arms, dimensions: int, categories: int, policy: Policy, patience: Patience, seed: int, scores: bool
) -> Memory:
    """Return the memory of a site that has seen nothing yet: the family of its policy is decided here."""
    kind = MixedMemory if policy.mixes else Memory
    return kind(arms, dimensions, categories, policy, patience, seed, scores)


# Cells that are laid out again


def next_epoch(ledger: Ledger, policy: Policy) -> Ledger:
    """Start the next epoch, twice as long; returns the ledger, which may have grown."""
    site = ledger.site
    site[col.EPOCH_START] = site[col.ARRIVALS]
    site[col.EPOCH_LENGTH] *= 2
    site[col.EPOCH] += 1
    old_slices = int(ledger.views[0, col.VIEW_SLICES])
    _cut(ledger, policy)
    if policy.keeps:
        return _carried_over(ledger, old_slices)
    site[col.QUOTA_START] = site[col.ARRIVALS]
    clear(ledger)
    return ledger


def _cut(ledger: Ledger, policy: Policy) -> None:
    ledger.views[:, col.VIEW_SLICES] = _cut_for(ledger, policy, int(ledger.site[col.EPOCH_LENGTH]))


def _cut_for(ledger: Ledger, policy: Policy, horizon: int) -> list[int]:
    """Return the slices per axis of every view for a horizon: as the policy wants, but no more than there are keys."""
    slices = []
    for view in ledger.views:
        codes = (int(view[col.VIEW_AXES]) & int(ledger.site[col.CATEGORIES])).bit_count()
        axes, cells = int(view[col.VIEW_AXIS_COUNT]), LARGEST_KEY // MOST_CODES**codes
        if cells == 0:
            raise SettingError("categories", codes, "fewer: there are not enough keys for their cells")
        wanted = policy.slices_at(horizon, axes)
        slices.append(min(wanted, slices_within(cells, axes)) if codes and axes else wanted)
    return slices


def radices(ledger: Ledger, view: int, slices: int | None = None) -> list[int]:
    """Return the number of cells along every axis of a view, with its own slices or others."""
    axes, own = int(ledger.views[view, col.VIEW_AXES]), int(ledger.views[view, col.VIEW_SLICES])
    return radices_of(axes, int(ledger.site[col.CATEGORIES]), own if slices is None else slices)


def _carried_over(ledger: Ledger, old_slices: int) -> Ledger:
    """Start every cell whose centre lies in a visited old cell from that cell's numbers."""
    rows = int(ledger.site[col.ROWS])
    cells, rewards, counts = (array[:rows].copy() for array in (ledger.cells, ledger.rewards, ledger.counts))
    counts[..., [col.PENDING, col.TRAINING_PENDING]] = 0
    children = [_children(ledger, key, old_slices) for key in cells[:, col.CELL_KEY].tolist()]
    clear(ledger)
    needed = sum(len(keys) for keys in children)
    if needed > ledger.cells.shape[0]:
        ledger = grown(ledger, needed)
    for parent, keys in enumerate(children):
        for key in keys:
            row = row_for(ledger, key)
            ledger.cells[row, col.CELL_ARRIVALS : col.CELL_BORN] = cells[parent, col.CELL_ARRIVALS : col.CELL_BORN]
            ledger.rewards[row] = rewards[parent]
            ledger.counts[row] = counts[parent]
    return ledger


def _children(ledger: Ledger, key: int, old_slices: int) -> list[int]:
    """Return the keys of the new cells whose centres lie in an old one."""
    old, new = radices(ledger, 0, old_slices), radices(ledger, 0)
    slices: int = int(ledger.views[0, col.VIEW_SLICES])
    finer: list[list[int]] = [[] for _ in range(old_slices)]  # by old slice, the new ones whose centres lie in it
    for index in range(slices):
        finer[slice_of((index + 0.5) / slices, old_slices)].append(index)
    axes, categories = bits_of(int(ledger.views[0, col.VIEW_AXES])), int(ledger.site[col.CATEGORIES])
    parts = [
        [index] if categories >> axis & 1 else finer[index]  # a category has the same codes in every partition
        for axis, index in zip(axes, axes_of(key, old), strict=True)
    ]
    return [key_of(cell, new) for cell in product(*parts)]
