"""A process that runs one site of a network once for each policy, and does what it is told on standard input.

It is started as `python -m tests.processes.policies FOLDER SITE BROKER`. Every policy has a network of its own on the
broker. A line is ["classify", policy, item] or ["label", policy, id, label], and is answered with a line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from cosend.runtime.client_requests import id_number, id_text
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions
from tests.node.networks import setup_of
from tests.node.sites import check_folds, decided, until
from tests.policies import POLICIES


def node_of(folder: Path, site: str, broker: str, number: int, policy: Any) -> RunningSite:
    link = NatsLink(site, NatsOptions(servers=(broker,), network=f"policy{number}", discover_s=0.5))
    return RunningSite(setup_of(site, policy), folder / f"{site} {number}", durable=False, link=link)


async def work(folder: Path, site: str, broker: str) -> None:
    nodes = {
        name: node_of(folder, site, broker, number, policy) for number, (name, policy) in enumerate(POLICIES.items())
    }
    for node in nodes.values():
        await node.start()
    await until(lambda: not any(node.peers.offline for node in nodes.values()), 60.0)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, policy, *rest = json.loads(line)
        print(json.dumps(await done(nodes[policy], what, rest)), flush=True)
    for node in nodes.values():
        await check_folds(node)
        await node.stop(0.5)
    print("folded", flush=True)


async def done(node: RunningSite, what: str, rest: list[Any]) -> Any:
    if what == "classify":
        (made,) = await decided(node, *rest)
        return [id_number(made.id), made.label, made.arm, made.phase]
    return (await node.label([Given(id_text(rest[0]), rest[1])], wait_for_peers=True)).learnt


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
