"""Clients that send half of what they promise, or read nothing, take a bounded part of a site's memory."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.serving import write_network
from tests.tools.processes import Service, Services

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="what a process takes is read in /proc")

MEBI = 2**20
MAX_GROWTH = 300  # MiB; without a limit over all clients, bodies take 400, and replies 500
ITEM = {"items": [{"features": {"age": 5}}]}


def memory(site: Service) -> int:
    pages = int(Path(f"/proc/{site.process}/statm").read_text().split()[1])
    return pages * 4096 // MEBI


@pytest.fixture(scope="module")
def site(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("site")
    write_network(folder)
    with services.running(folder, "north", options=("--no-durable",)) as (running,):
        running.ask("/v1/classify", ITEM)
        yield running


def connected(site: Service, data: bytes) -> socket.socket:
    client = socket.socket()
    client.settimeout(60)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", site.port))
    client.sendall(data)
    return client


def test_events_that_nobody_reads_take_bounded_memory(site: Service) -> None:
    for n in range(7):
        items = [{"id": f"{n}-{k:0190}", "features": {"age": k % 100}} for k in range(2_000)]
        site.ask("/v1/classify", {"items": items})
    whole = site.request("GET", "/v1/events?count=10000").body
    assert len(whole) > 2 * MEBI
    assert [json.loads(line)["number"] for line in whole.splitlines()] == list(range(whole.count("\n")))
    assert site.request("GET", "/v1/events?start=2&count=8").body.splitlines() == whole.splitlines()[2:10]
    asked = b"GET /v1/events?count=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    before, others = memory(site), [connected(site, asked) for _ in range(110)]
    assert all(other.recv(100).startswith(b"HTTP/1.1 200") for other in others)
    time.sleep(0.5)
    assert memory(site) - before < MAX_GROWTH
    for other in others:
        other.close()


def test_half_sent_bodies_take_bounded_memory_and_shut_nobody_out(site: Service) -> None:
    head = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    half = head + b"Content-Length: %d\r\n\r\n" % (8 * MEBI) + b" " * (7 * MEBI)
    before, others = memory(site), [connected(site, half) for _ in range(60)]
    site.ask("/v1/classify", ITEM)
    time.sleep(0.5)
    assert memory(site) - before < MAX_GROWTH
    told = []
    for other in others:
        other.settimeout(0.05)
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
    site.ask("/v1/classify", long)  # there is room again
