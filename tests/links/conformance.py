"""What every form of a link has to do, whatever lies between the sites."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cosend.algorithm.values import LabelledData
from cosend.engine.needs import Forward, Reply
from cosend.errors import LinkError, NetworkError
from cosend.transport import codec as messages
from cosend.transport.answering import Limits
from cosend.transport.codec import KINDS, Answered
from cosend.transport.link import LONGEST_NEWS, Link
from tests.links.worlds import Ear, Peer, World, a_call, announcement, until

ITEMS = [{"age": 3, "pair": (1, [2.0, None])}, "text", (1, 1.0, True), b"\0", [], 2**63, None, -0.5]


async def serving(world: World, site: str, limits: Limits | None = None) -> tuple[Link, Peer]:
    link, peer = await world.link(site, limits), Peer()
    await link.serve(announcement(site), peer)
    return link, peer


async def failure(waiting: Awaitable[Any]) -> LinkError:
    with pytest.raises(LinkError) as raised:
        await waiting
    return raised.value


class LinkConformance:
    """Subclass it and say what the world is."""

    def make_world(self) -> World:
        raise NotImplementedError

    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        world = self.make_world()
        try:
            yield world
        finally:
            await world.close()

    async def test_items_labels_and_contexts_arrive_as_they_were(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            _, peer = await serving(world, "a.b *>é")
            context = (0.5, "tcp", ("x", 1), 1)
            answered = await north.call("a.b *>é", a_call(*ITEMS, request=7, context=context), 5.0)
            assert repr(answered.replies) == repr([Reply(item) for item in ITEMS])
            assert answered.reports == [LabelledData(4, 0)] * len(ITEMS)
            [call] = peer.calls
            assert (call.peer, call.caller) == ("a.b *>é", "north")
            assert repr(call.questions) == repr(a_call(*ITEMS, request=7, context=context).questions)

    async def test_a_batch_of_thousands_and_an_empty_one(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            _, peer = await serving(world, "south")
            peer.reports = False
            answered = await north.call("south", a_call(*range(messages.MOST)), 5.0)
            assert [reply.label for reply in answered.replies] == list(range(messages.MOST))
            assert answered.reports == []
            assert (await north.call("south", a_call(), 5.0)).replies == []
            error = await failure(north.call("south", a_call(*range(messages.MOST + 1)), 5.0))
            assert error.reason == "unfit"
            assert (await failure(north.call("south", a_call(object()), 5.0))).reason == "unfit"

    async def test_reports_are_asked_for_many_contexts_at_once(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            _, peer = await serving(world, "south")
            peer.taught = {("x", 1): 0}
            assert await north.report("south", [(0.1,), (0.2, 0.3)], 5.0) == [LabelledData(1, 1), LabelledData(2, 1)]

    async def test_many_calls_to_several_peers_at_once(self) -> None:
        async with self.world() as world:
            north, own = await serving(world, "north")
            sites = [await serving(world, f"site{n}") for n in range(3)]
            own.reports = False
            asked = [north.call(f"site{n % 3}", a_call(n, -n), 10.0) for n in range(150)]
            back = [link.call("north", a_call(n), 10.0) for n, (link, _) in enumerate(sites)]
            answers = await asyncio.gather(*asked, *back)
            assert [[reply.label for reply in each.replies] for each in answers[:150]] == [[n, -n] for n in range(150)]
            assert [each.replies[0].label for each in answers[150:]] == [0, 1, 2]

    async def test_a_hanging_peer_costs_its_deadline_and_nobody_else_anything(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            _, hanging = await serving(world, "hanging")
            await serving(world, "quick")
            hanging.hangs_s = 30.0
            start = time.monotonic()
            stuck = asyncio.gather(*[failure(north.call("hanging", a_call(n), 1.0)) for n in range(5)])
            for n in range(20):
                assert (await north.call("quick", a_call(n), 20.0)).replies == [Reply(n)]
            assert not stuck.done()
            assert {error.reason for error in await stuck} == {"deadline"}
            assert 1.0 <= time.monotonic() - start < 20.0
            hanging.hangs_s = 0.0
            assert (await north.call("hanging", a_call(1), 5.0)).replies == [Reply(1)]

    async def test_a_peer_that_dies_in_a_call_is_a_deadline_and_then_nobody(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            south, peer = await serving(world, "south")
            peer.hangs_s = 30.0
            asked = asyncio.ensure_future(failure(north.call("south", a_call(1), 0.4)))
            await until(lambda: peer.calls)
            await world.kill(south)
            assert (await asked).reason == "deadline"
            start = time.monotonic()
            error = await failure(north.call("south", a_call(1), 5.0))
            assert (error.what, error.peer, error.reason) == ("call", "south", "no responders")
            assert time.monotonic() - start < 4.0
            again, _ = await serving(world, "south")
            assert (await north.call("south", a_call(2), 5.0)).replies == [Reply(2)]
            assert again.connected

    async def test_whatever_a_peer_raises_is_a_refusal_with_its_reason(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            south, peer = await serving(world, "south")
            for wrong in (
                NetworkError("another context"),
                ValueError("another context"),
                TimeoutError("another context"),
            ):
                peer.error = wrong
                for asked in (north.call("south", a_call(1), 5.0), north.report("south", [(0.5,)], 5.0)):
                    error = await failure(asked)
                    assert error.reason == "refused"
                    assert "another context" in str(error)
            assert south.counts.refused == 6
            assert north.counts.failed == north.counts.sent == 6

    async def test_an_answer_that_cannot_be_sent_is_a_refusal(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            _, peer = await serving(world, "south")

            for wrong, said in ((object(), "is a object"), ("x" * 2_000_000, "at most 1,048,576")):
                peer.answers = Answered([Reply(wrong)])
                error = await failure(north.call("south", a_call(1), 5.0))
                assert error.reason == "refused"
                assert said in str(error)

    async def test_strangers_and_crowds_are_refused(self) -> None:
        async with self.world() as world:
            known = Limits(callers=frozenset({"north"}), in_flight=2)
            _, peer = await serving(world, "south", known)
            north, west = await world.link("north"), await world.link("west")
            error = await failure(west.call("south", a_call(1), 5.0))
            assert (error.reason, "'west' is not one of the sites" in str(error)) == ("refused", True)
            peer.hangs_s = 0.3
            asked = [north.call("south", a_call(n), 5.0) for n in range(4)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert [isinstance(each, LinkError) for each in answers] == [False, False, True, True]
            assert "at most 2 are worked on" in str(answers[2])
            peer.hangs_s = 0.0
            assert (await north.call("south", a_call(5), 5.0)).replies == [Reply(5)]
            await serving(world, "east", Limits(per_second=3.0))
            asked = [north.call("east", a_call(n), 5.0) for n in range(6)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert sum(isinstance(each, LinkError) for each in answers) == 3
            assert "at most 3 in a second" in str(answers[-1])

    async def test_an_answer_that_takes_for_ever_is_given_up(self) -> None:
        async with self.world() as world:
            _, peer = await serving(world, "south", Limits(answer_s=0.1))
            north = await world.link("north")
            peer.hangs_s = 30.0
            error = await failure(north.call("south", a_call(1), 5.0))
            assert (error.reason, error.detail) == ("refused", "it took longer than 0.1 s")

    async def test_broken_and_foreign_messages_are_refused_and_counted(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            south, peer = await serving(world, "south")
            good = messages.call_bytes(a_call(1)._replace(peer="south", caller="north"))
            broken = [b"", b"\1", b"\2" + good[1:], good[:-1], good + b"x", b"\1\x90", b"\xff" * 9]
            for what in KINDS:
                for data in broken:
                    assert (await world.send(north, what, "south", data))[0] == messages.REFUSAL
            assert (south.counts.broken, south.counts.foreign) == (21, 9)
            assert peer.calls == []
            for caller, to in (("west", "south"), ("north", "west")):
                forged = messages.call_bytes(a_call(1)._replace(peer=to, caller=caller))
                assert b"west" in await world.send(north, "call", "south", forged)
            assert peer.calls == []
            assert (await world.send(north, "call", "south", good))[0] == messages.VERSION

    async def test_a_dead_broker_fails_callers_at_once_and_they_recover_by_themselves(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            _, peer = await serving(world, "south")
            ear = Ear(north)
            peer.hangs_s = 30.0
            asked = asyncio.ensure_future(failure(north.call("south", a_call(1), 20.0)))
            await until(lambda: peer.calls)
            start = time.monotonic()
            await world.stop_broker()
            assert (await asked).reason == "broker gone"
            for _ in range(3):
                assert (await failure(north.call("south", a_call(1), 20.0))).reason == "broker gone"
            assert not north.connected
            assert time.monotonic() - start < 15.0
            peer.hangs_s = 0.0
            await world.start_broker()
            await until(lambda: north.connected)

            async def works() -> bool:
                try:
                    return (await north.call("south", a_call(2), 1.0)).replies == [Reply(2)]
                except LinkError:
                    return False

            while not await works():
                await asyncio.sleep(0.02)
            assert ear.heard("disconnected") == [""]
            assert ear.heard("connected") == [""]
            await until(lambda: "south" in north.peers())

    async def test_posts_are_acknowledged_once_taken_and_repeating_changes_nothing(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            _, peer = await serving(world, "south")
            forwards = [Forward("south", "north", n, ("label", n)) for n in range(5)]
            forwards.append(Forward("south", "north", 5, None, withdrawn=True))
            peer.hangs_after_commit_s = 0.4
            assert (await failure(north.post("south", forwards, 0.2))).reason == "deadline"
            peer.hangs_after_commit_s = 0.0
            for _ in range(2):
                await north.post("south", forwards, 5.0)
            assert peer.posts == 3
            assert peer.taught == {("north", each.request): each.truth for each in forwards}
            peer.error = NetworkError("the disk is full")
            assert (await failure(north.post("south", forwards, 5.0))).reason == "refused"
            others = [Forward("west", "north", 1, 0)]
            assert (await failure(north.post("south", others, 5.0))).reason == "unfit"

    async def test_peers_appear_change_and_go(self) -> None:
        async with self.world() as world:
            north = await world.link("north")
            ear = Ear(north)
            south, peer = await serving(world, "south")
            east, _ = await serving(world, "east")
            await until(lambda: len(north.peers()) == 2)
            assert north.peers() == {site: announcement(site) for site in ("south", "east")}
            await until(lambda: list(south.peers()) == ["east"])
            await south.serve(announcement("south", functions=9), peer)
            await until(lambda: north.peers()["south"].functions == 9)
            assert ear.heard("changed") == ["south"]
            await south.close()
            await until(lambda: "south" not in north.peers(), within_s=1.0)
            await world.kill(east)
            await until(lambda: not north.peers())
            assert ear.heard("gone") == ["south", "east"]
            await serving(world, "south")
            await until(lambda: ear.heard("appeared")[2:] == ["south"])

    async def test_news_are_heard_by_all_and_go_with_their_site(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            south, _ = await serving(world, "south")
            ear = Ear(north)
            south.tell("rain")
            await until(lambda: north.news() == {"south": "rain"})
            south.tell("sun")
            await until(lambda: north.news() == {"south": "sun"})
            late, _ = await serving(world, "late")
            await until(lambda: late.news() == {"south": "sun"})
            south.tell("x" * (LONGEST_NEWS + 1))
            north.tell("snow")
            await until(lambda: late.news() == {"south": "sun", "north": "snow"})
            assert ear.heard("changed") == []  # nobody decides by news
            await south.close()
            await until(lambda: north.news() == {})

    async def test_a_name_is_taken_once_and_an_announcement_must_fit(self) -> None:
        async with self.world() as world:
            north, peer = await serving(world, "north")
            error = await failure(serving(world, "north"))
            assert (error.reason, "name" in error.detail) == ("refused", True)
            for wrong in (announcement("south"), announcement("north", cost=2.0), announcement("north", functions=-1)):
                assert (await failure(north.serve(wrong, peer))).reason == "unfit"

    async def test_a_link_that_is_closed_answers_first_and_then_fails(self) -> None:
        async with self.world() as world:
            north, _ = await serving(world, "north")
            south, peer = await serving(world, "south")
            peer.hangs_s = 0.3
            asked = asyncio.ensure_future(north.call("south", a_call(1), 5.0))
            await until(lambda: peer.calls)
            await south.close()
            assert (await asked).replies == [Reply(1)]
            assert (await failure(south.call("north", a_call(1), 5.0))).reason == "broker gone"
            assert not south.connected
