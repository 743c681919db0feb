"""What the policy of a run is compared with: what knows less, what asks everybody, and what knows the future.

    never send         the policy of the run at a site that has no peers
    epsilon-greedy     flat bandits over all functions of all sites, by cell
    LinUCB             and with a linear model of the context
    uniform random     any function
    AdaBoost, SWA 100  ensembles: they ask every function about every item, and pay for each
    previous label     the newest known label; no function at all
    commonest label    the label that came most often

    best local         the best function of the site itself, known in advance
    best fixed         the best function of all sites, known in advance
    oracle per cell    the best function of every cell, known in advance

Labels come as late for all of them as they come for the policy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from cosend.algorithm.cells import keys_of
from cosend.algorithm.layout import Floats, Ints
from cosend.algorithm.policies import MOST_CELLS, CoS, EqualCells
from cosend.run.prepare import NOTHING, Prepared
from cosend.simulation.baselines import (
    best_fixed,
    commonest,
    epsilon_greedy,
    linucb,
    per_cell_oracle,
    persistence,
    uniform_random,
)
from cosend.simulation.boosting import MOST_FUNCTIONS, adaboost, sliding_window_adaboost
from cosend.simulation.simulate import simulate
from cosend.streams.table import Mask

WINDOW: Final = 100  # of the sliding-window AdaBoost
HINDSIGHT: Final = ("oracle per cell", "best fixed", "best local")  # these know all labels in advance
MOST_VALUES: Final = 20  # of a category that a linear model gets a column for
NEED_PREDICTIONS: Final = (  # these choose among models whose predictions are known in advance
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
    labelled: Mask | None = None  # where the label is known, which is all that counts; None: everywhere

    @property
    def net(self) -> Floats:
        """What it earned with every item whose label is known."""
        return (self.right - self.paid)[self.counted]

    @property
    def counted(self) -> Mask:
        """Which items count in errors and rewards."""
        return np.ones(len(self.right), np.bool_) if self.labelled is None else self.labelled


def baselines(prepared: Prepared) -> Iterator[Played]:
    """Yield what every baseline would have done at every site; most may use all models of all sites."""
    for site in range(len(prepared.network.sites)):
        if not prepared.labelled(site).any():
            continue
        if len(prepared.known_models):
            yield from _choosing(prepared, site)
            yield from _combining(prepared, site, prepared.costs(site))
        if is_worth_playing_alone(prepared):
            yield _without_peers(prepared, site)
        yield from _repeating(prepared, site)


def is_worth_playing_alone(prepared: Prepared) -> bool:
    """Tell whether there are peers to do without, and the policy can be simulated."""
    return len(prepared.network.sites) > 1 and not prepared.one_by_one


def _late(prepared: Prepared) -> int:
    """Return how many items later a label is known, if labels are looked at once before every item."""
    return max(1, prepared.network.label_delay)


def _repeating(prepared: Prepared, site: int) -> Iterator[Played]:
    """Yield the baselines that use no model at all."""
    labels, name = prepared.items.labels[prepared.items_of(site)], prepared.network.sites[site].name
    free, known = np.zeros(len(labels)), prepared.labelled(site)
    for policy, predicted in (("previous label", persistence), ("commonest label", commonest)):
        said = predicted(labels, _late(prepared), known)
        yield Played(policy, name, (said == labels).astype(np.float64), free, free)


def _without_peers(prepared: Prepared, site: int) -> Played:
    """Play the policy of the run at a site without peers: the difference is what the network is worth."""
    rows, name, own = prepared.rows_of(site), prepared.network.sites[site].name, prepared.owners == site
    seen, learner = prepared.inputs(prepared.policy), prepared.learner_alone(site)
    items = seen["items"][prepared.places[:, site] != NOTHING, site : site + 1]
    gains = np.ascontiguousarray(seen["gains"][:, own])
    delays = prepared.delays
    if not isinstance(delays, int):
        delays = delays[prepared.places[:, site] != NOTHING, site : site + 1]
    trace = simulate([learner], **{**seen, "gains": gains, "items": items}, delay=delays)
    arms, paid = trace.arms[:, 0].astype(np.int64), np.asarray(learner.arms.costs)
    gained = prepared.right[rows][:, own][np.arange(len(rows)), trace.functions[:, 0]].astype(np.float64)
    return Played("never send", name, gained, paid[arms], np.zeros(len(rows)))


def _choosing(prepared: Prepared, site: int) -> Iterator[Played]:
    """Yield the baselines that choose a model for every item, among those whose predictions are known."""
    rows, late, known = prepared.rows_of(site), _late(prepared), prepared.known_models
    costs, owners = prepared.costs(site)[known], prepared.owners[known]
    right = prepared.right[rows][:, known].astype(np.float64)
    values, contexts = right - costs, prepared.contexts[rows]
    values[~prepared.labelled(site)] = np.nan
    cells, own = cells_of(prepared, contexts), np.flatnonzero(owners == site)
    choosing: dict[str, Ints] = {
        "oracle per cell": per_cell_oracle(values, cells),
        "best fixed": best_fixed(values),
        **({"best local": own[best_fixed(values[:, own])]} if len(own) else {}),
        "epsilon-greedy": epsilon_greedy(values, cells, seed=prepared.network.seed, delay=late),
        "LinUCB": linucb(values, _as_numbers(prepared, contexts), delays=late),
        "uniform random": uniform_random(values, prepared.network.seed),
    }
    for policy, picked in choosing.items():
        sent = (owners[picked] != site).astype(np.float64)
        name = prepared.network.sites[site].name
        yield Played(policy, name, right[np.arange(len(rows)), picked], costs[picked], sent)


def cells_of(prepared: Prepared, contexts: Floats) -> Ints:
    """Return a number for the cell of every context: equal slices of numbers, and a cell for every category."""
    keys = keys_of(contexts[:, prepared.measured], slices_of(prepared))
    if len(prepared.measured) == len(prepared.axes):
        return keys
    codes = np.delete(contexts, prepared.measured, axis=1).astype(np.int64)
    cells: Ints = np.unique(np.column_stack([keys, codes]), axis=0, return_inverse=True)[1].reshape(-1)
    return cells


def _as_numbers(prepared: Prepared, contexts: Floats) -> Floats:
    """Return contexts for a linear model: a column of 0 and 1 for each of a category's commonest values."""
    columns = [contexts[:, prepared.measured]]
    for axis in sorted(set(range(len(prepared.axes))).difference(prepared.measured)):
        values, counts = np.unique(contexts[:, axis], return_counts=True)
        commonest_values = values[np.argsort(-counts, kind="stable")[:MOST_VALUES]]
        columns.append((contexts[:, axis][:, None] == commonest_values).astype(np.float64))
    return np.ascontiguousarray(np.hstack(columns))


