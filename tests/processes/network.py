"""A process that starts others, each of which serves one site of a network and is killed or frozen by a test.

It is started as `python -m tests.processes.network FOLDER SITE=PORT=BROKER ...`. For every name of a site that it reads
it starts a server, and says its process id. The servers are forked from this one, so that what takes long, importing
and compiling, is done once.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cosend.runtime import running_site as running
from cosend.runtime.running_site import RunningSite
from cosend.server.auth import Tokens
from cosend.server.http_server import Address, serve
from cosend.server.logs import set_up_logs
from cosend.transport.answering import Limits
from cosend.transport.nats import NatsLink
from cosend.transport.nats_options import NatsOptions
from tests.node.networks import SITES, setup_of
from tests.processes.served import fork_for_lines

DEADLINE_S = 0.5
SNAPSHOT_EVERY = 500  # events: so that kills come before, in and after many of them


def serve_site(folder: Path, name: str, port: int, broker: int) -> None:
    """Serve a site until the process ends."""
    options = NatsOptions(
        servers=(f"nats://127.0.0.1:{broker}",), connect_s=0.5, again_s=0.1, ping_s=0.3, discover_s=0.3
    )
    link = NatsLink(name, options, Limits(callers=frozenset(SITES) - {name}))
    set_up_logs(name, "text")
    serve(RunningSite(setup_of(name, deadline_s=DEADLINE_S), folder / name, link=link), Address(port=port), Tokens({}))


def main(folder: Path, where: dict[str, tuple[int, int]]) -> None:
    running.SNAPSHOT_EVERY = SNAPSHOT_EVERY  # type: ignore[misc]
    setup_of("north").warm_up()
    fork_for_lines(lambda name: serve_site(folder, name, *where[name]))


if __name__ == "__main__":
    parts = [argument.split("=") for argument in sys.argv[2:]]
    main(Path(sys.argv[1]), {name: (int(port), int(broker)) for name, port, broker in parts})
