"""Networks of running sites in one event loop, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cosend import Network, Site
from cosend.axes import Axis, Category, Feature
from cosend.models.adapters import as_classifier
from cosend.runtime.client_requests import id_number
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.transport.in_process import Hub
from cosend.transport.link import Link
from tests.node.sites import decided, until

AXES: list[Axis] = [Feature("age", range=(0, 100)), Category("kind")]
COST = 0.05
SITES = {
    "north": {"young": lambda item: _says(item, 30, below=True), "half": lambda item: _says(item, 50, below=True)},
    "east": {"old": lambda item: _says(item, 70, below=False)},
    "south": {"kinds": lambda item: "ill" if item["kind"] == "a" else "well"},
    "west": {"never": lambda _: "well", "always": lambda _: "ill"},
}


def _says(item: Any, age: int, *, below: bool) -> str:
    return "ill" if (item["age"] < age) == below else "well"


def truth(item: Any) -> str:
    """Return the true label: nobody's model is right everywhere."""
    if item["age"] < 30:
        return "ill"
    return "ill" if item["age"] > 70 and item["kind"] != "b" else "well"


def items(count: int, shift: int = 0) -> list[dict[str, Any]]:
    """Return items without any order."""
    return [{"age": (37 * n + 11 * shift) % 101, "kind": "abc"[(n * n + shift) % 3]} for n in range(count)]


def setup_of(name: str, policy: Any = None, sites: Sequence[str] = tuple(SITES), **options: Any) -> Setup:
    """Return a site of the network that knows the others."""
    peers = {other: (COST, len(SITES[other])) for other in sites if other != name}
    given = {"peers": peers, "deadline_s": 20.0, "call_cost": COST, "axes": AXES, **options}
    models = {arm: as_classifier(model) for arm, model in SITES[name].items()}
    return Setup(name=name, classifiers=models, policy=policy, **given)


def network_of(policy: Any = None, axes: Sequence[Axis] = AXES) -> Network:
    """Return the same network in one process."""
    sites = [Site(name, classifiers=dict(models), context=axes, policy=policy) for name, models in SITES.items()]
    return Network(sites, call_cost=COST)


@asynccontextmanager
async def running(
    folder: Path, policy: Any = None, links: dict[str, Link] | None = None, **options: Any
) -> AsyncIterator[dict[str, RunningSite]]:
    """Run the sites for as long as the block takes, over links of one event loop unless others are given."""
    hub = Hub()
    ways: Mapping[str, Link] = links or {name: hub.link(name) for name in SITES}
    nodes = {
        name: RunningSite(setup_of(name, policy, **options), folder / name, durable=False, link=ways[name])
        for name in SITES
    }
    for node in nodes.values():
        await node.start()
    await until(lambda: not any(node.peers.offline for node in nodes.values()))
    try:
        yield nodes
    finally:
        for node in nodes.values():
            await node.stop(patience_s=1.0)


async def quiet(nodes: dict[str, RunningSite]) -> None:
    """Wait until all peers have been told everything."""
    await until(lambda: not any(node.state.outbox for node in nodes.values()))


async def one_by_one(nodes: dict[str, RunningSite], count: int) -> list[tuple[str, Any]]:
    """Play items one at a time, as `Network.run` does, and return what was decided."""
    made = list[tuple[str, Any]]()
    before = list[tuple[str, Any, str]]()
    for turn in range(count):
        for name, answer, label in before:
            await nodes[name].label([Given(answer.id, label)])
            await quiet(nodes)
        before = []
        for shift, (name, node) in enumerate(nodes.items()):
            item = items(count, shift)[turn]
            (answer,) = await decided(node, item)
            made.append((name, (id_number(answer.id), answer.label, answer.arm, answer.phase)))
            before.append((name, answer, truth(item)))
    return made


def in_one_process(network: Network, count: int) -> list[tuple[str, Any]]:
    """Return what the network in one process decides."""
    streams = {name: [(item, truth(item)) for item in items(count, shift)] for shift, name in enumerate(network.sites)}
    return [
        (turn.site, (turn.decision.id, turn.decision.label, turn.decision.arm, turn.decision.phase.name.lower()))
        for turn in network.run(streams)
    ]
