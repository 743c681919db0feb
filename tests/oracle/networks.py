"""A network of learners, and the same network of slow twins."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from cosend.core.learner.learner import Learner
from cosend.core.learner.registry import Patience
from cosend.core.learner.values import Choice
from cosend.core.policy.policies import POLICIES, ChangeAware, ContextSelection
from tests.oracle.changes_twin import (
    ChangesThompsonTwin,
    ChangesTwin,
    ChangesZoomingIndexTwin,
    ChangesZoomingTwin,
    LooksTwin,
)
from tests.oracle.index_twin import IndexTwin, IndexTwinSettings
from tests.oracle.mixed_twin import MixedTwin
from tests.oracle.thompson_twin import ThompsonTwin
from tests.oracle.twin import Twin
from tests.oracle.twin_values import Context, TwinSettings
from tests.oracle.views_twin import Axes, ViewsTwin, candidates_of
from tests.oracle.zooming_twin import ZoomingIndexTwin, ZoomingIndexTwinSettings, ZoomingTwin

MAIN_ONLY = {"wait_limit", "max_waiting", "default_reward"}
TWINS: dict[str, tuple[type[Twin], type[Twin], type[TwinSettings]]] = {
    "CoS": (Twin, ChangesTwin, TwinSettings),
    "CellKLUCB": (IndexTwin, LooksTwin, IndexTwinSettings),
    "CellThompson": (ThompsonTwin, ChangesThompsonTwin, IndexTwinSettings),
    "Zooming": (ZoomingTwin, ChangesZoomingTwin, TwinSettings),
    "ZoomingKLUCB": (ZoomingIndexTwin, ChangesZoomingIndexTwin, ZoomingIndexTwinSettings),
    "MixedViews": (MixedTwin, MixedTwin, IndexTwinSettings),
}


class Around(NamedTuple):
    """What is around a policy: `ChangeAware` unless `rising` is None, `ContextSelection` unless there are no views."""

    rising: bool | None = None
    candidates: Literal["auto"] | tuple[Axes, ...] | None = None
    changes_outside: bool = False  # which of the two is around the other

    def wrap(self, policy: Any) -> Any:
        """Put both around a policy."""
        for is_changes in (not self.changes_outside, self.changes_outside):
            if is_changes and self.rising is not None:
                policy = ChangeAware(policy, rising=self.rising)
            elif not is_changes and self.candidates is not None:
                policy = ContextSelection(policy, candidates=self.candidates)
        return policy

    def twin(self, policy: str, told: dict[str, Any]) -> Twin | ViewsTwin:
        """Make the twin of a policy with both around it."""
        bare, changing, settings_class = TWINS[policy]
        inside = bare if self.rising is None else changing
        settings = settings_class(**told, rising=bool(self.rising))
        if self.candidates is None:
            return inside(settings)
        auto = candidates_of(settings.dimensions)
        return ViewsTwin(inside, settings, auto if self.candidates == "auto" else self.candidates)


ALONE = Around()


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
    twins: dict[str, Twin | ViewsTwin] = field(default_factory=dict)
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
    around: Around = ALONE,
    categories: frozenset[int] = frozenset(),
    scores: bool = False,
) -> Network:
    """Build learners and twins with the same settings: site i has sizes[i] functions."""
    names = [f"site{i}" for i in range(len(sizes))]
    network = Network(
        draw, {name: [f"{name}.f{j}" for j in range(size)] for name, size in zip(names, sizes, strict=True)}
    )
    seed = draw.randrange(2**40)
    network.told = (policy, options, around, dimensions, categories)
    network.categories, network.scores = categories, scores
    limits = {key: options[key] for key in MAIN_ONLY & options.keys()}
    rule = around.wrap(POLICIES[policy](**{key: value for key, value in options.items() if key not in MAIN_ONLY}))
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
        network.twins[name] = around.twin(policy, {"name": name, "seed": seed, "scores": scores, **told, **options})
    return network
