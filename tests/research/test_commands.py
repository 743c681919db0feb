"""What the commands of `python -m research` have in common."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from research.__main__ import app
from typer.testing import CliRunner, Result

COMMANDS = ("paper", "beyond", "regret")


def research(*arguments: str | Path, width: int = 200) -> Result:
    return CliRunner(env={"COLUMNS": str(width)}).invoke(app, [*map(str, arguments)])


def test_what_ctrl_c_ends_without_results_says_so_in_its_help(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("research.paper.run.run", stopped)
    assert research("paper", "--out", tmp_path / "out").exit_code == 130
    assert not (tmp_path / "out").exists()
    assert "Ctrl-C ends it, and nothing is written." in research("paper", "--help").stdout


@pytest.mark.parametrize(
    ("command", "name"),
    [(["regret"], "table.md"), (["beyond"], "results.json"), (["paper", "--data", "rows.csv"], "errors_over_time.png")],
    ids=str,
)
def test_a_folder_in_the_place_of_a_result_is_found_before_anything_is_played(
    command: list[str], name: str, tmp_path: Path
) -> None:
    (tmp_path / "out" / name).mkdir(parents=True)
    said = research(*command, "--out", tmp_path / "out")
    assert said.exit_code == 2
    assert "--out must be a folder that can be written to" in said.stderr
    assert f"{name} is a folder there" in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("regret", "scipy", "reports"),
        ("regret", "matplotlib", "reports"),
        ("paper", "matplotlib", "reports"),
        ("beyond", "sklearn", "models"),
    ],
)
def test_a_missing_extra_is_named_before_the_work(
    command: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def find_spec(name: str) -> Any:
        return None if name == module else importlib.util.find_spec(name)

    monkeypatch.setattr("cosend.cli.shared.find_spec", find_spec)
    result = research(command, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: this needs {module}: pip install '.[{extra}]' in a checkout of cosend\n"
    assert not (tmp_path / "out").exists()
