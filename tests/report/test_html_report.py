"""The report of a run: it says what the result says, needs nothing else, and its figures show the numbers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cosend.charts.figures import width_of
from cosend.errors import SettingError
from cosend.report.html_report import FILES, PLOTS, check_ready, two_axes, write_report, writing
from tests.report import HINDSIGHT, POLICIES, SITES, made_up

ODD = ("<b>&", "a" * 80, "\u5317\u4eac", '"x"')


def page_of(result: dict[str, Any], folder: Path) -> str:
    return write_report(result, folder).read_text(encoding="utf-8")


def words_of(page: str) -> str:
    return re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


def texts(folder: Path, plot: str) -> list[str]:
    root = ElementTree.parse(folder / "plots" / f"{plot}.svg")  # noqa: S314 - our own
    return [each.text or "" for each in root.iter() if each.tag.endswith("text")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(made_up(), tmp_path_factory.mktemp("report") / "new" / "folder").parent


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_folder_has_the_page_the_data_and_the_pictures_and_always_the_same_bytes(
    folder: Path, tmp_path: Path
) -> None:
    assert json.loads((folder / "results.json").read_text(encoding="utf-8")) == made_up()
    pictures = {picture.name: picture.read_text() for picture in (folder / "plots").iterdir()}
    assert set(pictures) == {f"{name}.svg" for name in PLOTS}
    assert all(text.startswith("<svg") and "prefers-color-scheme: dark" in text for text in pictures.values())
    write_report(made_up(), tmp_path)
    for name in FILES:
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()


def test_the_page_needs_nothing_else_and_fits_phones_and_dark_screens(page: str) -> None:
    script = page[page.index("<script>") : page.index("</script>")]
    assert not re.search(r"https?:|fetch|import|eval", script)
    rest = page.replace(script, "")
    assert not re.search(r"https?:|//|src=|url\(|@import|<link|<iframe", rest)
    links = re.findall(r'href="([^"]*)"', rest)
    assert {link for link in links if not link.startswith("#")} == {f"plots/{name}.svg" for name in PLOTS}
    assert {link[1:] for link in links if link.startswith("#")} == set(re.findall(r' id="(\w+)"', rest))
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"overflow-x|min-width: \d+(?:rem|px);", page)  # nothing scrolls sideways
    code = "import sys, cosend.report.html_report; sys.exit('matplotlib' in sys.modules or 'jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603  # a fixed command


def test_every_name_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>&\""
    for context in ((evil,), (evil, evil)):
        result = made_up(sites=(evil, "other"), policies=(evil, "plain"), context=context)
        page = page_of(result | {"title": evil, "notes": [evil], "stopped": evil}, tmp_path)
        assert page.count("<script") == 1  # which sorts tables
        assert "&lt;script&gt;" in page


def test_it_opens_with_the_verdict_and_one_row_per_policy(page: str) -> None:
    assert page.index('class="verdict"') < page.index("<table") < page.index("<figure")
    table = page[page.index("<table") : page.index("</table>")]
    order = re.findall(r"<tr[^>]*><td>([\w -]+?)(?: <span|<small|</td>)", table)
    assert order == [*(name for name in POLICIES if name not in HINDSIGHT), *HINDSIGHT]
    assert table.index("In hindsight") < table.index("<td>best single model")
    assert table.count("best reward") == 1
    assert re.findall(r"<td>(\w+) <span[^>]*>this run", table) == ["ZoomingKLUCB"]
    assert table.count("&plusmn;") == len(POLICIES)


def test_it_begins_with_where_it_comes_from(page: str) -> None:
    top = page[: page.index('class="verdict"')]
    for value in ("0.1.0", "2026-01-31T12:00:00+00:00", "cosend run traffic", "0, 1, 2, 3, 4", f"{0:016x}"):
        assert f"<dd>{value}" in top


def test_bars_go_from_the_best_single_model_to_the_oracle_over_an_axis(tmp_path: Path) -> None:
    result = made_up()
    rows = {row["policy"]: row for row in result["overall"]}
    rows["oracle"]["mean_reward"] = 1.0
    rows["previous label"]["mean_reward"] = 0.5
    page = page_of(result, tmp_path)
    table = page[page.index("<table") : page.index("</table>")]
    bars = {}
    for row in table.split("<tr")[2:]:
        name, bar = re.search(r"<td>([\w -]+?)(?: <|<)", row), re.search(r'<rect x="0.00"[^>]*? width="([\d.]+)"', row)
        if name and bar:
            bars[name[1]] = float(bar[1])
    assert bars["oracle"] == 280
    assert bars["best single model"] == 0
    assert bars["ZoomingKLUCB"] == pytest.approx(280 * (0.98 - 0.88) / (1 - 0.88), abs=0.1)
    assert "previous label" not in bars  # an arrow to the left
    axis = re.findall(r"<text[^>]*>(.*?)</text>", table[: table.index("</thead>")])
    assert axis == ["0.88", "0.9", "0.95", "1", "best single model", "oracle"]


@pytest.mark.parametrize("oracle", [0.88, 0.882, 0.9, 0.98, 0.94])
def test_names_above_the_bars_do_not_overlap(oracle: float, tmp_path: Path) -> None:
    result = made_up()
    next(row for row in result["overall"] if row["policy"] == "oracle")["mean_reward"] = oracle
    page = page_of(result, tmp_path)
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"(?: text-anchor="(\w+)")?>(oracle|best single model)<', page)
    (x1, y1, a1, n1), (x2, y2, a2, n2) = found
    assert {n1, n2} == {"oracle", "best single model"}
    spans = []
    for x, anchor, name in ((float(x1), a1, n1), (float(x2), a2, n2)):
        start = x - {"": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width_of(name)
        spans.append((start, start + width_of(name)))
    (start, end), (other, last) = spans
    assert abs(float(y1) - float(y2)) >= 11 or end < other or last < start
    assert (y1 == y2) == (oracle in (0.98, 0.94))  # one above the other only where they must be


def test_a_run_over_time_shows_all_items_and_says_so(tmp_path: Path) -> None:
    assert "The second half of the items of each site." in page_of(made_up(seeds=1), tmp_path)
    assert "All items of each site." in page_of(made_up(seeds=1) | {"whole_use": True}, tmp_path)


def test_models_of_one_site_have_colours_of_their_own(tmp_path: Path) -> None:
    write_report(made_up(sites=("solo",)), tmp_path)
    picture = (tmp_path / "plots" / "use.svg").read_text()
    assert set(re.findall(r'fill="var\(--(c\d)\)" fill-opacity="1"', picture)) == {"c0", "c1"}


def test_policies_that_cannot_be_told_apart_are_tied_and_one_seed_has_no_interval(tmp_path: Path) -> None:
    result = made_up()
    result["overall"][1]["mean_reward"] = result["overall"][0]["mean_reward"] - 0.007  # two intervals of 0.004 overlap
    page = page_of(result, tmp_path)
    assert page[: page.index("</table>")].count("tied for best") == 2
    one = words_of(page_of(made_up(seeds=1), tmp_path))
    assert "&plusmn;" not in one
    assert "1 seed: 0" in one


def test_sections_are_named_after_their_policy_and_others_are_there_on_demand(page: str) -> None:
    sections = re.findall(r'<h2 id="(\w+)">(.*?)</h2>', page)
    assert [title for _, title in sections] == [
        "Policies",
        "Reward over time",
        "Choice of model by age",
        "Traffic between sites",
        "Items used for learning",
        "Use of models and peers",
        "Results by site",
    ]
    assert re.findall(r'<li><a href="#(\w+)">(.*?)</a>', page) == sections
    assert "<summary>The same figures for CoS</summary>" in page
    assert "<h3>Traffic between sites</h3>" in page
    spent = page[page.index("Items used for learning</h2>") :]
    assert "in the first stream" in spent[: spent.index("</figcaption>")]  # the column next to it is a mean over all
    table = page[page.index("Results by site</h2>") :]
    assert re.findall(r'<th scope="rowgroup"[^>]*>(\w+)<', table) == list(SITES)
    assert table.count("best reward") == len(SITES)


def test_a_number_that_does_not_apply_is_a_dash_and_one_that_json_cannot_hold_null(tmp_path: Path) -> None:
    result = made_up(sites=("solo",), policies=("ZoomingKLUCB",))
    result["rows"][0] |= {"regret": float("nan"), "training": None}
    words = words_of(page_of(result, tmp_path))
    assert words.count("\N{EN DASH}</td>") == 3  # and its meaning
    assert not re.search(r">(None|nan)<", words)
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"][0]["regret"] is None


@pytest.mark.parametrize(
    ("gone", "name"),
    [
        ({"use": {site: {"arms": ["a"], "owners": [site], "cells": [], "counts": []} for site in SITES}}, "use"),
        ({"flows": {"from": ["a", "b"], "to": ["a", "b"], "percent": [[100.0, 0.0], [0.0, 100.0]]}}, "flow"),
        ({"phases": {"a": {"item": [5], "train": [0.0], "explore": [0.1], "exploit": [99.9]}}}, "phases"),
    ],
)
def test_a_figure_without_content_is_left_out_and_an_old_file_goes(
    gone: dict[str, Any], name: str, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "again")
    write_report(made_up() | gone, tmp_path / "again")
    assert {path.stem for path in (tmp_path / "again" / "plots").iterdir()} == set(PLOTS) - {name}


def test_a_run_that_was_stopped_at_once_still_has_a_page_that_says_so(tmp_path: Path) -> None:
    empty: dict[str, Any] = {"from": [], "to": [], "percent": []}
    result = made_up() | {"items": 0, "rows": [], "overall": [], "error_curves": {}, "curves": {}, "change": None}
    result |= {"phases": {}, "winners": {}, "use": {}, "others": {}, "flows": empty, "stopped": "Stopped: all so far."}
    page = page_of(result, tmp_path)
    assert "<svg" not in page
    assert '<p class="stopped">Stopped: all so far.</p>' in page


def test_figures_name_lines_arms_and_phases_over_axes_in_their_own_units(folder: Path, tmp_path: Path) -> None:
    lines = texts(folder, "error")
    named = ["ZoomingKLUCB", "local only", "best single model (hindsight)", "oracle (hindsight)"]
    assert [text for text in lines if text in named] == named  # in the same order in all charts
    assert [text for text in texts(folder, "reward") if text in named] == named
    assert "the mix changes" in lines
    assert not {"CoS", "LinUCB", "previous label"} & set(lines)
    assert {"0", "5,000", "10,000", "15,000", "20,000"} <= set(lines)
    strips = texts(folder, "use")
    titles = {f"items of {site}" for site in SITES}
    assert titles | {"0", "50", "100", "age", "model_0", "\N{RIGHTWARDS ARROW} south"} <= set(strips)
    assert {"0%", "50%", "100%", "share of items", "no items"} <= set(strips)
    assert not [text for text in strips if text.endswith("\N{HORIZONTAL ELLIPSIS}")]
    assert "<title>model_0: 90 of 130 items</title>" in (folder / "plots" / "use.svg").read_text()
    assert {"a peer was trained", "0%", "100%"} <= set(texts(folder, "phases"))
    result = made_up(context=("age", "hour"), bins=4)
    result["use"]["north"]["arms"][0] = "north_tree"
    for each in result["phases"].values():
        each["train"] = [0.0] * len(each["train"])
    page = page_of(result, tmp_path)
    assert page.count("<title>Which arm") == 2 * len(SITES)  # a map for each site, of two policies
    assert {"age", "hour", "north", "north_tree", "no items"} <= set(texts(tmp_path, "use"))
    assert "south" in texts(tmp_path, "use-2")
    assert "a peer was trained" not in texts(tmp_path, "phases")


def test_of_many_axes_the_two_most_spread_are_drawn() -> None:
    three = made_up(sites=("a", "b"), context=("x", "y", "z"), bins=3)
    for used in three["use"].values():
        used["cells"] = [[cell[0], 0, cell[2]] for cell in used["cells"]]
    assert two_axes(three, three["use"]) == (0, 2)


@pytest.mark.parametrize("names", [ODD, tuple(f"site {k}" for k in range(30)), ("solo",)])
@pytest.mark.parametrize("axes", [1, 2])
def test_odd_and_many_names_can_be_drawn(names: tuple[str, ...], axes: int, tmp_path: Path) -> None:
    write_report(made_up(sites=names, policies=names, context=("x", "y")[:axes], bins=3), tmp_path)
    for path in (tmp_path / "plots").iterdir():
        assert float(ElementTree.parse(path).getroot().attrib["height"]) < 3_600  # noqa: S314 - our own


def test_a_single_bin_and_a_single_point_can_be_drawn(tmp_path: Path) -> None:
    result = made_up(sites=("solo",), policies=("ZoomingKLUCB",), bins=1)
    result["curves"] = {"ZoomingKLUCB": {"item": [5.0], "error": [0.0], "reward": [1.0]}}
    result["phases"]["solo"] = {"item": [5], "train": [0.0], "explore": [10.0], "exploit": [90.0]}
    assert "nan" not in page_of(result, tmp_path)


# The folder


def test_a_check_of_a_folder_leaves_nothing_behind_and_names_what_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_ready(tmp_path / "a" / "b", ["page.html", "plots/one.png"])
    (tmp_path / "file").write_text("a file")
    for name in ("file", "file/below"):
        with pytest.raises(SettingError, match="a folder that can be written to"):
            check_ready(tmp_path / name, ["page.html"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    (tmp_path / "page.html").mkdir()
    for files, why in (("page.html", r"page\.html is a folder there"), ("file/one.png", "file is a file there")):
        with pytest.raises(SettingError, match=why):
            check_ready(tmp_path, [files])
    with pytest.raises(SettingError, match=r"\(Is a directory, .*page\.html\), got"), writing(tmp_path):
        (tmp_path / "page.html").write_text("x")
    for folder in (None, "a\0b", b"a"):
        with pytest.raises(SettingError, match="here must be the path of a file or folder"):
            check_ready(folder, [], "here")  # type: ignore[arg-type]
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(SettingError, match=r"no permission to write other\.html"):
        check_ready(tmp_path, ["other.html"])
