"""`retries` means the same to a `Site` and to the service of a site: the same scene takes the same number of tries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from cosend import Context, CoS, LabelledData, Site, ZoomingKLUCB
from cosend.classifiers.adapters import as_classifier
from cosend.core.policy.parts import Policy
from cosend.errors import NetworkError, NoAnswer
from cosend.links.in_process import Hub
from cosend.links.link import Announcement, Answered
from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.service.app import build_app
from cosend.service.tokens import Tokens
from cosend.site.context import Axis
from cosend.site.messages import Call, Forward, Reply

PEERS = [f"peer{n}" for n in range(6)]
AXES: list[Axis] = [Context("x", range=(0, 1))]
ITEM = {"x": 0.5}
POLICIES: dict[str, Policy] = {
    "an index": ZoomingKLUCB(),  # calls peers
    "the paper's": CoS(slices=1, order="train_first"),  # asks them first how much they know
}
Scene = tuple[str | None, int]  # the arm that has labelled the item at last, and how many peers have failed before


def at_home(_: Any) -> str:
    return "at home"


class Dead:
    """A peer of a `Site` that cannot be reached."""

    def __init__(self) -> None:
        self.tries = 0

    def _fail(self) -> NoReturn:
        self.tries += 1
        raise NetworkError("dead")

    def report(self, _: tuple[Any, ...]) -> LabelledData:
        self._fail()

    def serve(self, _: Call) -> list[Reply]:
        self._fail()

    def teach(self, _: Forward) -> None:
        self._fail()


class DeadHandler:
    """A peer of a service that is there, and fails at once whatever it is asked."""

    hangs_s = 0.0

    async def _fail(self) -> NoReturn:
        await asyncio.sleep(self.hangs_s)
        raise NetworkError("dead")

    async def call(self, _: Call) -> Answered:
        await self._fail()

    async def report(self, caller: str, contexts: Any) -> list[LabelledData]:
        await self._fail()

    async def post(self, caller: str, forwards: Any) -> None:
        await self._fail()


def by_a_site(policy: Policy, retries: int) -> Scene:
    site = Site(
        "north", classifiers={"home": at_home}, context=AXES, policy=policy, costs={"home": 0.9}, retries=retries
    )
    dead = {name: Dead() for name in PEERS}
    for name, peer in dead.items():
        site.add_peer(name, peer)
    try:
        arm: str | None = site.classify(ITEM).arm
    except NoAnswer:
        arm = None
    return arm, sum(peer.tries for peer in dead.values())


async def by_a_service(
    folder: Path, policy: Policy, retries: int, handler: DeadHandler, deadline_s: float = 20.0
) -> Scene:
    hub = Hub()
    setup = Setup(
        name="north",
        classifiers={"home": as_classifier(at_home)},
        axes=AXES,
        policy=policy,
        costs={"home": 0.9},
        retries=retries,
        peers=dict.fromkeys(PEERS, (0.0, 1)),
        deadline_s=deadline_s,
    )
    node = Node(setup, folder, link=hub.link("north"))
    await node.start()
    for name in PEERS:
        await hub.link(name).serve(Announcement(name, tuple(axis.description for axis in AXES), 1), handler)
    transport = httpx.ASGITransport(app=build_app(node, Tokens({})))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        reply = await client.post("/v1/classify", json={"items": [{"features": ITEM}]})
        arms = (await client.get("/v1/arms")).json()["arms"]
    await node.stop(patience_s=0.5)
    arm = reply.json()["decisions"][0]["arm"] if reply.status_code == 200 else None
    return arm, sum(each["failures"] for each in arms if each["kind"] == "peer")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("retries", "expected"),
    [(0, (None, 1)), (1, ("home", 1)), (2, ("home", 2)), (4, ("home", 4)), (9, ("home", 6))],
)
def test_an_item_gets_so_many_further_tries_the_last_at_home(
    tmp_path: Path, policy: str, retries: int, expected: Scene
) -> None:
    assert by_a_site(POLICIES[policy], retries) == expected
    assert asyncio.run(by_a_service(tmp_path, POLICIES[policy], retries, DeadHandler())) == expected


@pytest.mark.parametrize("policy", POLICIES)
def test_after_a_deadline_no_further_peer_is_asked(tmp_path: Path, policy: str) -> None:
    handler = DeadHandler()
    handler.hangs_s = 30.0
    scene = asyncio.run(by_a_service(tmp_path, POLICIES[policy], 4, handler, deadline_s=0.4))
    assert scene == ("home", 1)
