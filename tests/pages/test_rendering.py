"""What the page says: in words, numbers and figures, and nothing that others could have smuggled in."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest

from cosend.algorithm.layout import EXPLORE
from cosend.pages.over_time import Recent
from cosend.pages.rendering import (
    MOST_VALUES,
    NOTHING,
    PALEST,
    duration,
    percent,
    render_decisions,
    render_parts,
    render_why,
    shares_of,
    strength,
    where_figure,
)
from cosend.pages.site_view import AxisView, Flow, Local, Reason
from cosend.pages.winning_arms import Square
from cosend.runtime.gossip import Traffic
from tests.pages.snapshots import DASH, a_snapshot, arm, decision, over_time, ranges

EVIL = "<script>alert('x')</script>\""


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).replace("&lt;", "<").split())


def test_tiles_say_how_the_site_is_doing_and_how_it_compares() -> None:
    tiles = render_parts(a_snapshot())["tiles"]
    told = text(tiles)
    assert "reward 0.850 +0.150 vs young" in told
    assert "error 12.5% young: 30.0%" in told
    assert "throughput 37/s 12,345 items, 2 failed" in told
    assert "latency, median 3.1 ms p99 21 ms" in told
    assert "sent to peers 54% of the last minute explored <1% of the last minute" in told
    assert "cost per 1,000 25 correct answers" in told
    assert "labels pending 7 oldest 2.2 min" in told
    assert "Since the start: 11,000 labels learnt, 4,200 too late, 3 unknown." in tiles
    assert "1 in flight, 2 failed" in tiles


def test_before_the_first_label_nothing_is_made_up() -> None:
    facts = {**a_snapshot().facts, "recent_error": None, "recent_gain": None, "recent_reward": None}
    pending = {"decisions": 0, "for_peers": 0, "oldest_s": None, "middle_s": None}
    empty = a_snapshot(facts=facts, local=None, pending=pending, recent=Recent(), flows=[], traffic={})
    parts = render_parts(empty)
    assert f"reward {NOTHING} no comparison" in text(parts["tiles"])
    assert f"throughput {NOTHING}" in text(parts["tiles"])
    assert "none is missing" in parts["tiles"]
    assert "No item has arrived yet." in render_decisions([], "labelled", empty)["decisions"]


def test_an_arm_that_the_site_learns_itself_says_what_it_is_and_from_how_much() -> None:
    learnt = {"kind": "grown", "labels": 900, "fitted": 819}
    told = text(render_parts(a_snapshot(arms=[arm("young"), arm("grown", learnt=learnt)]))["arms"])
    assert "grown trees learnt here, last fitted to 819 of 900 labels" in told
    assert "young local model" in told


@pytest.mark.parametrize(
    ("facts", "word", "look"),
    [
        ({}, "in use", "good"),
        ({"breaker": "open"}, "backing off", "bad"),
        ({"breaker": "half open"}, "retrying", "warn"),
        ({"present": False}, "offline", "bad"),
        ({"refused": "it reads other items"}, "refused", "bad"),
        ({"paused": True, "present": False}, "paused", "off"),
    ],
)
def test_the_state_of_an_arm_is_a_word_and_a_look(facts: dict[str, Any], word: str, look: str) -> None:
    table = render_parts(a_snapshot(arms=[arm("south", **facts)]))["arms"]
    assert f'data-state="{look}"' in table
    assert re.search(rf'<span class="state {look}">\S {word}</span>', table)


def test_a_decision_says_what_spoke_for_its_arm_how_far_it_led_and_what_became_of_it() -> None:
    at = time.time() - 3 * 3600 - 60  # far from where the words change
    why = Reason([("service", "http"), ("count", "3")], 0.0421, "south")
    rows = [
        decision(9, why, at=at),
        decision(8, at=at, labelled=True, truth="ill", kind=EXPLORE),
        decision(7, at=at, labelled=True, truth="well", arm="south"),
    ]
    told = render_decisions(rows, "labelled", a_snapshot())["decisions"]
    assert [text(row) for row in re.findall(r"<tr.*?</tr>", told, re.DOTALL)][1:] == [
        "3 h ago young service http count 3 +0.042 vs south ill pending Why?",
        f"3 h ago young explored {DASH} {DASH} ill &#10003; Why?",
        f"3 h ago south {DASH} {DASH} ill &#10005; it was well Why?",
    ]
    assert "No incorrect prediction" in render_decisions([], "wrong", a_snapshot())["decisions"]


def test_other_sites_are_linked_where_their_address_is_known() -> None:
    known = {"south": "http://127.0.0.1:8802"}
    parts = render_parts(a_snapshot(addresses=known))
    link = '<a href="http://127.0.0.1:8802/dashboard/" data-site>south</a>'
    assert all(link in parts[name] for name in ("head", "arms", "network"))
    assert not any("<a " in html for html in render_parts(a_snapshot()).values())


def test_names_and_labels_from_outside_are_escaped() -> None:
    facts = {**a_snapshot().facts, "site": EVIL, "mode": "observe", "answered_by": EVIL}
    arms = [arm(EVIL, last_failure=EVIL), arm(EVIL + "2", kind="peer", refused=EVIL)]
    reason = Reason([(EVIL, EVIL)], 0.5, EVIL)
    evil = decision(1, reason, arm=EVIL, shown=EVIL, truth=EVIL, labelled=True)
    traffic = {EVIL: a_snapshot().traffic["north"]}
    snapshot = a_snapshot(facts=facts, arms=arms, traffic=traffic, why_not_ready=EVIL, addresses={EVIL: EVIL})
    square = Square(((0.0, 1.0),), 50, (30.0, 20.0), (30.0, 10.0))
    told = {**decided(), "arm": EVIL, "label": EVIL, "truth": EVIL, "labelled": True, "answered_by": EVIL}
    made = [
        *render_parts(snapshot).values(),
        *render_decisions([evil], "labelled", snapshot).values(),
        *over_time(ranges(EVIL), replace(snapshot, local=Local(EVIL, 0.5)), "all").values(),
        where_figure([square], [AxisView(EVIL, [(0.5, EVIL)])], snapshot).inline(),
        render_why(told, arms, [(EVIL, EVIL)], None),
    ]
    assert not any("<script" in html or "alert('x')</script>\"" in html for html in made)


def decided(**facts: Any) -> dict[str, Any]:
    known = {"mean_reward": 0.9, "reward_count": 1_200, "pending_count": 3, "training_count": 0}
    given: dict[str, Any] = {
        "id": "17", "number": 17, "arm": "young", "phase": "exploit", "label": "ill", "cost": 0.05, "truth": None,
        "propensity": 1.0, "answered_by": None, "label_of_arm": "ill", "labelled": False, "pending": True,
        "score": None, "price": None, "cost_paid": None, "price_paid": None,
        "cell_now": {"arrivals": 2_000, "arms": {"young": known}},
    }  # fmt: skip
    return {**given, **facts}


def test_why_a_decision_was_made() -> None:
    told = text(render_why(decided(), [arm("old"), arm("young")], [("age", "25"), ("protocol", "tcp")], None))
    assert "young : By what was known here, this arm earns the most after its cost." in told
    assert "true label pending age 25 protocol tcp" in told
    assert told.index("young 0.900 1,200 3") < told.index(f"old {NOTHING} 0 0")
    mixed = text(render_why(decided(phase="explore"), [arm("young", cost=0.1)], [], {"young": 0.7}))
    assert "so it was tried" in mixed
    assert "forecast minus cost" in mixed
    assert "young 0.600 1,200 3" in mixed
    assert "split or replaced" in render_why(decided(cell_now=None), [], [], None)


def test_a_strip_has_the_winner_of_every_place_and_the_numbers_behind_it() -> None:
    sure = Square(((0.0, 0.5),), 900, (500.0, 0.0, 300.0), (450.0, 0.0, 100.0))
    unsure = Square(((0.5, 1.0),), 40, (20.0, 0.0, 20.0), (15.0, 0.0, 18.0))
    hardly = Square(((0.5, 0.6),), 9, (2.0, 0.0, 2.0), (1.0, 0.0, 2.0))
    views = [AxisView("age", [(0.0, "0"), (1.0, "100")])]
    drawn = where_figure([sure, unsure, hardly], views, a_snapshot()).inline()
    assert "900 items\nyoung: 0.90 ± 0.03 (500 labels)\n→ south: 0.28 (300 labels)\ncertain" in drawn
    assert re.search(r"south: 0.85 ± 0.14 \(20 labels\)\nyoung: 0.75 \(20 labels\)\n\d\d% certain", drawn)
    assert "9 items" not in drawn  # too little is known to say anything
    assert "url(#unsure)" not in drawn
    assert strength(0.5) == PALEST < strength(0.7) < strength(0.9) < strength(0.98) == 1.0


def test_a_map_names_the_commonest_values_of_a_category() -> None:
    found = [
        Square(((float(code), code + 1.0), (0.0, 1.0)), 100 - code, (19.0, 0, 0), (19.0, 0, 0)) for code in range(30)
    ]
    axes = [AxisView("service", [], [f"s{n:02}" for n in range(25)]), AxisView("age", [(0.0, "0")])]
    names = set(re.findall(r">(s\d\d)<", where_figure(found, axes, a_snapshot()).inline()))
    assert names == {f"s{n:02}" for n in range(MOST_VALUES)}


def test_shares_are_percentages_of_the_items_of_every_site() -> None:
    flows = [Flow("a", 3, {"b": 1, "unknown": 96}), Flow("b", 0, {})]
    assert shares_of(flows, ["a", "b", "c"]) == [[75.0, 25.0, 0.0], [0.0] * 3, [0.0] * 3]


def test_numbers_are_written_as_people_say_them() -> None:
    times = [0.04, 9.0, 90, 125, 7_200, 36_001, 1e6]
    said = ["0.0 s", "9.0 s", "90 s", "2.1 min", "2 h", "10 h", "12 days"]
    assert [duration(seconds).replace("\N{NO-BREAK SPACE}", " ") for seconds in times] == said
    assert [percent(share, 0) for share in (None, 0.0, 0.003, 0.3)] == [NOTHING, "0%", "<1%", "30%"]


def test_where_only_scores_come_nothing_is_called_an_error_or_a_label() -> None:
    facts = {**a_snapshot().facts, "recent_error": None, "recent_score": 0.875, "scores": 11_000}
    scored = decision(8, at=time.time(), score=0.7)
    view = ranges("young", [0.7] * 40)
    told = {"north": Traffic(1.0, 100, {"south": 20}, None, 0.85, 0.7)}
    snapshot = a_snapshot(facts=facts, measure="score", traffic=told, local=None)
    drawn = {**over_time(view, snapshot, "all"), **render_decisions([scored], "labelled", snapshot)}
    parts = {name: text(html) for name, html in {**render_parts(snapshot), **drawn}.items()}
    assert "mean score 0.875" in parts["tiles"]
    assert "scores pending 7" in parts["tiles"]
    assert "mean score" in parts["arms"]
    assert "score 0.700" in parts["decisions"]
    assert "Mean score" in parts["error_title"]
    assert "0.700" in parts["network"]
    for name in ("tiles", "arms", "decisions", "error", "error_title"):
        assert not re.search(r"error|label|accuracy", parts[name]), name
    stars = a_snapshot(facts={**facts, "recent_score": 4.5, "score_range": (1.0, 5.0)}, arms=[arm("a", mean_score=4.6)])
    drawn = render_parts(replace(stars, measure="score"))
    assert "mean score 4.500" in text(drawn["tiles"])
    assert "from 1 to 5." in drawn["tiles"]
    assert "as a fraction of the range of scores, 1 to 5" in drawn["tiles"]
    assert "4.600" in text(drawn["arms"])
    curves = over_time(ranges("a", [0.5] * 40), replace(stars, measure="score", local=None), "all")
    assert "3.000" in curves["error"]
    assert "score 0.700" in text(render_why(decided(score=0.7), [arm("young")], [], None))


def test_labels_and_scores_together_are_gains() -> None:
    facts = {**a_snapshot().facts, "recent_score": 0.5, "scores": 3}
    parts = {name: text(html) for name, html in render_parts(a_snapshot(facts=facts, measure="gain")).items()}
    assert "error 12.5%" in parts["tiles"]
    assert "mean score 0.500" in parts["tiles"]
    assert "labels pending" in parts["tiles"]
    assert "mean gain" in parts["arms"]


def test_costs_are_shown_in_money_too() -> None:
    facts = {**a_snapshot().facts, "unit": 0.02, "currency": "USD"}
    snapshot = a_snapshot(facts=facts, arms=[arm("dear", cost=0.05, price=0.001)])
    assert "0.05 0.001 USD" in text(render_parts(snapshot)["arms"])
    assert "cost per 1,000 0.5 USD 25 correct answers" in text(render_parts(snapshot)["tiles"])
    told = text(render_why(decided(price=0.001), [arm("young")], [], None, "USD"))
    assert "expected cost 0.05 (0.001 USD)" in told
    assert "real cost" not in told
    paid = decided(price=0.001, cost_paid=0.1, price_paid=0.002)
    assert "expected cost 0.05 (0.001 USD) real cost 0.1 (0.002 USD)" in text(
        render_why(paid, [arm("young")], [], None, "USD")
    )
    assert "real cost 0.1 propensity" in text(render_why(decided(cost_paid=0.1), [arm("young")], [], None))


def test_what_arms_have_spent_has_a_column_once_there_is_something() -> None:
    facts = {**a_snapshot().facts, "unit": 0.02, "currency": "USD"}
    arms = [arm("dear", cost=0.05, price=0.001, spent=1.2345), arm("free")]
    table = render_parts(a_snapshot(facts=facts, arms=arms))["arms"]
    assert "cost spent per item" in text(table)
    assert "1.23 USD" in text(table)
    assert "0 USD" in text(table)
    assert "spent" not in text(render_parts(a_snapshot(facts=facts, arms=[arm("free")]))["arms"])


def test_what_was_never_used_has_no_time_and_small_amounts_no_exponent() -> None:
    spent = {
        "limit": "per_item",
        "arm": "",
        "unit": "EUR",
        "amount": 6e-5,
        "allowed": 0.01,
        "spent": 0.02,
        "factor": 4.72,
    }
    facts = {**a_snapshot().facts, "unit": 0.1, "currency": "EUR", "budget": [spent]}
    arms = [arm("young", seconds_per_item=0.0, price=6e-5, cost=6e-5)]
    parts = render_parts(a_snapshot(facts=facts, arms=arms))
    assert "0.00006 EUR" in text(parts["arms"])
    assert f'<td data-is="per item">{NOTHING}</td>' in parts["arms"]
    assert "\N{MICRO SIGN}s" not in parts["arms"]
    assert "0.00006 EUR per item; costs are weighted 4.72 times to keep the budget" in parts["tiles"]
    assert "e-0" not in "".join(parts.values())
    total = {**spent, "limit": "total", "amount": 25.0, "allowed": 25.0, "spent": 5.0, "factor": 1.0}
    tiles = render_parts(a_snapshot(facts={**facts, "budget": [total]}))["tiles"]
    assert "spent of the budget: 5 EUR of the 25 EUR in total; then only free arms answer" in tiles
    assert "budget total 20%" in text(tiles)


def test_a_map_writes_the_whole_name_of_its_axes() -> None:
    long = "prompt: letters of other scripts"
    axes = [AxisView("age", []), AxisView(long, [])]
    square = Square(((0.0, 1.0), (0.0, 1.0)), 100, (60.0, 20.0, 20.0), (50.0, 5.0, 5.0))
    assert f">{long}</text>" in where_figure([square], axes, a_snapshot()).inline()
