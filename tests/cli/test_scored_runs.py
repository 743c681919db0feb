"""`cosend run` where the recording has scores in place of labels, rewards, and prices; and `cosend teach`."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from cosend.config.network_file import load
from tests.cli.commands import called, refused, result_of
from tests.cli.serving import served, write_network

pytestmark = pytest.mark.compiled

HEAD = """
[costs]
unit = 0.02
currency = "USD"
[reward]
range = [0, 10]
[[context]]
feature = "age"
range = [0, 100]
"""
SITE = """
[[sites]]
name = "north"
[[sites.classifiers]]
name = "young"
model = "MODEL young"
[[sites.classifiers]]
name = "old"
model = "MODEL old"
price = 0.001
"""
SCORED = (HEAD + SITE).replace("MODEL young", "score:young").replace("MODEL old", "score:old")
DEPLOYED = (HEAD + SITE).replace("MODEL young", "models:young").replace("MODEL old", "models:old")


def write_log(folder: Path, rows: int = 300, *, holes: bool = False) -> Path:
    """Write a recording: an age, what each model has earned, which one was used, how likely that was, and the truth."""
    draw, file = random.Random(1), folder / "log.csv"
    lines = ["age,young,old,who,worth,likely,state"]
    for n in range(rows):
        age = draw.randrange(100)
        young, old = 9 - age // 12, 2 + age // 14
        used = draw.choice(["young", "old"])
        worth = "" if holes and n % 10 == 9 else young if used == "young" else old
        lines.append(f"{age},{young},{old},{used},{worth},0.5,{'ill' if age < 30 else ''}")
    file.write_text("\n".join([*lines, ""]))
    return file


def test_a_recording_of_scores_is_played_and_nothing_in_it_is_an_error(tmp_path: Path) -> None:
    file, log = write_network(tmp_path, SCORED), write_log(tmp_path)
    out = tmp_path / "out"
    result = result_of(file, "--stream", log, "--out", out)
    assert (result["known_by"], result["money"]) == ("score", {"unit": 0.02, "currency": "USD"})
    rows = {row["policy"]: row for row in result["overall"]}
    assert all(row["error"] is None and 3 < row["score"] < 10 for row in rows.values())  # in the units of the file
    for row in result["rows"]:
        assert row["mean_reward"] == pytest.approx(row["score"] / 10 - row["cost"] / 300)
    assert rows["MixedViews"]["mean_reward"] > rows["best single model"]["mean_reward"] - 0.05
    assert {"previous label", "commonest label"}.isdisjoint(rows)
    said = called("run", file, "--stream", log, "--out", out)
    assert "mean score" in said.output
    assert "as a fraction of the range from 0 to 10" in " ".join(said.output.split())
    assert "cost USD" in said.output
    page = (out / "report.html").read_text()
    for text in (said.output, page):
        assert not re.search(r"error|label|accura|correct", re.sub(r"<(svg|style).*?</\1>", "", text, flags=re.DOTALL))
    assert (out / "plots" / "score.svg").exists()
    assert "Total cost USD" in page


def test_what_was_spent_of_a_budget_is_said_and_a_recording_has_no_clock(tmp_path: Path) -> None:
    text, log = "[budget]\nper_item = 0.0003\n" + SCORED, write_log(tmp_path)
    result = result_of(write_network(tmp_path, text), "--stream", log, "--out", tmp_path / "out")
    assert any("budget of 0.0003 USD per item: spent" in note for note in result["notes"])
    paid = sum(model["cost"] for model in result["models"]["north"])
    assert paid * 0.02 <= 300 * 0.0003 * 1.1
    timed = write_network(tmp_path, text.replace("per_item", "per_hour"))
    assert "a recording is played: it has no clock" in refused("run", timed, "--stream", log, "--out", tmp_path / "out")


def test_a_recording_is_played_within_a_total_and_says_so_if_nobody_is_left_who_may_answer(tmp_path: Path) -> None:
    text, log, out = "[budget]\ntotal = 0.02\n" + SCORED, write_log(tmp_path), tmp_path / "out"
    result = result_of(write_network(tmp_path, text), "--stream", log, "--out", out)
    assert any("budget of 0.02 USD in total: spent 0.02 USD" in note for note in result["notes"])
    assert sum(model["cost"] for model in result["models"]["north"]) * 0.02 == pytest.approx(0.02)
    priced = text.replace('score:young"', 'score:young"\nprice = 0.001')
    said = refused("run", write_network(tmp_path, priced), "--stream", log, "--out", out)
    assert "no arm of site 'north' could label the item: young: the budget is spent; old: the budget is spent" in said


def test_a_category_is_played_by_real_sites_with_the_same_scores(tmp_path: Path) -> None:
    text = SCORED.replace('feature = "age"\nrange = [0, 100]', 'kind = "category"\nfeature = "who"')
    result = result_of(write_network(tmp_path, text), "--stream", write_log(tmp_path), "--out", tmp_path / "out")
    assert "played item by item" in result["notes"][0]
    rows = {row["policy"]: row for row in result["overall"]}
    assert 3 < rows["MixedViews"]["score"] < 9


def test_models_of_a_file_may_be_replaced_by_their_scores(tmp_path: Path) -> None:
    file, log = write_network(tmp_path, DEPLOYED), write_log(tmp_path)
    scores = ["--score", "young=young", "--score", "old=old"]
    played = result_of(file, "--stream", log, *scores, "--out", tmp_path / "a")
    same = result_of(write_network(tmp_path, SCORED), "--stream", log, "--out", tmp_path / "b")
    assert played["overall"] == same["overall"]
    write_network(tmp_path, DEPLOYED)
    assert called("validate", file, "--stream", log, *scores).exit_code == 0
    for given, words in (
        (["--score", "young"], "--score must be ARM=COLUMN, as in small=small_score, got 'young'"),
        (["--score", "nobody=young"], "ARM=COLUMN with one of the classifiers 'young', 'old'"),
        (["--score", "young=young"], "must be score:COLUMN where another has scores"),
        ([*scores, "--label", "state"], "a stream has labels or scores"),
        ([], "the column with the true labels; or --score ARM=COLUMN for every classifier"),
    ):
        assert words in refused("run", file, "--stream", log, *given)
    assert "given with --stream FILE" in refused("run", file, *scores)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("score:young", "score:nothing", "no such context column"),
        ("score:young", "score:who", "its column has text, scores are numbers"),
        ("range = [0, 10]", "range = [0, 5]", "scores from 1 to 9, allowed is 0 to 5; [reward] range"),
    ],
)
def test_what_is_wrong_with_a_column_of_scores_is_said(tmp_path: Path, old: str, new: str, words: str) -> None:
    file = write_network(tmp_path, SCORED.replace(old, new))
    said = refused("run", file, "--stream", write_log(tmp_path))
    assert words in said
    assert "sites.1.classifiers.1.model" in said or new.startswith("range")


REWARDS = """
def gain(label, truth):
    return 0.25
