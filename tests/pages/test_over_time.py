"""What the charts of a time range show: means of labels, rates of items, times of requests, and what has happened."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import Budget
from cosend.pages.over_time import RANGES, event_of, recent_of, series_of, ticks_of
from cosend.pages.site_view import Local
from cosend.runtime.label_history import History, Mark, Times
from tests.node.sites import running, setup_of, until
from tests.pages.snapshots import a_history, a_snapshot, over_time, ranges

MINUS = "\N{MINUS SIGN}"
YOUNG = Local("young", 0.5)


def readings(html: str) -> Any:
    """Return what a pointer shows on a chart."""
    found = re.search(r'data-readings="([^"]+)"', html)
    assert found is not None
    return json.loads(unescape(found[1]))


def test_a_point_says_how_much_better_than_the_best_model_a_site_was_and_how_much_came() -> None:
    history, _ = a_history([0.9] * 60, "young")
    series = series_of(history, None, "young")
    assert series.span == (0.0, 60.0)
    last = series.points[-2]  # the newest has hardly begun
    assert last.advantage == pytest.approx(0.4)
    assert last.error == pytest.approx(0.1)
    assert last.local_error == 0.5
    assert (last.items, last.sent) == (10.0, 3.0)
    assert last.median_s == pytest.approx(0.004, rel=0.26)
    assert series.total == pytest.approx(0.4 * 600)
    assert series_of(history, None, None).total is None
    recent = recent_of(history)
    assert (recent.items, recent.sent, recent.explored, recent.per_s) == (600, 180, 60, 10.0)


def test_where_labels_are_rare_a_mean_reaches_back_further() -> None:
    history, clock = a_history([], "young")
    for n in range(40):
        history.learnt([float(n >= 20)], [0.0], {"young": [0.5]})
        clock.now += 20.0
    found = [point.error for point in series_of(history, 300.0, "young").points]
    assert found[0] is None  # the labels before the range are not kept so finely
    assert None not in found[-20:]
    assert found[-1] == 0.0
    clock.now += 90.0  # nothing more arrives
    assert series_of(history, 300.0, "young").points[-1].advantage == 0.5
    few, _ = a_history([1.0], "young", labels=9)
    assert {point.error for point in series_of(few, None, "young").points} <= {None}


@pytest.mark.parametrize("name", RANGES)
def test_a_range_begins_when_it_should_and_has_few_points_however_long_a_site_runs(name: str) -> None:
    history, clock = a_history([0.9] * 100, "young")
    for _ in range(400):
        clock.now += 977.0
        history.learnt([0.5] * 20, [0.0] * 20, {"young": [0.5] * 20})
    series = series_of(history, RANGES[name], "young")
    start_s = 0.0 if RANGES[name] is None else clock.now - (RANGES[name] or 0.0)
    assert series.span[0] == pytest.approx(start_s)
    assert series.span[1] == clock.now
    assert 1 < len(series.points) <= 123
    moments = [point.at_s for point in series.points]
    assert moments == sorted({*moments})
    assert start_s < moments[0]
    assert moments[-1] <= clock.now


@given(st.lists(st.floats(0.0, 3_000.0), min_size=1, max_size=40))
def test_every_stretch_of_the_last_minutes_holds_what_came_in_it(rests: list[float]) -> None:
    clock_now = 0.0
    history = History(lambda: clock_now)
    came = []
    for rest in rests:
        clock_now += rest
        came.append(int(clock_now))
        history.learnt([1.0], [0.0])
        for seconds in (300, 3_600, 21_600, 86_400):
            tier = history.last(seconds)
            oldest = tier.first * tier.each_s
            assert len(tier.stretches) <= (tier.stretches.maxlen or 0)
            assert sum(each.labels for each in tier.stretches) == sum(at >= oldest for at in came)
            assert all(at >= oldest for at in came if at > clock_now - seconds + tier.each_s)


@given(st.lists(st.floats(1e-6, 50.0), min_size=1, max_size=200), st.sampled_from([0.5, 0.99]))
def test_a_quantile_of_times_is_right_but_for_a_quarter(seconds: list[float], share: float) -> None:
    times = Times()
    for each in seconds:
        times.add(each)
    exact = sorted(seconds)[min(len(seconds) - 1, max(0, -int(-share * len(seconds) // 1) - 1))]
    found = times.quantile(share)
    assert found is not None
    assert max(exact, 50e-6) / 1.27 <= found <= max(exact, 50e-6) * 1.27
    assert Times().quantile(share) is None


def test_what_has_happened_is_said_in_words_and_bounded() -> None:
    said = [
        event_of(Mark(1.0, *each)).words for each in (("mode", "young"), ("mode",), ("cost", "south", "0.05", "0.9"))
    ]
    assert said == ["shadow mode: young answers", "mode: live", "cost of south: 0.05 → 0.9"]
    history, _ = a_history([0.9], "young")
    history.mark("rebuilt")
    for n in range(1_000):
        history.mark("fitted", "grown", after=f"{n}")
    series = series_of(history, None, None)
    assert "rebuilt from the event log" in [event.words for event in series.events]  # fits drive nothing out
    assert len(series.events) < 500


def test_ticks_are_round_times_before_now() -> None:
    assert [words for _, words in ticks_of((0.0, 300.0))] == [
        f"{MINUS}5 min",
        f"{MINUS}4 min",
        f"{MINUS}3 min",
        f"{MINUS}2 min",
        f"{MINUS}1 min",
        "now",
    ]
    assert [words for _, words in ticks_of((100.0, 147.0))] == [
        f"{MINUS}40 s",
        f"{MINUS}30 s",
        f"{MINUS}20 s",
        f"{MINUS}10 s",
        "now",
    ]
    assert [words for _, words in ticks_of((0.0, 86_400.0))] == [
        f"{MINUS}24 h",
        f"{MINUS}18 h",
        f"{MINUS}12 h",
        f"{MINUS}6 h",
        "now",
    ]
    assert next(words for _, words in ticks_of((0.0, 40 * 86_400.0))) == f"{MINUS}40 d"


def test_charts_have_readings_for_pointers_and_marks() -> None:
    parts = over_time(ranges("young"), a_snapshot(local=YOUNG), "all")
    main = readings(parts["main"])
    (name, said) = main["lines"][0]
    assert (name, said[-1]) == ("advantage", "+40")
    assert len(main["x"]) == len(main["at"]) == len(said)
    assert main["x"] == sorted(main["x"])
    assert main["at"][-1] == pytest.approx(1e9 + 60, abs=3)
    assert "young offline" in "".join(words for _, words in main["marks"])
    assert "cost of young: young → young" in parts["main"]
    assert "fitted" not in parts["latency"]  # only the first chart has what happens often
    assert parts["main_title"].count("+240") == 1
    assert {name for name, _ in readings(parts["error"])["lines"]} == {"this site", "young alone"}
    assert {name for name, _ in readings(parts["latency"])["lines"]} == {"p50", "p99"}
    assert "young offline" in parts["events"]


def test_without_labels_for_the_models_alone_the_reward_is_shown_and_before_all_nothing() -> None:
    view = ranges("young")
    parts = over_time(view, a_snapshot(local=None), "all")
    assert "Reward" in parts["main_title"]
    assert readings(parts["main"])["lines"][0][0] == "reward"
    nothing = over_time(ranges("young", []), a_snapshot(local=None), "5m")
    assert "Not enough data in this range." in nothing["main"]
    assert "No items in this range." in nothing["rate"]


async def test_a_site_notes_what_is_done_to_it(tmp_path: Path) -> None:
    async with running(setup_of(), tmp_path) as site:
        history = site.counts.history
        await until(lambda: site._chronicle._before is not None)
        await site.classify([{"age": 10.0}] * 7)
        await site.change_arm("young", cost=0.2, paused=True)
        await site.set_mode("observe", "old")
        await until(lambda: len(history.marks) == 3)
        await site.set_mode("apply")
        await site.change_arm("young", paused=False)
        await site.set_budget(Budget(total=25.0))
        await until(lambda: len(history.marks) == 6)
        await site.set_budget(Budget(total=50.0, calls={"young": {"per_hour": 100, "total": 1_000}}))
        await until(lambda: len(history.marks) == 7)
        assert {event_of(mark).words for mark in history.marks} == {
            "cost of young: 0 → 0.2",
            "young paused",
            "shadow mode: old answers",
            "mode: live",
            "young resumed",
            "budget: none → total 25",
            "budget: total 25 → total 50, calls.young.per_hour 100, cal…",
        }
        assert sum(each.items for each in history.stretches) == 7
        assert recent_of(history).median_s is not None
