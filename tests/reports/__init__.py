"""The result of a run as a report gets it, made up."""

from __future__ import annotations

import math
from typing import Any

SITES = ("north", "south", "east", "west")
POLICIES = ("cos", "adaboost", "swa_100", "swa_1000", "persistence", "best_fixed", "random", "eps_greedy")


def made_up(
    sites: tuple[str, ...] = SITES,
    policies: tuple[str, ...] = POLICIES,
    context: tuple[str, ...] = ("previous_label",),
    slices: int = 12,
) -> dict[str, Any]:
    """Return a result of 20,000 items that looks like a run's."""
    items = list(range(200, 20_001, 200))
    bins = list(range(250, 20_000, 500))
    return {
        "title": "Four sites on generated traffic",
        "items": 20_000,
        "sites": list(sites),
        "context": list(context),
        "slices": slices,
        "rows": [_row(site, i, policy, k) for i, site in enumerate(sites) for k, policy in enumerate(policies)],
        "error_curves": {policy: _curve(items, k) for k, policy in enumerate(policies)},
        "phases": {site: _phases(bins, i) for i, site in enumerate(sites)},
        "winners": {site: _winners(sites, i, len(context), slices) for i, site in enumerate(sites)},
        "flows": {
            "from": list(sites),
            "to": list(sites),
            "percent": [[_share(len(sites), i, j) for j in range(len(sites))] for i in range(len(sites))],
        },
    }


def _row(site: str, i: int, policy: str, k: int) -> dict[str, Any]:
    learns = k == 0
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
    }


def _curve(items: list[int], k: int) -> dict[str, Any]:
    return {"item": items, "error": [0.7 + 1.9 * k + 300 * (k + 2) / (item + 300) * 1.5 for item in items]}


def _phases(bins: list[int], i: int) -> dict[str, Any]:
    train = [30 * math.exp(-item / (1500 + 500 * i)) for item in bins]
    explore = [50 * math.exp(-item / (3000 + 1000 * i)) + (item * 7 % 3) for item in bins]
    exploit = [100 - a - b for a, b in zip(train, explore, strict=True)]
    return {"item": bins, "train": train, "explore": explore, "exploit": exploit}


def _winners(sites: tuple[str, ...], i: int, axes: int, slices: int) -> dict[str, Any]:
    arms = [f"classifier_{2 * i}", f"classifier_{2 * i + 1}", *(name for name in sites if name != sites[i])]
    places = range(slices**axes)
    cells = [[place // slices**axis % slices for axis in range(axes)] for place in places if place % 7 != 3]
    best = [(sum(cell) // 3 + i) % len(arms) for cell in cells]
    return {"arms": arms, "cells": cells, "best": best, "arrivals": [1 + 97 * sum(cell) for cell in cells]}


def _share(sites: int, i: int, j: int) -> float:
    if sites == 1:
        return 100.0
    return 55.0 + 5 * i if i == j else (45.0 - 5 * i) / (sites - 1)
