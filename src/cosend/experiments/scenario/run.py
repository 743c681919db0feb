"""Play a scenario: its policy at every site, and other policies and the baselines beside it on the same items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cosend.config.policies import name_of
from cosend.core.kernel.bookkeeping import EXPLORE, TRAIN
from cosend.core.kernel.ledger import Floats
from cosend.core.learner.learner import Learner
from cosend.core.policy.parts import MOST_CUBE_AXES, Policy
from cosend.core.policy.policies import CellKLUCB, CoS, ZoomingKLUCB
from cosend.experiments.scenario import live
from cosend.experiments.scenario.live import Elsewhere, Watch
from cosend.experiments.scenario.others import HINDSIGHT, NEED_ANSWERS, Played, baselines, slices_of
from cosend.experiments.scenario.world import NOTHING, Way, World, way_of
from cosend.simulation.features import features_with_axes
from cosend.simulation.kernel.loop import Trace
from cosend.simulation.replay import replay
from cosend.site.context import plain_name
from cosend.site.trusting import trusted_views


class Learnt(NamedTuple):
    """What sites have decided in some way, and their learners as they are now."""

    way: Way
    learners: list[Learner]
    trace: Trace


class Outcome(NamedTuple):
    """What was played, and the learners of the scenario's policy as they are now."""

    played: list[Played]
    learners: list[Learner]
    trace: Trace
    notes: list[str]  # what a reader should know
    others: Sequence[Learnt] = ()  # the policies beside it


def run(
    world: World, watch: Watch | None = None, *, others: bool = True, elsewhere: Elsewhere | None = None
) -> Outcome:
    """Play the policy of the scenario, the others beside it unless that would take too long, and all baselines.

    elsewhere  where the sites run that have the policy of the scenario, if not here
    """
    first = _play(world, world.way, watch, elsewhere)
    played, learnt = [*first.played], []
    for way in beside(world) if others else ():
        other = _play(world, way, None)
        played += other.played
        learnt.append(Learnt(way, other.learners, other.trace))
    labelled = {each.name: world.labelled(site) for site, each in enumerate(world.scenario.sites)}
    notes = [*_how_it_was_played(world, elsewhere), *world.notes, *first.notes]
    played = [each._replace(labelled=labelled[each.site]) for each in (*played, *baselines(world))]
    return Outcome(played, first.learners, first.trace, notes, learnt)


def _play(world: World, way: Way, watch: Watch | None, elsewhere: Elsewhere | None = None) -> Outcome:
    """Play all sites, compiled if what every function says is known in advance, else as real ones."""
    if world.one_by_one or elsewhere is not None:
        lived = live.play(world, way, watch, elsewhere)
        return Outcome([*_lived(way.name, world, lived)], lived.learners, lived.trace, lived.notes)
    learners = world.learners(way)
    trace = _replayed(world, way, learners, watch)
    notes = _what_they_go_by(world, way, learners)
    return Outcome([*_learnt(way.name, world, learners, trace)], learners, trace, [*notes])


def _what_they_go_by(world: World, way: Way, learners: list[Learner]) -> Iterator[str]:
    """Yield for sites that look at every feature which of them matter."""
    if not world.looks_at_features(way):
        return
    features, given = world.features, [plain_name(axis) for axis in world.given]
    for site, learner in enumerate(learners):
        laid = features_with_axes([features[item] for item in world.items_of(site).tolist()])
        yield live.what_it_goes_by(learner.name, trusted_views(learner.views(), [*given, *laid]))


def _how_it_was_played(world: World, elsewhere: Elsewhere | None) -> Iterator[str]:
    if elsewhere is not None:
        yield f"{world.way.name} was played through {len(world.scenario.sites)} processes that ask each other"
    if world.one_by_one:
        yield f"played item by item, because {' and '.join(world.one_by_one)}"
    if not len(world.foreseen):
        yield (
            f"left out, because they must know in advance what a classifier says: {', '.join(NEED_ANSWERS)}; "
            "and with the oracle, regret"
        )
    elif not world.known:
        without = " and ".join(map(repr, unforeseen(world)))
        yield (
            f"{', '.join(NEED_ANSWERS)} do without {without}, because what is played decides what they learn; "
            "and regret is not known"
        )


