"""The page of a run in a real browser: it opens from a file, asks nobody for anything, and fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cosend.cli.main import app
from tests.pages.browsing import CHROMIUM, NO_BROWSER, browser, looking_at

pytestmark = [pytest.mark.claims, pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the first run that somebody makes."""
    folder = tmp_path_factory.mktemp("run")
    done = CliRunner().invoke(app, ["run", "--seeds", "2", "--items", "2000", "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return folder / "report.html"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nobody_scrolls_sideways(chromium: Any, report: Path, width: int, scheme: str) -> None:
    with looking_at(chromium, report.as_uri(), width, scheme) as watched:
        assert watched.page.locator("figure svg:visible").count() > 3
        watched.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        assert not watched.is_too_wide()
        assert watched.broken_words() == []
        wide = "elements => elements.filter((each) => each.getBoundingClientRect().right > innerWidth + 1).length"
        assert watched.page.locator("main *, body > *").evaluate_all(wide) == 0


def test_a_click_on_a_heading_sorts_and_a_second_one_turns_the_order_around(chromium: Any, report: Path) -> None:
    with looking_at(chromium, report.as_uri(), 1280, "light") as watched:
        errors = watched.page.locator("table.overall tbody:first-of-type td:nth-child(4)")
        button = watched.page.get_by_role("button", name="Error %").first
        for rises in (False, True):
            button.click()
            shown = [float(text) for text in errors.all_text_contents()]
            assert shown == sorted(shown, reverse=not rises)
        watched.page.get_by_role("button", name="Policy").first.click()
        names = watched.page.locator("table.sites tbody").nth(0).locator("td:first-child").all_text_contents()
        assert len(names) > 10  # another table is as it was


def test_links_of_the_contents_lead_to_sections_and_pictures_can_be_downloaded(chromium: Any, report: Path) -> None:
    with looking_at(chromium, report.as_uri(), 1280, "light") as watched:
        for link in watched.page.locator("nav a").all():
            assert watched.page.locator(str(link.get_attribute("href"))).count() == 1
        pictures = [str(link.get_attribute("href")) for link in watched.page.locator("figcaption a").all()]
        assert len(pictures) > 3
        assert all((report.parent / picture).is_file() for picture in pictures)
