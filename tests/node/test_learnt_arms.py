"""What a running site learns itself: from every label, trees beside everything else, and it is there after a kill."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosend import Learnt, verify
from cosend.algorithm.boosting import Trees
from cosend.axes import AllFeatures, Axis, Confidence, Says
from cosend.engine.events import Fitted
from cosend.engine.learnt_arms import FIRST_FIT, Window, grow
from cosend.engine.needs import Call, Forward, Question
from cosend.pages.site_view import SiteView
from cosend.runtime import driver
from cosend.runtime.client_requests import Decided
from cosend.runtime.inspection import Inspection
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from tests.node.sites import (
    LONGEST_S,
    Majority,
    check_folds,
    crash,
    decided,
    events_of,
    everything,
    old,
    running,
    setup_of,
    started,
    until,
    young,
)


def models(**more: Any) -> dict[str, Any]:
    return {"young": young, "old": old, "learns": Majority(), **more}


async def played(node: RunningSite, count: int) -> list[Decided]:
    """Let a site decide, two items at a time, of which the second is labelled first."""
    found: list[Decided] = []
    for n in range(count):
        both = await decided(node, {"age": (37.0 * n) % 100}, {"age": (59.0 * n) % 100})
        found += both
        await node.label([Given(each.id, "ill" if n % 3 else "well") for each in reversed(both)])
    return found


async def test_opinions_in_the_context_survive_a_kill(tmp_path: Path) -> None:
    def sure(item: Any) -> Any:
        return ("ill", item["age"] / 100)

    axes: list[Axis] = [Confidence("sure"), Says("stack"), Says("nobody", optional=True), AllFeatures()]
    setup = replace(setup_of(models(sure=sure)), axes=axes)
    node = await started(setup, tmp_path)
    made = await played(node, 8)
    await node.snapshot()
    made += await played(node, 8)
    assert made[0].label is not None
    live = everything(node.state)
    await crash(node)
    async with running(setup, tmp_path) as node:
        assert everything(node.state) == live
        (new,) = await decided(node, {"age": 25.0})
        shown = await Inspection(node).decision(new.id)
        assert shown["context"][:3] == [0.25, shown["context"][1], None]
        assert shown["context"][1] in ("ill", "well")
        assert {*Inspection(node).summary()["weights"]} & {"confidence of sure", "what stack says", "no feature"}
        await check_folds(node)
        assert verify(events_of(node)) == []
        view = SiteView(node)
        _, _, context, forecasts = await view.decision(new.id)
        assert context[:3] == [
            ("confidence of sure", "0.25"),
            ("what stack says", shown["context"][1]),
            ("what nobody says", "missing"),
        ]
        assert forecasts is not None
        assert view.axis(1).values == [*node.state.encoder.codes[1].values]
        assert [text for _, text in view.axis(0).ticks] == ["0", "0.25", "0.5", "0.75", "1"]
        assert view.choices()[0, 1] == "confidence of sure and what stack says"
        assert view.squares((0, 1), Inspection(node).arms())


@pytest.mark.parametrize("score_local", ["all", "used"])
async def test_it_learns_from_every_label_and_survives_a_kill(score_local: Any, tmp_path: Path) -> None:
    setup = setup_of(models(second=Learnt.STACK), score_local=score_local, learnt=True)
    node = await started(setup, tmp_path)
    made = await played(node, 8)
    await node.snapshot()
    made += await played(node, 8)
    live = everything(node.state)
    assert node.state.learnt.count == len(made) == 32
    assert {each.arm for each in made} > {"second"}
    assert "stack" not in node.state.learner.arms.own  # there is one of its kind
    await crash(node)
    for _ in range(2):
        node = await started(setup, tmp_path)
        assert everything(node.state) == live
        await check_folds(node)
        await crash(node)


async def test_it_answers_peers_and_learns_from_the_labels_of_its_own_items(tmp_path: Path) -> None:
    async with running(setup_of({"never": lambda _: "well"}), tmp_path) as node:
        for known, answer in ((0, "well"), (8, "ill")):
            for _ in range(known):
                (made,) = await decided(node, {"age": 5.0})
                await node.label([Given(made.id, "ill")])
            for n in range(10):
                question = Question(10 * known + n, {"age": 5}, (0.05,), False, True)
                (reply,) = (await node.call(Call("north", "south", [question]))).replies
                await node.post("south", [Forward("north", "south", 10 * known + n, "ill")])
            assert reply.label == answer
            assert node.state.learnt.count == known
        assert node.counts.taught["south"] == 20
        await check_folds(node)


async def test_what_the_file_does_without_is_gone_and_goes_on_where_it_is_back(tmp_path: Path) -> None:
    known = 0
    for learnt in (True, False, True):
        async with running(setup_of(models(), learnt=learnt), tmp_path) as node:
            assert ("stack" in node.state.learner.arms.own) == ("grown" in node.state.learner.arms.own) == learnt
            assert node.state.learnt.count == known
            made = await played(node, 4)
            known += 8 * learnt
            assert node.state.learnt.count == known
            assert learnt or not {each.arm for each in made} & {"stack", "grown"}
            await check_folds(node)


async def test_another_kind_under_a_name_is_another_arm_after_a_restart(tmp_path: Path) -> None:
    async with running(setup_of({"young": young, "mine": Learnt.STACK}, learnt=False), tmp_path) as node:
        assert "mine" in {each.arm for each in await played(node, 16)}
    async with running(setup_of({"young": young, "mine": Learnt.GROWN}, learnt=False), tmp_path) as node:
        assert node.state.learnt.kinds == {"mine": Learnt.GROWN}
        assert "mine" not in {each.arm for each in await played(node, 4)}  # no trees so far
        await check_folds(node)


# Trees


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fits]:
    fits = Fits()
    monkeypatch.setattr(driver, "grow", fits)
    yield fits
    fits.may_end.set()


class Fits:
    """Fits trees when it may."""

    def __init__(self) -> None:
        self.may_end, self.begun, self.fail = threading.Event(), 0, False

    def __call__(self, window: Window) -> Trees:
        self.begun += 1
        self.may_end.wait(LONGEST_S)
        if self.fail:
            raise MemoryError("too many trees")
        return grow(window)


def fits_told_of(node: RunningSite) -> list[int]:
    return [event.count for event in events_of(node) if isinstance(event, Fitted)]


async def test_trees_are_fitted_while_the_site_goes_on_and_a_kill_loses_nothing(tmp_path: Path, fits: Fits) -> None:
    setup = setup_of(models())
    node = await started(setup, tmp_path)
    made = await played(node, FIRST_FIT // 2 + 10)
    await until(lambda: fits.begun)
    assert fits_told_of(node) == []
    assert node.state.learnt.trees() is None
    live = everything(node.state)
    await crash(node)
    node = await started(setup, tmp_path)
    assert everything(node.state) == live
    made += await played(node, 1)  # with the next label it begins again
    fits.may_end.set()
    await until(lambda: node.state.learnt.trees() is not None)
    assert "grown" not in {each.arm for each in made}
    assert "grown" in {each.arm for each in await played(node, 10)}
    await until(lambda: node.state.learnt.fitting is None)
    await node.commits.done()
    assert fits_told_of(node)[:1] == [FIRST_FIT]
    live = everything(node.state)
    await check_folds(node)  # which fits the same trees from the same labels
    await crash(node)
    async with running(setup, tmp_path) as node:
        assert everything(node.state) == live


async def test_a_fit_that_fails_is_tried_again_after_the_next_label(
    tmp_path: Path, fits: Fits, caplog: pytest.LogCaptureFixture
) -> None:
    fits.fail = True
    fits.may_end.set()
    async with running(setup_of(models()), tmp_path) as node:
        await played(node, FIRST_FIT // 2)
        await until(lambda: "trees could not be fitted" in caplog.text)
        assert node.state.learnt.trees() is None
        fits.fail = False
        await played(node, 1)
        await until(lambda: node.state.learnt.trees() is not None)
        await check_folds(node)


async def test_what_an_arm_has_learnt_from_is_counted_like_the_labels_of_others(tmp_path: Path) -> None:
    """What scores it fades, and is never much: that is no number for people."""
    async with running(setup_of(models(), score_local="all"), tmp_path) as node:
        await played(node, 60)
        arms = {arm["name"]: arm for arm in Inspection(node).arms()}
        assert {arm["labels"] for arm in arms.values()} == {120}
        assert arms["stack"]["mean_over"] <= 50 < arms["young"]["mean_over"] == 120
