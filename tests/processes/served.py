"""`cosend serve` as people run it: a process of its own, on a port of its own, spoken to by HTTP."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

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


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Served:
    """A process that serves a site."""

    def __init__(self, file: Path, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.file, self.port, self.process, self.log = file, port, process, log
        self.store = file.parent / "store" / "clinic"
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0)

    def wait_until_ready(self) -> None:
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if self.http.get("/health/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(self.said())

    def said(self) -> str:
        return self.log.read_text()

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