def _combining(prepared: Prepared, site: int, costs: Floats) -> Iterator[Played]:
    """Yield the ensembles, which ask every model about every item; they need two classes and few models."""
    items, name, late = prepared.items_of(site), prepared.network.sites[site].name, _late(prepared)
    items = items[prepared.labelled(site)]  # the others teach nothing and do not count
    trained_on = int(prepared.training.known.sum())
    outputs, costs = prepared.predictions.codes[:, prepared.known_models], costs[prepared.known_models]
    if len(prepared.classes) != 2 or outputs.shape[1] > MOST_FUNCTIONS or trained_on < WINDOW + late - 1:
        return
    if (outputs < 0).any():  # a vote that is for neither class
        return
    labels_of_all = np.concatenate([prepared.training.labels[prepared.training.known], prepared.items.labels[items]])
    truth = (labels_of_all == prepared.classes[1]).astype(np.int64)
    first = len(prepared.training)
    said = np.concatenate([outputs[:first][prepared.training.known], outputs[first + items]])
    labels = truth[trained_on:]
    boosted = adaboost(said[:trained_on], truth[:trained_on], said[trained_on:])
    slid = sliding_window_adaboost(said, truth, first=trained_on, window=WINDOW, delay=late)
    arrived = len(prepared.items_of(site))
    everything = np.full(arrived, float(costs.sum()))
    always = np.full(arrived, float(len(prepared.network.sites) > 1))
    for policy, predicted in (("AdaBoost", boosted), (f"SWA {WINDOW}", slid)):
        right = np.zeros(arrived)
        right[prepared.labelled(site)] = predicted == labels
        yield Played(policy, name, right, everything, always)


def slices_of(prepared: Prepared) -> int:
    """Return into how many slices an axis is cut where equal cells are needed.

    These are the slices of the policy, or of CoS if it has none; with an unknown horizon, those for the whole stream.
    """
    policy = prepared.policy.policies[0]
    if not isinstance(policy, EqualCells):
        policy = CoS(max_cells=MOST_CELLS)
    return policy.slices_at(policy.horizon or len(prepared.arrivals), max(1, len(prepared.measured)))
