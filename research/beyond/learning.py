"""The learning part: classifiers of river that learn online, in a real network of sites.

The site `edge` gets the stream and has a naive Bayes of its own. Its peers have better models but no items of their
own: they learn only from what `edge` sends them with its label, after trainings or after every call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from itertools import product
from typing import Any, Final, cast

import numpy as np

from cosend.algorithm.policies import BasePolicy, Policy
from cosend.axes import Axis, Feature, Time
from cosend.errors import CosendError, install
from cosend.network import Network
from cosend.site import Site
from research.beyond.play import Job, Numbers, Place, percent_wrong
from research.beyond.problems import window_data
from research.beyond.settings import EVERY_FEATURE, POLICIES, WINDOWS, NamedPolicy, Settings

EDGE: Final = "edge"
WINDOW: Final = WINDOWS[-1]  # with many switches
ITEMS: Final = 4_000  # of the window, every n-th: these models are slow
CONTEXT: Final = "src_bytes"
TIMED: Final = f"{CONTEXT} and time"
WARM_UP: Final = 50

Item = dict[str, Any]
Stream = tuple[tuple[Item, int], ...]


def _scaled_logistic() -> Any:
    numbers = river_module("compose").SelectType(int, float)
    return numbers | river_module("preprocessing").StandardScaler() | river_module("linear_model").LogisticRegression()


def _naive_bayes() -> Any:
    return river_module("compose").SelectType(int, float) | river_module("naive_bayes").GaussianNB()


def _tree() -> Any:
    return river_module("tree").HoeffdingTreeClassifier()


# How peers are brought up. Policies by quota train anyway; those by index never do.
WAYS: Final[dict[str, dict[str, Any]]] = {
    "labels after trainings": {"share_labels": "training"},
    "labels after every call": {"share_labels": "always"},
}

# The models of every site.
SITES: Final[dict[str, dict[str, Callable[[], Any]]]] = {
    EDGE: {"naive_bayes": _naive_bayes},
    "linear": {"logistic": _scaled_logistic},
    "trees": {"hoeffding_tree": _tree},
}


def learning(settings: Settings) -> Iterator[Job]:
    """Yield the rows of every policy with both ways of bringing up peers, and of every model alone."""
    for (way, options), context, policy in product(WAYS.items(), (CONTEXT, TIMED, EVERY_FEATURE), POLICIES):
        if CONTEXT in policy.contexts and may_have(policy.build(settings.rows, 1), options, context):
            place = Place("learning", way, "river", context, policy.name, "policy")
            yield Job(place, partial(brought_up, settings, policy, options, context))
    for models in SITES.values():
        for name, build in models.items():
            place = Place("learning", "alone, every label", "river", None, name, "baseline")
            yield Job(place, partial(alone, settings, build))


@lru_cache(maxsize=1)
def stream(settings: Settings) -> Stream:
    """Return every n-th row of a window as an item with its label."""
    data = window_data(settings.data, WINDOW.start, settings.rows)
    rows = list(data.window.rows())[-data.rows :]
    return tuple((item, label) for item, label in rows[:: max(1, len(rows) // ITEMS)])


def may_have(policy: Policy, options: dict[str, Any], context: str) -> bool:
    """Tell whether a policy has these options: one that mixes views needs no context, and trains nobody."""
    if policy.mixes:
        return context != TIMED and options == WAYS["labels after every call"]
    return context != EVERY_FEATURE and isinstance(policy, BasePolicy)


def brought_up(settings: Settings, policy: NamedPolicy, options: dict[str, Any], context: str) -> Numbers:
    """Play the network and return the numbers of `edge`."""
    items, seeds = stream(settings), settings.seeds
    list(network(policy, options, context, ITEMS, 0).run({EDGE: items[:WARM_UP]}))
    rights, seconds = [], 0.0
    for seed in range(seeds):
        sites = network(policy, options, context, len(items), seed)
        start = time.perf_counter()
        events = list(sites.run({EDGE: items}))
        seconds += time.perf_counter() - start
        rights.append([event.decision.label == event.truth for event in events])
    return _numbers(rights, len(items) * seeds / seconds)


def network(policy: NamedPolicy, options: dict[str, Any], context: str, items: int, seed: int) -> Network:
    """Return fresh sites with fresh models. With time as one more axis, slices follow from the theory."""
    axes: list[Axis] = [Feature(CONTEXT, scale="log"), *([Time(items)] if context == TIMED else [])]
    settings = cast("BasePolicy", policy.build(items, len(axes)))
    lasting: dict[str, Any] = {} if settings.mixes else {"horizon": items}
    settings = replace(settings, **lasting, **options)
    return Network(
        Site(
            name,
            classifiers={model: build() for model, build in models.items()},
            context=None if context == EVERY_FEATURE else axes,
            policy=settings,
            score_local=policy.score_local,
            learnt=policy.learnt,
            seed=seed,
        )
        for name, models in SITES.items()
    )


def alone(settings: Settings, build: Callable[[], Any]) -> Numbers:
    """Let one model label all items and learn from every label: what no site that shares the items can do."""
    items, model, right = stream(settings), build(), []
    start = time.perf_counter()
    for item, label in items:
        right.append(model.predict_one(item) == label)
        model.learn_one(item, label)
    return _numbers([right], len(items) / (time.perf_counter() - start))


def _numbers(rights: list[list[bool]], speed: float) -> Numbers:
    errors = [percent_wrong(np.array(right, np.float64)) for right in rights]
    return {
        "seeds": len(rights),
        "error": float(np.mean(errors)),
        "error_by_seed": errors,
        "regret": None,  # models that learn have no best one per cell that could be known in advance
        "decisions_per_second": speed,
    }


def river_module(module: str) -> Any:
    """Return a module of river, or say how to get it."""
    try:
        return import_module(f"river.{module}")
    except ImportError:
        raise CosendError(f"models that learn online need river: {install('field')}") from None
