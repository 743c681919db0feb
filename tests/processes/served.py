"""Servers as processes: `cosend serve` as people run it, and others that are forked, to be killed again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.tools.processes import ROOT, free_port

LONGEST_S = 120.0  # with nothing compiled yet, on a busy machine
MODELS = """
import time

def young(visit):
    return "ill" if visit["age"] < 30 else "well"

def old(visit):
    return "ill" if visit["age"] > 70 else "well"

def slow(visit):
    time.sleep(60)
    return "well"
"""
CONTEXT = '[[context]]\nfeature = "age"\nrange = [0, 100]\n'


def network(folder: Path, *models: str, context: str = CONTEXT, rest: str = "") -> Path:
    """Write a network file of one site, and its models, into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "models.py").write_text(MODELS)
    arms = "".join(
        f'[[sites.classifiers]]\nname = "{name}"\nmodel = "models:{name}"\nlimit_s = 30\n' for name in models
    )
    file = folder / "network.toml"
    file.write_text(f'{context}[[sites]]\nname = "clinic"\n{arms}{rest}')
    return file


def wait_until_ready(http: httpx.Client, ended: Callable[[], bool], said: Callable[[], str]) -> None:
    """Wait until a server answers, unless it has ended."""
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until and not ended():
        try:
            if http.get("/health/ready").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.01)
    raise AssertionError(said())


def kill(process: int) -> None:
    """Kill a process, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
        while True:
            os.kill(process, 0)
            time.sleep(0.001)


class Forks:
    """Starts servers by forking a process that has imported and compiled all that they need."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                stderr=errors,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

    def start(self, line: str) -> int:
        """Start a server and return the id of its process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        assert told, self.said()
        return int(told)

    def said(self) -> str:
        return self.log.read_text()[-20_000:]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def fork_for_lines(serve: Callable[[str], object]) -> None:
    """Serve in a process of its own for every line of the standard input, and say its id: the other side of `Forks`."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks what became of them
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                serve(line.strip())
            finally:
                os._exit(1)
        print(child, flush=True)


class Served:
    """A process that serves a site."""

    def __init__(self, file: Path, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.file, self.port, self.process, self.log = file, port, process, log
        self.store = file.parent / "store" / "clinic"
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0)

    def wait_until_ready(self) -> None:
        wait_until_ready(self.http, lambda: self.process.poll() is not None, self.said)

    def said(self) -> str:
        return self.log.read_text()

    def wait_until_said(self, words: str) -> None:
        until = time.monotonic() + LONGEST_S
        while words not in self.said() and time.monotonic() < until and self.process.poll() is None:
            time.sleep(0.01)
        assert words in self.said()

    def classify(self, *ages: float, **more: Any) -> httpx.Response:
        return self.http.post("/v1/classify", json={"items": [{"features": {"age": age, **more}} for age in ages]})

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


@contextmanager
def started(
    file: Path, *options: str, before: Sequence[str] = (), env: dict[str, str] | None = None
) -> Iterator[Served]:
    """Start `cosend serve` with a network file; `before` is a command that runs it."""
    port, log = free_port(), file.with_suffix(".log")
    command = [*before, sys.executable, "-m", "cosend.cli", "serve", file.name, "--port", str(port), *options]
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own
            command, cwd=file.parent, env={**os.environ, **(env or {})}, stdout=errors, stderr=errors
        )
    served = Served(file, port, process, log)
    try:
        yield served
    finally:
        served.http.close()
        if process.poll() is None:
            served.kill()
