"""Worlds of four sites: what is read, what is played, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from research.__main__ import app
from research.other_libraries import FIELD
from research.worlds import Settings
from typer.testing import CliRunner

from cosend.errors import CosendError
from research import worlds

pytestmark = pytest.mark.compiled

ITEMS = 400
QUIET = ("--late", "1", "--cost", "0.05", "--seeds", "1", "--processes", "1")


def write_world(folder: Path, name: str = "eeg", seed: int = 0, items: int = ITEMS) -> None:
    """Write a world: the label is whether x is high; a model of site 3 knows it, all others are coins."""
    random = np.random.default_rng(seed)
    x = random.random((items, 2))
    y = (x[:, 0] > 0.5).astype(np.int64)
    said, sure = random.integers(0, 2, (items, 8)), np.full((items, 8), 0.5)
    said[:, 4], sure[:, 4] = y, 0.9
    said[:, 1] = np.where(random.random(items) < 0.2, y, said[:, 1])  # the better one of site 1
    np.savez(folder / f"{name}_{seed}.npz", y=y, said=said, sure=sure)
    rows = [{"x": each[0], "z": each[1]} for each in x.tolist()]
    (folder / f"{name}_{seed}.items.json").write_text(json.dumps(rows))


ROOT = Path(__file__).parents[2]
SCRIPT = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.research.test_worlds import write_world
Path(sys.argv[1]).mkdir(parents=True)
for seed in range(int(sys.argv[2])):
    write_world(Path(sys.argv[1]), seed=seed)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    write_world(folder)
    return folder


def played(data: Path, *options: str) -> tuple[dict[str, Any], str]:
    out = data / "out"
    command = ["worlds", "--data", str(data), "--out", str(out), "--world", "EEG", *QUIET, *options]
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, command)
    assert result.exit_code == 0, result.output
    return json.loads((out / "results.json").read_text()), (out / "tables.md").read_text() + result.stdout


def test_site_1_learns_what_its_models_do_not_know(data: Path) -> None:
    found, shown = played(data)
    (row,) = found["rows"]
    assert (row["world"], row["seed"], row["delay"], row["cost"]) == ("eeg", 0, 1, 0.05)
    assert row["best_local"] < 65
    assert min(row["net"], row["grown"], row["stack"]) > row["best_local"] + 10
    assert row["net"] == pytest.approx(row["right"] - 0.05 * row["sent"])
    assert 0 < row["sent"] < 100
    for words in ("grown alone", "best local", f"| {row['net']:.2f} |", "below the better learnt arm alone"):
        assert words in shown


def test_without_learnt_arms_it_has_to_send(data: Path) -> None:
    found, shown = played(data, "--without-learnt", "--items", "300")
    (row,) = found["rows"]
    assert row["sent"] > 50
    assert "grown" not in row
    assert "grown alone" not in shown


def test_bandits_of_other_libraries_find_the_model_that_knows(data: Path) -> None:
    found, shown = played(data, "--field")
    (row,) = found["rows"]
    assert set(row["field"]) == set(FIELD) - worlds.SLOW
    name, reward = worlds.best_of_field([row])
    assert 60 < reward == row["field"][name] < 96  # every call of the model of site 3 is paid
    assert "best bandit" in shown
    assert f"| {reward:.2f} ({name}) |" in shown
    few, _ = played(data, "--field", "--scenario", "few-labels")
    assert max(few["rows"][0]["field"].values()) < reward


def test_a_world_is_what_the_script_wrote(data: Path) -> None:
    world = worlds.load(data, "eeg", 0, 150)
    assert len(world.items) == len(world.labels) == len(world.answers[0]) == 150
    assert world.items[3].number == 3
    assert set(world.items[3]) == {"x", "z"}
    assert world.answers[4] == [(label, 0.9) for label in world.labels]
    assert world.best_of(range(8)) == 4
    assert world.best_of(range(worlds.OWN)) == 1
    assert worlds.filled([None, *149 * [7]], [3] * 150) == [3, *149 * [7]]


RAW = """
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

MODELS = [GaussianNB, lambda: LogisticRegression(max_iter=300)] * 4

def eeg():
    x = np.random.default_rng(0).random((1_800, 2))
    return pd.DataFrame(x, columns=["x", "z"]), (x[:, 0] > 0.5).astype(int), None, False, 4, 5

