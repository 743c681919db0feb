"""Running sites without a context: features get axes, and a start after a crash goes on exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cosend.links.in_process import Hub
from cosend.node.flight import Decided
from cosend.node.inspection import Inspection
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.site.context import Axis, Context
from cosend.site.features import AllFeatures
from cosend.site.fold import fold, verify
from cosend.site.recovery import read_events
from tests.node.networks import SITES, items, setup_of, truth, until
from tests.node.sites import crash, run
from tests.site.test_fold import everything


def without_context(name: str, **options: Any) -> Setup:
    return replace(setup_of(name, **options), axes=[AllFeatures()])


async def busy(node: Node, rows: list[dict[str, Any]], size: int) -> None:
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        made = [each for each in await node.classify(part) if isinstance(each, Decided)]
        await node.label([Given(each.id, truth(item)) for each, item in zip(made, part, strict=True)])


def test_a_site_starts_again_with_its_axes(tmp_path: Path) -> None:
    async def work() -> None:
        setup = without_context("north", sites=["north"])
        node = Node(setup, tmp_path / "north", durable=False)
        await node.start()
        await busy(node, items(60), 7)
        await node.snapshot()
        await busy(node, items(150), 40)
        assert node.rules.axis_names == ("age", "kind")
        assert node.rules.learner.score_local == "all"
        arms = {arm["name"]: arm for arm in Inspection(node).arms()}
        assert arms["young"]["labels"] == 210
        assert 0.0 < arms["young"]["mean_gain"] < 1.0
        trusted = Inspection(node).summary()["trusted"]
        assert any("age" in each for each in trusted)
        before = everything(node.rules)
        await node.commits.done()
        await crash(node)
        again = Node(setup, tmp_path / "north", durable=False)
        await again.start()
        assert everything(again.rules) == before
        await busy(again, items(20), 3)
        await again.stop(patience_s=0.5)

    run(work())


def test_running_sites_that_describe_items_differently_ask_each_other(tmp_path: Path) -> None:
    """One looks at every feature, the others at one each: all of them learn from calls."""
    hub = Hub()
    axes: dict[str, list[Axis]] = {
        "north": [AllFeatures()],
        "east": [Context("age", range=(0, 100))],
        "south": [Context.category("kind"), AllFeatures()],
        "west": [Context("age", range=(0, 200))],
    }

    async def work() -> None:
        nodes = {
            name: Node(replace(setup_of(name), axes=axes[name]), tmp_path / name, durable=False, link=hub.link(name))
            for name in SITES
        }
        for node in nodes.values():
            await node.start()
        await until(lambda: not any(node.peers.absent for node in nodes.values()))
        for node in nodes.values():
            await busy(node, items(130), 13)
        served = {name: sum(node.counts.served.values()) for name, node in nodes.items()}
        assert sum(count > 0 for count in served.values()) >= 3
        assert nodes["north"].rules.axis_names == ("age", "kind")
        for name, node in nodes.items():
            while node.commits.position != node.store.log.position:  # a peer may still pass labels on
                await node.commits.done()
            events = [event for _, event in read_events(node.store.log)]
            assert everything(fold(events)) == everything(node.rules), name
            assert verify(events) == []
        for node in nodes.values():
            await node.stop(patience_s=1.0)

    run(work())
