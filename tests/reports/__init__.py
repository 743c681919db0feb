"""The result of a run as a report gets it, made up."""

from __future__ import annotations

import math
from typing import Any

SITES = ("north", "south", "east", "west")
POLICIES = ("ZoomingKLUCB", "CoS", "never send", "LinUCB", "previous label", "best local", "oracle per cell")
HINDSIGHT = ("best local", "oracle per cell")
LEARN = ("ZoomingKLUCB", "CoS")


def made_up(
    sites: tuple[str, ...] = SITES,
    policies: tuple[str, ...] = POLICIES,
    context: tuple[str, ...] = ("age",),
    seeds: int = 5,
    bins: int = 12,
) -> dict[str, Any]:
    """Return a result of 20,000 items that looks like a run's; the first policy is that of the run, and the best."""
    items = list(range(200, 20_001, 400))
    view = _view(sites, len(context), bins)
    return {
        "title": "Four sites on generated traffic",
        "policy": policies[0],
        "is_default": policies[0] == "ZoomingKLUCB",
        "items": 20_000,
        "seeds": list(range(seeds)),
        "data": [f"{seed:064x}" for seed in range(seeds)],
        "made": {"version": "0.1.0", "date": "2026-01-31T12:00:00+00:00", "command": "cosend run traffic"},
        "others_see": None,
        "models": {site: [_model(f"{site} {n}", n) for n in range(2)] for site in sites},
        "sites": list(sites),
        "context": list(context),
        "goes_by": list(context),
        "axes": [_axis(name, bins) for name in context],
        "slices": 9,
        "rows": [_row(site, i, policy, k) for i, site in enumerate(sites) for k, policy in enumerate(policies)],
        "overall": [_overall(policy, k, seeds) for k, policy in enumerate(policies)],
        "error_curves": {policy: {"item": items, "error": _errors(items, k)} for k, policy in enumerate(policies)},
        "curves": {policy: _curve(items, k) for k, policy in enumerate(policies)},
        "change": {
            "item": 10_000,
            "part": 2_500,
            "reward": {p: [0.9, 0.8 - k / 20, 0.85] for k, p in enumerate(policies)},
        },
        **view,
        "others": {policy: view for policy in policies[1:] if policy in LEARN},
        "notes": [],
    }


def _model(name: str, n: int) -> dict[str, Any]:
    return {
        "model": name,
        "share": 75.0 - 50 * n,
        "cost": 12.5 * n,
        "error": 2.5 + n,
        "alone": 0.75 + 0.1 * n,
    }


def _axis(name: str, bins: int) -> dict[str, Any]:
    return {"name": name, "bins": bins, "ticks": [[0, "0"], [bins / 2, "50"], [bins, "100"]], "words": False}


def _row(site: str, i: int, policy: str, k: int) -> dict[str, Any]:
    learns = policy in LEARN
    return {
        "site": site,
        "policy": policy,
        "error": 0.7 + 1.9 * k + 0.1 * i,
        "mean_reward": 0.98 - 0.02 * k,
        "sent": 60.0 - 5 * k,
        "cost": 120.5 + k,
        "training": 0.35 if learns else None,
        "exploration": 1.4 if learns else None,
        "regret": 35.0 + 40 * k,
        "hindsight": policy in HINDSIGHT,
    }


def _overall(policy: str, k: int, seeds: int) -> dict[str, Any]:
    return {
        "policy": policy,
        "error": 0.7 + 1.9 * k,
        "mean_reward": 0.98 - 0.02 * k,
        "reward_interval": None if seeds == 1 else 0.004,
        "sent": 60.0 - 5 * k,
        "behind": 0.02 * k,
        "behind_interval": None if seeds == 1 else 0.003,
        "behind_in": seeds if k else 0,
        "hindsight": policy in HINDSIGHT,
        "learns": policy in LEARN,
    }


def _errors(items: list[int], k: int) -> list[float]:
    return [0.7 + 1.9 * k + 300 * (k + 2) / (item + 300) * 1.5 for item in items]


def _curve(items: list[int], k: int) -> dict[str, Any]:
    errors = _errors(items, k)
    return {"item": items, "error": errors, "reward": [1 - error / 100 for error in errors]}


def _view(sites: tuple[str, ...], axes: int, bins: int) -> dict[str, Any]:
    return {
        "phases": {site: _phases(i) for i, site in enumerate(sites)},
        "winners": {},
        "use": {site: _use(sites, i, axes, bins) for i, site in enumerate(sites)},
        "flows": {
            "from": list(sites),
            "to": list(sites),
            "percent": [[_share(len(sites), i, j) for j in range(len(sites))] for i in range(len(sites))],
        },
    }


def _phases(i: int) -> dict[str, Any]:
    bins = list(range(250, 20_000, 500))
    train = [30 * math.exp(-item / (1500 + 500 * i)) for item in bins]
    explore = [50 * math.exp(-item / (3000 + 1000 * i)) + (item * 7 % 3) for item in bins]
    exploit = [100 - a - b for a, b in zip(train, explore, strict=True)]
    return {"item": bins, "train": train, "explore": explore, "exploit": exploit}


def _use(sites: tuple[str, ...], i: int, axes: int, bins: int) -> dict[str, Any]:
    peers = [name for name in sites if name != sites[i]]
    arms = [f"model_{2 * i}", f"model_{2 * i + 1}", *peers]
    places = range(bins**axes)
    cells = [[place // bins**axis % bins for axis in range(axes)] for place in places if place % 7 != 3]
    best = [(sum(cell) // 3 + i) % len(arms) for cell in cells]
    counts = [[90 if arm == won else 10 for arm in range(len(arms))] for won in best]
    return {"arms": arms, "owners": [sites[i], sites[i], *peers], "cells": cells, "counts": counts}


def _share(sites: int, i: int, j: int) -> float:
    if sites == 1:
        return 100.0
    return 55.0 + 5 * i if i == j else (45.0 - 5 * i) / (sites - 1)
