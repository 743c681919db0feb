"""Brokers that run with the samples of deploy/, and sites of a network file that use them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from cosend.runtime.running_site import RunningSite
from cosend.server.from_file import read_site
from tests.links.worlds import server_binary
from tests.tools.processes import free_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GUIDE = ROOT / "docs" / "operate" / "security.md"
SITES = ("north", "east", "south", "west")


def blocks(page: Path, kind: str) -> list[str]:
    """Return the parts of a page that are of a kind, such as commands."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def make_secrets(folder: Path) -> None:
    """Do what the guide says, up to the start of the broker: passwords and certificates."""
    script = "set -eu\n" + "\n".join(blocks(GUIDE, "bash"))
    subprocess.run(["/bin/sh", "-c", script], cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own


@contextmanager
def broker(
    folder: Path, config: str, environment: dict[str, str] | None = None, port: int | None = None
) -> Iterator[int]:
    """Run a nats-server in a folder with a configuration until the block ends; gives the port."""
    port = port or free_port()
    command = [server_binary() or "", "--config", config, "--addr", "127.0.0.1", "--port", str(port)]
    with (folder / f"{config}.log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603 - our own
            command, cwd=folder, stdout=log, stderr=log, env={**os.environ, **(environment or {})}
        )
    try:
        wait_until_said(folder / f"{config}.log", "Server is ready")
        yield port
    finally:
        process.kill()
        process.wait()


def wait_until_said(log: Path, words: str, within_s: float = 20.0) -> None:
    """Wait until a broker has written something."""
    end = time.monotonic() + within_s
    while words not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)


@asynccontextmanager
async def running(file: Path, servers: dict[str, list[str] | None]) -> AsyncIterator[dict[str, RunningSite]]:
    """Run sites of a network file, each with brokers of its own or those of the file, until the block ends."""
    nodes = {}
    for name, urls in servers.items():
        found = read_site(file, name, 1.0, urls)
        nodes[name] = RunningSite(found.setup, file.parent / "store" / name, durable=False, link=found.link)
    try:
        for node in nodes.values():
            await node.start()
        yield nodes
    finally:
        for node in nodes.values():
            await node.stop(patience_s=1.0)


async def until_all_are_there(nodes: dict[str, RunningSite]) -> None:
    """Wait until each site has found all others that run."""
    others = {name: set(nodes) - {name} for name in nodes}
    async with asyncio.timeout(20.0):
        while any(others[name] & node.peers.offline for name, node in nodes.items()):
            await asyncio.sleep(0.02)
