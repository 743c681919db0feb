from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cosend.reports.page import PLOTS, write_report
from tests.reports import HINDSIGHT, POLICIES, SITES, made_up


def page_of(result: dict[str, Any], folder: Path) -> str:
    return write_report(result, folder).read_text(encoding="utf-8")


def words_of(page: str) -> str:
    """Return the page without its pictures."""
    return re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(made_up(), tmp_path_factory.mktemp("report") / "new" / "folder")


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return written.read_text(encoding="utf-8")


def test_the_folder_has_the_page_the_data_and_the_pictures(written: Path) -> None:
    assert written.parts[-3:] == ("new", "folder", "report.html")
    assert json.loads((written.parent / "results.json").read_text(encoding="utf-8")) == made_up()
    pictures = {picture.name: picture.read_text() for picture in (written.parent / "plots").iterdir()}
    assert set(pictures) == {f"{name}.svg" for name in PLOTS}
    assert all(text.startswith("<svg") and "prefers-color-scheme: dark" in text for text in pictures.values())


def test_the_page_needs_nothing_else(page: str) -> None:
    assert not re.search(r"https?:|//|href=|src=|url\(|@import|<script|<link|<iframe", page)


def test_the_same_result_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    again = write_report(made_up(), tmp_path)
    for name in ("report.html", "results.json", *(f"plots/{name}.svg" for name in PLOTS)):
        assert (written.parent / name).read_bytes() == (again.parent / name).read_bytes()


def test_every_name_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>&\""
    result = made_up(sites=(evil, "other"), policies=(evil, "plain"), context=(evil,))
    result |= {"title": evil, "notes": [evil], "stopped": evil}
    for context in ((evil,), (evil, evil)):
        page = page_of(result | made_up(sites=(evil, "other"), policies=(evil, evil), context=context), tmp_path)
        assert "<script" not in page
        assert "&lt;script&gt;" in page


def test_it_opens_with_the_verdict_and_one_row_per_policy(page: str) -> None:
    assert page.index('class="verdict"') < page.index("<table") < page.index("<figure")
    table = page[page.index("<table") : page.index("</table>")]
    order = re.findall(r"<tr[^>]*><td>([\w -]+?)(?: <span|<small|</td>)", table)
    assert order == [*(name for name in POLICIES if name not in HINDSIGHT), *HINDSIGHT]
    assert table.index("these know the future") < table.index("best local")
    assert table.count("best reward") == 1
    assert table.count("\N{PLUS-MINUS SIGN}") == len(POLICIES)


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    words = words_of(page_of(made_up(seeds=1), tmp_path))
    assert "\N{PLUS-MINUS SIGN}" not in words
    assert "1 seed: 0" in words


def test_figures_are_named_after_their_policy_and_the_others_are_there_on_demand(page: str) -> None:
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings[:-1] == [
        "How ZoomingKLUCB learns",
        "What the change did to ZoomingKLUCB",
        "Which model ZoomingKLUCB uses at which age",
        "Who sends how much to whom under ZoomingKLUCB",
        "What ZoomingKLUCB spends on learning",
        "What ZoomingKLUCB used",
    ]
    assert headings[-1] == "Site by site"
    assert "<summary>The same figures for CoS</summary>" in page
    assert "<h3>Who sends how much to whom under CoS</h3>" in page


def test_the_sites_come_below_with_their_best_reward_marked(page: str) -> None:
    table = page[page.index("Site by site") :]
    assert re.findall(r'<th scope="rowgroup"[^>]*>(\w+)<', table) == list(SITES)
    assert table.count("best reward") == len(SITES)


def test_figures_of_one_stream_among_several_say_so(tmp_path: Path) -> None:
    """What a policy spends on learning is drawn for one stream; the column beside it is a mean over all."""
    page = page_of(made_up() | {"seeds": [0, 1, 2]}, tmp_path)
    spent = page[page.index("spends on learning</h2>") :]
    assert "in the first stream" in spent[: spent.index("</figcaption>")]


def test_what_does_not_apply_is_a_dash(tmp_path: Path) -> None:
    result = made_up(sites=("solo",), policies=("ZoomingKLUCB",))
    result["rows"][0] |= {"regret": None, "training": None}
    words = words_of(page_of(result, tmp_path))
    assert words.count("\N{EN DASH}</td>") == 3  # and its meaning
    assert "None" not in words


@pytest.mark.parametrize(
    ("gone", "name"),
    [
        ({"use": {site: {"arms": ["a"], "owners": [site], "cells": [], "counts": []} for site in SITES}}, "use"),
        ({"change": None}, "change"),
        ({"flows": {"from": ["a", "b"], "to": ["a", "b"], "percent": [[100.0, 0.0], [0.0, 100.0]]}}, "flow"),
        ({"phases": {"a": {"item": [5], "train": [0.0], "explore": [0.1], "exploit": [99.9]}}}, "phases"),
    ],
)
def test_a_figure_that_says_nothing_is_left_out_and_an_old_file_goes(
    gone: dict[str, Any], name: str, written: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "again"
    shutil.copytree(written.parent, folder)
    write_report(made_up() | gone, folder)
    assert {path.stem for path in (folder / "plots").iterdir()} == set(PLOTS) - {name}


def test_a_run_that_was_stopped_at_once_still_has_a_page_that_says_so(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"from": [], "to": [], "percent": []}
    result = made_up() | {"items": 0, "rows": [], "overall": [], "error_curves": {}, "curves": {}, "change": None}
    result |= {"phases": {}, "winners": {}, "use": {}, "others": {}, "flows": empty, "stopped": "Stopped: all so far."}
    page = page_of(result, tmp_path)
    assert "<svg" not in page
    assert '<p class="stopped">Stopped: all so far.</p>' in page


def test_a_number_that_json_cannot_hold_becomes_null(tmp_path: Path) -> None:
    result = made_up(sites=("solo",), policies=("ZoomingKLUCB",))
    result["rows"][0] |= {"regret": float("nan"), "error": float("nan")}
    words = words_of(page_of(result, tmp_path))
    assert "nan" not in re.findall(r"<td[^>]*>([^<]*)<", words)
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"][0]["regret"] is None


def test_the_page_fits_phones_and_dark_screens(page: str) -> None:
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"overflow-x|min-width: \d+(?:rem|px);", page)  # nothing scrolls sideways


def test_importing_the_page_imports_no_matplotlib() -> None:
    code = "import sys, cosend.reports.page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603  # a fixed command
