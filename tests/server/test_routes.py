"""What programs, people and Prometheus read from a service; and that every error is a problem."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from contextlib import nullcontext
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.exceptions import HTTPException

from cosend import Budget, CellKLUCB, MixedViews, Money, Reward
from cosend.axes import Axis, Category, Feature, TimeOfDay, read_columns
from cosend.client import Client
from cosend.errors import ArmError, ContextError, CosendError, DecisionError, NoAnswer, StateError, Unavailable
from cosend.models.adapters import as_classifier
from cosend.pages.rendering import render_parts
from cosend.pages.site_view import SiteView
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Heard
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.server import schema
from cosend.server.openapi import docs_page
from cosend.server.problems import problem_of
from cosend.server.routes import Service
from cosend.server.schema import NO_ANSWER
from cosend.transport.in_process import Hub
from tests.node.sites import old, running, setup_of, until
from tests.server.services import JSON, NOBODY, Caller, a_setup, called, served, young

STATUSES: list[tuple[Exception, int]] = [
    (HTTPException(413, "too long"), 413),
    (Unavailable("it is starting"), 503),
    (NoAnswer("north", {}), 503),
    (DecisionError("north", "x", "no such decision"), 404),
    (ArmError("no such arm"), 404),
    (ContextError("no age"), 422),
    (CosendError("half a character: \ud800"), 422),
    (StateError("/secret/place: damaged"), 503),
    (sqlite3.OperationalError("disk I/O error"), 503),
    (ValueError("the inside"), 500),
    (Unavailable("x" * 100_000), 503),
]


@pytest.mark.parametrize(("error", "status"), STATUSES)
def test_every_error_is_a_problem_that_says_nothing_about_the_inside(error: Exception, status: int) -> None:
    response = problem_of(error)
    found = msgspec.json.decode(bytes(response.body))
    assert (response.status_code, found["status"], response.media_type) == (status, status, "application/problem+json")
    assert len(found["detail"]) < 5_000
    assert not any(word in found["detail"] for word in ("secret", "inside", "I/O"))
    assert ("retry-after" in response.headers) is (status == 503)


async def test_errors_of_the_inside_are_problems_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with called(setup_of(), tmp_path) as (client, node):
        with monkeypatch.context() as patched:
            patched.setattr(node, "counts", None)
            response = await client.get("/v1/summary")
        assert (response.status_code, response.json()["status"]) == (500, 500)
        assert "NoneType" not in response.text


async def test_a_route_takes_one_method_and_pages_have_limits(tmp_path: Path) -> None:
    async with called(setup_of(), tmp_path) as (client, _):
        for route in schema.ROUTES:
            path = re.sub(r"{\w+}", "old", route.path)
            for method in {"GET", "HEAD", "OPTIONS", "POST", "PUT"} - {route.method}:
                reply = await client.request(method, path)
                assert (reply.status_code, reply.headers["allow"]) == (405, route.method), (method, path)
        for query, status in (("?start=1&count=1", 200), ("?start=9999", 200), ("?start=-1", 422), ("?count=0", 422)):
            for path in ("/v1/arms", "/v1/cells", "/v1/events"):
                assert (await client.get(path + query)).status_code == status, (path, query)
        assert (await client.get("/v1/arms?count=1")).json()["next"] == 1


def test_what_a_site_says_of_decisions_and_labels_is_the_schema() -> None:
    assert Decided.__struct_fields__ == schema.Decision.__struct_fields__
    assert Heard.__struct_fields__ == schema.LabelReceipt.__struct_fields__


async def test_the_first_page_and_the_page_of_the_routes_need_nobody_else_s_server(tmp_path: Path) -> None:
    async with called(replace(setup_of(), name="<north>"), tmp_path) as (client, _):
        start, docs = await client.get("/"), await client.get("/docs")
        assert start.headers["content-type"].startswith("text/html")
        assert re.findall(r'href="([^"]+)"', start.text) == ["/docs", "/openapi.json"]
        assert "<h1>&lt;north&gt;</h1>" in start.text
        assert "<h1>cosend site &lt;north&gt;</h1>" in docs.text
        for wanted in re.findall(r'(?:src|href)="([^"]+)"', docs.text):
            assert f'id="{wanted[1:]}"' in docs.text if wanted[0] == "#" else wanted == "/openapi.json"
        document = (await client.get("/openapi.json")).json()
        for path, methods in document["paths"].items():
            for method in methods:
                assert f"<code>{method.upper()} {path}</code>" in docs.text
        command = r"curl 'http://127.0.0.1/v1/classify'.*?-d '(.+?)'</pre>"
        (example,) = re.findall(command, unescape(docs.text), re.DOTALL)
        reply = await client.post("/v1/classify", content=example, headers=JSON)
        assert reply.status_code == 200, reply.text


AXES: dict[str, Axis] = {
    "range": Feature("x", range=(-1, 7)),
    "range that clips": Feature("x", range=(-1, 7), outside="clip"),
    "counts": Feature("x", scale="log"),
    "ranks": Feature("x"),
    "time of day": TimeOfDay("x"),
    "category": Category("x"),
}


@pytest.mark.parametrize("kind", AXES)
async def test_a_feature_is_described_as_it_is_taken(kind: str, tmp_path: Path) -> None:
    service = Caller(RunningSite(replace(setup_of(), axes=[AXES[kind]]), tmp_path))
    document = (await service.get("/openapi.json")).json()
    feature = document["components"]["schemas"]["Item"]["properties"]["features"]["properties"]["x"]
    for value in (0, 7, -1, 7.5, -5, 1e9, 2e9, 2.0**41, 2.0**70, 1.7e308, -1.7e308, True):
        is_allowed = feature.get("minimum", value) <= value <= feature.get("maximum", value)
        with nullcontext() if is_allowed else pytest.raises(ContextError):
            read_columns([AXES[kind]], [{"x": value}])


def metrics_of(text: str, label: str) -> dict[tuple[str, str], float]:
    """Return the metrics that have a label, by their name and its value."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(each.name, each.labels[label]): each.value for each in samples if label in each.labels}


