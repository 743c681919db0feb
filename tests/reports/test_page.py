from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cosend.reports.page import COLUMNS, write_report
from tests.reports import SITES, made_up

pytestmark = pytest.mark.compiled

PLOTS = {"error_over_time.png", "phases_over_time.png", "winners.png", "flows.png"}


def page_of(result: dict[str, Any], folder: Path) -> str:
    return write_report(result, folder).read_text(encoding="utf-8")


def words_of(page: str) -> str:
    """Return the page without its pictures."""
    return re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", page)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of the usual result, for all who only read it: its pictures take a second to draw."""
    return write_report(made_up(), tmp_path_factory.mktemp("report") / "new" / "folder")


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return written.read_text(encoding="utf-8")


def test_the_folder_has_the_page_the_data_and_the_pictures(written: Path) -> None:
    path = written
    assert path.parts[-3:] == ("new", "folder", "report.html")
    assert json.loads((path.parent / "results.json").read_text(encoding="utf-8")) == made_up()
    pictures = {picture.name: picture.read_bytes() for picture in (path.parent / "plots").iterdir()}
    assert set(pictures) == PLOTS
    assert all(data.startswith(b"\x89PNG") for data in pictures.values())


def test_the_page_needs_nothing_else(page: str) -> None:
    sources = re.findall(r'src="([^"]{0,22})', page)
    assert sources == ["data:image/png;base64,"] * len(PLOTS)
    words = words_of(page)
    assert not re.search(r"https?:|//|href=|url\(|@import|<script|<link|<iframe", words)


def test_the_same_result_gives_the_same_bytes(written: Path, tmp_path: Path) -> None:
    first, second = written, write_report(made_up(), tmp_path)
    assert first.read_bytes() == second.read_bytes()
    for name in PLOTS:
        assert (first.parent / "plots" / name).read_bytes() == (second.parent / "plots" / name).read_bytes()


def test_every_name_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>&\""
    result = made_up(sites=(evil, "other"), policies=(evil, "plain"), context=(evil,)) | {"title": evil}
    words = words_of(page_of(result, tmp_path))
    assert "<script" not in words
    # title, heading, summary twice (site, axis), the site's group, and the policy at two sites
    assert words.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;") == 7


@pytest.mark.usefixtures("no_pictures")
def test_the_lowest_error_of_each_site_is_marked(tmp_path: Path) -> None:
    result = made_up(policies=("cos", "other"))
    result["rows"][3]["error"] = 0.1  # other, at the second site
    words = words_of(page_of(result, tmp_path))
    marked = re.findall(r'<th scope="row">(\w+) \(lowest error\)</th><td class="best">([\d.]+)</td>', words)
    assert marked == [("cos", "0.70"), ("other", "0.10"), ("cos", "0.90"), ("cos", "1.00")]


@pytest.mark.usefixtures("no_pictures")
def test_equal_lowest_errors_are_all_marked(tmp_path: Path) -> None:
    result = made_up(sites=("solo",), policies=("cos", "twin"))
    result["rows"][1]["error"] = result["rows"][0]["error"]
    assert words_of(page_of(result, tmp_path)).count("(lowest error)") == 2


def test_the_table_has_all_rows_and_every_column_is_explained(page: str) -> None:
    words = words_of(page)
    assert words.count('<th scope="row">') == len(made_up()["rows"])
    assert re.findall(r'<th scope="rowgroup"[^>]*>(\w+)<', words) == list(SITES)
    assert all(f"<dt>{column.title}</dt>" in words for column in COLUMNS)


def test_one_site_and_one_policy_are_enough(tmp_path: Path) -> None:
    words = words_of(page_of(made_up(sites=("solo",), policies=("cos",)), tmp_path))
    assert "1 site: solo" in words
    assert words.count("<img") == len(PLOTS)


@pytest.mark.usefixtures("no_pictures")
def test_what_does_not_apply_is_a_dash(tmp_path: Path) -> None:
    result = made_up(sites=("solo",), policies=("cos",))
    result["rows"][0] |= {"regret": None, "training": None}
    words = words_of(page_of(result, tmp_path))
    assert words.count("<td>\N{EN DASH}</td>") == 2
    assert "None" not in words


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("none", [{}, {"solo": {"arms": ["a"], "cells": [], "best": [], "arrivals": []}}])
def test_without_winners_the_page_says_so_and_an_old_picture_goes(
    none: dict[str, Any], written: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "again"
    shutil.copytree(written.parent, folder)
    words = words_of(page_of(made_up() | {"winners": none}, folder))
    assert words.count("Nothing to draw") == 1
    assert {path.name for path in (folder / "plots").iterdir()} == PLOTS - {"winners.png"}


def test_a_run_that_was_stopped_at_once_still_has_a_page(tmp_path: Path) -> None:
    empty: dict[str, list[Any]] = {"from": [], "to": [], "percent": []}
    result = made_up() | {"items": 0, "rows": [], "error_curves": {}, "phases": {}, "winners": {}, "flows": empty}
    assert words_of(page_of(result, tmp_path)).count("Nothing to draw") == len(PLOTS)


@pytest.mark.usefixtures("no_pictures")
def test_a_number_that_json_cannot_hold_becomes_null(tmp_path: Path) -> None:
    result = made_up(sites=("solo",), policies=("cos",))
    result["rows"][0] |= {"regret": float("nan"), "error": float("nan")}
    words = words_of(page_of(result, tmp_path))
    assert "nan" not in re.findall(r"<td[^>]*>([^<]*)<", words)
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"][0]["regret"] is None


def test_the_page_fits_phones_and_dark_screens(page: str) -> None:
    words = words_of(page)
    assert 'name="viewport"' in words
    assert "prefers-color-scheme: dark" in words
