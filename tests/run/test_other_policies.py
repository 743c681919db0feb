"""A network may name any policy: it is played first, under its own name, with others and the baselines beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cosend.report.html_report import write_report
from cosend.run.play import other_policies, play
from cosend.run.prepare import policy_per_site
from cosend.run.result import result
from tests.policies import mostly_claims
from tests.run.test_play import CONTEXTS, PREVIOUS, prepared_of

pytestmark = pytest.mark.compiled

# the table of a file -> the name in the results
POLICIES = {
    'name = "CellKLUCB"\nslices = 3': "CellKLUCB",
    'name = "Zooming"': "Zooming",
    'name = "ZoomingKLUCB"\nlipschitz = 5': "ZoomingKLUCB",
    'name = "CoS"\nhorizon = "unknown"': "CoS",
    'name = "CoS"\norder = "random"': "CoS",
}
# Pictures take longest. What differs in them is how many axes a cell has and what policies are called.
DRAWN = ("Zooming", "CoS")
NOW = [*POLICIES][3:4]
BASELINES = ("oracle", "best single model", "epsilon-greedy", "LinUCB", "uniform random", "previous label")


@pytest.mark.parametrize("context", ["previous_label", "two axes"])
@pytest.mark.parametrize("policy", mostly_claims(POLICIES, NOW))
def test_the_policy_of_the_file_comes_first_and_the_report_shows_equal_cells_whatever_cells_it_has(
    tmp_path: Path, policy: str, context: str
) -> None:
    prepared = prepared_of(tmp_path, context=CONTEXTS[context], policy=policy)
    shown = result(prepared, play(prepared))
    names = list(shown["error_curves"])
    assert shown["policy"] == names[0] == POLICIES[policy]
    assert {"CoS", "CellKLUCB", "ZoomingKLUCB", *BASELINES} <= set(names)
    pairs = [(row["site"], row["policy"]) for row in shown["rows"]]
    assert sorted(set(pairs)) == sorted(pairs)  # none is played twice
    for site, won in shown["winners"].items():
        assert all(len(cell) >= len(prepared.axes) for cell in won["cells"])
        assert all(index < shown["slices"] for cell in won["cells"] for index in cell)
        assert sum(won["arrivals"]) == 300
        assert {won["arms"][best] for best in won["best"]} <= set(won["arms"]), site
    json.dumps(shown, allow_nan=False)
    if context == "two axes" and POLICIES[policy] in DRAWN:  # those of one axis are drawn elsewhere
        assert write_report(shown, tmp_path / "out").is_file()


def test_beyond_24_axes_no_cubes_play_beside(tmp_path: Path) -> None:
    names = {
        axes: [way.name for way in other_policies(prepared_of(tmp_path, context=[PREVIOUS] * axes))] for axes in (1, 25)
    }
    assert names == {
        1: ["MixedViews", "CellKLUCB", "ZoomingKLUCB"],
        25: ["MixedViews", "CellKLUCB"],
    }


def test_labels_score_as_much_for_all_as_for_the_default_but_cos_stays_as_it_is_in_the_paper(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path, policy="")
    scored = {
        way.name: {score for _, score in way.by_site.values()} for way in (prepared.policy, *other_policies(prepared))
    }
    assert scored == {"MixedViews": {"all"}, "CoS": {"used"}, "CellKLUCB": {"all"}, "ZoomingKLUCB": {"all"}}


def test_sites_that_decide_in_different_ways_are_one_row_with_both_names(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path, policy="")
    north, *others = prepared.network.sites
    sites = [north.model_copy(update={"score_local": "used", "share_labels": "training"}), *others]
    way = policy_per_site(prepared.network.model_copy(update={"sites": sites}), None)
    assert way.name == "MixedViews"
    assert [score for _, score in way.by_site.values()] == ["used", "all", "all"]
    assert len({policy for policy, _ in way.by_site.values()}) == 2


def test_what_a_site_used_most_while_it_exploited_wins_where_it_has_no_such_cell(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path, policy='name = "ZoomingKLUCB"', context=[PREVIOUS])
    outcome = play(prepared)
    won = result(prepared, outcome)["winners"]["north"]
    contexts = prepared.contexts[prepared.rows_of(0)][:, 0]
    for (index,), best, arrivals in zip(won["cells"], won["best"], won["arrivals"], strict=True):
        here = [n for n, x in enumerate(contexts.tolist()) if min(4, int(5 * x)) == index]
        assert len(here) == arrivals
        used = [int(outcome.first.arms[0][n]) for n in here if outcome.first.phases[0][n] == 3]
        assert used.count(best) == max(map(used.count, used))
