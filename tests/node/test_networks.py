"""Running sites that ask each other over links of one event loop, and sites without a context."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosend.axes import AllFeatures, Axis, Category, Confidence, Feature, Says
from cosend.engine.fold import verify
from cosend.runtime.inspection import Inspection
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.transport.in_process import Hub
from tests.node.networks import AXES, SITES, in_one_process, items, network_of, one_by_one, running, setup_of, truth
from tests.node.sites import check_folds, crash, decided, events_of, everything, until
from tests.policies import POLICIES, mostly_claims

TURNS = 20


@pytest.mark.parametrize("policy", mostly_claims(POLICIES))
async def test_one_at_a_time_they_decide_as_the_network_in_one_process(policy: str, tmp_path: Path) -> None:
    async with running(tmp_path, POLICIES[policy]) as nodes:
        made = await one_by_one(nodes, TURNS)
        for node in nodes.values():
            await check_folds(node)
    assert made == in_one_process(network_of(POLICIES[policy]), TURNS)
    assert {name for name, (_, _, arm, _) in made if arm in nodes}  # some were sent


async def test_every_site_goes_by_the_opinions_of_its_own_models(tmp_path: Path) -> None:
    opinions: list[Axis] = [Says("stack"), Says("young", optional=True), Confidence("stack")]
    axes = [*AXES, *opinions]
    async with running(tmp_path, axes=axes) as nodes:
        made = await one_by_one(nodes, TURNS)
        for node in nodes.values():
            await check_folds(node)
            assert verify(events_of(node)) == []
    assert made == in_one_process(network_of(axes=axes), TURNS)
    assert {name for name, (_, _, arm, _) in made if arm in nodes}  # some were sent


# Running sites without a context: features get axes, and a start after a crash goes on exactly


def without_context(name: str, **options: Any) -> Setup:
    return replace(setup_of(name, **options), axes=[AllFeatures()])


async def busy(node: RunningSite, rows: list[dict[str, Any]], size: int) -> None:
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        made = await decided(node, *part)
        await node.label([Given(each.id, truth(item)) for each, item in zip(made, part, strict=True)])


async def test_a_site_starts_again_with_its_axes(tmp_path: Path) -> None:
    setup = without_context("north", sites=["north"])
    node = RunningSite(setup, tmp_path / "north", durable=False)
    await node.start()
    await busy(node, items(60), 7)
    await node.snapshot()
    await busy(node, items(150), 40)
    assert node.state.encoder.axis_names == ("age", "kind")
    assert node.state.learner.score_local == "all"
    arms = {arm["name"]: arm for arm in Inspection(node).arms()}
    assert arms["young"]["labels"] == 210
    assert 0.0 < arms["young"]["mean_gain"] < 1.0
    weights = Inspection(node).summary()["weights"]
    assert any("age" in each for each in weights)
    before = everything(node.state)
    await node.commits.done()
    await crash(node)
    again = RunningSite(setup, tmp_path / "north", durable=False)
    await again.start()
    assert everything(again.state) == before
    await busy(again, items(20), 3)
    await again.stop(patience_s=0.5)


async def test_running_sites_that_describe_items_differently_ask_each_other(tmp_path: Path) -> None:
    """One looks at every feature, the others at one each: all of them learn from calls."""
    hub = Hub()
    axes: dict[str, list[Axis]] = {
        "north": [AllFeatures()],
        "east": [Feature("age", range=(0, 100))],
        "south": [Category("kind"), AllFeatures()],
        "west": [Feature("age", range=(0, 200))],
    }

    nodes = {
        name: RunningSite(replace(setup_of(name), axes=axes[name]), tmp_path / name, durable=False, link=hub.link(name))
        for name in SITES
    }
    for node in nodes.values():
        await node.start()
    await until(lambda: not any(node.peers.offline for node in nodes.values()))
    for node in nodes.values():
        await busy(node, items(130), 26)
    served = {name: sum(node.counts.served.values()) for name, node in nodes.items()}
    assert sum(count > 0 for count in served.values()) >= 3
    assert nodes["north"].state.encoder.axis_names == ("age", "kind")
    for node in nodes.values():
        await check_folds(node)
        assert verify(events_of(node)) == []
    for node in nodes.values():
        await node.stop(patience_s=1.0)
