"""Models that workers run: shared, asked of another worker when one is gone, and a failure when there is none."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cosend.engine.needs import Forward
from cosend.errors import ClassifierError, LinkError, NoAnswer
from cosend.models.adapters import RunsElsewhere, as_classifier
from cosend.runtime.client_requests import Decided
from cosend.runtime.model_threads import Worker
from cosend.runtime.remote_workers import Elsewhere, lend, worker_name
from cosend.runtime.running_site import RunningSite
from cosend.transport.in_process import Hub
from tests.node.sites import decided, setup_of, until, young

LIMIT_S = 2.0  # long beside what anything takes here, unless something is wrong


class Crew:
    """Worker processes, as tasks: what each was given, and what can be done to them."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.given: dict[str, list[Any]] = {}
        self.lost: set[str] = set()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.workers: dict[str, Worker] = {}
        hub.loses = lambda site: site in self.lost

    async def add(self, number: str, model: Callable[[Any], Any] = young, threads: int = 1) -> str:
        name = worker_name("north", "young", number)
        given = self.given[name] = []

        def predicted(item: Any) -> Any:
            given.append(item)
            return model(item)

        worker = self.workers[name] = Worker("young", as_classifier(predicted), LIMIT_S, threads)
        link = self.hub.link(name)
        self.tasks[name] = asyncio.create_task(lend({name: worker}, {name: link}))
        await until(lambda: link._announcement is not None)
        return name

    async def kill(self, name: str) -> None:
        """Let a worker die without a word, in the middle of what it does."""
        link = self.hub.links.pop(name)
        link._server = None
        for task in link._tasks:
            task.cancel()

    async def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


@asynccontextmanager
async def site(
    folder: Path, limit_s: float = LIMIT_S, learnt: bool | None = None, **models: Any
) -> AsyncIterator[tuple[RunningSite, Crew]]:
    """Run a site whose classifier "young" is run by workers, of which it has none yet."""
    hub = Hub()
    setup = setup_of({"young": RunsElsewhere(), **models}, limits_s={"young": limit_s}, learnt=learnt)
    node, crew = RunningSite(setup, folder, durable=False, workers=hub.link("north")), Crew(hub)
    await node.start()
    try:
        yield node, crew
    finally:
        await node.stop(patience_s=0.5)
        await crew.end()


def there(node: RunningSite) -> list[str]:
    """Return the names of the workers that can be asked."""
    remote = node.workers["young"]
    assert isinstance(remote, Elsewhere)
    return [each.site for each in remote.there()]


def items(count: int, first: int = 0) -> list[dict[str, int]]:
    return [{"age": n % 101, "n": n} for n in range(first, first + count)]


def all_right(results: list[Any], asked: list[dict[str, int]]) -> bool:
    return all(
        isinstance(each, Decided) and each.label == young(item) for each, item in zip(results, asked, strict=True)
    )


async def test_workers_share_what_comes_and_answer_as_the_model_does(tmp_path: Path) -> None:
    def slow(item: Any) -> str:
        time.sleep(0.001)
        return young(item)

    async with site(tmp_path) as (node, crew):
        names = [await crew.add(number, slow) for number in "ab"]
        asked = [items(10, 10 * n) for n in range(20)]
        results = await asyncio.gather(*map(node.classify, asked))
        assert all(map(all_right, results, asked))
        assert sum(map(len, crew.given.values())) == 200
        assert all(len(crew.given[name]) > 20 for name in names)
        assert node.workers["young"].seconds_per_item > 0


async def test_a_worker_that_dies_or_hangs_fails_in_time_and_the_others_go_on(tmp_path: Path) -> None:
    started, held = threading.Event(), threading.Event()

    def hangs(item: Any) -> str:
        started.set()
        held.wait(10.0)
        return young(item)

    async with site(tmp_path, limit_s=0.3, old=lambda _: "well") as (node, crew):
        await node.change_arm("old", cost=1.0)
        first = await crew.add("a", hangs)
        asked = asyncio.create_task(decided(node, *items(5)))
        await until(started.is_set)
        await crew.add("b")
        await crew.kill(first)
        assert {each.arm for each in await asked} == {"old"}
        assert node.counts.failures_of("young") == 5
        held.set()
        for n in range(5):  # the first is still announced, and nobody listens under its name
            assert all_right(await node.classify(items(5, n)), items(5, n))
        assert node.counts.failures_of("young") == 5


async def test_without_a_worker_the_arm_fails_at_once_and_works_again_with_one(tmp_path: Path) -> None:
    async with site(tmp_path, learnt=False, old=lambda _: "well") as (node, crew):
        made = await asyncio.wait_for(decided(node, *items(50)), LIMIT_S)
        assert {each.arm for each in made} == {"old"}
        assert node.counts.failures_of("young")
        for _ in range(5):
            await node.classify(items(1))
        assert node.breakers.position("young", time.monotonic()) == "open"
        await crew.add("a")
        assert node.breakers.position("young", time.monotonic()) == "closed"
        await node.change_arm("old", paused=True)
        assert all_right(await node.classify(items(5)), items(5))


async def test_a_lone_classifier_without_workers_is_no_answer_with_the_reason(tmp_path: Path) -> None:
    async with site(tmp_path, limit_s=0.4) as (node, crew):
        (result,) = await node.classify(items(1))
        assert isinstance(result, NoAnswer)
        assert "there is no worker that could be asked" in str(result)
        name = await crew.add("a")
        crew.hub.stop()
        (result,) = await node.classify(items(1))
        assert isinstance(result, NoAnswer)
        crew.hub.start()
        assert all_right(await node.classify(items(1)), items(1))
        crew.lost.add(name)  # nobody else is there, so it is waited for
        begun = time.monotonic()
        (result,) = await node.classify(items(1))
        assert isinstance(result, NoAnswer)
        assert "no answer within" in str(result)
        assert time.monotonic() - begun > 0.35
        assert node.counts.failures_of("young") == 3


async def test_an_item_on_which_the_model_fails_fails_alone(tmp_path: Path) -> None:
    def picky(item: Any) -> Any:
        if item["n"] == 3:
            raise ValueError("not this one")
        return object() if item["n"] == 4 else young(item)

    async with site(tmp_path, learnt=False, old=lambda _: "old") as (node, crew):
        await crew.add("a", picky)
        await node.change_arm("old", cost=1.0)
        made = await decided(node, *items(8))
        assert [each.label for each in made[3:5]] == ["old", "old"]
        assert "young" in {each.arm for each in made}
        assert node.counts.failures_of("young") >= 2


async def test_a_worker_refuses_labels_and_a_model_that_is_not_here_says_so(tmp_path: Path) -> None:
    async with site(tmp_path) as (_, crew):
        name = await crew.add("a")
        link = crew.hub.links["north"]
        with pytest.raises(LinkError, match="learns nothing"):
            await link.post(name, [Forward(name, "north", 1, "ill")], 1.0)
    with pytest.raises(ClassifierError, match="workers run it"):
        RunsElsewhere().predict([1])
    RunsElsewhere().learn(1, 1)


async def test_a_worker_that_leaves_in_peace_leaves_nobody_waiting(tmp_path: Path) -> None:
    async with site(tmp_path) as (node, crew):
        names = [await crew.add(number) for number in "abc"]
        for gone in names[:2]:
            asked = [asyncio.create_task(node.classify(items(3, n))) for n in range(10)]
            await asyncio.sleep(0)
            crew.tasks[gone].cancel()
            for n, task in enumerate(asked):
                assert all_right(await task, items(3, n))
        assert there(node) == names[2:]
