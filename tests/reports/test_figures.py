"""Figures show the numbers they are given, in their own units, whatever the names are."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from cosend.reports import flow, lines, phases, use
from cosend.reports.svg import Drawing, spread
from cosend.reports.text import counted, round_numbers, short_text
from tests.reports import SITES, made_up

ODD = ("<b>&", "a" * 80, "\u5317\u4eac", '"x"')


def texts(drawing: Drawing) -> list[str]:
    root = ElementTree.fromstring(drawing.alone())  # noqa: S314 - our own
    return [each.text or "" for each in root.iter() if each.tag.endswith("text")]


def all_figures(result: dict[str, Any]) -> list[Drawing]:
    shown = lines.every(result)
    return [
        lines.over_time(result, "reward", "reward", shown),
        lines.over_time(result, "error", "error", shown),
        lines.before_and_after(result, shown),
        *use.where(result, result),
        flow.flow(result),
        phases.over_time(result),
    ]


def test_few_lines_are_the_policy_the_best_other_the_papers_never_sending_and_the_oracle() -> None:
    result = made_up()
    assert [line.policy for line in lines.few(result)] == ["ZoomingKLUCB", "CoS", "never send", "oracle per cell"]
    result["overall"][3] |= {"mean_reward": 0.97}
    assert [line.policy for line in lines.few(result)][1] == "LinUCB"


def test_every_line_has_its_name_beside_it() -> None:
    result = made_up()
    shown = lines.few(result)
    for drawing in (lines.over_time(result, "error", "errors", shown), lines.before_and_after(result, shown)):
        for line in shown:
            assert any(line.policy in text for text in texts(drawing))
    assert "the mix changes" in texts(lines.over_time(result, "error", "errors", shown))


def test_names_never_cover_each_other() -> None:
    assert spread([10, 11, 12, 50], 14, 0, 100) == [10, 24, 38, 52]
    assert spread([99, 98, 97], 10, 0, 100) == [100, 90, 80]
    assert spread([], 10, 0, 100) == []


def test_strips_say_models_and_peers_over_the_axis_in_its_own_units() -> None:
    (drawing,) = use.where(made_up(), made_up())
    words = texts(drawing)
    assert {*SITES, "0", "50", "100", "age"} <= set(words)
    assert any(word.startswith("\N{RIGHTWARDS ARROW} ") for word in words)
    assert re.search(r"<title>model_0: 90 of 130 items</title>", drawing.inline())


def test_a_name_of_a_model_needs_no_name_of_its_site() -> None:
    used = {"arms": ["town_tree", "town", "school"], "owners": ["town", "town", "school"]}
    assert [use.arm_name(used, "town", arm) for arm in range(3)] == ["tree", "town", "\N{RIGHTWARDS ARROW} school"]


def test_two_axes_are_a_map_for_each_site_and_more_show_the_two_most_spread() -> None:
    result = made_up(context=("age", "hour"), bins=4)
    maps = use.where(result, result)
    assert len(maps) == len(SITES)
    assert {"age", "hour", "north"} <= set(texts(maps[0]))
    three = made_up(sites=("a", "b"), context=("x", "y", "z"), bins=3)
    for used in three["use"].values():
        used["cells"] = [[cell[0], 0, cell[2]] for cell in used["cells"]]
    assert use.two_axes(three, three["use"]) == (0, 2)


def test_the_flow_has_every_share_that_is_large_enough_to_be_read() -> None:
    words = texts(flow.flow(made_up()))
    assert words.count("55 %") == 1
    assert {"keeps 55 %", "keeps 60 %", "keeps 65 %", "keeps 70 %"} <= set(words)


def test_phases_name_only_what_there_was() -> None:
    view = made_up()
    assert "to train a peer" in texts(phases.over_time(view))
    for each in view["phases"].values():
        each["train"] = [0.0] * len(each["train"])
    assert "to train a peer" not in texts(phases.over_time(view))


@pytest.mark.parametrize("names", [ODD, tuple(f"site {k}" for k in range(30)), ("solo",)])
@pytest.mark.parametrize("axes", [1, 2])
def test_odd_and_many_names_can_be_drawn(names: tuple[str, ...], axes: int) -> None:
    result = made_up(sites=names, policies=names, context=("x", "y")[:axes], bins=3)
    for drawing in all_figures(result):
        ElementTree.fromstring(drawing.alone())  # noqa: S314 - our own
        assert drawing.height < 2_000


def test_a_single_bin_and_a_single_point_can_be_drawn() -> None:
    result = made_up(sites=("solo",), policies=("ZoomingKLUCB",), bins=1)
    result["curves"] = {"ZoomingKLUCB": {"item": [5.0], "error": [0.0], "reward": [1.0]}}
    result["phases"]["solo"] = {"item": [5], "train": [0.0], "explore": [10.0], "exploit": [90.0]}
    assert all("nan" not in drawing.inline() for drawing in all_figures(result))


@pytest.mark.parametrize(
    ("ends", "numbers"),
    [
        ((0, 100), [0, 20, 40, 60, 80, 100]),
        ((0.64, 0.92), [0.7, 0.8, 0.9]),
        ((0, 0), [0]),
        ((-5, 5), [-4, -2, 0, 2, 4]),
    ],
)
def test_round_numbers_are_round(ends: tuple[float, float], numbers: list[float]) -> None:
    assert round_numbers(*ends) == pytest.approx(numbers)


def test_words_beside_an_axis_are_short() -> None:
    assert [short_text(value) for value in (20.0, 0.25, 1_000_000.0, "attack", 3, "x" * 40)] == [
        "20", "0.25", "1.0M", "attack", "3", "x" * 17 + "\N{HORIZONTAL ELLIPSIS}",
    ]  # fmt: skip


def test_one_thing_is_not_many() -> None:
    assert [counted(number, "seed") for number in (1, 5, 1_000)] == ["1 seed", "5 seeds", "1,000 seeds"]
