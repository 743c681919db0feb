"""Whatever a model does, it is an arm that failed: others answer, nothing is lost, and the site can start again."""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from cosend.errors import ClassifierError, CosendError, NoAnswer, RewardError
from cosend.node.answering import Answering
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.node.setup import Setup
from cosend.node.workers import FIRST_ITEMS
from cosend.site.messages import Call, Question, Reply, Serving
from tests.node.sites import Majority, crash, old, run, running, setup_of, young

LIMIT_S = 0.2
LONGEST_S = 10.0
LONG_S = 60.0  # longer than any machine takes for the others


class Text(str):
    """Text that is more than text."""


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
    "infinity": gives(float("inf")),
    "array": gives(np.arange(3)),
    "bytes": gives(b"ill"),
    "list": gives(["ill"]),
    "object": gives(object()),
    "subclass of text": gives(Text("ill")),
    "Enum": gives(Answer.ILL),
    "half a character": gives("\ud800"),
    "more than 64 bits": gives(2**64),
    "SystemExit": raises(SystemExit(1)),
    "KeyboardInterrupt": raises(KeyboardInterrupt()),
    "GeneratorExit": raises(GeneratorExit()),
    "StopIteration": raises(StopIteration()),
    "CancelledError": raises(asyncio.CancelledError()),
    "an error that says half a character": raises(ValueError("\udcff")),
    "an error without words": raises(Unprintable()),
    "an error of a million words": raises(ValueError("no " * 10**6)),
    "changes the item": clears,
}


async def ask(node: Node, count: int) -> list[Decided]:
    """Let the site decide on some items, each in a request of its own."""
    asked = [
        node.classify([{"age": 100.0 * n / count}], [None if n % 2 else f"{time.time()}-{n}"]) for n in range(count)
    ]
    found = [result for (result,) in await asyncio.gather(*asked)]
    assert all(isinstance(each, Decided) for each in found), found
    return [each for each in found if isinstance(each, Decided)]


async def starts_again(node: Node, setup: Setup, folder: Path) -> None:
    await crash(node)
    async with running(setup, folder) as node:
        await ask(node, 4)


@pytest.mark.parametrize("kind", NONSENSE)
def test_a_model_that_gives_nonsense_is_left_out(kind: str, tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of({"bad": NONSENSE[kind], "old": old})
        node = Node(setup, tmp_path)
        await node.start()
        found = [*await ask(node, 6), *await ask(node, 6), *await ask(node, 6)]
        assert {each.arm for each in found} == {"old"}
        assert len((await node.label([Given(each.id, "well") for each in found])).learnt) == len(found)
        assert node.counts.failures["bad"] > 0
        assert (node.counts.rebuilt, node.counts.unanswered, node.is_ready) == (0, 0, True)
        await starts_again(node, setup, tmp_path)

    run(work())


@pytest.mark.parametrize("label", [None, True, 0, -(2**63), 2**64 - 1, 1.5, "", "é", "a\0b", np.int64(3), np.str_("x")])
def test_what_a_label_may_be(label: Any, tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of({"one": gives(label)}), tmp_path) as node:
            (found,) = await ask(node, 1)
            assert found.label == label
            assert type(found.label) in (type(None), bool, int, float, str)
        async with running(setup_of({"one": gives(label)}), tmp_path) as node:
            assert await node.classify([{"age": 1.0}], [found.id]) == [found]

    run(work())


def test_a_model_that_hangs_is_given_up_and_the_others_answer(tmp_path: Path) -> None:
    async def work() -> None:
        released, came_back = threading.Event(), list[bool]()

        def hangs(_: Any) -> str:
            came_back.append(released.wait(LONG_S))
            return "late"

        setup = setup_of({"hangs": hangs, "old": old}, limits_s={"hangs": LIMIT_S})
        node = Node(setup, tmp_path)
        await node.start()
        found = [*await ask(node, 20), *await ask(node, 20)]
        assert {each.arm for each in found} == {"old"}
        assert came_back == []  # nobody has waited for it
        released.set()
        assert node.counts.failures_by_kind["hangs", "time"] > 0
        await starts_again(node, setup, tmp_path)

    run(work())


class HangsOnce(Majority):
    """A model that takes long over its first lesson, until it is released."""

    released = threading.Event()

    def learn_one(self, item: Any, label: Any) -> None:
        if not self.taught:
            self.released.wait(LONG_S)
        super().learn_one(item, label)


def test_quick_models_do_not_wait_for_one_that_hangs_among_them(tmp_path: Path) -> None:
    held = threading.Event()

    def hangs(item: Any) -> str:
        if item.get("hang"):
            held.wait(LONGEST_S)
        return "well"

    async def work() -> None:
        setup = setup_of({"hangs": hangs, "good": young}, limits_s=dict.fromkeys(("hangs", "good"), LONGEST_S))
        async with running(setup, tmp_path) as node:
            await ask(node, 200)
            for arm, other in (("hangs", "good"), ("good", "hangs")):  # from now on, both are known to be quick
                await node.change_arm(other, paused=True)
                await ask(node, 50)
                await node.change_arm(other, paused=False)
                node.workers[arm].seconds_per_item = 1e-6
            await node.change_arm("good", paused=True)
            hanging = asyncio.create_task(node.classify([{"age": 3, "hang": True}]))
            while not node.workers["hangs"]._running:
                await asyncio.sleep(0.001)
            await node.change_arm("good", paused=False)
            await node.change_arm("hangs", paused=True)
            answered = await asyncio.wait_for(ask(node, 20), LONGEST_S / 2)
            assert {each.arm for each in answered} == {"good"}
            assert not hanging.done()
            held.set()
            assert [each.arm for each in await hanging if isinstance(each, Decided)] == ["hangs"]

    run(work())


def test_a_model_that_hangs_while_it_learns_holds_nobody_up_and_misses_no_lesson(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of({"learns": HangsOnce(), "old": old}, limits_s={"learns": LIMIT_S}, learns_from="all")
        async with running(setup, tmp_path) as node:
            first = await ask(node, 1)
            await node.label([Given(first[0].id, "well")])
            model: Any = node.workers["learns"].classifier
            found = await ask(node, 20)
            assert {each.arm for each in found} == {"old"}
            assert model.model.taught == []  # nobody has waited for it
            HangsOnce.released.set()
            await node.label([Given(each.id, "ill") for each in found])
            while node.workers["learns"].is_busy:
                await asyncio.sleep(0.01)
            assert model.model.taught == ["well", *["ill"] * 20]
            assert not node.workers["learns"]._stuck

    run(work())


class Picky(Majority):
    """A model that cannot bear some labels."""

    def learn_one(self, item: Any, label: Any) -> None:
        if label == "ill":
            raise SystemExit(3)
        if label == "odd":
            raise KeyboardInterrupt
        super().learn_one(item, label)


def test_a_label_that_a_model_cannot_bear_stops_neither_the_next_ones_nor_the_next_start(tmp_path: Path) -> None:
    async def work() -> None:
        setup = setup_of({"picky": Picky()})
        node = Node(setup, tmp_path)
        await node.start()
        found = await ask(node, 6)
        labels = ["ill", "well", "odd", "well", "ill", "well"]
        await node.label([Given(each.id, label) for each, label in zip(found, labels, strict=True)])
        while node.workers["picky"].is_busy:
            await asyncio.sleep(0.01)
        live: Any = node.workers["picky"].classifier
        assert live.model.taught == ["well"] * 3
        await crash(node)
        async with running(setup, tmp_path) as node:
            again: Any = node.workers["picky"].classifier
            assert again.model.taught == ["well"] * 3

    run(work())


def test_an_item_that_no_arm_can_label_says_why_and_may_be_asked_for_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of({"one": raises(ValueError("no")), "two": gives([])}), tmp_path) as node:
            for _ in range(2):
                (found,) = await node.classify([{"age": 3.0}], ["mine"])
                assert isinstance(found, NoAnswer)
                assert set(found.reasons) == {"one", "two"}
            assert not node.deciding.requests.in_flight
            assert not node.rules.learner.waiting_count

    run(work())


def test_an_error_can_be_logged_whatever_it_says() -> None:
    for error in (CosendError("\ud800 and \udcff"), ClassifierError("\ud800")):
        str(error).encode()
    assert str(CosendError("é \U0001f600")) == "é \U0001f600"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(4)])
