"""Links over NATS: a broker, or a whole net of them, joins sites on any machines.

Every site is a service of the NATS services framework: `nats micro ls` lists the sites, `nats micro info` tells what
they announce, and `nats micro stats` how much they answer. A site listens to its own subjects, and the sender is the
last word of the subject:

    NETWORK.SITE.call.CALLER    and the same with report and post
    NETWORK.SITE.here, .left    hints to look for peers now, and that one is gone
    _INBOX.SITE.>               where its answers arrive

A site and its workers do the same among themselves under NETWORK.SITE.workers, as the service NETWORK-workers.

So a broker that lets a site publish to NETWORK.*.*.SITE and NETWORK.SITE.* only, and subscribe to its own subjects,
vouches for the caller. Brokers say at once if a subject has no subscriber. nats-py reconnects by itself, but keeps
callers of a dead broker waiting for their deadline: here they fail at once. It also closes a dead connection before it
opens another, which takes for ever if that one still has something to send. So a link that has heard nothing for some
seconds starts over.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final

from cosend.errors import CosendError, LinkError, in_one_line, install
from cosend.transport.answering import Handler, Limits, Server
from cosend.transport.codec import KINDS, NEWS, Announcement, What, announcement_texts, ask_bytes
from cosend.transport.discovery import Discovery
from cosend.transport.link import NOT_CONNECTED, Link, end_tasks
from cosend.transport.nats_options import PENDING_BYTES, NatsOptions, name_of, token
from cosend.version import VERSION

try:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription
    from nats.errors import Error as NatsError
    from nats.micro import add_service
    from nats.micro.request import Request
    from nats.micro.service import EndpointStats, Service
except ImportError as error:
    raise CosendError(f"links over NATS need nats-py: {install('network')}") from error

LOG: Final = logging.getLogger("cosend.transport")
NO_RESPONDERS: Final = "503"
STUCK: Final = 3.0  # times as long as a try to connect may take, and as the pause between two looks for peers
TWIN_S: Final = 0.5  # how long another site of the same name has time to answer
WRONG_PROOF: Final = " (wrong user, password, key or credentials)"
MOST_LOGGED: Final = 20  # different errors between two connections
CLOSE_S: Final = 2.0  # how long answers that are being made have time to be sent
FAILURES: Final = (NatsError, OSError, TimeoutError, LinkError)


class _Everywhere(Client):
    """A client whose messages go to all that listen, and not to one of a queue group as services usually do.

    A broker takes a connection that has silently died for alive for minutes. In a group it would get its share of the
    messages, and they would be lost.
    """

    async def subscribe(self, subject: str, queue: str = "", *options: Any, **more: Any) -> Subscription:
        """Listen to a subject, in addition to all others that do."""
        return await super().subscribe(subject, "", *options, **more)

    def abort(self) -> None:
        """End the connection without sending what is still to be sent, for which `close` waits."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()


