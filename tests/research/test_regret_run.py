"""Regret is measured, split, and compared with the theorems as docs/theory.md says."""

from __future__ import annotations

import importlib
import json
import math
from typing import Any

import numpy as np
import pytest
from research.bounds import Setting
from research.lipschitz import LipschitzProblem
from research.regret import report
from research.regret.bounds import index_bound, index_exponent, zooming_exponent
from research.regret.parts import PARTS, arms_behind, cells_of, split, suboptimal_items
from research.regret.run import Run, decisions_of, drawn, measured, policies_by_horizon, runs
from research.regret.settings import POLICIES, PROBLEMS, Settings, horizons_of, theorem_applies
from research.regret.slopes import log_log_slope, over_seeds

from cosend import CosendError, simulate
from cosend.algorithm.cells import keys_of
from cosend.algorithm.layout import TRAIN
from cosend.algorithm.policies import Zooming

pytestmark = pytest.mark.compiled

ROW_KEYS = {"policy", "problem", "horizon", "seeds", "regret", "slope", "slope_ci", "bound", "exponent"}
BY_NAME = {policy.name: policy for policy in POLICIES}
PROBLEM = {problem.name: problem for problem in PROBLEMS}


@pytest.fixture(scope="module")
def short() -> list[Run]:
    """Return every policy on every problem, two seeds, at most 4,000 items."""
    return list(runs(Settings(seeds=2, items=4_000)))


@pytest.fixture(scope="module")
def found(short: list[Run]) -> Any:
    """Return the results of these runs, as they come out of a JSON file."""
    return json.loads(json.dumps(report.results(short)))


@pytest.mark.claims
def test_every_single_run_is_below_its_bound(short: list[Run]) -> None:
    judged = 0
    for run in short:
        policy, problem = BY_NAME[run.policy], PROBLEM[run.problem].problem
        if policy.bound is not None and theorem_applies(policy, problem):
            judged += 1
            assert run.regret < policy.bound(problem.setting, run.horizon)
    proven = [run for run in short if BY_NAME[run.policy].bound is not None]
    assert judged >= len(proven) * 0.9
    assert {run.policy for run in proven} == {"CoS", "CellKLUCB"}


@pytest.mark.claims
def test_rows_have_the_agreed_keys_one_for_every_policy_problem_and_horizon(found: Any) -> None:
    assert all(set(row) == ROW_KEYS for row in found["rows"])
    names = [(row["policy"], row["problem"], row["horizon"]) for row in found["rows"]]
    assert len(set(names)) == len(names) == len(POLICIES) * len(PROBLEMS) * 4
    for row in found["rows"]:
        assert row["seeds"] == 2
        assert row["slope_ci"][0] <= row["slope"] <= row["slope_ci"][1]


@pytest.mark.claims
def test_the_parts_add_up_to_the_regret(short: list[Run]) -> None:
    for run in short:
        assert set(run.parts) == set(PARTS)
        assert sum(run.parts.values()) == pytest.approx(run.regret)
        assert run.curve[-1] == pytest.approx(run.regret)
        assert BY_NAME[run.policy].trains_peers or run.parts["training"] == 0


def test_the_problems_cover_what_was_asked_for() -> None:
    kinds = [named.problem for named in PROBLEMS]
    assert {kind.dimensions for kind in kinds} == {1, 2, 3}
    assert {kind.alpha for kind in kinds} == {0.5, 1.0}
    assert {kind.call_cost > 0 for kind in kinds} == {True, False}
    assert {(kind.contexts, kind.arrivals) for kind in kinds} == {
        (contexts, arrivals)
        for contexts in ("uniform", "concentrated")
        for arrivals in ("homogeneous", "heterogeneous")
    }
    assert max(kind.sites for kind in kinds) == 16
    assert max(named.horizon for named in PROBLEMS) == 10**7


@pytest.mark.claims
def test_cos_is_said_to_be_exploring_where_the_horizon_is_too_short(found: Any) -> None:
    verdicts = {(each["policy"], each["problem"]): each["verdict"] for each in found["details"]}
    assert verdicts["CoS", "line"] == verdicts["CoS", "many"] == "exploring"
    assert verdicts["CellKLUCB", "line"] != "exploring"
    assert any(remark.startswith("exploring: ") for remark in report.remarks(found))
    assert any("It is loose" in remark for remark in report.remarks(found))


