"""What arms have spent: exact sums, whatever comes first, in state, log and file."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import Answer, Budget, MixedViews, Money, Site, fold
from cosend.axes import Feature
from cosend.engine.events import Event
from cosend.engine.needs import Call, Failure, Question, RunModel
from cosend.engine.snapshot import restore, state_of
from cosend.engine.spent import Spent
from cosend.errors import StateError
from tests.engine.test_engine import ITEM, Driven
from tests.engine.world import restored, spent_by, whole

CONTEXT = Feature("x", range=(0, 1))
ARMS = {"far": 0.1, "near": 0.3, "free": 0.0}
SUMS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.floats(0.0, 1.0), st.none() | st.floats(0.0, 1.0)))


def driven(**options: Any) -> Driven:
    return Driven(ARMS, policy=MixedViews(max_cells=2_000), **{"score_local": "used", **options})


def answer(site: Driven, label: Any = "a", cost: float | None = None) -> list[str]:
    """Let the chosen arms answer; returns them."""
    used = []
    while any(isinstance(need, RunModel) for need in site.needs):
        need = site.next(RunModel)
        used += [need.model] * len(need.items)
        paid = None if cost is None else [cost] * len(need.items)
        site.engine.answered(need, 0, [label] * len(need.items), costs=paid)
        site.take()
    return used


# The sums


@given(SUMS, st.randoms(use_true_random=False))
def test_a_sum_is_that_of_the_last_costs_in_any_order(decisions: list[Any], draw: random.Random) -> None:
    spent = Spent()
    steps = [("add", n) for n in range(len(decisions))] + [("replace", n) for n in range(len(decisions))]
    for step, n in sorted(steps, key=lambda each: (draw.random(), each)):
        arm, cost, real = decisions[n]
        if step == "add":
            spent.add(arm, cost)
        elif real is not None:
            spent.replace(arm, cost, real)
    exact = {"a": Fraction(0), "b": Fraction(0)}
    for arm, cost, real in decisions:
        exact[arm] += Fraction(cost if real is None else real)
    assert {arm: spent.of(arm) for arm in exact} == {arm: float(sum_) for arm, sum_ in exact.items()}
    assert spent.total() == float(sum(exact.values()))
    again = Spent.restored(json.loads(json.dumps(spent.facts())))
    assert {arm: again.of(arm) for arm in exact} == {arm: spent.of(arm) for arm in exact}
    assert again.facts() == spent.facts()


def test_many_decisions_are_counted_as_one_by_one() -> None:
    at_once, one_by_one = Spent(), Spent()
    at_once.add("a", 0.1, 1_000_003)
    for _ in range(3):
        one_by_one.add("a", 0.1)
    one_by_one.add("a", 0.1, 1_000_000)
    assert at_once.facts() == one_by_one.facts()
    assert at_once.of("a") == float(1_000_003 * Fraction(0.1))
    copied = at_once.copy()
    copied.replace("a", None, 0.5)
    assert copied.of("a") == float(1_000_003 * Fraction(0.1) + Fraction(1, 2))
    assert at_once.facts() == one_by_one.facts()


@pytest.mark.parametrize("saved", [None, {"a": 5}, {"a": "five"}, {"a": "-0x1"}, {"a": hex(1 << 2_000)}])
def test_a_damaged_sum_is_refused(saved: Any) -> None:
    site = driven()
    state = state_of(site.state)
    state.facts["site"]["spent"] = saved
    with pytest.raises(StateError, match="is damaged"):
        restore(restored(site.state), state)


def test_a_state_from_before_this_was_counted_begins_with_nothing() -> None:
    site = driven()
    site.submit(*[ITEM] * 20)
    answer(site)
    state = state_of(site.state)
    del state.facts["site"]["spent"]
    again = restored(site.state)
    restore(again, state)()
    assert spent_by(again) == {}


# What counts


def test_decisions_count_before_their_label_and_free_ones_cost_nothing() -> None:
    site = driven()
    batch = site.submit(*[ITEM] * 40)
    used = answer(site)
    assert {*used} == {*ARMS}
    assert spent_by(site.state) == {arm: float(used.count(arm) * Fraction(cost)) for arm, cost in ARMS.items() if cost}
    before = spent_by(site.state)
    site.engine.learn(batch.ids, ["a"] * 40)  # labels without a cost change nothing
    assert spent_by(site.state) == before
    site.check()


def test_the_real_cost_of_an_answer_and_then_that_of_its_label_counts() -> None:
    site = driven()
    batch = site.submit()
    arm = batch.arms[0]
    answer(site, cost=0.04)
    assert site.state.spent.of(arm) == 0.04
    assert site.state.spent.total() == 0.04
    site.engine.learn(batch.ids, ["a"], [0.5])
    assert site.state.spent.of(arm) == 0.5
    batch = site.submit()
    again = batch.arms[0]
    answer(site)
    before = spent_by(site.state)
    site.engine.learn(batch.ids, ["a"], [0.0])
    assert site.state.spent.of(again) == pytest.approx(before.get(again, 0.0) - ARMS[again])
    site.check()


def test_a_later_cost_of_an_arm_changes_nothing_of_what_was_spent() -> None:
    site = driven()
    batch = site.submit(*[ITEM] * 20)
    site.state.set_cost("far", 0.7)
    used = answer(site)
    spent = {arm: float(used.count(arm) * Fraction(cost)) for arm, cost in ARMS.items() if cost}
    assert spent_by(site.state) == spent
    places = [n for n, arm in enumerate(batch.arms) if arm == "far"]
    assert places
    site.engine.learn([batch.ids[n] for n in places], ["a"] * len(places), [0.25] * len(places))
    assert spent_by(site.state) == {**spent, "far": 0.25 * len(places)}
    site.check()


def test_failures_and_no_answer_cost_nothing_unless_they_say_so() -> None:
    site = driven(retries=0)
    batch = site.submit()
    arm = batch.arms[0]
    assert site.state.spent.of(arm) == ARMS[arm]  # it is under way
    site.engine.answered(site.next(RunModel), 0, [Failure("no")])
    site.take()
    assert spent_by(site.state) == {}
    items = [{"x": n / 10} for n in range(10)]
    columns = [[item["x"] for item in items]]
    site.engine.enter_log(items, columns, ["far"] * 10, [0.5] * 10)  # another system has paid for these
    assert spent_by(site.state) == {}
    one = site.submit()
    cost = site.state.spent.total()
    site.state.complete(one.ids, [None], [0.02])
    assert site.state.spent.total() == 0.02
    assert cost in ARMS.values()
    site.state.complete(one.ids, [None])
    assert site.state.spent.total() == 0.02
    site.check()


def test_answers_for_peers_are_not_counted() -> None:
    site = Driven({"far": 0.1}, score_local="used")
    asked = site.engine.asked(Call("here", "hq", [Question(1, ITEM, (0.5,), False, True)]))
    site.take()
    answer(site, cost=0.5)
    assert not asked.left
    assert spent_by(site.state) == {}
    site.check()


def test_what_expires_or_is_withdrawn_was_spent_and_an_arm_that_has_left_too() -> None:
    site = driven()
    batch = site.submit(*[ITEM] * 20)
    used = answer(site)
    spent = {arm: float(used.count(arm) * Fraction(cost)) for arm, cost in ARMS.items() if cost}
    site.state.withdraw(batch.ids[:10])
    site.engine.remove("far")
    assert spent_by(site.state) == spent
    site.state.add_model("far", 0.2)
    assert spent_by(site.state) == spent
    site.check()


@pytest.mark.parametrize("budget", [None, Budget(per_item=0.05)])
def test_batches_spend_as_items_one_by_one_do(budget: Budget | None) -> None:
    found = []
    for size in (1, 10):
        site, draw, arms = driven(), random.Random(4), list[str]()
        site.state.set_budget(budget)
        for _ in range(10):
            items, ids = [{"x": draw.random()} for _ in range(10)], list[int]()
            for first in range(0, 10, size):
                batch = site.submit(*items[first : first + size])
                arms += batch.arms
                ids += batch.ids
            answer(site)
            site.engine.learn(ids, ["a"] * 10, [None if arm == "free" else 0.07 for arm in arms[-10:]])
        site.check()
        assert whole(restored(site.state)) == whole(site.state)
        found.append((arms, whole(site.state)))
    assert found[0] == found[1]


def test_what_a_budget_has_spent_is_what_its_arms_have() -> None:
    site = driven()
    site.state.set_budget(Budget(per_item=0.05))
    for cost in (0.02, 0.25, 0.01) * 10:
        site.submit()
        answer(site, cost=cost)
    assert site.state.accounts is not None
    assert site.state.accounts.accounts[0].spent == pytest.approx(site.state.spent.total())
    site.check()


# In a site


def made(**options: Any) -> Site:
    models = {"said": lambda item: Answer("a", cost=item["x"]), "quiet": lambda _: "b"}
    costs = {"said": 0.5, "quiet": 0.25}
    return Site("north", classifiers=models, context=CONTEXT, costs=costs, learnt=False, **options)


def test_a_summary_says_what_arms_have_spent_and_a_saved_site_goes_on_with_it(tmp_path: Path) -> None:
    log: list[Event] = []
    site, logged = made(), made(journal=log.append)
    items = [{"x": n / 64} for n in range(32)]
    decisions = site.classify_many(items)
    assert site.classify_many([]) == []
    assert logged.classify_many(items) == decisions
    assert {each.arm: each.cost for each in decisions} == {"said": 0.5, "quiet": 0.25}  # as expected
    said = [item["x"] for item, each in zip(items, decisions, strict=True) if each.arm == "said"]
    spent = {"said": sum(said), "quiet": 0.25 * (32 - len(said))}
    assert 0 < len(said) < 32
    assert {arm.name: arm.spent for arm in site.summary().arms} == spent
    assert "spent" in str(site.summary()).splitlines()[1].split()
    site.save(tmp_path / "site")
    again = made()
    again.load(tmp_path / "site")
    assert {arm.name: arm.spent for arm in again.summary().arms} == spent
    assert spent_by(fold(log)) == spent_by(site.engine.state)
    quiet = next(each for each in decisions if each.arm == "quiet")
    for each in (site, again):
        each.learn(quiet, "b", cost=0.125)
        assert {arm.name: arm.spent for arm in each.summary().arms} == {**spent, "quiet": spent["quiet"] - 0.125}


def test_spending_is_in_money_where_prices_are() -> None:
    site = Site(
        "router",
        classifiers={"small": lambda _: "s", "large": lambda _: "l"},
        prices={"small": 0.0004, "large": 0.004},
        money=Money(0.02, "USD"),
        score_local="used",
    )
    arms = [site.classify({"x": n % 7}).arm for n in range(50)]
    summary = site.summary()
    assert {arm.name: arm.spent for arm in summary.arms if arm.price} == {
        "small": pytest.approx(0.0004 * arms.count("small")),
        "large": pytest.approx(0.004 * arms.count("large")),
    }
    heading, *rows = str(summary).splitlines()[1:]
    assert "spent USD" in heading
    assert len({*map(len, (heading, *rows))}) <= 2
    free = Site("free", classifiers={"a": lambda _: "a"}, learnt=False)
    free.classify({"x": 1})
    assert "spent" not in str(free.summary())


def test_a_look_ahead_spends_nothing() -> None:
    site = made()
    before = whole(site.engine.state)
    site.choose({"x": 0.5})
    assert whole(site.engine.state) == before
    spent = [site.engine.state.spent.total()]
    for _ in range(5):
        site.classify({"x": 0.5})
        site.choose({"x": 0.5})
        spent.append(site.engine.state.spent.total())
    assert all(later - earlier in (0.5, 0.25) for earlier, later in pairwise(spent))
