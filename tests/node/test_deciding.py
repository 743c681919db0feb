"""Items that come at the same time are chosen for together, and each request is answered for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cosend.engine.events import Chosen
from cosend.errors import ContextError, Unavailable
from cosend.runtime.client_requests import Decided
from cosend.runtime.driver import MOST_IN_A_TURN, MOST_WITH_PEERS
from cosend.runtime.running_site import RunningSite
from tests.node.sites import decided, events_of, running, setup_of

Items = list[Any]
USED = setup_of(score_local="used")  # no model is heard before the choice, so choices are made at once


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


def chosen(node: RunningSite) -> list[int]:
    """Return how many items were chosen for in each event."""
    return [len(event.arms) for event in events_of(node) if isinstance(event, Chosen)]


async def at_once(node: RunningSite, *requests: Items, names: list[str] | None = None) -> list[Any]:
    asked = [node.classify(items, None if names is None else [names[n]]) for n, items in enumerate(requests)]
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_a_bad_item_fails_its_own_request_and_no_other(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        good, bad, strange, other = await at_once(
            node, ages(1, 2), ages(3, "old", None), [*ages(1), Strange()], ages(4)
        )
        assert isinstance(bad, ContextError)
        assert str(bad).startswith("items.1: feature 'age' must be a finite number, got 'old'")
        assert isinstance(strange, RuntimeError)  # whatever reading it raises
        assert [each.id for each in [*good, *other]] == ["d-1", "d-2", "d-3"]
        assert chosen(node) == [3]
        assert (node.running.in_flight, node.running.requests._open) == (0, set())
        before = node.commits.position
        assert [type(each) for each in await at_once(node, ages("x"), [Strange()])] == [ContextError, RuntimeError]
        assert node.commits.position == before  # where all are bad, nothing happens


async def test_the_name_of_a_bad_item_can_be_used_again(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as node:
        bad, good = await at_once(node, ages("x"), ages(1), names=["mine", "yours"])
        assert isinstance(bad, ContextError)
        assert good[0].id == "yours"
        assert not node.running.requests.by_name
        assert [each.id for each in await decided(node, *ages(2), names=["mine"])] == ["mine"]


async def test_without_peers_all_requests_of_one_moment_are_chosen_for_together_up_to_a_limit(tmp_path: Path) -> None:
    async with running(USED, tmp_path) as node:
        await at_once(node, *[ages(*([1] * MOST_WITH_PEERS)) for _ in range(3)])
        assert chosen(node) == [3 * MOST_WITH_PEERS]
        (results,) = await at_once(node, ages(*range(100)) * 25)
        assert chosen(node)[1:] == [MOST_IN_A_TURN, MOST_IN_A_TURN, 500]
        assert all(isinstance(each, Decided) for each in results)


async def test_more_items_than_may_be_in_flight_are_refused(tmp_path: Path) -> None:
    async with running(setup_of(most_flights=10), tmp_path) as node:
        good, refused, small = await at_once(node, ages(*range(8)), ages(1, 2, 3), ages(1, 2))
        assert [len(good), len(small)] == [8, 2]
        assert isinstance(refused, Unavailable)
        await decided(node, *ages(*range(10)))
