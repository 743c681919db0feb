"""A site begins with what is known: a recording with labels, or the log of another system."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cosend import Patience, Site, axes, fold, verify
from cosend.engine import learnt_arms
from cosend.engine.events import Chosen, Event
from cosend.errors import ArmError, ClassifierError, ScoreError, SettingError
from tests.engine.world import whole
from tests.node.sites import Majority
from tests.site.test_failing_arms import Line

MODELS: dict[str, Any] = {
    "low": lambda item: item["x"] < 0.5,
    "high": lambda item: item["x"] >= 0.5,
    "dear": lambda item: True,
}
ROWS: list[dict[str, Any]] = [{"x": n % 10 / 10, "kind": "ab"[n % 2]} for n in range(300)]
TRUTHS = [row["x"] < 0.5 for row in ROWS]


@pytest.fixture(autouse=True)
def _fits_begin_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt_arms, "FIRST_FIT", 50)


def a_site(log: list[Event], **options: Any) -> Site:
    given: dict[str, Any] = {"classifiers": MODELS, "costs": {"dear": 0.1}, **options}
    return Site("lab", journal=log.append, **given)


@pytest.mark.parametrize(
    "options",
    [{}, {"context": axes.Category("kind")}, {"score_local": "used"}, {"patience": Patience(max_pending=7)}],
    ids=str,
)
def test_a_recording_teaches_free_models_and_learnt_arms_and_its_log_is_the_state(options: dict[str, Any]) -> None:
    log: list[Event] = []
    site = a_site(log, **options)
    site.add_peer("far", Line(a_site([])), 0.0)
    assert site.begin_with(ROWS, TRUTHS) == 300
    used = {arm for event in log if isinstance(event, Chosen) for arm in event.arms}
    assert used <= {"low", "high", "grown", "stack"}  # nothing that costs, and no peer
    assert (site.pending(), site.summary().items) == ({}, 300)
    assert [each.decisions for each in site.summary().arms] == [0] * len(site.summary().arms)
    assert site.best_model([{"x": 0.2, "kind": "a"}])[0] != "high"
    assert whole(fold(log)) == whole(site.engine.state)
    assert verify(log) == []


def test_rows_without_a_label_are_passed_over_and_so_are_those_that_no_model_can_label() -> None:
    log: list[Event] = []
    site = a_site(log, classifiers={"picky": lambda item: 1 / item["x"] > 2}, costs={}, learnt=False)
    assert site.begin_with(ROWS[:20], [None, *TRUTHS[1:20]]) == 18  # of two rows x is 0, and one of them has no label
    assert whole(fold(log)) == whole(site.engine.state)


def test_models_that_learn_are_taught_and_what_one_cannot_learn_is_raised_after_the_part_is_learnt() -> None:
    site = a_site([], classifiers={"learns": Majority()}, costs={}, learnt=False)
    assert site.begin_with(ROWS[:30], ["a"] * 30) == 30
    assert site.classify({"x": 0.5}).label == "a"

    class Fragile(Majority):
        def learn_one(self, item: Any, label: Any) -> None:
            raise ValueError("odd")

    other = a_site([], classifiers={"fragile": Fragile()}, costs={}, learnt=False)
    with pytest.raises(ClassifierError, match="odd"):
        other.begin_with(ROWS[:30], ["a"] * 30)
    assert other.pending() == {}


def test_an_interrupted_row_leaves_nothing_behind() -> None:
    def stops(_: Any) -> Any:
        raise KeyboardInterrupt

    site = a_site([], classifiers={"stops": stops}, costs={})
    with pytest.raises(KeyboardInterrupt):
        site.begin_with(ROWS[:3], TRUTHS[:3])
    assert site.pending() == {}


@pytest.mark.parametrize("options", [{}, {"context": axes.Feature("x", range=(0, 1))}, {"learnt": False}], ids=str)
def test_the_log_of_another_system_says_whom_to_use(options: dict[str, Any]) -> None:
    log: list[Event] = []
    site = a_site(log, **options)
    draw = random.Random(3)
    arms = [draw.choice(["low", "high", "dear"]) for _ in ROWS]
    scores = [{"low": 0.3, "high": 0.8, "dear": 0.5}[arm] for arm in arms]
    assert site.begin_with(ROWS, arms=arms, scores=[None, *scores[1:]]) == 299
    used = [site.classify(row).arm for row in ROWS[:12]]
    assert used.count("high") >= 9
    assert {*used} <= {"high", "stack"}  # of a stack the log knows nothing, so it is tried
    assert whole(fold(log)) == whole(site.engine.state)
    assert verify(log) == []


def test_rows_are_thinned_by_propensities() -> None:
    site, draw = a_site([], learnt=False), random.Random(1)
    likely = [0.9 if row["x"] < 0.5 else 0.1 for row in ROWS]
    arms = ["low" if draw.random() < each else "high" for each in likely]
    chance = [each if arm == "low" else 1 - each for each, arm in zip(likely, arms, strict=True)]
    learnt = site.begin_with(ROWS, arms=arms, scores=[0.5] * 300, propensities=chance)
    assert 30 < learnt < 110
    assert a_site([]).begin_with(ROWS[:5], arms=["low"] * 5, scores=[1] * 5, propensities=[0.5] * 5) == 5


def test_what_is_wrong_is_said_and_nothing_is_learnt() -> None:
    log: list[Event] = []
    site = a_site(log)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({}, SettingError, "truths, or arms and scores"),
        ({"truths": TRUTHS[:3], "arms": ["low"] * 3}, SettingError, "truths, or arms and scores"),
        ({"arms": ["low"] * 3}, SettingError, "truths, or arms and scores"),
        ({"truths": TRUTHS[:3], "propensities": [1] * 3}, SettingError, "given with arms and scores"),
        ({"truths": TRUTHS[:2]}, SettingError, r"as many as items \(3\)"),
        ({"arms": ["low", "nobody", "low"], "scores": [1] * 3}, ArmError, "no local arm 'nobody'"),
        ({"arms": ["low"] * 3, "scores": [1, 1, 7]}, ScoreError, "row 3 of the log"),
        ({"arms": ["low"] * 3, "scores": [1] * 3, "propensities": [1, 0, 1]}, SettingError, "above 0 and at most 1"),
    ]
    for options, error, words in wrong:
        with pytest.raises(error, match=words):
            site.begin_with(ROWS[:3], **options)
    assert len(log) == 1
