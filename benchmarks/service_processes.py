"""The processes of the service's benchmark: servers that end by themselves, and load for one of them at a time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

START_S = 60.0  # that a server may take
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Load(NamedTuple):
    """Clients that send so many items at once, each request after the answer to the one before, and a pause."""

    batch: int
    clients: int
    labels: bool = False
    pause: float = 0.0
    features: int = 4

    def __str__(self) -> str:
        wide = f", {self.features} features" if self.features != 4 else ""
        return f"{self.batch} x {self.clients}" + (", labelled" if self.labels else "") + wide


class Seen(NamedTuple):
    """What the clients of one server have seen, and how busy it was."""

    items_per_s: float
    p50: float
    p99: float
    busy_s: float  # processor time of the server for an item; nan where the system does not tell


class Server(NamedTuple):
    """A server that runs."""

    kind: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    def busy_s(self) -> float:
        """Return the processor time it has taken so far."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """Return the bytes of memory it has, 0 where the system does not tell."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def on_disk(self) -> int:
        """Return the bytes of the files in its folder."""
        total = 0
        for path in self.folder.glob("*"):
            with suppress(OSError):  # a file that was removed meanwhile
                total += path.stat().st_size
        return total


@contextmanager
def server(kind: str, folder: Path, *options: str) -> Iterator[Server]:
    """Run a server on a free port of this machine."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.service_servers", kind, str(port), str(folder), *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:  # noqa: S603 - ours
        running = Server(kind, port, folder, process)
        try:
            wait_for(running)
            yield running
        finally:
            assert process.stdin is not None  # noqa: S101 - for the type checker
            process.stdin.close()  # it ends with its input
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def wait_for(running: Server) -> None:
    """Return when a server answers requests; a site says itself when it can."""
    until, url = time.monotonic() + START_S, f"http://127.0.0.1:{running.port}/health/ready"
    while time.monotonic() < until and running.process.poll() is None:
        try:
            with urlopen(url, timeout=5):
                return
        except HTTPError as error:
            if error.code == 404:  # an echo knows no such route
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"the {running.kind} server did not start")


def put_under(load: Load, running: Server, seconds: float) -> Seen:
    """Put a server under load."""
    busy, found = running.busy_s(), run_load(load, running, seconds)
    spent = (running.busy_s() - busy) / found["items"]
    return Seen(found["items_per_s"], found["p50"], found["p99"], spent)


def run_load(load: Load, running: Server, seconds: float) -> dict[str, Any]:
    with start_load(load, running, seconds) as process:
        try:
            told, _ = process.communicate(timeout=seconds + START_S)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise SystemExit(f"the load on the {running.kind} server failed")
    found: dict[str, Any] = json.loads(told)
    return found


def start_load(load: Load, running: Server, seconds: float) -> subprocess.Popen[bytes]:
    """Start clients; they end by themselves."""
    command = [sys.executable, "-m", "benchmarks.service_load", str(running.port), "--seconds", str(seconds)]
    command += ["--batch", str(load.batch), "--clients", str(load.clients), "--pause", str(load.pause)]
    command += ["--features", str(load.features)]
    command += ["--labels"] if load.labels else []
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)  # noqa: S603 - ours
