"""The unseen part: streams on which nothing was ever chosen, neither a rule nor a constant.

Two more windows of the file, and two small sets that come with river. Of each set every seed draws another order; the
first quarter trains the functions, the rest is played. Each learner knows a quarter of the values of the first feature
only, and has a naive Bayes and a tree that are trained there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import product
from typing import Any, Final

import numpy as np

from cosend.algorithm.layout import Ints
from cosend.models.built_in import train
from research.beyond.features import WITHOUT_CONTEXT, with_features
from research.beyond.field import few_of_the_field, field_without_context
from research.beyond.learning import river_module
from research.beyond.play import Job, Method, jobs_for, policy_methods, simple_methods
from research.beyond.problems import Problem, delays_of, with_delays
from research.beyond.settings import LATE, POLICIES, TOGETHER, UNSEEN, Settings
from research.paper.settings import LEARNERS, SCENARIOS

RIVER: Final = "river"  # in the place of a setup
SETS: Final = ("Phishing", "Bananas")  # of river, and part of the package
MODELS: Final = ("naive_bayes", "tree")
COMPARED: Final = ("ZoomingKLUCB", "MixedViews", "MixedViews with Vote")


def unseen(settings: Settings) -> Iterator[Job]:
    """Yield the rows of further windows and of other streams, with labels before the next item and late."""
    for window, scenario, delay in product(UNSEEN, SCENARIOS, (1, LATE)):
        problems = partial(with_features, settings, window.start, scenario, delay)
        yield from jobs_for("unseen", f"{window.name}, {delay} late", scenario, problems, methods())
    for name, delay in product(SETS, (1, LATE)):
        problems = partial(stream_problems, settings, name, delay)
        yield from jobs_for("unseen", f"{name}, {delay} late", RIVER, problems, methods())


def methods() -> list[Method]:
    """Return what is compared: all axes together, and every feature."""
    ours = policy_methods([policy for policy in POLICIES if policy.name in COMPARED], [TOGETHER])
    field = [method for method in few_of_the_field() if method.context in (None, TOGETHER)]
    field += field_without_context()
    return [*ours, WITHOUT_CONTEXT, *simple_methods(), *field]


@lru_cache(maxsize=1)
def stream_problems(settings: Settings, name: str, delay: int) -> list[Problem]:
    """Return a set of river in another order for every seed."""
    pairs = list(getattr(river_module("datasets"), name)())
    items = [{str(feature): float(value) for feature, value in item.items()} for item, _ in pairs]
    labels = np.array([label for _, label in pairs], np.int64)
    return [_drawn(items, labels, delay, seed) for seed in range(settings.seeds)]


def _drawn(items: list[dict[str, float]], labels: Ints, delay: int, seed: int) -> Problem:
    order = np.random.default_rng(seed).permutation(len(items))
    training, played = order[: len(order) // 4], order[len(order) // 4 :]
    rows = np.array([list(item.values()) for item in items])
    said = said_by_learners(rows[training], labels[training], rows[played])
    first = rows[played, 0]
    axes = [
        np.zeros(len(played)),
        (first - rows[:, 0].min()) / np.ptp(rows[:, 0]),
        np.arange(len(played)) / len(played),
    ]
    right = (said == labels[played, None]).astype(np.uint8)
    delays = delays_of(delay, len(played), seed)
    shown = [items[n] for n in played]
    return with_delays(Problem(labels[played], right, np.stack(axes, axis=1), delays, items=shown), delays)


def said_by_learners(rows: Any, labels: Ints, played: Any) -> Ints:
    """Return [row, function]: what models say that are trained on a quarter of the values of the first feature."""
    quarters = np.array_split(np.argsort(rows[:, 0], kind="stable"), len(LEARNERS))
    trained = [train(model, rows[quarter], labels[quarter]) for quarter, model in product(quarters, MODELS)]
    return np.stack([model.predict(played) for model in trained], axis=1)
