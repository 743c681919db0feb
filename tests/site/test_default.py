"""What a site does that is told neither policy nor scoring: with a context of its own, with features, and with both."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from cosend import CoS, MixedViews, Network, Site, ZoomingKLUCB
from cosend.algorithm.policies import DEFAULT_CELLS, how_to_decide
from cosend.axes import AllFeatures, Axis, Category, Feature
from cosend.engine import events
from cosend.engine.fold import fold, verify
from tests.site.test_fold import everything

AXES: dict[str, list[Axis] | None] = {
    "context": [Feature("x", range=(0, 1)), Category("kind")],
    "features": None,
    "both": [Feature("x", range=(0, 1)), AllFeatures()],
}
ITEMS = 160  # so many that features get axes
MIXED = MixedViews(max_cells=DEFAULT_CELLS)


def items(seed: int = 1) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [{"x": draw.random(), "kind": draw.choice("ab")} for _ in range(ITEMS)]


def truth(item: dict[str, Any]) -> bool:
    return bool(item["x"] < 0.5)


def site(name: str, axes: list[Axis] | None, **options: Any) -> Site:
    models = {f"{name} low": truth, f"{name} never": lambda item: False, f"{name} dear": lambda item: True}
    return Site(name, classifiers=models, context=axes, costs={f"{name} dear": 0.1}, **options)


def pair(axes: list[Axis] | None, **options: Any) -> tuple[Site, Site]:
    north, south = site("north", axes, **options), site("south", axes)
    Network([north, south], call_cost=0.02)
    return north, south


def test_what_it_is_told_it_does_and_the_rest_is_the_default() -> None:
    assert how_to_decide(None, None) == how_to_decide(None, "all") == (MIXED, "all")
    assert how_to_decide(None, "used") == (ZoomingKLUCB(), "used")
    assert how_to_decide(None, "used", watches=True) == (MIXED, "used")
    assert how_to_decide(CoS(), None) == (CoS(), "used")
    assert how_to_decide(CoS(), "all") == (CoS(), "all")


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES)
def test_all_sites_have_it_and_learn_from_every_label_what_each_free_classifier_is_worth(axes: Any) -> None:
    alone = site("alone", axes)
    assert (alone.learner.policy, alone.score_local) == (MIXED, "all")
    for item in items():
        alone.learn(alone.classify(item), truth(item))
    (whole,) = [cell for cell in alone.learner.cells().values() if cell.view == 1]  # no context, long memory
    seen = {arm: known.reward_count for arm, known in whole.estimates.items()}
    assert seen["alone low"] == seen["alone never"] == ITEMS > seen["alone dear"]


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES)
def test_events_and_saved_states_lead_to_the_same_site_to_the_last_bit(axes: Any, tmp_path: Path) -> None:
    log: list[events.Event] = []
    (site_, _), (copy, _) = pair(axes, journal=log.append), pair(axes)
    for item in items()[:-9]:
        site_.learn(site_.classify(item), truth(item))
    waiting = site_.classify_many(items()[-9:])
    assert everything(fold(log)) == everything(site_.engine.state)
    assert verify(log) == []
    site_.save(tmp_path / "state.npz")
    copy.load(tmp_path / "state.npz")
    recovered = pair(axes)[0]
    recovered.recover(log)
    for each in (site_, copy, recovered):
        each.learn_many(waiting, [True] * 9)
    assert everything(copy.engine.state) == everything(recovered.engine.state) == everything(site_.engine.state)
    chosen = [[each[2:] for each in every.classify_many(items(seed=2))] for every in (site_, copy, recovered)]
    assert chosen[0] == chosen[1] == chosen[2]  # only the peer, whose labels these are, knows less


def test_a_state_that_was_saved_with_another_default_goes_on_as_it_was(tmp_path: Path) -> None:
    axes = AXES["context"]
    before, now = site("here", axes, policy=ZoomingKLUCB()), site("here", axes)
    before.learn(before.classify(items()[0]), True)
    before.save(tmp_path / "state.npz")
    now.load(tmp_path / "state.npz")
    assert (now.learner.policy, now.score_local) == (ZoomingKLUCB(), "used")
    assert now.classify(items()[1]) == before.classify(items()[1])
