"""Labels that come at the same time are learnt together, and each request is answered for itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend.errors import LabelError, RewardError, Unavailable
from cosend.node.labelling import Given, Heard, number_of, numbers_of
from cosend.node.node import Node
from cosend.site.events import Labelled
from cosend.site.messages import Question
from cosend.site.wire import decode
from tests.node.sites import run, running, setup_of


async def decide(node: Node, count: int) -> list[str]:
    """Decide for so many items and return their ids."""
    return [each.id for each in await node.classify([{"age": n} for n in range(count)])]  # type: ignore[union-attr]


def labelled(node: Node) -> list[tuple[int, ...]]:
    """Return the ids of every event that says that labels have come."""
    return [event.ids for _, data in node.store.log.read() if isinstance(event := decode(data), Labelled)]


async def at_once(node: Node, *requests: list[Given]) -> list[Any]:
    return await asyncio.gather(*map(node.label, requests), return_exceptions=True)


def test_requests_of_one_moment_are_one_event_and_each_hears_of_its_own(tmp_path: Path) -> None:
    async def work() -> None:
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

    run(work())


def test_a_bad_label_fails_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            one, two, three = await decide(node, 3)
            good, bad, other = await at_once(
                node, [Given(one, "well")], [Given(two, float("inf"))], [Given(three, "well")]
            )
            assert (good.learnt, other.learnt) == ([one], [three])
            assert isinstance(bad, LabelError)
            assert labelled(node) == [(1,), (3,)]
            assert (await node.label([Given(two, "well")])).learnt == [two]

    run(work())


def test_a_reward_that_raises_fails_the_request_that_it_is_for(tmp_path: Path) -> None:
    def reward(_: Any, truth: Any) -> float:
        if truth == "bad":
            raise ValueError("what is that?")
        return 1.0

    async def work() -> None:
        async with running(setup_of(reward=reward), tmp_path) as node:
            one, two = await decide(node, 2)
            bad, good = await at_once(node, [Given(one, "bad")], [Given(two, "well")])
            assert isinstance(bad, RewardError)
            assert good.learnt == [two]

    run(work())


def test_a_site_that_stops_at_that_moment_says_so_and_learns_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            (one,) = await decide(node, 1)
            coming = asyncio.create_task(node.label([Given(one, "well")]))
            await asyncio.sleep(0)
            node.deciding.close("it is stopping")
            with pytest.raises(Unavailable):
                await coming
            assert node.rules.learner.waiting_count == 1

    run(work())


@given(st.lists(st.one_of(st.integers(-5, 10**19).map(str), st.text("0123456789#٣_+ ", max_size=21)), min_size=1))
def test_ids_are_read_together_as_they_are_one_by_one(names: list[str]) -> None:
    numbers = numbers_of(names)
    one_by_one = [number_of(name) for name in names]
    if numbers is None:
        assert 0 in one_by_one or any(name.startswith("#") for name in names)
    else:
        assert numbers == one_by_one


def test_a_label_for_an_answer_to_a_peer_is_not_taken_though_all_ids_are_numbers(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            one, two = await decide(node, 2)
            serving = node.rules.serve("south", [Question(9, {"age": 3}, (0.5,), False, True)])
            node.rules.complete(serving.tickets, ["well"])
            heard = await node.label([Given(one, "well"), Given(str(serving.tickets[0]), "well"), Given(two, "ill")])
            assert heard.learnt == [one, two]
            assert not heard.duplicate
            assert node.rules.learner.waiting_count == 1

    run(work())
