"""`retries` with a policy that asks peers first: a `Site` and a service take the same number of tries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NoReturn

import pytest

from cosend import CoS, Site
from cosend.algorithm.values import LabelledData
from cosend.axes import Axis, Feature
from cosend.engine.needs import Call, Forward, Reply
from cosend.errors import NetworkError, NoAnswer
from cosend.models.adapters import as_classifier
from cosend.runtime.running_site import RunningSite
from cosend.runtime.site_setup import Setup
from cosend.transport.codec import Announcement, Answered
from cosend.transport.in_process import Hub

PEERS = [f"peer{n}" for n in range(6)]
AXES: list[Axis] = [Feature("x", range=(0, 1))]
ITEM = {"x": 0.5}
POLICY = CoS(slices=1, order="train_first")
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
    """A peer of a service that is there, and fails after a while whatever it is asked."""

    def __init__(self, hangs_s: float = 0.0) -> None:
        self.hangs_s = hangs_s

    async def _fail(self) -> NoReturn:
        await asyncio.sleep(self.hangs_s)
        raise NetworkError("dead")

    async def call(self, _: Call) -> Answered:
        await self._fail()

    async def report(self, caller: str, contexts: Any) -> list[LabelledData]:
        await self._fail()

    async def post(self, caller: str, forwards: Any) -> None:
        await self._fail()


def by_a_site(retries: int) -> Scene:
    options: Any = {"context": AXES, "policy": POLICY, "costs": {"home": 0.9}, "retries": retries}
    site = Site("north", classifiers={"home": at_home}, **options)
    dead = {name: Dead() for name in PEERS}
    for name, peer in dead.items():
        site.add_peer(name, peer)
    try:
        arm: str | None = site.classify(ITEM).arm
    except NoAnswer:
        arm = None
    return arm, sum(peer.tries for peer in dead.values())


async def by_a_service(folder: Path, retries: int, handler: DeadHandler, deadline_s: float = 20.0) -> Scene:
    hub = Hub()
    setup = Setup(
        name="north",
        classifiers={"home": as_classifier(at_home)},
        axes=AXES,
        policy=POLICY,
        costs={"home": 0.9},
        retries=retries,
        peers=dict.fromkeys(PEERS, (0.0, 1)),
        deadline_s=deadline_s,
    )
    node = RunningSite(setup, folder, link=hub.link("north"))
    await node.start()
    for name in PEERS:
        await hub.link(name).serve(Announcement(name, tuple(axis.description for axis in AXES), 1), handler)
    try:
        (decision,) = await node.classify([ITEM])
        arm = getattr(decision, "arm", None)
    except NoAnswer:
        arm = None
    failures = sum(node.engine.counts.failures_of(name) for name in PEERS)
    await node.stop(patience_s=0.5)
    return arm, failures


@pytest.mark.parametrize(
    ("retries", "expected"), [(0, (None, 1)), (1, ("home", 1)), (4, ("home", 4)), (9, ("home", 6))]
)
def test_a_peer_that_fails_when_it_is_asked_for_a_report_is_a_try(
    tmp_path: Path, retries: int, expected: Scene
) -> None:
    assert by_a_site(retries) == expected
    assert asyncio.run(by_a_service(tmp_path, retries, DeadHandler())) == expected


def test_after_a_report_that_is_late_no_further_peer_is_asked(tmp_path: Path) -> None:
    assert asyncio.run(by_a_service(tmp_path, 4, DeadHandler(30.0), deadline_s=0.4)) == ("home", 1)
