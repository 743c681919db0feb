"""What the compiled replay cannot know beforehand is played by real sites: the same decisions where both can play."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

from cosend import Network
from cosend.config.network_file import load, with_stream
from cosend.errors import LabelError, NoAnswer
from cosend.report.html_report import write_report
from cosend.run.play import play, slices_of
from cosend.run.prepare import Prepared, prepare
from cosend.run.result import result
from tests.run.test_play import check_same

pytestmark = pytest.mark.compiled

NEEDS_ANSWERS = {"oracle", "best single model", "epsilon-greedy", "LinUCB", "uniform random", "AdaBoost", "SWA 100"}
MODULE = """
from river.naive_bayes import GaussianNB
from river.tree import HoeffdingTreeClassifier

def nb():
    return GaussianNB()

tree = HoeffdingTreeClassifier(grace_period=20)

def high(item):
    return "ill" if item["age"] > 60 else "well"

def sure(item):
    return ("ill", 0.9) if item["age"] > 60 else ("well", 0.5 + item["age"] / 200)

def numbers(item):
    return int(item["age"] > 60)

def picky(item):
    if item["age"] > 90:
        raise ValueError("too old")
    return "well"

def never(item):
    raise RuntimeError("out of order")
"""
NETWORK = """
seed = 3
call_cost = 0.02
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "north"
learnt = false
[[sites.classifiers]]
name = "first"
model = "models:high"
[[sites]]
name = "south"
learnt = false
[[sites.classifiers]]
name = "second"
model = "models:high"
cost = 0.01
"""

AGE = '[[context]]\nfeature = "age"\nrange = [0, 100]\n'
EVERY = '[[context]]\nkind = "features"\n'


def visits(folder: Path, count: int = 200) -> Path:
    draw = np.random.default_rng(2)
    lines = ["age,ward,ill"]
    for age in draw.integers(0, 100, count).tolist():
        ward = str(draw.choice(["a", "b", "c"]))
        lines.append(f"{age},{ward},{'ill' if (age > 50) != (ward == 'c') else 'well'}")
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    return folder / "visits.csv"


def network_of(folder: Path, *changes: tuple[str, str], top: str = "") -> Prepared:
    text = top + NETWORK
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "models.py").write_text(MODULE)
    (folder / "network.toml").write_text(text)
    network, place = load(folder / "network.toml")
    return prepare(with_stream(network, visits(folder), "ill", None), place)


def test_files_functions_and_columns_play_compiled_and_a_call_may_cost_more_at_a_site(tmp_path: Path) -> None:
    rows = visits(tmp_path).read_text().splitlines()
    said = [f"{row},{'ill' if n % 2 else 'well'}" for n, row in enumerate(rows[1:])]
    (tmp_path / "said.csv").write_text("\n".join([f"{rows[0]},said", *said]) + "\n")
    text = NETWORK.replace('name = "first"\nmodel = "models:high"', 'name = "first"\nmodel = "column:said"')
    (tmp_path / "models.py").write_text(MODULE)
    (tmp_path / "network.toml").write_text(text.replace('name = "south"', 'name = "south"\ncall_cost = 0.5'))
    network, folder = load(tmp_path / "network.toml")
    prepared = prepare(with_stream(network, tmp_path / "said.csv", "ill", None), folder)
    codes = prepared.predictions.codes[:4, 0].tolist()
    assert [prepared.classes[number] for number in codes] == ["well", "ill", "well", "ill"]
    assert prepared.costs(0).tolist() == [0.0, 0.5]
    assert prepared.costs(1).tolist() == [0.02, 0.01]
    assert "said" not in prepared.items.features
    check_same(prepared)


EVERY_LABEL = """
class Newest:
    learns = True
    def __init__(self):
        self.label, self.heard = "well", 0
    def predict(self, items):
        return [self.label if item["age"] % 3 else "ill" for item in items]
    def learn(self, item, label):
        self.label, self.heard = label, self.heard + 1

def newest():
    return Newest()
