"""`python -m research` as a user types it, on streams that are as short as can be."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from research.__main__ import app
from research.regret import run as regret_run
from research.regret.run import Run, Watch, runs
from research.regret.settings import POLICIES, Settings
from typer.testing import CliRunner, Result

KEYS = {"part", "setting", "scenario", "context", "policy", "kind", "seeds", "error", "error_by_seed", "regret"} | {
    "decisions_per_second"
}
SHORT = ("beyond", "--seeds", "1", "--rows", "1000")


def research(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, [*map(str, arguments)])


def check_one_line(result: Result, words: list[str]) -> None:
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert [word for word in words if word not in line] == []


@pytest.mark.compiled
def test_regret_of_the_chosen_problems_is_shown_and_written(tmp_path: Path) -> None:
    chosen = ("--problem", "PAIR", "--problem", "apart", "--items", "1000", "--seeds", "2")
    result = research("regret", *chosen, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    for words in ("CoS", "in run", "over T", "exp.", "It is loose", "unproven", "Zooming ", "Least regret: "):
        assert words in result.stdout
    assert "so far" not in result.stdout
    assert "…" not in result.stdout  # nothing of the table is cut off in 80 columns
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts.png", "regret.png", "results.json", "table.md"]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("parts.png", "regret.png"))
    found = json.loads((tmp_path / "results.json").read_text())
    assert {row["problem"] for row in found["rows"]} == {"pair", "apart"}
    text = (tmp_path / "table.md").read_text()
    assert text.startswith("# Regret\n\nLeast regret: ")
    assert sum(line.count("|") == 10 for line in text.splitlines()) > 4


@pytest.mark.compiled
@pytest.mark.parametrize("done", [0, len(POLICIES) + 1])
def test_a_stop_shows_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int) -> None:
    def stopped(settings: Settings, watch: Watch) -> Iterator[Run]:
        yield from islice(runs(settings, watch), done)
        raise KeyboardInterrupt

    monkeypatch.setattr(regret_run, "runs", stopped)
    result = research("regret", "--problem", "pair", "--items", "1000", "--out", tmp_path)
    assert result.exit_code == 130, result.output
    assert (tmp_path / "results.json").exists() == (done > 0)
    if done:
        assert "these are the results so far" in result.stdout
        rows = json.loads((tmp_path / "results.json").read_text())["rows"]
        assert [(row["policy"], row["horizon"]) for row in rows] == [
            *(("CoS", horizon) for horizon in (125, 250)),
            *((policy.name, 125) for policy in POLICIES[1:]),
        ]


def test_what_ctrl_c_ends_without_results_says_so_in_its_help(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("research.paper.run.run", stopped)
    assert research("paper", "--out", tmp_path / "out").exit_code == 130
    assert not (tmp_path / "out").exists()
    assert "Ctrl-C ends it, and nothing is written." in " ".join(research("paper", "--help").stdout.split())


@pytest.fixture(scope="module")
def written(kdd99_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the folder and what was printed for three parts."""
    folder = tmp_path_factory.mktemp("beyond")
    parts = ("--part", "drift", "--part", "liar", "--part", "learning")
    result = research(*SHORT, "--data", kdd99_file, "--out", folder, *parts)
    assert result.exit_code == 0, result.output
    return folder, result.stdout


@pytest.mark.claims
def test_results_beyond_the_paper_have_error_regret_and_speed_in_every_row(written: Any) -> None:
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
def test_tables_and_plots_beyond_the_paper_are_written_and_printed(written: Any) -> None:
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


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["regret", "--problem", "circle"], ["problem", "'line'", "'circle'"]),
        (["regret", "--policy", "luck"], ["policy", "'CoS'", "'luck'"]),
        (["beyond", "--part", "everything"], ["part", "'windows'", "'learning'", "everything"]),
        (["beyond", "--rows", "10"], ["rows", "at least 1000"]),
        (["beyond", "--part", "costs", "--data", "nowhere.gz"], ["nowhere.gz"]),
        (["paper", "--start", "30999"], ["start", "at least 31,000", "30999"]),
        (["paper", "--data", "nowhere.gz"], ["nowhere.gz"]),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_line(command: list[str], words: list[str], tmp_path: Path) -> None:
    check_one_line(research(*command, "--out", tmp_path / "out"), words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("command", "name"), [("regret", "table.md"), ("beyond", "results.json")])
def test_a_folder_in_the_place_of_a_result_is_found_before_anything_is_played(
    command: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "out" / name).mkdir(parents=True)
    result = research(command, "--out", tmp_path / "out")
    check_one_line(result, ["--out must be a folder that can be written to", f"{name} is a folder there"])


@pytest.mark.parametrize(
    ("command", "module", "extra"), [("regret", "scipy", "reports"), ("beyond", "sklearn", "models")]
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
