"""What a run comes to, as plain data for the table, the page and results.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from cosend.core.kernel.bookkeeping import EXPLOIT, EXPLORE, TRAIN
from cosend.core.learner.learner import Learner
from cosend.experiments.scenario.run import Outcome, Played, slices_of, summary
from cosend.experiments.scenario.world import NOTHING, World

POINTS = 200  # of a curve
BINS = 50  # of the phases over time


def result(world: World, outcome: Outcome) -> dict[str, Any]:
    """Return everything that the report shows."""
    sites = [site.name for site in world.scenario.sites]
    return {
        "title": world.scenario.title,
        "items": len(np.unique(world.arrivals[world.arrivals != NOTHING])),
        "sites": sites,
        "context": [(axis.feature or axis.kind).replace("_", " ") for axis in world.scenario.context],
        "slices": slices_of(world),
        "rows": summary(outcome.played),
        "error_curves": error_curves(outcome.played),
        "phases": {name: phases(world, outcome, site) for site, name in enumerate(sites)},
        "winners": {learner.name: winners(learner) for learner in outcome.learners},
        "flows": flows(outcome, sites),
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
        name: [round(100 * float((part == code).mean()), 3) for part in parts]
        for name, code in (("train", TRAIN), ("explore", EXPLORE), ("exploit", EXPLOIT))
    }
    return {"item": centres, **shares}


def winners(learner: Learner) -> dict[str, Any]:
    """Return which arm a site holds for the best in every cell that it has visited."""
    cells = sorted(learner.cells().values(), key=lambda cell: cell.axes)
    arms = list(learner.arms.names)
    best = [max(arms, key=lambda arm: cell.estimates[arm].mean_reward) for cell in cells]
    return {
        "arms": arms,
        "cells": [list(cell.axes) for cell in cells],
        "best": [arms.index(arm) for arm in best],
        "arrivals": [cell.labelled.arrivals for cell in cells],
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
