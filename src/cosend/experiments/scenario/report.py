"""What a run comes to, as plain data for the table, the page and results.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosend.config.policies import inside_of, name_of
from cosend.core.kernel.bookkeeping import EXPLOIT, EXPLORE, LOOK, TRAIN
from cosend.core.kernel.partition import axes_of, keys_of
from cosend.core.policy.parts import EqualCells
from cosend.experiments.scenario.others import Played, slices_of
from cosend.experiments.scenario.run import Outcome, summary
from cosend.experiments.scenario.world import NOTHING, World

POINTS = 200  # of a curve
BINS = 50  # of the phases over time


def result(world: World, outcome: Outcome) -> dict[str, Any]:
    """Return everything that the report shows."""
    sites = [site.name for site in world.scenario.sites]
    return {
        "title": world.scenario.title,
        "policy": name_of(world.policy),
        "items": len(np.unique(world.arrivals[world.arrivals != NOTHING])),
        "sites": sites,
        "context": [(axis.feature or axis.kind).replace("_", " ") for axis in world.scenario.context],
        "slices": slices_of(world),
        "rows": summary(outcome.played),
        "error_curves": error_curves(outcome.played),
        "phases": {name: phases(world, outcome, site) for site, name in enumerate(sites)},
        "winners": {name: winners(world, outcome, site) for site, name in enumerate(sites)},
        "flows": flows(outcome, sites),
        "notes": outcome.notes,
    }


def error_curves(played: list[Played]) -> dict[str, Any]:
    """Return for every policy the share of errors so far, over all sites together."""
    curves = {}
    for policy in dict.fromkeys(each.policy for each in played):
        own = [each.right for each in played if each.policy == policy]
        length = max(len(right) for right in own)
        errors, seen = np.zeros(length), np.zeros(length)
        for right in own:
            errors[: len(right)] += 1.0 - right
            seen[: len(right)] += 1
        share = 100 * np.cumsum(errors) / np.cumsum(seen)
        at = np.unique(np.linspace(0, length - 1, min(POINTS, length)).astype(int))
        curves[policy] = {"item": (at + 1).tolist(), "error": share[at].round(4).tolist()}
    return curves


def phases(world: World, outcome: Outcome, site: int) -> dict[str, Any]:
    """Return the shares of the three phases over time at a site."""
    own = outcome.trace.phases[world.places[:, site] != NOTHING, site]
    parts = [part for part in np.array_split(own, min(BINS, max(1, len(own)))) if len(part)]
    ends = np.cumsum([len(part) for part in parts])
    centres = [int(end - len(part) / 2) for end, part in zip(ends, parts, strict=True)]
    shares = {
        name: [round(100 * float(np.isin(part, codes).mean()), 3) for part in parts]
        for name, codes in (("train", [TRAIN]), ("explore", [EXPLORE, LOOK]), ("exploit", [EXPLOIT]))
    }
    return {"item": centres, **shares}


def winners(world: World, outcome: Outcome, site: int) -> dict[str, Any]:
    """Return which arm is the best in every cell that a site has visited.

    That is what the site holds for the best if its policy has these cells, else the arm that it used most in them.
    The values of a category have no place on an axis, so there is nothing to draw for them.
    """
    learner = outcome.learners[site]
    if len(world.measured) < len(world.axes):
        return {"arms": list(learner.arms.names), "cells": [], "best": [], "arrivals": []}
    cells = [cell for cell in learner.cells().values() if cell.view == 0]
    if not _has_these_cells(world) or {cell.slices for cell in cells} - {slices_of(world)}:
        return _most_used(world, outcome, site)
    cells.sort(key=lambda cell: cell.axes)
    arms = list(learner.arms.names)
    best = [max(arms, key=lambda arm: cell.estimates[arm].mean_reward) for cell in cells]
    return {
        "arms": arms,
        "cells": [list(cell.axes) for cell in cells],
        "best": [arms.index(arm) for arm in best],
        "arrivals": [cell.labelled.arrivals for cell in cells],
    }


def _has_these_cells(world: World) -> bool:
    """Tell whether the policy has equal cells, of one view of the context, from the beginning to the end."""
    one_view = world.policy.candidate_count(len(world.axes)) == 1
    return one_view and isinstance(inside_of(world.policy), EqualCells) and not world.policy.doubles


def _most_used(world: World, outcome: Outcome, site: int) -> dict[str, Any]:
    """Return the arm that a site used most in every equal cell, while it exploited if it did."""
    arrived = world.places[:, site] != NOTHING
    arms, phases = outcome.trace.arms[arrived, site].astype(np.int64), outcome.trace.phases[arrived, site]
    keys = keys_of(world.contexts[world.rows_of(site)], slices_of(world))
    best, arrivals = {}, {}
    for key in np.unique(keys).tolist():
        here = keys == key
        settled = here & (phases == EXPLOIT)
        best[key] = int(np.bincount(arms[settled if settled.any() else here]).argmax())
        arrivals[key] = int(here.sum())
    return {
        "arms": list(outcome.learners[site].arms.names),
        "cells": [list(axes_of(key, [slices_of(world)] * len(world.axes))) for key in best],
        "best": list(best.values()),
        "arrivals": list(arrivals.values()),
    }


def flows(outcome: Outcome, sites: list[str]) -> dict[str, Any]:
    """Return who labels whose items, in % of the items of the site where they arrived."""
    percent = []
    for site, learner in enumerate(outcome.learners):
        arrived = outcome.trace.phases[:, site] > 0
        arms = outcome.trace.arms[arrived, site]
        own = len(learner.arms.own)
        shares = {learner.name: 100 * float((arms < own).mean()) if len(arms) else 0.0}
        for number, peer in enumerate(learner.arms.peers, start=own):
            shares[peer] = 100 * float((arms == number).mean()) if len(arms) else 0.0
        percent.append([round(shares[name], 3) for name in sites])
    return {"from": sites, "to": sites, "percent": percent}
