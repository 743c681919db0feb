"""What peers, disks and files can do to a site in the middle of something: nobody waits for ever, nothing is lost."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosend import CoS
from cosend.classifiers.adapters import as_classifier
from cosend.core.learner.values import LabelledData
from cosend.errors import LinkError
from cosend.links.in_process import Hub
from cosend.links.link import Announcement, Answered
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.site.messages import Call, Forward, Question, Reply
from tests.node.networks import until
from tests.node.sites import run
from tests.node.test_networks import check_folds
from tests.node.test_peers_fail import AXES, play, right, site, two, wrong

CONTEXT = tuple(axis.description for axis in AXES)


class Stub:
    """A peer that answers whatever a test wants."""

    def __init__(self) -> None:
        self.calls = 0
        self.rest_s = 0.0
        self.report_of = LabelledData(0, 0)
        self.label: Any = "ill"
        self.takes_labels = True

    async def call(self, call: Call) -> Answered:
        self.calls += 1
        await asyncio.sleep(self.rest_s)
        return Answered([self.reply(question) for question in call.questions])

    def reply(self, question: Question) -> Reply:
        return Reply(None, "it is too old") if question.item["age"] > 50 else Reply(self.label)

    async def report(self, caller: str, contexts: Any) -> list[LabelledData]:
        await asyncio.sleep(self.rest_s)
        return [self.report_of] * len(contexts)

    async def post(self, caller: str, forwards: Any) -> None:
        if not self.takes_labels:
            raise ValueError("it takes none")


def test_what_fails_for_one_client_is_no_trouble_for_those_whose_items_went_along(tmp_path: Path) -> None:
    hub, stub = Hub(), Stub()

    async def work() -> None:
        node = Node(site("north", wrong, {"south": (0.0, 1)}, deadline_s=2.0), tmp_path, link=hub.link("north"))
        await node.start()
        await hub.link("south").serve(Announcement("south", CONTEXT, 1), stub)
        node.rules.pause("north's")
        stub.rest_s = 0.05

        async def ask(age: int) -> Any:
            await asyncio.sleep(age / 10_000)
            return (await node.classify([{"age": age}]))[0]

        answers = await asyncio.wait_for(asyncio.gather(*map(ask, range(100))), 10.0)
        assert [isinstance(each, Decided) for each in answers[:51]] == [True] * 51
        assert stub.calls < 60  # some went together
        await node.stop(0.5)

    run(work())


def test_a_peer_whose_disk_fails_while_it_is_asked_does_not_answer_with_nothing(tmp_path: Path) -> None:
    hub = Hub()

    def slow(item: Any) -> str:
        time.sleep(0.2)
        return right(item)

    async def work() -> None:
        async with two(tmp_path, hub, south=slow, policy=CoS(slices=1)) as (_, south):
            call = Call("south", "north", [Question(1, {"age": 5}, (0.05,), False, False)])
            asked = asyncio.ensure_future(hub.links["north"].call("south", call, 5.0))
            await until(lambda: south.workers["south's"].is_busy)
            south.commits.fail("the disk is full")
            south._broken("the disk is full")
            with pytest.raises(Exception, match="refused"):
                await asked
            await until(lambda: south.is_ready)

    run(work())


def test_a_peer_that_appears_while_a_site_starts_again_is_there(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub, discover=True) as (north, _):
            begin = north._begin

            def begun(recovered: Any) -> None:
                begin(recovered)
                hub.links["north"]._appeared(Announcement("east", CONTEXT, 1))

            north._begin = begun  # type: ignore[method-assign]
            north.commits.fail("the disk is full")
            north._broken("the disk is full")
            await until(lambda: north.is_ready)
            assert "east" in north.rules.learner.arms.peers

    run(work())


@pytest.mark.parametrize("functions", [2**31, 2**31 - 1])
def test_an_announcement_that_cannot_be_true_does_not_keep_others_out(functions: int, tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub, discover=True) as (north, _):
            liar, east = hub.link("liar"), hub.link("east")
            await liar.serve(Announcement("liar", CONTEXT, functions), Stub())
            await east.serve(Announcement("east", CONTEXT, 1), Stub())
            assert "east" in north.rules.learner.arms.peers
            await east.kill()
            assert "east" in north.peers.absent
            await play(north, range(5))

    run(work())


@pytest.mark.parametrize("count", [0, 2**63 - 1])
def test_reports_that_lie_do_no_harm(count: int, tmp_path: Path) -> None:
    hub, stub = Hub(), Stub()
    stub.report_of = LabelledData(count, count)

    async def work() -> None:
        setup = site("north", wrong, {"south": (0.0, 1)}, policy=CoS(slices=1))
        node = Node(setup, tmp_path, link=hub.link("north"))
        await node.start()
        await hub.link("south").serve(Announcement("south", CONTEXT, 1), stub)
        await play(node, range(50))
        check_folds(node, AXES)
        await node.stop(0.5)

    run(work())


@pytest.mark.parametrize("label", [[1], {"a": 1}, 2**64, float("nan"), "\ud800", b"x"])
def test_a_label_that_is_none_is_a_failure(label: Any, tmp_path: Path) -> None:
    hub, stub = Hub(), Stub()
    stub.label = label

    async def work() -> None:
        node = Node(site("north", wrong, {"south": (0.0, 1)}), tmp_path, link=hub.link("north"))
        await node.start()
        await hub.link("south").serve(Announcement("south", CONTEXT, 1), stub)
        assert await play(node, range(20)) == ["north's"] * 20
        await node.stop(0.5)

    run(work())


@pytest.mark.parametrize("context", [([0.5],), ((0.5,),), ([[0.5]],), ()])
def test_a_context_of_another_shape_is_refused_and_the_log_stays_good(context: Any, tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, _):
            questions = [Question(10**6, {"age": 5}, context, False, True)]
            with suppress(LinkError):  # without any, the context is read off the item
                await hub.links["south"].call("north", Call("north", "south", questions, CONTEXT), 5.0)
            await play(north, range(5))
            await north.commits.done()
            check_folds(north, AXES)

    run(work())


def test_true_labels_that_are_none_are_not_learnt(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, _):
            questions = [Question(10**6 + n, {"age": 5}, (0.05,), False, True) for n in range(3)]
            await hub.links["south"].call("north", Call("north", "south", questions, CONTEXT), 5.0)
            truths = [["ill"], "ill", {"ill": 1}]
            told = [Forward("north", "south", 10**6 + n, truth) for n, truth in enumerate(truths)]
            await hub.links["south"].post("north", told, 5.0)
            assert north.counts.taught["south"] == 1
            assert not north.rules.open()
            check_folds(north, AXES)

    run(work())


def test_a_peer_paused_or_gone_while_it_is_asked_how_much_it_knows(tmp_path: Path) -> None:
    hub, stub = Hub(), Stub()
    stub.rest_s = 0.05

    async def work() -> None:
        setup = site("north", wrong, {"south": (0.0, 1)}, policy=CoS(slices=1), deadline_s=2.0)
        node = Node(setup, tmp_path, link=hub.link("north"))
        await node.start()
        south = hub.link("south")
        await south.serve(Announcement("south", CONTEXT, 1), stub)
        asked = [asyncio.ensure_future(node.classify([{"age": age}])) for age in range(30)]
        await asyncio.sleep(0.02)
        await node.change_arm("south", paused=True)
        assert all(isinstance(each[0], Decided) for each in await asyncio.gather(*asked))
        await node.change_arm("south", paused=False)
        asked = [asyncio.ensure_future(node.classify([{"age": age}])) for age in range(30)]
        await asyncio.sleep(0.02)
        await south.kill()
        assert all(isinstance(each[0], Decided) for each in await asyncio.gather(*asked))
        check_folds(node, AXES)
        await node.stop(0.5)

    run(work())


def test_a_peer_may_become_a_classifier_of_its_name(tmp_path: Path) -> None:
    async def work() -> None:
        hub = Hub()
        setup = site("north", wrong, {}, discover=True)
        node = Node(setup, tmp_path, link=hub.link("north"))
        await node.start()
        await hub.link("forest").serve(Announcement("forest", CONTEXT, 1), Stub())
        assert "forest" in await play(node, range(5))
        await node.stop(0.5)
        models = {**setup.classifiers, "forest": as_classifier(right)}
        node = Node(replace(setup, classifiers=models), tmp_path, link=Hub().link("north"))
        await node.start()
        assert "forest" in await play(node, range(10))
        assert "forest" not in node.rules.learner.arms.peers
        await node.stop(0.5)

    run(work())


def test_names_that_are_announced_and_gone_leave_nothing_behind(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, _):
            for n in range(300):
                link = hub.link(f"site {n}")
                await link.serve(Announcement(f"site {n}", ("something else",), 1), Stub())
                await link.kill()
            assert not north.peers.refused
            assert len(north.breakers._breakers) < 10

    run(work())


def test_items_that_cannot_travel_fail_alone_and_are_no_fault_of_the_peer(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub) as (north, _):
            await play(north, range(60))
            items: list[Any] = [{"age": 5, "more": object()}, *({"age": age} for age in range(8))]
            decided = await north.classify(items)
            assert isinstance(decided[0], Decided)
            assert [each.arm for each in decided if isinstance(each, Decided)] == ["north's", *["south"] * 8]
            for _ in range(5):
                await north.classify(items[:1])
            assert north.breakers.of("south").position == "closed"

    run(work())


def test_a_peer_that_was_discovered_costs_what_it_says_of_late(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub, discover=True) as (north, _):
            for cost in (0.1, 0.3):
                east = hub.link("east")
                await east.serve(Announcement("east", CONTEXT, 1, cost), Stub())
                assert north.rules.learner.arms.cost("east") == cost
                await north.change_arm("east", cost=0.2)  # which stays, unless it says something else
                await east.kill()
            await hub.link("east").serve(Announcement("east", CONTEXT, 1, 0.3), Stub())
            assert north.rules.learner.arms.cost("east") == 0.2
            south = Announcement("south", CONTEXT, 1, 0.7)  # of which the file says what it costs
            hub.links["north"]._appeared(south)
            assert north.rules.learner.arms.cost("south") == 0.0

    run(work())


def test_with_many_in_flight_reports_ride_along_and_few_are_asked_for(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        policy = CoS(slices=1, exploration_exponent=0.5)
        async with two(tmp_path, hub, policy=policy, deadline_s=10.0) as (north, _):
            asked = 0
            ask = hub.links["north"].report

            async def counted(*question: Any) -> Any:
                nonlocal asked
                asked += 1
                return await ask(*question)

            hub.links["north"].report = counted  # type: ignore[assignment, method-assign]

            async def client(shift: int) -> None:
                for age in range(20):
                    (decided,) = await north.classify([{"age": (age + shift) % 100}])
                    assert isinstance(decided, Decided)
                    await north.label([Given(decided.id, "ill")])

            await asyncio.gather(*map(client, range(30)))
            assert north.deciding.requests.in_flight == 0
            trained = north.counts.decisions["south", "train"]
            assert trained > 50
            assert asked < trained / 10, (asked, trained)

    run(work())


def test_one_retry_is_enough_to_do_without_a_peer(tmp_path: Path) -> None:
    hub = Hub()

    async def work() -> None:
        async with two(tmp_path, hub, retries=1, deadline_s=0.3) as (north, _):
            await play(north, range(60))
            hub.loses = lambda site: site == "south"
            assert "north's" in await play(north, range(3))

    run(work())


def test_many_peers_that_take_their_time_to_report_are_not_waited_for_one_after_the_other(tmp_path: Path) -> None:
    hub, stub = Hub(), Stub()
    stub.report_of = LabelledData(10**6, 10**6)

    async def work() -> None:
        peers = {f"site {n}": (0.0, 1) for n in range(12)}
        setup = site("north", wrong, peers, policy=CoS(slices=1), deadline_s=1.0)
        node = Node(setup, tmp_path, link=hub.link("north"))
        await node.start()
        for peer in peers:
            await hub.link(peer).serve(Announcement(peer, CONTEXT, 1), stub)
        hub.late_s = 0.09
        for age in range(3):
            start = time.monotonic()
            await play(node, range(age, age + 1))
            assert time.monotonic() - start < 1.0
        await node.commits.done()
        check_folds(node, AXES)
        await node.stop(0.5)

    run(work())


def test_items_that_wait_for_reports_of_several_peers_at_once_are_answered_once(tmp_path: Path) -> None:
    hub, stub = Hub(), Stub()
    stub.report_of, stub.rest_s = LabelledData(10**6, 10**6), 0.02

    async def work() -> None:
        peers = dict.fromkeys(("east", "south", "west"), (0.0, 1))
        setup = site("north", wrong, peers, policy=CoS(slices=8, order="train_first"), deadline_s=5.0)
        node = Node(setup, tmp_path, link=hub.link("north"))
        await node.start()
        for peer in peers:
            await hub.link(peer).serve(Announcement(peer, CONTEXT, 1), stub)

        async def ask(number: int) -> Any:
            await asyncio.sleep(number / 200)
            return (await node.classify([{"age": 13 * number % 50}]))[0]

        answers = await asyncio.gather(*map(ask, range(40)))
        assert all(isinstance(each, Decided) for each in answers)
        assert node.rules.learner.arrivals == 40  # more: some were chosen for twice
        assert node.deciding.requests.in_flight == 0
        await node.stop(0.5)

    run(work())
