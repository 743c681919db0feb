"""The processes of a network file: a process for each site, with its own port and folder, and a NATS server."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cosend.config.network_file import NetworkFile, load
from cosend.errors import CosendError, NetworkFileError, SettingError, in_one_line, install

LOOPBACK: Final = "127.0.0.1"
BROKER: Final = "(nats)"  # its name in the log; no site can have it
FIRST_PORT: Final = 8801  # sites without a port in the file get the first free one from here on
HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True)
class Part:
    """A process of the network."""

    name: str
    command: list[str]
    url: str


@dataclass(frozen=True)
class Plan:
    """All that is started; no broker if one runs already."""

    sites: list[Part]
    broker: Part | None
    servers: list[str]  # through which sites reach each other

    @property
    def in_words(self) -> str:
        own = ", started here" if self.broker is not None else ""
        return f"{len(self.sites)} sites, which reach each other through {', '.join(self.servers)}{own}"


def make_plan(
    file: Path,
    *,
    servers: list[str] | None = None,
    store: Path | None = None,
    durable: bool = True,
    log: Literal["json", "text"] = "text",
    any_ports: bool = False,
) -> Plan:
    """Return what is started for a file, or raise if it is known already that this cannot work.

    servers    NATS servers to use instead of the ones in the file
    store      the folder with a folder for each site; by default store next to the file
    any_ports  use any free ports, whatever the file says
    """
    network, _ = load(file)
    mistakes = network.serving_mistakes()
    if mistakes:
        raise NetworkFileError(str(file), mistakes)
    servers, broker = servers or network.brokers.servers or [], None
    with ExitStack() as held:  # all ports are held until each site has its own
        ports = _ports(network, held, any_ports=any_ports)
        if not servers:
            broker = _broker(network, held)
            servers = [broker.url]
    every = ["--host", LOOPBACK, "--log", log, "--durable" if durable else "--no-durable"]
    every += [word for server in servers for word in ("--nats", server)]
    urls = {name: f"http://{LOOPBACK}:{port}" for name, port in ports.items()}
    sites = []
    for name, port in ports.items():
        folder = (store or file.parent / "store") / name
        own = ["--site", name, "--port", str(port), "--store", str(folder)]
        others = [word for other, url in urls.items() if other != name for word in ("--site-at", f"{other}={url}")]
        command = [sys.executable, "-m", "cosend.cli", "serve", str(file), *own, *others, *every]
        sites.append(Part(name, command, urls[name]))
    return Plan(sites, broker, servers)


def find_server() -> str | None:
    """Return where nats-server is: on the PATH, or next to this Python, where its package puts it."""
    nearby = Path(sys.executable).parent / "nats-server"
    return shutil.which("nats-server") or (str(nearby) if nearby.is_file() else None)


def _broker(network: NetworkFile, held: ExitStack) -> Part:
    brokers = network.brokers
    if brokers.tls or brokers.tls_ca or brokers.tls_certificate:
        raise CosendError("the file asks for TLS but names no servers; the nats-server that is started here has none")
    program = find_server()
    if program is None:
        raise CosendError(
            f"no nats-server is on the PATH: {install('local')}, or name servers in [network] or with --nats"
        )
    port = _hold(0, held)
    return Part(BROKER, [program, "--addr", LOOPBACK, "--port", str(port)], f"nats://{LOOPBACK}:{port}")


def _ports(network: NetworkFile, held: ExitStack, *, any_ports: bool) -> dict[str, int]:
    """Return a free port for each site; those that the file names first."""
    if any_ports:
        return {site.name: _hold(0, held) for site in network.sites}
    ports: dict[str, int] = {}
    for site in network.sites:
        if site.port is not None and site.port not in ports.values():  # sites on other hosts may have the same one
            try:
                ports[site.name] = _hold(site.port, held)
            except OSError as error:
                allowed = f"one that is free ({in_one_line(error)})"
                raise SettingError(f"the port of site {site.name!r}", site.port, allowed) from error
    free = _free_ports(held)
    return {site.name: ports.get(site.name) or next(free) for site in network.sites}


def _free_ports(held: ExitStack) -> Iterator[int]:
    for port in range(FIRST_PORT, HIGHEST_PORT + 1):
        with suppress(OSError):
            yield _hold(port, held)
    raise CosendError("no port is free on this machine")


def _hold(port: int, held: ExitStack) -> int:
    taken = held.enter_context(socket.socket())
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((LOOPBACK, port))
    taken.listen(1)  # else another could bind the same one
    number: int = taken.getsockname()[1]
    return number
