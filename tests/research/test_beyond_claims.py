"""What the experiments beyond the paper must show; where a test does not say otherwise, with five seeds."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from research.beyond.run import JOBS
from research.beyond.settings import AXES, EVERY_FEATURE, MAIN, STILL, TOGETHER, WITH_LEARNT, Settings

pytestmark = pytest.mark.claims

SCENARIOS = ("S1", "S2")
COLUMNS = list(product(SCENARIOS, AXES))
MOST = {  # error in % of CellKLUCB
    ("S1", "previous_label"): 0.3,
    ("S1", "src_bytes"): 0.6,
    ("S1", "time"): 1.1,
    ("S2", "previous_label"): 0.3,
    ("S2", "src_bytes"): 0.6,
    ("S2", "time"): 2.0,
}
BEATEN = ("CoS", "adaboost", "swa_100", "swa_1000")
NEAR = 0.05  # points that the field may be better
FIELD_SEEDS = 1  # the field takes minutes


def errors(data: Path, wanted: Any, seeds: int, window: str = MAIN.name) -> dict[tuple[str, str | None, str], float]:
    """Return the error of the wanted rows of a window by setup, context and policy."""
    jobs = [job for job in JOBS["windows"](Settings(data=data, seeds=seeds)) if job.place.setting == window]
    chosen = [job for job in jobs if wanted(job.place)]
    return {(job.place.scenario, job.place.context, job.place.policy): job.work()["error"] for job in chosen}


@pytest.fixture(scope="module")
def ours(kdd99_file: Path) -> dict[tuple[str, str | None, str], float]:
    return errors(kdd99_file, lambda place: place.policy in ("CellKLUCB", *BEATEN), seeds=5)


@pytest.fixture(scope="module")
def field(kdd99_file: Path) -> dict[tuple[str, str | None, str], float]:
    wanted = (*AXES, None)
    return errors(kdd99_file, lambda place: place.kind == "field" and place.context in wanted, FIELD_SEEDS)


@pytest.mark.parametrize(("scenario", "context"), COLUMNS)
def test_cell_kl_ucb_errs_at_most_as_much_as_was_promised(ours: Any, scenario: str, context: str) -> None:
    assert ours[scenario, context, "CellKLUCB"] <= MOST[scenario, context]


@pytest.mark.parametrize(("scenario", "context"), COLUMNS)
def test_cell_kl_ucb_is_better_than_cos_and_boosting(ours: Any, scenario: str, context: str) -> None:
    for name in BEATEN:
        theirs = ours[scenario, context if name == "CoS" else None, name]
        assert ours[scenario, context, "CellKLUCB"] < theirs, name


def test_nobody_of_the_field_is_clearly_better_and_hardly_anybody_as_good(ours: Any, field: Any) -> None:
    better = 0
    for scenario, context in COLUMNS:
        mine = ours[scenario, context, "CellKLUCB"]
        best = min(error for (where, seen, _), error in field.items() if where == scenario and seen in (None, context))
        assert mine <= best + NEAR, (scenario, context)
        better += mine < best
    assert better >= 5


def test_a_change_costs_the_default_hardly_anything(kdd99_file: Path) -> None:
    """With the previous label as context, 3.93 % with an abrupt change and 3.90 % without: nothing has to notice it."""
    jobs = [
        job
        for job in JOBS["drift"](Settings(data=kdd99_file, seeds=5))
        if (job.place.policy, job.place.context) == ("MixedViews", "previous_label")
    ]
    found = {job.place.setting == STILL: job.work()["error"] for job in jobs}
    assert found[False] <= 1.03 * found[True]


def test_late_labels_do_not_find_everything_in_small_cubes(kdd99_file: Path) -> None:
    """All three contexts in S1: better than CoS, and by far where labels are very late."""
    jobs = [
        job
        for job in JOBS["delays"](Settings(data=kdd99_file, seeds=2))
        if job.place.policy in ("CoS", "ZoomingKLUCB") and (job.place.scenario, job.place.context) == ("S1", TOGETHER)
    ]
    found = {(job.place.policy, job.place.setting): job.work()["error"] for job in jobs}
    assert found["ZoomingKLUCB", "100"] < 0.9 * found["CoS", "100"]
    assert found["ZoomingKLUCB", "1000"] < 0.7 * found["CoS", "1000"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_context_needs_to_be_chosen(scenario: str, kdd99_file: Path) -> None:
    """Every feature, on the paper's window: as good as the three contexts that the authors chose, with some room."""
    settings = Settings(data=kdd99_file, seeds=5)
    jobs = [job for job in JOBS["no-context"](settings) if job.place.scenario == scenario]
    main = [job for job in jobs if job.place.setting.startswith(MAIN.name) and job.place.policy == "MixedViews"]
    found = {(job.place.setting, job.place.context): job.work()["error"] for job in main}
    for late, most, near in (("1 late", 0.22, NEAR), ("100 late", 2.4, 0.3)):
        setting = f"{MAIN.name}, {late}"
        assert found[setting, EVERY_FEATURE] <= min(most, found[setting, TOGETHER] + near)


