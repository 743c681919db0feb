"""Links within one event loop."""

from __future__ import annotations

import time

from cosend.engine.needs import Reply
from cosend.transport.in_process import Hub
from tests.links.conformance import LinkConformance, failure
from tests.links.worlds import InProcessWorld, Peer, World, a_call, announcement


class TestInProcess(LinkConformance):
    def make_world(self) -> World:
        return InProcessWorld()


async def test_messages_can_be_late_and_get_lost() -> None:
    lost = {"south"}
    hub = Hub(late_s=0.1, loses=lambda site: site in lost)
    north, south = hub.link("north"), hub.link("south")
    await south.serve(announcement("south"), Peer())
    assert (await failure(north.call("south", a_call(1), 0.3))).reason == "deadline"
    lost.clear()
    start = time.monotonic()
    assert (await north.call("south", a_call(1), 5.0)).replies == [Reply(1)]
    assert time.monotonic() - start >= 0.2
