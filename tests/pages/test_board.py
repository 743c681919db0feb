"""One snapshot for all open pages, none while no page is open, and no queue for a page that reads slowly."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cosend.axes import AllFeatures, Feature
from cosend.axis_format import name_of
from cosend.pages import dashboard
from cosend.pages.dashboard import Board, Wanted
from cosend.pages.site_view import SiteView
from cosend.runtime.client_requests import Decided
from cosend.runtime.gossip import Traffic, written
from cosend.runtime.label_intake import Given
from cosend.runtime.running_site import RunningSite
from tests.node.sites import running, setup_of

CHARTS = {"main_title", "main", "error_title", "error", "rate", "latency", "events"}
PARTS = {"head", "tiles", "arms", "decisions", "network", "where", "axes", *CHARTS}
TWO_AXES = [Feature("age", range=(0, 100)), Feature("<pulse>", range=(0, 200))]


@pytest.fixture
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every look at a board make a new snapshot."""
    monkeypatch.setattr(dashboard, "TICK_S", 0.0)
    monkeypatch.setattr(dashboard, "REST", 0.0)


def board_of(site: RunningSite) -> Board:
    return Board(SiteView(site))


async def news(events: AsyncIterator[bytes]) -> Any:
    """Return the next parts that a page gets."""
    return json.loads((await anext(events)).removeprefix(b"data: "))


async def teach(site: RunningSite, count: int) -> None:
    made = await site.classify([{"age": 10.0 * (n % 10), "<pulse>": 90.0} for n in range(count)])
    await site.label([Given(each.id, "ill") for each in made if isinstance(each, Decided)])


@pytest.mark.usefixtures("no_rest")
async def test_a_page_gets_everything_at_once_then_what_has_changed_and_of_a_slow_reader_nothing_waits(
    tmp_path: Path,
) -> None:
    async with running(replace(setup_of(score_local="all"), axes=TWO_AXES), tmp_path) as site:
        await teach(site, 20)
        board = board_of(site)
        first, slow = board.stream(Wanted("0")), board.stream(Wanted("0"))
        shown = await news(first)
        assert set(shown) == set(await news(slow)) == PARTS
        assert 'data-value="items">20<' in shown["tiles"]
        for _ in range(10):
            await teach(site, 3)
            changed = await news(first)
            assert "tiles" in changed
            assert "axes" not in changed
        missed = await news(slow)
        assert 'data-value="items">50<' in missed["tiles"]
        assert (await news(board.stream(Wanted("1"))))["where"] != missed["where"]


async def test_nothing_is_looked_at_while_no_page_is_open_and_streams_end_with_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(setup_of(), tmp_path) as site:
        board = board_of(site)
        looked = Mock(wraps=board.view.snapshot)
        monkeypatch.setattr(board.view, "snapshot", looked)
        events: Any = board.stream()
        await news(events)
        await events.aclose()  # the browser has gone
        assert board.pages == 0
        await asyncio.sleep(1.5 * dashboard.TICK_S)
        assert looked.call_count == 1
        again, other = board.stream(), board.stream()
        assert set(await news(again)) == set(await news(other)) == PARTS
        assert looked.call_count in (2, 3)  # one look for both pages; a slow machine may be at the next second
        assert board.pages == 2
        waiting = [asyncio.ensure_future(anext(each, None)) for each in (again, other)]
        await asyncio.sleep(0)
        board.close()  # the site stops
        assert await asyncio.gather(*waiting) == [None, None]
        assert board.pages == 0


@pytest.mark.usefixtures("no_rest")
async def test_features_become_axes_when_they_are_known(tmp_path: Path) -> None:
    """A site without a context looks at every feature; before it has seen enough items there is nothing to draw."""
    setup = replace(setup_of(score_local="all"), axes=[AllFeatures()])
    async with running(setup, tmp_path) as site:
        board = board_of(site)
        events = board.stream()
        assert board.view.axes() == []
        await teach(site, 20)
        assert "No feature of the items is an axis yet." in (await news(events))["where"]
        for _ in range(12):
            await teach(site, 20)
        assert "age" in [name_of(axis) for axis in board.view.axes()]
        assert "Which arm wins at which age" in (await news(events))["where"]  # it is shown by itself


async def test_the_menu_of_axes_shows_what_was_chosen(tmp_path: Path) -> None:
    async with running(replace(setup_of(), axes=TWO_AXES), tmp_path) as site:
        board = board_of(site)
        for axes, chosen in (("1", "1"), ("", "0,1"), ("7,9", "0,1"), ("\0", "0,1")):
            menu = (await news(board.stream(Wanted(axes))))["axes"]
            options = re.findall(r'<option value="([\d,]+)"( selected)?>(.*?)</option>', menu)
            names = [("0,1", "age and &lt;pulse&gt;"), ("0", "age"), ("1", "&lt;pulse&gt;")]
            assert [(value, words) for value, _, words in options] == names
            assert [value for value, selected, _ in options if selected] == [chosen]


@pytest.mark.usefixtures("no_rest")
async def test_a_site_that_starts_says_so_and_a_disk_that_fails_is_said_and_survived(tmp_path: Path) -> None:
    assert "It is starting." in board_of(RunningSite(setup_of(), tmp_path / "other")).parts(())["head"]
    async with running(setup_of(), tmp_path) as site:
        await teach(site, 3)
        board = board_of(site)
        index, site.store.index._connection = site.store.index._connection, site.store.log.reader()
        site.store.index._connection.close()
        assert "closed database" in board.parts((0,))["head"]
        site.store.index._connection = index
        assert "ready" in board.parts((0,))["head"]


@pytest.mark.usefixtures("no_rest")
async def test_news_of_a_peer_that_cannot_be_read_are_said_once_and_stop_no_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(setup_of(), tmp_path) as site:
        told = {"liar": f"[1.0,1{'0' * 400},{{}},null,null]", "west": written(Traffic(1.0, 7, {}))}
        site.link = Mock(news=lambda: told)
        board = board_of(site)
        for _ in range(2):
            shown = board.parts((0,))["network"]
            assert "west" in shown
            assert "liar" not in shown
        assert [record.__dict__["peer"] for record in caplog.records] == ["liar"]
        site.link = None


@pytest.mark.usefixtures("no_rest")
async def test_a_page_shows_the_decisions_that_were_chosen_and_nonsense_is_the_usual_page(tmp_path: Path) -> None:
    async with running(setup_of(score_local="all"), tmp_path) as site:
        made = [each for each in await site.classify([{"age": 10.0}] * 6) if isinstance(each, Decided)]
        await site.label([Given(each.id, "ill" if n else "well") for n, each in enumerate(made)])
        wrong = [n for n, each in enumerate(made, start=1) if (each.label == "ill") != (n > 1)]
        board = board_of(site)

        async def shown(**wanted: str) -> list[int]:
            html = (await news(board.stream(Wanted(**wanted))))["decisions"]
            return [int(number) for number in re.findall(r'data-of="(\d+)"', html)]

        assert await shown() == [6, 5, 4, 3, 2]
        assert await shown(range="\0", only="<script>", axes="9" * 40) == [6, 5, 4, 3, 2]
        assert await shown(only="wrong") == sorted(wrong, reverse=True)[:5]
        assert await shown(only="sent", range="5m") == []
        explored = [n for n, each in enumerate(made, start=1) if each.phase != "exploit"]
        assert await shown(only="explored") == sorted(explored, reverse=True)[:5]
