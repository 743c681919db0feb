"""How a run goes over time: errors so far, errors and reward around an item, and what a change of the stream did."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from cosend.algorithm.layout import Floats, Ints
from cosend.run.competitors import Played
from cosend.run.prepare import Prepared

POINTS: Final = 200  # of a curve of errors so far
BINS: Final = 40  # of a curve of what is around an item
SMALLEST: Final = 25  # items of a bin


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


def curves(played: list[Played]) -> dict[str, Any]:
    """Return for every policy error and reward in equal parts of the time, over all sites together."""
    found = {}
    for policy, own in by_policy(played).items():
        length = max(len(each.right) for each in own)
        bins = max(1, min(BINS, length // SMALLEST))
        edges = np.linspace(0, length, bins + 1).astype(np.int64)
        counts, right, paid = (np.zeros(bins) for _ in range(3))
        for each in own:
            at = np.searchsorted(edges, np.flatnonzero(each.counted), side="right") - 1
            counts += np.bincount(at, minlength=bins)
            right += np.bincount(at, each.right[each.counted], minlength=bins)
            paid += np.bincount(at, each.paid[each.counted], minlength=bins)
        some = counts > 0
        counts, right, paid = counts[some], right[some], paid[some]
        found[policy] = {
            "item": ((edges[:-1] + edges[1:]) / 2)[some].tolist(),
            "error": (100 * (1 - right / counts)).round(4).tolist(),
            "reward": ((right - paid) / counts).round(5).tolist(),
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
        net = each.right - each.paid
        starts: Ints = np.array([turn - part, turn, len(net) - part])
        for span, start in zip(spans, starts.tolist(), strict=True):
            span.append(net[start : start + part])
    return [round(float(np.concatenate(span).mean()), 5) for span in spans]
