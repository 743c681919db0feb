"""A site that restarts continues as if it had never stopped, also when its file says something else by now."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosend import Learnt, Patience, ZoomingKLUCB
from cosend.algorithm import pending as registry
from cosend.axes import Feature
from cosend.engine import snapshot
from cosend.engine.fold import fold
from cosend.errors import StateError, Unavailable
from cosend.runtime import running_site as module
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_store import Store
from cosend.store import event_log
from cosend.store.state_file import read_state
from tests.node.sites import (
    Majority,
    crash,
    decided,
    events_of,
    everything,
    folded,
    lessons,
    old,
    running,
    setup_of,
    started,
    until,
    young,
)

MODELS: dict[str, Any] = {"young": young, "old": old, "learns": Majority()}


async def busy(node: RunningSite, count: int, *, label: bool = True) -> list[Decided]:
    """Let a site decide on some items one after the other, and learn their labels."""
    found = []
    for n in range(count):
        (made,) = await decided(node, {"age": (37.0 * n) % 100})
        found.append(made)
        if label:
            await node.label([Given(made.id, "ill" if n % 3 else "well")])
    return found


@pytest.mark.parametrize(("learns_from", "score_local"), [("all", "used"), ("used", None)])
async def test_after_a_kill_and_after_a_stop_everything_is_as_it_was(
    learns_from: Any, score_local: Any, tmp_path: Path
) -> None:
    setup = setup_of(MODELS, learns_from=learns_from, score_local=score_local)
    node = await started(setup, tmp_path)
    await busy(node, 12)
    await node.snapshot()
    await busy(node, 12)
    live, learnt = everything(node.state), lessons(node)
    assert learnt
    await crash(node)
    for end in (crash, RunningSite.stop):
        node = await started(setup, tmp_path)
        assert everything(node.state) == live == folded(node)
        assert lessons(node) == learnt
        await end(node)


async def test_a_damaged_snapshot_is_passed_over_and_a_fresh_model_learns_it_all_again(tmp_path: Path) -> None:
    setup = setup_of(MODELS, learns_from="all")
    node = await started(setup, tmp_path)
    for _ in range(2):
        await busy(node, 10)
        await node.snapshot()
    live, learnt = everything(node.state), lessons(node)
    await crash(node)
    for path in sorted(tmp_path.glob("state-*.npz"), reverse=True):
        path.write_bytes(path.read_bytes()[:-100])
        kept = {each: each.read_bytes() for each in tmp_path.glob("state-*.npz")}
        node = await started(setup, tmp_path)
        assert (everything(node.state), lessons(node)) == (live, learnt)
        await crash(node)
        assert {each: each.read_bytes() for each in tmp_path.glob("state-*.npz")} == kept


async def test_whatever_fails_now_and_then_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "TIDY_S", 0.01)
    monkeypatch.setattr(module, "SNAPSHOT_EVERY", 1)

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


async def test_stop_waits_for_what_is_on_its_way_and_refuses_what_comes(tmp_path: Path) -> None:
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
        assert node.state.learner.pending_count == 1


async def test_classifiers_and_costs_follow_the_file_and_an_operator_s_cost_stays(tmp_path: Path) -> None:
    async with running(setup_of({"young": young, "old": old}, costs={"old": 0.1}, learnt=False), tmp_path) as node:
        await busy(node, 5)
        waiting = await busy(node, 4, label=False)
        await node.change_arm("old", cost=0.7)
    async with running(setup_of({"young": young, "old": old}, costs={"old": 0.1}, learnt=False), tmp_path) as node:
        assert node.state.learner.arms.own == {"young": 0.0, "old": 0.7}  # the file has not changed
    async with running(setup_of({"young": young, "old": old}, costs={"old": 0.2}, learnt=False), tmp_path) as node:
        assert node.state.learner.arms.own == {"young": 0.0, "old": 0.2}
    async with running(setup_of({"young": young, "new": Majority()}, learnt=False), tmp_path) as node:
        assert set(node.state.learner.arms.own) == {"young", "new"}
        heard = await node.label([Given(each.id, "well") for each in waiting])
        assert heard.learnt == [each.id for each in waiting if each.arm == "young"]
        assert heard.expired == [each.id for each in waiting if each.arm == "old"]
        assert {each.arm for each in await busy(node, 8)} <= {"young", "new"}
        live = everything(node.state)
    async with running(setup_of({"young": young, "new": Majority()}, learnt=False), tmp_path) as node:
        assert everything(node.state) == live == folded(node)


async def test_what_cannot_be_changed_under_what_was_learnt_is_refused(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        await busy(node, 3)
    other_context = replace(setup_of(), axes=[Feature("age", range=(0, 120))])
    named = setup_of(policy=ZoomingKLUCB()), setup_of(score_local="used")
    for changed in (setup_of(seed=5), setup_of(patience=Patience(wait_limit=7)), other_context, *named):
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(StateError, match="or start in another folder"):
            await RunningSite(changed, tmp_path).start()
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


async def test_a_folder_continues_as_it_was_made_where_the_file_leaves_it_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A default that changes from one version to the next must not make a folder unreadable."""
    caplog.set_level("INFO", "cosend.runtime")
    for score_local, said in ((None, ["policy", "score_local"]), ("all", ["policy"])):
        folder = tmp_path / str(score_local)
        async with running(setup_of(policy=ZoomingKLUCB(), score_local=score_local), folder) as node:
            await busy(node, 5)
            before = everything(node.state)
        caplog.clear()
        async with running(setup_of(), folder) as node:
            assert everything(node.state) == before
            learner = node.state.learner
            assert (learner.policy, learner.score_local) == (ZoomingKLUCB(), score_local or "used")
            await busy(node, 5)
        lines = [line for line in caplog.messages if "not the default" in line]
        assert [line.split()[1] for line in lines] == said