def unforeseen(world: World) -> list[str]:
    """Return the classifiers whose answers depend on what is played."""
    names = [setting.name for _, _, setting in world.scenario.classifiers()]
    return [name for name, known in zip(names, world.answers.foreseen.tolist(), strict=True) if not known]


def what_others_see(world: World) -> str | None:
    """Say what everybody but the policy of the scenario decides by, if that is less; None if it is the same."""
    if not world.looks_at_features(world.way):
        return None
    known = "the axes that the file names" if world.scenario.given else "the time"
    return f"{world.way.name} looks at every feature. All others, the oracle per cell too, see only {known}."


def beside(world: World) -> list[Way]:
    """Return the ways to decide that are played beside that of the scenario: the default, and policies by name.

    Labels score the same classifiers for them as for the default, except for CoS, which stays as the paper has it.
    Cubes split on a limited number of axes, and there is a context to select if there are several.
    """
    slices, axes, scenario = slices_of(world), len(world.axes), world.scenario
    policies: list[Policy] = [CellKLUCB(slices=slices)]
    if axes <= MOST_CUBE_AXES:
        policies += [ZoomingKLUCB()]
    default, paper = way_of(scenario, None), way_of(scenario, CoS(horizon=world.horizon, slices=slices))
    ways = [default, paper, *(_scored_alike(default, policy) for policy in policies)]
    return [way for way in ways if way.name != world.way.name]


def _scored_alike(default: Way, policy: Policy) -> Way:
    return Way(name_of(policy), {site: (policy, scored) for site, (_, scored) in default.by_site.items()})


def _replayed(world: World, way: Way, learners: list[Learner], watch: Watch | None) -> Trace:
    def seen(slots: int, trace: Trace) -> None:
        if watch is not None:
            watch(slots, _errors_so_far(world, trace, slots))

    watching = None if watch is None else seen
    return replay(learners, **world.seen(way), delay=world.delays, watch=watching)


def _errors_so_far(world: World, trace: Trace, slots: int) -> float:
    """Return the share of errors so far."""
    places = world.places[:slots]
    arrived = (places != NOTHING) & world.items.known[world.arrivals[:slots]]
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
        np.asarray(learner.arms.costs)[arms],
        (arms >= len(learner.arms.own)).astype(np.float64),
        (phases == TRAIN).astype(np.float64),
        (phases == EXPLORE).astype(np.float64),
    )


def summary(played: list[Played], *, known: bool = True) -> list[dict[str, Any]]:
    """Return one row for every site and policy; regret is against the per-cell oracle.

    It is None if that did not play, or not `known`: the oracle did without some of the models.
    """
    oracle = {each.site: float(each.net.sum()) for each in played if known and each.policy == "oracle per cell"}
    played = [each for each in played if each.counted.any()]  # nothing arrived at the others, or nobody knows what
    return [
        {
            "site": each.site,
            "policy": each.policy,
            "error": _percent(1.0 - each.right[each.counted]),
            "mean_reward": float(each.net.sum()) / len(each.net),
            "sent": _percent(each.sent),
            "cost": float(each.paid.sum()),
            "training": None if each.trained is None else _percent(each.trained),
            "exploration": None if each.explored is None else _percent(each.explored),
            "regret": oracle[each.site] - float(each.net.sum()) if each.site in oracle else None,
            "hindsight": each.policy in HINDSIGHT,
        }
        for each in played
    ]


def _percent(share: Floats) -> float:
    return 100 * float(share.mean()) if len(share) else 0.0
