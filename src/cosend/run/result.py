"""The result of a run, as plain data for the terminal, the page and results.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.algorithm.cells import axes_of, keys_of
from cosend.algorithm.layout import EXPLOIT, EXPLORE, TRAIN, Floats, Ints
from cosend.algorithm.policies import EqualCells
from cosend.axes import PreviousLabel, Time, text_column
from cosend.axis_format import ticks_of
from cosend.config.network_file import NetworkFile
from cosend.config.sections import AxisSection
from cosend.engine.scoring import Range, as_score, right_or_wrong
from cosend.errors import CosendError, install
from cosend.run.play import Decided, Outcome, Played, slices_of, summary, what_others_see
from cosend.run.prepare import NOTHING, Prepared
from cosend.streams.table import Mask
from cosend.text import short_text

PHASE_BINS: Final = 50  # of the phases over time
POINTS: Final = 200  # of a curve of errors so far
CURVE_BINS: Final = 40  # of a curve of what is around an item
RECORDED: Final = ("file", "river")  # streams that are the same with every seed
SMALLEST: Final = 25  # items of a bin
ALONE: Final = 30  # bins of an axis that is drawn alone
TOGETHER: Final = 14  # bins of each axis of a map
MOST_VALUES: Final = 12  # of a category
CONFIDENCE: Final = 0.95
KEYS: Final = ("error", "score", "mean_reward", "sent", "cost", "training", "exploration", "regret")
MEANS: Final = ("error", "score", "mean_reward", "sent")
Rows = Sequence[Mapping[str, Any]]


def result(prepared: Prepared, outcome: Outcome) -> dict[str, Any]:
    return averaged([one_stream(prepared, outcome)])


def one_stream(prepared: Prepared, outcome: Outcome) -> dict[str, Any]:
    """Return what one stream has given, to be put together with others."""
    arrived, money = np.unique(prepared.arrivals[prepared.arrivals != NOTHING]), prepared.network.money
    return {
        "title": title_of(prepared.network),
        "policy": prepared.policy.name,
        "is_default": prepared.network.policy is None,
        "seed": prepared.network.seed,
        "is_recorded": prepared.network.stream is not None and prepared.network.stream.kind in RECORDED,
        "data": (prepared.built.table or prepared.items).digest(),
        "items": len(arrived),
        "unlabelled": int((~prepared.items.known[arrived]).sum()),
        "sites": [site.name for site in prepared.network.sites],
        "context": [axis.title for axis in axis_sections(prepared)],
        "goes_by": goes_by(prepared),
        "others_see": what_others_see(prepared),
        "axes": [scale_and_bins(prepared, axis)[0].plain() for axis in range(len(prepared.axes))],
        "slices": slices_of(prepared),
        "whole_use": over_time(prepared),
        "models": {site.name: models(prepared, outcome, n) for n, site in enumerate(prepared.network.sites)},
        "known_by": prepared.known_by,
        "is_accuracy": prepared.built.reward is right_or_wrong and not prepared.network.is_scored,
        "money": None if money is None else {"unit": money.unit, "currency": money.currency},
        "why": why(prepared, outcome.first),
        "score_range": prepared.units,
        "rows": summary(outcome.played, known=prepared.all_known, units=prepared.units),
        "error_curves": {} if prepared.network.is_scored else error_curves(outcome.played),
        "curves": curves(outcome.played, units=prepared.units),
        "change": change(prepared, outcome.played),
        **looked_at(prepared, outcome.first),
        "others": {each.policy.name: looked_at(prepared, each) for each in outcome.others},
        "notes": outcome.notes,
    }


def title_of(network: NetworkFile) -> str:
    """Return the heading of the report: a network of one site without a title has the name of the site."""
    is_named = "title" in network.model_fields_set or len(network.sites) > 1
    return network.title if is_named else network.sites[0].name


def models(prepared: Prepared, outcome: Outcome, site: int) -> list[dict[str, Any]]:
    """Return a row for every arm of a site: what the policy used it for, and what a model would earn alone.

    The error counts the items for which it was used and whose label is known; None if there is none, or if nothing
    is known about it alone. The reward of a learnt arm alone counts from its first answer on.
    """
    learnt = outcome.first.learnt[site] if outcome.first.learnt else {}
    learner, name = outcome.first.learners[site], prepared.network.sites[site].name
    own = next(each for each in outcome.played if (each.policy, each.site) == (prepared.policy.name, name))
    arms = outcome.first.arms[site]
    functions = np.flatnonzero(prepared.owners == site)
    known = own.counted
    net = (prepared.gains[prepared.rows_of(site)] - prepared.costs(site))[known]
    units = prepared.units
    found = []
    for number, name in enumerate(learner.arms.names):
        used = arms == number
        right = float(own.right[used & known].mean()) if (used & known).any() else None
        is_known = number < len(functions) and known.any() and prepared.predictions.known[functions[number]]
        alone = float(net[:, functions[number]].mean()) if is_known else None
        if name in learnt:
            alone = _mean_known(outcome.first.own[site][:, number] - learner.arms.own[name])
        found.append(
            {
                "model": name,
                "share": 100 * float(used.mean()) if len(used) else 0.0,
                "cost": float(own.paid[used].sum()),
                "error": None if right is None or units is not None else 100 * (1.0 - right),
                "score": None if right is None or units is None else as_score(right, units),
                "alone": alone,
                "learnt": learnt[name]._asdict() if name in learnt else None,
            }
        )
    return found


def why(prepared: Prepared, decided: Decided) -> dict[str, Any]:
    """Return for every site with peers what speaks for asking them, counted in the second half of its items.

    That is what a peer gained where it was asked, and what each of the site's own arms would have gained there; and the
    same for what the site kept. In this half a policy has learnt what it can.
    """
    found = {}
    for site, learner in enumerate(decided.learners):
        arms, own = decided.arms[site], len(learner.arms.own)
        late = np.arange(len(arms)) >= len(arms) // 2
        if learner.arms.peers:
            found[learner.name] = {
                "is_accuracy": prepared.built.reward is right_or_wrong and not prepared.network.is_scored,
                "items": int(late.sum()),
                "costs": {**learner.arms.own, **learner.arms.peers},
                "kept": _who_was_right(prepared, decided, site, late & (arms < own)),
                "peers": {
                    peer: _who_was_right(prepared, decided, site, late & (arms == number))
                    for number, peer in enumerate(learner.arms.peers, start=own)
                },
            }
    return found


def _who_was_right(prepared: Prepared, decided: Decided, site: int, here: Mask) -> dict[str, Any]:
    """Count the items of a part, those whose label is known, and what on these each arm gains or would gain."""
    known = here & prepared.labelled(site)
    own = decided.own[site][known]
    counts = zip((~np.isnan(own)).sum(axis=0).tolist(), np.nansum(own, axis=0).tolist(), strict=True)
    return {
        "items": int(here.sum()),
        "known": int(known.sum()),
        "gained": float(decided.gained[site][known].sum()),
        "own": {arm: [*each] for arm, each in zip(decided.learners[site].arms.own, counts, strict=True)},
    }


def _mean_known(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def axis_sections(prepared: Prepared) -> list[AxisSection]:
    return prepared.network.given or [AxisSection(kind="time")]


def goes_by(prepared: Prepared) -> list[str]:
    """Return what the policy decides by, in words: the axes that the file names, every feature if that is one."""
    given = [axis.title for axis in (*prepared.network.given, *prepared.network.heard)]
    return [*given, "every feature"] if prepared.network.watches else given


def looked_at(prepared: Prepared, learnt: Decided) -> dict[str, Any]:
    """Return what a policy did, site by site: its phases, the best arms, the arms it used where, and its calls."""
    sites = [site.name for site in prepared.network.sites]
    return {
        "phases": {name: phases(learnt.phases[site]) for site, name in enumerate(sites)},
        "winners": {name: winners(prepared, learnt, site) for site, name in enumerate(sites)},
        "use": use(prepared, learnt),
        "flows": flows(learnt, sites),
    }


def phases(own: Ints) -> dict[str, Any]:
    parts = [part for part in np.array_split(own, min(PHASE_BINS, max(1, len(own)))) if len(part)]
    ends = np.cumsum([len(part) for part in parts])
    centres = [int(end - len(part) / 2) for end, part in zip(ends, parts, strict=True)]
    shares = {
        name: [round(100 * float(np.isin(part, codes).mean()), 3) for part in parts]
        for name, codes in (("train", [TRAIN]), ("explore", [EXPLORE]), ("exploit", [EXPLOIT]))
    }
    return {"item": centres, **shares}


def use(prepared: Prepared, learnt: Decided) -> dict[str, Any]:
    """Return how often each arm was used in every bin of the context, in the second half of a site's items.

    In this half a policy has learnt what it can, and uses what it holds for the best. Over time, all items count.
    """
    bins = np.column_stack([scale_and_bins(prepared, axis)[1] for axis in range(len(prepared.axes))])
    found = {}
    for site, learner in enumerate(learnt.learners):
        half = 0 if over_time(prepared) else len(learnt.arms[site]) // 2
        places, arms = bins[prepared.rows_of(site)[half:]], learnt.arms[site][half:]
        inside = (places != NOTHING).all(axis=1)
        cells, number_of = np.unique(places[inside], axis=0, return_inverse=True)
        counts = np.zeros((len(cells), len(learner.arms)), np.int64)
        np.add.at(counts, (number_of.reshape(-1), arms[inside]), 1)
        names = list(learner.arms.names)
        owners = [name if name in learner.arms.peers else learner.name for name in names]
        found[learner.name] = {"arms": names, "owners": owners, "cells": cells.tolist(), "counts": counts.tolist()}
    return found


def over_time(prepared: Prepared) -> bool:
    """Tell whether time is an axis: then the second half of the items would fill only half of it."""
    return any(isinstance(axis, Time) for axis in prepared.axes)


def winners(prepared: Prepared, learnt: Decided, site: int) -> dict[str, Any]:
    """Return which arm is the best in every cell that a site has visited.

    That is what the site holds for the best if its policy has these cells, else the arm that it used most in them.
    The values of a category have no place on an axis, so there is nothing to draw for them.
    """
    learner = learnt.learners[site]
    if len(prepared.measured) < len(prepared.axes):
        return {"arms": list(learner.arms.names), "cells": [], "best": [], "arrivals": []}
    cells = [cell for cell in learner.cells().values() if cell.view == 0]
    policy = learnt.policy.policies[site]
    if not isinstance(policy, EqualCells) or policy.doubles or {cell.slices for cell in cells} - {slices_of(prepared)}:
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


def _most_used(prepared: Prepared, learnt: Decided, site: int) -> dict[str, Any]:
    """Return the arm that a site used most in every equal cell, while it exploited if it did."""
    arms, phases = learnt.arms[site], learnt.phases[site]
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


def flows(learnt: Decided, sites: list[str]) -> dict[str, Any]:
    """Return who labels whose items, in % of the items of the site where they arrived."""
    percent = []
    for learner, arms in zip(learnt.learners, learnt.arms, strict=True):
        own = len(learner.arms.own)
        counts = {learner.name: int((arms < own).sum())}
        counts |= {peer: int((arms == number).sum()) for number, peer in enumerate(learner.arms.peers, start=own)}
        percent.append([round(100 * counts[name] / max(1, len(arms)), 3) for name in sites])
    return {"from": sites, "to": sites, "percent": percent}


def by_policy(played: list[Played]) -> dict[str, list[Played]]:
    """Return what was played, policy by policy, without sites at which nothing arrived."""
    found: dict[str, list[Played]] = {each.policy: [] for each in played}
    for each in played:
        if each.counted.any():
            found[each.policy].append(each)
    return {policy: own for policy, own in found.items() if own}


def error_curves(played: list[Played]) -> dict[str, Any]:
    """Return for every policy the share of errors so far, over all sites together."""
    found = {}
    for policy, own in by_policy(played).items():
        length = max(len(each.right) for each in own)
        errors, seen = np.zeros(length), np.zeros(length)
        for each in own:
            errors[: len(each.right)] += np.where(each.counted, 1.0 - each.right, 0.0)
            seen[: len(each.right)] += each.counted
        share = 100 * np.cumsum(errors) / np.maximum(np.cumsum(seen), 1)
        at = np.unique(np.linspace(0, length - 1, min(POINTS, length)).astype(int))
        at = at[np.cumsum(seen)[at] > 0]
        found[policy] = {"item": (at + 1).tolist(), "error": share[at].round(4).tolist()}
    return found


def _quality(right: Floats, units: Range | None) -> dict[str, list[float]]:
    """Return the mean score, or the error in % where there are labels."""
    if units is not None:
        return {"score": [as_score(each, units) for each in right.round(5).tolist()]}
    return {"error": (100 * (1 - right)).round(4).tolist()}


def curves(played: list[Played], *, units: Range | None = None) -> dict[str, Any]:
    """Return for every policy error, or score, and reward in equal parts of the time, over all sites together."""
    found = {}
    for policy, own in by_policy(played).items():
        length = max(len(each.right) for each in own)
        bins = max(1, min(CURVE_BINS, length // SMALLEST))
        edges = np.linspace(0, length, bins + 1).astype(np.int64)
        counts, right, gained, paid = (np.zeros(bins) for _ in range(4))
        for each in own:
            at = np.searchsorted(edges, np.flatnonzero(each.counted), side="right") - 1
            counts += np.bincount(at, minlength=bins)
            right += np.bincount(at, each.right[each.counted], minlength=bins)
            gained += np.bincount(at, each.gains[each.counted], minlength=bins)
            paid += np.bincount(at, each.paid[each.counted], minlength=bins)
        some = counts > 0
        counts, right, gained, paid = counts[some], right[some], gained[some], paid[some]
        found[policy] = {
            "item": ((edges[:-1] + edges[1:]) / 2)[some].tolist(),
            **_quality(right / counts, units),
            "reward": ((gained - paid) / counts).round(5).tolist(),
        }
    return found


def change(prepared: Prepared, played: list[Played]) -> dict[str, Any] | None:
    """Return the reward of every policy before, just after and long after a change; None if none is known."""
    changes = [] if prepared.network.stream is None else prepared.network.stream.changes
    if not changes:
        return None
    sites = {site.name: number for number, site in enumerate(prepared.network.sites)}
    turns = {name: int((prepared.items_of(number) < changes[0]).sum()) for name, number in sites.items()}
    rest = min(min(turn, len(prepared.items_of(sites[name])) - turn) for name, turn in turns.items())
    part = rest // 4
    if part < SMALLEST:  # the run was stopped before, or shortly after
        return None
    return {
        "item": round(sum(turns.values()) / len(turns)),
        "part": part,
        "reward": {
            policy: _around([(each, turns[each.site]) for each in own], part)
            for policy, own in by_policy(played).items()
        },
    }


def _around(own: list[tuple[Played, int]], part: int) -> list[float]:
    """Return the reward in as many items before the change, after it, and at the end."""
    spans: list[list[Floats]] = [[], [], []]
    for each, turn in own:
        net = each.gains - each.paid
        starts: Ints = np.array([turn - part, turn, len(net) - part])
        for span, start in zip(spans, starts.tolist(), strict=True):
            span.append(net[start : start + part])
    return [round(float(np.concatenate(span).mean()), 5) for span in spans]


class Scale(NamedTuple):
    """The bins of an axis, and its ticks; `words` if every bin has a name."""

    name: str
    bins: int
    ticks: list[tuple[float, str]]  # place from 0 to `bins`, text
    words: bool

    def plain(self) -> dict[str, Any]:
        return {"name": self.name, "bins": self.bins, "ticks": [list(tick) for tick in self.ticks], "words": self.words}


def scale_and_bins(prepared: Prepared, axis: int) -> tuple[Scale, Ints]:
    """Return the scale of an axis, and the bin of every arrival; NOTHING for a value that has none."""
    setting, kind = axis_sections(prepared)[axis], prepared.axes[axis]
    name = setting.title
    if kind.is_category:
        return _values(name, _raw(prepared, setting))
    places = prepared.contexts[:, axis]
    if isinstance(kind, PreviousLabel):
        steps = len(kind.classes) - 1
        words = [(n + 0.5, short_text(each)) for n, each in enumerate(kind.classes)]
        return Scale(name, len(words), words, True), np.rint(places * steps).astype(np.int64)
    bins = ALONE if len(prepared.axes) == 1 else TOGETHER
    ticks = [(place * bins, text) for place, text in ticks_of(kind, lambda: _raw(prepared, setting))]
    return Scale(name, bins, ticks, False), np.minimum((places * bins).astype(np.int64), bins - 1)


def _raw(prepared: Prepared, axis: AxisSection) -> Any:
    """Return the values of the feature of an axis, or of a number of a text, in the stream."""
    arrived: Any = prepared.arrivals[prepared.arrivals != NOTHING]
    feature = axis.feature or ""
    values = prepared.items.columns[feature][arrived]
    if axis.of is None:
        return values
    return np.array(text_column([{feature: value} for value in values.tolist()], feature, axis.of))


def _values(name: str, raw: Any) -> tuple[Scale, Ints]:
    values, numbers, counts = np.unique(raw, return_inverse=True, return_counts=True)
    commonest = np.sort(np.argsort(-counts, kind="stable")[:MOST_VALUES])
    bin_of = np.full(len(values), NOTHING)
    bin_of[commonest] = np.arange(len(commonest))
    words = [(n + 0.5, short_text(values[each].item())) for n, each in enumerate(commonest)]
    return Scale(name, len(commonest), words, True), bin_of[numbers]


def averaged(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one result for all streams: means of numbers, and the first stream where a figure shows a single one."""
    first = {key: value for key, value in results[0].items() if key not in ("seed", "data")}
    policies = list(dict.fromkeys(row["policy"] for row in first["rows"]))
    return {
        **first,
        "seeds": [each["seed"] for each in results],
        "data": [each["data"] for each in results],
        "models": _mean([each["models"] for each in results]),
        "why": _mean([each["why"] for each in results]),
        "rows": _mean_rows([each["rows"] for each in results]),
        "overall": [
            _overall(policy, [each["rows"] for each in results], first["policy"], several=not first["is_recorded"])
            for policy in policies
        ],
        "error_curves": _mean([each["error_curves"] for each in results]),
        "curves": _mean([each["curves"] for each in results]),
        "change": _mean([each["change"] for each in results]) if first["change"] else None,
        "flows": _mean([each["flows"] for each in results]),
        "others": {
            name: {**view, "flows": _mean([each["others"][name]["flows"] for each in results])}
            for name, view in first["others"].items()
        },
    }


