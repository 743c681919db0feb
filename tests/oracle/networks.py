"""A network of learners, and the same network of slow twins."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import Choice
from cosend.core.policy.policies import POLICIES
from tests.oracle.index_twin import IndexTwin, IndexTwinSettings
from tests.oracle.mixed_twin import MixedTwin
from tests.oracle.twin import Twin
from tests.oracle.twin_values import Context, TwinSettings
from tests.oracle.zooming_twin import ZoomingIndexTwin, ZoomingIndexTwinSettings, ZoomingTwin

MAIN_ONLY = {"wait_limit", "max_waiting", "default_reward"}
TWINS: dict[str, tuple[type[Twin], type[TwinSettings]]] = {
    "CoS": (Twin, TwinSettings),
    "CellKLUCB": (IndexTwin, IndexTwinSettings),
    "Zooming": (ZoomingTwin, TwinSettings),
    "ZoomingKLUCB": (ZoomingIndexTwin, ZoomingIndexTwinSettings),
    "MixedViews": (MixedTwin, IndexTwinSettings),
}


class Due(NamedTuple):
    """A label that is on its way."""

    slot: int
    site: str
    decision: int
    gain: float
    cost: float | None
    forward: tuple[str, int] | None  # the peer that was called, and its ticket


class Failure(NamedTuple):
    """A choice whose arm will turn out to have failed."""

    slot: int
    site: str
    decision: int
    failed: frozenset[str]  # that arm, and those that have failed for the same item before
    context: Context
    forward: tuple[str, int] | None


@dataclass
class Network:
    """What a scenario has made so far."""

    draw: random.Random
    functions: dict[str, list[str]]
    learners: dict[str, Learner] = field(default_factory=dict)
    twins: dict[str, Twin] = field(default_factory=dict)
    due: list[Due] = field(default_factory=list)
    failing: list[Failure] = field(default_factory=list)
    history: list[tuple[str, Choice]] = field(default_factory=list)
    lasting: int | None = None  # slots until good arms become bad and bad ones good; None: never
    axis: int | None = None  # the axis whose upper half makes good arms bad and bad ones good; None: none does
    told: tuple[Any, ...] = ()  # for who reads a failing network
    categories: frozenset[int] = frozenset()  # the axes that have codes
    has_trouble: bool = False  # arms are paused, left out and resumed, and some fail
    scores: bool = False  # labels score own functions that were not used
    chance_of_change: float = 0.5  # that an arm joins, leaves or costs something else, in a slot
    lacks: float = 0.0  # how likely a context lacks a number


def build(
    draw: random.Random,
    sizes: list[int],
    dimensions: int,
    options: dict[str, Any],
    policy: str = "CoS",
    categories: frozenset[int] = frozenset(),
    scores: bool = False,
) -> Network:
    """Build learners and twins with the same settings: site i has sizes[i] functions."""
    names = [f"site{i}" for i in range(len(sizes))]
    network = Network(
        draw, {name: [f"{name}.f{j}" for j in range(size)] for name, size in zip(names, sizes, strict=True)}
    )
    seed = draw.randrange(2**40)
    network.told = (policy, options, dimensions, categories)
    network.categories, network.scores = categories, scores
    limits = {key: options[key] for key in MAIN_ONLY & options.keys()}
    rule = POLICIES[policy](**{key: value for key, value in options.items() if key not in MAIN_ONLY})
    twin, settings = TWINS[policy]
    for name in names:
        own = {function: draw.choice([0.0, 0.0, 0.1, 0.25]) for function in network.functions[name]}
        peers = {peer: draw.choice([0.0, 0.05, 0.5]) for peer in names if peer != name}
        patience = Patience(
            wait_limit=limits.get("wait_limit"),
            max_waiting=limits.get("max_waiting", 1_000_000),
            overdue="drop" if limits.get("default_reward") is None else limits["default_reward"],
        )
        told: dict[str, Any] = {"own": own, "peers": peers, "dimensions": dimensions, "categories": categories}
        network.learners[name] = Learner(
            name, policy=rule, patience=patience, seed=seed, score_local="all" if scores else "used", **told
        )
        network.twins[name] = twin(settings(name=name, seed=seed, scores=scores, **told, **options))
    return network
