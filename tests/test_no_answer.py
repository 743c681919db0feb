"""Models that have learnt nothing yet have no answer: a service waits for their first labels, also after a restart."""

from __future__ import annotations

import json
import urllib.request
from importlib import import_module
from pathlib import Path
from typing import Any

from cosend.client import Client
from tests.node.sites import setup_of
from tests.server.services import served

naive_bayes: Any = import_module("river.naive_bayes")
tree: Any = import_module("river.tree")


def post(url: str, body: Any) -> Any:
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), head)  # noqa: S310 - a service of this test
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
        return json.load(reply)


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
