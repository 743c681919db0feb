"""A network played compiled is the same network played through real sites, and what a run comes to adds up."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cosend.algorithm.layout import EXPLORE, TRAIN
from cosend.cli.main import app
from cosend.config.network_file import load
from cosend.run.play import Outcome, play
from cosend.run.prepare import Prepared, prepare
from cosend.run.result import result
from cosend.streams.traffic import traffic
from tests.policies import mostly_claims

pytestmark = pytest.mark.compiled

SITES = """
[[sites]]
name = "north"
learnt = false
[[sites.classifiers]]
name = "bayes"
model = "naive_bayes"
train = [0, 250]
cost = 0.05
[[sites.classifiers]]
name = "stump"
model = "tree"
train = [100, 130]
features = ["flag", "logged_in"]

[[sites]]
name = "east"
learnt = false
[[sites.classifiers]]
name = "alarm"
model = "always"
label = "attack"

[[sites]]
name = "south"
learnt = false
[[sites.classifiers]]
name = "logit"
model = "logistic"
train = [0, 600]
features = ["src_bytes", "count"]
[[sites.classifiers]]
name = "wild"
model = "random_tree"
train = [0, 60]
cost = 0.01
"""
TRAFFIC = 'kind = "traffic"\nitems = 300\ntraining = 600'
PREVIOUS = 'kind = "previous_label"'
LOG = 'feature = "count"\nscale = "log"\nrange = [0, 600]'
RANK = 'feature = "src_bytes"\nscale = "rank"'
CONTEXTS = {
    "previous_label": [PREVIOUS],
    "log": [LOG],
    "rank": [RANK],
    "time": ['kind = "time"'],
    "two axes": [PREVIOUS, RANK],
}
PLAIN = 'name = "CoS"\nslices = 2\nexploration_exponent = 0.125'
TRAINING = PLAIN.replace("0.125", "0.2") + '\norder = "train_first"\ntraining_count = "own_and_mine"'
POLICIES = {
    "plain": PLAIN,
    "none": "",
    "derived": 'name = "CoS"',
    "training": TRAINING,
    "training, two functions": f"{TRAINING}\nmax_peer_functions = 2",
    "sharing": f'{TRAINING}\nmax_peer_functions = 2\nshare_labels = "always"',
    "random order": f'{PLAIN}\norder = "random"\nmax_peer_functions = 2',
    "CoS, horizon unknown": 'name = "CoS"\nhorizon = "unknown"',
    "Zooming": 'name = "Zooming"',
    "ZoomingKLUCB": 'name = "ZoomingKLUCB"\nlipschitz = 5',
}


def prepared_of(
    folder: Path, *, context: Sequence[str] = (PREVIOUS,), policy: str = PLAIN, delay: int = 1, stream: str = TRAFFIC
) -> Prepared:
    axes = "".join(f"[[context]]\n{axis}\n" for axis in context)
    table = f"[policy]\n{policy}\n" if policy else ""
    file = folder / "network.toml"
    file.write_text(f"seed = 4\ncall_cost = 0.02\nlabel_delay = {delay}\n[stream]\n{stream}\n{axes}{table}{SITES}")
    return prepare(*load(file))


def site_file(folder: Path) -> str:
    """Write a file whose rows say where they arrive, many in the north and few in the south; return the stream."""
    table = traffic(900, seed=2)
    sites = np.random.default_rng(1).choice(["north", "east", "south"], 900, p=[0.6, 0.3, 0.1])
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*table.features, "verdict", "where"])
        for (item, label), site in zip(table.rows(), sites.tolist(), strict=True):
            writer.writerow([*item.values(), label, site])
    return 'kind = "file"\npath = "rows.csv"\nlabel = "verdict"\nsite = "where"\nitems = 300\ntraining = 600'


def check_same(prepared: Prepared) -> Outcome:
    """Check that the compiled simulation and real sites decide the same, and come to the same; return what they did."""
    assert prepared.one_by_one == []
    assert not any(site.learnt is not False for site in prepared.network.sites)  # real sites play what these learn
    compiled = play(prepared)
    lived = play(prepared._replace(one_by_one=["a test wants it"]))
    assert [*map(list, lived.first.arms)] == [*map(list, compiled.first.arms)]
    played = [each for each in compiled.played if each.policy != "local only"]  # which is left out item by item
    assert len(lived.played) == len(played)
    for ours, theirs in zip(lived.played, played, strict=True):
        assert (ours.policy, ours.site) == (theirs.policy, theirs.site)
        for one, two in zip(ours[2:], theirs[2:], strict=True):
            assert np.array_equal(np.asarray(one), np.asarray(two)), ours.policy
    for ours_, theirs_ in zip(lived.first.learners, compiled.first.learners, strict=True):
        assert ours_.cells() == theirs_.cells()
    return compiled


@pytest.mark.parametrize("context", CONTEXTS)
def test_compiled_equals_real_sites(tmp_path: Path, context: str) -> None:
    check_same(prepared_of(tmp_path, context=CONTEXTS[context], delay=3))


@pytest.mark.parametrize("policy", mostly_claims(POLICIES, ("sharing", "time as an axis", "CoS, horizon unknown")))
def test_compiled_equals_real_sites_under_every_policy(tmp_path: Path, policy: str) -> None:
    outcome = check_same(prepared_of(tmp_path, context=[PREVIOUS, LOG], policy=POLICIES[policy], delay=2))
    assert "training" not in policy or any((phases == TRAIN).any() for phases in outcome.first.phases)


def test_compiled_equals_real_sites_when_rows_say_where_they_arrive(tmp_path: Path) -> None:
    prepared = prepared_of(
        tmp_path, context=CONTEXTS["two axes"], policy=POLICIES["sharing"], stream=site_file(tmp_path)
    )
    check_same(prepared)
    counts = (prepared.arrivals >= 0).sum(axis=0).tolist()
    assert sum(counts) == 300
    assert counts[0] > counts[1] > counts[2] > 0


def test_the_summary_has_a_row_for_every_site_and_policy_and_its_numbers_add_up(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path)
    outcome = play(prepared)
    shown = result(prepared, outcome)
    assert prepared.arrivals.tolist() == [[n, n, n] for n in range(300)]  # rows do not say where they arrive
    own = {"CoS", "CellKLUCB", "ZoomingKLUCB", "MixedViews"}
    policies = own | {"oracle", "best single model", "epsilon-greedy", "LinUCB", "uniform random", "AdaBoost"}
    policies |= {"SWA 100", "previous label", "commonest label", "best local model", "local only"}
    found = [(row["site"], row["policy"]) for row in shown["rows"]]
    assert sorted(found) == sorted((site, policy) for site in ("north", "east", "south") for policy in policies)
    best = {row["site"]: row["mean_reward"] for row in shown["rows"] if row["policy"] == "oracle"}
    for row in shown["rows"]:
        assert row["mean_reward"] == pytest.approx(1 - row["error"] / 100 - row["cost"] / 300)
        assert row["regret"] == pytest.approx(300 * (best[row["site"]] - row["mean_reward"]), abs=1e-9)
        assert (row["training"] is None) == (row["policy"] not in own)
        if row["policy"] == "oracle":
            assert row["regret"] == 0
        if row["policy"] == "best single model":
            assert row["regret"] >= -1e-9


def test_the_row_of_cos_is_what_its_decisions_come_to(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path)
    outcome = play(prepared)
    (row,) = [r for r in result(prepared, outcome)["rows"] if (r["site"], r["policy"]) == ("north", "CoS")]
    names, right = outcome.first.learners[0].arms.names, outcome.first.right[0]
    arms = [names[arm] for arm in outcome.first.arms[0].tolist()]
    costs = {"bayes": 0.05, "stump": 0.0, "east": 0.02, "south": 0.02}
    assert row["error"] == pytest.approx(100 * (1 - np.mean(right)))
    assert row["sent"] == pytest.approx(100 * np.mean([arm in ("east", "south") for arm in arms]))
    assert row["exploration"] == pytest.approx(100 * np.mean(outcome.first.phases[0] == EXPLORE))
    assert row["cost"] == pytest.approx(sum(costs[arm] for arm in arms))


@pytest.mark.parametrize("own_rows", [False, True])
def test_flows_and_phases_sum_to_100_and_winners_are_those_of_the_learners(tmp_path: Path, own_rows: bool) -> None:
    stream = site_file(tmp_path) if own_rows else TRAFFIC
    prepared = prepared_of(tmp_path, context=[PREVIOUS, LOG], stream=stream)
    outcome = play(prepared)
    shown = result(prepared, outcome)
    assert shown["flows"]["from"] == shown["flows"]["to"] == ["north", "east", "south"]
    for percent in shown["flows"]["percent"]:
        assert sum(percent) == pytest.approx(100, abs=0.01)
    for phases in shown["phases"].values():
        for shares in zip(phases["train"], phases["explore"], phases["exploit"], strict=True):
            assert sum(shares) == pytest.approx(100, abs=0.01)
    for learner in outcome.first.learners:
        winners, cells = shown["winners"][learner.name], learner.cells()
        assert sorted(map(tuple, winners["cells"])) == sorted(cell.axes for cell in cells.values())
        by_axes = {cell.axes: cell for cell in cells.values()}
        for axes, best, arrivals in zip(winners["cells"], winners["best"], winners["arrivals"], strict=True):
            cell = by_axes[tuple(axes)]
            means = [cell.estimates[arm].mean_reward for arm in winners["arms"]]
            assert means[best] == max(means)
            assert arrivals == cell.labelled.arrivals
    json.dumps(shown, allow_nan=False)


def test_a_site_where_nothing_arrives_does_not_stop_the_others(tmp_path: Path) -> None:
    stream = site_file(tmp_path)
    rows = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(rows.replace(",south\n", ",east\n"))
    prepared = prepared_of(tmp_path, stream=stream)
    shown = result(prepared, play(prepared))
    assert shown["flows"]["percent"][2] == [0, 0, 0]


def test_a_classifier_whose_training_rows_have_one_label_gives_that_label(tmp_path: Path) -> None:
    prepared_of(tmp_path)
    labels = traffic(900, seed=4).labels.tolist()
    last = next(n for n, label in enumerate(labels) if label != labels[0])
    file = tmp_path / "network.toml"
    file.write_text(file.read_text().replace("train = [0, 600]", f"train = [0, {last}]"))
    prepared = prepare(*load(file))
    names = [each.name for site in prepared.network.sites for each in site.classifiers]
    said = prepared.predictions.codes[:, names.index("logit")]
    assert [prepared.classes[number] for number in set(said.tolist())] == [labels[0]]


def played(printed: str) -> str:
    """Return a result without when and by which command it was made."""
    return json.dumps({key: value for key, value in json.loads(printed).items() if key != "made"})


@pytest.mark.claims
def test_the_default_run_is_the_same_twice_in_another_process_and_without_the_compiler(tmp_path: Path) -> None:
    arguments = ["run", "--items", "300", "--json", "--out", str(tmp_path)]
    first, second = (CliRunner().invoke(app, arguments) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert played(first.stdout) == played(second.stdout)
    for changes in ({"PYTHONHASHSEED": "7"}, {"NUMBA_DISABLE_JIT": "1"}):
        command = [sys.executable, "-m", "cosend.cli", *arguments]
        other = subprocess.run(  # noqa: S603 - our own
            command, capture_output=True, text=True, timeout=240, check=True, env={**os.environ, **changes}
        )
        assert played(other.stdout) == played(first.stdout), changes
    assert len(json.loads(first.stdout)["rows"]) == 3 * 16
