"""`cosend serve` as an operator types it."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from tests.cli.serving import served, write_network
from tests.tools.processes import free_port

ITEM = {"features": {"age": 80.0, "pressure": 120}}
ADMIN, CLIENT = "an-operators-token-0001", "a-clients-token-00000002"


def test_a_site_serves_learns_and_goes_on_after_being_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_network(tmp_path)
    monkeypatch.chdir(tmp_path)
    with served(tmp_path, "--site", "north") as site:
        assert site.process.stderr is not None
        told = next(line for line in site.process.stderr if site.url in line)
        assert site.ask("/health/live")[0] == 200  # at once: nobody has waited
        assert f"dashboard: {site.url}/dashboard/" in told
        for path in re.findall(rf"{re.escape(site.url)}(/[\w/]+)", told):
            assert isinstance(site.ask(path)[1], str)  # a page
        site.wait_until_ready()
        status, answer = site.ask("/v1/classify", {"items": [{**ITEM, "id": "visit-1"}, ITEM]})
        assert status == 200
        assert [decision["id"] for decision in answer["decisions"]] == ["visit-1", "d-2"]
        labels = {"labels": [{"id": name, "label": "ill"} for name in ("visit-1", "d-2", "x")]}
        learnt = {"learnt": ["visit-1", "d-2"], "duplicate": [], "unknown": ["x"], "expired": [], "missing": []}
        assert site.ask("/v1/labels", labels) == (200, learnt)
        second = CliRunner().invoke(app, ["serve", "network.toml", "--site", "north", "--port", str(free_port())])
        assert (second.exit_code, "in use by another process" in second.stderr) == (2, True)
        taken = site.url.rpartition(":")[2]
        other = CliRunner().invoke(app, ["serve", "network.toml", "--site", "south", "--port", taken])
        assert (other.exit_code, "the address of the site must be one that is free" in other.stderr) == (2, True)
        assert site.end(signal.SIGKILL) == -signal.SIGKILL
    with served(tmp_path, "--site", "north", "--no-durable") as again:
        again.wait_until_ready()
        item = {**ITEM, "id": "visit-1"}
        assert again.ask("/v1/classify", {"items": [item]})[1]["decisions"] == answer["decisions"][:1]
        assert again.ask("/v1/labels", labels)[1]["duplicate"] == ["visit-1", "d-2"]
        assert again.ask("/v1/summary")[1]["items"] == 2
        assert again.end(signal.SIGINT) == 0
    assert (tmp_path / "store" / "north" / "events.sqlite").is_file()


def test_tokens_say_who_may_do_what_over_https_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    write_network(tmp_path)
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    try:
        subprocess.run(  # noqa: S603 - our own
            [*make.split(), "-addext", "subjectAltName=IP:127.0.0.1"], cwd=tmp_path, check=True, capture_output=True
        )
    except FileNotFoundError:
        pytest.skip("no openssl on this machine to make a certificate with")
    (tmp_path / "tokens").write_text(f"{ADMIN} admin\n{CLIENT} classify,label  # the ward\n")
    options = ("--site", "south", "--certificate", "cert.pem", "--key", "key.pem", "--tokens", "tokens")
    with served(tmp_path, *options, scheme="https") as site:
        site.context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        site.wait_until_ready()
        assert site.ask("/v1/classify", {"items": [ITEM]})[0] == 401
        site.token = CLIENT
        assert site.ask("/v1/classify", {"items": [ITEM]})[0] == 200
        assert site.ask("/v1/arms/any", {"cost": 0.5})[0] == 403
        site.token = ADMIN
        assert site.ask("/v1/arms/any", {"cost": 0.5})[1]["cost"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "--site must be one of north, south"),
        (["--site", "west"], "--site must be one of north, south"),
        (["--site", "north", "--host", "0.0.0.0"], "must be 127.0.0.1, unless there are tokens"),  # noqa: S104 - refused
        (["--site", "north", "--certificate", "cert.pem"], "given together, or not at all"),
        (["--site", "north", "--tokens", "nowhere"], "a file that can be read"),
        (["--site", "south", "--store", "network.toml"], "cannot be used as the folder of a site"),
        (
            ["--site", "north", "--certificate", "network.toml", "--key", "network.toml"],
            "a certificate and its key, as PEM",
        ),
    ],
)
def test_what_cannot_be_served_is_said_in_a_line(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_network(tmp_path)
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["serve", "network.toml", "--port", str(free_port()), *arguments])
    assert refused.exit_code == 2
    assert sentence in refused.stderr
