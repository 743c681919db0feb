"""A model behind an endpoint that takes 5 ms, beside httpx alone: `python -m benchmarks.endpoints`.

Eight clients send 64 items at once, as often as they are answered. An endpoint of kind `http` gets a request for every
item, one of kind `oip` a request for 64. httpx alone makes the same requests and reads the replies, in the quickest way
that there is: over as many connections, each in a client of its own, because one pool of 64 is several times slower.
What a site does beside that is to decide, to write down what it decided, and to be able to fail: for every item, also
where httpx has only one request for 64, which is why less is asked of it there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.network import AXES, ITEM, as_in_the_service, rate, run
from benchmarks.rows import Row, show, yes
from benchmarks.service_processes import free_port
from cosend import ZoomingKLUCB
from cosend.models.endpoints import DEFAULTS, Endpoint
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup

TAKES_S = 0.005
BATCH, CLIENTS = 64, 8
GOALS = {"http": 0.8, "oip": 0.5}  # by kind
ROUNDS = 5
ROUND_S = 2.0
NUMBERS = ["age", "pulse"]


@contextmanager
def server() -> Iterator[str]:
    """Run the endpoint as a process of its own; gives its address."""
    port = free_port()
    command = [sys.executable, "-m", "tests.tools.endpoints", str(port), str(TAKES_S)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(os.environ)) as process:  # noqa: S603 - ours
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url)
            yield url
        finally:
            process.kill()


def wait_for(url: str) -> None:
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        try:
            httpx.post(f"{url}/right", json={"age": 1}).raise_for_status()
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the endpoint did not start")


def arm(kind: str, url: str) -> Endpoint:
    if kind == "http":
        return Endpoint(f"http:{url}/right/x", reply="/result/0/label", limit_s=10.0)
    return Endpoint(f"oip:{url}/right/v2/models/m", features=NUMBERS, batch=BATCH, limit_s=10.0)


def requests(kind: str, url: str) -> tuple[str, list[bytes]]:
    """Return where the requests for the items of one client go, and their bodies."""
    if kind == "http":
        return f"{url}/right/x", [json.dumps(ITEM).encode()] * BATCH
    numbers = [ITEM[name] for name in NUMBERS] * BATCH
    tensor = {"name": "input-0", "shape": [BATCH, len(NUMBERS)], "datatype": "FP64", "data": numbers}
    return f"{url}/right/v2/models/m/infer", [json.dumps({"inputs": [tensor]}).encode()]


async def of_httpx(kind: str, url: str, seconds: float) -> float:
    """Return how many items a second httpx alone gets answers about."""
    address, bodies = requests(kind, url)
    headers, tls = {"Content-Type": "application/json", "Accept-Encoding": "identity"}, httpx.create_ssl_context()
    idle: asyncio.LifoQueue[httpx.AsyncClient] = asyncio.LifoQueue()
    async with AsyncExitStack() as stack:
        for _ in range(DEFAULTS.in_flight):
            client = httpx.AsyncClient(limits=httpx.Limits(max_connections=1), timeout=None, verify=tls)  # noqa: S113
            idle.put_nowait(await stack.enter_async_context(client))

        async def one(body: bytes) -> Any:
            client = await idle.get()
            try:
                return (await client.post(address, content=body, headers=headers)).raise_for_status().json()
            finally:
                idle.put_nowait(client)

        async def ask() -> object:
            return await asyncio.gather(*map(one, bodies))

        await rate(CLIENTS, seconds / 2, ask)
        return BATCH * await rate(CLIENTS, seconds, ask)


async def of_a_site(kind: str, url: str, folder: Path, seconds: float) -> float:
    """Return how many items a second a site decides whose only arm is the endpoint."""
    options: dict[str, Any] = {
        "policy": ZoomingKLUCB(),
        "learnt": False,
        "costs": {"far": 0.1},
    }  # as for other services
    node = RunningSite(Setup(name="north", classifiers={"far": arm(kind, url)}, axes=AXES, **options), folder)
    await node.start()
    try:

        async def ask() -> object:
            return await node.classify([ITEM] * BATCH)

        await rate(CLIENTS, seconds / 2, ask)
        return BATCH * await rate(CLIENTS, seconds, ask)
    finally:
        await node.stop(patience_s=0.5)


def ratios(rounds: int, seconds: float) -> dict[str, list[tuple[float, float]]]:
    """Return by kind how many items a second httpx alone and a site get answered, once for each round."""
    as_in_the_service()
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in GOALS}
    with server() as url:
        for _ in range(rounds):
            for kind, rates in found.items():
                with tempfile.TemporaryDirectory() as folder:
                    alone = run(of_httpx(kind, url, seconds))
                    rates.append((alone, run(of_a_site(kind, url, Path(folder), seconds))))
    return found


def rows(rounds: int, seconds: float) -> list[Row]:
    """Measure httpx alone and a site in turns."""
    shown = []
    for kind, rates in ratios(rounds, seconds).items():
        share = median(site / alone for alone, site in rates)
        alone, site = (median(each) for each in zip(*rates, strict=True))
        told = f"{site:,.0f} items/s, httpx alone {alone:,.0f}: {share:.2f} times"
        goal = GOALS[kind]
        shown.append(Row(f"an endpoint ({kind}), 5 ms, {BATCH} x {CLIENTS}", told, f">= {goal}", yes(share >= goal)))
    return shown


if __name__ == "__main__":
    logging.getLogger("httpx").setLevel(logging.WARNING)
    show(rows(ROUNDS, ROUND_S), "endpoints")
