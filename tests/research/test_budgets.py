"""A router within budgets: what is read, what is played, and what the guide says of it."""

from __future__ import annotations

import gzip
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from research.__main__ import app
from research.budgets import Settings
from typer.testing import CliRunner

from cosend.errors import SettingError
from research import budgets

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT.parent / "shared" / "data" / "paretobandit"
needs_recordings = pytest.mark.skipif(not (RECORDINGS / "budgets.json").exists(), reason="the recordings are not here")


def write_recordings(folder: Path, prompts: int = 450) -> None:
    """Write two recordings in which the dear model knows the answers to long prompts."""
    draw = random.Random(1)
    for name in budgets.NAMES:
        with gzip.open(folder / f"{name}.jsonl.gz", "wt") as file:
            for n in range(prompts):
                words = draw.randrange(1, 40)
                earned = {"cheap": 0.9 if words < 20 else 0.3, "dear": 0.9, "new": 0.6}
                paid = {"cheap": 0.001, "dear": 0.02 * draw.uniform(0.5, 1.5), "new": 0.004}
                arms = {each: {"reward": earned[each], "cost": paid[each]} for each in earned if n or each != "new"}
                file.write(
                    json.dumps({"prompt": f"topic{n % 30} " + "word " * words, "source": "here", "arms": arms}) + "\n"
                )
    (folder / "budgets.json").write_text(json.dumps({"per_item_usd": [0.001, 0.005, 0.05]}))


def test_everything_is_played_and_shown(tmp_path: Path) -> None:
    write_recordings(tmp_path)
    out = tmp_path / "out"
    options = ["--data", str(tmp_path), "--out", str(out), "--seeds", "1", "--items", "440"]
    said = CliRunner().invoke(app, ["budgets", *options])
    assert said.exit_code == 0, said.output
    found = json.loads((out / "results.json").read_text())["rows"]
    assert {(row["recording"], row["event"]) for row in found} == {
        (n, e) for n in budgets.NAMES for e in budgets.EVENTS
    }
    within = [row for row in found if row["budget"] == 0.005 and not row["event"]]
    assert all(row["most_spent"] <= 1.1 and 0.3 < row["score"] <= 0.9 for row in within)
    assert "0.001 " not in (out / "tables.md").read_text()  # nothing to decide there
    assert "## val, loss" in (out / "tables.md").read_text()


def test_paretobandit_routes_the_same_prompts_within_the_same_budgets(tmp_path: Path) -> None:
    pytest.importorskip("pareto_bandit")
    write_recordings(tmp_path)
    out = tmp_path / "out"
    options = ["--data", str(tmp_path), "--out", str(out), "--seeds", "1", "--items", "440", "--field"]
    said = CliRunner().invoke(app, ["budgets", *options])
    assert said.exit_code == 0, said.output
    found = json.loads((out / "results.json").read_text())["rows"]
    fields = {(row["recording"], row["event"], row["budget"]): row["field"] for row in found}
    assert len(fields) == len(found)
    assert 0.6 < fields["val", "", 0.05]["score"] <= 0.9
    assert fields["val", "", 0.005]["spent"] <= 1.3
    assert fields["val", "loss", 0.05]["score"] != fields["val", "", 0.05]["score"]
    assert "ParetoBandit" in (out / "tables.md").read_text()


def test_a_router_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pareto_bandit", None)
    write_recordings(tmp_path)
    options = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--seeds", "1", "--items", "50", "--field"]
    said = CliRunner().invoke(app, ["budgets", *options])
    assert said.exit_code != 0
    assert "the router of ParetoBandit is not installed" in " ".join(said.output.split())


def test_texts_lie_apart_where_their_words_differ() -> None:
    vectors = budgets.vectors_of(["the cat sat"] * 20 + ["a dog ran far"] * 20 + [f"word{n}" for n in range(30)])
    assert vectors.shape == (70, budgets.DIRECTIONS + 1)
    assert (vectors[:, -1] == 1.0).all()
    assert np.abs(vectors).max() <= budgets.FARTHEST
    assert np.abs(vectors[0] - vectors[19]).max() < 1e-6 < 1.0 < np.abs(vectors[0] - vectors[20]).max()


def test_a_mixture_spends_what_it_may_on_the_best_two() -> None:
    scores, dollars = [0.5, 0.9, 0.6], [1.0, 3.0, 4.0]
    assert budgets.best_mixture(2.0, scores, dollars) == pytest.approx(0.7)
    assert budgets.best_mixture(9.0, scores, dollars) == 0.9
    assert budgets.best_mixture(0.5, scores, dollars) == 0.5


def test_the_best_single_model_fits_the_budget_and_the_oracle_spends_it_where_it_pays_most() -> None:
    scores, dollars = np.array([[0.5, 0.9], [0.5, 0.6], [0.5, 0.5]]), np.array([[1.0, 4.0]] * 3)
    assert budgets.best_single(2.0, scores.mean(0).tolist(), dollars.mean(0).tolist()) == 0.5
    assert budgets.best_single(None, scores.mean(0).tolist(), dollars.mean(0).tolist()) == pytest.approx(2 / 3)
    assert budgets.best_known(2.0, scores, dollars) == pytest.approx((0.9 + 0.5 + 0.5) / 3)
    assert budgets.best_known(None, scores, dollars) == pytest.approx(2 / 3)
    assert budgets.best_known(0.5, scores, dollars) == 0.5  # nothing is cheap enough


@pytest.mark.parametrize("options", [{"orders": 0}, {"names": ("nothing",)}, {"events": ("fire",)}])
def test_settings_that_are_wrong_are_refused(options: Any) -> None:
    with pytest.raises(SettingError):
        Settings(**options)


@pytest.mark.claims
@needs_recordings
@pytest.mark.parametrize("name", budgets.NAMES)
def test_a_router_spends_what_it_may_and_is_as_good_as_the_best_mixture(name: str) -> None:
    found = list(budgets.rows(Settings(names=(name,), events=("",)), RECORDINGS, lambda *_: None))
    *within, without = found
    tightest = min(row["budget"] for row in within)
    assert len(within) == 6
    for row in within:
        assert row["most_spent"] <= (1.1 if row["budget"] == tightest else 1.02), row
        assert row["beside_mixture"] >= -0.005, row
    assert within[-1]["score"] >= without["score"] - 0.002


@pytest.mark.claims
@needs_recordings
def test_a_price_cut_and_a_new_model_are_used_after_200_prompts() -> None:
    found = list(budgets.rows(Settings(events=("cut", "new")), RECORDINGS, lambda *_: None))
    assert all(row["most_spent"] <= 1.1 and row["beside_mixture"] >= -0.005 for row in found), found