async def test_metrics_count_decisions_labels_and_failures_by_kind(tmp_path: Path) -> None:
    def broken(_: Any) -> str:
        raise ValueError("no")

    def nonsense(_: Any) -> Any:
        return object()

    def slow(_: Any) -> str:
        time.sleep(0.3)
        return "well"

    models = {"old": old, "broken": broken, "nonsense": nonsense, "slow": slow}
    async with called(setup_of(models, limits_s={"slow": 0.05}), tmp_path) as (client, _):
        for _ in range(12):
            (told,) = await client.decide(None)
            await client.learn("well", told["id"])
        text = (await client.get("/metrics")).text
        found = dict(re.findall(r"^(cosend_\w+(?:\{[^}]*\})?) ([\d.e+-]+)$", text, flags=re.MULTILINE))
        assert float(found['cosend_labels_total{result="learnt"}']) == 12
        assert sum(float(n) for name, n in found.items() if name.startswith("cosend_decisions_total")) == 12
        for arm, kind in (("broken", "error"), ("nonsense", "label"), ("slow", "time")):
            assert float(found[f'cosend_failures_total{{arm="{arm}",kind="{kind}"}}']) >= 1
        assert float(found["cosend_pending"]) == 0
        assert 0 <= float(found["cosend_recent_error"]) <= 1


def test_metrics_say_how_every_arm_does(tmp_path: Path) -> None:
    setup = a_setup(costs={"any": 0.25}, score_local="used")
    with served(tmp_path, setup) as (url, _), Client(url) as client:
        decisions = client.classify_many([{"age": n % 100} for n in range(60)])
        truths = ["ill" if n % 3 else "well" for n in range(60)]
        paid = [each.cost if n else 0.75 for n, each in enumerate(decisions)]  # of one, it is known later what it cost
        client.learn_many(decisions, truths, [0.75, *[None] * 59])
        found = metrics_of(httpx.get(f"{url}/metrics").text, "arm")
        for arm in {each.arm for each in decisions}:
            mine = [n for n, each in enumerate(decisions) if each.arm == arm]
            right = sum(decisions[n].label == truths[n] for n in mine)
            cost = sum(paid[n] for n in mine)
            assert found["cosend_arm_accuracy_count", arm] == found["cosend_arm_cost_count", arm] == len(mine)
            assert found["cosend_arm_accuracy_sum", arm] == found["cosend_arm_gain_sum", arm] == right
            assert found["cosend_arm_cost_sum", arm] == pytest.approx(cost)
            assert found["cosend_arm_reward", arm] == pytest.approx((right - cost) / len(mine))


