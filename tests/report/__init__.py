"""The result of a run as a report gets it, made up."""

from __future__ import annotations

import math
from typing import Any

SITES = ("north", "south", "east", "west")
POLICIES = ("ZoomingKLUCB", "CoS", "local only", "LinUCB", "previous label", "best single model", "oracle")
HINDSIGHT = ("best single model", "oracle")
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
    errors = {p: [0.7 + 1.9 * k + 450 * (k + 2) / (i + 300) for i in items] for k, p in enumerate(policies)}
    changes = {policy: [0.9, 0.8 - k / 20, 0.85] for k, policy in enumerate(policies)}
    ticks = [[0, "0"], [bins / 2, "50"], [bins, "100"]]
    view = _view(sites, len(context), bins)
    return {
        "title": "Four sites on generated traffic",
        "policy": policies[0],
        "is_default": policies[0] == "ZoomingKLUCB",
        "items": 20_000,
        "seeds": list(range(seeds)),
        "is_recorded": False,
        "data": [f"{seed:064x}" for seed in range(seeds)],
        "made": {"version": "0.1.0", "date": "2026-01-31T12:00:00+00:00", "command": "cosend run traffic"},
        "others_see": None,
        "models": {site: [_model(f"{site} {n}", n) for n in range(2)] for site in sites},
        "sites": list(sites),
        "context": list(context),
        "goes_by": list(context),
        "axes": [{"name": name, "bins": bins, "ticks": ticks, "words": False} for name in context],
        "slices": 9,
        "whole_use": False,
        "rows": [_row(site, i, policy, k) for i, site in enumerate(sites) for k, policy in enumerate(policies)],
        "overall": [_overall(policy, k, seeds) for k, policy in enumerate(policies)],
        "error_curves": {policy: {"item": items, "error": errors[policy]} for policy in policies},
        "curves": {p: {"item": items, "error": e, "reward": [1 - x / 100 for x in e]} for p, e in errors.items()},
        "change": {"item": 10_000, "part": 2_500, "reward": changes},
        **view,
        "others": {policy: view for policy in policies[1:] if policy in LEARN},
        "notes": [],
    }


def _model(name: str, n: int) -> dict[str, Any]:
    return {"model": name, "share": 75.0 - 50 * n, "cost": 12.5 * n, "error": 2.5 + n, "alone": 0.75 + 0.1 * n}


def _row(site: str, i: int, policy: str, k: int) -> dict[str, Any]:
    training, exploration = (0.35, 1.4) if policy in LEARN else (None, None)
    return {
        "site": site, "policy": policy, "error": 0.7 + 1.9 * k + 0.1 * i, "mean_reward": 0.98 - 0.02 * k,
        "sent": 60.0 - 5 * k, "cost": 120.5 + k, "training": training, "exploration": exploration,
        "regret": 35.0 + 40 * k, "hindsight": policy in HINDSIGHT,
    }  # fmt: skip


def _overall(policy: str, k: int, seeds: int) -> dict[str, Any]:
    return {
        "policy": policy, "error": 0.7 + 1.9 * k, "mean_reward": 0.98 - 0.02 * k, "sent": 60.0 - 5 * k,
        "reward_interval": None if seeds == 1 else 0.004, "behind": 0.02 * k,
        "behind_interval": None if seeds == 1 else 0.003, "behind_in": seeds if k else 0,
        "hindsight": policy in HINDSIGHT, "learns": policy in LEARN,
    }  # fmt: skip


def _view(sites: tuple[str, ...], axes: int, bins: int) -> dict[str, Any]:
    others, kept = len(sites) - 1, [100.0 if len(sites) == 1 else 55.0 + 5 * i for i in range(len(sites))]
    shares = [[k if i == j else (100 - k) / others for j in range(len(sites))] for i, k in enumerate(kept)]
    return {
        "phases": {site: _phases(i) for i, site in enumerate(sites)},
        "winners": {},
        "use": {site: _use(sites, i, axes, bins) for i, site in enumerate(sites)},
        "flows": {"from": list(sites), "to": list(sites), "percent": shares},
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
    cells = [[n // bins**axis % bins for axis in range(axes)] for n in range(bins**axes) if n % 7 != 3]
    best = [(sum(cell) // 3 + i) % len(arms) for cell in cells]
    counts = [[90 if arm == won else 10 for arm in range(len(arms))] for won in best]
    return {"arms": arms, "owners": [sites[i], sites[i], *peers], "cells": cells, "counts": counts}
