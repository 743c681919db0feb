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
        assert watched.page.locator("figure svg").count() > 3
        watched.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        assert not watched.is_too_wide()
        assert watched.broken_words() == []
        wide = "elements => elements.filter((each) => each.getBoundingClientRect().right > innerWidth + 1).length"
        assert watched.page.locator("main *, body > *").evaluate_all(wide) == 0
