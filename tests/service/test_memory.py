"""Clients that send half of what they promise, or read nothing, take a bounded part of a site's memory."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from tests.cli.serving import Served, served, write_network

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="what a process takes is read in /proc")

MEBI = 2**20
HALF_SENT = 60
NOT_READ = 20
MOST_GROWTH = 200  # MiB; without a limit over all clients, bodies take 400, and replies 400


def memory(site: Served) -> int:
    """Return the memory of a site, in MiB."""
    pages = int(Path(f"/proc/{site.process.pid}/statm").read_text().split()[1])
    return pages * 4096 // MEBI


def test_half_sent_bodies_take_bounded_memory_and_shut_nobody_out(tmp_path: Path) -> None:
    write_network(tmp_path)
    item = {"items": [{"features": {"age": 5}}]}
    with served(tmp_path, "--site", "north", "--no-durable", "--no-dashboard") as site:
        site.wait_until_ready()
        assert site.ask("/v1/classify", item)[0] == 200
        before, others = memory(site), []
        for _ in range(HALF_SENT):
            other = socket.create_connection(("127.0.0.1", int(site.url.rpartition(":")[2])), timeout=60)
            head = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            other.sendall(head + b"Content-Length: %d\r\n\r\n" % (8 * MEBI))
            other.sendall(b" " * (7 * MEBI))
            others.append(other)
        assert site.ask("/v1/classify", item)[0] == 200
        time.sleep(0.5)
        assert memory(site) - before < MOST_GROWTH
        told = []
        for other in others:
            other.settimeout(0.2)
            try:
                told.append(other.recv(2**16))
            except TimeoutError:
                told.append(b"")
            other.close()
        refused = [each for each in told if each]
        assert 0 < len(refused) < HALF_SENT
        assert all(each.startswith(b"HTTP/1.1 503") and b"retry-after" in each for each in refused)
        long = {"items": [{"features": {"age": 5, "note": "x" * 99_000}} for _ in range(80)]}
        assert len(json.dumps(long)) > 7 * MEBI
        assert site.ask("/v1/classify", long)[0] == 200  # there is room again


def test_events_that_nobody_reads_take_bounded_memory(tmp_path: Path) -> None:
    write_network(tmp_path)
    with served(tmp_path, "--site", "north", "--no-durable", "--no-dashboard") as site:
        site.wait_until_ready()
        for n in range(50):
            items = [{"id": f"{n}-{k:0190}", "features": {"age": k % 100}} for k in range(2_000)]
            assert site.ask("/v1/classify", {"items": items})[0] == 200
        whole = site.ask("/v1/events?count=10000")[1]
        assert len(whole) > 20 * MEBI
        assert [json.loads(line)["number"] for line in whole.splitlines()] == list(range(whole.count("\n")))
        assert site.ask("/v1/events?start=150&count=120")[1].splitlines() == whole.splitlines()[150:270]
        before, others = memory(site), []
        for _ in range(NOT_READ):
            other = socket.socket()
            other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            other.connect(("127.0.0.1", int(site.url.rpartition(":")[2])))
            other.sendall(b"GET /v1/events?count=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(100).startswith(b"HTTP/1.1 200")
            others.append(other)
        time.sleep(1.0)
        assert memory(site) - before < MOST_GROWTH
        for other in others:
            other.close()
