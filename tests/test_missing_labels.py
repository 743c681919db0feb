"""A truth that is missing means "not known", wherever it comes in: the decision goes on waiting."""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend import Network, Reward, Site, client
from cosend.axes import Feature, PreviousLabel
from cosend.errors import SettingError, UnknownDecision
from tests.cli.serving import cosend, write_network

pd: Any = import_module("pandas")
dummy: Any = import_module("sklearn.dummy")
routing: Any = import_module("cosend.sklearn")
online: Any = import_module("cosend.river")

MISSING: dict[str, Any] = {
    "None": None,
    "nan": float("nan"),
    "NumPy's nan": np.float64("nan"),
    "NaT": pd.NaT,
    "NumPy's NaT": np.datetime64("NaT"),
    "NA": pd.NA,
}
AGE = Feature("age", range=(0, 100))


def a_site(**options: Any) -> Site:
    return Site("here", classifiers={"yes": lambda _: True, "no": lambda _: False}, context=AGE, **options)


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize("reward", [None, lambda label, truth: 1.0 - min(1.0, abs(label - truth))])
def test_a_site_goes_on_waiting_and_says_how_many(kind: str, reward: Any) -> None:
    site = a_site() if reward is None else a_site(reward=reward)
    one, *many = site.classify_many([{"age": 10 * n} for n in range(4)])
    site.learn(one, MISSING[kind])
    assert site.is_pending(one)
    assert site.learn_many(many, [True, MISSING[kind], False], [0.5, 0.25, None]) == 1
    assert [site.is_pending(each) for each in many] == [False, True, False]
    assert site.learn_many([one, many[1]], pd.Series([MISSING[kind]] * 2, dtype=object)) == 2
    assert sum(arm.labels for arm in site.summary().arms) == 2
    assert site.learn_many([one, many[1]], [True, False]) == 0
    assert site.summary().pending == 0
    with pytest.raises(UnknownDecision):
        site.learn(99, MISSING[kind])
    with pytest.raises(SettingError, match="costs"):
        site.learn_many(site.classify_many([{"age": 1}] * 2), [MISSING[kind], True], [0.5])


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_score_is_not_known_everywhere(kind: str) -> None:
    blank, units = MISSING[kind], Reward(range=(1, 5))
    site = Site("here", classifiers={"yes": lambda _: "y", "no": lambda _: "n"}, context=AGE, reward=units)
    one, two, three = made = site.classify_many([{"age": 10 * n} for n in range(3)])
    for score in (blank, {"yes": blank}, {"yes": blank, "no": blank}):
        site.learn(one, score=score)
    assert site.learn_many(made, scores=pd.Series([blank] * 3, dtype=object)) == 3
    assert site.learn_many([one, two], [blank, "y"], scores=[4, blank]) == 0
    assert [site.is_pending(each) for each in made] == [False, False, True]
    site.learn(three, score={three.arm: 3, "yes" if three.arm == "no" else "no": blank})
    assert site.begin_with([{"age": 1}] * 3, arms=["yes", "no", "no"], scores=[5, blank, 1]) == 2
    assert site.summary().pending == 0
    rows = [client._truth("v", None, None, each) for each in (blank, {"yes": blank}, {"yes": 2, "no": blank})]
    nothing = {"id": "v", "label": None, "cost": None}
    assert rows == [nothing, nothing, {"id": "v", "cost": None, "scores": {"yes": 2, "no": None}}]


def test_other_axes_and_strict_labels_do_not_mind() -> None:
    axes: list[Any] = [AGE, PreviousLabel("no", "yes")]
    site = Site("here", classifiers={"yes": lambda _: "yes"}, context=axes, strict_labels=True)
    site.learn(site.classify({"age": 1}), None)
    assert site.summary().pending == 1


def test_a_stream_may_lack_truths() -> None:
    network = Network([a_site()])
    rows = [({"age": n}, True if n % 2 else math.nan) for n in range(20)]
    assert len([*network.run({"here": rows})]) == 20
    summary = network.sites["here"].summary()
    assert (summary.pending, sum(arm.labels for arm in summary.arms)) == (10, 10)


def test_a_pipe_says_of_each_line(tmp_path: Path) -> None:
    write_network(tmp_path)
    blank: list[dict[str, Any]] = [{"label": None}, {"score": None}, {"scores": {"young": None}}]
    lines = [
        {"features": {"age": 20}, "id": "a"},
        *({"id": "a", **each} for each in blank),
        {"id": "a", "label": "ill"},
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    done = cosend("classify", "network.toml", "--site", "north", folder=tmp_path, given=given)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[1:] == [{"id": "a", "result": each} for each in (*["missing"] * 3, "learnt")]


@pytest.mark.parametrize("kind", ["None", "nan", "NA"])
def test_wrappers_leave_out_what_has_no_label(kind: str) -> None:
    models = {str(n): dummy.DummyClassifier(strategy="constant", constant=n) for n in (0, 1)}
    rows, labels = [[n / 100] for n in range(200)], [int(n >= 100) for n in range(200)]
    some = [MISSING[kind] if n % 10 == 0 else label for n, label in enumerate(labels)]
    full = [n for n in range(200) if n % 10]
    axis = Feature("x0", range=(0, 2))
    for given in (rows, np.array(rows), pd.DataFrame(rows, columns=["x0"])):
        y = pd.Series(some, dtype=object)
        known = [given[n] for n in full] if isinstance(given, list) else given[np.isin(np.arange(200), full)]
        fitted = routing.RoutingClassifier(models, context=axis).fit(given, y)
        expected = routing.RoutingClassifier(models, context=axis).fit(known, [labels[n] for n in full])
        assert (fitted.missing_, expected.missing_) == (20, 0)
        assert fitted.site_.summary() == expected.site_.summary()
        assert fitted.partial_fit(given, y).missing_ == 20
    river = online.RoutingClassifier({"zero": lambda _: 0, "one": lambda _: 1}, context=Feature("x", range=(0, 1)))
    river.learn_one({"x": 0.5}, MISSING[kind])
    assert river.site.summary().items == 0
