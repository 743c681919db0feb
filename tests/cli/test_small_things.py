"""The tab key, messages that fit on a screen, and first answers in a minute."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cosend.cli.main import app
from cosend.cli.shared import (
    LONGEST_LINE,
    MOST_LINES,
    network_files_like,
    on_a_screen,
    say_errors,
)
from cosend.errors import CosendError, NetworkFileError
from tests.cli.serving import ALONE


def test_the_tab_key_offers_built_in_files_folders_and_network_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clinic.toml").write_text("")
    (tmp_path / "other.csv").write_text("")
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "one.toml").write_text("")
    assert network_files_like("c") == ["clinics", "cases/", "clinic.toml"]
    assert network_files_like("cases/") == ["cases/one.toml"]
    assert network_files_like("o") == []


@pytest.mark.compiled
def test_a_shell_can_ask_for_completions() -> None:
    """As bash asks: with the words so far in the environment."""
    asked = {**os.environ, "_COSEND_COMPLETE": "complete_bash", "COMP_WORDS": "cosend run tra", "COMP_CWORD": "2"}
    answer = CliRunner().invoke(app, [], env=asked, prog_name="cosend")
    assert "traffic" in answer.stdout


def test_long_messages_are_cut_to_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    mistakes = [f"key.{n}: {'x' * 1_000}" for n in range(40)]
    shown = on_a_screen(str(NetworkFileError("file", mistakes))).splitlines()
    assert len(shown) <= MOST_LINES
    assert max(map(len, shown)) < LONGEST_LINE + 60
    many = on_a_screen("\n".join("abc")) + on_a_screen("\n".join("x" * (MOST_LINES + 1)))
    assert many.endswith("... and 1 more line")
    with pytest.raises(typer.Exit), say_errors():
        raise CosendError("y" * 3_000)
    assert len(capsys.readouterr().err) < LONGEST_LINE + 80


def test_one_decision_is_told_and_exported_in_the_singular(tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(ALONE)
    runner, store = CliRunner(), tmp_path / "store" / "alone"
    asked = runner.invoke(app, ["classify", str(tmp_path / "network.toml")], input='{"features": {"x": 1}}\n')
    assert asked.exit_code == 0, asked.output
    assert ", 1 item, 0 labels\n" in runner.invoke(app, ["verify", str(store)]).stdout
    said = runner.invoke(app, ["export", str(store), "--to", str(tmp_path / "all.jsonl")]).stderr
    assert "1 decision written" in said


@pytest.mark.parametrize(
    ("code", "unloaded"),
    [
        ("import cosend", {"numpy", "numba", "pydantic", "rich", "typer"}),
        ("import cosend.cli.main", {"numpy", "numba", "pydantic", "fastapi"}),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str, unloaded: set[str]) -> None:
    """So `import cosend` and `cosend --help` are quick."""
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()  # noqa: S603 - our own
    assert unloaded.isdisjoint(loaded)


COMMANDS = ("run", "validate", "serve", "up", "demo", "worker", "classify", "verify", "export", "warmup")


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_flows_to_the_width_of_the_terminal(command: list[str]) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*command, "--help"]).stdout
    assert "--help" in shown
    prose = [line.strip() for line in shown[: shown.index("\N{BOX DRAWINGS LIGHT ARC DOWN AND RIGHT}")].splitlines()]
    for line, following in pairwise(prose):
        if line and following:  # of one paragraph: the next word would not have fitted
            assert len(f"{line} {following.split()[0]}") > 78, line
