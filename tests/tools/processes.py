"""Processes for tests that use public surfaces only: `cosend serve` on a free port, and a NATS server.

Importing all of cosend takes longer than most tests, so that one process imports it and forks for every service. It
ends, and all services with it, when its standard input is closed.
"""

from __future__ import annotations

import gc
import http.client
import importlib
import json
import os
import pkgutil
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import cosend

SOURCES = Path(cosend.__file__).parents[1]
ROOT = Path(__file__).parents[2]
READY_S = 120.0
REPLY_S = 60.0
JSON = {"Content-Type": "application/json"}
UNUSED = {"__main__", "dashboard", "experiments", "baselines", "reports", "local", "sklearn"}  # by a service
NO_BROKER = "no nats-server: pip install '.[local]' in a checkout"


def environment() -> dict[str, str]:
    """Return the environment of a process that has the same cosend, without the compiler, in whatever folder."""
    paths = [str(SOURCES), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "NUMBA_DISABLE_JIT": "1",
        "COLUMNS": "200",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def run_command(arguments: list[str]) -> None:
    """Run a command of cosend in this process."""
    sys.argv = ["cosend", *arguments]
    runpy.run_module("cosend.cli", run_name="__main__", alter_sys=True)


class Reply(NamedTuple):
    """The reply to a request: its status, and its body as what JSON says or else as text."""

    status: int
    body: Any


class Service:
    """A service that listens on a port of this machine."""

    def __init__(self, port: int, process: int = 0) -> None:
        self.port, self.process, self.url = port, process, f"http://127.0.0.1:{port}"

    def request(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, headers: Mapping[str, str] = JSON
    ) -> Reply:
        """Send a request and return the reply."""
        data = raw if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REPLY_S)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # a body that is refused before it was sent
                connection.request(method, path, data, dict(headers))
            found = connection.getresponse()
            text = found.read().decode()
        finally:
            connection.close()
        try:
            return Reply(found.status, json.loads(text))
        except ValueError:
            return Reply(found.status, text)

    def ask(self, path: str, body: Any = None) -> Any:
        """Return the body of the reply to a request that must succeed."""
        reply = self.request("GET" if body is None else "POST", path, body)
        assert reply.status == 200, reply
        return reply.body

    def wait_until_ready(self) -> None:
        """Wait until the site can decide."""
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            with suppress(OSError):
                if self.request("GET", "/health/ready").status == 200:
                    return
            time.sleep(0.01)
        raise AssertionError("the service does not get ready")

    def kill(self) -> None:
        """Kill it, and wait until it listens no longer."""
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
            except OSError:
                return
            time.sleep(0.005)


class Services:
    """Starts services by forking a process that has imported everything."""

    def __init__(self) -> None:
        self._forks = subprocess.Popen(
            [sys.executable, "-m", "tests.tools.processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def start(self, folder: Path, site: str, *options: str) -> Service:
        """Serve a site of the file network.toml in a folder; its log is the file SITE.log there."""
        port = free_port()
        arguments = ["serve", "network.toml", "--site", site, "--port", str(port), "--no-dashboard", *options]
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps([str(folder), f"{site}.log", arguments]) + "\n")
        self._forks.stdin.flush()
        return Service(port, int(self._forks.stdout.readline()))

    @contextmanager
    def running(self, folder: Path, *sites: str, options: tuple[str, ...] = ()) -> Iterator[list[Service]]:
        """Serve some sites until the block ends."""
        with ExitStack() as stack:
            services = []
            for site in sites:
                services.append(self.start(folder, site, *options))
                stack.callback(services[-1].kill)
            for service in services:
                service.wait_until_ready()
            yield services

    def close(self) -> None:
        """End all of them."""
        self._forks.communicate()


def serve_forks() -> None:
    """Import everything, and fork for every line of the standard input."""
    modules = [each.name for each in pkgutil.walk_packages(cosend.__path__, "cosend.")]
    for name in [*modules, "pydantic.v1"]:
        if UNUSED.isdisjoint(name.split(".")):
            with suppress(ImportError):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a service that starts looks through everything for what can be thrown away
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    children = []
    for line in sys.stdin:
        folder, log, arguments = json.loads(line)
        child = os.fork()
        if not child:
            _become(Path(folder), log, arguments)
        children.append(child)
        print(child, flush=True)
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _become(folder: Path, log: str, arguments: list[str]) -> None:
    """Run a command in a process that was forked for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(folder)
    with Path(log).open("a") as file, Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    try:
        run_command(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


def broker_program() -> str | None:
    """Return where nats-server is: in the folder of this Python, where its package puts it, or on the PATH."""
    packaged = Path(sys.executable).parent / "nats-server"
    return str(packaged) if packaged.exists() else shutil.which("nats-server")


@contextmanager
def broker() -> Iterator[str]:
    """Run a NATS server until the block ends; gives its address."""
    port = free_port()
    command = [broker_program() or "", "--addr", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        try:
            end = time.monotonic() + READY_S
            while time.monotonic() < end:
                try:
                    socket.create_connection(("127.0.0.1", port), 1.0).close()
                    break
                except OSError:
                    time.sleep(0.01)
            yield f"nats://127.0.0.1:{port}"
        finally:
            process.kill()


if __name__ == "__main__":
    serve_forks()
