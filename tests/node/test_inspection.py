"""What a running site shows of itself: arms over all their labels, what waits, and the newest decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosend import CellKLUCB, MixedViews, ZoomingKLUCB
from cosend.algorithm.policies import Policy
from cosend.runtime.inspection import Inspection
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from tests.node.sites import decided, running, setup_of


async def decide(node: RunningSite, ages: list[float]) -> list[str]:
    return [each.id for each in await decided(node, *({"age": age} for age in ages))]


@pytest.mark.parametrize("policy", [CellKLUCB(slices=4), MixedViews()])
async def test_the_mean_of_an_arm_is_that_of_its_labels_whatever_the_policy(tmp_path: Path, policy: Policy) -> None:
    """Views hold the same labels several times, and mixed ones forget; an arm is told of once."""
    async with running(setup_of(policy=policy), tmp_path) as node:
        right, total = dict.fromkeys(("young", "old"), 0), dict.fromkeys(("young", "old"), 0)
        for age in range(60):
            (made,) = await decided(node, {"age": 1.6 * age})
            total[made.arm] += 1
            right[made.arm] += made.label == "ill"
            await node.label([Given(made.id, "ill")])
        for arm in Inspection(node).arms():
            assert arm["labels"] == total[arm["name"]]
            assert arm["mean_gain"] == pytest.approx(right[arm["name"]] / total[arm["name"]])


async def test_what_waits_and_since_when(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        inspection = Inspection(node)
        nothing = {"decisions": 0, "for_peers": 0, "oldest_s": None, "middle_s": None}
        assert inspection.waiting() == nothing
        ids = await decide(node, [1.0, 2.0, 3.0, 50.0])
        waiting = inspection.waiting()
        assert (waiting["decisions"], waiting["for_peers"]) == (4, 0)
        assert 0.0 <= waiting["middle_s"] <= waiting["oldest_s"]
        await node.label([Given(each, "ill") for each in ids])
        assert inspection.waiting() == nothing


async def test_forecasts_are_those_of_all_views_together(tmp_path: Path) -> None:
    async with running(setup_of(policy=MixedViews(), score_local="all"), tmp_path) as node:
        for n in range(80):
            ids = await decide(node, [float(n % 25)])
            await node.label([Given(each, "ill") for each in ids])
        found = Inspection(node).forecasts([0.1])
        assert found is not None
        assert found["young"] > 0.9 > 0.1 > found["old"]
    async with running(setup_of(policy=ZoomingKLUCB()), tmp_path / "other") as node:
        assert Inspection(node).forecasts([0.1]) is None


async def test_labels_that_score_all_are_counted_for_all_and_others_for_none(tmp_path: Path) -> None:
    async with running(setup_of(score_local="all", learnt=False, costs={"old": 0.1}), tmp_path) as node:
        ids = await decide(node, [10.0, 20.0, 80.0, 90.0])
        await node.label([Given(each, "ill") for each in ids])
        [stretch] = [each for each in node.counts.history.stretches if each.labels]
        assert stretch.local == {"young": (2.0, 4)}  # old costs something, so that labels score it where it is used
    async with running(setup_of(score_local="used"), tmp_path / "used") as node:
        await node.label([Given(each, "ill") for each in await decide(node, [10.0])])
        assert all(not each.local for each in node.counts.history.stretches)
