"""A running site that scores all local classifiers: what they say stands in the event of the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cosend.errors import LabelError
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.site import events
from cosend.site.recovery import read_events
from tests.node.sites import LONGEST_S, old, run, running, setup_of, young


def failing(_: Any) -> str:
    raise ValueError("broken")


def slow(_: Any) -> str:
    time.sleep(0.02)
    return "well"


def test_all_free_classifiers_are_scored_and_failures_beside_the_arm_harm_nobody(tmp_path: Path) -> None:
    models = {"young": young, "old": old, "slow": slow, "dear": young, "broken": failing}

    async def work() -> None:
        setup = setup_of(models, costs={"dear": 0.9}, score_local="all")
        async with running(setup, tmp_path) as node:
            for n in range(30):
                made = await node.classify([{"age": 10.0}, {"age": 90.0}][: 1 + n % 2])
                assert all(isinstance(each, Decided) for each in made)
                await node.label([Given(each.id, "ill") for each in made if isinstance(each, Decided)])
            assert node.deciding.beside._said == {}
            assert node.breakers.of("broken").position != "closed"
            log = [event for _, event in read_events(node.store.log)]
            answered = [event for event in log if isinstance(event, events.Answered)]
            assert all({"young", "old", "slow"} <= {*others, arm} for others, arm in said_and_arms(log, answered))
            assert not any("dear" in each or "broken" in each for event in answered for each in event.others)
            count = sum(len(event.ids) for event in answered)
            rewards = dict.fromkeys(models, 0)
            for cell in node.rules.learner.cells().values():
                for name, known in cell.estimates.items():
                    rewards[name] += known.reward_count
            assert rewards["broken"] == 0
            assert rewards["dear"] < count
            assert min(rewards[name] for name in ("young", "old", "slow")) >= count  # cubes inherit some

    run(work())


def said_and_arms(log: list[Any], answered: list[events.Answered]) -> list[tuple[Any, str]]:
    """Return what others said of each decision, and its arm."""
    arms = {}
    for event in log:
        if isinstance(event, events.Chosen):
            arms.update({event.first + n: arm for n, arm in enumerate(event.arms)})
    return [(said, arms[id]) for event in answered for id, said in zip(event.ids, event.others, strict=True)]


class OneByOne:
    """A model that takes one item at a time."""

    learns = False

    def predict(self, items: Sequence[Any]) -> list[str]:
        (item,) = items
        return [old(item)]

    def learn(self, item: Any, label: Any) -> None:
        """Stay as it is."""


def test_a_model_beside_the_arm_that_fails_on_some_items_together_holds_nobody_up(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of({"young": young, "one": OneByOne()}, score_local="all"), tmp_path) as node:
            for _ in range(4):
                made = await asyncio.wait_for(node.classify([{"age": 10.0}, {"age": 90.0}]), LONGEST_S / 4)
                assert all(isinstance(each, Decided) for each in made)
            assert node.counts.failures["one"] == 0

    run(work())


def test_failures_beside_the_arm_that_are_far_apart_leave_nobody_out(tmp_path: Path) -> None:
    def mostly(item: Any) -> str:
        if item["age"] == 13.0:
            raise ValueError("thirteen")
        return "well"

    async def work() -> None:
        async with running(setup_of({"right": lambda _: "ill", "mostly": mostly}, score_local="all"), tmp_path) as node:
            for n in range(40):
                (made,) = await node.classify([{"age": 13.0 if n % 4 == 0 else 50.0}])
                assert isinstance(made, Decided)
                await node.label([Given(made.id, "ill")])
            assert node.counts.failures["mostly"] == 10
            assert node.counts.openings["mostly"] == 0

    run(work())


def test_what_is_said_beside_the_arm_tells_which_labels_are_known(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of({"number": lambda _: 1, "text": lambda _: "ill"}, strict_labels=True)
        async with running(setup, tmp_path) as node:
            (made,) = await node.classify([{"age": 20.0}])
            assert isinstance(made, Decided)
            other = "ill" if made.arm == "number" else 1
            heard = await node.label([Given(made.id, other)])
            assert len(heard.learnt) == 1

    run(work())


def test_labels_that_no_arm_could_give_are_refused_after_a_restart_too(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of({"young": young, "old": old}, strict_labels=True)
        async with running(setup, tmp_path) as node:
            (made,) = await node.classify([{"age": 20.0}])
            assert isinstance(made, Decided)
        async with running(setup, tmp_path) as node:
            with pytest.raises(LabelError, match="it is a number, and the arms say text"):
                await node.label([Given(made.id, 1)])

    run(work())