async def test_the_last_snapshot_takes_the_time_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Store.write_snapshot

    def slowly(*given: Any) -> None:
        time.sleep(0.5)
        real(*given)

    node = await started(setup_of(), tmp_path)
    await busy(node, 4)
    monkeypatch.setattr(Store, "write_snapshot", slowly)
    await node.stop(patience_s=0.1)
    assert [*tmp_path.glob("state-*.npz")]


# Snapshots while a site decides and learns


MOST_PENDING = 90


async def go_on(node: RunningSite, seed: int) -> None:
    """Decide, learn and change arms, one after the other, as clients and operators do."""
    draw, waiting = random.Random(seed), list[str]()
    for n in range(16):
        count = draw.choice([1, 2, 30])
        names: list[str | None] = [f"{seed}-{n}-{place}" if place % 2 else None for place in range(count)]
        found = await decided(node, *({"age": draw.uniform(0, 100)} for _ in names), names=names)
        waiting += [each.id for each in found]
        draw.shuffle(waiting)
        some, waiting = waiting[: count // 2], waiting[count // 2 :]
        await node.label([Given(name, draw.choice(["ill", "well"])) for name in some])
        if n % 20 == 7:
            await node.change_arm("old", paused=n % 40 == 7)


async def test_a_snapshot_is_the_state_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "AT_ONCE", 3)  # so that much happens while it is taken
    monkeypatch.setattr(registry, "LARGE", 1)
    monkeypatch.setattr(registry, "MOST_NEW", 5)
    monkeypatch.setattr("cosend.runtime.running_site.TICK_S", 0.001)
    kept = dict[int, Any]()
    models = {"young": young, "old": old, "learns": Majority(), "dear": old, "mine": Learnt.STACK}
    setup = setup_of(models, costs={"dear": 0.05}, patience=Patience(max_pending=MOST_PENDING))
    node = await started(setup, tmp_path)
    clients = [asyncio.create_task(go_on(node, seed)) for seed in range(2)]
    while not all(client.done() for client in clients):
        await node.snapshot()
        for file in tmp_path.glob("state-*.npz"):
            kept[int(file.stem.removeprefix("state-"))] = read_state(file)
    await asyncio.gather(*clients)
    assert node.state.learner.pending_count > MOST_PENDING // 2
    happened = events_of(node)
    for position, state in kept.items():
        expected, found = fold(happened[:position]), fold(happened[:1])
        snapshot.restore(found, state)()
        assert everything(found) == everything(expected), position
    assert len(kept) > 3
    await until(lambda: node.state.learnt.fitting is None)
    await node.commits.done()
    live, learnt = everything(node.state), lessons(node)
    await crash(node)
    async with running(setup, tmp_path) as node:
        assert (everything(node.state), lessons(node)) == (live, learnt)


