"""What a site costs beside its models: routing by `Site`, with classifiers that always say the same."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from cosend import Decision, Site
from cosend.algorithm.values import ScoreLocal
from cosend.axes import Feature

CLASSIFIERS = 5


def said(label: int, _: Any) -> int:
    """Return the same label for every item."""
    return label


def a_site(score_local: ScoreLocal | None) -> Site:
    models = {f"always {n}": partial(said, n) for n in range(CLASSIFIERS)}
    return Site("bench", classifiers=models, context=Feature("x", range=(0, 1)), score_local=score_local)


def routed(items: int, size: int, score_local: ScoreLocal | None = "used", rounds: int = 5) -> float:
    """Return seconds for deciding and learning one item, in batches of a size; the shortest of several rounds."""
    site, rows = a_site(score_local), [{"x": x} for x in np.random.default_rng(0).random(items).tolist()]
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for first in range(0, items, size):
            if size == 1:
                site.learn(site.classify(rows[first]), 1)
            else:
                route(site, rows[first : first + size])
        times.append(time.perf_counter() - start)
    return min(times) / items


def route(site: Site, rows: list[dict[str, float]]) -> list[Decision]:
    """Decide for items and learn their labels, which are all the same."""
    made = site.classify_many(rows)
    site.learn_many(made, [1] * len(made))
    return made