@pytest.mark.claims
def test_only_training_teaches_peers_that_see_other_items(found: Any) -> None:
    """On the problem `apart` CoS trains; CellKLUCB does not, and its theorem does not apply."""
    details = {each["policy"]: each for each in found["details"] if each["problem"] == "apart"}
    assert details["CoS"]["parts"]["training"] > 0
    assert details["CellKLUCB"]["verdict"] == "unproven"
    assert details["CellKLUCB"]["below_bound"] is None
    assert details["CellKLUCB"]["bound_curve"] is None


@pytest.mark.claims
def test_results_of_a_stop_have_the_seeds_that_are_done(short: list[Run]) -> None:
    line = [run for run in short if run.problem == "line" and run.policy in ("CoS", "CellKLUCB")]
    stopped = report.results(line[:-3])  # the second seed lacks its longest horizons
    seeds = {(row["policy"], row["horizon"]): row["seeds"] for row in stopped["rows"]}
    assert seeds == {
        ("CoS", 500): 2, ("CoS", 1_000): 2, ("CoS", 2_000): 2, ("CoS", 4_000): 1,
        ("CellKLUCB", 500): 2, ("CellKLUCB", 1_000): 2, ("CellKLUCB", 2_000): 1, ("CellKLUCB", 4_000): 1,
    }  # fmt: skip
    assert [each["slope_over_horizons_ci"] for each in stopped["details"]] == [None, None]
    assert all(len(line) == len(report.table(stopped)[1]) for line in report.table(stopped)[2])


def regrets(*rows: tuple[str, str, int, float]) -> dict[str, Any]:
    names = ("problem", "policy", "horizon", "regret")
    made = [dict(zip(names, row, strict=True)) for row in rows]
    return {"rows": made, "details": [], "problems": dict.fromkeys(row[0] for row in rows)}


def test_in_short_policies_are_compared_at_the_longest_horizon_that_they_share() -> None:
    found = regrets(
        ("line", "CoS", 500, 9.0), ("line", "CoS", 1_000, 10.0), ("line", "Zooming", 500, 8.0),
        ("pair", "CoS", 500, 5.0), ("pair", "Zooming", 500, 4.0), ("pair", "Zooming", 1_000, 20.0),
        ("many", "CoS", 500, 1.0), ("many", "Zooming", 500, 2.0),
    )  # fmt: skip
    assert report.in_short(found) == "Least regret: Zooming on 2 problems, CoS on 1 problem."
    found = regrets(
        ("line", "CoS", 500, 9.0), ("line", "Zooming", 500, 8.0),
        ("pair", "CoS", 500, 5.0), ("pair", "Zooming", 100, 4.0),
    )  # fmt: skip
    apart = "On 1 problem, no horizon is common to all policies."
    assert report.in_short(found) == f"Least regret: Zooming on 1 problem. {apart}"


def test_in_short_nothing_is_said_without_a_rival() -> None:
    assert report.in_short(regrets(("line", "CoS", 500, 9.0))) == ""
    assert report.in_short(regrets(("line", "CoS", 500, 9.0), ("line", "Zooming", 1_000, 9.0))) == ""


@pytest.mark.claims
def test_a_run_is_the_same_again(short: list[Run]) -> None:
    problem = PROBLEM["rough"]._replace(horizon=4_000)
    again = measured(problem, BY_NAME["CoS"], drawn(problem, 1, 4_000), 4_000)
    assert again in short


def test_decisions_are_counted_beforehand() -> None:
    settings = Settings(seeds=2, problems=("pair",), policies=("CoS",), items=1_000)
    seen: list[int] = []
    assert len(list(runs(settings, lambda _, decisions: seen.append(decisions)))) == 8
    assert seen == sorted(seen)
    assert seen[-1] == decisions_of(settings) == 2 * 2 * (125 + 250 + 500 + 1_000)


# The split


@pytest.mark.parametrize("site", [0, 1])
def test_arms_behind_agree_with_a_fine_grid(site: int) -> None:
    problem = LipschitzProblem(functions=(2, 1, 1), dimensions=2, lipschitz=1.5, call_cost=0.1)
    slices, fine = 4, 30
    behind = arms_behind(problem, slices, site)
    ticks = np.linspace(0, 1, fine + 1) / slices
    within = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    for cell in range(slices**2):
        corner = np.array(divmod(cell, slices)) / slices
        values = problem.arm_values(problem.accuracies(corner + within), site)
        optimal = problem.arm_values(problem.accuracies(corner[None] + 0.5 / slices), site)[0].argmax()
        exact = values[:, optimal].min() - values.max(axis=0)
        if site > 0 and optimal == 1:  # the peer with two functions: its worst value is underestimated
            assert (behind[cell] <= exact + 1e-9).all()
        else:
            assert behind[cell] == pytest.approx(exact, abs=2 * 1.5 / slices / fine)