def one(label):
    return 0.25
"""


@pytest.mark.parametrize(
    ("reward", "gain"),
    [
        ('function = "models:gain"', 0.25),
        ('confusions = [{truth = "ill", said = "well", cost = 0.5}, {truth = "well", said = "ill", cost = 0.5}]', 0.5),
    ],
)
def test_what_answers_are_worth_is_what_policies_earn(tmp_path: Path, reward: str, gain: float) -> None:
    wrong = "def young(item):\n    return 'well' if item['age'] < 30 else 'ill'\nold = young\n"
    text = DEPLOYED.replace("range = [0, 10]", reward).replace("price = 0.001", "")
    file = write_network(tmp_path, text, wrong + REWARDS)
    result = result_of(file, "--stream", write_log(tmp_path), "--label", "state", "--out", tmp_path / "out")
    assert any("truth: 'well' never occurs" in note for note in result["notes"]) != ("function" in reward)
    rows = {row["policy"]: row for row in result["overall"]}
    assert (rows["best single model"]["error"], rows["best single model"]["mean_reward"]) == (
        100.0,
        pytest.approx(gain),
    )
    assert rows["commonest label"]["mean_reward"] == pytest.approx(0.25 if "function" in reward else 1.0)


def test_a_function_that_takes_one_argument_is_no_reward(tmp_path: Path) -> None:
    text = DEPLOYED.replace("range = [0, 10]", 'function = "models:one"')
    file = write_network(tmp_path, text, "young = old = lambda item: 'ill'\n" + REWARDS)
    said = refused("run", file, "--stream", write_log(tmp_path), "--label", "state")
    assert "reward.function: 'models:one': it is not a function of two arguments" in said


def test_prices_become_costs_and_stay_so(tmp_path: Path) -> None:
    network, _ = load(write_network(tmp_path, DEPLOYED.replace("[costs]", "call_price = 0.002\n[costs]")))
    assert (network.call_cost, network.sites[0].classifiers[1].cost, network.mistakes()) == (0.1, 0.05, [])


# Teaching


def summary(folder: Path) -> dict[str, Any]:
    done = called("export", folder, "--events")
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert called("verify", folder).exit_code == 0
    return {"truths": [t for line in lines if line["event"] == "Labelled" for t in line["truths"]]}


def test_a_stopped_site_is_taught_and_goes_on_from_there(tmp_path: Path) -> None:
    file, log, store = write_network(tmp_path, DEPLOYED), write_log(tmp_path), tmp_path / "store" / "north"
    done = called("teach", file, "--stream", log, "--label", "state")
    assert done.exit_code == 0, done.output
    assert "site north has learnt from 97 of 300 rows, 203 skipped" in done.output.replace("\n", " ")
    assert summary(store)["truths"] == ["ill"] * 97
    write_log(tmp_path, holes=True)
    done = called("teach", file, "--stream", log, "--arm", "who", "--score", "worth", "--propensity", "likely")
    assert "site north has learnt from 270 of 300 rows, 30 skipped" in done.output.replace("\n", " ")
    assert summary(store)["truths"].count(None) == 270
    lines = json.dumps({"features": {"age": 90}}) + "\n"
    answer = json.loads(CliRunner().invoke(app, ["classify", str(file)], input=lines).stdout)
    assert answer["id"] == "d-368"


def test_what_is_wrong_with_teaching_is_said_and_nothing_is_learnt(tmp_path: Path) -> None:
    file, log = write_network(tmp_path, DEPLOYED), write_log(tmp_path)
    for given, words in (
        ([], "--label must be given, unless --arm"),
        (["--label", "state", "--arm", "who", "--score", "worth"], "--label must be given, unless --arm"),
        (["--arm", "who"], "--score must be given together with --arm"),
        (["--label", "state", "--propensity", "likely"], "--propensity must be given together with --arm"),
        (["--label", "nothing"], "no such label column"),
        (["--arm", "age", "--score", "worth"], "has no local arm"),
        (["--arm", "who", "--score", "worth", "--propensity", "age"], "above 0 and at most 1"),
        (["--label", "state", "--site-column", "who"], "no row belongs to site 'north'"),
        (["--arm", "who", "--score", "worth", "--site-column", "likely"], "no row belongs to site 'north'"),
    ):
        assert words in refused("teach", file, "--stream", log, *given), given
    text = DEPLOYED.replace("range = [0, 10]", "range = [0, 8]")
    said = refused("teach", write_network(tmp_path, text), "--stream", log, "--arm", "who", "--score", "worth")
    assert "of the log must be a number from 0 to 8, got 9" in said
    assert called("verify", tmp_path / "store" / "north").output.count("0 items") == 1


def test_only_the_rows_of_a_site_teach_it_and_a_site_that_runs_is_not_taught(tmp_path: Path) -> None:
    file, log = write_network(tmp_path, DEPLOYED), write_log(tmp_path, 40)
    log.write_text(log.read_text().replace("likely", "where").replace("0.5", "north", 15).replace("0.5", "south"))
    given = ["--arm", "who", "--score", "worth", "--site-column", "where"]
    assert "of 15 rows" in called("teach", file, "--stream", log, *given).output.replace("\n", " ")
    with served(tmp_path, "--site", "north") as service:
        service.wait_until_ready()
        assert "in use by another process, which must stop first" in refused("teach", file, "--stream", log, *given)
