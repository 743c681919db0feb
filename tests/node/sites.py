"""Small sites that run, for the tests of nodes and of the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cosend import Context
from cosend.classifiers.adapters import as_classifier
from cosend.node.node import Node
from cosend.node.setup import Setup

LONGEST_S = 60.0  # no test here takes so long, unless something hangs


class Majority:
    """The smallest model that learns, in river's way: says what it was taught most often."""

    def __init__(self) -> None:
        self.taught: list[Any] = []

    def predict_one(self, _: Any) -> Any:
        return max(sorted(self.taught, key=repr), key=self.taught.count) if self.taught else "well"

    def learn_one(self, _: Any, label: Any) -> None:
        self.taught.append(label)


def young(item: Any) -> str:
    return "ill" if item["age"] < 30 else "well"


def old(item: Any) -> str:
    return "ill" if item["age"] > 70 else "well"


def setup_of(models: dict[str, Any] | None = None, **options: Any) -> Setup:
    """Return a site of models, two functions unless given."""
    models = {"young": young, "old": old} if models is None else models
    classifiers = {name: as_classifier(model) for name, model in models.items()}
    return Setup(name="north", classifiers=classifiers, axes=[Context("age", range=(0, 100))], **options)


@asynccontextmanager
async def running(setup: Setup, folder: Path) -> AsyncIterator[Node]:
    """Run a site for as long as the block takes."""
    node = Node(setup, folder)
    await node.start()
    try:
        yield node
    finally:
        await node.stop(patience_s=0.5)


async def crash(node: Node) -> None:
    """Drop a node as a kill would: nothing is answered, nothing is left but what was committed."""
    for task in node._tasks:
        task.cancel()
    node.pulse.end()
    node.deciding._closed = True
    node.commits.fail("killed")
    await asyncio.to_thread(node.commits.close)
    for worker in node.workers.values():
        worker.close()
    node.store.close()


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test in an event loop, with a limit."""
    asyncio.run(asyncio.wait_for(work, LONGEST_S))