async def test_metrics_count_the_answers_for_peers(tmp_path: Path) -> None:
    def wrong(_: Any) -> str:
        return "nonsense"

    hub, nodes = Hub(), list[RunningSite]()
    for name, model, peer in (("north", wrong, "south"), ("south", young, "north")):
        setup = Setup(
            name=name,
            classifiers={f"{name}'s": as_classifier(model)},
            axes=[Feature("age", range=(0, 100))],
            peers={peer: (0.0, 1)},
            deadline_s=10.0,
        )
        nodes.append(RunningSite(setup, tmp_path / name, link=hub.link(name)))
        await nodes[-1].start()
    async with Caller(nodes[0]) as north, Caller(nodes[1]) as south:
        sent = 0
        for age in range(0, 100, 5):
            (told,) = await north.decide(None, age=age)
            sent += told["arm"] == "south"
            label = {"id": told["id"], "label": young({"age": age})}
            await north.post("/v1/labels", json={"labels": [label], "wait_for_peers": True})
        assert sent > 5
        found = metrics_of((await south.get("/metrics")).text, "peer")
        assert found["cosend_answers_for_peers_total", "north"] == sent
        assert found["cosend_labels_from_peers_total", "north"] == sent
    await until(lambda: not any(len(node.running.posting) for node in nodes))
    await asyncio.gather(*(node.stop(0.5) for node in nodes))


async def test_a_decision_costs_what_its_arm_cost_when_it_was_chosen(tmp_path: Path) -> None:
    def slow(_: Any) -> str:
        time.sleep(0.2)
        return "well"

    async with called(setup_of({"slow": slow}, costs={"slow": 0.25}), tmp_path) as (client, _):
        asked = asyncio.create_task(client.decide("one"))
        await asyncio.sleep(0.05)
        await client.ask("/v1/arms/slow", {"cost": 0.5})
        told = await asked
        assert told[0]["cost"] == (await client.ask("/v1/decisions/one"))["cost"] == 0.25
        assert await client.decide("one") == told


async def test_scores_are_told_where_labels_would_be_and_costs_in_money(tmp_path: Path) -> None:
    setup = a_setup(costs={"any": 0.1}, money=Money(0.02, "USD"), learnt=False)
    async with running(setup, tmp_path) as site, Caller(site) as client:
        await client.decide("a", "b", "c", None)
        told = await client.ask("/v1/labels", {"labels": [{"id": "a", "score": 0.25}, {"id": "b", "score": 0.75}]})
        assert (told["learnt"], told["missing"]) == (["a", "b"], [])
        summary = await client.summary()
        assert (summary["scores"], summary["recent_score"], summary["recent_error"]) == (2, 0.5, None)
        assert (summary["unit"], summary["currency"], summary["labels"]["learnt"]) == (0.02, "USD", 2)
        record = await client.ask("/v1/decisions/a")
        assert (record["labelled"], record["truth"], record["score"]) == (False, None, 0.25)
        arms = {arm["name"]: (arm["cost"], arm["price"]) for arm in (await client.ask("/v1/arms"))["arms"]}
        assert arms == {"young": (0.0, 0.0), "any": (0.1, 0.002)}
        assert (await client.ask("/v1/arms/any", {"price": 0.004}))["cost"] == 0.2
        for body, words in (
            ({"price": 0.03}, "from 0 to the unit, 0.02 USD"),
            ({"price": 0.01, "cost": 0.5}, "given without a cost"),
        ):
            refused = await client.post("/v1/arms/any", json=body)
            assert (refused.status_code, words in refused.text) == (422, True)
        text = (await client.get("/metrics")).text
        assert "cosend_scores_total 2.0" in text
        assert "cosend_recent_score 0.5" in text
        assert 'cosend_arm_price_count{arm="young",currency="USD"}' in text
        assert "cosend_arm_accuracy" not in text
        assert "recent_error" not in text
        for labels, words in (
            ([{"id": "c"}], "one of `label`, `score` and `scores`"),
            ([{"id": "c", "label": "ill", "score": 1}], "one of `label`, `score` and `scores`"),
            (
                [{"id": "c", "score": 2}],
                "the score of decision 'c' of site 'north' must be a number from 0 to 1, got 2",
            ),
            ([{"id": "d-4", "score": 2}], "the score of decision 'd-4' of site 'north' must be"),
            ([{"id": "c", "scores": {"any": 1}}], "decision 'c' of site 'north' needs a score for 'young'"),
            ([{"id": "c", "score": "high"}], "Expected `float | null`"),
            ([{"id": "c", "score": 1, "price": 0.03}], "the price of decision 'c' must be a number from 0 to the unit"),
            ([{"id": "c", "score": 1, "price": 0.01, "cost": 0.5}], "given without a cost"),
            ([{"id": "c", "score": 1, "price": -1}], "Expected `float` >= 0"),
            ([{"id": "c", "scores": {"nobody": 1}}], "which is no arm: the arms are 'young', 'any'"),
        ):
            refused = await client.post("/v1/labels", json={"labels": labels})
            assert (refused.status_code, words in refused.json()["detail"]) == (422, True), refused.text
        assert await client.learn("ill", "c")
        assert "cosend_arm_accuracy" in (await client.get("/metrics")).text


