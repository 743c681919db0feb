"""Play a scenario: its policy at every site, and other policies and the baselines beside it on the same items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from cosend.baselines.bandits import epsilon_greedy, linucb
from cosend.baselines.boosting import MOST_FUNCTIONS, adaboost, sliding_window_adaboost
from cosend.baselines.fixed import best_fixed, per_cell_oracle, persistence, uniform_random
from cosend.config.policies import inside_of, name_of
from cosend.core.kernel.bookkeeping import EXPLORE, LOOK, TRAIN
from cosend.core.kernel.ledger import Floats, Ints
from cosend.core.kernel.partition import keys_of
from cosend.core.learner.learner import Learner
from cosend.core.policy.parts import MOST_CELLS, MOST_CUBE_AXES, EqualCells, Policy
from cosend.core.policy.policies import CellKLUCB, ContextSelection, CoS, ZoomingKLUCB
from cosend.experiments.scenario.world import NOTHING, World
from cosend.simulation.kernel.loop import Trace
from cosend.simulation.replay import replay

WINDOW = 100  # of the sliding-window AdaBoost
HINDSIGHT = ("oracle per cell", "best fixed")  # these know all labels beforehand
Watch = Callable[[int, Trace], None]


class Played(NamedTuple):
    """What one policy did at one site, item by item."""

    policy: str
    site: str
    right: Floats  # 1 or 0
    paid: Floats
    sent: Floats  # 1 where a peer was asked
    trained: Floats | None = None  # 1 in a training phase; None for baselines
    explored: Floats | None = None


class Outcome(NamedTuple):
    """Everything that was played, and the learners of the scenario's policy as they are now."""

    played: list[Played]
    learners: list[Learner]
    trace: Trace


def run(world: World, watch: Watch | None = None) -> Outcome:
    """Play the policy of the scenario, others beside it, and all baselines."""
    learners = world.learners(world.policy)
    trace = _replayed(world, learners, watch)
    played = [*_learnt(name_of(world.policy), world, learners, trace)]
    for policy in beside(world):
        others = world.learners(policy)
        played += _learnt(name_of(policy), world, others, _replayed(world, others, None))
    return Outcome([*played, *baselines(world)], learners, trace)


def beside(world: World) -> list[Policy]:
    """Return the policies that are played beside that of the scenario: those of other names.

    Cubes split on a limited number of axes, and there is a context to select if there are several.
    """
    slices, axes = slices_of(world), len(world.axes)
    policies: list[Policy] = [CoS(horizon=world.horizon, slices=slices), CellKLUCB(slices=slices)]
    if axes <= MOST_CUBE_AXES:
        policies += [ZoomingKLUCB(), *([ContextSelection()] if axes > 1 else [])]
    return [policy for policy in policies if name_of(policy) != name_of(world.policy)]


def _replayed(world: World, learners: list[Learner], watch: Watch | None) -> Trace:
    delay = world.scenario.label_delay
    return replay(learners, world.contexts, world.right, items=world.places, delay=delay, watch=watch)


def _learnt(policy: str, world: World, learners: list[Learner], trace: Trace) -> Iterator[Played]:
    """Yield what a policy did at every site."""
    for site, learner in enumerate(learners):
        arrived = world.places[:, site] != NOTHING
        rows, functions = world.rows_of(site), trace.functions[arrived, site]
        arms, phases = trace.arms[arrived, site].astype(np.int64), trace.phases[arrived, site]
        yield Played(
            policy,
            learner.name,
            world.right[rows, functions].astype(np.float64),
            np.asarray(learner.arms.costs())[arms],
            (arms >= len(learner.arms.own)).astype(np.float64),
            (phases == TRAIN).astype(np.float64),
            np.isin(phases, (EXPLORE, LOOK)).astype(np.float64),
        )


def baselines(world: World) -> Iterator[Played]:
    """Yield what every baseline would have done at every site; they may use all functions of all sites."""
    for site, setting in enumerate(world.scenario.sites):
        rows = world.rows_of(site)
        if not len(rows):
            continue
        right, costs = world.right[rows].astype(np.float64), world.costs(site)
        values, contexts = right - costs, world.contexts[rows]
        cells = keys_of(contexts, slices_of(world))
        choosing: dict[str, Ints] = {
            "oracle per cell": per_cell_oracle(values, cells),
            "best fixed": best_fixed(values),
            "epsilon-greedy": epsilon_greedy(values, cells, seed=world.scenario.seed),
            "LinUCB": linucb(values, contexts),
            "uniform random": uniform_random(values, world.scenario.seed),
        }
        for policy, picked in choosing.items():
            sent = (world.owners[picked] != site).astype(np.float64)
            yield Played(policy, setting.name, right[np.arange(len(rows)), picked], costs[picked], sent)
        yield from _combining(world, site, costs)
        labels = world.items.labels[world.items_of(site)]
        free = np.zeros(len(rows))
        yield Played("previous label", setting.name, (persistence(labels) == labels).astype(np.float64), free, free)


def _combining(world: World, site: int, costs: Floats) -> Iterator[Played]:
    """Yield the ensembles, which ask every function about every item; they need two classes and few functions."""
    items, name = world.items_of(site), world.scenario.sites[site].name
    trained_on = len(world.training)
    if len(world.classes) != 2 or world.outputs.shape[1] > MOST_FUNCTIONS or trained_on < WINDOW:
        return
    labels_of_all = np.concatenate([world.training.labels, world.items.labels[items]])
    truth = (labels_of_all == world.classes[1]).astype(np.int64)
    said = np.concatenate([world.outputs[:trained_on], world.outputs[trained_on + items]])
    labels = truth[trained_on:]
    boosted = adaboost(said[:trained_on], truth[:trained_on], said[trained_on:])
    slid = sliding_window_adaboost(said, truth, first=trained_on, window=WINDOW)
    everything = np.full(len(items), float(costs.sum()))
    always = np.full(len(items), float(len(world.scenario.sites) > 1))
    yield Played("AdaBoost", name, (boosted == labels).astype(np.float64), everything, always)
    yield Played(f"SWA {WINDOW}", name, (slid == labels).astype(np.float64), everything, always)


def slices_of(world: World) -> int:
    """Return into how many slices an axis is cut where equal cells are needed.

    They are the slices of the policy, or those that CoS would have if it has none. With an unknown horizon there are as
    many as for the whole stream.
    """
    inside = inside_of(world.policy)
    if not isinstance(inside, EqualCells):
        inside = CoS(max_cells=MOST_CELLS)
    return inside.slices_at(inside.horizon or len(world.arrivals), len(world.axes))


def summary(played: list[Played]) -> list[dict[str, Any]]:
    """Return one row for every site and policy; regret is against the per-cell oracle."""
    oracle = {each.site: _net(each) for each in played if each.policy == "oracle per cell"}
    played = [each for each in played if each.site in oracle]  # nothing arrived at the others
    return [
        {
            "site": each.site,
            "policy": each.policy,
            "error": _percent(1.0 - each.right),
            "mean_reward": _net(each) / max(1, len(each.right)),
            "sent": _percent(each.sent),
            "cost": float(each.paid.sum()),
            "training": None if each.trained is None else _percent(each.trained),
            "exploration": None if each.explored is None else _percent(each.explored),
            "regret": oracle[each.site] - _net(each),
            "hindsight": each.policy in HINDSIGHT,
        }
        for each in played
    ]


def _net(each: Played) -> float:
    return float((each.right - each.paid).sum())


def _percent(share: Floats) -> float:
    return 100 * float(share.mean()) if len(share) else 0.0
