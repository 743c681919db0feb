"""A model that says None has no answer: another arm is taken, nothing has failed, and nobody is scored for it."""

from __future__ import annotations

import json
import math
import urllib.request
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cosend import Context, Network, Site, verify
from cosend.classifiers.adapters import as_classifier
from cosend.client import Client
from tests.node.sites import setup_of
from tests.service.live import served

naive_bayes: Any = import_module("river.naive_bayes")
tree: Any = import_module("river.tree")
AGE = Context("age", range=(0, 100))


class Silent:
    """Says nothing about some items, and counts how often it was asked."""

    def __init__(self, said: Any = None) -> None:
        self.said, self.asked = said, 0

    def __call__(self, item: Any) -> Any:
        self.asked += 1
        return self.said if item["age"] < 50 else True


def a_site(models: dict[str, Any], **options: Any) -> Site:
    return Site("here", classifiers=models, context=AGE, **{"score_local": "used", **options})


@pytest.mark.parametrize("said", [None, math.nan])
@pytest.mark.parametrize("score_local", ["used", "all"])
@pytest.mark.parametrize("how", ["one", "many"])
def test_another_arm_is_taken_whatever_the_retries(said: Any, score_local: Any, how: str) -> None:
    log: list[Any] = []
    models = {**{f"silent {n}": Silent(said) for n in range(5)}, "no": lambda _: False}
    site = a_site(models, score_local=score_local, retries=0, journal=log.append)
    for _ in range(10):
        items = [{"age": 10.0}, {"age": 20.0}]
        made = [*map(site.classify, items)] if how == "one" else site.classify_many(items)
        assert [(each.arm, each.label) for each in made] == [("no", False)] * 2
        assert site.learn_many(made, [False, False]) == 0
    assert site.resting() == {}
    by_name = {arm.name: arm for arm in site.summary().arms}
    assert by_name["no"].labels == 20
    assert all(by_name[f"silent {n}"].labels == 0 for n in range(5))
    for cell in site.learner.cells().values():  # neither as an arm nor beside one
        assert all(cell.estimates[f"silent {n}"].reward_count == 0 for n in range(5))
    assert verify(log) == []


def test_where_nobody_has_an_answer_the_label_teaches_and_scores_nobody() -> None:
    log: list[Any] = []
    models = {"bayes": naive_bayes.GaussianNB(), "tree": tree.HoeffdingTreeClassifier()}
    site = a_site(models, score_local=None, learns_from="all", journal=log.append)
    first = site.classify({"age": 10.0})
    more = site.classify_many([{"age": 20.0}, {"age": 80.0}])
    assert [each.label for each in (first, *more)] == [None] * 3
    assert all(site.waits(each) for each in (first, *more))
    site.learn(first, "young")
    site.learn_many(more, ["young", "old"])
    assert all(arm.labels == 0 for arm in site.summary().arms)
    assert all(each.reward_count == 0 for cell in site.learner.cells().values() for each in cell.estimates.values())
    decision = site.classify({"age": 10.0})
    assert decision.label in ("young", "old")
    site.learn(decision, "young")
    assert sum(arm.labels for arm in site.summary().arms) == 1
    assert verify(log) == []


def test_a_peer_that_has_no_answer_is_passed_over() -> None:
    north = Site("north", classifiers={"no": lambda _: False}, context=AGE)
    south = Site("south", classifiers={"silent": lambda _: None}, context=AGE)
    for turn in Network([north, south]).run({"north": [({"age": 10.0}, False)] * 30}):
        assert (turn.decision.arm, turn.decision.label) == ("no", False)


def post(url: str, body: Any) -> Any:
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), head)  # noqa: S310 - a service of this test
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
        return json.load(reply)


@pytest.mark.parametrize("score_local", ["used", "all"])
def test_a_service_takes_another_arm_and_opens_no_breaker(score_local: Any, tmp_path: Path) -> None:
    models = {**{f"silent {n}": Silent() for n in range(5)}, "no": lambda _: False}
    setup = setup_of(models, score_local=score_local, retries=1)
    with served(tmp_path, setup) as (url, _), Client(url) as client:
        for _ in range(20):
            told = post(f"{url}/v1/classify", {"items": [{"features": {"age": age}} for age in (10, 20, 30)]})
            made = told["decisions"]
            assert [(each["arm"], each["label"]) for each in made] == [("no", False)] * 3
            post(f"{url}/v1/labels", {"labels": [{"id": each["id"], "label": False} for each in made]})
        arms = {arm.name: arm for arm in client.arms()}
        for n in range(5):
            arm = arms[f"silent {n}"]
            assert (arm.breaker, arm.failures, arm.labels, arm.mean_gain) == ("closed", 0, 0, None)
        assert client.summary().unanswered == 0


def test_a_service_of_models_that_have_learnt_nothing_yet_begins_to_learn(tmp_path: Path) -> None:
    models = {"bayes": naive_bayes.GaussianNB(), "tree": tree.HoeffdingTreeClassifier()}
    setup = setup_of(models, learns_from="all")
    with served(tmp_path, setup) as (url, _), Client(url) as client:
        made = post(f"{url}/v1/classify", {"items": [{"features": {"age": age}, "id": f"v{age}"} for age in (1, 99)]})
        assert [each["label"] for each in made["decisions"]] == [None, None]
        labels = [{"id": "v1", "label": "young"}, {"id": "v99", "label": "old"}]
        assert post(f"{url}/v1/labels", {"labels": labels})["learnt"] == ["v1", "v99"]
        assert client.summary().labels.learnt == 2
        assert client.summary().recent_error is None
        (later,) = post(f"{url}/v1/classify", {"items": [{"features": {"age": 1}}]})["decisions"]
        assert later["label"] in ("young", "old")
        post(f"{url}/v1/labels", {"labels": [{"id": later["id"], "label": "young"}]})
        assert all(arm.failures == 0 for arm in client.arms())
    with served(tmp_path, setup_of(models | {}, learns_from="all")) as (url, _):  # from its log
        again = post(f"{url}/v1/classify", {"items": [{"features": {"age": 1}, "id": "v1"}]})["decisions"]
        assert again[0]["label"] is None


def test_it_stays_a_classifier() -> None:
    assert as_classifier(Silent()).predict([{"age": 1}]) == [None]
