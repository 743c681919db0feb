"""Labels that come at the same time are learnt together, and each request is answered for itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cosend.engine.events import Labelled
from cosend.engine.needs import Call, Question
from cosend.errors import LabelError, RewardError
from cosend.runtime.label_intake import Given, Heard
from cosend.runtime.running_site import RunningSite
from tests.node.sites import decided, events_of, running, setup_of


async def decide(node: RunningSite, count: int) -> list[str]:
    """Decide on some items and return their ids."""
    return [each.id for each in await decided(node, *({"age": n} for n in range(count)))]


def labelled(node: RunningSite) -> list[tuple[int, ...]]:
    """Return the ids of every event that says that labels have come."""
    return [event.ids for event in events_of(node) if isinstance(event, Labelled)]


async def at_once(node: RunningSite, *requests: list[Given]) -> list[Any]:
    return await asyncio.gather(*map(node.label, requests), return_exceptions=True)


async def test_requests_of_one_moment_are_one_event_and_each_hears_about_its_own(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        one, two, three, four = await decide(node, 4)
        heard = await at_once(
            node,
            [Given(one, "well"), Given("stranger", "well")],
            [Given(two, "ill"), Given(one, "ill")],  # the first to come is the one that counts
            [Given(three, "well"), Given(four, "well")],
        )
        assert heard == [
            Heard([one], [], ["stranger"], []),
            Heard([two], [one], [], []),
            Heard([three, four], [], [], []),
        ]
        assert labelled(node) == [(1, 2, 3, 4)]
        assert not node.labelling._settling


async def test_a_bad_label_fails_alone(tmp_path: Path) -> None:
    def reward(label: Any, truth: Any) -> float:
        if truth == "odd":
            raise SystemExit(4)
        return float(label == truth)

    async with running(setup_of(reward=reward), tmp_path) as node:
        one, two, three, four = await decide(node, 4)
        good, bad, odd, other = await at_once(
            node, [Given(one, "well")], [Given(two, float("inf"))], [Given(four, "odd")], [Given(three, "well")]
        )
        assert (good.learnt, other.learnt) == ([one], [three])
        assert isinstance(bad, LabelError)
        assert isinstance(odd, RewardError)
        assert labelled(node) == [(1,), (3,)]
        assert (await node.label([Given(two, "well"), Given(four, "ill")])).learnt == [two, four]


async def test_a_client_cannot_label_an_answer_to_a_peer(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        one, two = await decide(node, 2)
        await node.call(Call("north", "south", [Question(9, {"age": 3}, (0.5,), False, True)]))
        heard = await node.label([Given(one, "well"), Given("d-3", "well"), Given(two, "ill")])
        assert (heard.learnt, heard.duplicate) == ([one, two], [])
        assert {id_: each.caller for id_, each in node.state.pending().items()} == {3: "south"}