def clusters(numbers, seed):
    return np.minimum(3, (4 * numbers[:, 1]).astype(int))
"""


def test_well_trained_models_have_seen_all_but_the_stream(tmp_path: Path) -> None:
    write_world(tmp_path)
    (tmp_path / worlds.SCRIPT).write_text(RAW)
    found, shown = played(tmp_path, "--scenario", "Well-Trained")
    (row,) = found["rows"]
    assert row["scenario"] == "well-trained"
    assert row["best_local"] > 90
    assert "nothing configured: well-trained" in shown
    world = worlds.well_trained(tmp_path / worlds.SCRIPT, "eeg", 0)
    assert len(world.items) == len(world.labels) == worlds.SHORT
    assert len(world.answers) == 8
    with pytest.raises(CosendError, match="which is not there"):
        worlds.well_trained(tmp_path / "other.py", "eeg", 0)


def test_where_sites_are_apart_every_item_arrives_once_and_mostly_with_its_kind(data: Path) -> None:
    world = worlds.load(data, "eeg", 0)
    items, told = worlds.arriving(world, "apart", 0)
    assert sorted(number for own in items for number in own) == [*range(ITEMS)]
    assert all(told)
    spreads = [np.std([[*world.items[n].values()] for n in own], axis=0).sum() for own in items]
    assert max(spreads) < np.std([[*each.values()] for each in world.items], axis=0).sum()
    found, _ = played(data, "--scenario", "apart")
    (row,) = found["rows"]
    right = world.right_of(world.best_of(range(worlds.OWN), items[0]), items[0])
    assert row["best_local"] == pytest.approx(worlds.share(right))


def test_few_labels_are_a_twentieth_and_every_answer_counts(data: Path) -> None:
    world = worlds.load(data, "eeg", 0)
    items, told = worlds.arriving(world, "few-labels", 0)
    assert items == [[*range(ITEMS)]] * 4
    assert 8 < sum(told) < 40
    found, shown = played(data, "--scenario", "few-labels", "--scenario", "together")
    few, all_labels = sorted(found["rows"], key=lambda row: str(row["scenario"]))
    assert few["stack"] < all_labels["stack"]
    assert shown.index("configured: together") < shown.index("configured: few-labels")


def test_where_only_the_script_is_there_it_makes_the_worlds(tmp_path: Path) -> None:
    (tmp_path / worlds.SCRIPT).write_text(SCRIPT)
    settings, out = Settings(data=tmp_path, worlds=("eeg",), seeds=2), tmp_path / "out"
    assert worlds.made(settings, out) == out / worlds.MADE
    assert len(worlds.load(out / worlds.MADE, "eeg", 1).labels) == ITEMS
    (tmp_path / worlds.SCRIPT).write_text("raise SystemExit('it is not needed again')")
    assert worlds.made(settings, out) == out / worlds.MADE
    with pytest.raises(CosendError, match=r"worlds\.py failed: it is not needed again"):
        worlds.made(Settings(data=tmp_path, worlds=("bike",), seeds=1), out)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "has neither letter_0.npz nor worlds.py"),
        (("--world", "circle"), "'letter'"),
        (("--scenario", "alone"), "'together'"),
        (("--late", "-1"), "late"),
        (("--cost", "1.5"), "cost"),
        (("--items", "5"), "at least 100"),
        (("--processes", "0"), "processes"),
    ],
)
def test_what_is_missing_or_cannot_be_is_one_line(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    command = ["worlds", "--data", str(tmp_path), "--out", str(tmp_path / "out"), *options]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_runs_in_two_processes_give_what_one_gives(data: Path, tmp_path: Path) -> None:
    settings = Settings(data=data, worlds=("eeg",), delays=(1, 10), costs=(0.05,), seeds=1, items=150, processes=2)
    one = Settings(data=data, worlds=("eeg",), delays=(1, 10), costs=(0.05,), seeds=1, items=150, processes=1)
    seen: list[tuple[str, float, float | None]] = []
    found = [
        worlds.results(each, [*worlds.rows(each, tmp_path, lambda *step: seen.append(step))])["rows"]
        for each in (settings, one)
    ]
    for rows in found:
        for row in rows:
            del row["us_per_decision"]
    assert found[0] == found[1]
    assert [row["delay"] for row in found[0]] == [1, 10]
    assert [step[1:] for step in seen] == 2 * [(0, None), (0, 2), (1, 2), (2, 2)]
