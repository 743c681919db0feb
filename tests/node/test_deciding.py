"""Items that come at the same time are read and chosen for together, and each request is answered for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosend.errors import ContextError
from cosend.node.arrivals import MOST_AT_ONCE
from cosend.node.flight import Decided
from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.site.events import Chosen
from cosend.site.wire import decode
from tests.node.sites import run, running, setup_of

Items = list[Any]


class Strange(Mapping[str, Any]):
    """An item that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no feature today")

    def __iter__(self) -> Any:
        return iter(("age",))

    def __len__(self) -> int:
        return 1


def ages(*values: Any) -> Items:
    return [{"age": value} for value in values]


def chosen(node: Node) -> list[int]:
    """Return how many items were chosen for in each event."""
    return [len(event.arms) for _, data in node.store.log.read() if isinstance(event := decode(data), Chosen)]


async def at_once(node: Node, *requests: Items, names: list[str] | None = None) -> list[Any]:
    asked = [node.classify(items, None if names is None else [names[n]]) for n, items in enumerate(requests)]
    return await asyncio.gather(*asked, return_exceptions=True)


def test_a_bad_item_fails_its_own_request_and_no_other(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            good, bad, other = await at_once(node, ages(1, 2), ages(3, "old", None), ages(4))
            assert isinstance(bad, ContextError)
            assert str(bad).startswith("items.1: feature 'age' must be a finite number, got 'old'")
            assert [each.id for each in [*good, *other]] == ["1", "2", "3"]
            assert chosen(node) == [3]
            assert node.deciding.requests.in_flight == 0
            assert not node.deciding.requests._open

    run(work())


def test_where_all_are_bad_nothing_happens(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            before = node.commits.position
            assert [type(each) for each in await at_once(node, ages("x"), ages("y"))] == [ContextError] * 2
            assert node.commits.position == before
            assert [type(each) for each in await node.classify(ages(1))] == [Decided]

    run(work())


def test_an_item_that_raises_whatever_it_likes_fails_its_own_request(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            bad, good = await at_once(node, [*ages(1), Strange()], ages(2))
            assert isinstance(bad, RuntimeError)
            assert [type(each) for each in good] == [Decided]
            with pytest.raises(RuntimeError, match="no feature today"):
                await node.classify([Strange()])

    run(work())


def test_the_name_of_a_bad_item_can_be_used_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            bad, good = await at_once(node, ages("x"), ages(1), names=["mine", "yours"])
            assert isinstance(bad, ContextError)
            assert good[0].id == "yours"
            assert not node.deciding.requests.flying
            (again,) = await node.classify(ages(2), ["mine"])
            assert isinstance(again, Decided)
            assert again.id == "mine"

    run(work())


def with_a_peer() -> Setup:
    return replace(setup_of(), peers={"south": (0.5, 1)})


def test_with_peers_many_requests_of_one_moment_are_chosen_for_in_turns_and_in_their_order(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(with_a_peer(), tmp_path) as node:
            third = MOST_AT_ONCE // 3
            results = await at_once(node, *[ages(*range(third)) for _ in range(9)])
            assert [int(each.id) for result in results for each in result] == [*range(1, 9 * third + 1)]
            assert chosen(node) == [4 * third, 4 * third, third]  # the one that goes over the limit is among them

    run(work())


def test_with_peers_one_large_request_is_chosen_for_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(with_a_peer(), tmp_path) as node:
            await at_once(node, ages(*([1] * 3 * MOST_AT_ONCE)), ages(2))
            assert chosen(node) == [3 * MOST_AT_ONCE, 1]

    run(work())


def test_without_peers_all_requests_of_one_moment_are_chosen_for_together(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            await at_once(node, *[ages(*([1] * MOST_AT_ONCE)) for _ in range(3)])
            assert chosen(node) == [3 * MOST_AT_ONCE]

    run(work())
