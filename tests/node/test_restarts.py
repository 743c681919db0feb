"""A site that starts again goes on as if it had never stopped, also when its file says something else by now."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosend import Context, Patience, ZoomingKLUCB
from cosend.errors import StateError, Unavailable
from cosend.node import node as module
from cosend.node.flight import Decided
from cosend.node.inspection import Inspection
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.node.store import Store
from cosend.site.fold import fold
from cosend.site.recovery import read_events
from tests.node.networks import until
from tests.node.sites import Majority, crash, old, run, running, setup_of, young
from tests.site.test_fold import everything

MODELS: dict[str, Any] = {"young": young, "old": old, "learns": Majority()}


async def started(setup: Setup, folder: Path) -> Node:
    node = Node(setup, folder)
    await node.start()
    return node


async def busy(node: Node, count: int, *, label: bool = True) -> list[Decided]:
    """Let a site decide on some items one after the other, and learn their labels."""
    found = []
    for n in range(count):
        (decided,) = await node.classify([{"age": (37.0 * n) % 100}])
        assert isinstance(decided, Decided)
        found.append(decided)
        if label:
            await node.label([Given(decided.id, "ill" if n % 3 else "well")])
    return found


def taught(node: Node) -> list[Any]:
    """Return what the model that learns was taught; waits until it has heard everything."""
    model: Any = node.workers["learns"].classifier
    while node.workers["learns"].is_busy:
        time.sleep(0.001)
    lessons: list[Any] = model.model.taught
    return lessons


def of_the_whole_log(node: Node) -> Any:
    return everything(fold((event for _, event in read_events(node.store.log)), axes=node.setup.axes))


@pytest.mark.parametrize(("learns_from", "score_local"), [("used", "used"), ("all", "used"), ("used", None)])
def test_after_a_kill_and_after_a_stop_everything_is_as_it_was(
    learns_from: Any, score_local: Any, tmp_path: Path
) -> None:
    async def work() -> None:
        setup = setup_of(MODELS, learns_from=learns_from, score_local=score_local)
        node = await started(setup, tmp_path)
        await busy(node, 12)
        await node.snapshot()
        await busy(node, 12)
        live, lessons = everything(node.rules), taught(node)
        assert lessons
        await crash(node)
        for end in (crash, Node.stop):
            node = await started(setup, tmp_path)
            assert everything(node.rules) == live == of_the_whole_log(node)
            assert taught(node) == lessons
            await end(node)

    run(work())


def test_a_damaged_snapshot_is_passed_over_and_a_fresh_model_learns_it_all_again(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of(MODELS, learns_from="all")
        node = await started(setup, tmp_path)
        for _ in range(2):
            await busy(node, 10)
            await node.snapshot()
        live, lessons = everything(node.rules), taught(node)
        await crash(node)
        for path in sorted(tmp_path.glob("state-*.npz"), reverse=True):
            path.write_bytes(path.read_bytes()[:-100])
            kept = {each: each.read_bytes() for each in tmp_path.glob("state-*.npz")}
            node = await started(setup, tmp_path)
            assert (everything(node.rules), taught(node)) == (live, lessons)
            await crash(node)
            assert {each: each.read_bytes() for each in tmp_path.glob("state-*.npz")} == kept

    run(work())


def test_snapshots_under_load_and_then_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        setup = setup_of(MODELS, learns_from="all")
        node = await started(setup, tmp_path)
        monkeypatch.setattr(module, "SNAPSHOT_EVERY", 10)
        loads = [busy(node, 8) for _ in range(5)]
        await asyncio.gather(*loads, *(node.snapshot() for _ in range(3)))
        live, lessons = everything(node.rules), taught(node)
        await crash(node)
        node = await started(setup, tmp_path)
        assert (everything(node.rules), taught(node)) == (live, lessons)
        assert everything(node.rules) == of_the_whole_log(node)
        await node.stop()

    run(work())


def test_whatever_fails_now_and_then_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "TIDY_S", 0.01)
    monkeypatch.setattr(module, "SNAPSHOT_EVERY", 1)

    async def work() -> None:
        async with running(setup_of(MODELS), tmp_path) as node:
            write, ways = node.store.write_snapshot, [KeyError("what nobody thought of")]

            def once(*arguments: Any) -> None:
                if ways:
                    raise ways.pop()
                write(*arguments)

            monkeypatch.setattr(node.store, "write_snapshot", once)
            await busy(node, 4)
            await until(lambda: node._snapshots[1] == node.commits.position)
            assert "tidying up failed" in caplog.text
            assert ways == []

    run(work())


def test_stop_waits_for_what_is_on_its_way_and_refuses_what_comes(tmp_path: Path) -> None:
    async def work() -> None:
        def slow(_: Any) -> str:
            time.sleep(0.2)
            return "well"

        setup = setup_of({"slow": slow})
        node = await started(setup, tmp_path)
        asked = asyncio.create_task(node.classify([{"age": 1.0}], ["one"]))
        await asyncio.sleep(0.05)
        stopped = asyncio.create_task(node.stop())
        await asyncio.sleep(0.01)
        with pytest.raises(Unavailable, match="stopping"):
            await node.classify([{"age": 1.0}])
        (decided,) = await asked
        await stopped
        async with running(setup, tmp_path) as node:
            assert await node.classify([{"age": 9.0}], ["one"]) == [decided]
            assert node.rules.learner.waiting_count == 1

    run(work())


def test_what_stop_cannot_wait_for_is_refused_and_taken_back(tmp_path: Path) -> None:
    async def work() -> None:
        def hangs(_: Any) -> str:
            time.sleep(1.0)
            return "well"

        setup = setup_of({"hangs": hangs}, limits_s={"hangs": 30.0})
        node = await started(setup, tmp_path)
        asked = asyncio.create_task(node.classify([{"age": 1.0}], ["one"]))
        await asyncio.sleep(0.05)
        await node.stop(patience_s=0.1)
        with pytest.raises(Unavailable, match="stopping"):
            await asked
        async with running(setup, tmp_path) as node:
            assert node.rules.learner.waiting_count == 0

    run(work())


def test_classifiers_and_costs_follow_the_file_and_an_operator_s_cost_stays(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of({"young": young, "old": old}, costs={"old": 0.1}), tmp_path) as node:
            await busy(node, 5)
            waiting = await busy(node, 4, label=False)
            await node.change_arm("old", cost=0.7)
        async with running(setup_of({"young": young, "old": old}, costs={"old": 0.1}), tmp_path) as node:
            assert node.rules.learner.arms.own == {"young": 0.0, "old": 0.7}  # the file has not changed
        async with running(setup_of({"young": young, "old": old}, costs={"old": 0.2}), tmp_path) as node:
            assert node.rules.learner.arms.own == {"young": 0.0, "old": 0.2}
        async with running(setup_of({"young": young, "new": Majority()}), tmp_path) as node:
            assert set(node.rules.learner.arms.own) == {"young", "new"}
            heard = await node.label([Given(each.id, "well") for each in waiting])
            assert heard.learnt == [each.id for each in waiting if each.arm == "young"]
            assert heard.expired == [each.id for each in waiting if each.arm == "old"]
            assert {each.arm for each in await busy(node, 8)} <= {"young", "new"}
            live = everything(node.rules)
        async with running(setup_of({"young": young, "new": Majority()}), tmp_path) as node:
            assert everything(node.rules) == live == of_the_whole_log(node)

    run(work())


def test_what_cannot_be_changed_under_what_was_learnt_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            await busy(node, 3)
        other_context = replace(setup_of(), axes=[Context("age", range=(0, 120))])
        named = setup_of(policy=ZoomingKLUCB()), setup_of(score_local="used")
        for changed in (setup_of(seed=5), setup_of(patience=Patience(wait_limit=7)), other_context, *named):
            before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
            with pytest.raises(StateError, match="start anew in another folder"):
                await Node(changed, tmp_path).start()
            assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    run(work())


def test_a_folder_goes_on_as_it_was_made_if_nothing_is_named_that_it_was_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A default that changes from one version to the next must not make a folder unreadable."""

    async def work() -> None:
        for n, made in enumerate((setup_of(policy=ZoomingKLUCB()), setup_of(policy=ZoomingKLUCB(), score_local="all"))):
            folder = tmp_path / str(n)
            async with running(made, folder) as node:
                await busy(node, 5)
                before = everything(node.rules)
            caplog.clear()
            async with running(setup_of(), folder) as node:
                assert everything(node.rules) == before
                learner = node.rules.learner
                assert (learner.policy, learner.score_local) == (ZoomingKLUCB(), ("used", "all")[n])
                await busy(node, 5)
            said = [
                record.getMessage() for record in caplog.records if "not with today's default" in record.getMessage()
            ]
            assert [line.split()[1] for line in said] == [["policy", "score_local"], ["policy"]][n]

    with caplog.at_level("INFO", "cosend.node"):
        run(work())


def test_modes_and_pauses_survive(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of()
        node = await started(setup, tmp_path)
        await node.set_mode("observe", "old")
        await node.change_arm("young", paused=True)
        await crash(node)
        node = await started(setup, tmp_path)
        assert node.observer == "old"
        assert {each.arm for each in await busy(node, 4)} == {"old"}
        assert [arm["paused"] for arm in Inspection(node).arms()] == [True, False]
        await node.stop()
        async with running(setup_of({"young": young}), tmp_path) as node:  # the one that answered has left
            assert node.observer is None

    run(work())


@pytest.mark.parametrize("hurried", [False, True])
def test_the_last_snapshot_takes_the_time_it_needs_unless_somebody_hurries(
    hurried: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = Store.write_snapshot

    def slowly(*given: Any) -> None:
        time.sleep(1.5)
        real(*given)

    async def work() -> None:
        node = await started(setup_of(), tmp_path)
        await busy(node, 4)
        monkeypatch.setattr(Store, "write_snapshot", slowly)
        if hurried:
            node.hurry()
        await node.stop(patience_s=0.3)
        assert any("no snapshot was saved" in record.getMessage() for record in caplog.records) == hurried
        assert bool([*tmp_path.glob("state-*.npz")]) != hurried

    run(work())
