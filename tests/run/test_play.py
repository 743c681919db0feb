"""A network played compiled is the same network played item by item through real sites, decision by decision."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from cosend import Network, Site
from cosend.cli.main import app
from cosend.config.network_file import load
from cosend.config.sections import ModelSection
from cosend.errors import NetworkFileError
from cosend.models.built_in import train
from cosend.run.play import Outcome, play
from cosend.run.prepare import Prepared, prepare
from cosend.run.result import result
from cosend.streams.traffic import traffic
from tests.policies import mostly_claims

pytestmark = pytest.mark.compiled

SITES = """
[[sites]]
name = "north"
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
[[sites.classifiers]]
name = "alarm"
model = "always"
label = "attack"

[[sites]]
name = "south"
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


class Coded:
    """A model of the zoo that takes items as they arrive, and codes them as the models' training rows were coded."""

    learns = False

    def __init__(self, setting: ModelSection, prepared: Prepared) -> None:
        table = prepared.training
        self.vocabulary = prepared.items.vocabulary
        self.features = setting.features or list(table.features)
        rows = self.rows([item for item, _ in table.rows()])
        part = slice(*(setting.train or (0, 1)))
        self.model = train(setting.model, rows[part], table.labels[part], label=setting.label)

    def rows(self, items: Sequence[Any]) -> Any:
        return np.array([[self.code(name, item[name]) for name in self.features] for item in items], np.float64)

    def code(self, name: str, value: Any) -> float:
        return sorted(self.vocabulary[name]).index(value) if name in self.vocabulary else float(value)

    def predict(self, items: Sequence[Any]) -> list[Any]:
        labels: list[Any] = self.model.predict(self.rows(items)).tolist()
        return labels

    def learn(self, item: Any, label: Any) -> None:
        raise AssertionError("a model that does not learn was taught")


class Step(NamedTuple):
    site: str
    arm: str
    phase: int
    right: bool
    context: tuple[float, ...]


def item_by_item(prepared: Prepared) -> tuple[list[Step], Network]:
    file = prepared.network
    network = Network(
        [
            Site(
                site.name,
                classifiers={each.name: Coded(each, prepared) for each in site.classifiers},
                costs={each.name: each.cost for each in site.classifiers},
                context=prepared.axes,
                policy=prepared.built.policy,
                seed=file.seed,
            )
            for site in file.sites
        ],
        call_cost=file.call_cost,
    )
    rows = list(prepared.items.rows())
    where = prepared.items.sites
    streams = {
        site.name: [row for n, row in enumerate(rows) if where is None or where[n] == site.name] for site in file.sites
    }
    steps = [
        Step(site, made.arm, made.phase.value, made.label == truth, made.context)
        for site, made, truth in network.run(streams, label_delay=file.label_delay)
    ]
    return steps, network


def compiled_steps(prepared: Prepared, outcome: Outcome) -> list[Step]:
    steps = []
    for slot, places in enumerate(prepared.places.tolist()):
        for site, place in enumerate(places):
            if place >= 0:
                learner, trace = outcome.first.learners[site], outcome.first.trace
                arm, function = int(trace.arms[slot, site]), int(trace.functions[slot, site])
                is_right, context = bool(prepared.right[place, function]), tuple(prepared.contexts[place].tolist())
                steps.append(
                    Step(learner.name, learner.arms.names[arm], int(trace.phases[slot, site]), is_right, context)
                )
    return steps


def check_same(prepared: Prepared) -> list[Step]:
    outcome = play(prepared)
    expected, network = item_by_item(prepared)
    steps = compiled_steps(prepared, outcome)
    assert len(steps) == len(expected)
    for n, (ours, theirs) in enumerate(zip(steps, expected, strict=True)):
        assert ours == theirs, f"decision {n}"
    for learner in outcome.first.learners:
        assert learner.cells() == network.sites[learner.name].learner.cells()
    return steps


@pytest.mark.parametrize("delay", mostly_claims((0, 1, 5), (1,)))
@pytest.mark.parametrize("context", CONTEXTS)
def test_compiled_equals_item_by_item(tmp_path: Path, context: str, delay: int) -> None:
    steps = check_same(prepared_of(tmp_path, context=CONTEXTS[context], delay=delay))
    assert len(steps) == 900
    assert {step.phase for step in steps} >= {2, 3}


