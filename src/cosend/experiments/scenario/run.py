"""Play a scenario: its policy at every site, and other policies and the baselines beside it on the same items."""

from __future__ import annotations

from collections.abc import Iterator
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
from cosend.experiments.scenario import live
from cosend.experiments.scenario.live import Watch
from cosend.experiments.scenario.world import NOTHING, World
from cosend.simulation.kernel.loop import Trace
from cosend.simulation.replay import replay

WINDOW = 100  # of the sliding-window AdaBoost
HINDSIGHT = ("oracle per cell", "best fixed")  # these know all labels beforehand
MOST_VALUES = 20  # of a category that a linear model gets a column for
NEED_ANSWERS = ("the oracle per cell", "best fixed", "epsilon-greedy", "LinUCB", "uniform random", "AdaBoost")


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
    """What was played, and the learners of the scenario's policy as they are now."""

    played: list[Played]
    learners: list[Learner]
    trace: Trace
    notes: list[str]  # what a reader should know


def run(world: World, watch: Watch | None = None, *, others: bool = True) -> Outcome:
    """Play the policy of the scenario, the others beside it unless that would take too long, and all baselines."""
    first = _play(world, world.policy, watch)
    played = [*first.played]
    for policy in beside(world) if others else ():
        played += _play(world, policy, None).played
    notes = [*_how_it_was_played(world), *world.notes, *first.notes]
    return Outcome([*played, *baselines(world)], first.learners, first.trace, notes)


def _play(world: World, policy: Policy, watch: Watch | None) -> Outcome:
    """Play a policy, compiled if what every function says is known beforehand, else through real sites."""
    if world.one_by_one:
        lived = live.play(world, policy, watch)
        return Outcome([*_lived(name_of(policy), world, lived)], lived.learners, lived.trace, lived.notes)
    learners = world.learners(policy)
    trace = _replayed(world, learners, watch)
    return Outcome([*_learnt(name_of(policy), world, learners, trace)], learners, trace, [])


def _how_it_was_played(world: World) -> Iterator[str]:
    if world.one_by_one:
        yield f"played item by item, because {' and '.join(world.one_by_one)}"
    if not world.known:
        yield (
            f"left out, because they must know beforehand what every classifier says: {', '.join(NEED_ANSWERS)}; "
            "and with the oracle, regret"
        )


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

    def seen(slots: int, trace: Trace) -> None:
        if watch is not None:
            watch(slots, _errors_so_far(world, trace, slots))

    watching = None if watch is None else seen
    return replay(learners, world.contexts, world.right, items=world.places, delay=delay, watch=watching)


def _errors_so_far(world: World, trace: Trace, slots: int) -> float:
    """Return the share of errors so far."""
    places = world.places[:slots]
    arrived = places != NOTHING
    if not arrived.any():
        return 0.0
    return 1.0 - float(world.right[places[arrived], trace.functions[:slots][arrived]].mean())


def _learnt(policy: str, world: World, learners: list[Learner], trace: Trace) -> Iterator[Played]:
    """Yield what a policy did at every site."""
    for site, learner in enumerate(learners):
        functions = trace.functions[world.places[:, site] != NOTHING, site]
        yield _at_site(policy, world, learner, trace, site, world.right[world.rows_of(site), functions])


def _lived(policy: str, world: World, lived: live.Live) -> Iterator[Played]:
    """Yield what a policy did at every real site."""
    for site, learner in enumerate(lived.learners):
        yield _at_site(policy, world, learner, lived.trace, site, lived.right[site])


def _at_site(policy: str, world: World, learner: Learner, trace: Trace, site: int, right: Any) -> Played:
    arrived = world.places[:, site] != NOTHING
    arms, phases = trace.arms[arrived, site].astype(np.int64), trace.phases[arrived, site]
    return Played(
        policy,
        learner.name,
        right.astype(np.float64),
        np.asarray(learner.arms.costs())[arms],
        (arms >= len(learner.arms.own)).astype(np.float64),
        (phases == TRAIN).astype(np.float64),
        np.isin(phases, (EXPLORE, LOOK)).astype(np.float64),
    )


def baselines(world: World) -> Iterator[Played]:
    """Yield what every baseline would have done at every site; most may use all functions of all sites."""
    for site, setting in enumerate(world.scenario.sites):
        labels = world.items.labels[world.items_of(site)]
        if not len(labels):
            continue
        if world.known:
            yield from _choosing(world, site)
            yield from _combining(world, site, world.costs(site))
        free = np.zeros(len(labels))
        yield Played("previous label", setting.name, (persistence(labels) == labels).astype(np.float64), free, free)


def _choosing(world: World, site: int) -> Iterator[Played]:
    """Yield the baselines that choose a function for every item."""
    rows, costs = world.rows_of(site), world.costs(site)
    right = world.right[rows].astype(np.float64)
    values, contexts = right - costs, world.contexts[rows]
    cells = cells_of(world, contexts)
    choosing: dict[str, Ints] = {
        "oracle per cell": per_cell_oracle(values, cells),
        "best fixed": best_fixed(values),
        "epsilon-greedy": epsilon_greedy(values, cells, seed=world.scenario.seed),
        "LinUCB": linucb(values, _as_numbers(world, contexts)),
        "uniform random": uniform_random(values, world.scenario.seed),
    }
    for policy, picked in choosing.items():
        sent = (world.owners[picked] != site).astype(np.float64)
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
        commonest = values[np.argsort(-counts, kind="stable")[:MOST_VALUES]]
        columns.append((contexts[:, axis][:, None] == commonest).astype(np.float64))
    return np.ascontiguousarray(np.hstack(columns))


def _combining(world: World, site: int, costs: Floats) -> Iterator[Played]:
    """Yield the ensembles, which ask every function about every item; they need two classes and few functions."""
    items, name = world.items_of(site), world.scenario.sites[site].name
    trained_on = len(world.training)
    if len(world.classes) != 2 or world.outputs.shape[1] > MOST_FUNCTIONS or trained_on < WINDOW:
        return
    if (world.outputs < 0).any():  # a vote that is for neither class
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
    return inside.slices_at(inside.horizon or len(world.arrivals), max(1, len(world.measured)))


def summary(played: list[Played]) -> list[dict[str, Any]]:
    """Return one row for every site and policy; regret is against the per-cell oracle, None if that did not play."""
    oracle = {each.site: _net(each) for each in played if each.policy == "oracle per cell"}
    played = [each for each in played if len(each.right)]  # nothing arrived at the others
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
            "regret": oracle[each.site] - _net(each) if each.site in oracle else None,
            "hindsight": each.policy in HINDSIGHT,
        }
        for each in played
    ]


def _net(each: Played) -> float:
    return float((each.right - each.paid).sum())


def _percent(share: Floats) -> float:
    return 100 * float(share.mean()) if len(share) else 0.0
