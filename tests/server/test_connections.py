"""Clients that are slow, silent, half there or endless hold nobody else up."""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from cosend.server import bodies, connections
from cosend.server.auth import Tokens
from tests.node.sites import setup_of
from tests.server.services import NOBODY, served

HEAD = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"items":[{"features":{"age":5}}]}'
PROMISE = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY)
WHOLE = PROMISE + BODY
END = b"}]}"  # of a reply
PATIENCE_S = 0.4
TOKEN = b"admin-0123456789"


@pytest.fixture(scope="module", params=[NOBODY])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(tmp_path_factory.mktemp("site"), setup_of(), request.param) as (url, _):
        yield int(url.rpartition(":")[2])


WITH_TOKENS = pytest.mark.parametrize("port", [Tokens({TOKEN.decode(): frozenset({"admin"})})], indirect=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", PATIENCE_S)
    monkeypatch.setattr(bodies, "BODY_S", PATIENCE_S)


async def sent(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return reader, writer


async def status_of(port: int, data: bytes = WHOLE) -> int:
    """Return the status that is answered, 0 if the connection is closed without."""
    reader, writer = await sent(port, data)
    line = b""
    with suppress(ConnectionError):
        line = await reader.readline()
    writer.close()
    return int(line.split()[1]) if line else 0


async def test_silent_and_half_open_clients_hold_nobody_up_and_are_let_go(port: int) -> None:
    kinds = [b"", b"G", b"GET / HTTP/1.1\r\nHost:", HEAD + b"Content-Length: 1000\r\n\r\n" + BODY]
    others = [await sent(port, kind) for kind in kinds for _ in range(50)]
    begun = time.monotonic()
    assert await status_of(port) == 200
    assert time.monotonic() - begun < 2.0
    told = await asyncio.gather(*(reader.readline() for reader, _ in others))
    assert [line.split()[1:2] for line in told[:150]] == [[]] * 150
    assert {line.split()[1] for line in told[150:]} == {b"408"}
    for _, writer in others:
        writer.close()
    assert await status_of(port) == 200


async def test_a_second_request_on_a_connection_is_not_waited_for_either(port: int) -> None:
    reader, writer = await sent(port, WHOLE)
    assert b"200" in await reader.readline()
    writer.write(b"POST /v1/cl")
    begun = time.monotonic()
    await reader.read()
    assert PATIENCE_S / 2 < time.monotonic() - begun < 4.0  # before the 5 s of an idle connection
    writer.close()


async def test_a_slow_client_that_goes_on_is_served(port: int) -> None:
    reader, writer = await sent(port, WHOLE[:10])
    for start in range(10, len(WHOLE), 80):
        await asyncio.sleep(0.01)
        writer.write(WHOLE[start : start + 80])
    assert b"200" in await reader.readuntil(END)
    await asyncio.sleep(1.5 * PATIENCE_S)
    writer.write(WHOLE)  # the connection may be idle
    assert b"200" in await reader.readuntil(END)
    writer.close()


BAD = {
    "a length that is text": HEAD + b"Content-Length: x\r\n\r\n" + BODY,
    "a length below 0": HEAD + b"Content-Length: -1\r\n\r\n" + BODY,
    "two lengths": HEAD + b"Content-Length: 34\r\nContent-Length: 35\r\n\r\n" + BODY,
    "a length and chunks": HEAD + b"Content-Length: 34\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length too short": HEAD + b"Content-Length: 10\r\n\r\n" + BODY,
    "a chunk too short": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a chunk that is none": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY,
    "no HTTP": b"\x16\x03\x01\x00\xff\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
ENDLESS = (b"GET /" + b"a" * 100_000, b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000, HEAD + b"X: y\r\n" * 20_000)


async def test_what_is_not_http_or_never_ends_is_refused_and_the_next_is_served(port: int) -> None:
    for data in BAD.values():
        assert await status_of(port, data) == 400
    assert await status_of(port, HEAD + b"Content-Length: 99999999999\r\n\r\n" + BODY) == 413
    for data in ENDLESS:
        assert await status_of(port, data) in (0, 400)
    assert await status_of(port) == 200


async def test_a_client_that_asks_first_whether_to_send_a_body_is_told_before_and_then_served(port: int) -> None:
    reader, writer = await sent(port, PROMISE.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(BODY)
    assert b"200" in await reader.readuntil(END)
    writer.write(WHOLE)
    reply = await reader.read(2**16)  # the head comes with its body
    assert (reply[:12], reply[-3:]) == (b"HTTP/1.1 200", END)
    writer.write(WHOLE + WHOLE)  # and then two at once
    for _ in range(2):
        assert (await reader.readuntil(END)).startswith(b"HTTP/1.1 200")
    writer.close()


@WITH_TOKENS
async def test_a_body_that_drips_on_after_its_request_was_refused_is_cut_off(port: int) -> None:
    """For want of a token, or because the route takes POST only."""
    rest = b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n"
    others = [await sent(port, head + rest) for head in (b"POST /v1/classify", b"PUT /v1/labels") * 5]
    told = [(await reader.readline()).split()[1] for reader, _ in others]
    assert told == [b"401", b"405"] * 5
    end = time.monotonic() + 20 * PATIENCE_S
    while time.monotonic() < end and not all(reader.at_eof() for reader, _ in others):
        for reader, writer in others:
            if not reader.at_eof():
                writer.write(b"x")
            with suppress(asyncio.TimeoutError, ConnectionError):
                await asyncio.wait_for(reader.read(2**16), 0.005)
    assert all(reader.at_eof() or reader.exception() for reader, _ in others)
    for _, writer in others:
        writer.close()


@WITH_TOKENS
async def test_a_client_that_ends_the_body_of_a_refused_request_may_continue(port: int) -> None:
    reader, writer = await sent(port, PROMISE)
    assert b"401" in await reader.readuntil(b"}")
    writer.write(BODY)
    await asyncio.sleep(PATIENCE_S / 4)
    writer.write(WHOLE.replace(b"\r\n", b"\r\nAuthorization: Bearer " + TOKEN + b"\r\n", 1))
    assert b"200" in await reader.readuntil(END)
    writer.write(PROMISE)
    assert b"401" in await reader.readuntil(b"}")
    writer.write(BODY)
    begun = time.monotonic()
    assert await reader.read() == b""  # and is not waited for without end either
    assert time.monotonic() - begun < 20 * PATIENCE_S
    writer.close()


ITEMS = ",".join(f'{{"id":"{n:0200}","features":{{"age":5}}}}' for n in range(1_000))
LONG = f'{{"items":[{ITEMS}]}}'.encode()


async def unread(port: int) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    await loop.sock_sendall(client, HEAD + b"Content-Length: %d\r\n\r\n" % len(LONG) + LONG)
    while not select.select([client], [], [], 0)[0]:  # until it begins
        await asyncio.sleep(0.01)
    return client


async def all_of(client: socket.socket, pause_s: float = 0.0) -> int:
    """Read what a connection has, and return how many bytes it was."""
    count, loop = 0, asyncio.get_running_loop()
    with suppress(ConnectionError, asyncio.TimeoutError):
        while data := await asyncio.wait_for(loop.sock_recv(client, 2**17), 2.0):
            count += len(data)
            if data.endswith(END):
                break
            await asyncio.sleep(pause_s)
    client.close()
    return count


async def test_clients_that_do_not_read_their_replies_are_cut_off_and_slow_ones_are_not(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await all_of(await unread(port))  # the next one asks for decisions that are there
    with monkeypatch.context() as patched:
        patched.setattr(connections, "READ_S", PATIENCE_S)
        whole = await all_of(await unread(port), pause_s=0.01)
        assert whole > 250_000
        silent = await unread(port)
        await asyncio.sleep(4 * PATIENCE_S)
        assert await all_of(silent) < whole
    monkeypatch.setattr(connections, "MAX_UNREAD", 500_000)  # of many, the first ones are cut off
    others = [await unread(port) for _ in range(8)]
    assert await status_of(port) == 200
    read = [await all_of(each) for each in others]
    assert read[0] < whole
    assert read[-1] == whole
