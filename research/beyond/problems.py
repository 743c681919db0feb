"""What is played: items with known labels, which functions are right about them, contexts, delays and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.algorithm.cells import keys_of
from cosend.algorithm.layout import Floats, Ints
from cosend.algorithm.policies import MixedViews
from cosend.simulation.baselines import per_cell_oracle
from cosend.simulation.simulate import precompute
from research.beyond.settings import AXES, LONGEST_RANDOM_DELAY, RANDOM_DELAY, Settings
from research.paper import run as kdd99
from research.paper.settings import PEER_FUNCTIONS, SLICES
from research.paper.settings import Settings as WindowSettings

Right = npt.NDArray[np.uint8]


class Outcome(NamedTuple):
    """What came of the decisions for one stream, item by item."""

    right: Floats  # 1 or 0
    paid: Floats

    @property
    def reward(self) -> float:
        """Everything that was gained, minus what was paid."""
        return float((self.right - self.paid).sum())


@dataclass(frozen=True)
class Problem:
    """One stream that arrives at all four learners; the first of them is reported.

    right     [item, function]: the functions of learner 1, then those of learner 2, ...
    contexts  [item, axis], the axes as in AXES
    delays    [item]: how many items later its label is known; 0 and 1 are before the next item
    items     the items themselves, by feature, where they are looked at
    """

    labels: Ints
    right: Right
    contexts: Floats
    delays: Ints
    peer_cost: float = 0.0
    items: Sequence[Mapping[str, Any]] = ()
    own: int = PEER_FUNCTIONS  # functions of every learner

    def part(self, items: slice) -> Problem:
        """Return the problem of some of the items."""
        arrays = self.labels[items], self.right[items], self.contexts[items], self.delays[items]
        return Problem(*arrays, self.peer_cost, self.items[items], self.own)

    @property
    def costs(self) -> Floats:
        """What learner 1 pays for the answer of each function."""
        return np.repeat([0.0, self.peer_cost], [self.own, self.right.shape[1] - self.own])

    @property
    def values(self) -> Floats:
        """What each function is worth to learner 1: [item, function]."""
        values: Floats = self.right - self.costs
        return values

    def outcome(self, picked: npt.NDArray[Any]) -> Outcome:
        """Return what came of picking these functions."""
        return Outcome(kdd99.gained_by(self.right, picked.astype(np.int64)), self.costs[picked])

    def said(self, predicted: npt.NDArray[Any], paid: float = 0.0) -> Outcome:
        """Return what came of predicting these labels, at one price for each."""
        return Outcome((predicted == self.labels).astype(np.float64), np.full(len(self.labels), paid))

    @cached_property
    def oracle(self) -> Outcome:
        """Return what regret is measured against: the best function of every cell of all axes together."""
        return self.outcome(per_cell_oracle(self.values, keys_of(self.contexts, SLICES)))

    @cached_property
    def places(self) -> Floats:
        """Return [item, axis]: where items lie among the first ones, feature by feature, and the newest known label.

        The edges are those that our sites lay; until they are there, all features are 0. `MixedViews` keeps by itself
        who was right about the newest label. Who cannot do that is given the label.
        """
        items = np.arange(len(self.labels))
        (axes,) = precompute(kdd99.four_learners(MixedViews(), dimensions=0)[:1], self.items, items[:, None])
        places = np.zeros((len(items), 0)) if axes.points is None else np.nan_to_num(axes.points, nan=0.5)
        places[items < axes.next_at] = 0.0
        return np.hstack([places, self.contexts[:, :1]])


def newest_known(labels: Ints, delays: Ints) -> Floats:
    """Return for every item the newest label that is known when it is decided; 0 before there is one."""
    items = np.arange(len(labels))
    known_at = items + np.maximum(1, delays)
    in_time = known_at < len(labels)
    newest = np.full(len(labels), -1)
    np.maximum.at(newest, known_at[in_time], items[in_time])
    newest = np.maximum.accumulate(newest)
    return np.where(newest >= 0, labels[newest], 0).astype(np.float64)


def delays_of(delay: int | str, rows: int, seed: int) -> Ints:
    """Return the delay of every item: always the same, or drawn."""
    if delay == RANDOM_DELAY:
        return np.random.default_rng(seed).integers(0, LONGEST_RANDOM_DELAY + 1, rows)
    return np.full(rows, delay, np.int64)


def with_delays(problem: Problem, delays: Ints) -> Problem:
    """Return the problem with other delays, and so with another label as the newest known one."""
    contexts = problem.contexts.copy()
    contexts[:, AXES.index("previous_label")] = newest_known(problem.labels, delays)
    return replace(problem, delays=delays, contexts=contexts)


def in_order(problem: Problem, order: Ints) -> Problem:
    """Return the problem with its items in another order; time goes on as it did."""
    contexts = problem.contexts[order]
    contexts[:, AXES.index("time")] = problem.contexts[:, AXES.index("time")]
    other = replace(problem, labels=problem.labels[order], right=problem.right[order], contexts=contexts)
    return with_delays(other, problem.delays)


def every_nth(problem: Problem, step: int) -> Problem:
    """Return the problem of every n-th item."""
    part = problem.part(slice(None, None, step))
    return with_delays(part, part.delays)


@lru_cache(maxsize=2)
def window_data(data: Path | None, start: int, rows: int) -> kdd99.Data:
    """Read a window of the file and the rows that functions are trained on."""
    return kdd99.load(WindowSettings(data=data, start=start, rows=rows))


@lru_cache(maxsize=4)
def window_outputs(
    data: Path | None, start: int, rows: int, scenario: str, seeds: int
) -> tuple[kdd99.Data, list[kdd99.Outputs]]:
    """Return a window and what the functions of a scenario say, for every seed."""
    window = window_data(data, start, rows)
    return window, kdd99.function_outputs(window, scenario, seeds)


@lru_cache(maxsize=2)
def window_problems(settings: Settings, start: int, scenario: str) -> list[Problem]:
    """Return the problem of a window for every seed: labels come before the next item, peers cost nothing."""
    data, outputs = window_outputs(settings.data, start, settings.rows, scenario, settings.seeds)
    by_name = kdd99.window_contexts(data)
    contexts = np.stack([by_name[axis] for axis in AXES], axis=1)
    delays = delays_of(1, data.rows, 0)
    return [Problem(data.labels, kdd99.right(data, each), contexts, delays) for each in outputs]


@lru_cache(maxsize=2)
def changed_window(
    settings: Settings, start: int, scenario: str, delay: int | str = 1, cost: float = 0.0
) -> list[Problem]:
    """Return a window whose labels come so late, and whose peers cost so much."""
    return [
        replace(with_delays(each, delays_of(delay, len(each.labels), seed)), peer_cost=cost)
        for seed, each in enumerate(window_problems(settings, start, scenario))
    ]
