"""Charts show the values they are given, and numbers as text are short."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from cosend.charts.figures import (
    Drawing,
    Line,
    Look,
    Patch,
    Scale,
    Strip,
    bar_axis,
    bar_chart,
    flow_chart,
    line_chart,
    looks_apart,
    looks_of_arms,
    map_chart,
    spread,
    strip_chart,
)
from cosend.charts.time_chart import Curve, Event, clipped, time_chart
from cosend.text import SmallTable, counted, round_numbers, short_text


def texts(drawing: Drawing) -> list[str]:
    root = ElementTree.fromstring(drawing.standalone())  # noqa: S314 - our own
    return [each.text or "" for each in root.iter() if each.tag.endswith("text")]


AGE = Scale("age", [(0.0, "0"), (1.0, "100")])


def test_no_name_of_a_line_covers_another() -> None:
    lines = [Line(name, "red", points=[(0, 1.0), (1, 1.0)]) for name in ("first", "second")]
    drawn = line_chart("rewards", lines, AGE, (0, 1), mark=(0.5, "a change"))
    assert {"first", "second", "0", "100", "age", "a change"} <= set(texts(drawn))
    assert spread([10, 11, 12, 50], 14, 0, 100) == [10, 24, 38, 52]
    assert spread([99, 98, 97], 10, 0, 100) == [100, 90, 80]


def test_names_above_lines_are_in_their_order_and_within_the_width() -> None:
    lines = [Line(name, "red", points=[(0, y), (1, y)]) for name, y in (("low", 0.1), ("high", 0.9), ("a third", 0.5))]
    for width in (360.0, 720.0):
        drawn = line_chart("rewards", lines, AGE, (0, 1), title="reward", width=width, names_above=True)
        assert [text for text in texts(drawn) if text in ("low", "high", "a third")] == ["low", "high", "a third"]
        assert drawn.width == width
        assert max(float(x) for x in re.findall(r'x="([\d.]+)"', drawn.inline())) <= width


def test_strips_may_have_an_axis_upwards_and_a_legend_each() -> None:
    strips = [Strip(name, [], legend=[(f"arm of {name}", Look("red"))]) for name in ("north", "south")]
    up = Scale("share", [(0.0, "0%"), (1.0, "100%")])
    shown = texts(strip_chart("where", strips, AGE, up=up, width=720.0))
    assert [shown.count(text) for text in ("0%", "100%", "share", "arm of north", "arm of south")] == [2, 2, 2, 1, 1]


def test_bars_end_at_their_values_on_an_axis_with_numbers_at_both_ends() -> None:
    assert 'width="140.00"' in bar_chart(0.75, 0.01, (0.5, 1.0), "red").inline()
    assert "<rect" not in bar_chart(0.4, 0.01, (0.5, 1.0), "red").inline()  # an arrow to the left
    names = [(0.5, "one model"), (1.0, "all")]
    assert texts(bar_axis((0.5, 1.0), names)) == ["0.5", "0.6", "0.8", "1", "one model", "all"]


def test_a_colour_is_a_site_and_its_models_are_shades_of_it() -> None:
    young, old, south = looks_of_arms(["north", "north", "south"], ["north", "south"])
    assert young.ink == old.ink != south.ink
    assert young.opacity > old.opacity


def test_a_patch_has_its_tip_its_name_where_there_is_room_and_hatching_unless_it_is_sure() -> None:
    patches = [
        Patch((0.0, 0.5), (0.0, 1.0), Look("red"), "the <tip>", words="a wide one"),
        Patch((0.5, 0.51), (0.0, 1.0), Look("blue"), is_sure=False, words="a narrow one"),
    ]
    drawn = strip_chart("where", [Strip("north", patches, "a note")], AGE, [("red arm", Look("red"))])
    assert {"north", "a note", "a wide one", "red arm", "age"} <= set(texts(drawn))
    assert "a narrow one" not in drawn.inline()
    assert drawn.inline().count("url(#unsure)") == 1
    assert "<title>the &lt;tip&gt;</title>" in drawn.inline()
    assert {"pulse", "age"} <= set(texts(map_chart("where", "", patches, (AGE, Scale("pulse", [])), ())))


def test_a_flow_has_every_share_that_is_large_enough_to_be_read() -> None:
    shown = texts(flow_chart(["north", "south"], [[55.0, 45.0], [2.0, 98.0]], {"south": "offline"}))
    assert {"55%", "45%", "98%", "keeps 55%", "offline"} <= set(shown)
    assert "2%" not in shown


def test_round_numbers_are_round() -> None:
    assert round_numbers(0, 100) == [0, 20, 40, 60, 80, 100]
    assert round_numbers(0.64, 0.92) == pytest.approx([0.7, 0.8, 0.9])
    assert (round_numbers(0, 0), round_numbers(-5, 5)) == ([0], [-4, -2, 0, 2, 4])


def test_values_and_counts_as_text() -> None:
    assert [short_text(value) for value in (20.0, 0.25, 1_000_000.0, "attack", 3, "x" * 40)] == [
        "20", "0.25", "1.0M", "attack", "3", "x" * 17 + "\N{HORIZONTAL ELLIPSIS}",
    ]  # fmt: skip
    assert [counted(number, "seed") for number in (1, 5, 1_000)] == ["1 seed", "5 seeds", "1,000 seeds"]


def test_a_small_table_has_its_first_column_on_the_left() -> None:
    table = SmallTable("arms", ("name", "used"), [("young", "7"), ("<old>", "12")])
    assert str(table) == "arms\nname   used\nyoung     7\n<old>    12"
    assert "<td style='text-align:left'>&lt;old&gt;</td><td style='text-align:right'>12</td>" in table.html()


def test_an_axis_over_time_leaves_out_a_few_extremes_and_holds_zero_if_told() -> None:
    low, high = clipped([0.0] * 48 + [1.0, 100.0], 0.0, zero=True)
    assert low == 0.0
    assert high == pytest.approx(1.08)
    assert clipped([5.0, 6.0], 0.0, zero=False)[0] < 5.0
    assert clipped([5.0, 6.0], 0.0, zero=True)[0] == 0.0
    assert clipped([1.0, 1.0], 2.0, zero=False) == (1.0, 3.0)


def test_marks_that_are_close_are_one_and_are_named_where_there_is_room() -> None:
    curve = Curve("reward", [(0.0, 1.0), (100.0, 2.0)], ["one", "two"])
    events = [Event(50.0, "<south> offline", "bad"), Event(50.5, "south back", "good"), Event(90.0, "fitted", "minor")]
    drawn, readings = time_chart(
        "rewards", [curve], (0.0, 100.0), [(0.0, "start")], str, events=events, is_labelled=True
    )
    assert {"start", "<south> offline +1"} <= set(texts(drawn))
    assert "fitted" not in texts(drawn)
    assert drawn.inline().count('class="mark minor"') == 1
    assert [words for _, words in readings.marks] == ["<south> offline\nsouth back", "fitted"]
    assert drawn.inline().count('class="mark bad"') == 1
    assert "<title>&lt;south&gt; offline\nsouth back</title>" in drawn.inline()
    assert readings.lines == [("reward", ["one", "two"])]
    assert readings.x[0] < readings.x[1]
    assert readings.plain(lambda at: at + 1)["at"] == [1.0, 101.0]


def test_models_of_a_site_have_colours_of_their_own_until_there_are_none_left() -> None:
    sites = ["east", "north", "south"]
    owners = ["north"] * 6 + ["south"]
    looks = looks_apart(owners, sites, "north")
    assert len({look.ink for look in looks[:5]}) == 5
    assert looks[6].ink not in {look.ink for look in looks[:5]}
    assert looks[5].ink == looks[0].ink
    assert looks[5].opacity < looks[0].opacity == 1.0
    assert looks_apart(["north"], sites, "north") == looks[:1]
