"""What a service says about money, calls and peers, before and after a restart; and its newest decisions."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cosend import Answer, Money
from cosend.client import Client
from cosend.models.adapters import as_classifier
from cosend.pages.rendering import render_parts
from cosend.pages.site_view import SiteView
from cosend.runtime.decision_export import Export
from cosend.runtime.inspection import Inspection
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.server.metrics import Metrics
from cosend.store.event_log import LogReader
from cosend.transport.in_process import Hub
from tests.node.pairs import again, play, two
from tests.node.sites import crash, decided, running, until
from tests.server.services import Caller, a_setup, called, served

UNIT = 0.5


def priced(**options: Any) -> Setup:
    """Return a site with a model that says what an answer costs, one that does not, and one that fails."""

    def broken(_: Any) -> str:
        raise ValueError("broken")

    models = {
        "frank": as_classifier(lambda item: Answer("well", cost=item["age"] / 128)),
        "quiet": as_classifier(lambda _: "well"),
        "broken": as_classifier(broken),
    }
    given: dict[str, Any] = {"classifiers": models, "costs": {"frank": 0.25, "quiet": 0.125, "broken": 0.0625}}
    return a_setup(**{**given, "money": Money(UNIT, "USD"), "score_local": "used", "learnt": False, **options})


def metric(text: str, name: str, *labels: str) -> dict[Any, float]:
    """Return the samples of a metric by their labels."""
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


async def told(site: RunningSite, client: Caller) -> dict[str, float]:
    """Return what arms have spent, which must be the same everywhere."""
    spent = {arm["name"]: arm["spent"] for arm in (await client.ask("/v1/arms"))["arms"]}
    money = site.setup.money
    unit = "costs" if money is None else money.currency
    found = metric((await client.get("/metrics")).text, "cosend_arm_spent", "arm", "unit")
    assert {arm: value for (arm, its), value in found.items() if its == unit and value} == {
        arm: value for arm, value in spent.items() if value
    }
    assert (await client.summary())["spent"] == pytest.approx(sum(spent.values()), rel=1e-11)
    page = render_parts(SiteView(site).snapshot(1.0))["arms"]
    assert ("<th>spent</th>" in page) == any(spent.values())
    return spent


@pytest.mark.parametrize("money", [Money(UNIT, "USD"), None])
async def test_what_arms_have_spent_needs_no_label_and_outlives_the_process(
    tmp_path: Path, money: Money | None
) -> None:
    setup, unit = priced(money=money), UNIT if money else 1.0
    async with running(setup, tmp_path) as site, Caller(site) as client:
        assert set((await told(site, client)).values()) == {0.0}
        found = [(await client.decide(f"i{n}", age=n))[0] for n in range(64)]
        frank = [n for n, each in enumerate(found) if each["arm"] == "frank"]
        quiet = [n for n, each in enumerate(found) if each["arm"] == "quiet"]
        assert min(len(frank), len(quiet)) > 1
        expected = {"frank": sum(frank) / 128 * unit, "quiet": 0.125 * len(quiet) * unit, "broken": 0.0}
        assert await told(site, client) == pytest.approx(expected, rel=1e-11)
    async with running(setup, tmp_path) as site, Caller(site) as client:
        assert await told(site, client) == pytest.approx(expected, rel=1e-11)
        name = f"i{quiet[0]}"
        await client.ask("/v1/labels", {"labels": [{"id": name, "score": 1, "cost": 0.5}]})
        expected["quiet"] += (0.5 - 0.125) * unit
        before = await told(site, client)
        assert before == pytest.approx(expected, rel=1e-11)
        await client.ask("/v1/labels", {"labels": [{"id": name, "score": 1, "cost": 1.0}]})  # it counts once
        await crash(site)
    async with running(setup, tmp_path) as site, Caller(site) as client:  # without a snapshot of the end
        assert await told(site, client) == before


async def test_a_decision_has_what_was_expected_and_what_it_really_cost(tmp_path: Path) -> None:
    async with running(priced(), tmp_path) as site, Caller(site) as client:
        found = {f"i{n}": (await client.decide(f"i{n}", age=64))[0]["arm"] for n in range(40)}
        frank = next(name for name, arm in found.items() if arm == "frank")
        quiet, labelled, scored = [name for name, arm in found.items() if arm == "quiet"][:3]
        given = [{"id": labelled, "label": "well", "price": 0.2}, {"id": scored, "score": 0.5, "cost": 0.0}]
        await client.ask("/v1/labels", {"labels": given})
        records = {each["id"]: each for each in (await client.ask("/v1/decisions?count=100"))["decisions"]}
        for name, costs in {
            frank: (0.25, 0.125, 0.5, 0.25),
            quiet: (0.125, 0.0625, None, None),
            labelled: (0.125, 0.0625, 0.4, 0.2),
            scored: (0.125, 0.0625, 0.0, 0.0),
        }.items():
            record = await client.ask(f"/v1/decisions/{name}")
            for each in (record, records[name]):
                assert tuple(each[key] for key in ("cost", "price", "cost_paid", "price_paid")) == costs
    with LogReader(tmp_path) as log, Export(log) as export:
        export.gather()
        rows = {row["id"]: (row["cost"], row["cost_paid"]) for row in export.rows()}
    assert [rows[name] for name in (frank, quiet, labelled, scored)] == [
        (0.25, 0.5), (0.125, None), (0.125, 0.4), (0.125, 0.0),
    ]  # fmt: skip


# The newest decisions


async def test_the_newest_decisions_come_first_and_all_of_them_page_by_page(tmp_path: Path) -> None:
    async with called(a_setup(), tmp_path) as (client, _):
        assert await client.ask("/v1/decisions") == {"decisions": [], "next": None}
        made = [each["id"] for _ in range(5) for each in await client.decide("a", None, "b", None, None)]
        ids = [*dict.fromkeys(made)]  # a and b are asked for again, and decided once
        await client.learn("ill", "a")
        page = await client.ask("/v1/decisions?count=3")
        assert [each["id"] for each in page["decisions"]] == ids[:-4:-1]
        assert "cell_now" not in page["decisions"][0]
        found = list[Any]()
        start: str | None = ""
        while start is not None:
            page = await client.ask(f"/v1/decisions?count=2{start}")
            found += page["decisions"]
            start = None if page["next"] is None else f"&start={page['next']}"
        assert [each["id"] for each in found] == ids[::-1]
        assert [each["id"] for each in found if each["labelled"]] == ["a"]
        for each in found[:3]:
            whole = await client.ask(f"/v1/decisions/{each['id']}")
            assert {key: whole[key] for key in each} == each
        for query, words in {"count=0": ">= 1", "count=101": "<= 100", "start=-1": ">= 0", "start=x": "int"}.items():
            refused = await client.get(f"/v1/decisions?{query}")
            assert (refused.status_code, words in refused.json()["detail"]) == (422, True), refused.text
        assert (await client.ask("/v1/decisions?start=9000000000000"))["decisions"][0]["id"] == ids[-1]


def test_a_client_lists_the_newest_decisions(tmp_path: Path) -> None:
    with served(tmp_path) as (url, _), Client(url) as site:
        made = [each.id for each in site.classify_many([{"age": n % 100} for n in range(250)])]
        site.learn(made[-1], "well")
        assert [each.id for each in site.decisions()] == made[:-21:-1]
        assert [each.id for each in site.decisions(3)] == made[:-4:-1]
        every = site.decisions(1_000)
        assert [each.id for each in every] == made[::-1]
        assert (every[0].truth, every[0].labelled, every[1].labelled) == ("well", True, False)


async def test_a_change_of_the_budget_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "cosend")
    async with called(priced(), tmp_path) as (client, _):
        for body in ({"total": 2.0}, {}):
            assert (await client.post("/v1/budget", json=body)).status_code == 200
    said = [record.__dict__["budget"] for record in caplog.records if record.message == "budget changed"]
    assert said == ["total 2 USD", "none"]


async def test_a_site_that_answers_its_peers_lists_its_own_decisions_before_that(tmp_path: Path) -> None:
    async with two(tmp_path, Hub()) as (north, south):
        made = [(await decided(south, {"age": 20}))[0].id for _ in range(3)]
        await play(north, range(150))
        assert south.state.learner.last_id > 60  # the newest numbers are answers
        found, following = await Inspection(south).decisions(2, None)
        assert [each["id"] for each in found] == made[:0:-1]
        (last,), following = await Inspection(south).decisions(2, following)
        assert (last["id"], following) == (made[0], None)


async def test_events_that_were_removed_end_the_list(tmp_path: Path) -> None:
    async with called(a_setup(), tmp_path) as (client, site):
        for _ in range(10):
            await client.decide(None)
        last = site.commits.position
        await site.snapshot()
        await client.decide(None)
        site.store.log.remove(last)
        page = await client.ask("/v1/decisions")
        assert [each["number"] for each in page["decisions"]] == [11]
        assert page["next"] is None


# Calls and peers


async def test_the_time_of_calls_is_counted_by_arm(tmp_path: Path) -> None:
    ended = threading.Event()

    def hangs(item: Any) -> str:
        if item["age"] > 50:
            ended.wait(20.0)
        return "well"

    setup = a_setup(classifiers={"moody": as_classifier(hangs)}, limits_s={"moody": 0.2}, learnt=False, retries=0)
    async with called(setup, tmp_path) as (client, _):
        for _ in range(3):
            await client.decide(None, None, age=5)
        text = (await client.get("/metrics")).text
        assert metric(text, "cosend_call_seconds_count", "arm") == {("moody",): 3.0}
        reply = await client.post("/v1/classify", json={"items": [{"features": {"age": 70}}]})
        assert reply.status_code == 503
        ended.set()  # what was given up counts once, with the time until then
        await asyncio.sleep(0.1)
        text = (await client.get("/metrics")).text
        assert metric(text, "cosend_call_seconds_count", "arm") == {("moody",): 4.0}
        assert metric(text, "cosend_call_seconds_sum", "arm")["moody",] > 0.2
        buckets = metric(text, "cosend_call_seconds_bucket", "le")
        assert buckets["0.1",] <= 3.0 < buckets["+Inf",] == 4.0
        assert [*buckets.values()] == sorted(buckets.values())


async def test_peers_that_are_gone_and_the_labels_that_wait_for_them_are_in_the_metrics(tmp_path: Path) -> None:
    hub = Hub()
    async with two(tmp_path, hub) as (north, south):
        metrics = Metrics(north)
        await play(north, range(60))
        await until(lambda: not north.state.outbox)
        text = metrics.text().decode()
        assert metric(text, "cosend_peer_present", "peer") == {("south",): 1.0}
        assert metric(text, "cosend_outbox", "peer") == {("south",): 0.0}
        calls = metric(text, "cosend_call_seconds_count", "arm")
        assert calls["south",] > 25
        made = [(await decided(north, {"age": age}))[0] for age in range(20)]
        sent = sum(each.arm == "south" for each in made)
        assert sent
        await hub.links["south"].kill()
        await crash(south)
        await north.label([Given(each.id, "ill") for each in made])
        text = metrics.text().decode()
        assert metric(text, "cosend_peer_present", "peer") == {("south",): 0.0}
        assert metric(text, "cosend_outbox", "peer") == {("south",): sent}
        back = await again(south, hub)
        await until(lambda: not north.state.outbox)
        text = metrics.text().decode()
        assert metric(text, "cosend_peer_present", "peer") == {("south",): 1.0}
        assert metric(text, "cosend_outbox", "peer") == {("south",): 0.0}
        await back.stop(0.5)
