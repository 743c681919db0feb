"""One snapshot for all open pages, none while no page is open, and no queue for a page that reads slowly."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

from cosend import Context
from cosend.axis_format import name_of
from cosend.pages.board import Board, Page
from cosend.pages.site_view import SiteView
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from tests.node.sites import run, running, setup_of

PARTS = {"head", "tiles", "arms", "decisions", "reward", "error", "network", "where", "axes"}


def parts_for(board: Board, page: Page) -> dict[str, str]:
    message = board.news_for(page).decode()
    found: dict[str, str] = json.loads(message.removeprefix("data: ")) if message else {}
    return found


def board_of(node: RunningSite) -> Board:
    return Board(SiteView(node))


async def teach(node: RunningSite, count: int) -> None:
    made = await node.classify([{"age": 10.0 * (n % 10)} for n in range(count)])
    await node.label([Given(each.id, "ill") for each in made if isinstance(each, Decided)])


def test_a_page_gets_everything_at_once_and_then_what_has_changed(tmp_path: Path) -> None:
    async def work() -> None:
        axes = [Context("age", range=(0, 100)), Context("age", range=(0, 200))]
        async with running(replace(setup_of(score_local="all"), axes=axes), tmp_path) as node:
            await teach(node, 20)
            board, first, second, other = board_of(node), Page((0,)), Page((0,)), Page((1,))
            board.open(first)
            shown = parts_for(board, first)
            assert set(shown) == PARTS
            assert 'data-value="items">20<' in shown["tiles"]
            assert parts_for(board, first) == {}
            await teach(node, 30)
            board.tick(with_figures=False)
            changed = parts_for(board, first)
            assert 'data-value="items">50<' in changed["tiles"]
            assert "where" not in changed
            for page in (second, other):
                board.open(page)
            assert parts_for(board, second) == shown | changed
            assert set(parts_for(board, other)) == PARTS
            board.close()

    run(work())


def test_a_page_that_reads_slowly_gets_the_newest_of_each_part_and_nothing_waits_for_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            board, slow, quick = board_of(node), Page((0,)), Page((0,))
            board.open(slow)
            board.open(quick)
            for _ in range(50):
                await teach(node, 2)
                board.tick(with_figures=True)
                assert parts_for(board, quick)
            assert len(board._messages) == 1
            assert len(board._parts) == len(PARTS) - 1  # one axis has no menu
            assert 'data-value="items">100<' in parts_for(board, slow)["tiles"]
            board.close()

    run(work())


def test_nothing_is_looked_at_while_no_page_is_open_and_streams_end_with_the_site(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(setup_of(), tmp_path) as node:
            board = board_of(node)
            assert board.ticks == 0
            events = board.stream()
            assert await anext(events)
            await events.aclose()  # type: ignore[attr-defined]  # the browser has gone
            assert not board.pages
            assert board._task is not None
            await board._task  # it ends by itself
            ticks = board.ticks
            again = board.stream()
            assert set(json.loads((await anext(again)).removeprefix(b"data: "))) == PARTS - {"axes"}
            assert board.ticks == ticks + 1
            waiting = asyncio.ensure_future(anext(again, None))
            await asyncio.sleep(0)
            board.close()  # the site stops
            assert await waiting is None
            assert not board.pages

    run(work())


def test_features_become_axes_when_they_are_known(tmp_path: Path) -> None:
    """A site without a context looks at every feature; before it has seen enough items there is nothing to draw."""

    async def work() -> None:
        setup = replace(setup_of(score_local="all"), axes=[Context.features()])
        async with running(setup, tmp_path) as node:
            board, page = board_of(node), Page()
            assert board.view.axes() == []
            await teach(node, 20)
            board.open(page)
            assert "No feature of the items is an axis yet." in parts_for(board, page)["where"]
            for _ in range(12):
                await teach(node, 20)
            assert [name_of(axis) for axis in board.view.axes()] == ["age"]
            board.tick(with_figures=True)
            assert page.choice == (0,)  # it is shown by itself
            assert "Which arm wins at which age" in parts_for(board, page)["where"]
            board.close()

    run(work())


def test_the_menu_of_axes_shows_what_was_chosen(tmp_path: Path) -> None:
    async def work() -> None:
        setup = replace(setup_of(), axes=[Context("age", range=(0, 100)), Context("<pulse>", range=(0, 200))])
        async with running(setup, tmp_path) as node:
            for axes, chosen in (("1", "1"), ("", "0,1"), ("7,9", "0,1"), ("\0", "0,1")):
                board = board_of(node)
                menu = json.loads((await anext(board.stream(axes))).removeprefix(b"data: "))["axes"]
                options = re.findall(r'<option value="([\d,]+)"( selected)?>(.*?)</option>', menu)
                assert [(value, words) for value, _, words in options] == [
                    ("0,1", "age and &lt;pulse&gt;"),
                    ("0", "age"),
                    ("1", "&lt;pulse&gt;"),
                ]
                assert [value for value, selected, _ in options if selected] == [chosen]
                board.close()

    run(work())


def test_a_site_that_starts_says_so_and_a_disk_that_fails_is_said_and_survived(tmp_path: Path) -> None:
    async def work() -> None:
        starting, page = board_of(RunningSite(setup_of(), tmp_path / "other")), Page()
        starting.open(page)
        assert "It is starting." in parts_for(starting, page)["head"]
        starting.close()
        async with running(setup_of(), tmp_path) as node:
            await teach(node, 3)
            board, page = board_of(node), Page((0,))
            index, node.store.index._connection = node.store.index._connection, node.store.log.reader()
            node.store.index._connection.close()
            board.open(page)
            assert "closed database" in parts_for(board, page)["head"]
            node.store.index._connection = index
            for _ in range(2):
                board.tick(with_figures=True)
            assert "ready" in parts_for(board, page)["head"]
            board.close()

    run(work())
