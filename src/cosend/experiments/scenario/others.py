"""What the policy of a scenario is compared with: what knows less, what asks everybody, and what knows the future.

    never send         the policy of the scenario at a site that has no peers
    epsilon-greedy     flat bandits over all functions of all sites, by cell
    LinUCB             and with a linear model of the context
    uniform random     any function
    AdaBoost, SWA 100  ensembles: they ask every function about every item, and pay for each
    previous label     the newest label that is known; no function at all
    commonest label    the same of the label that came most often

    best local         the best function of the site itself, known in advance
    best fixed         the best function of all sites, known in advance
    oracle per cell    the best function of every cell, known in advance

Labels come as late for all of them as they come for the policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from cosend.baselines.bandits import epsilon_greedy, linucb
from cosend.baselines.boosting import MOST_FUNCTIONS, adaboost, sliding_window_adaboost
from cosend.baselines.fixed import best_fixed, commonest, per_cell_oracle, persistence, uniform_random
from cosend.core.kernel.ledger import Floats, Ints
from cosend.core.kernel.partition import keys_of
from cosend.core.policy.parts import MOST_CELLS, EqualCells
from cosend.core.policy.policies import CoS
from cosend.experiments.scenario.world import NOTHING, World
from cosend.simulation.replay import replay
from cosend.streams.table import Mask

WINDOW: Final = 100  # of the sliding-window AdaBoost
HINDSIGHT: Final = ("oracle per cell", "best fixed", "best local")  # these know all labels in advance
MOST_VALUES: Final = 20  # of a category that a linear model gets a column for
NEED_ANSWERS: Final = (  # of a model: those who choose among models whose answers are known
    "the oracle per cell",
    "best fixed",
    "best local",
    "epsilon-greedy",
    "LinUCB",
    "uniform random",
    "AdaBoost",
)


class Played(NamedTuple):
    """What one policy did at one site, item by item."""

    policy: str
    site: str
    right: Floats  # 1 or 0
    paid: Floats
    sent: Floats  # 1 where a peer was asked
    trained: Floats | None = None  # 1 in a training phase; None for baselines
    explored: Floats | None = None
    labelled: Mask | None = (
        None  # where the label is known: nothing else counts in errors and rewards; None: everywhere
    )

    @property
    def net(self) -> Floats:
        """What it earned with every item of which the label is known."""
        return (self.right - self.paid)[self.counted]

    @property
    def counted(self) -> Mask:
        """Which items count in errors and rewards."""
        return np.ones(len(self.right), np.bool_) if self.labelled is None else self.labelled


def baselines(world: World) -> Iterator[Played]:
    """Yield what every baseline would have done at every site; most may use all functions of all sites."""
    for site in range(len(world.scenario.sites)):
        if not world.labelled(site).any():
            continue
        if len(world.foreseen):
            yield from _choosing(world, site)
            yield from _combining(world, site, world.costs(site))
        if is_worth_playing_alone(world):
            yield _without_peers(world, site)
        yield from _repeating(world, site)


def is_worth_playing_alone(world: World) -> bool:
    """Tell whether the policy without peers is something else than with them, and can be replayed."""
    return len(world.scenario.sites) > 1 and not world.one_by_one


def _late(world: World) -> int:
    """Return how many items later a label is known to who looks once before every item."""
    return max(1, world.scenario.label_delay)


def _repeating(world: World, site: int) -> Iterator[Played]:
    """Yield what uses no function at all."""
    labels, name = world.items.labels[world.items_of(site)], world.scenario.sites[site].name
    free, known = np.zeros(len(labels)), world.labelled(site)
    for policy, predicted in (("previous label", persistence), ("commonest label", commonest)):
        said = predicted(labels, _late(world), known)
        yield Played(policy, name, (said == labels).astype(np.float64), free, free)


def _without_peers(world: World, site: int) -> Played:
    """Play the policy of the scenario at one site that knows nobody: what the network is worth is the difference."""
    rows, name, own = world.rows_of(site), world.scenario.sites[site].name, world.owners == site
    seen, learner = world.seen(world.way), world.alone(site)
    items = seen["items"][world.places[:, site] != NOTHING, site : site + 1]
    gains = np.ascontiguousarray(seen["gains"][:, own])
    delays = world.delays
    if not isinstance(delays, int):
        delays = delays[world.places[:, site] != NOTHING, site : site + 1]
    trace = replay([learner], **{**seen, "gains": gains, "items": items}, delay=delays)
    arms, paid = trace.arms[:, 0].astype(np.int64), np.asarray(learner.arms.costs)
    gained = world.right[rows][:, own][np.arange(len(rows)), trace.functions[:, 0]].astype(np.float64)
    return Played("never send", name, gained, paid[arms], np.zeros(len(rows)))


def _choosing(world: World, site: int) -> Iterator[Played]:
    """Yield the baselines that choose a function for every item, among those that are foreseen."""
    rows, late, foreseen = world.rows_of(site), _late(world), world.foreseen
    costs, owners = world.costs(site)[foreseen], world.owners[foreseen]
    right = world.right[rows][:, foreseen].astype(np.float64)
    values, contexts = right - costs, world.contexts[rows]
    values[~world.labelled(site)] = np.nan
    cells, own = cells_of(world, contexts), np.flatnonzero(owners == site)
    choosing: dict[str, Ints] = {
        "oracle per cell": per_cell_oracle(values, cells),
        "best fixed": best_fixed(values),
        **({"best local": own[best_fixed(values[:, own])]} if len(own) else {}),
        "epsilon-greedy": epsilon_greedy(values, cells, seed=world.scenario.seed, delay=late),
        "LinUCB": linucb(values, _as_numbers(world, contexts), delay=late),
        "uniform random": uniform_random(values, world.scenario.seed),
    }
    for policy, picked in choosing.items():
        sent = (owners[picked] != site).astype(np.float64)
        name = world.scenario.sites[site].name
        yield Played(policy, name, right[np.arange(len(rows)), picked], costs[picked], sent)


def cells_of(world: World, contexts: Floats) -> Ints:
    """Return a number for the cell of every context: equal slices of what is a number, a cell for every other value."""
    keys = keys_of(contexts[:, world.measured], slices_of(world))
    if len(world.measured) == len(world.axes):
        return keys
    codes = np.delete(contexts, world.measured, axis=1).astype(np.int64)
    cells: Ints = np.unique(np.column_stack([keys, codes]), axis=0, return_inverse=True)[1].reshape(-1)
    return cells


def _as_numbers(world: World, contexts: Floats) -> Floats:
    """Return contexts as a linear model can use them: a column of 0 and 1 for each of a category's commonest values."""
    columns = [contexts[:, world.measured]]
    for axis in sorted(set(range(len(world.axes))).difference(world.measured)):
        values, counts = np.unique(contexts[:, axis], return_counts=True)
        commonest_values = values[np.argsort(-counts, kind="stable")[:MOST_VALUES]]
        columns.append((contexts[:, axis][:, None] == commonest_values).astype(np.float64))
    return np.ascontiguousarray(np.hstack(columns))


