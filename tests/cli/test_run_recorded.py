"""`cosend run` over somebody's models and recording: no context, no peers, no policy; and rows without a label."""

from __future__ import annotations

import json
import math
import random
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cosend.version import VERSION
from tests.cli.commands import called, refused, result_of

pytestmark = pytest.mark.compiled

MODULE = """
from pathlib import Path

CALLS = Path(__file__).with_name("calls")

class Batches:
    "Writes down how many items it was asked about at once."
    learns = False
    def __init__(self, name):
        self.name = name
    def predict(self, items):
        with CALLS.open("a") as file:
            file.write(f"{len(items)}\\n")
        return ["yes" if item[self.name] > 0.5 else "no" for item in items]
    def learn(self, item, label):
        pass

class Learns:
    "Knows nothing at first, and everything when it has seen enough labels."
    learns = True
    def __init__(self):
        self.labels = 0
    def predict(self, items):
        return [
            ("yes" if (item["x"] if item["z"] < 2 else item["y"]) > 0.5 else "no") if self.labels > 100 else "no"
            for item in items
        ]
    def learn(self, item, label):
        assert label in ("yes", "no")
        self.labels += 1

def by_x():
    return Batches("x")

def by_y():
    return Batches("y")

def learns():
    return Learns()
"""
NETWORK = """
seed = 3
TOP
[stream]
kind = "file"
path = "rows.FORM"
label = "label"
CONTEXT
[[sites]]
name = "here"
[[sites.classifiers]]
name = "by-x"
model = "models:by_x"
[[sites.classifiers]]
name = "by-y"
model = "models:by_y"
cost = 0.01
"""
AXES = '[[context]]\nfeature = "z"\nrange = [0, 4]\n[[context]]\nkind = "previous_label"\n'
LATE = NETWORK.replace("TOP", "label_delay = 3").replace("CONTEXT", AXES)
LATE_TRAINED = LATE.replace('label = "label"', 'label = "label"\ntraining = 300')
SAYS_YES = (
    '[[sites]]\nname = "there"\nlearnt = false\nclassifiers = [{name = "says-yes", model = "always", label = "yes"}]\n'
)
MORE = '[[sites.classifiers]]\nname = "learns"\nmodel = "models:learns"\n'
ITEMS = 600
BASELINES = {"best single model", "oracle", "epsilon-greedy", "LinUCB", "uniform random"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def some_rows(count: int = ITEMS) -> list[dict[str, Any]]:
    draw = random.Random(1)
    rows = []
    for _ in range(count):
        row = {"x": round(draw.random(), 3), "y": round(draw.random(), 3), "z": draw.randrange(4)}
        rows.append(row | {"label": "yes" if (row["x"] if row["z"] < 2 else row["y"]) > 0.5 else "no"})
    return rows


def without(rows: list[dict[str, Any]], gone: set[int], missing: Any = None) -> list[dict[str, Any]]:
    return [row | {"label": missing} if n in gone else row for n, row in enumerate(rows)]


def write(rows: list[dict[str, Any]], network: str = NETWORK, form: str = "jsonl", module: str = MODULE) -> str:
    """Write what a user has, and return the name of the network file."""
    file = Path(f"rows.{form}")
    if form == "csv":
        lines = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
        file.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    elif form == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), file)
    Path("models.py").write_text(module)
    Path("network.toml").write_text(network.replace("FORM", form).replace("TOP\n", "").replace("CONTEXT\n", ""))
    return "network.toml"


def nothing_learnt(network: str) -> str:
    return network.replace('name = "here"\n', 'name = "here"\nlearnt = false\n')


def row_of(result: dict[str, Any], policy: str) -> dict[str, Any]:
    (row,) = [row for row in result["rows"] if (row["policy"], row["site"]) == (policy, "here")]
    return dict(row)


def test_models_are_asked_once_about_every_row_in_batches_and_lines_show_how_far_it_is(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("cosend.cli.run"), "SILENCE_S", 0.0)
    done = called("run", write(some_rows(3_000)), "--json")
    assert "by-x, 256 of 3,000 rows" in done.stderr  # where there is no terminal
    assert "routing: 3,000 of 3,000 items, error rate " in done.stderr
    assert done.stderr.index("routing: ") < done.stderr.index("comparison with: CoS")
    shown = json.loads(done.stdout)
    calls = [int(line) for line in (here / "calls").read_text().split()]
    assert sum(calls) == 2 * 3_000
    assert len(calls) <= 60  # and not one for every row, of every policy
    assert row_of(shown, "MixedViews")["error"] < 5  # it has found which feature says which model is right
    assert [note for note in shown["notes"] if "most weight at here: " in note]