def test_cells_are_those_of_the_core() -> None:
    points = np.vstack([np.random.default_rng(3).random((200, 3)), np.ones((1, 3)), np.zeros((1, 3))])
    assert cells_of(points, 7).tolist() == keys_of(points, 7).tolist()


def test_the_split_by_hand() -> None:
    """Every item is assigned by its phase, and if exploited, by a comparison written out for its cell and step."""
    named = PROBLEM["apart"]
    problem, seed, contexts, gains = drawn(named, 0, 4_000)
    trace = simulate(
        problem.learners(BY_NAME["CoS"].make(problem, 4_000), seed), contexts, gains, items=problem.items(4_000)
    )
    losses = problem.losses(contexts, trace)
    parts = split(problem, contexts, trace, losses)
    assert parts["training"] == pytest.approx(losses[trace.phases[:, 0] == TRAIN].sum())
    slices = math.ceil(4_000**0.25)
    behind = arms_behind(problem, slices, 0)
    keys = keys_of(problem.contexts_at(contexts, 0), slices)
    marked = suboptimal_items(problem, contexts, trace, 0)
    for slot in range(0, 4_000, 37):
        threshold = (2 * problem.lipschitz + 6) * (slot + 1) ** -0.25
        assert marked[slot] == (behind[keys[slot], trace.arms[slot, 0]] > threshold)


