"""`cosend run` over rows of which some have no label: they are decided, and count in no error and no reward."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.compiled

MODULE = """
def by_x(item):
    return "yes" if item["x"] > 0.5 else "no"

def by_y(item):
    return "yes" if item["y"] > 0.5 else "no"

class Counts:
    "Says the label that it was taught most often."
    learns = True
    def __init__(self):
        self.yes = self.all = 0
    def predict(self, items):
        return ["yes" if 2 * self.yes > self.all else "no" for _ in items]
    def learn(self, item, label):
        assert label in ("yes", "no")
        self.yes, self.all = self.yes + (label == "yes"), self.all + 1

def counts():
    return Counts()
"""
MODELS = """
[[sites.classifiers]]
name = "by-x"
model = "models:by_x"
[[sites.classifiers]]
name = "by-y"
model = "models:by_y"
cost = 0.01
"""
NETWORK = f"""
seed = 3
label_delay = 3
[stream]
kind = "file"
path = "rows.PATH"
label = "label"
[[context]]
feature = "z"
range = [0, 4]
[[context]]
kind = "previous_label"
[[sites]]
name = "here"
{MODELS}
"""
TWO_SITES = (
    NETWORK + '[[sites]]\nname = "there"\n[[sites.classifiers]]\nname = "says-yes"\nmodel = "always"\nlabel = "yes"\n'
)
VOTES = NETWORK + (
    '[[sites.classifiers]]\nname = "counts"\nmodel = "models:counts"\n'
    '[[sites.classifiers]]\nname = "together"\nmodel = "vote"\nover = ["by-x", "by-y"]\n'
)
ITEMS = 600


def some_rows(count: int = ITEMS) -> list[dict[str, Any]]:
    draw = random.Random(1)
    rows = []
    for _ in range(count):
        row = {"x": round(draw.random(), 3), "y": round(draw.random(), 3), "z": draw.randrange(4)}
        rows.append(row | {"label": "yes" if (row["x"] if row["z"] < 2 else row["y"]) > 0.5 else "no"})
    return rows


def without(rows: list[dict[str, Any]], gone: set[int], missing: Any = None) -> list[dict[str, Any]]:
    return [row | {"label": missing} if n in gone else row for n, row in enumerate(rows)]


def play(
    folder: Path, rows: list[dict[str, Any]], *more: str, network: str = NETWORK, form: str = "jsonl"
) -> subprocess.CompletedProcess[str]:
    """Write what a user has, and do as a user does."""
    file = folder / f"rows.{form}"
    if form == "csv":
        lines = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
        file.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    elif form == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), file)
    (folder / "models.py").write_text(MODULE)
    (folder / "network.toml").write_text(network.replace("PATH", form))
    command = [sys.executable, "-m", "cosend.cli", "run", "network.toml", *more]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(  # noqa: S603 - our own
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row_of(result: dict[str, Any], policy: str, site: str = "here") -> dict[str, Any]:
    (row,) = [row for row in result["rows"] if (row["policy"], row["site"]) == (policy, site)]
    return dict(row)


@pytest.mark.parametrize(
    ("form", "missing"),
    [("csv", None), ("csv", "NaN"), ("csv", " "), ("jsonl", None), ("jsonl", math.nan), ("parquet", None)],
)
def test_rows_without_a_label_are_counted_and_said(tmp_path: Path, form: str, missing: Any) -> None:
    gone = set(range(0, ITEMS, 5))
    done = play(tmp_path, without(some_rows(), gone, missing), form=form)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert words.count("120 of 600 items have no label") == 1
    page = (tmp_path / "out" / "run" / "report.html").read_text()
    assert page.count("120 of 600 items have no label") == 1
    kept = json.loads((tmp_path / "out" / "run" / "results.json").read_text())
    assert (kept["items"], kept["unlabelled"]) == (600, 120)


def test_a_column_of_whole_numbers_with_gaps_stays_one(tmp_path: Path) -> None:
    """Models say 0 and 1: labels that had become 0.0 and 1.0, or text, would be other labels in other formats."""
    rows = [row | {"label": int(row["label"] == "yes")} for row in some_rows(100)]
    network = NETWORK.replace('"models:by_x"', '"always"\nlabel = 1').replace('"models:by_y"', '"always"\nlabel = 0')
    for form in ("csv", "jsonl", "parquet"):
        shown = result_of(play(tmp_path, without(rows, {0, 50}), "--json", network=network, form=form))
        ones = [row["label"] for n, row in enumerate(rows) if n not in (0, 50)]
        assert row_of(shown, "best fixed")["error"] == pytest.approx(100 * min(sum(ones), 98 - sum(ones)) / 98)


def test_no_label_counts_where_nobody_knows_it(tmp_path: Path) -> None:
    """What is right of all that is known stays right: models that are never wrong have no error and no regret."""
    rows = [row | {"label": "yes" if row["x"] > 0.5 else "no"} for row in some_rows()]
    shown = result_of(play(tmp_path, without(rows, set(range(0, ITEMS, 3))), "--json"))
    best = row_of(shown, "best fixed")
    assert (best["error"], best["mean_reward"], best["cost"]) == (0.0, 1.0, 0.0)
    assert row_of(shown, "oracle per cell")["error"] == 0.0
    (model, _) = shown["models"]["here"]
    assert (model["error"], model["alone"]) == (0.0, 1.0)
    assert all(max(curve["error"]) <= 100 for curve in shown["curves"].values())
    assert shown["error_curves"]["best fixed"]["error"] == [0.0] * len(shown["error_curves"]["best fixed"]["error"])


@pytest.mark.parametrize("network", [NETWORK, TWO_SITES], ids=["one site", "two sites"])
def test_compiled_and_real_sites_decide_the_same(tmp_path: Path, network: str) -> None:
    """Real sites leave such a decision waiting; the compiled replay must not learn from it either, not at the end."""
    rows = without(some_rows(), set(random.Random(2).sample(range(ITEMS), 200)))
    at_once = result_of(play(tmp_path, rows, "--json", network=network))
    one_by_one = result_of(play(tmp_path, rows, "--json", network="strict_labels = true\n" + network))
    assert any("played item by item" in note for note in one_by_one["notes"])
    assert not any("played item by item" in note for note in at_once["notes"])
    policies = {at_once["policy"], *at_once["others"]}
    assert len(policies) > 3
    for key in ("rows", "phases", "winners", "use", "models"):
        first, second = at_once[key], one_by_one[key]
        if key == "rows":
            first, second = ([row for row in each if row["policy"] in policies] for each in (first, second))
        assert first == second, key


def test_what_never_comes_teaches_nobody(tmp_path: Path) -> None:
    """A label that is missing is not the same as one that is wrong: whatever stood there changes nothing."""
    rows, gone = some_rows(), set(random.Random(5).sample(range(ITEMS), 250))
    shown = result_of(play(tmp_path, without(rows, gone), "--json", network=VOTES))
    assert {"epsilon-greedy", "LinUCB", "previous label", "commonest label"} <= {row["policy"] for row in shown["rows"]}
    by_label = [row["label"] for n, row in enumerate(rows) if n not in gone]
    newest, wrong = None, 0  # as a reader of the stream would guess, label by label
    for n, row in enumerate(rows):
        known = n - 3
        newest = rows[known]["label"] if known >= 0 and known not in gone else newest
        wrong += n not in gone and row["label"] != (newest or "no")
    assert row_of(shown, "previous label")["error"] == pytest.approx(100 * wrong / len(by_label))
    alone = {model["model"]: model["alone"] for model in shown["models"]["here"]}
    right = sum(row["label"] == ("yes" if row["x"] > 0.5 else "no") for n, row in enumerate(rows) if n not in gone)
    assert alone["by-x"] == pytest.approx(right / len(by_label))


def test_training_rows_without_a_label_train_nobody(tmp_path: Path) -> None:
    network = NETWORK.replace('label = "label"', 'label = "label"\ntraining = 300')
    network = network.replace('"models:by_x"', '"tree"\ntrain = [0, 300]')
    network = network.replace('[[context]]\nkind = "previous_label"\n', "")
    rows, gone = some_rows(), set(range(0, 300, 2))
    shown = result_of(play(tmp_path, without(rows, gone), "--json", network=network))
    assert shown["unlabelled"] == 0
    assert [note for note in shown["notes"] if note.startswith("150 of 300 training rows have no label")]
    fewer = [row for n, row in enumerate(rows) if n not in gone]
    known = result_of(play(tmp_path, fewer, "--json", network=network.replace("300", "150")))
    assert shown["models"] == known["models"]  # as if they were not there
    assert row_of(shown, "AdaBoost") == row_of(known, "AdaBoost")
    done = play(tmp_path, without(rows, set(range(300))), network=network)
    assert done.returncode != 0
    assert "none of the rows 0 to 300 for training has a label" in " ".join(done.stderr.split())


def test_items_must_not_all_be_without_a_label(tmp_path: Path) -> None:
    network = NETWORK.replace('label = "label"', 'label = "label"\ntraining = 10')
    done = play(tmp_path, without(some_rows(20), set(range(10, 20))), network=network)
    assert done.returncode != 0
    assert "none of the 10 rows that arrive has a label" in " ".join(done.stderr.split())
