"""Policies as values: what they say of themselves, what they refuse, and what they make of a context."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from cosend.algorithm.learner import Learner
from cosend.algorithm.policies import (
    LARGEST_ALPHA,
    LARGEST_NUMBER,
    MOST_CELLS,
    MOST_CUBE_AXES,
    MOST_FUNCTIONS,
    MOST_ITEMS,
    POLICIES,
    STEEPEST,
    CellKLUCB,
    CoS,
    Zooming,
    ZoomingKLUCB,
    policy_from,
)
from cosend.errors import SettingError
from tests import policies
from tests.policies import choose, new_learner

ZOOM: Any = ZoomingKLUCB
DEFAULTS: dict[str, Any] = {"CoS()": CoS, "Zooming()": Zooming}
UNUSUAL: dict[str, Any] = {
    "CoS": CoS(horizon=7, alpha=0.5, max_cells=9, order="train_first", training_count="own_and_mine"),
    "CellKLUCB": CellKLUCB(slices=4, alpha=2.0, share_labels="training"),
    "Zooming": Zooming(split_after=0.5, inherit=3.0, contexts="concentrated", max_peer_functions=2),
    "NumPy's numbers": ZOOM(
        alpha=np.float32(0.3), lipschitz=np.float64(3.0), max_cells=np.int64(9), inherit=Fraction(1, 3)
    ),
}
ALL: dict[str, Any] = {**policies.POLICIES, **UNUSUAL, **{name: kind() for name, kind in DEFAULTS.items()}}


@pytest.mark.parametrize("name", ALL)
def test_a_policy_comes_back_from_its_facts_also_through_json(name: str) -> None:
    policy = ALL[name]
    facts = policy.facts()
    assert policy_from(json.loads(json.dumps(facts))) == policy_from(facts) == policy
    assert facts == policy.facts()


def test_a_policy_cannot_be_changed_once_it_is_built() -> None:
    for policy in ALL.values():
        with pytest.raises(FrozenInstanceError):
            policy.alpha = 2.0


ANY: Any = None
NAN, INF = float("nan"), float("inf")
REFUSED: dict[str, tuple[Callable[[], object], list[str]]] = {
    "contexts": (lambda: Zooming(contexts=ANY), ["contexts", "'uniform', 'concentrated'", "None"]),
    "split_after 0": (lambda: Zooming(split_after=0), ["split_after", "above 0", "0"]),
    "split_after nan": (lambda: ZOOM(split_after=NAN), ["split_after", "above 0", "nan"]),
    "split_after text": (lambda: ZOOM(split_after="4"), ["split_after", "above 0", "'4'"]),
    "lipschitz 0": (lambda: ZOOM(lipschitz=0.0), ["lipschitz", "above 0", "0.0"]),
    "lipschitz inf": (lambda: ZOOM(lipschitz=INF), ["lipschitz", "above 0", "inf"]),
    "lipschitz text": (lambda: ZOOM(lipschitz="2"), ["lipschitz", "above 0", "'2'"]),
    "inherit below": (lambda: ZOOM(inherit=-0.1), ["inherit", "0 or more", "-0.1"]),
    "inherit inf": (lambda: ZOOM(inherit=INF), ["inherit", "0 or more", "inf"]),
    "max_cells": (lambda: Zooming(max_cells=0), ["max_cells", "at least 1", "0"]),
    "quota": (lambda: Zooming(max_peer_functions=0), ["max_peer_functions", "at least 1", "0"]),
    "horizon beyond 64 bits": (lambda: CoS(horizon=10**30), ["horizon", "at most 1,000,000,000,000,000", str(10**30)]),
    "horizon of cubes": (lambda: ZOOM(horizon=10**15 + 1), ["horizon", "at most 1,000,000,000,000,000"]),
    "max_cells without end": (lambda: CoS(max_cells=10**30), ["max_cells", "at most 2,147,483,647"]),
    "slices without end": (lambda: CoS(slices=10**30), ["slices", "at most"]),
    "a number that Python does not print": (lambda: CoS(slices=10**5000), ["slices", "of type int that cannot be"]),
    "alpha without end": (lambda: CoS(alpha=1e308), ["alpha", "above 0 and at most 10", "1e+308"]),
    "alpha of cubes": (lambda: Zooming(alpha=10.1), ["alpha", "at most 10", "10.1"]),
    "lipschitz without end": (lambda: ZOOM(lipschitz=1e308), ["lipschitz", "at most 1e+300", "1e+308"]),
    "split_after without end": (lambda: ZOOM(split_after=1e308), ["split_after", "at most 1e+09"]),
    "inherit without end": (lambda: ZOOM(inherit=1e308), ["inherit", "0 or more and at most 1e+09"]),
    "functions without end": (lambda: CoS(max_peer_functions=10**30), ["max_peer_functions", "at most 1,000,000"]),
    "policy by a wrong name": (lambda: policy_from({"name": "UCB1"}), ["policy", "'CoS', 'CellKLUCB'", "'UCB1'"]),
    "too many axes for cubes": (
        lambda: Learner("here", own={"a": 0.0}, dimensions=MOST_CUBE_AXES + 1, policy=Zooming()),
        ["the axes of a context", f"at most {MOST_CUBE_AXES}", f"{MOST_CUBE_AXES + 1}"],
    ),
    "too many axes": (
        lambda: Learner("here", own={"a": 0.0}, dimensions=53, policy=CoS(slices=2)),
        ["dimensions", "at most 52", "53"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_setting_that_is_not_allowed_is_refused_by_name(case: str) -> None:
    build, fragments = REFUSED[case]
    with pytest.raises(SettingError) as caught:
        build()
    assert all(fragment in str(caught.value) for fragment in fragments), str(caught.value)


@pytest.mark.parametrize("kind", [CoS, CellKLUCB, Zooming, ZoomingKLUCB])
def test_a_policy_with_every_option_at_its_limit_still_decides(kind: Any) -> None:
    limits: dict[str, Any] = {
        "horizon": MOST_ITEMS,
        "max_cells": MOST_CELLS,
        "alpha": LARGEST_ALPHA,
        "max_peer_functions": MOST_FUNCTIONS,
        **dict.fromkeys(("split_after", "inherit"), LARGEST_NUMBER),
        "lipschitz": STEEPEST,
    }
    policy = kind(**{name: limits[name] for name in limits if name in {field.name for field in fields(kind)}})
    learner = new_learner(policy)
    for n in range(50):
        learner.learn(choose(learner, [n % 7 / 7, n % 3 / 3]).id, float(n % 2))
    assert learner.arrivals == 50


def test_categories_alone_are_cut_into_one_cell_each_however_small_alpha_is() -> None:
    """T^(1/2 alpha) slices of no axis took for ever to carry over, or were more than a double holds."""
    policy = CellKLUCB(alpha=0.001)
    assert policy.slices_at(10**9, 0) == 1
    learner = Learner("here", own={"a": 0.0, "b": 0.0}, categories=[0], policy=policy)
    for n in range(70):
        learner.learn(choose(learner, n % 7).id, float(n % 2))
    assert [cell.labelled.arrivals for cell in learner.cells().values()] == [10] * 7


def test_equal_cells_stay_within_the_memory_limit() -> None:
    policy = CoS(slices=9, max_cells=20)
    assert [policy.slices_at(0, axes) for axes in (1, 2, 3)] == [9, 4, 2]


def test_all_axes_count_up_to_the_most_that_are_allowed() -> None:
    learner = Learner("here", own={"a": 0.0}, dimensions=52, policy=CoS(slices=2))
    assert learner.views()[0].axes == tuple(range(52))
    for axis in (0, 51):
        choose(learner, [0.9 if n == axis else 0.1 for n in range(52)])
    assert {cell.axes.index(1) for cell in learner.cells().values()} == {0, 51}


def test_the_rate_of_splitting_is_that_of_the_paper() -> None:
    """(3 alpha + sqrt(9 alpha^2 + 8 alpha d)) / 2: 4 for alpha 1 and two axes; 3 alpha when contexts concentrate."""
    assert Zooming().split_rate(2) == 4.0
    assert Zooming(contexts="concentrated", alpha=0.5).split_rate(2) == 1.5
    assert ZoomingKLUCB(alpha=0.5).split_rate(2) == 1.0


def test_every_policy_has_its_name_in_the_list() -> None:
    assert {type(policy).__name__ for policy in policies.POLICIES.values()} <= POLICIES.keys()
    assert len(POLICIES) == 5
