"""What the page says: in words, numbers and figures, and nothing that others could have smuggled in."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from cosend.pages.rendering import (
    MOST_VALUES,
    NOTHING,
    duration,
    percent,
    render_parts,
    render_why,
    shares_of,
    where_figure,
)
from cosend.pages.site_view import AxisView, Flow
from cosend.pages.winning_arms import Square
from cosend.runtime.gossip import Traffic
from tests.pages.snapshots import a_snapshot, arm, decision

EVIL = "<script>alert('x')</script>\""


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).replace("&lt;", "<").split())


def test_tiles_say_how_the_site_is_doing_and_what_always_local_earns() -> None:
    told = text(render_parts(a_snapshot())["tiles"])
    assert "reward 0.850 0.150 more than always using young (0.700)" in told
    assert "error 12.5%" in told
    assert "cost per item 0.025" in told
    assert "items 12,345 2.0 per second, 1 in flight, 2 unanswered" in told
    assert "labels learnt 11,000 since the start; 4.2k too late, 3 unknown" in told
    assert "labels pending 7 oldest 2.2 min, median 4.0 s" in told


def test_before_the_first_label_nothing_is_made_up() -> None:
    facts = {**a_snapshot().facts, "recent_error": None, "recent_gain": None, "recent_reward": None}
    pending = {"decisions": 0, "for_peers": 0, "oldest_s": None, "middle_s": None}
    empty = a_snapshot(facts=facts, local=None, pending=pending, curve=[], decisions=[], flows=[], traffic={})
    parts = render_parts(empty)
    assert f"reward {NOTHING} labels do not tell yet what a local model alone would earn" in text(parts["tiles"])
    assert "no label is missing" in parts["tiles"]
    assert "waiting for labels" in parts["reward"]
    assert "No item has arrived yet." in parts["decisions"]


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


def test_the_newest_decisions_are_above_those_whose_label_has_arrived() -> None:
    at = time.time() - 3 * 3600 - 60  # far from where the words change
    right, wrong = decision(8, at=at, labelled=True, truth="ill"), decision(5, at=at, labelled=True, truth="well")
    snapshot = a_snapshot(decisions=[decision(9, at=at), right], labelled=[right, wrong])
    rows = [text(row) for row in re.findall(r"<tr.*?</tr>", render_parts(snapshot)["decisions"], re.DOTALL)]
    assert rows[1:] == [
        "9 3 h ago young exploit ill pending Why?",
        "8 3 h ago young exploit ill ✓ ill Why?",
        "the newest with a label",
        "5 3 h ago young exploit ill ✕ well Why?",
    ]


def test_names_and_labels_from_outside_are_escaped() -> None:
    facts = {**a_snapshot().facts, "site": EVIL, "mode": "observe", "answered_by": EVIL}
    arms = [arm(EVIL, last_failure=EVIL), arm(EVIL + "2", kind="peer", refused=EVIL)]
    evil = decision(arm=EVIL, shown=EVIL, truth=EVIL, labelled=True)
    traffic = {EVIL: a_snapshot().traffic["north"]}
    snapshot = a_snapshot(facts=facts, arms=arms, decisions=[evil], traffic=traffic, why_not_ready=EVIL)
    square = Square(((0.0, 1.0),), 5, (3.0, 2.0), (3.0, 1.0))
    told = {**decided(), "arm": EVIL, "label": EVIL, "truth": EVIL, "labelled": True, "answered_by": EVIL}
    made = [
        *render_parts(snapshot).values(),
        where_figure([square], [AxisView(EVIL, [(0.5, EVIL)])], snapshot).inline(),
        render_why(told, arms, [(EVIL, EVIL)], None),
    ]
    assert not any("<script" in html or "alert('x')</script>\"" in html for html in made)


def decided(**facts: Any) -> dict[str, Any]:
    known = {"mean_reward": 0.9, "reward_count": 1_200, "pending_count": 3, "training_count": 0}
    given: dict[str, Any] = {
        "id": "17", "number": 17, "arm": "young", "phase": "exploit", "label": "ill", "cost": 0.05, "truth": None,
        "propensity": 1.0, "answered_by": None, "label_of_arm": "ill", "labelled": False, "pending": True,
        "score": None, "price": None,
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
    unsure = Square(((0.5, 1.0),), 10, (2.0, 0.0, 2.0), (1.0, 0.0, 2.0))
    drawn = where_figure([sure, unsure], [AxisView("age", [(0.0, "0"), (1.0, "100")])], a_snapshot()).inline()
    assert "young: 0.90 ± 0.03 (500 labels)\n→ south: 0.28 (300 labels)\nsure" in drawn
    assert "not sure yet" in drawn
    assert drawn.count("url(#unsure)") == 1


def test_a_map_names_the_commonest_values_of_a_category() -> None:
    found = [
        Square(((float(code), code + 1.0), (0.0, 1.0)), 100 - code, (9.0, 0, 0), (9.0, 0, 0)) for code in range(30)
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
    told = {"north": Traffic(1.0, 100, {"south": 20}, None, 0.85, 0.7)}
    snapshot = a_snapshot(facts=facts, measure="score", decisions=[scored], labelled=[scored], traffic=told)
    parts = {name: text(html) for name, html in render_parts(snapshot).items()}
    assert "mean score 0.875" in parts["tiles"]
    assert "scores learnt 11,000" in parts["tiles"]
    assert "scores pending 7" in parts["tiles"]
    assert "mean score" in parts["arms"]
    assert "score 0.700" in parts["decisions"]
    assert "Mean score over time" in parts["error_title"]
    assert "0.700" in parts["network"]
    for name in ("tiles", "arms", "decisions", "error", "error_title"):
        assert not re.search(r"error|label|accuracy", parts[name]), name
    assert "waiting for" in text(render_parts(a_snapshot(curve=[], measure="gain"))["error"])
    assert "score 0.700" in text(render_why(decided(score=0.7), [arm("young")], [], None))


def test_labels_and_scores_together_are_gains() -> None:
    facts = {**a_snapshot().facts, "recent_score": 0.5, "scores": 3}
    parts = {name: text(html) for name, html in render_parts(a_snapshot(facts=facts, measure="gain")).items()}
    assert "error 12.5%" in parts["tiles"]
    assert "mean score 0.500" in parts["tiles"]
    assert "labels and scores learnt" in parts["tiles"]
    assert "mean gain" in parts["arms"]


def test_costs_are_shown_in_money_too() -> None:
    facts = {**a_snapshot().facts, "unit": 0.02, "currency": "USD"}
    snapshot = a_snapshot(facts=facts, arms=[arm("dear", cost=0.05, price=0.001)])
    assert "0.05 0.001 USD" in text(render_parts(snapshot)["arms"])
    assert "0.0005 USD" in text(render_parts(snapshot)["tiles"])
    assert "0.05 (0.001 USD)" in text(render_why(decided(price=0.001), [arm("young")], [], None, "USD"))