def test_a_reward_that_cannot_be_computed_refuses_the_label_and_it_may_come_again(
    error: BaseException, tmp_path: Path
) -> None:
    async def work() -> None:
        errors = [error]

        def reward(_: Any, __: Any) -> float:
            if errors:
                raise errors.pop()
            return 0.5

        async with running(setup_of(reward=reward), tmp_path) as node:
            (found,) = await ask(node, 1)
            with pytest.raises(RewardError):
                await node.label([Given(found.id, "well")])
            assert (await node.label([Given(found.id, "well")])).learnt == [found.id]

    run(work())


def test_no_items_and_no_labels_are_answered_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            assert await node.classify([]) == await node.classify([], []) == []
            assert (await node.label([])).learnt == []

    run(work())


def test_a_model_that_is_slow_but_in_time_does_not_fail_when_many_items_come_first(tmp_path: Path) -> None:
    async def work() -> None:
        def slow(_: Any) -> str:
            time.sleep(0.004)
            return "well"

        async with running(setup_of({"slow": slow, "old": old}, limits_s={"slow": 0.5}), tmp_path) as node:
            found = await node.classify([{"age": 1.0}] * 600)
            assert {each.arm for each in found if isinstance(each, Decided)} == {"slow", "old"}
            assert not node.counts.failures

    run(work())


def test_questions_that_failed_in_any_order_are_each_answered_by_the_classifier_chosen_for_it(tmp_path: Path) -> None:
    second = threading.Event()

    def fails(item: Any) -> Any:
        if item["age"] < FIRST_ITEMS:  # those of the first part, which is given to a model of which nothing is known
            second.wait(5.0)
            time.sleep(0.02)  # and the others have failed
        second.set()
        raise ValueError("not today")

    def serve(_: str, questions: Sequence[Question], without: Collection[str] = ()) -> Serving:
        by_age = ["low" if question.item["age"] < 7 else "high" for question in questions]
        return Serving(by_age if "fails" in without else ["fails"] * len(questions), [0] * len(questions), [])

    async def work() -> None:
        models = {"fails": fails, "low": gives("low"), "high": gives("high")}
        async with running(setup_of(models), tmp_path) as node:
            cast("Any", node.rules).serve = serve
            ages = range(FIRST_ITEMS + 4)
            questions = [Question(age + 1, {"age": age}, (age / 100,), False, False) for age in ages]
            answered = await Answering(node).call(Call("north", "south", questions))
            assert answered.replies == [Reply("low" if age < 7 else "high") for age in ages]

    run(work())
