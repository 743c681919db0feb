"""Two running sites over links of one event loop, or one with peers that do whatever a test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cosend import ZoomingKLUCB
from cosend.algorithm.values import LabelledData
from cosend.axes import Axis, Feature
from cosend.engine.needs import Call, Question, Reply
from cosend.models.adapters import as_classifier
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.transport.codec import Announcement, Answered
from cosend.transport.in_process import Hub
from tests.node.sites import decided

AXES: list[Axis] = [Feature("age", range=(0, 100))]
CONTEXT = tuple(axis.description for axis in AXES)


def right(item: Any) -> str:
    return "ill" if item["age"] < 30 else "well"


def wrong(item: Any) -> str:
    return "well" if item["age"] < 30 else "ill"


def site(name: str, model: Any, *peers: str, **options: Any) -> Setup:
    """Return a site of one model, with peers that cost nothing."""
    given = {"policy": ZoomingKLUCB(), "axes": AXES, "deadline_s": 10.0, **options}
    models = {f"{name}'s": as_classifier(model)}
    return Setup(name=name, classifiers=models, peers=dict.fromkeys(peers, (0.0, 1)), **given)


@asynccontextmanager
async def two(
    folder: Path, hub: Hub, north: Any = wrong, south: Any = right, **options: Any
) -> AsyncIterator[tuple[RunningSite, RunningSite]]:
    """Run two sites; the first has a model that is always wrong unless another is given."""
    first = RunningSite(site("north", north, "south", **options), folder / "north", link=hub.link("north"))
    other = RunningSite(site("south", south, "north", **options), folder / "south", link=hub.link("south"))
    await first.start()
    await other.start()
    try:
        yield first, other
    finally:
        for node in (first, other):
            if node.is_ready:
                await node.stop(patience_s=0.5)


async def again(node: RunningSite, hub: Hub, setup: Setup | None = None) -> RunningSite:
    """Start a site that has ended in the same folder once more."""
    back = RunningSite(setup or node.setup, node.folder, link=hub.link(node.setup.name))
    await back.start()
    return back


class Stub:
    """A peer that answers whatever a test wants."""

    def __init__(self) -> None:
        self.label: Any = "ill"
        self.takes_labels = True

    async def call(self, call: Call) -> Answered:
        return Answered([self.reply(question) for question in call.questions])

    def reply(self, question: Question) -> Reply:
        return Reply(None, "it is too old") if question.item["age"] > 50 else Reply(self.label)

    async def report(self, caller: str, contexts: Any) -> list[LabelledData]:
        return [LabelledData(0, 0)] * len(contexts)

    async def post(self, caller: str, forwards: Any) -> None:
        if not self.takes_labels:
            raise ValueError("it takes none")


async def announce(hub: Hub, name: str, stub: Stub, functions: int = 1, cost: float = 0.0) -> Any:
    """Let a stub be a site of the network; returns its link."""
    link = hub.link(name)
    await link.serve(Announcement(name, CONTEXT, functions, cost), stub)
    return link


@asynccontextmanager
async def with_stubs(folder: Path, hub: Hub, stub: Stub, *peers: str, **options: Any) -> AsyncIterator[RunningSite]:
    """Run a site, whose model is always wrong, with peers that are all the same stub."""
    node = RunningSite(site("north", wrong, *peers, **options), folder, link=hub.link("north"))
    await node.start()
    for peer in peers:
        await announce(hub, peer, stub)
    try:
        yield node
    finally:
        await node.stop(patience_s=0.5)


async def play(node: RunningSite, ages: range, *, label: bool = True) -> list[str]:
    """Decide and label items one by one; returns the arms."""
    arms = []
    for age in ages:
        (made,) = await decided(node, {"age": age % 100})
        arms.append(made.arm)
        if label:
            await node.label([Given(made.id, right({"age": age % 100}))])
    return arms


def nothing_waits(*nodes: RunningSite) -> bool:
    return not any(node.state.learner.pending_count or node.state.outbox for node in nodes)
