"""One summary for all open pages, and none while there is no page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from cosend import Context
from cosend.dashboard.board import SLOW_TICKS, Board, Speed, axes_menu, axes_of, first_choice
from cosend.node.flight import Decided
from cosend.node.labelling import Given
from cosend.node.node import Node
from cosend.site.scales import name_of
from tests.node.sites import run, running, setup_of


class FakePage:
    def __init__(self) -> None:
        self.choice: tuple[int, ...] = (0,)
        self.shown: dict[str, str] = {}
        self.messages = 0

    def show(self, code: str) -> None:
        self.messages += 1
        self.shown |= json.loads(code.removeprefix("cosendShow(").removesuffix(")"))


async def teach(node: Node, count: int) -> None:
    made = await node.classify([{"age": 10.0 * (n % 10)} for n in range(count)])
    await node.label([Given(each.id, "ill") for each in made if isinstance(each, Decided)])


def test_a_page_gets_everything_at_once_and_then_what_has_changed(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(score_local="all"), tmp_path) as node:
            await teach(node, 20)
            board, first, second = Board(node), FakePage(), FakePage()
            board.open(first)
            assert set(first.shown) == {
                "head",
                "tiles",
                "arms",
                "decisions",
                "reward",
                "error",
                "network",
                "where",
                "axes",
            }
            assert 'data-value="items">20<' in first.shown["tiles"]
            await teach(node, 30)
            board.tick()
            assert 'data-value="items">50<' in first.shown["tiles"]
            board.open(second)
            assert second.shown == first.shown
            messages = first.messages
            board.close(first)
            await teach(node, 1)
            for _ in range(SLOW_TICKS):
                board.tick()
            assert first.messages == messages
            assert 'data-value="items">51<' in second.shown["tiles"]
            board.close(second)

    run(work())


def test_nothing_is_looked_at_while_there_is_no_page(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            board, page = Board(node), FakePage()
            assert board.ticks == 0
            board.open(page)
            board.close(page)
            assert board._task is not None
            await board._task  # it ends by itself
            ticks = board.ticks
            board.open(page)  # and begins again
            assert board.ticks == ticks + 1
            board.close(page)

    run(work())


def test_features_become_axes_when_they_are_known(tmp_path: Path) -> None:
    """A site without a context looks at every feature; before it has seen enough items there is nothing to draw."""

    async def work() -> None:
        setup = replace(setup_of(score_local="all"), axes=[Context.features()])
        async with running(setup, tmp_path) as node:
            board, page = Board(node), FakePage()
            page.choice = first_choice(node)
            assert axes_of(node) == []
            await teach(node, 20)
            board.open(page)
            assert "No feature of the items is an axis yet." in page.shown["where"]
            assert page.shown["axes"] == ""
            for _ in range(12):
                await teach(node, 20)
            assert [name_of(axis) for axis in axes_of(node)] == ["age"]
            for _ in range(SLOW_TICKS):
                board.tick()
            assert page.choice == first_choice(node) != ()  # it is shown by itself
            assert "Which arm wins at which age" in page.shown["where"]
            board.close(page)

    run(work())


def test_the_menu_of_axes_follows_them_and_shows_what_was_chosen(tmp_path: Path) -> None:
    async def work() -> None:
        setup = replace(setup_of(), axes=[Context("age", range=(0, 100)), Context("<pulse>", range=(0, 200))])
        async with running(setup, tmp_path) as node:
            assert first_choice(node) == (0, 1)
            menu = axes_menu(node, (1,))
            options = re.findall(r'<option value="([\d,]+)"( selected)?>(.*?)</option>', menu)
            assert options == [
                ("0,1", "", "age and &lt;pulse&gt;"),
                ("0", "", "age"),
                ("1", " selected", "&lt;pulse&gt;"),
            ]

    run(work())


def test_a_site_that_starts_says_so(tmp_path: Path) -> None:
    board = Board(Node(setup_of(), tmp_path))
    board.tick()
    assert "It is starting." in board.parts["head"]


def test_a_disk_that_fails_is_said_and_survived(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            await teach(node, 3)
            board = Board(node)
            index, node.store.index._connection = node.store.index._connection, node.store.log.reader()
            node.store.index._connection.close()
            board.tick()
            assert "closed database" in board.parts["head"]
            node.store.index._connection = index
            board.tick()
            board.tick()
            assert "ready" in board.parts["head"]

    run(work())


def test_speed_is_known_after_a_second_and_a_new_count_begins_again() -> None:
    speed = Speed(window_s=5.0)
    assert speed.per_second(0.0, 100) is None
    assert speed.per_second(2.0, 300) == 100.0
    assert speed.per_second(6.0, 300) == 0.0
    assert speed.per_second(7.0, 10) is None  # the process has started again
