"""`cosend run` for somebody with some models, a recording and nothing else: no context, no peers, no policy."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.compiled

MODULE = """
from pathlib import Path

CALLS = Path(__file__).with_name("calls")

class Batches:
    "Fast for many items, slow for one: as most models are. It writes down how often it was asked."
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
ALSO_LEARNS = '[[sites.classifiers]]\nname = "learns"\nmodel = "models:learns"\n'
ALSO_VOTES = '[[sites.classifiers]]\nname = "together"\nmodel = "vote"\nover = ["by-x", "by-y"]\n'
BASELINES = {"best local", "best fixed", "oracle per cell", "epsilon-greedy", "LinUCB", "uniform random"}


def run(
    folder: Path, items: int, *more: str, network: str = NETWORK, module: str = MODULE
) -> subprocess.CompletedProcess[str]:
    """Write what a user has, and do as a user does."""
    draw = random.Random(1)
    lines = ["x,y,z,label"]
    for _ in range(items):
        x, y, z = draw.random(), draw.random(), draw.randrange(4)
        lines.append(f"{x:.4f},{y:.4f},{z},{'yes' if (x if z < 2 else y) > 0.5 else 'no'}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    (folder / "models.py").write_text(module)
    (folder / "network.toml").write_text(network)
    command = [sys.executable, "-m", "cosend.cli", "run", "network.toml", "--stream", "rows.csv", "--label", "label"]
    environment = {**os.environ, "COLUMNS": "120", "SOURCE_DATE_EPOCH": "86400"}
    return subprocess.run(  # noqa: S603 - our own
        [*command, *more], cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=300
    )


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_models_are_asked_once_about_every_row_and_in_batches(tmp_path: Path) -> None:
    shown = result_of(run(tmp_path, 3_000, "--json"))
    calls = [int(line) for line in (tmp_path / "calls").read_text().split()]
    assert sum(calls) == 2 * 3_000
    assert len(calls) <= 60  # and not one for every row, of every policy
    (own,) = [row for row in shown["rows"] if row["policy"] == "MixedViews"]
    assert own["error"] < 5  # it has found out which of the features says which model is right
    assert [note for note in shown["notes"] if "what here goes by" in note]


def test_where_no_terminal_is_lines_say_how_far_it_is(tmp_path: Path) -> None:
    slow = "import time\n\ndef slow(item):\n    time.sleep(0.002)\n    return 'yes'\n"
    network = NETWORK.replace("models:by_x", "models:slow")
    done = run(tmp_path, 3_000, "--json", network=network, module=MODULE + slow)
    told = [line for line in done.stderr.splitlines() if "of 3,000 rows" in line]
    assert [line for line in told if "by-x" in line]


def test_the_report_of_one_site_has_its_models_by_name_and_no_column_of_zeros(tmp_path: Path) -> None:
    done = run(tmp_path, 2_000)
    words = done.stdout
    assert "sent %" not in words
    cells = [line.split() for line in words.splitlines() if line.strip().startswith("by-")]
    by_name = {name: (float(share), float(paid)) for name, share, paid, *_ in cells}
    assert set(by_name) == {"by-x", "by-y"}
    (share_of_x, paid_for_x), (share_of_y, paid_for_y) = by_name["by-x"], by_name["by-y"]
    assert share_of_x + share_of_y == pytest.approx(100, abs=0.2)
    assert paid_for_x == 0.0
    assert paid_for_y == pytest.approx(0.01 * 2_000 * share_of_y / 100, abs=0.1)
    above, _, _ = words.partition("reward per item")
    assert "see only the time" in " ".join(above.split())  # before anybody compares
    page = (tmp_path / "out" / "run" / "report.html").read_text()
    assert "Sent %" not in page
    assert "<td>by-y</td>" in page
    assert page.index("see only the time") < page.index("<table")


def test_a_result_says_what_made_it_and_of_which_rows(tmp_path: Path) -> None:
    shown = result_of(run(tmp_path, 300, "--json", "--seed", "5"))
    assert shown["seeds"] == [5]
    command = "cosend run network.toml --stream rows.csv --label label --json --seed 5"
    assert shown["made"]["command"] == command
    assert shown["made"]["date"] == "1970-01-02T00:00:00+00:00"
    assert shown["made"]["version"]
    page = (tmp_path / "out" / "run" / "report.html").read_text()
    for each in (command, shown["made"]["date"], shown["made"]["version"], shown["data"][0][:16]):
        assert each in page
    assert json.loads((tmp_path / "out" / "run" / "results.json").read_text())["made"] == shown["made"]
    assert result_of(run(tmp_path, 300, "--json", "--seed", "6"))["data"] == shown["data"]
    assert result_of(run(tmp_path, 301, "--json"))["data"] != shown["data"]


def test_a_model_that_learns_is_not_starved_and_no_baseline_is_gone(tmp_path: Path) -> None:
    shown = result_of(run(tmp_path, 2_000, "--json", network=NETWORK + ALSO_LEARNS + ALSO_VOTES))
    assert {row["policy"] for row in shown["rows"]} >= BASELINES
    assert all(row["regret"] is not None for row in shown["rows"])
    rows = {row["model"]: row for row in shown["models"]["here"]}
    assert rows["learns"]["alone"] > 0.95  # which it reaches after 100 labels of any items
    assert max(rows, key=lambda name: rows[name]["share"]) == "learns"
    assert 0.5 < rows["together"]["alone"] < 1.0
    assert not [note for note in shown["notes"] if "item by item" in note]


def test_compiling_is_said_once_to_be_done_once(tmp_path: Path) -> None:
    """What another command needs is compiled later, and is not called the rules, or once, again."""
    told = []
    for n in range(2):
        code = (
            "import numba; from cosend.compiled import telling\n"
            f"with telling(print): numba.njit(lambda x: x + {n})(1); numba.njit(lambda x: x - 1)(1)\n"
            "with telling(print): numba.njit(lambda x: x + 7)(1)"
        )
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
        done = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        told += done.stdout.splitlines()
    assert len(told) == 2
    assert ["once" in line for line in told] == [True, False]