def test_late_labels_are_no_trap_in_equal_cells(kdd99_file: Path) -> None:
    """The previous label as context, S2, 100 late: 29 % when rewards that come together counted as independent."""
    (job,) = [
        job
        for job in JOBS["late"](Settings(data=kdd99_file, seeds=3))
        if job.place[1:5] == (MAIN.name, "S2", "previous_label", "CellKLUCB")
    ]
    assert job.work()["error"] < 7.0


MIXED = {  # by window: S1 and S2, labels before the next item, then 100 items late
    "main": ((0.20, 0.20), (2.3, 2.6)),
    "many switches": ((0.90, 0.88), (11.7, 12.0)),
    "few switches": ((0.07, 0.07), (1.7, 2.0)),
    "more switches": ((0.25, 0.27), (3.4, 4.0)),
    "some switches": ((0.17, 0.16), (3.4, 5.5)),
}
WITH_EVERY_FEATURE = {  # the same, and neither the previous label nor the time is given
    "main": ((0.22, 0.16), (2.0, 2.3)),
    "many switches": ((0.70, 0.65), (9.3, 8.8)),
}
CLOSEST = ("main", "S2", 100)  # 2.25 with thirty seeds; it was 2.19 with bonus=0.2


@pytest.mark.parametrize("window", MIXED)
def test_the_default_errs_little_on_all_windows(kdd99_file: Path, window: str) -> None:
    """All three contexts, ten seeds, on which rules were chosen: this keeps what was reached, and proves no more."""
    for part, most in zip(("windows", "late"), MIXED[window], strict=True):
        jobs = [job for job in JOBS[part](Settings(data=kdd99_file, seeds=10)) if job.place[1] == window]
        by_scenario = [job for job in jobs if job.place[3:5] == (TOGETHER, "MixedViews")]
        for job, limit in zip(by_scenario, most, strict=True):
            assert job.work()["error"] <= limit, job.place


@pytest.mark.parametrize(("window", "scenario"), [*product(WITH_EVERY_FEATURE, SCENARIOS)])
def test_the_default_errs_little_with_every_feature(kdd99_file: Path, window: str, scenario: str) -> None:
    """The same with five seeds, and thirty where five are too few."""
    for delay, most in zip((1, 100), WITH_EVERY_FEATURE[window], strict=True):
        seeds = 30 if (window, scenario, delay) == CLOSEST else 5
        (job,) = [
            job
            for job in JOBS["no-context"](Settings(data=kdd99_file, seeds=seeds))
            if job.place[1:5] == (f"{window}, {delay} late", scenario, EVERY_FEATURE, "MixedViews")
        ]
        assert job.work()["error"] <= most[int(scenario == "S2")], job.place


@pytest.mark.parametrize(("setting", "most"), [("0.05 per call", 0.25), ("0.05 per call, many switches", 1.1)])
def test_learnt_arms_answer_at_home_what_had_to_be_sent(kdd99_file: Path, setting: str, most: float) -> None:
    (job,) = [
        job
        for job in JOBS["costs"](Settings(data=kdd99_file))
        if job.place[1:5] == (setting, "S1", TOGETHER, WITH_LEARNT)
    ]
    found = job.work()
    assert found["error"] + found["paid"] <= most