def test_the_report_of_one_site_has_its_models_by_name_what_made_it_and_no_column_of_zeros(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["cosend", "run", "x.toml"])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    words = called("run", write(some_rows(2_000)), columns=120).stdout
    assert "sent %" not in words
    names = ["by-x", "by-y", "grown", "stack"]
    cells = [line.split() for line in words.splitlines() if line.strip().startswith(tuple(names))]
    by_name = {name: (float(share), float(paid)) for name, share, paid, *_ in cells}
    assert sorted(by_name) == names
    assert sum(share for share, _ in by_name.values()) == pytest.approx(100, abs=0.2)
    assert {paid for name, (_, paid) in by_name.items() if name != "by-y"} == {0.0}
    share_of_y, paid_for_y = by_name["by-y"]
    assert paid_for_y == pytest.approx(0.01 * 2_000 * share_of_y / 100, abs=0.1)
    above, _, _ = words.partition("reward per item")
    assert "see only the time" in " ".join(above.split())  # before anybody compares
    page = (here / "out" / "run" / "report.html").read_text()
    kept = json.loads((here / "out" / "run" / "results.json").read_text())
    files = {"network file": "network.toml", "recorded data": "rows.jsonl"}
    made = {"version": VERSION, "date": "1970-01-02T00:00:00+00:00", "command": "cosend run x.toml"}
    assert kept["made"] == made | files
    for each in (*kept["made"].values(), kept["data"][0][:16]):
        assert each in page
    assert "Sent %" not in page
    assert "<td>by-y</td>" in page
    assert page.index("see only the time") < page.index("<table")


def test_one_recording_played_several_times_says_so_and_has_no_intervals(here: Path) -> None:
    shown = called("run", write(some_rows(), LATE), "--seeds", "3", columns=120).stdout
    page = (here / "out" / "run" / "report.html").read_text()
    once = called("run", write(some_rows(), LATE)).stdout
    one_page = (here / "out" / "run" / "report.html").read_text()
    for words in (shown, page):
        assert "The same recording was played 3 times with different random draws" in " ".join(words.split())
        assert not re.search(
            "tied|streams|\N{PLUS-MINUS SIGN}|&plusmn;|stream of", words[words.index("Routing earns") :]
        )
    assert "The same recording was played" not in once + one_page
    assert "adds intervals" not in page + one_page
    assert "This is one recording: other data may give other rewards." in one_page


def test_a_context_that_hides_features_from_learnt_arms_is_noted(here: Path) -> None:
    """They see the context only; who names no context, or all features, or learns nothing, reads nothing of it."""
    hidden = 'Learnt arms see only the context (z, previous label); add kind = "features" to show them all features.'
    shown = called("run", write(some_rows(), LATE)).stdout
    assert shown.index("reward per item") < shown.index(hidden)
    page = (here / "out" / "run" / "report.html").read_text()
    assert page.index("<table") < page.index("Learnt arms see only the context") < page.index("Reward over time</h2>")
    every = LATE.replace("[[sites]]", '[[context]]\nkind = "features"\n[[sites]]', 1)
    for network in (NETWORK, every, nothing_learnt(LATE)):
        assert "earnt arms see" not in called("run", write(some_rows(), network)).stdout


def test_the_report_of_one_site_has_its_name_that_of_its_best_model_and_its_use_at_all_times(here: Path) -> None:
    shown = called("run", write(some_rows()), columns=300).stdout
    found = json.loads((here / "out" / "run" / "results.json").read_text())
    alone = {row["model"]: row["alone"] for row in found["models"]["here"] if not row["learnt"]}
    best = max(alone, key=lambda name: alone[name])
    assert f"the best single model, {best} ({alone[best]:.3f})" in shown
    (without,) = [row["mean_reward"] for row in found["overall"] if row["policy"] == "no learnt arms"]
    assert f"MixedViews, the default; without learnt arms it earns {without:.3f}." in shown
    assert "best of your models in each stretch of time." in shown
    assert found["title"] == "here"
    used = found["use"]["here"]
    assert sum(map(sum, used["counts"])) == ITEMS
    assert [cell for (cell,) in used["cells"]] == list(range(found["axes"][0]["bins"]))
    assert "no items" not in (here / "out" / "run" / "report.html").read_text()
    write(some_rows(), 'title = "Ours"\n' + NETWORK)
    assert result_of("network.toml")["title"] == "Ours"


@pytest.mark.parametrize("learnt", [True, False])
def test_a_model_that_learns_is_not_starved_and_no_baseline_is_gone(learnt: bool) -> None:
    network = NETWORK if learnt else nothing_learnt(NETWORK)
    shown = result_of(write(some_rows(2_000), network + MORE))
    assert {row["policy"] for row in shown["rows"]} >= BASELINES
    assert all(row["regret"] is not None for row in shown["rows"])
    rows = {row["model"]: row for row in shown["models"]["here"]}
    assert rows["learns"]["alone"] > 0.94  # which it reaches after 100 labels of any items
    assert max(rows, key=lambda name: rows[name]["share"]) == "learns"
    assert ("grown" in rows) == ("stack" in rows) == learnt
    assert not [note for note in shown["notes"] if "item by item" in note]


# Rows without a label: they are decided, and count in no error and no reward