def _mean_rows(streams: Sequence[Rows]) -> list[dict[str, Any]]:
    return [
        {**row, **{key: _mean([rows[number][key] for rows in streams]) for key in KEYS}}
        for number, row in enumerate(streams[0])
    ]


def _overall(policy: str, streams: Sequence[Rows], subject: str, *, several: bool) -> dict[str, Any]:
    """Return a policy in one row: means over sites and streams, and how far it is behind the policy of the run.

    several  whether the streams differ: one recording has no interval, however often it is played
    """
    own = [[row for row in rows if row["policy"] == policy] for rows in streams]
    earned = [_over_sites(rows, policy) for rows in streams]
    behind = [_over_sites(rows, subject) - mine for rows, mine in zip(streams, earned, strict=True)]
    return {
        "policy": policy,
        **{key: _mean([_mean([row[key] for row in rows]) for rows in own]) for key in MEANS},
        "reward_interval": half_interval(earned) if several else None,
        "behind": _mean(behind),
        "behind_interval": half_interval(behind) if several else None,
        "behind_in": sum(each > 0 for each in behind),  # streams
        "hindsight": own[0][0]["hindsight"],
        "learns": own[0][0]["exploration"] is not None,
    }


def _over_sites(rows: Rows, policy: str) -> float:
    return float(np.mean([row["mean_reward"] for row in rows if row["policy"] == policy]))


def _mean(values: Sequence[Any]) -> Any:
    """Return the mean of plain data of the same shape, number by number; other values are from the first.

    None stands for "does not apply" and is skipped.
    """
    values = [each for each in values if each is not None] or values[:1]
    first = values[0]
    if isinstance(first, Mapping):
        return {key: _mean([each[key] for each in values]) for key in first}
    if isinstance(first, list):
        return [_mean(list(each)) for each in zip(*values, strict=True)]
    if isinstance(first, int | float) and not isinstance(first, bool):
        return first if all(each == first for each in values) else float(np.mean(values))
    return first


def half_interval(values: Sequence[float]) -> float | None:
    """Return half the width of the 95% interval (Student's t) of the mean of values; None if there is only one."""
    if len(values) < 2:
        return None
    try:
        special = import_module("scipy.special")
    except ImportError as error:
        raise CosendError(f"confidence intervals need SciPy: {install('reports')}") from error
    student = float(special.stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    return student * float(np.std(values, ddof=1)) / math.sqrt(len(values))
