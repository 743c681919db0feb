"""Whatever a model does, it is an arm that failed: others answer, nothing is lost, and the site can restart."""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosend.errors import ClassifierError, CosendError
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from tests.node.sites import Majority, crash, decided, lessons, old, running, setup_of, started

LIMIT_S = 0.2
LONGEST_S = 10.0
LONG_S = 60.0  # longer than any machine takes for the others


class Answer(enum.StrEnum):
    """Labels as people write them."""

    ILL = "ill"


class Unprintable(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


def gives(label: Any) -> Callable[[Any], Any]:
    return lambda _: label


def raises(error: BaseException) -> Callable[[Any], Any]:
    def model(_: Any) -> Any:
        raise error

    return model


def clears(item: Any) -> Any:
    item.clear()
    raise ValueError("it is empty now")


NONSENSE: dict[str, Callable[[Any], Any]] = {
    "array": gives(np.arange(3)),
    "Enum": gives(Answer.ILL),
    "SystemExit": raises(SystemExit(1)),
    "KeyboardInterrupt": raises(KeyboardInterrupt()),
    "GeneratorExit": raises(GeneratorExit()),
    "StopIteration": raises(StopIteration()),
    "CancelledError": raises(asyncio.CancelledError()),
    "an error that says half a character": raises(ValueError("\udcff")),
    "an error without words": raises(Unprintable()),
    "an error of very many words": raises(ValueError("no " * 10**5)),
    "changes the item": clears,
}


async def ask(node: RunningSite, count: int) -> list[Decided]:
    """Let the site decide on some items, each in a request of its own."""
    names = [None if n % 2 else f"{time.time()}-{n}" for n in range(count)]
    asked = [decided(node, {"age": 100.0 * n / count}, names=[name]) for n, name in enumerate(names)]
    return [each for (each,) in await asyncio.gather(*asked)]


@pytest.mark.parametrize(("kind", "cost"), [(kind, n % 2 / 10) for n, kind in enumerate(NONSENSE)])
async def test_a_model_that_gives_nonsense_is_left_out(kind: str, cost: float, tmp_path: Path) -> None:
    """A free one is asked for its opinion before the choice, one that costs something after it."""
    setup = setup_of({"bad": NONSENSE[kind], "old": old}, costs={"bad": cost, "old": 2 * cost})
    node = await started(setup, tmp_path)
    found = [*await ask(node, 6), *await ask(node, 6), *await ask(node, 6)]
    assert {each.arm for each in found} == ({"old"} if cost else {"stack"})  # whom only the other one tells something
    assert [each.label for each in found] == ["well"] * 5 + ["ill"] + ["well"] * 5 + ["ill"] + ["well"] * 5 + ["ill"]
    assert len((await node.label([Given(each.id, "well") for each in found])).learnt) == len(found)
    assert node.counts.failures_of("bad") > 0
    assert (node.counts.rebuilt, node.counts.unanswered, node.is_ready) == (0, 0, True)
    await crash(node)
    async with running(setup, tmp_path) as node:
        await ask(node, 4)


LABELS: list[Any] = [True, 0, -(2**63), 2**64 - 1, 1.5, "", "é", "a\0b", np.int64(3), np.str_("x")]


async def test_what_a_label_may_be(tmp_path: Path) -> None:
    setup, names = setup_of({"one": lambda item: LABELS[item["n"]]}), [f"{n}" for n in range(len(LABELS))]
    items = [{"age": 0.0, "n": n} for n in range(len(LABELS))]
    async with running(setup, tmp_path) as node:
        found = await decided(node, *items, names=names)
        assert [each.label for each in found] == LABELS
        assert {type(each.label) for each in found} == {bool, int, float, str}
    async with running(setup, tmp_path) as node:
        assert await node.classify(items, names) == found


class HangsOnce(Majority):
    """A model that takes long to learn its first label, until it is released."""

    released = threading.Event()

    def learn_one(self, item: Any, label: Any) -> None:
        if not self.taught:
            self.released.wait(LONG_S)
        super().learn_one(item, label)


async def test_a_model_that_hangs_while_it_learns_holds_nobody_up_and_misses_no_label(tmp_path: Path) -> None:
    setup = setup_of({"learns": HangsOnce(), "old": old}, limits_s={"learns": LIMIT_S})
    async with running(setup, tmp_path) as node:
        (first,) = await ask(node, 1)
        await node.label([Given(first.id, "well")])
        found = await ask(node, 20)
        assert {each.arm for each in found} <= {"old", "stack"}
        model: Any = node.workers["learns"].classifier
        assert model.model.taught == []  # nobody has waited for it
        HangsOnce.released.set()
        await node.label([Given(each.id, "ill") for each in found])
        assert lessons(node) == ["well", *["ill"] * 20]
        assert not node.workers["learns"]._stuck


class Picky(Majority):
    """A model that cannot bear some labels."""

    def learn_one(self, item: Any, label: Any) -> None:
        if label == "ill":
            raise SystemExit(3)
        if label == "odd":
            raise KeyboardInterrupt
        super().learn_one(item, label)


async def test_a_label_that_a_model_cannot_bear_stops_neither_the_next_ones_nor_the_next_start(tmp_path: Path) -> None:
    setup = setup_of({"learns": Picky()})
    node = await started(setup, tmp_path)
    found = await ask(node, 6)
    labels = ["ill", "well", "odd", "well", "ill", "well"]
    await node.label([Given(each.id, label) for each, label in zip(found, labels, strict=True)])
    assert lessons(node) == ["well"] * 3
    await crash(node)
    async with running(setup, tmp_path) as node:
        assert lessons(node) == ["well"] * 3


def test_an_error_can_be_logged_whatever_it_says() -> None:
    for error in (CosendError("\ud800 and \udcff"), ClassifierError("\ud800")):
        str(error).encode()
    assert str(CosendError("é \U0001f600")) == "é \U0001f600"


async def test_a_model_that_is_slow_but_in_time_does_not_fail_when_many_items_come_first(tmp_path: Path) -> None:
    def slow(_: Any) -> str:
        time.sleep(0.004)
        return "well"

    async with running(setup_of({"slow": slow, "old": old}, limits_s={"slow": 0.5}, learnt=False), tmp_path) as node:
        found = await decided(node, *[{"age": 1.0}] * 600)
        assert {each.arm for each in found} == {"slow", "old"}
        assert not node.counts.failures
