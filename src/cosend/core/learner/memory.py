"""What a learner remembers, and room for more of it: the ledger and the registry, as the compiled rules take them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from typing import Any

import numpy as np

from cosend.core.kernel import columns as col
from cosend.core.kernel import entry_points
from cosend.core.kernel.bookkeeping import OUT, TAUGHT
from cosend.core.kernel.draws import caller_word, site_words
from cosend.core.kernel.ledger import Floats, Ledger, grown, has_room, new_ledger
from cosend.core.kernel.mixed_rows import kept_width
from cosend.core.kernel.mixed_scratch import with_scratch
from cosend.core.kernel.waiting import Waiting
from cosend.core.learner.arms import Arms
from cosend.core.learner.kept_views import for_more_views, for_other_arms, forget_patterns
from cosend.core.learner.registry import Patience, Registry
from cosend.core.policy.epochs import lay_partition, next_epoch
from cosend.core.policy.mixed import NewAxes
from cosend.core.policy.mixed_features import Handed, add_views
from cosend.core.policy.parts import Policy


class Memory:
    """The arrays of one site. Whatever replaces one of them goes through here, so that `arrays` are always those."""

    ledger: Ledger
    registry: Registry
    arrays: entry_points.Arrays  # of both, as a plain tuple

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
        views = len(policy.views(dimensions, categories))
        self.ledger = new_ledger(len(arms), max(16, views), views)
        if policy.mixes:
            self.ledger = with_scratch(self.ledger)
        self.ledger.site[[col.KEY0, col.KEY1]] = site_words(seed, arms.site)
        self.ledger.site[col.CATEGORIES], self.ledger.site[col.SCORES] = categories, scores
        self.overdue_gain = math.nan if patience.overdue == "drop" else float(patience.overdue)
        self._write_settings()
        self.registry = Registry(self.ledger.site, patience, self.late_width)
        lay_partition(self.ledger, policy)
        self.use(self.ledger)

    @property
    def kept_width(self) -> int:
        """How many numbers mixed views keep of an item until its label comes; 0 without such views."""
        return kept_width(len(self.ledger.views), len(self.arms.own)) if self.policy.mixes else 0

    @property
    def late_width(self) -> int:
        """How many numbers a late label needs beside its row: none, the context, or what mixed views keep."""
        return self.kept_width or (0 if self.ledger.site[col.STEADY] else self.dimensions)

    def use(self, ledger: Ledger, table: Waiting | None = None) -> None:
        """Go on with another ledger, and perhaps another table of what waits: grown, or saved."""
        table = (self.registry.table if table is None else table)._replace(desk=ledger.site)
        arrays = (*ledger, table.entries, table.contexts)
        # In one statement that calls nothing: Ctrl-C comes before or after it, and all three belong together.
        self.ledger, self.registry.table, self.arrays = ledger, table, arrays

    def draft(self, arms: Arms) -> Memory:
        """Return a copy that can be changed while this one stays as it is, for a copy of the arms.

        What waits is shared until it changes too: it can be a million decisions, and mostly it does not.
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

    def without(self, out: Collection[int]) -> entry_points.Arrays:
        """Return the arrays for one choice in which some arms, by number, may not be chosen; nothing changes."""
        if not out:
            return self.arrays
        costs = self.ledger.costs.copy()
        costs[list(out)] = OUT
        return (*self.arrays[:2], costs, *self.arrays[3:])

    @contextmanager
    def left_out(self, out: Collection[int]) -> Iterator[None]:
        """Leave arms, by number, out of all that happens inside."""
        costs = self.ledger.costs.copy()
        self.ledger.costs[list(out)] = OUT
        try:
            yield
        finally:
            self.ledger.costs[:] = costs

    def answer(
        self,
        points: Floats,
        out: Collection[int],
        caller: str,
        requests: Sequence[int],
        flags: Sequence[tuple[bool, bool]],
    ) -> tuple[list[int], list[int]]:
        """Answer questions of a peer, which were checked: functions by number, and ids, 0 where no label follows."""
        known = np.ascontiguousarray(np.array([*zip(*flags, strict=True)], np.int32).reshape(2, -1).T)
        known[:, 1] |= known[:, 0]  # after a training the label always follows
        numbers, made, done = np.array(requests, np.int64), np.empty((len(points), 2), np.int64), 0
        word = caller_word(caller)
        while True:
            done = entry_points.answer_many(self.without(out), points, word, numbers, known, done, made)
            if done == len(points):
                return made[:, 0].tolist(), made[:, 1].tolist()
            self.make_way(entry_points.NO_ROOM)

    def make_way(self, status: int) -> None:
        """Remove what stands in the way of the next step."""
        if status == entry_points.EPOCH_OVER:
            ledger = deepcopy(self.ledger)  # Ctrl-C must not leave half an epoch
            self.use(next_epoch(ledger, self.policy))
            return
        self.registry.collect_overdue()
        ledger = self.ledger if has_room(self.ledger) else grown(self.ledger)
        table = self.registry.table
        self.use(ledger, table if self.registry.has_room() else self.registry.grown())

    def insert(self, number: int) -> None:
        """Make a place for an arm; what is known of the others stays."""
        if number < len(self.arms) - 1:  # else nothing that waits is affected
            self._part_waiting()
            self.registry.renumber(number, 1)
        self._reshape(lambda array, axis: np.insert(array, number, 0, axis))

    def _part_waiting(self) -> None:
        """Share what waits with no other memory any more."""
        self.registry.part()
        self.use(self.ledger)

    def delete(self, number: int) -> list[int]:
        """Forget an arm and what waits for its reward; returns the ids of that."""
        self._part_waiting()
        if self.policy.mixes:
            own, arms = int(self.ledger.site[col.OWN_COUNT]), int(self.ledger.site[col.ARM_COUNT])
            forget_patterns(self.ledger, number, own, arms)
        waiting = self.registry.of_arm(number)
        gone, is_answer = waiting[:, col.WAIT_ID], waiting[:, col.WAIT_KIND] == TAUGHT
        entry_points.strike_many(self.arrays, gone[is_answer])  # the cells count them
        self.registry.forget(gone[~is_answer].tolist())
        self.registry.forget_arm(number)
        self.registry.renumber(number + 1, -1)
        self._reshape(lambda array, axis: np.delete(array, number, axis))
        ids: list[int] = gone.tolist()
        return ids

    def add_axes(self, dimensions: int, new: NewAxes) -> Handed:
        """Make place for features that are known now beside those that were; what is known stays."""
        before, own = len(self.ledger.views), len(self.arms.own)
        self.ledger, handed = add_views(self.ledger, dimensions, new)
        for_more_views(self.registry, before, len(self.ledger.views), own, handed)
        self._write_settings()
        self.use(self.ledger)
        return handed

    def _reshape(self, change: Callable[[Any, int], Any]) -> None:
        ledger = self.ledger
        self.ledger = ledger._replace(
            costs=change(ledger.costs, 0), rewards=change(ledger.rewards, 1), counts=change(ledger.counts, 1)
        )
        if self.policy.mixes:
            self.ledger = for_other_arms(self.ledger, self.registry, len(self.arms.own), change)
        self._write_settings()
        self.use(self.ledger)

    def _write_settings(self) -> None:
        self.ledger.costs[:] = self.arms.effective_costs()
        self.ledger.site[col.OWN_COUNT] = len(self.arms.own)
        self.ledger.site[col.ARM_COUNT] = len(self.arms)
        self.policy.write_to(self.ledger, self.dimensions, self.arms.announced_functions())
        self.ledger.parameters[col.OVERDUE_GAIN] = self.overdue_gain
