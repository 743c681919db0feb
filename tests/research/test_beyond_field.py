"""The field in the experiments beyond the paper: it plays everywhere, with the same information as we have."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from research.beyond.field import (
    field_without_context,
)
from research.beyond.parts import SETS, stream_problems
from research.beyond.play import measured
from research.beyond.problems import Problem, with_delays
from research.beyond.run import JOBS
from research.beyond.settings import LEARNT, SHARED, TOGETHER, Settings

from cosend.engine.encoding import ENOUGH

pytestmark = pytest.mark.compiled

WITH_THE_FIELD = ("windows", "delays", "late", "costs", "drift", "unseen")


def a_problem(items: int = 600) -> Problem:
    """Return items with two features: function 0 is right where the first is high, 2 where it is low."""
    random = np.random.default_rng(0)
    features = random.random((items, 2))
    right = np.zeros((items, 8), np.uint8)
    right[:, 0], right[:, 2] = features[:, 0] > 0.5, features[:, 0] <= 0.5
    delays = np.ones(items, np.int64)
    shown = [{"x": x, "y": y} for x, y in features.tolist()]
    problem = Problem(random.integers(0, 2, items), right, np.zeros((items, 3)), delays, items=shown)
    return with_delays(problem, delays)


def places_of(part: str) -> dict[tuple[str, str], list[Any]]:
    """Return the rows of the field by setting and setup."""
    found: dict[tuple[str, str], list[Any]] = {}
    for job in JOBS[part](Settings()):
        rows = found.setdefault((job.place.setting, job.place.scenario), [])
        rows += [job.place] if job.place.kind == "field" else []
    return found


@pytest.mark.parametrize("part", WITH_THE_FIELD)
def test_the_field_plays_every_setting_with_learnt_arms_and_told_and_without(part: str) -> None:
    for (setting, _), rows in places_of(part).items():
        if (part, setting) == ("delays", "0"):  # to the field the same as 1
            continue
        names = {row.policy for row in rows if row.context in (None, TOGETHER)}
        assert names >= {"vw_squarecb", "river_linucb", "mabwiser_linucb"}
        assert names >= {f"vw_squarecb{LEARNT}", f"river_linucb{LEARNT}", f"river_linucb{LEARNT}, told"}
        assert not any(name.startswith("vw_") and name.endswith("told") for name in names)
        if part != "unseen":
            assert {row.context for row in rows if row.policy == "vw_squarecb"} == {*SHARED}


def test_features_are_placed_by_the_first_items_and_not_before_these_are_known() -> None:
    problem = a_problem()
    places = problem.places
    assert places.shape == (600, 3)
    assert (places[:ENOUGH, :2] == 0).all()
    assert (places[ENOUGH:, :2] > 0).all()
    assert (places[:, 2] == problem.contexts[:, 0]).all()  # the newest known label
    later = [{"x": 9.0, "y": 9.0}] * 300
    other = replace(problem, items=[*problem.items[:300], *later]).places
    assert (other[:300] == places[:300]).all()


@pytest.mark.parametrize("name", ["vw_squarecb", "mabwiser_linucb, told"])
def test_the_field_finds_out_which_feature_tells_who_is_right(name: str) -> None:
    (method,) = [each for each in field_without_context() if each.name == name]
    problem = a_problem(800)
    blind = replace(problem, items=[{"x": 0.5, "y": item["y"]} for item in problem.items])
    seeing, not_seeing = (measured(partial(list, [each]), method)["error"] for each in (problem, blind))
    assert seeing < not_seeing - 4


@pytest.mark.parametrize("name", SETS)
def test_sets_of_river_are_drawn_anew_for_every_seed(name: str) -> None:
    one, two = stream_problems(Settings(seeds=2), name, 100)
    assert one.right.shape == (len(one.labels), 8)
    assert len(one.items) == len(one.labels) > 900
    assert (one.labels != two.labels).any()
    assert (one.delays == 100).all()
    assert (one.contexts >= 0).all()
    assert (one.contexts <= 1).all()
    assert one.right[:, :8].mean() > 0.5
