"""What an answer says it cost: kept with the decision, in the log, and used when its label says nothing else."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from cosend import Answer, Budget, MixedViews, Money, Site, fold, verify
from cosend.axes import Feature
from cosend.engine.events import Answered, Event, Failed, Labelled
from cosend.engine.needs import Call, Failure, Forward, Question, RunModel
from cosend.engine.snapshot import state_of
from cosend.errors import ClassifierError, NoAnswer, SettingError
from cosend.models.adapters import Function, Predicted, predictions
from tests.engine.test_engine import ITEM, Driven
from tests.engine.world import whole

NAN = math.nan
CONTEXT = Feature("x", range=(0, 1))


def driven(cost: float = 0.1, **options: Any) -> Driven:
    return Driven({"far": cost, "near": 0.3}, policy=MixedViews(), **{"score_local": "used", **options})


def answer(site: Driven, batch: Any, cost: float | None, label: str = "a") -> None:
    """Let the chosen arm answer."""
    need = site.next(RunModel)
    site.engine.answered(need, 0, [label] * len(batch.items), costs=None if cost is None else [cost] * len(batch.items))
    site.take()


def test_the_cost_of_an_answer_is_that_of_the_decision_unless_the_label_has_another() -> None:
    said, told = driven(), driven()
    for site, costs, labels in ((said, 0.04, None), (told, None, 0.04)):
        for _ in range(20):
            batch = site.submit()
            answer(site, batch, costs)
            learnt = site.engine.learn(batch.ids, ["a"], [labels])
            assert learnt.costs == [0.04]
        site.check()
    assert whole(said.state) == whole(told.state)
    assert [event.costs for event in said.log if isinstance(event, Labelled)] == [(0.04,)] * 20
    batch = said.submit()
    answer(said, batch, 0.04)
    assert said.state.learner.registry.notes[batch.ids[0]].paid == 0.04
    assert said.engine.learn(batch.ids, ["a"], [0.5]).costs == [0.5]
    batch = said.submit()
    answer(said, batch, 0.0)
    assert said.engine.learn(batch.ids, ["a"]).costs == [0.0]
    said.check()


def test_where_an_answer_does_not_say_its_cost_it_is_that_of_the_arm() -> None:
    site = Driven({"far": 0.1}, score_local="used")
    batch = site.submit(*[ITEM] * 4)
    site.engine.answered(site.next(RunModel), 0, ["a", Failure("no"), 2.5, "a"], costs=[0.04, NAN, NAN, NAN])
    site.take()
    event = next(event for event in site.log if isinstance(event, Answered))
    assert [each == each for each in event.paid] == [True, False, False]
    ids = [batch.ids[0], batch.ids[2], batch.ids[3]]
    learnt = site.engine.learn(ids, ["a", 2.5, "a"], [None, None, 0.2])
    assert learnt.costs == [0.04, 0.1, 0.2]
    site.check()


def test_an_opinion_that_costs_something_counts_where_it_is_the_answer() -> None:
    site = Driven()
    batch = site.submit(ITEM, ITEM)
    site.engine.heard(site.next(RunModel, "fast"), 0, ["a"], None, [0.02])
    need = site.next(RunModel, "slow")
    site.engine.heard(need, 0, ["b", "b"], None, [0.5, NAN])
    site.engine.heard(RunModel("fast", batch, need.rows, batch.items, True), 1, ["a"])
    site.take()
    costs = {"fast": [0.02, None], "slow": [0.5, None]}
    for row, id_ in enumerate(batch.ids):
        assert site.state.learner.registry.notes[id_].paid == costs[batch.arms[row]][row]
        assert set(site.state.learner.registry.notes[id_].said) == {"a", "b"}  # what was heard is still there
    site.engine.learn(batch.ids, ["a", "a"])
    site.check()


def test_what_has_expired_or_was_never_to_be_labelled_keeps_no_cost() -> None:
    site = Driven({"far": 0.1}, score_local="used")
    batch = site.submit(ITEM, ITEM)
    need = site.next(RunModel)
    site.state.withdraw(batch.ids[:1])
    site.engine.answered(need, 0, ["a", "a"], costs=[0.04, 0.05])
    assert [note.paid for note in site.state.learner.registry.notes.values()] == [0.05]
    site.check()
    asked = site.engine.asked(Call("here", "hq", [Question(n, ITEM, (0.5,), False, n > 1) for n in (1, 2)]))
    site.take()
    costs = dict(zip(asked.ids, (0.06, 0.07), strict=True))
    while any(isinstance(need, RunModel) for need in site.needs):
        need = site.next(RunModel)
        site.engine.answered(need, 0, ["a"] * len(need.rows), costs=[[*costs.values()][row] for row in need.rows])
        site.take()
    assert asked.ids[0] == 0
    assert site.state.learner.registry.notes[asked.ids[1]].paid == 0.07
    assert site.engine.taught("hq", [Forward("here", "hq", 2, "a")]) == []
    site.check()


def test_an_arm_that_asks_to_be_left_alone_is_not_used_until_then() -> None:
    site = driven()
    site.engine.now = 50.0
    batch = site.submit(*[ITEM] * 9)
    busy = Failure("come back", "error", 30.0)
    need = site.next(RunModel)
    site.engine.answered(need, 0, [*["a"] * (len(need.rows) - 1), busy])  # other calls have worked all the same
    site.take()
    assert site.engine.counts.openings == {need.model: 1}
    while not site.is_done(batch) or batch.left:
        other = site.next(RunModel)
        assert other.model != need.model
        site.engine.answered(other, 0, ["b"] * len(other.rows))
        site.take()
    assert sorted({*batch.labels}) == ["a", "b"] or len(need.rows) == 1
    for now, models in ((79.9, {other.model}), (80.1, {need.model, other.model})):
        site.engine.now, used = now, set()
        for _ in range(30):
            site.submit()
            again = site.next(RunModel)
            used.add(again.model)
            site.engine.answered(again, 0, ["a"])
            site.take()
        assert used <= models
    assert [event.arm for event in site.log if isinstance(event, Failed)] == [need.model]
    site.check()


# In a site


def test_a_function_says_what_its_answer_cost() -> None:
    def asked(item: Any) -> Any:
        return Answer("a", confidence=0.75, cost=item["x"] / 20)

    log: list[Event] = []
    arms = {"far": asked, "near": lambda _: "b"}
    options: dict[str, Any] = {"context": CONTEXT, "costs": {"far": 0.05, "near": 0.05}, "learnt": False}
    site = Site("north", classifiers=arms, journal=log.append, **options)
    for x in (0.1, 0.5, 0.9) * 20:
        decision = site.classify({"x": x})
        site.learn(decision, "a")
    scores = site.engine.counts.scores["far"]
    assert scores.labels > 20
    assert scores.cost / scores.labels == pytest.approx(0.025, abs=0.01)  # x is 0.5 in the mean, and the file says 0.05
    assert state_of(fold(log)).facts == state_of(site.engine.state).facts


def test_a_price_that_comes_with_the_score_is_the_cost_that_it_stands_for() -> None:
    """The event has the cost, so that a fold, a replay and the budget know nothing of money."""
    found = []
    for key, scale in (("cost", 1.0), ("price", 0.02)):
        log: list[Event] = []
        site = Site(
            "router",
            classifiers={"small": lambda _: "small", "large": lambda _: "large"},  # names, as of `return:`
            prices={"small": 0.0004, "large": 0.004},
            money=Money(0.02, "USD"),
            budget=Budget(per_item=0.003),
            score_local="used",
            journal=log.append,
        )
        paid = 0.0
        for n in range(200):
            decision = site.classify({"x": n % 7})
            paid += (real := 0.25 if decision.arm == "large" else 0.0625)
            site.learn(decision, score=0.5 + (decision.arm == "large") / 4, **{key: scale * real})
        state = site.engine.state
        assert [cost for event in log if isinstance(event, Labelled) for cost in event.costs].count(0.25) > 10
        assert site.spending()[0].spent == pytest.approx(paid * 0.02)  # once, and what it really cost
        assert state_of(fold(log)).facts == state_of(state).facts
        assert verify(log) == []
        found.append(whole(state))
    assert found[0] == found[1]


def test_prices_come_in_lists_too_and_are_refused_as_costs_are() -> None:
    site = Site("router", classifiers={"a": lambda _: "a"}, money=Money(0.5, "USD"), learnt=False)
    one, two, three = site.classify_many([{"x": 1}, {"x": 2}, {"x": 3}])
    site.learn_many([one, two], ["a", "a"], [0.5, None], prices=[None, 0.125])
    assert site.engine.counts.scores["a"].cost == 0.75
    for options, words in (
        ({"price": 0.6}, "the price of decision 3 must be a number from 0 to the unit, 0.5 USD"),
        ({"price": 0.1, "cost": 0.1}, "given without a cost"),
        ({"price": -0.1}, "from 0 to the unit"),
    ):
        with pytest.raises(SettingError, match=words):
            site.learn(three, "a", **options)
    with pytest.raises(SettingError, match="prices must be as many as decisions"):
        site.learn_many([three], ["a"], prices=[])
    poor = Site("poor", classifiers={"a": lambda _: "a"}, learnt=False)
    with pytest.raises(SettingError, match="because no unit says what a correct answer is worth"):
        poor.learn(poor.classify({"x": 1}), "a", price=0.1)
    assert site.is_pending(three)


def test_a_saved_site_keeps_what_answers_have_cost(tmp_path: Path) -> None:
    def made() -> Site:
        arms = {"far": lambda _: Answer("a", cost=0.125)}
        return Site("north", classifiers=arms, context=CONTEXT, costs={"far": 0.5}, learnt=False)

    site = made()
    pending, other = site.classify_many([{"x": 0.5}, {"x": 0.6}])
    site.learn(other, "a")
    site.save(tmp_path / "site")
    again = made()
    again.load(tmp_path / "site")
    assert again.engine.state.learner.registry.notes[pending.id].paid == 0.125
    for each in (site, again):
        each.learn(pending, "a")
    assert state_of(site.engine.state).facts == state_of(again.engine.state).facts
    assert again.engine.counts.scores["far"].cost == 0.125


@pytest.mark.parametrize("cost", [-0.1, 1.5, "0.1", True, math.inf])
def test_a_cost_that_is_none_is_a_failure(cost: Any) -> None:
    site = Site("north", classifiers={"far": lambda _: Answer("a", cost=cost)}, context=CONTEXT, costs={"far": 0.1})
    with pytest.raises(NoAnswer, match="the costs of classifier 'far' must be a list of numbers in"):
        site.classify({"x": 0.5})


def test_an_answer_without_a_cost_or_a_confidence_is_a_label() -> None:
    function = Function(lambda item: Answer("a") if item else "b")
    assert function.predict_sure([1, 0]) == Predicted(["a", "b"])
    mixed = Function(lambda item: [Answer("a", 0.5), ("a", 0.25), Answer("a", cost=0.5), "a"][item])
    assert repr(mixed.predict_sure(range(4))) == repr(Predicted(["a"] * 4, [0.5, 0.25, NAN, NAN], [NAN, NAN, 0.5, NAN]))

    class Says:
        learns = False

        def predict(self, items: Any) -> Any:
            return ["a"] * len(items)

        def predict_sure(self, items: Any) -> Any:
            return Predicted(["a"] * len(items), None, [0.1])

    with pytest.raises(ClassifierError, match="one for each item"):
        predictions("far", Says(), [1, 2])  # type: ignore[arg-type]


def test_one_item_that_fails_leaves_the_costs_of_the_others() -> None:
    def moody(item: Any) -> Any:
        if item["x"] > 0.5:
            raise ValueError("no")
        return Answer("a", cost=0.25)

    site = Site("n", classifiers={"far": moody, "b": lambda _: "b"}, context=CONTEXT, costs={"far": 0.01, "b": 0.9})
    decisions = site.classify_many([{"x": 0.1}, {"x": 0.9}, {"x": 0.2}])
    paid = {each.arm: site.engine.state.learner.registry.notes[each.id].paid for each in decisions}
    assert paid.get("far", 0.25) == 0.25
    assert paid["b"] is None
