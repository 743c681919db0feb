"""Workers as processes, over a real broker: killed and stopped while items flow, and the others go on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from cosend.errors import NoAnswer
from cosend.runtime.client_requests import Decided
from cosend.runtime.remote_workers import Elsewhere
from cosend.runtime.running_site import RunningSite
from cosend.server.from_file import read_site
from tests.cli.serving import cosend, write_network
from tests.links.worlds import Broker, server_binary
from tests.node.sites import run, until

pytestmark = pytest.mark.skipif(server_binary() is None, reason="there is no nats-server")
ITEMS = 4  # of a request
Process = subprocess.Popen[bytes]
NETWORK = """
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
[[sites.classifiers]]
name = "forest"
model = "models:slow"
workers = true
threads = 2
limit_s = 1.0
[[sites]]
name = "south"
[[sites.classifiers]]
name = "learns"
model = "models:learns"
"""
MODELS = """
import time

def slow(item):
    time.sleep(0.002)
    return item["age"] > 50

class Learns:
    def predict_one(self, item):
        return True
    def learn_one(self, item, label):
        pass

learns = Learns()
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def workers(tmp_path: Path, broker: Broker) -> Iterator[list[Process]]:
    write_network(tmp_path, NETWORK, MODELS)
    command = [sys.executable, "-m", "cosend.cli", "worker", "network.toml", "--site", "north", "--nats", broker.url]
    workers = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(3)]  # noqa: S603 - ours
    yield workers
    for worker in workers:
        worker.kill()
        worker.communicate()


def there(node: RunningSite) -> int:
    """Return how many workers can be asked."""
    remote = node.workers["forest"]
    return len(remote.there()) if isinstance(remote, Elsewhere) else 0


class Flow:
    """Items that come all the time, until they are told to stop."""

    def __init__(self, node: RunningSite) -> None:
        self.node, self.answered, self.wrong, self.ended = node, 0, list[object](), False

    async def client(self, shift: int) -> None:
        while not self.ended:
            ages = [(7 * self.answered + 31 * n + shift) % 101 for n in range(ITEMS)]
            results = await self.node.classify([{"age": age} for age in ages])
            both = zip(ages, results, strict=True)
            self.wrong += [each for age, each in both if not isinstance(each, Decided) or each.label != (age > 50)]
            self.answered += ITEMS

    async def more(self, count: int) -> None:
        """Wait until so many more are answered."""
        goal = self.answered + count
        await until(lambda: self.answered >= goal, 30.0)


@pytest.mark.claims
def test_workers_and_their_broker_are_killed_and_stopped_while_items_flow(
    tmp_path: Path, broker: Broker, workers: list[Process]
) -> None:
    async def work() -> None:
        found = read_site(tmp_path / "network.toml", "north", 7.0, [broker.url])
        node = RunningSite(found.setup, tmp_path / "store", durable=False, workers=found.workers)
        await node.start()
        try:
            await until(lambda: there(node) == 3, 30.0)
            flow = Flow(node)
            clients = [asyncio.create_task(flow.client(n)) for n in range(8)]
            await flow.more(200)
            workers[0].send_signal(signal.SIGKILL)
            await flow.more(200)
            workers[1].send_signal(signal.SIGSTOP)
            await until(lambda: there(node) == 1, 30.0)
            await flow.more(200)
            workers[1].send_signal(signal.SIGCONT)
            await until(lambda: there(node) == 2, 30.0)
            workers[2].send_signal(signal.SIGTERM)
            await flow.more(200)
            flow.ended = True
            await asyncio.gather(*clients)
            assert all(isinstance(each, NoAnswer) for each in flow.wrong)  # those were with a worker that was hit
            assert len(flow.wrong) < flow.answered / 10
            assert workers[2].wait(10) == 0
            broker.kill()
            assert isinstance((await node.classify([{"age": 60}]))[0], NoAnswer)
            broker.start()
            while not isinstance((await node.classify([{"age": 60}]))[0], Decided):
                await asyncio.sleep(0.05)  # until both have found the broker again
        finally:
            await node.stop(patience_s=0.5)

    run(work())


def test_a_worker_says_what_is_wrong_before_it_starts(tmp_path: Path) -> None:
    file = write_network(tmp_path, NETWORK, MODELS)

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["worker", str(file), *arguments])
        assert (done.exit_code, type(done.exception)) == (2, SystemExit)
        return done.stderr

    as_typed = cosend("worker", file, "--site", "north", folder=tmp_path)
    assert (as_typed.returncode, as_typed.stderr) == (2, said("--site", "north"))
    assert "network.servers: workers are reached over NATS" in said("--site", "north")
    assert "with workers = true (forest), got 'tree'" in said(
        "--site", "north", "--classifier", "tree", "--nats", "nats://127.0.0.1:1"
    )
    assert "a site with a classifier that has workers = true" in said("--site", "south", "--nats", "nats://127.0.0.1:1")
