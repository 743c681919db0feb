"""The page of metrics, the alert rules and the Grafana dashboard name what a site really exposes at /metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cosend import Budget, MixedViews, Money
from tests.deploy.brokers import DEPLOY, ROOT
from tests.server.services import a_setup, called

PAGE = (ROOT / "docs" / "operate" / "metrics.md").read_text()
DASHBOARD = json.loads((DEPLOY / "grafana" / "cosend.json").read_text())
SAMPLES = {"counter": ("_total",), "gauge": ("",), "summary": ("_sum", "_count"), "histogram": ("_bucket", "_sum")}
ADDED = {"instance", "job", "le"}  # labels that Prometheus adds, and that of a histogram
WITHOUT_SAMPLES = {  # until a peer asks or an arm fails
    "cosend_answers_for_peers": {"peer"},
    "cosend_labels_from_peers": {"peer"},
    "cosend_failures": {"arm", "kind"},
    "cosend_outbox": {"peer"},
    "cosend_peer_present": {"peer"},
}


class Exposed(NamedTuple):
    kind: str
    labels: set[str]
    meaning: str


async def exposed_by_a_site(folder: Path) -> dict[str, Exposed]:
    """Return every metric of a site that has labels, scores, money and a budget."""
    money, budget = Money(0.02, "USD"), Budget(per_item=0.001)
    setup = a_setup(costs={"any": 0.1}, money=money, budget=budget, policy=MixedViews())
    async with called(setup, folder) as (client, _):
        await client.decide("a", "b")
        await client.learn("ill", "a")
        await client.ask("/v1/labels", {"labels": [{"id": "b", "score": 0.5}]})
        text = (await client.get("/metrics")).text
    found: dict[str, Exposed] = {}
    for family in text_string_to_metric_families(text):
        if family.name.endswith("_created"):
            continue
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        labels |= WITHOUT_SAMPLES.get(family.name, set())
        found[family.name] = Exposed(family.type, labels, family.documentation)
    return found


def check(expression: str, exposed: dict[str, Exposed]) -> None:
    """Raise if an expression names a metric or a label that no site has."""
    samples = {name + end: each for name, each in exposed.items() for end in SAMPLES[each.kind]}
    named = set(re.findall(r"\b(?:cosend_\w+|up\b)", expression))
    assert named, expression
    assert named - {"up"} <= samples.keys(), expression
    known = ADDED.union(*(samples[name].labels for name in named - {"up"}))
    lists = [*re.findall(r"(?:by|on) \(([^)]*)\)", expression)]
    used = {label for each in lists for label in each.split(", ")} | set(re.findall(r"(\w+)=~?\"", expression))
    assert used <= known, expression
    assert all(expression.count(left) == expression.count(right) for left, right in ("()", "[]", "{}")), expression


async def test_the_page_has_every_metric_and_no_other(tmp_path: Path) -> None:
    exposed = await exposed_by_a_site(tmp_path)
    rows = re.findall(r"^\| `(cosend_\w+)` \| (.*?) \| (.*?) \|$", PAGE, flags=re.MULTILINE)
    shown = {name: (set(re.findall(r"\w+", labels)), meaning) for name, labels, meaning in rows}
    ends = {name: "_total" if each.kind == "counter" else "" for name, each in exposed.items()}
    assert shown == {name + ends[name]: (each.labels, each.meaning) for name, each in exposed.items()}


async def test_alert_rules_ask_for_metrics_that_exist_and_are_those_of_the_page(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="no PyYAML to read the rules with")
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    exposed = await exposed_by_a_site(tmp_path)
    for rule in group["rules"]:
        check(rule["expr"], exposed)
        assert rule["annotations"]["summary"]
    shown = re.findall(r"^(Cosend\w+): (.+)$", PAGE, flags=re.MULTILINE)
    assert shown == [(rule["alert"], rule["expr"]) for rule in group["rules"]]


async def test_the_dashboard_asks_for_metrics_that_exist(tmp_path: Path) -> None:
    exposed = await exposed_by_a_site(tmp_path)
    targets: list[dict[str, Any]] = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(targets) > 10
    for target in targets:
        check(target["expr"], exposed)
        labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        named = re.findall(r"cosend_\w+?(?=_total|_sum|_count|_bucket|\b)", target["expr"])
        assert labels <= ADDED.union(*(exposed[name].labels for name in named if name in exposed)), target
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    (asked,) = [each["query"] for each in DASHBOARD["templating"]["list"] if each["name"] == "site"]
    (metric,) = re.findall(r"label_values\((\w+), instance\)", asked)
    assert metric in exposed