@pytest.mark.parametrize("policy", mostly_claims(POLICIES, ("none", "sharing", "time as an axis")))
def test_compiled_equals_item_by_item_under_every_policy(tmp_path: Path, policy: str) -> None:
    steps = check_same(prepared_of(tmp_path, context=[PREVIOUS, LOG], policy=POLICIES[policy], delay=2))
    assert "training" not in policy or any(step.phase == 1 for step in steps)


@pytest.mark.parametrize("delay", mostly_claims((0, 1, 5), (5,)))
@pytest.mark.parametrize("context", ["previous_label", "two axes"])
def test_compiled_equals_item_by_item_when_rows_say_where_they_arrive(tmp_path: Path, context: str, delay: int) -> None:
    prepared = prepared_of(tmp_path, context=CONTEXTS[context], delay=delay, stream=site_file(tmp_path))
    steps = check_same(prepared)
    counts = [sum(step.site == name for step in steps) for name in ("north", "east", "south")]
    assert sum(counts) == 300
    assert counts[0] > counts[1] > counts[2] > 0


def test_every_site_gets_every_row_unless_rows_say_where_they_arrive(tmp_path: Path) -> None:
    assert prepared_of(tmp_path).arrivals.tolist() == [[n, n, n] for n in range(300)]


def test_the_summary_has_a_row_for_every_site_and_policy_and_its_numbers_add_up(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path)
    outcome = play(prepared)
    shown = result(prepared, outcome)
    policies = {
        "CoS",
        "CellKLUCB",
        "ZoomingKLUCB",
        "MixedViews",
        "oracle per cell",
        "best fixed",
        "epsilon-greedy",
        "LinUCB",
        "uniform random",
    }
    policies |= {"AdaBoost", "SWA 100", "previous label", "commonest label", "best local", "never send"}
    found = [(row["site"], row["policy"]) for row in shown["rows"]]
    assert sorted(found) == sorted((site, policy) for site in ("north", "east", "south") for policy in policies)
    best = {row["site"]: row["mean_reward"] for row in shown["rows"] if row["policy"] == "oracle per cell"}
    for row in shown["rows"]:
        assert row["mean_reward"] == pytest.approx(1 - row["error"] / 100 - row["cost"] / 300)
        assert row["regret"] == pytest.approx(300 * (best[row["site"]] - row["mean_reward"]), abs=1e-9)
        assert (row["training"] is None) == (row["policy"] not in ("CoS", "CellKLUCB", "ZoomingKLUCB", "MixedViews"))
        if row["policy"] == "oracle per cell":
            assert row["regret"] == 0
        if row["policy"] == "best fixed":
            assert row["regret"] >= -1e-9


def test_the_row_of_cos_is_what_its_decisions_come_to(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path)
    outcome = play(prepared)
    steps = [step for step in compiled_steps(prepared, outcome) if step.site == "north"]
    (row,) = [r for r in result(prepared, outcome)["rows"] if (r["site"], r["policy"]) == ("north", "CoS")]
    costs = {"bayes": 0.05, "stump": 0.0, "east": 0.02, "south": 0.02}
    assert row["error"] == pytest.approx(100 * np.mean([not step.right for step in steps]))
    assert row["sent"] == pytest.approx(100 * np.mean([step.arm in ("east", "south") for step in steps]))
    assert row["exploration"] == pytest.approx(100 * np.mean([step.phase == 2 for step in steps]))
    assert row["cost"] == pytest.approx(sum(costs[step.arm] for step in steps))


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


def test_a_label_that_the_stream_does_not_have_is_refused_with_those_it_has(tmp_path: Path) -> None:
    """Of another type than the stream's, it made all other classifiers wrong."""
    stream = site_file(tmp_path)
    rows = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(rows.replace(",attack,", ",1,").replace(",normal,", ",0,"))
    with pytest.raises(NetworkFileError, match=r"sites\.2\.classifiers\.1\.label: .*'attack'; they are 0, 1"):
        prepared_of(tmp_path, stream=stream)


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
    assert len(json.loads(first.stdout)["rows"]) == 3 * 15
