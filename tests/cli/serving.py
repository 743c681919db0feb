"""A network file with its models in a folder, and `cosend serve` as a process that others can talk to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.tools.processes import free_port

PATIENCE_S = 120.0
NETWORK = """
call_cost = 0.05
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
[[sites.classifiers]]
name = "young"
model = "models:young"
[[sites.classifiers]]
name = "old"
model = "models:old"
cost = 0.02
[[sites]]
name = "south"
[[sites.classifiers]]
name = "any"
model = "models:any_age"
"""
ALONE = """
[[sites]]
name = "alone"
[[sites.classifiers]]
name = "yes"
model = "always"
label = 1
"""
MODELS = """
def young(item):
    return "ill" if item["age"] < 30 else "well"

def old(item):
    return "ill" if item["age"] > 70 else "well"

def any_age(item):
    return "well"
"""


def write_network(folder: Path, network: str = NETWORK, models: str = MODELS) -> Path:
    """Write a network file and its models, and return the file."""
    (folder / "models.py").write_text(models)
    (folder / "network.toml").write_text(network)
    return folder / "network.toml"


def cosend(
    *arguments: str | Path, folder: Path, given: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-m", "cosend.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=folder,
        input=given,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


class Served:
    """A site that runs in a process."""

    def __init__(self, process: subprocess.Popen[str], port: int, scheme: str = "http") -> None:
        self.process, self.url, self.token = process, f"{scheme}://127.0.0.1:{port}", ""
        self.context: Any = None  # of TLS

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the answer of a request."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310 - our own
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.context) as reply:  # noqa: S310 - our own
                return reply.status, _parsed(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _parsed(error.read())

    def wait_until_ready(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until the site can decide."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"it has ended: {self.process.stderr and self.process.stderr.read()}")
            try:
                if self.ask("/health/ready")[0] == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("it does not get ready")

    def end(self, how: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(how)
        return self.process.wait(timeout=PATIENCE_S)


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode()


@contextmanager
def served(
    folder: Path, *arguments: str, scheme: str = "http", port: int | None = None, **environment: str
) -> Iterator[Served]:
    """Serve a site of the network file in a folder until the block ends."""
    port = port or free_port()
    command = [sys.executable, "-m", "cosend.cli", "serve", "network.toml", "--port", str(port), *arguments]
    process = subprocess.Popen(  # noqa: S603 - our own
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200", **environment},
    )
    try:
        yield Served(process, port, scheme)
    finally:
        process.kill()
        process.communicate()
