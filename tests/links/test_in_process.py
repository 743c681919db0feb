"""Links within one event loop."""

from __future__ import annotations

import asyncio
import time

from cosend.engine.needs import Reply
from cosend.errors import LinkError
from cosend.transport.in_process import Hub
from tests.links.conformance import LinkConformance, failure
from tests.links.worlds import Ear, InProcessWorld, Peer, World, a_call, announcement


class TestInProcess(LinkConformance):
    def make_world(self) -> World:
        return InProcessWorld()


def test_messages_can_be_late_and_get_lost() -> None:
    async def story() -> tuple[float, LinkError]:
        lost = {"south"}
        hub = Hub(late_s=0.1, loses=lambda site: site in lost)
        north, south = hub.link("north"), hub.link("south")
        await south.serve(announcement("south"), Peer())
        error = await failure(north.call("south", a_call(1), 0.3))
        lost.clear()
        start = time.monotonic()
        assert (await north.call("south", a_call(1), 5.0)).replies == [Reply(1)]
        return time.monotonic() - start, error

    took, error = asyncio.run(story())
    assert took >= 0.2
    assert error.reason == "deadline"


def test_who_left_while_everything_was_down_is_gone_afterwards() -> None:
    async def story() -> list[str]:
        hub = Hub()
        north, south = hub.link("north"), hub.link("south")
        ear = Ear(north)
        await south.serve(announcement("south"), Peer())
        hub.stop()
        await south.close()
        assert list(north.peers()) == ["south"]
        hub.start()
        return [change.kind for change in ear.changes]

    assert asyncio.run(story()) == ["appeared", "disconnected", "connected", "gone"]