"""
ALONE = NETWORK[: NETWORK.index('[[sites]]\nname = "south"')]
LEARNS = '[[sites.classifiers]]\nname = "learns"\nmodel = "models:newest"\n'
HIGH = '[[sites.classifiers]]\nname = "late"\nmodel = "models:high"\n'


def alone_with(folder: Path, more: str, top: str = "", axes: str = AGE, site: str = "") -> Prepared:
    """Return a site that has other models too, some of which learn."""
    (folder / "models.py").write_text(MODULE + EVERY_LABEL)
    text = ALONE.replace(AGE, axes).replace('name = "north"', f'name = "north"{site}')
    (folder / "network.toml").write_text(top + text + more)
    network, place = load(folder / "network.toml")
    return prepare(with_stream(network, visits(folder), "ill", None), place)


@pytest.mark.parametrize("delay", [0, 4])
@pytest.mark.parametrize("axes", [AGE, ""])
def test_models_that_learn_from_every_label_are_replayed_as_real_sites_have_them(
    tmp_path: Path, delay: int, axes: str
) -> None:
    check_same(alone_with(tmp_path, LEARNS + HIGH, f"label_delay = {delay}\n", axes))


@pytest.mark.parametrize("axes", ["", AGE + EVERY])
def test_real_sites_that_look_at_every_feature_decide_as_the_compiled_replay_does(tmp_path: Path, axes: str) -> None:
    check_same(network_of(tmp_path, (AGE, axes)))


def test_what_a_model_learns_only_where_it_was_used_is_played_item_by_item(tmp_path: Path) -> None:
    prepared = alone_with(tmp_path, LEARNS, site='\nlearns_from = "used"')
    assert prepared.one_by_one == ["'learns' learns from the items that it was used for"]
    assert {"best single model", "LinUCB"} <= set(result(prepared, play(prepared, others=False))["error_curves"])


LEARNING = (
    ('model = "models:high"', 'model = "models:nb"\nfeatures = ["age"]'),
    ('name = "south"', 'name = "south"\nlearns_from = "all"'),
    ('cost = 0.01', '[[sites.classifiers]]\nname = "third"\nmodel = "models:tree"'),
)  # fmt: skip


def test_models_that_learn_learn_as_they_do_in_a_network_of_sites(tmp_path: Path) -> None:
    prepared = network_of(tmp_path, *LEARNING)
    assert prepared.one_by_one == [
        f"{name!r} learns also from labels that peers pass on" for name in ("first", "third")
    ]
    outcome = play(prepared)
    built = prepared.built
    sites = [built.site(name, classifiers=deepcopy(built.classifiers(name))) for name in ("north", "south")]
    rows = list(prepared.items.rows())
    turns = list(Network(sites, call_cost=0.02).run({"north": rows, "south": rows}))
    for number, site in enumerate(sites):
        expected = [site.learner.arms.number(made.arm) for name, made, _ in turns if name == site.name]
        assert outcome.first.arms[number].tolist() == expected
        right = [float(made.label == truth) for name, made, truth in turns if name == site.name]
        (played,) = [each for each in outcome.played if (each.policy, each.site) == ("MixedViews", site.name)]
        assert played.right.tolist() == right
        assert outcome.first.learners[number].cells() == site.learner.cells()


OPINIONS = """
[[context]]
kind = "confidence"
classifier = "stack"
[[context]]
kind = "says"
classifier = "first"
"""


@pytest.mark.parametrize("axes", [AGE, "", AGE + EVERY])
def test_opinions_in_the_context_are_played_item_by_item_and_others_do_without(tmp_path: Path, axes: str) -> None:
    learns = [("learnt = false", "learnt = true")] * 2
    prepared = network_of(tmp_path, ('"models:high"', '"models:sure"'), *learns, (AGE, axes + OPINIONS))
    assert prepared.one_by_one == ["the context has opinions (confidence of stack, what first says)"]
    outcome = play(prepared)
    sites = [prepared.built.site(name) for name in ("north", "south")]
    rows = list(prepared.items.rows())
    turns = list(Network(sites, call_cost=0.02).run({"north": rows, "south": rows}))
    for number, site in enumerate(sites):
        used = [made.arm for name, made, _ in turns if name == site.name]
        assert outcome.first.arms[number].tolist() == [*map(site.learner.arms.number, used)]
    found = result(prepared, outcome)
    assert {"CoS", "CellKLUCB", "no learnt arms"} <= {row["policy"] for row in found["rows"]}
    assert found["goes_by"][-2 - (EVERY in axes) :][:2] == ["confidence of stack", "what first says"]
    assert "sees the opinions of the models. All others" in found["others_see"]
    known = "the other axes of the file" if axes else "the time"
    assert found["others_see"].endswith(f"see only {known}.")
    write_report(found, tmp_path / "report.html")


def test_what_sites_learn_themselves_is_as_in_a_network_of_sites_and_beside_it_is_what_they_do_without(
    tmp_path: Path,
) -> None:
    sure = ('"models:high"', '"models:sure"')  # how sure it is moves the stack
    without = play(network_of(tmp_path, sure, sure), others=False).first
    prepared = network_of(tmp_path, sure, sure, *[("learnt = false", "learnt = true")] * 2)
    assert prepared.one_by_one == []
    outcome = play(prepared)
    sites = [prepared.built.site(name) for name in ("north", "south")]
    rows = list(prepared.items.rows())
    turns = list(Network(sites, call_cost=0.02).run({"north": rows, "south": rows}))
    for number, site in enumerate(sites):
        used = [made.arm for name, made, _ in turns if name == site.name]
        assert {"grown", "stack"} <= {*used}
        assert outcome.first.arms[number].tolist() == [*map(site.learner.arms.number, used)]
        assert outcome.first.learners[number].cells() == site.learner.cells()
    names = [each.policy.name for each in outcome.others]
    assert names == ["no learnt arms", "CoS", "CellKLUCB", "ZoomingKLUCB"]
    assert [*map(list, outcome.others[0].arms)] == [*map(list, without.arms)]


def test_the_same_run_twice_is_the_same_because_every_play_begins_with_the_models_of_the_file(tmp_path: Path) -> None:
    prepared = network_of(tmp_path, *LEARNING)
    first, second = (result(prepared, play(prepared, others=False)) for _ in range(2))
    assert json.dumps(first) == json.dumps(second)
    rows = [item for item, _ in prepared.items.rows()]
    assert prepared.built.classifiers()["first"].predict(rows[:3]) == [None] * 3  # it was never taught


def test_baselines_do_without_models_that_learn_what_peers_pass_on_and_this_is_said(tmp_path: Path) -> None:
    prepared = network_of(tmp_path, *LEARNING)
    shown = result(prepared, play(prepared))
    assert set(shown["error_curves"]) >= {"MixedViews", "CoS", "oracle", "best single model", "LinUCB"}
    assert all(row["regret"] is None for row in shown["rows"])
    (best,) = [row for row in shown["rows"] if (row["site"], row["policy"]) == ("south", "best local model")]
    right = np.array([item["age"] > 60 for item in prepared.rows]) == (prepared.items.labels == "ill")
    assert best["error"] == pytest.approx(100 * (1 - right.mean()))  # of the only one that stays as it is
    first, second = shown["notes"]
    passed_on = "learns also from labels that peers pass on"
    assert first == f"played item by item, because 'first' {passed_on} and 'third' {passed_on}"
    assert "best single model" in second
    assert "do not use 'first' and 'third'" in second


def test_whoever_stops_a_run_of_real_sites_gets_only_its_own_policy(tmp_path: Path) -> None:
    prepared = network_of(tmp_path, *LEARNING)
    part = prepared.first_slots(50)
    seen: list[tuple[int, float]] = []
    outcome = play(part, lambda slots, errors: seen.append((slots, errors)), others=False)
    assert not {each.policy for each in outcome.played} & {"CoS", "CellKLUCB", "ZoomingKLUCB"}
    assert outcome.first.arms[0].tolist() == play(prepared, others=False).first.arms[0][:50].tolist()
    assert seen[-1][0] == 50
    assert seen[-1][1] == pytest.approx(1 - np.concatenate([each.right for each in outcome.played[:2]]).mean())


CATEGORY = ('feature = "age"\nrange = [0, 100]', 'kind = "category"\nfeature = "ward"')


@pytest.mark.parametrize("also", ["", '\n[[context]]\nfeature = "age"\nrange = [0, 100]'])
def test_a_category_has_a_cell_for_every_value_also_for_the_baselines(tmp_path: Path, also: str) -> None:
    prepared = network_of(tmp_path, (CATEGORY[0], CATEGORY[1] + also))
    assert prepared.one_by_one == ["'ward' is a category"]
    assert prepared.all_known
    outcome = play(prepared)
    shown = result(prepared, outcome)
    assert set(shown["error_curves"]) >= {"oracle", "LinUCB", "epsilon-greedy", "ZoomingKLUCB", "CoS"}
    if not also:
        codes = prepared.contexts[prepared.rows_of(0)][:, 0]
        values = prepared.right[prepared.rows_of(0)] - prepared.costs(0)
        best = sum(max(values[codes == code].sum(axis=0)) for code in (0, 1, 2))
        (row,) = [r for r in shown["rows"] if (r["site"], r["policy"]) == ("north", "oracle")]
        assert row["mean_reward"] == pytest.approx(best / 200)
        zooming = next(each for each in outcome.others if each.policy.name == "ZoomingKLUCB")
        assert len(zooming.learners[0].cells()) == 3
    assert shown["winners"]["north"]["cells"] == []
    assert slices_of(prepared) >= 1
    assert write_report(shown, tmp_path / "out").is_file()


def test_a_model_that_fails_on_some_rows_is_an_arm_that_fails(tmp_path: Path) -> None:
    prepared = network_of(tmp_path, ('"models:high"', '"models:picky"'))
    shown = result(prepared, play(prepared))
    assert "'first' cannot label every row (classifier 'first' failed: ValueError: too old)" in shown["notes"][0]
    assert set(shown["error_curves"]) >= NEEDS_ANSWERS - {"AdaBoost", "SWA 100"}
    (best,) = [row for row in shown["rows"] if (row["site"], row["policy"]) == ("north", "best local model")]
    right = np.array([item["age"] <= 90 for item in prepared.rows]) & (prepared.items.labels == "well")
    assert best["error"] == pytest.approx(100 * (1 - right.mean()))  # no answer is a wrong one


def test_an_item_that_nobody_can_label_ends_the_run_with_the_reasons(tmp_path: Path) -> None:
    prepared = network_of(tmp_path, ('"models:high"', '"models:never"'), ('"models:high"', '"models:never"'))
    with pytest.raises(NoAnswer, match="out of order"):
        play(prepared)


def test_patience_and_strict_labels_are_those_of_real_sites(tmp_path: Path) -> None:
    short = network_of(tmp_path, ("[[context]]", "label_delay = 5\npatience = {wait_limit = 2}\n[[context]]"))
    assert short.one_by_one == ["labels are not awaited forever"]
    outcome = play(short)
    for learner in outcome.first.learners:  # all but the last few of 200 items were given up before their labels came
        (whole,) = [cell for cell in learner.cells().values() if cell.view == 1]  # no context, long memory
        assert sum(each.reward_count for each in whole.estimates.values()) < 10
    strict = network_of(
        tmp_path, ("[[context]]", "strict_labels = true\n[[context]]"), ('"models:high"', '"models:numbers"')
    )
    with pytest.raises(LabelError, match="no arm of site 'north' could have given"):
        play(strict)


@pytest.mark.parametrize(("axes", "known"), [("", "the time"), (AGE + EVERY, "the axes that the file names")])
def test_what_the_others_know_is_noted_beside_a_policy_that_looks_at_every_feature(
    axes: str, known: str, tmp_path: Path
) -> None:
    prepared = network_of(tmp_path, (AGE, axes))
    shown = result(prepared, play(prepared))
    assert (shown["policy"], shown["goes_by"][-1]) == ("MixedViews", "every feature")
    assert any(note.startswith("most weight at north: ") for note in shown["notes"])
    others = f"All others, the oracle included, see only {known}."
    if not axes:
        others = (
            f"Without a context, other policies and the oracle see only {known}; name one with [[context]] for a fair "
            "comparison."
        )
    assert shown["others_see"] == f"MixedViews sees every feature. {others}"
    page = write_report(shown, tmp_path / "out").read_text()
    assert page.index(f"see only {known}") < page.index("<table")


def test_a_classifier_that_speaks_another_language_is_noted(tmp_path: Path) -> None:
    prepared = network_of(tmp_path, ('"models:high"', '"models:numbers"'))
    (note,) = play(prepared).notes
    assert note == (
        "'first' never gives a label that occurs: it says 0, 1, and the labels are 'ill', 'well'; "
        "let it return one of these, where quotes mark text"
    )


def test_warnings_of_real_sites_about_labels_become_notes(tmp_path: Path) -> None:
    """The only model of north says numbers, so the first true label, which is text, is suspicious."""
    alone = NETWORK[NETWORK.index('[[sites]]\nname = "south"') :]
    prepared = network_of(tmp_path, ('"models:high"', '"models:numbers"'), CATEGORY, (alone, ""))
    (_, never, warned) = play(prepared).notes
    assert never.startswith("'first' never gives")
    assert warned.startswith("no arm of site 'north' could have given the true label")


@pytest.mark.parametrize("keeps", ['withholds = ["ward"]', 'shares = ["age"]'])
def test_peers_are_asked_about_what_they_may_see(keeps: str, tmp_path: Path) -> None:
    of_ward = (
        'name = "second"\nmodel = "models:high"',
        'name = "second"\nmodel = "models:ward"\n[[sites.classifiers]]\nname = "said"\nmodel = "column:said"',
    )
    text = NETWORK.replace(*of_ward).replace('name = "north"', f'name = "north"\n{keeps}').replace("cost = 0.01\n", "")
    ward = 'def ward(item):\n    return "ill" if (item["age"] > 50) != (item.get("ward") == "c") else "well"\n'
    (tmp_path / "models.py").write_text(f"{MODULE}\n{ward}")
    rows = visits(tmp_path).read_text().splitlines()
    (tmp_path / "said.csv").write_text("\n".join([f"{rows[0]},said", *(f"{row},well" for row in rows[1:])]) + "\n")
    (tmp_path / "network.toml").write_text(text)
    network, folder = load(tmp_path / "network.toml")
    prepared = prepare(with_stream(network, tmp_path / "said.csv", "ill", None), folder)
    assert prepared.one_by_one == ["'north' keeps features from its peers"]
    first = play(prepared, others=False).first
    sent = first.arms[0] == 1
    assert sent.any()
    expected = [
        ("ill" if item["age"] > 50 else "well") == label
        for item, label in zip(prepared.rows, prepared.items.truths(), strict=True)
    ]
    said = np.array([label == "well" for label in prepared.items.truths()])
    assert ((first.right[0] == expected) | (first.right[0] == said))[sent].all()