async def test_scores_are_told_in_the_units_of_the_site_and_gains_in_shares(tmp_path: Path) -> None:
    setup = a_setup(learnt=False, reward=Reward(range=(1, 5)))
    async with running(setup, tmp_path) as site, Caller(site) as client:
        await client.decide("a", "b")
        await client.ask("/v1/labels", {"labels": [{"id": "a", "score": 5}, {"id": "b", "score": 3}]})
        summary = await client.summary()
        assert (summary["recent_score"], summary["recent_gain"], summary["recent_reward"]) == (4, 0.75, 0.75)
        records = [await client.ask(f"/v1/decisions/{name}") for name in "ab"]
        assert [record["score"] for record in records] == [5, 3]
        gains = {arm["name"]: arm["mean_gain"] for arm in (await client.ask("/v1/arms"))["arms"]}
        assert gains[records[0]["arm"]] in (1.0, 0.75)
        assert "cosend_recent_score 4.0" in (await client.get("/metrics")).text
        view = SiteView(site)
        assert "mean score</span>" in render_parts(view.snapshot(1.0))["tiles"]
        assert sorted(row.score for row in view.rows("labelled") if row.score is not None) == [3, 5]


def test_the_example_of_a_label_has_a_label(tmp_path: Path) -> None:
    document = Service(RunningSite(a_setup(), tmp_path), NOBODY).description()
    page = unescape(docs_page(document, "http://here"))
    assert """-d '{"labels": [{"id": "ID", "label": "text"}]}'""" in page


async def test_the_budget_stands_in_the_summary_and_in_the_metrics(tmp_path: Path) -> None:
    budget = Budget(per_item=0.001, calls={"any": {"per_hour": 100}})
    setup = a_setup(costs={"any": 0.1}, money=Money(0.02, "USD"), learnt=False, budget=budget, policy=MixedViews())
    async with running(setup, tmp_path) as site, Caller(site) as client:
        await client.decide("a", "b", "c")
        money, calls = (await client.summary())["budget"]
        assert (money["limit"], money["arm"], money["unit"]) == ("per_item", "", "USD")
        assert (money["amount"], money["allowed"], money["factor"] > 1) == (0.001, 0.003, True)
        assert (calls["arm"], calls["unit"], calls["amount"]) == ("any", "calls", 100)
        assert money["spent"] == pytest.approx(0.002 * calls["spent"])
        text = (await client.get("/metrics")).text
        assert 'cosend_budget_amount{arm="",limit="per_item",unit="USD"} 0.001' in text
        assert 'cosend_budget_factor{arm="any",limit="per_hour",unit="calls"}' in text
        page = render_parts(SiteView(site).snapshot(1.0))["tiles"]
        assert "spent of the budget in calls of any" in page
    other = replace(setup, budget=Budget(per_item=0.002))
    async with running(other, tmp_path) as site, Caller(site) as client:
        told = await client.summary()
        (after,) = told["budget"]
        assert (after["amount"], after["spent"], after["allowed"]) == (0.002, money["spent"], money["allowed"])
        (said,) = told["took_over"]
        assert said.startswith(
            "the budget is per_item 0.002 USD now; it was per_item 0.001 USD, calls.any.per_hour 100"
        )
        assert re.search(r" with 0\.00\d USD and \d calls? of any spent$", said)


