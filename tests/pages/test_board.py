"""One snapshot for all open pages, none while no page is open, and no queue for a page that reads slowly."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from cosend.axes import AllFeatures, Feature
from cosend.axis_format import name_of
from cosend.pages.dashboard import Board, Page
from cosend.pages.site_view import SiteView
from cosend.runtime.client_requests import Decided
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from tests.node.sites import running, setup_of

PARTS = {"head", "tiles", "arms", "decisions", "reward", "error", "network", "where", "axes"}


def board_of(site: RunningSite) -> Board:
    return Board(SiteView(site))


async def teach(site: RunningSite, count: int) -> None:
    made = await site.classify([{"age": 10.0 * (n % 10)} for n in range(count)])
    await site.label([Given(each.id, "ill") for each in made if isinstance(each, Decided)])


async def test_a_page_gets_everything_at_once_then_what_has_changed_and_of_a_slow_reader_nothing_waits(
    tmp_path: Path,
) -> None:
    axes = [Feature("age", range=(0, 100)), Feature("age", range=(0, 200))]
    async with running(replace(setup_of(score_local="all"), axes=axes), tmp_path) as site:
        await teach(site, 20)
        board, first, slow, other = board_of(site), Page((0,)), Page((0,)), Page((1,))
        board.open(first)
        board.open(slow)
        shown = board.news_for(first)
        assert set(shown) == PARTS
        assert 'data-value="items">20<' in shown["tiles"]
        assert board.news_for(first) == {}
        for _ in range(10):
            await teach(site, 3)
            board.tick()
            assert "tiles" in board.news_for(first)
        missed = board.news_for(slow)
        assert set(missed) == PARTS
        assert 'data-value="items">50<' in missed["tiles"]
        board.open(other)
        assert board.news_for(other)["where"] != missed["where"]
        board.close()


async def test_nothing_is_looked_at_while_no_page_is_open_and_streams_end_with_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(setup_of(), tmp_path) as site:
        board = board_of(site)
        looked = Mock(wraps=board.view.snapshot)
        monkeypatch.setattr(board.view, "snapshot", looked)
        events = board.stream()
        assert await anext(events)
        await events.aclose()  # type: ignore[attr-defined]  # the browser has gone
        assert not board.pages
        assert board._task is not None
        await board._task  # it ends by itself
        before = looked.call_count
        again = board.stream()
        assert set(json.loads((await anext(again)).removeprefix(b"data: "))) == PARTS
        assert looked.call_count == before + 1
        waiting = asyncio.ensure_future(anext(again, None))
        await asyncio.sleep(0)
        board.close()  # the site stops
        assert await waiting is None
        assert not board.pages


async def test_features_become_axes_when_they_are_known(tmp_path: Path) -> None:
    """A site without a context looks at every feature; before it has seen enough items there is nothing to draw."""
    setup = replace(setup_of(score_local="all"), axes=[AllFeatures()])
    async with running(setup, tmp_path) as site:
        board, page = board_of(site), Page()
        assert board.view.axes() == []
        await teach(site, 20)
        board.open(page)
        assert "No feature of the items is an axis yet." in board.news_for(page)["where"]
        for _ in range(12):
            await teach(site, 20)
        assert [name_of(axis) for axis in board.view.axes()] == ["age"]
        board.tick()
        assert page.choice == (0,)  # it is shown by itself
        assert "Which arm wins at which age" in board.news_for(page)["where"]
        board.close()


async def test_the_menu_of_axes_shows_what_was_chosen(tmp_path: Path) -> None:
    setup = replace(setup_of(), axes=[Feature("age", range=(0, 100)), Feature("<pulse>", range=(0, 200))])
    async with running(setup, tmp_path) as site:
        for axes, chosen in (("1", "1"), ("", "0,1"), ("7,9", "0,1"), ("\0", "0,1")):
            board = board_of(site)
            menu = json.loads((await anext(board.stream(axes))).removeprefix(b"data: "))["axes"]
            options = re.findall(r'<option value="([\d,]+)"( selected)?>(.*?)</option>', menu)
            assert [(value, words) for value, _, words in options] == [
                ("0,1", "age and &lt;pulse&gt;"),
                ("0", "age"),
                ("1", "&lt;pulse&gt;"),
            ]
            assert [value for value, selected, _ in options if selected] == [chosen]
            board.close()


async def test_a_site_that_starts_says_so_and_a_disk_that_fails_is_said_and_survived(tmp_path: Path) -> None:
    starting, page = board_of(RunningSite(setup_of(), tmp_path / "other")), Page()
    starting.open(page)
    assert "It is starting." in starting.news_for(page)["head"]
    starting.close()
    async with running(setup_of(), tmp_path) as site:
        await teach(site, 3)
        board, page = board_of(site), Page((0,))
        index, site.store.index._connection = site.store.index._connection, site.store.log.reader()
        site.store.index._connection.close()
        board.open(page)
        assert "closed database" in board.news_for(page)["head"]
        site.store.index._connection = index
        board.tick()
        assert "ready" in board.news_for(page)["head"]
        board.close()