@pytest.mark.parametrize(("form", "missing"), [("csv", None), ("jsonl", math.nan), ("parquet", None)])
def test_rows_without_a_label_are_counted_and_said(here: Path, form: str, missing: Any) -> None:
    """Models say 0 and 1: labels that had become 0.0 and 1.0, or text, would be other labels in other formats."""
    rows = [row | {"label": int(row["label"] == "yes")} for row in some_rows(100)]
    network = LATE.replace('"models:by_x"', '"always"\nlabel = 1').replace('"models:by_y"', '"always"\nlabel = 0')
    done = called("run", write(without(rows, {0, 50}, missing), network, form))
    assert done.exit_code == 0, done.output
    assert " ".join(done.stdout.split()).count("2 of 100 items have no label") == 1
    assert (here / "out" / "run" / "report.html").read_text().count("2 of 100 items have no label") == 1
    kept = json.loads((here / "out" / "run" / "results.json").read_text())
    assert (kept["items"], kept["unlabelled"]) == (100, 2)
    ones = sum(row["label"] for n, row in enumerate(rows) if n not in (0, 50))
    assert row_of(kept, "best single model")["error"] == pytest.approx(100 * min(ones, 98 - ones) / 98)


def test_an_unknown_label_counts_nowhere() -> None:
    """Models that are right wherever the label is known have no error and no regret."""
    rows = [row | {"label": "yes" if row["x"] > 0.5 else "no"} for row in some_rows()]
    shown = result_of(write(without(rows, set(range(0, ITEMS, 3))), LATE))
    best = row_of(shown, "best single model")
    assert (best["error"], best["mean_reward"], best["cost"]) == (0.0, 1.0, 0.0)
    assert row_of(shown, "oracle")["error"] == 0.0
    model, *_ = shown["models"]["here"]
    assert (model["error"], model["alone"]) == (0.0, 1.0)
    assert all(max(curve["error"]) <= 100 for curve in shown["curves"].values())
    assert set(shown["error_curves"]["best single model"]["error"]) == {0.0}


def test_compiled_and_real_sites_decide_the_same() -> None:
    """Real sites leave such a decision waiting; the simulation must not learn from it either, not at the end."""
    rows = without(some_rows(300), set(random.Random(2).sample(range(300), 100)))
    network = nothing_learnt(LATE + SAYS_YES)
    at_once = result_of(write(rows, network))
    one_by_one = result_of(write(rows, "strict_labels = true\n" + network))
    assert any("played item by item" in note for note in one_by_one["notes"])
    assert not any("played item by item" in note for note in at_once["notes"])
    policies = {at_once["policy"], *at_once["others"]}
    assert len(policies) > 3
    for key in ("rows", "phases", "winners", "use", "models"):
        first, second = at_once[key], one_by_one[key]
        if key == "rows":
            first, second = ([row for row in each if row["policy"] in policies] for each in (first, second))
        assert first == second, key


def test_a_missing_label_teaches_nobody() -> None:
    """A label that is missing is not the same as one that is wrong: whatever stood there changes nothing."""
    rows, gone = some_rows(), set(random.Random(5).sample(range(ITEMS), 250))
    shown = result_of(write(without(rows, gone), LATE + MORE))
    assert {"epsilon-greedy", "LinUCB", "previous label", "commonest label"} <= {row["policy"] for row in shown["rows"]}
    newest, wrong = None, 0  # as a reader of the stream would guess, label by label
    for n, row in enumerate(rows):
        known = n - 3
        newest = rows[known]["label"] if known >= 0 and known not in gone else newest
        wrong += n not in gone and row["label"] != (newest or "no")
    assert row_of(shown, "previous label")["error"] == pytest.approx(100 * wrong / 350)
    alone = {model["model"]: model["alone"] for model in shown["models"]["here"]}
    right = sum(row["label"] == ("yes" if row["x"] > 0.5 else "no") for n, row in enumerate(rows) if n not in gone)
    assert alone["by-x"] == pytest.approx(right / 350)


def test_training_rows_without_a_label_train_nobody() -> None:
    network = LATE_TRAINED.replace('"models:by_x"', '"tree"\ntrain = [0, 300]')
    network = network.replace('[[context]]\nkind = "previous_label"\n', "")
    rows, gone = some_rows(), set(range(0, 300, 2))
    shown = result_of(write(without(rows, gone), network))
    assert shown["unlabelled"] == 0
    assert [note for note in shown["notes"] if note.startswith("150 of 300 training rows have no label")]
    fewer = [row for n, row in enumerate(rows) if n not in gone]
    known = result_of(write(fewer, network.replace("300", "150")))
    assert shown["models"] == known["models"]  # as if they were not there
    assert row_of(shown, "AdaBoost") == row_of(known, "AdaBoost")
    said = refused("run", write(without(rows, set(range(300))), network))
    assert "none of the rows 0 to 300 for training has a label" in said
    said = refused("run", write(without(some_rows(20), set(range(10, 20))), LATE_TRAINED.replace("300", "10")))
    assert "none of the 10 rows that arrive has a label" in said
