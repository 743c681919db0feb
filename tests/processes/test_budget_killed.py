"""A router with a budget, killed again and again while it decides: nothing is lost, and nothing is overspent."""

from __future__ import annotations

import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.tools.processes import Service, Services

NETWORK = """
[costs]
unit = 1.0
currency = "USD"
[budget]
per_hour = 18.0
[[sites]]
name = "router"
score_local = "used"
learnt = false
[[sites.classifiers]]
name = "small"
model = "return:small"
price = 0.00001
[[sites.classifiers]]
name = "large"
model = "return:large"
price = 0.01
"""
AHEAD = 18.0 / 20


pytestmark = pytest.mark.compiled


def route(site: Service, told: dict[str, Any], names: list[str]) -> None:
    """Ask about items, and score the answers, until the site is gone."""
    for name in names:
        items = [{"id": name, "features": {"words": len(told)}}]
        try:
            (told[name],) = site.ask("/v1/classify", {"items": items})["decisions"]
            site.ask("/v1/labels", {"labels": [{"id": name, "score": 0.9 if told[name]["arm"] == "large" else 0.1}]})
        except (OSError, HTTPException):
            return


def cost_of(told: dict[str, Any]) -> float:
    """Return what the answers cost that clients were told, or a hair less."""
    return sum({"small": 1e-5, "large": 0.01}[each["arm"]] for each in told.values()) - 1e-9


def test_a_router_that_is_killed_overspends_nothing(services: Services, tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(NETWORK)
    told: dict[str, Any] = {}
    for life in range(3):
        site = services.start(tmp_path, "router")
        site.wait_until_ready()
        summary = site.ask("/v1/summary")
        (budget,) = summary["budget"]
        assert budget["spent"] >= cost_of(told)
        assert summary["spent"] == pytest.approx(budget["spent"])
        names = [f"{life}-{n}" for n in range(200)]
        threads = [threading.Thread(target=route, args=(site, told, names[part::4])) for part in range(4)]
        for thread in threads:
            thread.start()
        while len(told) < 100 * (life + 1) and any(thread.is_alive() for thread in threads):
            time.sleep(0.01)
        (budget,) = site.ask("/v1/summary")["budget"]  # which may have more than is on the disk yet
        assert budget["spent"] <= budget["allowed"] + AHEAD + 0.001 * len(told)
        text = site.request("GET", "/metrics").body
        assert "cosend_budget_spent" in str(text)
        site.kill()
        for thread in threads:
            thread.join()
    assert {each["arm"] for each in told.values()} == {"small", "large"}
    again = services.start(tmp_path, "router")
    again.wait_until_ready()
    for name, each in told.items():
        items = [{"id": name, "features": {"words": 0}}]
        assert again.ask("/v1/classify", {"items": items})["decisions"] == [each]
    summary = again.ask("/v1/summary")
    assert summary["budget"][0]["spent"] >= cost_of(told)
    arms = {arm["name"]: arm["spent"] for arm in again.ask("/v1/arms")["arms"]}
    assert sum(arms.values()) == pytest.approx(summary["spent"])
    assert arms["large"] == pytest.approx(0.01 * round(arms["large"] / 0.01))  # whole calls, none counted twice
    assert sum(each["arm"] == "large" for each in told.values()) <= round(arms["large"] / 0.01) <= 600


def test_a_total_that_was_changed_while_the_router_ran_outlives_a_kill_and_is_never_exceeded(
    services: Services, tmp_path: Path
) -> None:
    network = NETWORK.replace("per_hour = 18.0", "total = 0.1").replace("price = 0.00001\n", "")
    (tmp_path / "network.toml").write_text(network)
    told: dict[str, Any] = {}

    def paid() -> float:
        return 0.01 * [each["arm"] for each in told.values()].count("large") - 1e-9

    for life, total in enumerate((0.1, 0.3, 0.6)):
        site = services.start(tmp_path, "router")
        site.wait_until_ready()
        if life:
            (budget,) = site.ask("/v1/budget", {"total": total})["budget"]
            assert budget["amount"] == total
            site.kill()  # as soon as it has said so
            site = services.start(tmp_path, "router")
            site.wait_until_ready()
        (budget,) = site.ask("/v1/summary")["budget"]
        assert (budget["limit"], budget["amount"]) == ("total", total)
        assert paid() <= budget["spent"] <= total + 1e-9
        names = [f"total-{life}-{n}" for n in range(200)]
        threads = [threading.Thread(target=route, args=(site, told, names[part::4])) for part in range(4)]
        for thread in threads:
            thread.start()
        while len(told) < 120 + 200 * life and any(thread.is_alive() for thread in threads):
            time.sleep(0.01)
        site.kill()
        for thread in threads:
            thread.join()
        assert paid() <= total
    again = services.start(tmp_path, "router")
    again.wait_until_ready()
    said = again.ask("/v1/summary")["took_over"]
    assert said == ["the budget is total 0.6 USD, as it was set while the site ran; the file says total 0.1 USD"]
    route(again, told, [f"last-{n}" for n in range(100)])
    assert {told[f"last-{n}"]["arm"] for n in range(90, 100)} == {"small"}
    assert 0.6 - 0.01 - 1e-9 < again.ask("/v1/summary")["budget"][0]["spent"] <= 0.6 + 1e-9
    assert paid() <= 0.6
