"""What a run comes to, as plain data for the terminal, the page and results.json."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cosend.algorithm.cells import axes_of, keys_of
from cosend.algorithm.layout import EXPLOIT, EXPLORE, TRAIN
from cosend.algorithm.policies import EqualCells, Policy
from cosend.run.averages import averaged
from cosend.run.binning import scale_and_bins
from cosend.run.competitors import slices_of
from cosend.run.curves import change, curves, error_curves
from cosend.run.play import Learnt, Outcome, summary, what_others_see
from cosend.run.prepare import NOTHING, Prepared

BINS: Final = 50  # of the phases over time


def result(prepared: Prepared, outcome: Outcome) -> dict[str, Any]:
    """Return everything that the report shows of one stream."""
    return averaged([one_stream(prepared, outcome)])


def one_stream(prepared: Prepared, outcome: Outcome) -> dict[str, Any]:
    """Return what one stream has given, to be put together with others."""
    arrived = np.unique(prepared.arrivals[prepared.arrivals != NOTHING])
    return {
        "title": prepared.network.title,
        "policy": prepared.policy.name,
        "is_default": prepared.network.policy is None,
        "seed": prepared.network.seed,
        "data": prepared.digest,
        "items": len(arrived),
        "unlabelled": int((~prepared.items.known[arrived]).sum()),
        "sites": [site.name for site in prepared.network.sites],
        "context": [axis.title for axis in prepared.axis_sections],
        "goes_by": goes_by(prepared),
        "others_see": what_others_see(prepared),
        "axes": [scale_and_bins(prepared, axis)[0].plain() for axis in range(len(prepared.axes))],
        "slices": slices_of(prepared),
        "models": {site.name: models(prepared, outcome, n) for n, site in enumerate(prepared.network.sites)},
        "rows": summary(outcome.played, known=prepared.all_known),
        "error_curves": error_curves(outcome.played),
        "curves": curves(outcome.played),
        "change": change(prepared, outcome.played),
        **looked_at(prepared, outcome.first),
        "others": {each.policy.name: looked_at(prepared, each) for each in outcome.others},
        "notes": outcome.notes,
    }


def models(prepared: Prepared, outcome: Outcome, site: int) -> list[dict[str, Any]]:
    """Return a row for every arm of a site: what the policy used it for, and what a model would earn alone.

    The error is that of the items for which it was used and whose label is known; None if there is none, or if nothing
    is known of it alone.
    """
    learner, (own,) = (
        outcome.first.learners[site],
        [
            each
            for each in outcome.played
            if (each.policy, each.site) == (prepared.policy.name, prepared.network.sites[site].name)
        ],
    )
    arms = outcome.first.trace.arms[prepared.places[:, site] != NOTHING, site]
    functions = np.flatnonzero(prepared.owners == site)
    known = own.counted
    net = (prepared.right[prepared.rows_of(site)] - prepared.costs(site))[known]
    found = []
    for number, name in enumerate(learner.arms.names):
        used = arms == number
        is_known = number < len(functions) and known.any() and prepared.predictions.known[functions[number]]
        found.append(
            {
                "model": name,
                "share": 100 * float(used.mean()) if len(used) else 0.0,
                "cost": float(own.paid[used].sum()),
                "error": 100 * float(1.0 - own.right[used & known].mean()) if (used & known).any() else None,
                "alone": float(net[:, functions[number]].mean()) if is_known else None,
            }
        )
    return found


def goes_by(prepared: Prepared) -> list[str]:
    """Return what the policy decides by, in words: the axes that are given, and every feature if it looks at them."""
    given = [axis.title for axis in prepared.network.given]
    return [*given, "every feature"] if prepared.network.watches else given


def looked_at(prepared: Prepared, learnt: Learnt) -> dict[str, Any]:
    """Return what a policy did, site by site: its phases, the best arms, the arms it used where, and whom it asked."""
    sites = [site.name for site in prepared.network.sites]
    return {
        "phases": {name: phases(prepared, learnt, site) for site, name in enumerate(sites)},
        "winners": {name: winners(prepared, learnt, site) for site, name in enumerate(sites)},
        "use": use(prepared, learnt),
        "flows": flows(learnt, sites),
    }


def phases(prepared: Prepared, learnt: Learnt, site: int) -> dict[str, Any]:
    """Return the shares of the three phases over time at a site."""
    own = learnt.trace.phases[prepared.places[:, site] != NOTHING, site]
    parts = [part for part in np.array_split(own, min(BINS, max(1, len(own)))) if len(part)]
    ends = np.cumsum([len(part) for part in parts])
    centres = [int(end - len(part) / 2) for end, part in zip(ends, parts, strict=True)]
    shares = {
        name: [round(100 * float(np.isin(part, codes).mean()), 3) for part in parts]
        for name, codes in (("train", [TRAIN]), ("explore", [EXPLORE]), ("exploit", [EXPLOIT]))
    }
    return {"item": centres, **shares}


def use(prepared: Prepared, learnt: Learnt) -> dict[str, Any]:
    """Return how often each arm was used in every bin of the context, in the second half of a site's items.

    By then a policy has learnt what it can, and uses what it holds for the best.
    """
    bins = np.column_stack([scale_and_bins(prepared, axis)[1] for axis in range(len(prepared.axes))])
    found = {}
    for site, learner in enumerate(learnt.learners):
        arrived = np.flatnonzero(prepared.places[:, site] != NOTHING)
        late = arrived[len(arrived) // 2 :]
        places, arms = bins[prepared.places[late, site]], learnt.trace.arms[late, site].astype(np.int64)
        inside = (places != NOTHING).all(axis=1)
        cells, number_of = np.unique(places[inside], axis=0, return_inverse=True)
        counts = np.zeros((len(cells), len(learner.arms)), np.int64)
        np.add.at(counts, (number_of.reshape(-1), arms[inside]), 1)
        names = list(learner.arms.names)
        owners = [name if name in learner.arms.peers else learner.name for name in names]
        found[learner.name] = {"arms": names, "owners": owners, "cells": cells.tolist(), "counts": counts.tolist()}
    return found


def winners(prepared: Prepared, learnt: Learnt, site: int) -> dict[str, Any]:
    """Return which arm is the best in every cell that a site has visited.

    That is what the site holds for the best if its policy has these cells, else the arm that it used most in them.
    The values of a category have no place on an axis, so there is nothing to draw for them.
    """
    learner = learnt.learners[site]
    if len(prepared.measured) < len(prepared.axes):
        return {"arms": list(learner.arms.names), "cells": [], "best": [], "arrivals": []}
    cells = [cell for cell in learner.cells().values() if cell.view == 0]
    if not _has_these_cells(learnt.policy.policies[site]) or {cell.slices for cell in cells} - {slices_of(prepared)}:
        return _most_used(prepared, learnt, site)
    cells.sort(key=lambda cell: cell.axes)
    arms = list(learner.arms.names)
    best = [max(arms, key=lambda arm: cell.estimates[arm].mean_reward) for cell in cells]
    return {
        "arms": arms,
        "cells": [list(cell.axes) for cell in cells],
        "best": [arms.index(arm) for arm in best],
        "arrivals": [cell.labelled.arrivals for cell in cells],
    }


def _has_these_cells(policy: Policy) -> bool:
    """Tell whether a policy has equal cells, from the beginning to the end."""
    return isinstance(policy, EqualCells) and not policy.doubles


def _most_used(prepared: Prepared, learnt: Learnt, site: int) -> dict[str, Any]:
    """Return the arm that a site used most in every equal cell, while it exploited if it did."""
    arrived = prepared.places[:, site] != NOTHING
    arms, phases = learnt.trace.arms[arrived, site].astype(np.int64), learnt.trace.phases[arrived, site]
    keys = keys_of(prepared.contexts[prepared.rows_of(site)], slices_of(prepared))
    best, arrivals = {}, {}
    for key in np.unique(keys).tolist():
        here = keys == key
        settled = here & (phases == EXPLOIT)
        best[key] = int(np.bincount(arms[settled if settled.any() else here]).argmax())
        arrivals[key] = int(here.sum())
    return {
        "arms": list(learnt.learners[site].arms.names),
        "cells": [list(axes_of(key, [slices_of(prepared)] * len(prepared.axes))) for key in best],
        "best": list(best.values()),
        "arrivals": list(arrivals.values()),
    }


def flows(learnt: Learnt, sites: list[str]) -> dict[str, Any]:
    """Return who labels whose items, in % of the items of the site where they arrived."""
    percent = []
    for site, learner in enumerate(learnt.learners):
        arrived = learnt.trace.phases[:, site] > 0
        arms = learnt.trace.arms[arrived, site]
        own = len(learner.arms.own)
        shares = {learner.name: 100 * float((arms < own).mean()) if len(arms) else 0.0}
        for number, peer in enumerate(learner.arms.peers, start=own):
            shares[peer] = 100 * float((arms == number).mean()) if len(arms) else 0.0
        percent.append([round(shares[name], 3) for name in sites])
    return {"from": sites, "to": sites, "percent": percent}