async def test_a_budget_is_set_while_a_site_runs_and_the_file_wins_where_it_changes(tmp_path: Path) -> None:
    setup = a_setup(costs={"any": 0.1}, money=Money(0.02, "USD"), learnt=False, budget=Budget(per_item=0.001))
    limits = {"total": 5.0, "calls": {"any": {"total": 2, "per_day": None}}, "at_most_per_second": {"young": 100}}
    async with running(setup, tmp_path) as site, Caller(site) as client:
        money, calls = (await client.ask("/v1/budget", limits))["budget"]
        assert (money["limit"], money["unit"], money["amount"], money["spent"]) == ("total", "USD", 5.0, 0.0)
        assert (calls["limit"], calls["arm"], calls["allowed"], calls["factor"]) == ("total", "any", 2.0, 0.0)
        arms = [(await client.decide(f"{n}", age=90.0))[0]["arm"] for n in range(12)]
        assert arms.count("any") <= 2
        used = (await client.summary())["budget"][1]["spent"]
        assert used == arms.count("any") > 0
        page = render_parts(SiteView(site).snapshot(1.0))["tiles"]
        assert f"spent of the budget in calls of any: {used:g} calls of the 2 calls in total; then only free" in page
        for wrong, status, said in (
            ({"total": 0}, 422, "Expected `float` > 0"),
            ({"per_week": 1}, 422, "unknown field `per_week`"),
            ({"calls": {"any": {"total": -1}}}, 422, "Expected `float` > 0"),
            ({"calls": {"nobody": {"total": 1}}}, 404, "has no arm 'nobody'"),
            ({"at_most_per_second": {"nobody": 1}}, 404, "has no arm 'nobody'"),
            ({"total": 1.7e308}, 422, "budget.total must be a number above 0, got inf"),
        ):
            refused = await client.post("/v1/budget", json=wrong)
            assert (refused.status_code, said in refused.json()["detail"]) == (status, True), refused.text
        assert [each["amount"] for each in (await client.summary())["budget"]] == [5.0, 2.0]
    words = "total 5 USD, calls.any.total 2, at_most_per_second.young 100"
    for _ in range(2):  # the file is as it was
        async with running(setup, tmp_path) as site, Caller(site) as client:
            told = await client.summary()
            assert (told["budget"][1]["amount"], told["budget"][1]["spent"]) == (2.0, used)
            assert told["took_over"] == [
                f"the budget is {words}, as it was set while the site ran; the file says per_item 0.001 USD"
            ]
    other = replace(setup, budget=Budget(calls={"any": {"total": 7}}))
    async with running(other, tmp_path) as site, Caller(site) as client:
        told = await client.summary()
        (calls,) = told["budget"]
        assert (calls["amount"], calls["spent"]) == (7.0, used)
        assert told["took_over"][0].startswith(f"the budget is calls.any.total 7 now; it was {words}, with ")
        assert (await client.ask("/v1/budget", {}))["budget"] == []
    async with running(other, tmp_path) as site, Caller(site) as client:
        told = await client.summary()
        assert told["budget"] == []
        (said,) = told["took_over"]
        assert said == "the budget is none, as it was set while the site ran; the file says calls.any.total 7"
    cells = replace(setup, budget=None, policy=CellKLUCB(horizon=100))
    async with running(cells, tmp_path / "cells") as site, Caller(site) as client:
        refused = await client.post("/v1/budget", json={"total": 1})
        assert (refused.status_code, "MixedViews where there is a budget" in refused.text) == (422, True)


async def test_an_item_that_no_total_pays_for_is_answered_with_a_problem(tmp_path: Path) -> None:
    setup = a_setup(costs={"any": 0.1, "young": 0.1}, learnt=False, budget=Budget(total=0.35), policy=MixedViews())
    async with running(setup, tmp_path) as site, Caller(site) as client:
        told = await client.decide(*"abcde")
        assert ["arm" in each for each in told] == [True] * 3 + [False] * 2
        assert told[4]["error"].endswith("young: the budget is spent; any: the budget is spent")
        refused = await client.post("/v1/classify", json={"items": [{"features": {"age": 5}}]})
        assert (refused.status_code, refused.json()["type"]) == (503, NO_ANSWER)
        await client.ask("/v1/budget", {"total": 0.45})
        assert "arm" in (await client.decide("d"))[0]


async def test_what_a_decision_cost_may_come_with_its_score_in_money(tmp_path: Path) -> None:
    setup = a_setup(costs={"young": 0.1, "any": 0.1}, money=Money(0.02, "USD"), learnt=False)
    async with running(setup, tmp_path) as site, Caller(site) as client:
        ids = ["a", "b", "c"]
        await client.decide(*ids)
        paid: list[dict[str, Any]] = [{"id": "a", "score": 1, "price": 0.005}, {"id": "b", "score": 1, "cost": 0.25}]
        paid.append({"id": "c", "label": "ill"})
        assert (await client.ask("/v1/labels", {"labels": paid}))["learnt"] == ids
        again = await client.ask("/v1/labels", {"labels": [{"id": "a", "score": 1, "price": 0.01}]})
        assert again["duplicate"] == ["a"]
        events = [msgspec.json.decode(line) for line in (await client.get("/v1/events")).text.splitlines()]
        assert [each["costs"] for each in events if each["event"] == "Labelled"] == [[0.25, 0.25, None]]
        assert sum(each.cost for each in site.counts.scores.values()) == pytest.approx(0.6)


async def test_a_price_needs_somebody_who_says_what_a_right_label_is_worth(tmp_path: Path) -> None:
    async with running(a_setup(), tmp_path) as site, Caller(site) as client:
        refused = await client.post("/v1/arms/any", json={"price": 0.01})
        assert (refused.status_code, "what a correct answer is worth" in refused.text) == (422, True)
        assert {arm["price"] for arm in (await client.ask("/v1/arms"))["arms"]} == {None}
