"""What stands on the page: in words, numbers and figures, and nothing that others could have smuggled in."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cosend import Context
from cosend.dashboard import figures, parts
from cosend.dashboard.figures import Scale, arms_of, duration, thinned
from cosend.dashboard.summary import Means
from cosend.dashboard.where import Square
from cosend.dashboard.why import why
from tests.dashboard.summaries import a_summary, arm, past

EVIL = "<script>alert('x')</script>\""


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_tiles_say_how_the_site_is_doing_beside_always_local() -> None:
    told = text(parts.tiles(a_summary(), 41.6))
    assert "reward 0.850 0.150 more than always using young (0.700)" in told
    assert "error 0.125" in told
    assert "cost per item 0.025" in told
    assert "items 12,345 42 a second, 1 under way, 2 unanswered" in told
    assert "labels learnt 11,000 since the start; 4.2k too late, 3 unknown" in told
    assert "labels awaited 7 oldest 2.2 min, median 4.0 s" in told


def test_before_there_are_labels_nothing_is_made_up() -> None:
    facts = {**a_summary().facts, "recent_error": None, "recent_reward": None}
    waiting = {"decisions": 0, "for_peers": 0, "oldest_s": None, "middle_s": None}
    empty = a_summary(facts=facts, local=None, waiting=waiting, curve=[], decisions=[], flows=[], told={})
    told = text(parts.tiles(empty, None))
    assert f"reward {parts.NOTHING} labels do not tell what a local model alone would earn" in told
    assert "no label is missing" in told
    assert "waiting for labels" in parts.drawn(empty)["reward"]
    assert "No item has come yet." in parts.parts(empty, None)["decisions"]


@pytest.mark.parametrize(
    ("facts", "word", "look"),
    [
        ({}, "in use", "good"),
        ({"breaker": "open"}, "left out", "bad"),
        ({"breaker": "half open"}, "trying again", "warn"),
        ({"present": False}, "gone", "bad"),
        ({"refused": "it reads other items"}, "refused", "bad"),
        ({"paused": True, "present": False}, "paused", "off"),
    ],
)
def test_the_state_of_an_arm_is_a_word_and_a_look(facts: dict[str, Any], word: str, look: str) -> None:
    state = parts.state_of(arm("south", **facts))
    assert (state.word, state.look) == (word, look)
    row = parts.arms_table(a_summary(arms=[arm("south", **facts)]))
    assert f'data-arm="south" data-state="{look}"' in row


def test_the_newest_decisions_stand_above_those_whose_label_has_come() -> None:
    right, wrong = past(labelled=True, truth="ill"), past(labelled=True, truth="well")
    told = parts.decisions_table([(9, past()), (8, right)], [(8, right), (5, wrong)], now=1_002.5)
    rows = [text(row) for row in re.findall(r"<tr.*?</tr>", told)]
    assert rows[1:] == [
        "9 2.5 s ago young exploit ill awaited Why?",
        "8 2.5 s ago young exploit ill ✓ ill Why?",
        "the newest with a label",
        "5 2.5 s ago young exploit ill ✕ well Why?",
    ]


def test_whatever_comes_from_outside_is_escaped() -> None:
    facts = {**a_summary().facts, "site": EVIL, "mode": "observe", "answered_by": EVIL}
    arms = [arm(EVIL, last_failure=EVIL), arm(EVIL + "2", kind="peer", refused=EVIL)]
    evil = past(arm=EVIL, shown=EVIL, truth=EVIL, labelled=True)
    told = {EVIL: a_summary().told["north"]}
    summary = a_summary(facts=facts, arms=arms, decisions=[(1, evil)], told=told, why_not_ready=EVIL)
    square = Square(((0.0, 1.0),), 5, (3.0, 2.0), (3.0, 1.0))
    drawn = figures.where([square], [Scale(EVIL, [(0.5, EVIL)])], arms_of(summary)).inline()
    decision = {**decided(), "arm": EVIL, "label": EVIL, "truth": EVIL, "context": [EVIL], "answered_by": EVIL}
    made = [
        *parts.parts(summary, 1.0).values(),
        *parts.drawn(summary).values(),
        drawn,
        why(decision, arms, [Context(EVIL)], None),
    ]
    assert not any("<script" in html or "alert('x')</script>\"" in html for html in made)


def decided(**facts: Any) -> dict[str, Any]:
    known = {"mean_reward": 0.9, "reward_count": 1_200, "waiting_count": 3, "training_count": 0}
    cell = {"arrivals": 2_000, "arms": {"young": known}}
    given: dict[str, Any] = {
        "id": "17",
        "arm": "young",
        "phase": "exploit",
        "label": "ill",
        "cost": 0.05,
        "truth": None,
    }
    given |= {"propensity": 1.0, "answered_by": None, "label_of_arm": "ill", "labelled": False, "waiting": True}
    return {**given, "context": [0.25, "tcp"], "cell_now": cell, **facts}


def test_why_a_decision_was_made() -> None:
    told = text(
        why(decided(), [arm("old"), arm("young")], [Context("age", range=(0, 100)), Context.category("protocol")], None)
    )
    assert "young earns the most after its cost." in told
    assert "true label not known yet age 25 protocol tcp" in told
    assert told.index("young 0.900 1,200 3") < told.index(f"old {parts.NOTHING} 0 0")
    mixed = text(why(decided(phase="explore"), [arm("young", cost=0.1)], [], {"young": 0.7}))
    assert "so it was tried" in mixed
    assert "forecast net of cost" in mixed
    assert "young 0.600 1,200 3" in mixed
    assert "split or replaced" in why(decided(cell_now=None), [], [], None)


def test_a_colour_is_a_site_and_its_models_are_shades_of_it() -> None:
    young, old, south = arms_of(a_summary())
    assert young.ink == old.ink != south.ink
    assert young.opacity > old.opacity
    assert (young.words, south.words) == ("young", "→ south")


def test_a_strip_has_the_winner_of_every_place_and_the_numbers_behind_it() -> None:
    sure = Square(((0.0, 0.5),), 900, (500.0, 0.0, 300.0), (450.0, 0.0, 100.0))
    unsure = Square(((0.5, 1.0),), 10, (2.0, 0.0, 2.0), (1.0, 0.0, 2.0))
    drawn = figures.where([sure, unsure], [Scale("age", [(0.0, "0"), (1.0, "100")])], arms_of(a_summary())).inline()
    assert "young: 0.90 ± 0.03 (500 labels)\n→ south: 0.28 (300 labels)\nsure" in drawn
    assert "not sure yet" in drawn
    assert drawn.count(figures.HATCH) == 1


def test_a_map_names_the_commonest_values_of_a_category() -> None:
    found = [
        Square(((float(code), code + 1.0), (0.0, 1.0)), 100 - code, (9.0, 0, 0), (9.0, 0, 0)) for code in range(30)
    ]
    scales = [Scale("service", [], [f"s{n:02}" for n in range(25)]), Scale("age", [(0.0, "0")])]
    drawn = figures.where(found, scales, arms_of(a_summary())).inline()
    names = set(re.findall(r">(s\d\d)<", drawn))
    assert names == {f"s{n:02}" for n in range(figures.MOST_VALUES)}


def test_curves_have_few_points_and_keep_their_mean() -> None:
    curve = [Means(float(n), n / 1_000, 0.0, 0.0, None) for n in range(960)]
    thin = thinned(curve)
    assert len(thin) == figures.MOST_POINTS
    assert sum(each.reward for each in thin) / len(thin) == pytest.approx(0.4795)
    assert thin[-1].at_s == 959.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.0, "9.0 s"),
        (90, "90 s"),
        (125, "2.1 min"),
        (7_200, "2 h"),
        (36_001, "10 h"),
        (1e6, "12 days"),
    ],
)
def test_times_are_said_as_people_do(seconds: float, words: str) -> None:
    assert duration(seconds) == words
