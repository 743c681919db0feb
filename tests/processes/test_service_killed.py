"""A served site under load is killed again and again: what clients were told is true ever after, and was done once."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cosend.engine.events import Chosen, Labelled
from cosend.engine.fold import fold
from cosend.runtime.running_site import RunningSite
from cosend.store.event_log import EventLog
from cosend.store.recovery import read_events
from tests.node.sites import everything
from tests.processes.clients import Client
from tests.processes.served import Forks, kill, wait_until_ready
from tests.processes.server import item_of, knowledge, learner, setup_of, truth_of
from tests.tools.processes import free_port

CLIENTS = 4
SLOWEST_START_S = 120  # with nothing compiled yet
SAME = ("id", "label", "arm", "phase", "cell", "cost", "propensity")


class Server:
    """A server that can be killed and started again."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        log = folder.with_name(f"{folder.name}.log")
        self.forks = Forks("tests.processes.server", str(folder), str(self.port), kind, log=log)
        self.process = 0
        self.http = httpx.Client(base_url=self.url, timeout=SLOWEST_START_S)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.process = self.forks.start("start")
        wait_until_ready(self.http, lambda: False, self.forks.said)

    def kill(self) -> None:
        kill(self.process)
        self.process = 0

    def close(self) -> None:
        """End it, and what starts it."""
        if self.process:
            self.kill()
        self.http.close()
        self.forks.close()


@contextmanager
def served(folder: Path, kind: str) -> Iterator[Server]:
    server = Server(folder, kind)
    try:
        server.start()
        yield server
    finally:
        server.close()


def after_kills(server: Server, kills: int) -> list[Client]:
    """Let clients ask and tell while the server is killed and started; returns them when all are done."""
    ended = threading.Event()
    clients = [Client(server.url, n, ended, item_of, truth_of, named=0.8) for n in range(1, CLIENTS + 1)]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    draw = random.Random(3)
    try:
        for _ in range(kills):
            time.sleep(draw.uniform(0.1, 1.5))
            server.kill()
            server.start()
        time.sleep(0.5)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    return clients


def check_what_was_told(server: Server, clients: list[Client]) -> None:
    """Check that the server still says what it said."""
    with httpx.Client(base_url=server.url, timeout=60.0) as http:
        for client in clients:
            for name, decision in client.decided.items():
                kept = http.get(f"/v1/decisions/{name}").json()
                assert {key: kept.get(key) for key in SAME} == {key: decision[key] for key in SAME}
                if name in client.labelled and name in client.scores:
                    assert (kept["labelled"], kept["score"]) == (False, client.scores[name])
                elif name in client.labelled:
                    assert (kept["labelled"], kept["truth"]) == (True, client.labelled[name])
            own = [name for name in client.decided if not name.startswith("d-")]
            items = [{"id": name, "features": item_of(1)} for name in own]
            again = http.post("/v1/classify", json={"items": items}).json()["decisions"]
            assert again == [client.decided[name] for name in own]


def check_log(folder: Path, clients: list[Client]) -> dict[str, int]:
    """Check that the log has every label once, and that it leads to the state and the model of the site."""
    setup, taught = setup_of("wild"), learner()

    def teach(examples: Any) -> None:
        for each in examples:
            taught.learn(each.item, each.truth)

    with EventLog(folder, site="lab") as log:
        events = [event for _, event in read_events(log)]
        assert log.oldest <= 1
    whole = fold(events, axes=setup.axes, examples=teach)
    labelled = [number for event in events if isinstance(event, Labelled) for number in event.ids]
    assert len(labelled) == len({*labelled})
    assert len(labelled) == sum(len(each.labelled) for each in clients)
    assert sum(len(event.arms) for event in events if isinstance(event, Chosen)) >= len(labelled)

    async def live() -> tuple[Any, Any, int]:
        node = RunningSite(setup, folder)
        await node.start()
        try:
            return everything(node.state), knowledge(node.workers["learns"].classifier), node.counts.rebuilt
        finally:
            await node.stop()

    async def twice() -> tuple[Any, Any]:
        return await live(), await live()  # once with what a kill has left, once after a stop

    first, second = asyncio.run(twice())
    assert first == second
    with EventLog(folder, site="lab") as log:  # the start itself may have taken something back
        whole = fold((event for _, event in read_events(log)), axes=setup.axes)
    assert first[0] == everything(whole)
    assert first[1] == knowledge(taught)
    return {"events": len(events), "labelled": len(labelled)}


def killed(folder: Path, kills: int) -> None:
    with served(folder, "wild") as server:
        clients = after_kills(server, kills)
        assert [client.wrong for client in clients] == [[]] * CLIENTS
        server.kill()
        server.start()
        check_what_was_told(server, clients)
        server.kill()
    found = check_log(folder, clients)
    decided, retries = sum(len(each.decided) for each in clients), sum(each.retries for each in clients)
    print(f"{kills} kills: {decided} decisions, {retries} retries, {found}")
    assert decided > 20 * kills
    assert retries > 0


@pytest.mark.claims
def test_after_30_kills_under_load_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    killed(tmp_path / "lab", 30)


@pytest.mark.compiled
def test_a_kill_between_a_score_and_its_acknowledgement_loses_nothing(tmp_path: Path) -> None:
    killed(tmp_path / "lab", 2)


def driven(server: Server, kill_at: set[int], items: int) -> list[Any]:
    """Ask for one item at a time, tell labels some items later, and kill between some of them."""
    found, owed = list[Any](), dict[str, bool]()
    for n in range(1, items + 1):
        if n in kill_at:
            server.kill()
            server.start()
        item = item_of(n)
        named = {"id": f"item {n}"} if n % 3 else {}
        body = {"items": [{"features": item, **named}]}
        (decision,) = server.http.post("/v1/classify", json=body).json()["decisions"]
        found.append(decision)
        owed[decision["id"]] = truth_of(item)
        if n % 5 == 0:
            late = [*owed][:-3]
            labels = [{"id": name, "label": owed.pop(name)} for name in late]
            assert server.http.post("/v1/labels", json={"labels": labels}).json()["learnt"] == late
    arms = server.http.get("/v1/arms").json()["arms"]
    assert {arm["breaker"] for arm in arms} == {"closed"}  # else it would matter how much time has passed
    return found


@pytest.mark.claims
def test_one_at_a_time_decisions_are_those_of_a_run_without_kills(tmp_path: Path) -> None:
    with served(tmp_path / "without", "calm") as server:
        without = driven(server, set(), 120)
    with served(tmp_path / "with", "calm") as server:
        assert driven(server, {2, 30, 31, 77}, 120) == without
    assert {"learns", "fails"} <= {each["arm"] for each in without}
