"""Small sites that run, for the tests of nodes and of the service."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cosend.axes import Axis, Feature
from cosend.engine.events import Event
from cosend.engine.fold import fold
from cosend.engine.learnt_arms import Learnt
from cosend.engine.site_state import SiteState
from cosend.engine.snapshot import state_of
from cosend.models.adapters import as_classifier
from cosend.runtime.client_requests import Decided
from cosend.runtime.model_threads import Worker
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.store.recovery import read_events

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
    classifiers = {name: model if isinstance(model, Learnt) else as_classifier(model) for name, model in models.items()}
    return Setup(name="north", classifiers=classifiers, axes=[Feature("age", range=(0, 100))], **options)


async def started(setup: Setup, folder: Path) -> RunningSite:
    node = RunningSite(setup, folder)
    await node.start()
    return node


@asynccontextmanager
async def running(setup: Setup, folder: Path) -> AsyncIterator[RunningSite]:
    """Run a site for as long as the block takes."""
    node = await started(setup, folder)
    try:
        yield node
    finally:
        await node.stop(patience_s=0.5)


async def crash(node: RunningSite) -> None:
    """Drop a node as a kill would: nothing is answered, nothing is left but what was committed."""
    for task in node._tasks:
        task.cancel()
    node.pulse.end()
    node.running._closed = True
    node.commits.fail("killed")
    await asyncio.to_thread(node.commits.close)
    for worker in node.workers.values():
        worker.close()
    node.store.close()


async def rebuilt(node: RunningSite) -> None:
    """Let the disk of a site fail, and wait until it is rebuilt from its log."""
    node.commits.fail("the disk is full")
    node._broken("the disk is full")
    await until(lambda: node.is_ready)


async def until(true: Callable[[], Any], within_s: float = 20.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it takes too long"
        await asyncio.sleep(0.001)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test in an event loop, with a limit."""
    asyncio.run(asyncio.wait_for(work, LONGEST_S))


async def decided(node: RunningSite, *items: Any, names: Sequence[str | None] | None = None) -> list[Decided]:
    """Return the decisions of a site on items, all of which it must answer."""
    results = await node.classify(items, names)
    assert all(isinstance(each, Decided) for each in results), results
    return [each for each in results if isinstance(each, Decided)]


def is_busy(worker: Worker) -> bool:
    return worker._left > 0


def lessons(node: RunningSite, model: str = "learns") -> list[Any]:
    """Return what a `Majority` was taught, once it has heard everything."""
    while is_busy(node.workers[model]):
        time.sleep(0.001)
    taught: list[Any] = node.workers[model].classifier.model.taught  # type: ignore[attr-defined]
    return taught


def everything(state: SiteState) -> tuple[str, dict[str, bytes]]:
    """Return the whole state of a site, to the last bit, in a form that compares."""
    whole = state_of(state)
    return json.dumps(whole.facts, sort_keys=True), {name: array.tobytes() for name, array in whole.arrays.items()}


def events_of(node: RunningSite) -> list[Event]:
    """Return the events in the log of a site."""
    return [event for _, event in read_events(node.store.log)]


def folded(node: RunningSite, axes: Sequence[Axis] | None = None) -> tuple[str, dict[str, bytes]]:
    """Return the whole state that the log of a site leads to."""
    return everything(fold(events_of(node), axes=axes or node.setup.axes))


async def check_folds(node: RunningSite) -> None:
    """Check that the log of a site leads to its state."""
    while node.commits.position != node.store.log.position:  # peers may still pass labels on
        await node.commits.done()
    assert folded(node) == everything(node.state)
