"""`python -m research regret` as a user types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from research.__main__ import app
from research.regret import run as experiment
from research.regret.run import Run, Watch, runs
from research.regret.settings import POLICIES, Settings
from typer.testing import CliRunner, Result

pytestmark = pytest.mark.compiled

FILES = ["parts.png", "regret.png", "results.json", "table.md"]


def regret(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["regret", *map(str, arguments)])


def test_the_chosen_problems_and_policies_are_shown_and_written(tmp_path: Path) -> None:
    chosen = ("--problem", "pair", "--problem", "apart", "--items", 1_000, "--seeds", 2)
    result = regret(*map(str, chosen), "--out", tmp_path)
    assert result.exit_code == 0, result.output
    for words in (
        "CoS",
        "CellKLUCB",
        "in run",
        "over T",
        "exp.",
        "It is loose",
        "unproven",
        "Zooming ",
        "ZoomingKLUCB",
    ):
        assert words in result.stdout
    assert "so far" not in result.stdout
    assert "…" not in result.stdout  # nothing of the table is cut off in 80 columns
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in FILES[:2])
    found = json.loads((tmp_path / "results.json").read_text())
    assert {row["problem"] for row in found["rows"]} == {"pair", "apart"}
    text = (tmp_path / "table.md").read_text()
    assert text.startswith("# Regret\n\nLeast regret: ")
    assert "## Regret of the first site" in text
    assert sum(line.count("|") == 10 for line in text.splitlines()) > 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--problem", "circle"], ["problem", "'line'", "'circle'"]),
        (["--policy", "luck"], ["policy", "'CoS'", "'luck'"]),
    ],
)
def test_unknown_names_are_refused_in_one_line(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    result = regret(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert all(word in line for word in ("error: ", *words))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("done", [0, len(POLICIES) + 1])
def test_a_stop_shows_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int) -> None:
    def stopped(settings: Settings, watch: Watch) -> Iterator[Run]:
        yield from islice(runs(settings, watch), done)
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "runs", stopped)
    result = regret("--problem", "pair", "--items", "1000", "--out", tmp_path)
    if done == 0:
        assert result.exit_code == 130
        assert not (tmp_path / "results.json").exists()
    else:
        assert result.exit_code == 130, result.output
        assert "these are the results so far" in result.stdout
        rows = json.loads((tmp_path / "results.json").read_text())["rows"]
        assert [(row["policy"], row["horizon"]) for row in rows] == [
            *(("CoS", horizon) for horizon in (125, 250)),
            *((policy.name, 125) for policy in POLICIES[1:]),
        ]