# What is old is removed, and nothing that matters: not the state, not what is pending, not who may be told what


async def decide(node: RunningSite, names: list[str | None], *, label: bool) -> list[str]:
    ids = [each.id for each in await decided(node, *({"age": 7.0 * n} for n, _ in enumerate(names)), names=names)]
    if label:
        assert (await node.label([Given(name, "well") for name in ids])).learnt == ids
    return ids


async def test_old_events_and_decisions_go_and_the_state_stays(tmp_path: Path) -> None:
    setup = setup_of(MODELS, keep_s=0.0)
    node = await started(setup, tmp_path)
    done = await decide(node, ["a", None, "c"], label=True)
    waits = await decide(node, ["d", None], label=False)
    for _ in range(2):  # the older of two snapshots must be there if the newer is damaged
        await node.snapshot()
        await decide(node, [None], label=True)
    await asyncio.sleep(0.01)
    newest = max(tmp_path.glob("state-*.npz"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-100])
    with pytest.raises(StateError, match=newest.name):  # nothing goes that a good snapshot does not cover
        await node.prune()
    assert node.store.log.oldest <= 1
    newest.write_bytes(whole)
    await node.prune()
    assert node.store.log.oldest > 1
    assert [*node.store.index.names_before(100)] == [4]
    heard = await node.label([Given(name, "well") for name in [*done, *waits, "d-99"]])
    assert heard.learnt == waits
    assert heard.expired == ["d-2"]  # it was given once
    assert heard.unknown == ["a", "c", "d-99"]  # nothing is known about these any more
    live, learnt = everything(node.state), lessons(node)
    await crash(node)
    async with running(setup, tmp_path) as node:
        assert (everything(node.state), lessons(node)) == (live, learnt)
        assert (await node.label([Given("d-2", "well"), Given("d-99", "well")])).expired == ["d-2"]
        assert await decide(node, [None], label=True) == [f"d-{node.state.learner.last_id}"]


async def test_a_clock_that_was_wrong_for_a_while_makes_nothing_old_before_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(setup_of(MODELS, keep_s=3600.0), tmp_path) as node:
        before = await node.classify([{"age": 5.0}], ["before"])
        monkeypatch.setattr(event_log, "time", lambda: 1_000_000.0)  # in 1970, as a machine without a battery has it
        for n in range(10):
            await decide(node, [f"{n} meanwhile"], label=True)
        monkeypatch.undo()
        for _ in range(2):
            await node.snapshot()
            await decide(node, [None], label=True)
        await node.prune()
        assert await node.classify([{"age": 90.0}], ["before"]) == before


async def test_a_folder_in_which_labels_were_shared_is_not_gone_on_with_by_a_site_that_keeps_them(
    tmp_path: Path,
) -> None:
    async with running(setup_of(), tmp_path):
        pass
    with pytest.raises(StateError, match="made with the share_labels always, and the site now has never"):
        async with running(setup_of(share_labels="never"), tmp_path):
            pass
    other = tmp_path / "other"
    async with running(setup_of(share_labels="never"), other):
        pass
    async with running(setup_of(), other) as node:  # the file says nothing: the folder keeps its setting
        assert node.state.learner.policy.share_labels == "never"
