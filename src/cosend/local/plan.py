"""What is to be started for a network file: a process for each site, with its own port and folder."""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cosend.config.network import NetworkSetting
from cosend.config.scenario import Scenario, load
from cosend.errors import CosendError, ScenarioError, SettingError, in_one_line
from cosend.local.broker import LOOPBACK, NAME, find_server, server_command, server_url

FIRST_PORT: Final = 8801  # of those that the file gives no port, the first that is free from here on
HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True)
class Part:
    """A process that belongs to the network."""

    name: str
    command: list[str]
    url: str


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """How the sites are to run.

    servers  brokers to use, in the place of those of the file
    store    the folder with a folder for each site; store beside the file unless given
    any_ports  take any ports that are free, whatever the file says
    """

    servers: list[str] | None = None
    store: Path | None = None
    durable: bool = True
    log: Literal["json", "text"] = "text"
    any_ports: bool = False


@dataclass(frozen=True)
class Plan:
    """All that is to be started; no broker if others run one."""

    sites: list[Part]
    broker: Part | None
    servers: list[str]  # through which sites reach each other, whoever runs them

    @property
    def in_words(self) -> str:
        """What is started."""
        own = ", started here" if self.broker is not None else ""
        return f"{len(self.sites)} sites, which reach each other through {', '.join(self.servers)}{own}"


def make_plan(file: Path, wishes: Wishes) -> Plan:
    """Return what is to be started for a file, or raise if it is known already that this cannot work."""
    scenario, _ = load(file)
    mistakes = scenario.serving_mistakes()
    if mistakes:
        raise ScenarioError(str(file), mistakes)
    with ExitStack() as held:
        ports = {site.name: _hold(0, held) for site in scenario.sites} if wishes.any_ports else None
        ports = ports or _site_ports(scenario, held)
        broker = _broker(held) if _needs_broker(scenario, wishes) else None
    servers = _servers(scenario, wishes) if broker is None else [broker.url]
    sites = [
        Part(name, _serve(file, name, port, servers, wishes), f"http://{LOOPBACK}:{port}")
        for name, port in ports.items()
    ]
    return Plan(sites, broker, servers)


def _servers(scenario: Scenario, wishes: Wishes) -> list[str]:
    """Return the brokers that somebody has named."""
    return wishes.servers or (scenario.network or NetworkSetting()).servers or []


def _needs_broker(scenario: Scenario, wishes: Wishes) -> bool:
    if _servers(scenario, wishes):
        return False
    network = scenario.network or NetworkSetting()
    if network.tls or network.tls_ca or network.tls_certificate:
        raise CosendError("the file asks for TLS but names no servers; the nats-server that is started here has none")
    return True


def _serve(file: Path, site: str, port: int, servers: list[str], wishes: Wishes) -> list[str]:
    """Return the command that serves a site; whoever lists processes reads in it which one it is."""
    folder = (file.parent / "store" if wishes.store is None else wishes.store) / site
    command = [sys.executable, "-m", "cosend.cli", "serve", str(file), "--site", site]
    command += ["--host", LOOPBACK, "--port", str(port), "--store", str(folder), "--log", wishes.log]
    command += ["--durable" if wishes.durable else "--no-durable"]
    return command + [word for server in servers for word in ("--nats", server)]


def _broker(held: ExitStack) -> Part:
    port = _hold(0, held)
    return Part(NAME, server_command(find_server(), port), server_url(port))


def _site_ports(scenario: Scenario, held: ExitStack) -> dict[str, int]:
    """Return a free port for each site; all are held until each has its own, so that no two get the same."""
    ports: dict[str, int] = {}
    for site in scenario.sites:
        if site.port is not None and site.port not in ports.values():  # other hosts may have it too
            ports[site.name] = _named_port(site.name, site.port, held)
    for site in scenario.sites:
        if site.name not in ports:
            ports[site.name] = _next_port(held)
    return {site.name: ports[site.name] for site in scenario.sites}


def _named_port(site: str, port: int, held: ExitStack) -> int:
    try:
        return _hold(port, held)
    except OSError as error:
        raise SettingError(f"the port of site {site!r}", port, f"one that is free ({in_one_line(error)})") from error


def _next_port(held: ExitStack) -> int:
    for port in range(FIRST_PORT, HIGHEST_PORT + 1):
        try:
            return _hold(port, held)
        except OSError:
            continue
    raise CosendError("no port is free on this machine")


def _hold(port: int, held: ExitStack) -> int:
    """Take a port of this machine until all are chosen; 0 is any."""
    taken = held.enter_context(socket.socket())
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((LOOPBACK, port))
    taken.listen(1)  # else another could bind the same one
    number: int = taken.getsockname()[1]
    return number
