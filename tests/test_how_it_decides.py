"""The page on how a site decides: its outputs and its figures are what its code gives."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(name="tool")
def tool_of() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "_tools" / "figures.py"))


@pytest.mark.compiled
def test_the_page_shows_what_its_code_prints(tool: dict[str, Any]) -> None:
    blocks = len(tool["code"]())
    _, printed = tool["done"](blocks)
    page = (DOCS / "how-it-decides.md").read_text()
    assert page.count("```python") == page.count("```text") == blocks == 3
    assert tool["page_with"](printed) == page


def test_every_figure_is_on_the_page_and_can_be_read(tool: dict[str, Any]) -> None:
    page = (DOCS / "how-it-decides.md").read_text()
    for name in tool["FIGURES"]:
        assert f"(images/decides-{name}.svg)" in page
        assert ElementTree.parse(DOCS / "images" / f"decides-{name}.svg").getroot().get("viewBox")  # noqa: S314
    drawn = {path.stem.removeprefix("decides-") for path in (DOCS / "images").glob("decides-*.svg")}
    assert drawn == tool["FIGURES"].keys()


@pytest.mark.claims
def test_the_figures_are_what_the_script_draws(tool: dict[str, Any]) -> None:
    for name, draw in tool["FIGURES"].items():
        assert draw().standalone() == (DOCS / "images" / f"decides-{name}.svg").read_text(), name
