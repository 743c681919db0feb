"""`python -m research beyond` on windows that are as short as can be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from research.__main__ import app
from research.beyond import run as experiment
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.compiled

KEYS = {"part", "setting", "scenario", "context", "policy", "kind", "seeds", "error", "error_by_seed", "regret"} | {
    "decisions_per_second"
}


def beyond(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["beyond", "--seeds", "1", "--rows", "1000", *map(str, arguments)])


@pytest.fixture(scope="module")
def written(kdd99_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the folder and what was printed for three parts."""
    folder = tmp_path_factory.mktemp("beyond")
    result = beyond("--data", kdd99_file, "--out", folder, "--part", "drift", "--part", "liar", "--part", "learning")
    assert result.exit_code == 0, result.output
    return folder, result.stdout


@pytest.mark.claims
def test_results_have_error_regret_and_speed_in_every_row(written: Any) -> None:
    results = json.loads((written[0] / "results.json").read_text())
    assert set(results) == {"rows", "windows", "settings"}
    assert {row["part"] for row in results["rows"]} == {"drift", "liar", "learning"}
    for row in results["rows"]:
        assert set(row) >= KEYS
        assert 0 <= row["error"] <= 100
        assert (row["decisions_per_second"] is None) == (
            row["policy"] in ("persistence", "win_stay_lose_shift", "best_fixed", "per_cell_oracle")
            or "_linucb" in row["policy"]  # of the field, and compiled here
        )
        assert (row["regret"] is None) == (row["part"] == "learning")


@pytest.mark.claims
def test_tables_and_plots_are_written_and_printed(written: Any) -> None:
    folder, printed = written
    tables = (folder / "tables.md").read_text()
    results = json.loads((folder / "results.json").read_text())
    lines = [line for line in tables.splitlines() if line.startswith(("| drift |", "| liar |", "| learning |"))]
    assert len(lines) == len(results["rows"])
    assert (folder / "drift.png").read_bytes().startswith(b"\x89PNG")
    assert not (folder / "main_window.png").exists()
    for word in ("items until back", "owed", "peers get", "known in advance"):
        assert word in " ".join(printed.split())
        assert word in tables


def test_ctrl_c_shows_what_is_done(kdd99_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(settings: Any, report: Any) -> Iterator[Any]:
        yield from [row for row, _ in zip(real(settings, report), range(5), strict=False)]
        raise KeyboardInterrupt

    real = experiment.rows
    monkeypatch.setattr(experiment, "rows", stopped)
    result = beyond("--data", kdd99_file, "--out", tmp_path, "--part", "delays")
    assert result.exit_code == 130, result.output
    assert "these are the results so far" in result.stdout
    assert len(json.loads((tmp_path / "results.json").read_text())["rows"]) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--part", "everything"], ["part", "'windows'", "'learning'", "everything"]),
        (["--rows", "10"], ["rows", "at least 1000"]),
        (["--data", "nowhere.gz", "--part", "costs"], ["nowhere.gz"]),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    result = beyond("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    for word in words:
        assert word in line
