"""A word means the same wherever it is said: to a `Site`, to the client of a service, in HTTP and in metrics."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cosend import Context, Site
from cosend.classifiers.adapters import as_classifier
from cosend.client import AsyncClient, Client
from cosend.links.in_process import Hub
from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.service.app import build_app
from cosend.service.tokens import Tokens
from tests.node.networks import until
from tests.node.sites import run
from tests.service.live import a_setup, served, young

AGES = [7, 35, 64, 91]


def talk(site: Any) -> list[Any]:
    """Do the same with a site of whatever kind, and return all labels."""
    one = site.classify({"age": 70})
    site.learn(one, "ill")
    site.learn(site.classify({"age": 3}).id, "well", 0.5)
    many = site.classify_many([{"age": age} for age in AGES])
    site.learn_many(many, ["well"] * len(AGES))
    more = site.classify_many([{"age": age} for age in AGES])
    site.learn_many([each.id for each in more], ("well" for _ in AGES), [0.1] * len(AGES))
    return [one.label, *(each.label for each in many), *(each.label for each in more)]


def test_a_client_is_used_like_a_site(tmp_path: Path) -> None:
    models: dict[str, Any] = {"young": young}
    here = talk(Site("north", classifiers=models, context=Context("age", range=(0, 100))))
    with served(tmp_path, a_setup(classifiers={"young": as_classifier(young)})) as (url, _), Client(url) as client:
        assert talk(client) == here == ["ill", *(["well", "well", "ill", "ill"] * 2)]
        assert client.summary().labels.learnt == 2 + 2 * len(AGES)


@pytest.mark.parametrize("verb", ["classify", "classify_many", "learn", "learn_many"])
def test_the_verbs_take_the_same_in_the_same_order(verb: str) -> None:
    ours = [*inspect.signature(getattr(Site, verb)).parameters]
    for kind in (Client, AsyncClient):
        theirs = [*inspect.signature(getattr(kind, verb)).parameters]
        assert theirs[: len(ours)] == ours


def test_pausing_is_one_word(tmp_path: Path) -> None:
    with served(tmp_path) as (url, _), Client(url) as client, httpx.Client(base_url=url) as http:

        def paused() -> list[str]:
            told = http.get("/v1/arms").json()["arms"]
            assert [arm["name"] for arm in told if arm["paused"]] == [arm.name for arm in client.arms() if arm.paused]
            return [arm["name"] for arm in told if arm["paused"]]

        assert http.post("/v1/arms/any", json={"paused": True}).json()["paused"] is True
        assert paused() == ["any"]
        assert http.post("/v1/arms/any", json={"cost": 0.5}).json()["paused"] is True  # what is not named stays
        assert not client.change_arm("any", paused=False).paused
        assert paused() == []
        for wrong in ({"action": "pause"}, {"paused": "yes"}, {"paused": 1}):
            assert http.post("/v1/arms/any", json=wrong).status_code == 422
        assert paused() == []


def metrics_of(text: str, label: str) -> dict[tuple[str, str], float]:
    """Return the metrics that have a label, by their name and its value."""
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(each.name, each.labels[label]): each.value for each in samples if label in each.labels}


def test_metrics_say_how_every_arm_does(tmp_path: Path) -> None:
    setup = a_setup(costs={"any": 0.25}, score_local="used")
    with served(tmp_path, setup) as (url, _), Client(url) as client:
        decisions = client.classify_many([{"age": n % 100} for n in range(60)])
        truths = ["ill" if n % 3 else "well" for n in range(60)]
        client.learn_many(decisions, truths)
        client.learn(client.classify({"age": 3}), "well", cost=0.75)
        found = metrics_of(httpx.get(f"{url}/metrics").text, "arm")
        right, cost, count = 0.0, 0.0, 0.0
        for arm in {each.arm for each in decisions}:
            mine = [
                (each.label == truth, each.cost)
                for each, truth in zip(decisions, truths, strict=True)
                if each.arm == arm
            ]
            last = found["cosend_arm_accuracy_count", arm] - len(mine)  # the label that came with a cost
            assert last in (0, 1)
            assert found["cosend_arm_accuracy_sum", arm] == sum(good for good, _ in mine) + last
            assert found["cosend_arm_gain_sum", arm] == found["cosend_arm_accuracy_sum", arm]
            assert found["cosend_arm_cost_sum", arm] == pytest.approx(sum(paid for _, paid in mine) + 0.75 * last)
            net = found["cosend_arm_gain_sum", arm] - found["cosend_arm_cost_sum", arm]
            assert found["cosend_arm_reward", arm] == pytest.approx(net / found["cosend_arm_cost_count", arm])
            right += found["cosend_arm_accuracy_sum", arm]
            cost += found["cosend_arm_cost_sum", arm]
            count += found["cosend_arm_accuracy_count", arm]
        assert count == 61
        assert client.summary().recent_reward == pytest.approx((right - cost) / count, abs=0.05)


def test_metrics_count_the_answers_for_peers(tmp_path: Path) -> None:
    def wrong(_: Any) -> str:
        return "nonsense"

    async def work() -> None:
        hub, nodes = Hub(), list[Node]()
        for name, model, peer in (("north", wrong, "south"), ("south", young, "north")):
            setup = Setup(
                name=name,
                classifiers={f"{name}'s": as_classifier(model)},
                axes=[Context("age", range=(0, 100))],
                peers={peer: (0.0, 1)},
                deadline_s=10.0,
            )
            nodes.append(Node(setup, tmp_path / name, link=hub.link(name)))
            await nodes[-1].start()
        north, south = (
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app=build_app(node, Tokens({}))), base_url="http://127.0.0.1"
            )
            for node in nodes
        )
        async with north, south:
            sent = 0
            for age in range(40):
                reply = await north.post("/v1/classify", json={"items": [{"features": {"age": age}}]})
                (told,) = reply.json()["decisions"]
                sent += told["arm"] == "south"
                label = {"id": told["id"], "label": young({"age": age})}
                await north.post("/v1/labels", json={"labels": [label], "wait_for_peers": True})
            assert sent > 20
            found = metrics_of((await south.get("/metrics")).text, "peer")
            assert found["cosend_answers_for_peers_total", "north"] == sent
            assert found["cosend_labels_from_peers_total", "north"] == sent
        await until(lambda: not any(len(node.peers.posting.outbox) for node in nodes))
        await asyncio.gather(*(node.stop(0.5) for node in nodes))

    run(work())
