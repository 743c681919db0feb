"""Nothing that one client asks for, and nothing that a site does for itself, keeps all others waiting.

A client that asks whether the site lives, again and again, is answered by the event loop of the real process: it waits
as long as anything holds that. A busy machine makes it wait too, so the best of several rounds counts, and the limit is
well above the 50 ms that the site keeps to when it has a processor for itself.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.serving import Served, write_network
from tests.cli.serving import served as served_by_process
from tests.server.services import JSON

pytestmark = pytest.mark.compiled

LONGEST_S = 0.4  # that a client may wait in the best round; without care it is seconds
ROUNDS = 4
START_S = 240.0  # with nothing compiled yet


class Site(Served):
    """A site in a process of its own, asked over one connection."""

    def __init__(self, served: Served, folder: Path) -> None:
        super().__init__(served.process, int(served.url.rpartition(":")[2]))
        self.store = folder / "store"
        self.http = httpx.Client(base_url=self.url, timeout=300.0, headers=JSON)

    def post(self, path: str, body: Any) -> Any:
        reply = self.http.post(path, content=json.dumps(body))
        assert reply.status_code == 200, reply.text[:500]
        return reply.json()

    def summary(self) -> Any:
        return self.http.get("/v1/summary").json()

    def decide(self, ids: list[str]) -> Any:
        items = [{"id": name, "features": {"age": n % 100}} for n, name in enumerate(ids)]
        return self.post("/v1/classify", {"items": items})["decisions"]


@contextmanager
def served(folder: Path, keep_s: float = 86_400.0) -> Iterator[Site]:
    write_network(folder)
    options = ("--site", "north", "--store", "store", "--no-dashboard", "--keep-days", f"{keep_s / 86_400:.9f}")
    with served_by_process(folder, *options) as process:
        process.wait_until_ready(START_S)
        site = Site(process, folder)
        with site.http:
            yield site
        site.end(signal.SIGINT)


class OtherClient:
    """A client that wants to know nothing but whether the site lives, and how long it waits for that at most."""

    def __init__(self, url: str) -> None:
        self.longest_s, self._url, self._stop = 0.0, url, threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> OtherClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        with httpx.Client(base_url=self._url, timeout=300.0) as http:
            while not self._stop.is_set():
                began = time.monotonic()
                assert http.get("/health/live").status_code == 200
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                time.sleep(0.002)


def longest_wait(site: Site, work: Callable[[], None]) -> float:
    """Return how long another client waits at most while something is done, in the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        with OtherClient(site.url) as other:
            work()
        best = min(best, other.longest_s)
        if best < LONGEST_S / 4:
            break
    return best


def stalls(site: Site) -> dict[str, float]:
    """Return what the site itself counts: how often its loop was held for no longer than so many seconds."""
    text = site.http.get("/metrics").text
    return {limit: float(n) for limit, n in re.findall(r'cosend_loop_stall_seconds_bucket\{le="(.+?)"\} (\S+)', text)}


def test_large_requests_keep_nobody_waiting(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        ids = [f"q{n}" for n in range(60_000)]
        first = dict[str, Any]()
        for start in range(0, len(ids), 10_000):
            first |= {each["id"]: each for each in site.decide(ids[start : start + 10_000])}
        scattered = ids[::20]

        def ask_again() -> None:
            assert site.decide(scattered) == [first[name] for name in scattered]

        assert longest_wait(site, ask_again) < LONGEST_S
        rounds = iter(range(ROUNDS))

        def decide_and_label() -> None:
            number = next(rounds)
            new = [f"r{number}-{n}" for n in range(10_000)]
            site.decide(new)
            labels = [{"id": name, "label": "ill"} for name in new]
            assert site.post("/v1/labels", {"labels": labels})["learnt"] == new

        assert longest_wait(site, decide_and_label) < LONGEST_S
        known = stalls(site)
        assert known["+Inf"] > 100  # it beats
        assert known["0.05"] > 0.9 * known["+Inf"]  # and the loop is mostly free


def test_a_long_body_keeps_nobody_waiting(tmp_path: Path) -> None:
    lists: list[list[int]] = [[]] * 1_000  # a thousand things in few bytes
    items = [{"features": {"age": n % 100, "lists": lists}} for n in range(9_000)]  # 27 MB
    with served(tmp_path) as site:

        def send(some: list[Any]) -> int:
            reply = site.http.post("/v1/classify", content=json.dumps({"items": some}, separators=(",", ":")))
            if reply.status_code == 413 and len(some) > 1:
                assert "several requests" in reply.text
                middle = len(some) // 2
                return send(some[:middle]) + send(some[middle:])
            assert reply.status_code == 200, reply.text[:500]
            return len(reply.json()["decisions"])

        def send_all() -> None:
            assert send(items) == len(items)

        assert longest_wait(site, send_all) < LONGEST_S


@pytest.mark.claims
def test_snapshots_and_pruning_with_a_million_waiting_decisions_keep_nobody_waiting(tmp_path: Path) -> None:
    with served(tmp_path, keep_s=16.0) as site:
        for start in range(0, 1_000_000, 10_000):
            site.decide([f"client-item-{n}" for n in range(start, start + 10_000)])
        assert site.summary()["pending"] == 1_000_000
        rounds = 0

        def a_snapshot_and_a_prune() -> None:
            nonlocal rounds
            before, oldest = {*site.store.glob("state-*.npz")}, site.summary()["oldest_event"]
            until = time.monotonic() + 90.0
            while {*site.store.glob("state-*.npz")} <= before or site.summary()["oldest_event"] == oldest:
                assert time.monotonic() < until, "there was no snapshot, or nothing was pruned"
                site.decide([f"more-{rounds}-{n}" for n in range(20)])
                rounds += 1
                time.sleep(0.05)

        a_snapshot_and_a_prune()  # of what was decided at once
        assert longest_wait(site, a_snapshot_and_a_prune) < LONGEST_S
        assert site.decide(["more-0-0", "client-item-999999"])[1]["id"] == "client-item-999999"


def test_one_event_dated_a_year_ahead_does_not_stop_pruning(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        for n in range(20):
            site.decide([f"before-{n}"])
    with closing(sqlite3.connect(tmp_path / "store" / "events.sqlite")) as log, log:
        (ahead,) = log.execute("SELECT MAX(number) FROM events").fetchone()
        log.execute("UPDATE events SET at = at + 365 * 86400 WHERE number = ?", (ahead,))
    with served(tmp_path, keep_s=2.0) as site:
        until, n = time.monotonic() + 100.0, 0
        while site.summary()["oldest_event"] <= ahead:
            assert time.monotonic() < until, "nothing is removed behind the event that is dated ahead"
            site.decide([f"after-{n}"])
            n += 1
            time.sleep(0.1)
        assert site.summary()["pending"] == 20 + n
