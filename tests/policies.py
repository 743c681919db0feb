"""One policy of every kind: what holds for all is tested with these."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any

import pytest

from cosend import CellKLUCB, CoS, Learner, MixedViews, Patience, Zooming, ZoomingKLUCB
from cosend.algorithm.policies import Policy
from cosend.algorithm.values import AskPeer, Choice, LabelledData

POLICIES: dict[str, Policy] = {
    "CoS": CoS(slices=2, exploration_exponent=0.1),
    "CoS doubling": CoS(exploration_exponent=0.1, share_labels="always"),
    "CoS training first": CoS(order="train_first", training_count="own_and_mine", exploration_exponent=0.1),
    "CoS random": CoS(slices=1, order="random", exploration_exponent=0.05),
    "CellKLUCB": CellKLUCB(slices=3),
    "CellKLUCB doubling": CellKLUCB(),
    "Zooming": Zooming(split_after=3.0),
    "Zooming concentrated": Zooming(contexts="concentrated", inherit=2.0, max_cells=9, order="random"),
    "ZoomingKLUCB": ZoomingKLUCB(),
    "ZoomingKLUCB afresh": ZoomingKLUCB(inherit=0.0, lipschitz=5.0),
    "MixedViews": MixedViews(),
    "MixedViews small": MixedViews(max_cells=20, share=0.1),
    "MixedViews without a sum": MixedViews(adds_up=False),
}

# One of every rule: these run at once, the others where there is more time.
FEW = (
    "CoS",
    "CellKLUCB",
    "Zooming concentrated",
    "ZoomingKLUCB",
    "MixedViews",
    "MixedViews without a sum",
)


def mostly_claims(all_of_them: Collection[Any], now: Collection[Any] = FEW) -> list[Any]:
    """Return parameters of a test: a few of them run in `make test`, the others in `make claims`."""
    return [each if each in now else pytest.param(each, marks=pytest.mark.claims) for each in all_of_them]


def new_learner(policy: Policy, patience: Patience | None = None, name: str = "here") -> Learner:
    """Return a learner of two dimensions with two local classifiers and two peers."""
    own, peers = {"a": 0.0, "b": 0.1}, {"there": 0.05, "far": 0.1}
    return Learner(name, own=own, peers=peers, dimensions=2, policy=policy, patience=patience, seed=3)


def choose(learner: Learner, context: Any) -> Choice:
    """Choose; a peer that must be asked has as much labelled data as this site has had items, more or less."""
    told: dict[str, LabelledData] = {}
    while isinstance(made := learner.choose(context, told), AskPeer):
        told[made.peer] = LabelledData(learner.arrivals // 2, 1)
    return made


def told_of(choice: Choice) -> tuple[Any, ...]:
    """Return a choice in a form that compares: a propensity that is not known equals nothing, not even itself."""
    propensity = None if math.isnan(choice.propensity) else choice.propensity
    return (choice.id, choice.phase, choice.arm, int(choice.cell), propensity)


def everything(learner: Learner) -> tuple[str, dict[str, tuple[Any, bytes]]]:
    """Return the whole state, to the last bit, in a form that compares."""
    state = learner.state()
    return json.dumps(state.facts), {name: (array.shape, array.tobytes()) for name, array in state.arrays.items()}