class NatsLink(Link):
    """The link of one site. It connects in the background, and again whenever the connection breaks."""

    def __init__(self, site: str, options: NatsOptions | None = None, limits: Limits | None = None) -> None:
        super().__init__(site, limits)
        self.options = options or NatsOptions()
        self.last_error = ""  # of the connection, in words
        self._logged: set[str] = set()  # errors since the last connection: tries follow each other quickly
        self._discovery = Discovery(self.options.discover_s, self._ask_all, self._appeared, self._gone, self.counts)
        self._client: _Everywhere | None = None
        self._service: Service | None = None
        self._announced: dict[str, str] = {}  # the service holds it too, and tells what is in it when it is asked
        self._background: list[asyncio.Task[None]] = []
        self._ready = asyncio.Event()
        self._inbox = ""
        self._heard = 0  # answers

    @property
    def connected(self) -> bool:
        """Whether the broker can be reached."""
        return self._ready.is_set() and self._client is not None and self._client.is_connected

    @property
    def _most_bytes(self) -> int:
        return self._there.max_payload

    @property
    def _there(self) -> _Everywhere:
        """The client; raises LinkError while there is none."""
        if self._client is None:
            raise LinkError("connection", self.options.addresses, "broker gone", NOT_CONNECTED)
        return self._client

    async def start(self, within_s: float | None = None) -> None:
        """Begin to connect; with `within_s`, raise LinkError and give up if that takes longer."""
        connect = self.options.connect_options(f"cosend {self.site}")
        loop = asyncio.get_running_loop()
        self._background = [loop.create_task(self._stay_connected(connect)), loop.create_task(self._discovery.run())]
        if within_s is None:
            return
        try:
            async with asyncio.timeout(within_s):
                await self._ready.wait()
        except TimeoutError:
            await self.close()
            servers = ", ".join(self.options.servers)
            detail = f"not connected within {within_s:g} s; {self.last_error or 'no answer'}"
            raise LinkError("connection", servers, "broker gone", detail) from None

    async def serve(self, announcement: Announcement, handler: Handler) -> None:
        """Announce this site and answer its peers from now on: as soon as there is a connection."""
        self._check(announcement)
        if self.connected and self._service is None:
            await self._refuse_twin()
        self._server = Server(self.site, handler, self._limits, self.counts)
        self._announced.update(announcement_texts(announcement))
        if self._service is not None:
            await self._say("here")
        elif self.connected:
            try:
                await self._register()
            except FAILURES as error:  # the connection broke: the next one finds what is to be announced
                self._note(error)
                await self._drop_client()

    def tell(self, news: str) -> None:
        """Send news to all sites: they are part of this site's announcement whenever it is asked."""
        self._announced[NEWS] = news

    async def close(self) -> None:
        """Finish what is being answered, say goodbye, and leave."""
        await end_tasks(self._background)
        if self._client is not None and self._client.is_connected:
            with suppress(*FAILURES):
                async with asyncio.timeout(CLOSE_S):
                    await self._say_goodbye()
        await self._drop_client()
        await end_tasks(self._tasks)
        self._fail("broker gone", "this link is closed")

    async def _say_goodbye(self) -> None:
        if self._service is not None:
            await self._service.stop()
            await self._say("left")
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._settle()

    async def _stay_connected(self, connect: dict[str, Any]) -> None:
        """Connect, and start over whenever nats-py has given up, has failed in some other way, or gets nowhere."""
        loop = asyncio.get_running_loop()
        while True:
            attempt = loop.create_task(self._connect_until_closed(connect))
            try:
                await self._until_lost(attempt)
            finally:
                await end_tasks([attempt])
            if not attempt.cancelled() and isinstance(error := attempt.exception(), Exception):
                self._note(error)  # whatever it is, the next attempt may work
            await self._drop_client()
            await asyncio.sleep(self.options.again_s)

    async def _until_lost(self, attempt: asyncio.Task[None]) -> None:
        """Wait until an attempt has ended, or nothing was heard for too long: not even this site's own announcement."""
        silent_s, patience_s = 0.0, STUCK * max(self.options.connect_s, self.options.discover_s)
        while silent_s < patience_s and not attempt.done():
            heard = self._heard
            await asyncio.wait({attempt}, timeout=self.options.again_s)
            if not self.connected:
                await self._on_disconnect()
            alive = self.connected and (self._service is None or self._heard > heard)
            silent_s = 0.0 if alive else silent_s + self.options.again_s

    async def _connect_until_closed(self, connect: dict[str, Any]) -> None:
        closed = asyncio.Event()
        await self._connect(connect, closed)
        await closed.wait()

    async def _connect(self, connect: dict[str, Any], closed: asyncio.Event) -> None:
        async def on_close() -> None:
            closed.set()

        client = self._client = _Everywhere()
        await client.connect(
            **connect,
            error_cb=self._on_error,
            closed_cb=on_close,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_connect,
        )
        self._inbox = f"{self.options.inbox(self.site)}.{client.new_inbox().rpartition('.')[2]}"
        await client.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        for hint in ("here", "left"):
            await client.subscribe(self.subject("*", hint), cb=self._on_hint)
        if self._server is not None:
            await self._refuse_twin()
            await self._register()
        await self._on_connect()

    async def _drop_client(self) -> None:
        client, self._client, self._service = self._client, None, None
        self._ready.clear()
        if client is not None:
            # Apart, because it may end as if it were cancelled.
            closing = asyncio.get_running_loop().create_task(client.close())
            await asyncio.wait({closing}, timeout=CLOSE_S)  # a broker that hangs in the middle of TLS never lets go
            await end_tasks([closing])
            client.abort()
            if not closing.cancelled():
                closing.exception()

    def _note(self, error: Exception) -> None:
        """Remember what went wrong, and log it once."""
        hint = WRONG_PROOF if "authorization violation" in str(error).lower() else ""
        self.last_error = in_one_line(error) + hint
        if self.last_error not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add(self.last_error)
            where = {"broker": self.options.addresses}
            LOG.warning("trouble with the broker", extra={**where, "reason": self.last_error})

    async def _on_connect(self) -> None:
        self._ready.set()
        self._logged.clear()
        self._changed("connected")
        self._discovery.look()
        if self._service is not None:
            await self._say("here")

    async def _on_disconnect(self) -> None:
        was_ready = self._ready.is_set()
        self._ready.clear()
        self._fail("broker gone", NOT_CONNECTED)
        if was_ready:
            self._changed("disconnected")

    async def _on_error(self, error: Exception) -> None:
        self._note(error)
        _, found, rest = str(error).lower().partition('permissions violation for publish to "')
        if found:  # which message it was is not said, and nats-py makes all letters small
            for peer in {waiting.peer for waiting in self._waiting.values()}:
                if rest.startswith(f"{self.subject(peer).lower()}."):
                    self._fail("refused", f"the broker says: {error}", peer=peer)

    async def _refuse_twin(self) -> None:
        """Raise if another site of this name answers: its peers would tell either of them half of what they know."""
        try:
            await self.exchange("report", self.site, ask_bytes(self.site, []), TWIN_S)
        except LinkError:
            return
        raise self._twin()

    def _beware_of_twin(self, site: str, service: str) -> None:
        """Warn of another site of this name: both were there, apart, when one of them reconnected."""
        if site == self.site and self._service is not None and service != self._service.id:
            self._note(self._twin())

    def _twin(self) -> LinkError:
        return LinkError("announcement", self.site, "refused", "another site of this name answers already")

    async def _register(self) -> None:
        service = await add_service(
            self._there,
            name=self.options.service,
            version=VERSION,
            description=f"cosend site {self.site}"[:200],
            metadata=self._announced,
            stats_handler=self._stats,
        )
        for what in KINDS:
            subject = self.subject(self.site, what, "*")
            await service.add_endpoint(name=what, subject=subject, handler=self._endpoint(what))
        await self._settle()
        self._service = service
        await self._say("here")

    async def _settle(self) -> None:
        """Wait until the broker has done all that it was told; `flush` of nats-py may overtake it."""
        client, inbox = self._there, self._inbox
        await self._answer("report", self.site, self.options.connect_s, lambda key: client.publish(f"{inbox}.{key}"))

    def _stats(self, _: EndpointStats) -> dict[str, int]:
        return {name: getattr(self.counts, name) for name in ("served", "refused", "broken", "foreign")}

    def _endpoint(self, what: What) -> Any:
        async def endpoint(request: Request) -> None:
            """Begin to answer: nats-py takes the next message when this returns."""
            self._begin(self._respond(what, request))

        return endpoint

    async def _respond(self, what: What, request: Request) -> None:
        if self._server is None or self._client is None:
            return
        caller = name_of(request.subject.rpartition(".")[2])
        answer = await self._server.answer(what, caller, request.data, self._client.max_payload)
        with suppress(*FAILURES, ValueError):  # the connection broke, or there is nowhere to send it
            await request.respond(answer)

    def subject(self, *parts: str) -> str:
        """Return a subject of this network; the name of a site may be *."""
        return ".".join([self.options.subjects, *(part if part == "*" else token(part) for part in parts)])

    async def _send(self, key: str, what: What, peer: str, data: bytes) -> None:
        client = self._there
        if client.pending_data_size > PENDING_BYTES // 2:  # the broker reads nothing: what is sent would only pile up
            raise LinkError(what, peer, "broker gone", "it takes nothing: too much waits to be sent")
        try:
            await client.publish(self.subject(peer, what, self.site), data, reply=f"{self._inbox}.{key}")
        except FAILURES as error:
            raise LinkError(what, peer, "broker gone", in_one_line(error)) from error

    async def _ask_all(self) -> bool:
        """Ask all sites of the network, also this one, what they announce."""
        if not self.connected:
            return False
        with suppress(*FAILURES):
            await self._there.publish(f"$SRV.INFO.{self.options.service}", reply=f"{self._inbox}.info")
            return True
        return False

    async def _say(self, hint: str) -> None:
        """Give all sites a hint."""
        with suppress(*FAILURES):
            await self._there.publish(self.subject(self.site, hint))

    async def _on_hint(self, message: Msg) -> None:
        site, hint = message.subject.split(".")[-2:]
        if hint == "here":
            self._discovery.look()
        else:
            self._discovery.lost(name_of(site))

    async def _on_answer(self, message: Msg) -> None:
        self._heard += 1
        key = message.subject.rpartition(".")[2]
        if key == "info":
            self._beware_of_twin(*self._discovery.found(message.data))
        elif message.headers and message.headers.get("Status") == NO_RESPONDERS:
            waiting = self._waiting.get(key)
            if waiting is not None:
                self._fail("no responders", "no subscriber has this name", key=key)
                self._discovery.lost(waiting.peer)
        else:
            self._answered(key, message.data)
