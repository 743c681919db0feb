"""A service whose arms are endpoints: killed while it waits for them, it loses nothing; and its token is nowhere."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cosend.models.endpoints import Endpoint
from tests.node.sites import setup_of
from tests.server.services import served
from tests.tools.endpoints import endpoints, young
from tests.tools.processes import Reply, Service, Services

TOKEN = "a-token-that-is-nowhere"  # noqa: S105 - of a server of the tests
NETWORK = """
[[context]]
feature = "age"
range = [0, 100]
[[sites]]
name = "clinic"
[[sites.classifiers]]
name = "far"
model = "oip:{url}/{what}/v2/models/m"
features = ["age"]
token_env = "FAR_TOKEN"
limit_s = 20.0
cost = 0.02
[[sites.classifiers]]
name = "words"
model = "openai:{url}/{what}/v1#gpt-x"
labels = ["ill", "well"]
token_env = "FAR_TOKEN"
token_header = "api-key"
price_in = 1.0
price_out = 2.0
cost = 0.02
"""
COUNT = 24


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setenv("FAR_TOKEN", TOKEN)
    started = Services()
    yield started
    started.close()


def ask(site: Service, told: dict[str, Any], name: str, age: float) -> None:
    """Ask until there is an answer: a site that is killed is asked again when it is there."""
    while name not in told:
        try:
            reply = decide(site, name, age)
        except (OSError, http.client.HTTPException):  # killed between two bytes of a reply, too
            continue
        if reply.status == 200:
            (told[name],) = reply.body["decisions"]


def decide(site: Service, name: str, age: float) -> Reply:
    items = [{"id": name, "features": {"age": age}}]
    return site.request("POST", "/v1/classify", {"items": items})


def test_a_service_that_is_killed_while_it_waits_for_endpoints_loses_nothing(
    services: Services, tmp_path: Path
) -> None:
    told: dict[str, Any] = {}
    with endpoints(takes_s=0.4) as server:
        (tmp_path / "network.toml").write_text(NETWORK.format(url=server.url, what="right"))
        site = services.start(tmp_path, "clinic")
        site.wait_until_ready()
        items = {f"item-{n}": 100.0 * n / COUNT for n in range(COUNT)}
        threads = [threading.Thread(target=ask, args=(site, told, *each)) for each in items.items()]
        for thread in threads:
            thread.start()
        while sum(server.counts.values()) < COUNT:
            pass
        site.kill()  # every item waits for an endpoint, or has just been answered
        again = services.start(tmp_path, "clinic")
        site.port, site.process = again.port, again.process
        again.wait_until_ready()
        for thread in threads:
            thread.join()
        assert {name: each["label"] for name, each in told.items()} == {n: young([age]) for n, age in items.items()}
        assert again.ask("/v1/summary")["pending"] == COUNT  # each was decided once
        again.kill()
        last = services.start(tmp_path, "clinic")
        last.wait_until_ready()
        for name, age in items.items():
            assert decide(last, name, age).body["decisions"] == [told[name]]
        labels = [{"id": name, "label": young([age])} for name, age in items.items()]
        assert len(last.ask("/v1/labels", {"labels": labels})["learnt"]) == COUNT
        last.kill()
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert TOKEN.encode() not in path.read_bytes(), path


PAGES = ["/v1/summary", "/v1/arms", "/v1/events", "/v1/cells", "/metrics", "/docs", "/openapi.json", "/dashboard/"]


def test_a_token_is_on_no_page_and_in_no_event_of_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAR_TOKEN", TOKEN)
    caplog.set_level("DEBUG")
    with endpoints() as server:
        arms = {
            what: Endpoint(f"http:{server.url}/{what}/x", reply="/result/0/label", token_env="FAR_TOKEN")  # noqa: S106
            for what in ("right", "echo", "forbidden", "breaks", "other")
        }
        setup = setup_of(arms, costs=dict.fromkeys(arms, 0.01), retries=len(arms))
        with served(tmp_path / "site", setup, with_pages=True) as (url, _):
            for n in range(20):
                httpx.post(f"{url}/v1/classify", json={"items": [{"features": {"age": n}}]}).raise_for_status()
            said = [httpx.get(f"{url}{page}", follow_redirects=True).text for page in PAGES]
            with httpx.stream("GET", f"{url}/dashboard/live") as live:
                said.append(next(live.iter_text()))
        assert "the reply has the token in it" in said[1]
        assert TOKEN not in "".join(said) + caplog.text
        assert server.seen[-1].headers["authorization"] == f"Bearer {TOKEN}"
