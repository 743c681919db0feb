"""What people and Prometheus look at: the page of the API, metrics, and what an arm costs."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from cosend.node.flight import Decided
from cosend.node.inspection import Inspection
from cosend.node.labelling import Given
from tests.node.sites import old, run, running, setup_of
from tests.service.clients import called

ITEM = {"age": 50.0}


def test_without_a_dashboard_the_root_leads_to_the_description(tmp_path: Path) -> None:
    async def work() -> None:
        async with called(replace(setup_of(), name="<north>"), tmp_path) as (client, _):
            start = await client.get("/")
            assert start.headers["content-type"].startswith("text/html")
            assert re.findall(r'href="([^"]+)"', start.text) == ["/docs", "/openapi.json"]
            assert "<h1>&lt;north&gt;</h1>" in start.text

    run(work())


def test_the_page_of_the_api_needs_nobody_else_s_server(tmp_path: Path) -> None:
    async def work() -> None:
        async with called(setup_of(), tmp_path) as (client, _):
            page = (await client.get("/docs")).text
            wanted = re.findall(r'(?:src|href)="([^"]+)"', page)
            assert len(wanted) >= 2
            for path in wanted:
                assert path.startswith("/"), path
                assert (await client.get(path)).status_code == 200
            assert (await client.get("/openapi.json")).json()["paths"]["/v1/classify"]["post"][
                "summary"
            ] == "Label items"

    run(work())


def test_metrics_count_decisions_labels_and_failures_by_kind(tmp_path: Path) -> None:
    def broken(_: Any) -> str:
        raise ValueError("no")

    def nonsense(_: Any) -> Any:
        return object()

    def slow(_: Any) -> str:
        time.sleep(0.3)
        return "well"

    async def work() -> None:
        models = {"old": old, "broken": broken, "nonsense": nonsense, "slow": slow}
        setup = setup_of(models, limits_s={"slow": 0.05})
        async with called(setup, tmp_path) as (client, node):
            for _ in range(12):
                (told,) = await node.classify([ITEM])
                assert isinstance(told, Decided)
                await node.label([Given(told.id, "well")])
            text = (await client.get("/metrics")).text
            found = dict(re.findall(r"^(cosend_\w+(?:\{[^}]*\})?) ([\d.e+-]+)$", text, flags=re.MULTILINE))
            assert float(found['cosend_labels_total{result="learnt"}']) == 12
            assert sum(float(n) for name, n in found.items() if name.startswith("cosend_decisions_total")) == 12
            for arm, kind in (("broken", "error"), ("nonsense", "label"), ("slow", "time")):
                assert float(found[f'cosend_failures_total{{arm="{arm}",kind="{kind}"}}']) >= 1
            assert float(found["cosend_waiting"]) == 0
            assert 0 <= float(found["cosend_recent_error"]) <= 1

    run(work())


def test_a_decision_costs_what_its_arm_cost_when_it_was_chosen(tmp_path: Path) -> None:
    def slow(_: Any) -> str:
        time.sleep(0.2)
        return "well"

    async def work() -> None:
        async with running(setup_of({"slow": slow}, costs={"slow": 0.25}), tmp_path) as node:
            asked = asyncio.create_task(node.classify([ITEM], ["one"]))
            await asyncio.sleep(0.05)
            await node.change_arm("slow", cost=0.5)
            (told,) = await asked
            assert isinstance(told, Decided)
            assert told.cost == (await Inspection(node).decision("one"))["cost"] == 0.25
            assert (await node.classify([ITEM], ["one"])) == [told]

    run(work())
