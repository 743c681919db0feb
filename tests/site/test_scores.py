"""Scores in place of labels, rewards that are not only right or wrong, and prices, in a `Site`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from cosend import Learnt, Money, Reward, Site, ZoomingKLUCB, axes, fold, verify
from cosend.engine import learnt_arms
from cosend.engine.events import Event, Labelled, Taught
from cosend.engine.needs import Forward
from cosend.engine.scoring import as_score, gains_by_arm
from cosend.errors import ArmError, NetworkError, RewardError, ScoreError, SettingError, SettledDecision
from tests.engine.world import whole
from tests.site.test_failing_arms import Line

MODELS: dict[str, Callable[[Any], Any]] = {"small": lambda _: "well", "large": lambda _: "ill", "dear": lambda _: "odd"}
CONTEXT = [axes.Feature("x", range=(0, 1)), axes.PreviousLabel("well", "ill", "odd")]


def a_site(log: list[Event] | None = None, **options: Any) -> Site:
    given: dict[str, Any] = {"classifiers": MODELS, "costs": {"dear": 0.3}, "context": CONTEXT, **options}
    return Site("lab", journal=None if log is None else log.append, **given)


def knowledge(draw: random.Random, arm: str) -> tuple[Any, Any]:
    """Return a label and a score, one of which is None."""
    kind = draw.randrange(3)
    if kind == 0:
        return draw.choice(["well", "ill"]), None
    return None, draw.random() if kind == 1 else {arm: draw.random(), "small": draw.random(), "dear": draw.random()}


def test_many_are_learnt_as_one_by_one_and_the_log_is_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learnt_arms, "FIRST_FIT", 9)
    logs: list[list[Event]] = [[], []]
    one, many = (a_site(log) for log in logs)
    draw = random.Random(5)
    for _ in range(12):
        items = [{"x": draw.random()} for _ in range(5)]
        made = many.classify_many(items)
        assert made == [one.classify(item) for item in items]
        known = [knowledge(draw, each.arm) for each in made]
        for each, (truth, score) in zip(made, known, strict=True):
            one.learn(each, truth, score=score)
        assert many.learn_many(made, [truth for truth, _ in known], scores=[score for _, score in known]) == 0
        assert whole(one.engine.state) == whole(many.engine.state)
    for site, log in zip((one, many), logs, strict=True):
        assert whole(fold(log)) == whole(site.engine.state)
        assert verify(log) == []
    again = a_site()
    again.restore(one.state())()
    assert whole(again.engine.state) == whole(one.engine.state)


def test_a_score_moves_no_previous_label_and_teaches_no_learnt_arm() -> None:
    log: list[Event] = []
    site = a_site(log)
    for n in range(6):
        site.learn(site.classify({"x": 0.5}), score=n / 10)
    state = site.engine.state
    assert (state.encoder.newest_label, state.learnt.labels, state.learnt.count) == (None, [], 0)
    assert [event.truths for event in log if isinstance(event, Labelled)] == [(None,)] * 6
    site.learn(site.classify({"x": 0.5}), "ill")
    assert (state.encoder.newest_label, state.learnt.labels[0], state.learnt.count) == ("ill", "ill", 1)


def test_a_decision_without_an_answer_has_nothing_to_score() -> None:
    site = Site("lab", classifiers={"mine": Learnt.STACK}, learnt=False, context=CONTEXT)
    decision = site.classify({"x": 0.5})
    assert decision.label is None
    site.learn(decision, score=0.5)
    assert (site.pending(), site.summary().arms[0].labels) == ({}, 0)


def test_missing_scores_are_counted_and_a_label_and_a_score_are_one_too_many() -> None:
    site = a_site()
    made = site.classify_many([{"x": 0.5}] * 4)
    assert site.learn_many(made, scores=[None, math.nan, {}, {made[3].arm: math.nan}]) == 4
    assert site.learn_many(made, ["ill", None, None, None], [None, 0.2, None, None], scores=[None, 0.5, None, 1]) == 1
    assert [*site.pending()] == [made[2].id]
    with pytest.raises(SettingError, match="the label 'ill' and a score"):
        site.learn(made[2], "ill", score=0.5)
    with pytest.raises(SettingError, match="truths must be a list of labels, or scores"):
        site.learn_many(made)
    with pytest.raises(SettingError, match="scores must be as many as decisions"):
        site.learn_many(made[:2], scores=[1])
    with pytest.raises(SettledDecision):
        site.learn(made[0], score=0.5)


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (1.5, "must be a number from 0 to 1, got 1.5"),
        (True, "must be a number from 0 to 1, got True"),
        ("high", "must be a number from 0 to 1"),
        (math.inf, "must be a number from 0 to 1"),
        ({"small": 0.5, "nobody": 0.5}, "'nobody', which is no arm: the arms are 'small', 'large', 'dear'"),
        ({"dear": 0.5}, "needs a score for 'small', the arm that was used; it has 'dear'"),
        ({"small": 2}, "the score of 'small' for decision 1 of site 'lab'"),
    ],
)
def test_what_is_wrong_with_a_score_is_said_and_nothing_changes(score: Any, words: str) -> None:
    costs = {"large": 0.9, "dear": 0.9}
    site = Site("lab", classifiers=MODELS, costs=costs, context=CONTEXT[:1], policy=ZoomingKLUCB(), learnt=False)
    decision = site.classify({"x": 0.5})
    assert decision.arm == "small"
    before = whole(site.engine.state)
    with pytest.raises(ScoreError, match=words.replace("(", r"\(")):
        site.learn(decision, score=score)
    assert whole(site.engine.state) == before


def test_a_bad_cost_beside_a_score_changes_nothing() -> None:
    log: list[Event] = []
    site = a_site(log, learnt=False)
    made = site.classify_many([{"x": 0.5}] * 2)
    before = whole(site.engine.state)
    with pytest.raises(RewardError, match="cost"):
        site.learn_many(made, costs=[0.1, 7.0], scores=[0.5, 0.5])
    assert whole(site.engine.state) == before == whole(fold(log))


def test_where_only_the_used_arm_is_scored_others_are_not() -> None:
    site = a_site(score_local="used")
    decision = site.classify({"x": 0.5})
    site.learn(decision, score={"small": 0.5, "large": 0.6, "dear": 0.7})
    assert sum(each.scored for each in site.summary().arms) == 1


def test_words_are_those_of_scores_where_nothing_else_has_come() -> None:
    site = a_site(learnt=False)
    assert "0 labels pending" in str(site.summary())
    first, second = site.classify_many([{"x": 0.5}] * 2)
    site.learn(first, score=0.5)
    said = str(site.summary())
    assert "1 score pending" in said
    assert "label" not in said
    site.learn(second, "ill")
    assert "labels" in str(site.summary())
    counts = site.engine.counts
    assert (counts.score, counts.only_scores, counts.scored_by_hand) == (0.5, False, 1)


# Peers


def test_a_peer_is_told_the_score_and_its_log_is_its_state() -> None:
    logs: list[list[Event]] = [[], []]
    lab = Site("lab", classifiers={"home": lambda _: "well"}, context=CONTEXT[0], journal=logs[0].append, learnt=False)
    hq = Site(
        "hq", classifiers={"a": MODELS["small"], "b": MODELS["large"]}, context=CONTEXT[0], journal=logs[1].append
    )
    line = Line(hq)
    lab.add_peer("hq", line)
    sent = 0
    for n in range(30):
        if n == 10:
            line.error = NetworkError("down")
        if n == 20:
            line.error = None
        decision = lab.classify({"x": n / 30})
        sent += decision.arm == "hq"
        lab.learn(decision, score=0.2 if decision.label == "well" else 0.9)
    for _ in range(70):  # what could not be told is told later
        lab.learn(lab.classify({"x": 0.5}), score=0.5)
    assert (dict(lab.engine.state.outbox), hq.pending()) == ({}, {})
    taught = [event for event in logs[1] if isinstance(event, Taught)]
    assert {event.truths for event in taught} == {(None,)}
    assert sent >= 10
    for site, log in zip((lab, hq), logs, strict=True):
        assert whole(fold(log)) == whole(site.engine.state)
        assert verify(log) == []


def test_a_peer_that_tells_of_no_score_is_not_believed() -> None:
    lab, hq = (Site(name, classifiers={name[0]: lambda _: "well"}, context=CONTEXT[0]) for name in ("lab", "hq"))
    line = Line(hq)
    lab.add_peer("hq", line)
    line.error = None
    made = [lab.classify({"x": 0.5}) for _ in range(4)]
    requests = [each.id for each in made if each.arm == "hq"]
    assert requests
    assert len(hq.pending()) == len(requests)
    with pytest.raises(RewardError, match="score"):
        hq.teach(Forward("hq", "lab", requests[0], None, False, 7.0))
    assert len(hq.pending()) == len(requests) - 1  # it is no longer waited for


# What answers are worth


def test_confusions_cost_what_the_table_says() -> None:
    reward = Reward(confusions={("ill", "well"): 1.0, ("well", "ill"): 0.25})
    site = a_site(reward=reward, classifiers={"large": MODELS["large"]}, costs={}, learnt=False)
    for truth in ("ill", "well", "odd"):
        site.learn(site.classify({"x": 0.5}), truth)
    (arm,) = site.summary().arms
    assert arm.mean_reward == pytest.approx((1 + 0.75 + 0) / 3)
    assert site.engine.counts.error == pytest.approx(2 / 3)  # an error is an error, whatever it costs


def test_units_are_mapped_and_a_function_may_say_what_labels_gain() -> None:
    reward = Reward(range=(-1, 3), function=lambda label, truth: 0.5)
    site = a_site(reward=reward, classifiers={"large": MODELS["large"]}, costs={}, learnt=False)
    site.learn(site.classify({"x": 0.5}), score=2)
    site.learn(site.classify({"x": 0.5}), "ill")
    assert site.summary().arms[0].mean_reward == pytest.approx((0.75 + 0.5) / 2)
    with pytest.raises(ScoreError, match=r"from -1 to 3, got 3\.5"):
        site.learn(site.classify({"x": 0.5}), score=3.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"confusions": {("a", "b"): 0.5}, "function": max}, "None where confusions are given"),
        ({"function": "max"}, "function must be a function"),
        ({"confusions": [("a", "b")]}, "confusions must be a mapping"),
        ({"confusions": {"ab": 0.5}}, "pairs of two different labels"),
        ({"confusions": {("a", "a"): 0.5}}, "pairs of two different labels"),
        ({"confusions": {("a", "b"): 1.5}}, r"the cost of the confusion \('a', 'b'\) must be a number in"),
        ({"range": (1, 1)}, "range must be the lowest and the highest score"),
        ({"range": 5}, "range must be the lowest"),
    ],
)
def test_a_reward_is_checked_when_it_is_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Reward(**options)


def test_a_reward_without_settings_is_right_or_wrong() -> None:
    reward = Reward()
    assert [reward("a", "a"), reward("a", "b")] == [1.0, 0.0]
    assert Reward(function=lambda label, truth: 0.25)("a", "a") == 0.25


# Money


def test_prices_are_costs_and_both_are_shown() -> None:
    site = a_site(costs={"small": 0.5}, prices={"dear": 0.004}, money=Money(0.02, "USD"), learnt=False)
    assert {each.name: (each.cost, each.price) for each in site.summary().arms} == {
        "small": (0.5, 0.01),
        "large": (0.0, 0.0),
        "dear": (0.2, 0.004),
    }
    assert "price USD" in str(site.summary())
    site.set_cost("dear", price=0.02)
    site.add_classifier("new", MODELS["small"], price=0.001)
    site.add_peer("far", Line(a_site()), price=0.002)
    assert [each.cost for each in site.summary().arms] == [0.5, 0.0, 1.0, 0.05, 0.1]
    assert Money(2).text(0.25) == "0.5"


def test_what_is_wrong_with_a_price_is_said() -> None:
    money = Money(0.02, "USD")
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"prices": {"dear": 0.03}, "money": money, "costs": {}}, SettingError, "from 0 to the unit, 0.02 USD"),
        ({"prices": {"dear": 0.01}, "money": money}, SettingError, "given without a cost, which is 0.3"),
        ({"prices": {"large": 0.01}}, SettingError, "what a correct answer is worth"),
        ({"prices": {"nobody": 0.01}, "money": money}, ArmError, "a price for 'nobody'"),
        ({"prices": [0.01], "money": money}, SettingError, "a mapping from classifiers to prices"),
        ({"money": 0.02}, SettingError, "a Money"),
    ]
    for options, error, words in wrong:
        with pytest.raises(error, match=words):
            a_site(**options)
    for given in ({"unit": 0}, {"unit": "2"}, {"unit": 1, "currency": 5}, {"unit": 1, "currency": "x" * 21}):
        with pytest.raises(SettingError, match=r"unit|currency"):
            Money(**given)
    with pytest.raises(SettingError, match=r"a cost in \[0, 1\] or a price"):
        a_site().set_cost("dear")


def test_what_has_an_answer_and_what_has_none_may_be_told_together() -> None:
    log: list[Event] = []
    site = a_site(log, classifiers={"large": lambda item: "ill" if item["x"] > 0.5 else None}, costs={}, learnt=False)
    made = site.classify_many([{"x": 0.1}, {"x": 0.9}, {"x": 0.8}, {"x": 0.2}])
    assert [each.label for each in made] == [None, "ill", "ill", None]
    site.learn_many(made, ["ill", "well", None, None], [0.1, 0.2, None, None], scores=[None, None, 0.5, 0.5])
    assert (site.pending(), site.summary().arms[0].labels) == ({}, 2)
    assert whole(fold(log)) == whole(site.engine.state)


def test_a_stack_lets_models_vote_until_the_first_score_and_says_nothing_then() -> None:
    free = {name: MODELS[name] for name in ("small", "large")}
    site, used = Site("lab", classifiers=free, context=CONTEXT[0]), list[str]()
    for n in range(40):
        decision = site.classify({"x": n / 40})
        used.append(decision.arm)
        site.learn(decision, score=0.9 if decision.label == "ill" else 0.2)
    assert used[0] == "stack"
    assert "stack" not in used[1:]
    assert used[-20:].count("large") >= 18
    assert site.predict("stack", [{"x": 0.5}]) == [None]


def test_an_arm_that_is_learnt_here_has_the_score_of_a_model_that_said_the_same() -> None:
    log: list[Event] = []
    site = Site("lab", classifiers={name: MODELS[name] for name in ("small", "large")}, journal=log.append)
    decision = site.classify({"x": 0.5})
    assert (decision.arm, decision.label) == ("stack", "well")
    for score in ({"large": 0.75}, {"small": None, "large": 0.75}):
        with pytest.raises(ScoreError, match="needs a score for 'stack', the arm that was used"):
            site.learn(decision, score=score)
    site.learn(decision, score={"small": 0.25, "large": 0.75})
    (event,) = (each for each in log if isinstance(each, Labelled))
    assert event.gains == (0.25,)
    assert {model: gains for model, gains in event.scores.items() if gains[0] == gains[0]} == {
        "small": (0.25,),
        "large": (0.75,),
    }


@pytest.mark.parametrize("units", [(0.0, 1.0), (1, 5), (-3.5, 0.1), (0, 1e6)])
def test_a_score_is_shown_as_it_was_given(units: tuple[float, float]) -> None:
    low, high = units
    for share in (0.0, 0.1, 0.25, 1 / 3, 0.7, 1.0):
        score = min(high, low + share * (high - low))
        gain = gains_by_arm(score, "small", ["small"], units, "a decision")["small"]
        assert as_score(gain, units) == pytest.approx(score, rel=1e-11)
    assert [as_score(gain, units) for gain in (0.0, 1.0)] == [low, high]
