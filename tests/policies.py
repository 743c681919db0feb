"""One policy of every kind, and of every kind around another: what holds for all is tested with these."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any

import pytest

from cosend import (
    AskPeer,
    CellKLUCB,
    CellThompson,
    ChangeAware,
    Choice,
    ContextSelection,
    CoS,
    LabelledData,
    Learner,
    MixedViews,
    Patience,
    Zooming,
    ZoomingKLUCB,
)
from cosend.core.policy.parts import Policy

POLICIES: dict[str, Policy] = {
    "CoS": CoS(slices=2, exploration_exponent=0.1),
    "CoS doubling": CoS(exploration_exponent=0.1, share_labels="always"),
    "CoS timed": CoS(time_dimension=True, order="train_first", training_count="own_and_mine", exploration_exponent=0.1),
    "CoS random": CoS(slices=1, order="random", exploration_exponent=0.05),
    "CellKLUCB": CellKLUCB(slices=3, peer_training=0.5),
    "CellKLUCB doubling": CellKLUCB(),
    "CellThompson": CellThompson(horizon=200, time_dimension=True),
    "CellThompson doubling": CellThompson(doubling="reset", peer_training=0.5),
    "Zooming": Zooming(split_after=3.0),
    "Zooming concentrated": Zooming(contexts="concentrated", inherit=2.0, max_cells=9, order="random"),
    "ZoomingKLUCB": ZoomingKLUCB(peer_training=0.5, share_labels="always"),
    "ZoomingKLUCB timed": ZoomingKLUCB(horizon=200, time_dimension=True, inherit=0.0, lipschitz=5.0),
    "ChangeAware CoS": ChangeAware(CoS(slices=1, exploration_exponent=0.1)),
    "ChangeAware rising": ChangeAware(CellKLUCB(slices=1, peer_training=0.2), rising=True),
    "ChangeAware rising doubling": ChangeAware(CellThompson(), rising=True),
    "MixedViews": MixedViews(),
    "MixedViews small": MixedViews(max_cells=20, share=0.1),
    "MixedViews without a sum": MixedViews(adds_up=False),
    "ContextSelection": ContextSelection(),
    "ContextSelection ChangeAware": ContextSelection(ChangeAware(ZoomingKLUCB(alpha=0.5), rising=True)),
    "ContextSelection CoS": ContextSelection(CoS(slices=2, exploration_exponent=0.1), ((1,), (0, 1), ())),
    "ContextSelection doubling": ContextSelection(CellKLUCB(peer_training=0.5)),
    "ContextSelection CellThompson": ContextSelection(CellThompson(slices=3, share_labels="always")),
    "ContextSelection timed": ContextSelection(Zooming(horizon=200, time_dimension=True), ((0,), ())),
    "ChangeAware ContextSelection": ChangeAware(ContextSelection(CoS(exploration_exponent=0.1, doubling="keep"))),
}

# One of every rule: these run at once, the others where there is more time.
FEW = (
    "CoS",
    "CellKLUCB",
    "Zooming concentrated",
    "ZoomingKLUCB",
    "MixedViews",
    "MixedViews without a sum",
    "ContextSelection ChangeAware",
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
