"""What is old is removed, and nothing that matters: not the state, not what waits, not who may be told what."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.stores import event_log
from tests.node.sites import Majority, crash, old, run, running, setup_of
from tests.site.test_fold import everything

MODELS: dict[str, Any] = {"old": old, "learns": Majority()}


async def decide(node: Node, names: list[str | None], *, label: bool) -> list[str]:
    found = await node.classify([{"age": 7.0 * n} for n, _ in enumerate(names)], names)
    ids = [each.id for each in found if isinstance(each, Decided)]
    if label:
        assert (await node.label([Given(name, "well") for name in ids])).learnt == ids
    return ids


def test_old_events_and_decisions_go_and_the_state_stays(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of(MODELS, keep_s=0.0, learns_from="all")
        async with running(setup, tmp_path) as node:
            done = await decide(node, ["a", None, "c"], label=True)
            waits = await decide(node, ["d", None], label=False)
            for _ in range(2):  # the older of two snapshots must be there if the newer is damaged
                await node.snapshot()
                await decide(node, [None], label=True)
            await asyncio.sleep(0.01)
            await node.prune()
            assert node.store.log.oldest > 1
            assert [*node.store.index.names_before(100)] == [4]
            heard = await node.label([Given(name, "well") for name in [*done, *waits, "99"]])
            assert heard.learnt == waits
            assert heard.expired == ["2"]  # its number was given out once
            assert heard.unknown == ["a", "c", "99"]  # nothing is known of these names any more
            live, model = everything(node.rules), node.workers["learns"].classifier
            while node.workers["learns"].is_busy:
                await asyncio.sleep(0.001)
            await crash(node)
            again = Node(setup, tmp_path)
            await again.start()
            assert everything(again.rules) == live
            same: Any = again.workers["learns"].classifier
            assert same.model.taught == model.model.taught  # type: ignore[attr-defined]
            assert (await again.label([Given("2", "well"), Given("99", "well")])).expired == ["2"]
            assert await decide(again, [None], label=True) == [str(again.rules.learner.last_id)]
            node.store, node.commits, node.workers = again.store, again.commits, again.workers
            node.rules, node.deciding, node._tasks = again.rules, again.deciding, again._tasks

    run(work())


def test_within_the_stated_time_nothing_is_forgotten(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of(MODELS, keep_s=3600.0)
        async with running(setup, tmp_path) as node:
            names: list[str | None] = [f"{n}" if n % 2 else f"name {n}" for n in range(1, 30)]
            done = await node.classify([{"age": 5.0}] * len(names), names)
            for _ in range(3):
                await node.snapshot()
                await node.prune()
            assert await node.classify([{"age": 90.0}] * len(names), names) == done

    run(work())


def test_a_clock_that_was_wrong_for_a_while_makes_nothing_old_before_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with running(setup_of(MODELS, keep_s=3600.0), tmp_path) as node:
            before = await node.classify([{"age": 5.0}], ["before"])
            monkeypatch.setattr(
                event_log, "time", lambda: 1_000_000.0
            )  # in 1970, as a machine without a battery has it
            for n in range(10):
                await decide(node, [f"{n} meanwhile"], label=True)
            monkeypatch.undo()
            for _ in range(2):
                await node.snapshot()
                await decide(node, [None], label=True)
            await node.prune()
            assert await node.classify([{"age": 90.0}], ["before"]) == before

    run(work())