def test_an_arm_that_is_far_behind_is_suboptimal_late_and_not_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold falls as t^theta: with accuracies far apart an arm crosses it within the run."""
    problem = LipschitzProblem(functions=(2,), lipschitz=0.0)
    monkeypatch.setattr(LipschitzProblem, "peaks", lambda _: (np.zeros((2, 1)), np.array([0.95, 0.05])))
    contexts, gains = problem.stream(30_000)
    trace = simulate(problem.learners(BY_NAME["CellKLUCB"].make(problem, 30_000)), contexts, gains)
    trace.arms[:, 0] = 1
    marked = suboptimal_items(problem, contexts, trace, 0)
    first = math.floor((6 / 0.9) ** 4) + 1
    assert marked.tolist() == [step >= first for step in range(1, 30_001)]


# Bounds and slopes


def test_index_bound_by_hand() -> None:
    """K = 5 arms, L = alpha = d = 1, T = 1,000: ten cells of width 0.1."""
    log_t = math.log(1_000)
    expected = (
        4 * 0.05 * 1_000
        + 2 * math.sqrt(2) * math.sqrt(5 * 10 * 1_000 * log_t)
        + 10 * (2 * 5 + 2 + math.e * (log_t**3 / 3 + log_t)) * 1.5
    )
    assert index_bound(Setting(own=2, learners=4, cost_spread=0.5), 1_000) == pytest.approx(expected)


@pytest.mark.parametrize(("alpha", "dimensions"), [(1.0, 1), (0.5, 1), (1.0, 2), (0.5, 3)])
def test_index_bound_grows_with_its_exponent_and_slower_than_theorem_1(alpha: float, dimensions: int) -> None:
    setting = Setting(own=2, alpha=alpha, dimensions=dimensions)
    horizons = [10**k for k in range(60, 71)]
    slope = log_log_slope([float(t) for t in horizons], [index_bound(setting, t) for t in horizons], 0.5)
    assert slope == pytest.approx(index_exponent(setting), abs=0.01)
    assert index_exponent(setting) < setting.regret_exponent


def test_the_slope_of_a_power_with_a_logarithm_is_the_power() -> None:
    x = np.geomspace(10, 10**6, 20)
    assert log_log_slope(x, 3 * x**0.7) == pytest.approx(0.7)
    assert log_log_slope(x, 3 * x**0.7 * np.log(x), log_power=1.0) == pytest.approx(0.7)
    assert log_log_slope(x, np.r_[0.0, x[1:]]) is None


def test_the_interval_is_students() -> None:
    slopes = [0.5, 0.7, 0.6, 0.9]
    stats = importlib.import_module("scipy.stats")
    low, high = stats.t.interval(0.95, 3, loc=np.mean(slopes), scale=stats.sem(slopes))
    assert over_seeds(slopes) == pytest.approx((np.mean(slopes), low, high))
    assert over_seeds([0.5]) == (0.5, None, None)
    assert over_seeds([0.5, None]) is None
    assert over_seeds([]) is None


@pytest.mark.parametrize(
    ("ends", "exponent", "exploited", "word"),
    [
        ([0.5, 0.7], 0.75, 0.9, "below"),
        ([0.5, 0.8], 0.75, 0.9, "unclear"),
        (None, 0.75, 0.9, "unclear"),
        ([0.8, 0.9], 0.75, 0.9, "above"),
        ([0.9, 1.1], 0.75, 0.4, "exploring"),
        ([0.5, 0.7], None, 0.9, "unproven"),
    ],
)
def test_verdicts(ends: list[float] | None, exponent: float | None, exploited: float, word: str) -> None:
    assert report.verdict({"slope_ci": ends, "exponent": exponent}, exploited) == word
    assert word in report.VERDICTS


@pytest.mark.claims
def test_a_bound_that_does_not_hold_is_named(found: Any) -> None:
    broken = {**found, "details": [{**each, "below_bound": each["problem"] != "rough"} for each in found["details"]]}
    (remark,) = [remark for remark in report.remarks(broken) if remark.startswith("The bound")]
    assert "DOES NOT HOLD for CoS on rough, CellKLUCB on rough" in remark


@pytest.mark.parametrize(
    ("options", "named"),
    [({"seeds": 0}, "seeds"), ({"items": 10}, "items"), ({"problems": ("x",)}, "line"), ({"policies": ("x",)}, "CoS")],
)
def test_settings_outside_their_range_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(CosendError, match=named):
        Settings(**options)


def test_items_cap_the_horizons() -> None:
    (line,) = Settings(problems=("line",), items=8_000).chosen_problems
    assert all(horizons_of(line, policy) == [1_000, 2_000, 4_000, 8_000] for policy in POLICIES)


def test_policies_without_a_bound_stop_at_a_horizon_that_the_others_have_too() -> None:
    proven = horizons_of(PROBLEM["hot-line"], BY_NAME["CoS"])
    assert proven == [125_000, 250_000, 500_000, 1_000_000]
    shorter = horizons_of(PROBLEM["hot-line"], BY_NAME["Zooming"])
    assert shorter == [31_250, 62_500, 125_000, 250_000]
    shortest = horizons_of(PROBLEM["hot-line"], BY_NAME["MixedViews"])
    assert shortest[2:] == shorter[:2]
    by_horizon = policies_by_horizon(PROBLEM["hot-line"], POLICIES)
    assert list(by_horizon) == sorted({*proven, *shorter, *shortest})
    assert [policy.name for policy in by_horizon[62_500]] == [*(p.name for p in POLICIES if p.bound is None)]
    assert [policy.name for policy in by_horizon[250_000]] == [*(p.name for p in POLICIES if p.name != "MixedViews")]


@pytest.mark.parametrize(("dimensions", "rate"), [(1, (3 + math.sqrt(17)) / 2), (2, 4.0)])
def test_the_order_of_zooming_is_that_of_its_split_rate(dimensions: int, rate: float) -> None:
    setting = Setting(own=2, dimensions=dimensions)
    assert zooming_exponent(setting, "uniform") == pytest.approx((dimensions + rate - 1) / (dimensions + rate))
    assert zooming_exponent(setting, "concentrated") == pytest.approx(2 / 3)
    assert Zooming().split_rate(dimensions) == pytest.approx(rate)


@pytest.mark.claims
def test_what_is_not_proven_is_a_dash_in_the_table_and_null_in_the_results(found: Any) -> None:
    _, heading, lines = report.table(found)
    for line in lines:
        cells = dict(zip(heading, line, strict=True))
        proven = cells["policy"] in ("CoS", "CellKLUCB")
        assert (cells["bound"] == "-") == (not proven or cells["verdict"] == "unproven")
        assert (cells["exp."] == "-") == (cells["verdict"] == "unproven")
    assert all((row["bound"] is None) for row in found["rows"] if row["policy"] in ("ZoomingKLUCB", "Zooming"))


@pytest.mark.parametrize(
    ("items", "text"), [(950, "950"), (31_250, "31250"), (40_000, "40k"), (156_250, "156k"), (10_000_000, "10M")]
)
def test_horizons_are_short_in_the_table(items: int, text: str) -> None:
    assert report.short(items) == text


@pytest.mark.claims
def test_the_slope_of_cos_is_below_the_exponent_once_it_stops_exploring() -> None:
    settings = Settings(seeds=2, problems=("line",), policies=("CoS",), items=3_000_000)
    (each,) = report.results(list(runs(settings)))["details"]
    assert each["verdict"] == "below"
    assert each["below_bound"]


@pytest.mark.claims
def test_the_slope_of_cell_klucb_is_below_its_exponent() -> None:
    settings = Settings(seeds=4, problems=("rough", "square", "cube"), policies=("CellKLUCB",), items=100_000)
    for each in report.results(list(runs(settings)))["details"]:
        assert each["verdict"] == "below", each["problem"]