def _combining(world: World, site: int, costs: Floats) -> Iterator[Played]:
    """Yield the ensembles, which ask every function about every item; they need two classes and few functions."""
    items, name, late = world.items_of(site), world.scenario.sites[site].name, _late(world)
    items = items[world.labelled(site)]  # of the others nothing is told, and nobody asks whether it was right
    trained_on = int(world.training.known.sum())
    outputs, costs = world.outputs[:, world.foreseen], costs[world.foreseen]
    if len(world.classes) != 2 or outputs.shape[1] > MOST_FUNCTIONS or trained_on < WINDOW + late - 1:
        return
    if (outputs < 0).any():  # a vote that is for neither class
        return
    labels_of_all = np.concatenate([world.training.labels[world.training.known], world.items.labels[items]])
    truth = (labels_of_all == world.classes[1]).astype(np.int64)
    first = len(world.training)
    said = np.concatenate([outputs[:first][world.training.known], outputs[first + items]])
    labels = truth[trained_on:]
    boosted = adaboost(said[:trained_on], truth[:trained_on], said[trained_on:])
    slid = sliding_window_adaboost(said, truth, first=trained_on, window=WINDOW, delay=late)
    arrived = len(world.items_of(site))
    everything = np.full(arrived, float(costs.sum()))
    always = np.full(arrived, float(len(world.scenario.sites) > 1))
    for policy, predicted in (("AdaBoost", boosted), (f"SWA {WINDOW}", slid)):
        right = np.zeros(arrived)
        right[world.labelled(site)] = predicted == labels
        yield Played(policy, name, right, everything, always)


def slices_of(world: World) -> int:
    """Return into how many slices an axis is cut where equal cells are needed.

    They are the slices of the policy, or those that CoS would have if it has none. With an unknown horizon there are as
    many as for the whole stream.
    """
    policy = world.way.policies[0]
    if not isinstance(policy, EqualCells):
        policy = CoS(max_cells=MOST_CELLS)
    return policy.slices_at(policy.horizon or len(world.arrivals), max(1, len(world.measured)))
