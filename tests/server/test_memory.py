"""Clients that send half of what they promise, or read nothing, take a bounded part of a site's memory."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.serving import Served, served, write_network

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="what a process takes is read in /proc")

MEBI = 2**20
MAX_GROWTH = 200  # MiB; without a limit over all clients, bodies take 400, and replies 400
ITEM = {"items": [{"features": {"age": 5}}]}


def memory(site: Served) -> int:
    pages = int(Path(f"/proc/{site.process.pid}/statm").read_text().split()[1])
    return pages * 4096 // MEBI


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Served]:
    write_network(tmp_path)
    with served(tmp_path, "--site", "north", "--no-durable", "--no-dashboard") as running:
        running.wait_until_ready()
        assert running.ask("/v1/classify", ITEM)[0] == 200
        yield running


def connected(site: Served, data: bytes) -> socket.socket:
    client = socket.socket()
    client.settimeout(60)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", int(site.url.rpartition(":")[2])))
    client.sendall(data)
    return client


def test_half_sent_bodies_take_bounded_memory_and_shut_nobody_out(site: Served) -> None:
    head = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    half = head + b"Content-Length: %d\r\n\r\n" % (8 * MEBI) + b" " * (7 * MEBI)
    before, others = memory(site), [connected(site, half) for _ in range(60)]
    assert site.ask("/v1/classify", ITEM)[0] == 200
    time.sleep(0.5)
    assert memory(site) - before < MAX_GROWTH
    told = []
    for other in others:
        other.settimeout(0.2)
        try:
            told.append(other.recv(2**16))
        except TimeoutError:
            told.append(b"")
        other.close()
    refused = [each for each in told if each]
    assert 0 < len(refused) < len(others)
    assert all(each.startswith(b"HTTP/1.1 503") and b"retry-after" in each for each in refused)
    long = {"items": [{"features": {"age": 5, "note": "x" * 99_000}} for _ in range(80)]}
    assert len(json.dumps(long)) > 7 * MEBI
    assert site.ask("/v1/classify", long)[0] == 200  # there is room again


def test_events_that_nobody_reads_take_bounded_memory(site: Served) -> None:
    for n in range(50):
        items = [{"id": f"{n}-{k:0190}", "features": {"age": k % 100}} for k in range(2_000)]
        assert site.ask("/v1/classify", {"items": items})[0] == 200
    whole = site.ask("/v1/events?count=10000")[1]
    assert len(whole) > 20 * MEBI
    assert [json.loads(line)["number"] for line in whole.splitlines()] == list(range(whole.count("\n")))
    assert site.ask("/v1/events?start=150&count=120")[1].splitlines() == whole.splitlines()[150:270]
    asked = b"GET /v1/events?count=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    before, others = memory(site), [connected(site, asked) for _ in range(20)]
    assert all(other.recv(100).startswith(b"HTTP/1.1 200") for other in others)
    time.sleep(1.0)
    assert memory(site) - before < MAX_GROWTH
    for other in others:
        other.close()
