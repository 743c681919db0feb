"""Budgets: what is spent stays within what is allowed, and everything about it follows from the events."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosend import Budget, CellKLUCB, MixedViews, Money, Site, fold, verify
from cosend.axes import Feature
from cosend.engine.budget import BURST, Account, Accounts, changed_budget, in_words
from cosend.engine.events import BudgetSet, Chosen, decode, encode
from cosend.engine.needs import Failure, RunModel
from cosend.errors import SettingError, StateError
from tests.engine.test_engine import ITEM, Driven
from tests.engine.world import restored, whole
from tests.oracle import budget_twin

ARMS = {"small": 0.001, "middle": 0.02, "large": 0.3}
GAINS = {"small": 0.5, "middle": 0.7, "large": 0.9}
BUDGETS = (
    Budget(per_item=0.02),
    Budget(per_hour=5.0),
    Budget(per_day=80.0, calls={"large": {"per_item": 0.1, "per_hour": 20.0}}),
    Budget(per_item=0.05, per_hour=20.0, at_most_per_second={"middle": 0.5, "large": 2.0}),
    Budget(at_most_per_second={"small": 0.1}),
    Budget(total=3.0),
    Budget(per_item=0.05, total=2.0, calls={"middle": {"total": 7.0}}),
)


def driven(budget: Budget | None = BUDGETS[0], local: dict[str, float] = ARMS, **options: Any) -> Driven:
    site = Driven(local, policy=MixedViews(max_cells=2_000), **{"score_local": "used", **options})
    site.state.set_budget(budget)
    return site


def answer(site: Driven, costs: Callable[[str], float | None]) -> None:
    """Let the chosen arms answer."""
    while any(isinstance(need, RunModel) for need in site.needs):
        need = site.next(RunModel)
        paid = costs(need.model)
        site.engine.answered(need, 0, ["a"] * len(need.items), costs=None if paid is None else [paid] * len(need.items))
        site.take()


def accounts_of(site: Driven) -> list[Account]:
    assert site.state.accounts is not None
    return site.state.accounts.accounts


def spent(site: Driven) -> float:
    return accounts_of(site)[0].spent


# The accounts, and their twin


@given(
    st.sampled_from(BUDGETS),
    st.lists(
        st.tuples(
            st.sampled_from(["arrive", "arrive", "charge", "charge", "price", "change"]),
            st.sampled_from([*ARMS]),
            st.floats(0.0, 0.5),
            st.sampled_from([0.0, 0.1, 5.0, 4_000.0, -3.0]),
        ),
        max_size=40,
    ),
    st.sets(st.sampled_from(["small", "middle"])),
)
def test_accounts_are_what_their_slow_twin_says(budget: Budget, steps: list[Any], out: set[str]) -> None:
    accounts, happened, known, at = Accounts(budget), list[Any](), dict(ARMS), 1_000.0
    for step, arm, amount, seconds in [*steps, ("arrive", "", 0.0, 1.0)]:
        if step == "arrive":
            at += seconds
            accounts.arrive(at)
            happened.append(("arrive", at))
        elif step == "charge":
            price = accounts.charge(arm, known[arm])
            assert price == pytest.approx(budget_twin.expected(happened, arm, known[arm]))
            happened.append(("charge", arm, known[arm]))
            accounts.correct(price, amount)
            happened.append(("correct", price, amount))
        elif step == "price":
            accounts.learn_price(arm, known[arm], amount)
            happened.append(("price", arm, known[arm], amount))
        else:
            known[arm] = known[arm] / 2
    limits = [(limit.arm, limit.key, limit.amount) for limit in budget.limits()]
    for count in (1, 3):
        unpaid = budget_twin.unpaid(limits, known, happened, count)
        assert {*accounts.unpaid([*known], [*known.values()], count)} == unpaid
    out = out | budget_twin.unpaid(limits, known, happened, 1)
    if out == {*known}:
        return
    now, factor = accounts.costs([*known], [*known.values()], out)
    twin = budget_twin.costs(limits, dict(budget.at_most_per_second), known, out, happened)
    assert [*now] == pytest.approx([*twin.values()], rel=1e-6)
    assert factor >= 1.0
    again = Accounts.restored(json.loads(json.dumps(accounts.facts())))
    assert again.facts() == accounts.facts()
    assert [*again.costs([*known], [*known.values()], out)[0]] == [*now]


@given(st.floats(0.002, 1.0), st.lists(st.sampled_from([*ARMS]), max_size=200))
def test_spending_is_never_above_what_is_allowed_and_a_small_burst(amount: float, wanted: list[str]) -> None:
    accounts = Accounts(Budget(per_item=amount))
    (account,) = accounts.accounts
    for want in wanted:
        accounts.arrive(None)
        costs, _ = accounts.costs([*ARMS], [*ARMS.values()], ())
        arm = want if costs[[*ARMS].index(want)] < math.inf else "small"
        accounts.charge(arm, ARMS[arm])
        assert account.spent <= account.allowed + BURST * amount + 1e-9


@given(st.lists(st.tuples(st.sampled_from([*ARMS]), st.floats(0.0, 400.0)), max_size=100))
def test_no_hour_is_spent_more_than_twice(wanted: list[tuple[str, float]]) -> None:
    accounts, at, paid = Accounts(Budget(per_hour=1.0)), 0.0, list[tuple[float, float]]()
    for want, seconds in wanted:
        at += seconds
        accounts.arrive(at)
        costs, _ = accounts.costs([*ARMS], [*ARMS.values()], ())
        if costs[[*ARMS].index(want)] < math.inf and want != "small":
            paid.append((at, accounts.charge(want, ARMS[want])))
    for start, _ in paid:
        assert sum(cost for when, cost in paid if start <= when < start + 3600.0) <= 2.06


# At a site


@pytest.mark.parametrize("budget", BUDGETS)
def test_batches_decide_as_items_one_by_one_do(budget: Budget) -> None:
    found = []
    for size in (1, 10):
        site, draw, arms = driven(budget), random.Random(4), list[str]()
        for start in range(0, 200, 10):
            site.engine.at = float(start * start)
            items, ids = [{"x": draw.random()} for _ in range(10)], list[int]()
            for first in range(0, 10, size):
                batch = site.submit(*items[first : first + size])
                arms += batch.arms
                ids += batch.ids
            answer(site, lambda _: None)
            costs, gains = ([table[arm] for arm in arms[-10:] if arm] for table in (ARMS, GAINS))
            ids = [id_ for id_ in ids if id_]
            site.engine.learn(ids, [None] * len(ids), [1.5 * cost for cost in costs], gains)
        site.check()
        assert whole(restored(site.state)) == whole(site.state)
        found.append((arms, whole(site.state)))
    assert found[0] == found[1]


def test_every_kind_of_budget_binds() -> None:
    for budget, arm, most in (
        (None, "large", 1_000),
        (Budget(per_item=0.02), "large", 40),
        (Budget(per_hour=36.0), "large", 65),
        (Budget(calls={"large": {"per_item": 0.1}}), "large", 82),
        (Budget(calls={"large": {"per_day": 8_640.0}}), "large", 200),
        (Budget(at_most_per_second={"large": 0.25}), "large", 151),
        (Budget(calls={"large": {"total": 11.0}}), "large", 11),
    ):
        site = driven(budget)
        for n in range(600):
            site.engine.at = 1_000.0 + n
            batch = site.submit({"x": n / 600})
            answer(site, lambda _: None)
            site.engine.learn(batch.ids, [None], None, [0.9 if batch.arms[0] == arm else 0.1])
        count = sum(event.arms.count(arm) for event in site.log if isinstance(event, Chosen))
        assert count <= most if budget is not None else count > 400, (budget, count)


def test_what_is_charged_is_what_it_costs_as_soon_as_that_is_known() -> None:
    site = driven(Budget(per_item=1.0))
    batch = site.submit()
    (arm,) = batch.arms
    assert spent(site) == ARMS[arm]
    answer(site, lambda _: 0.25)
    assert spent(site) == pytest.approx(0.25)
    site.engine.learn(batch.ids, [None], [0.125], [0.5])
    assert spent(site) == pytest.approx(0.125)
    batch = site.submit()
    answer(site, lambda _: 0.25)
    before = spent(site)
    site.engine.learn(batch.ids, [None], None, [0.5])
    assert spent(site) == before
    batch = site.submit()
    before = spent(site)
    answer(site, lambda _: None)
    site.engine.learn(batch.ids, [None], None, [0.5])
    assert spent(site) == before
    site.check()


def test_an_arm_that_fails_costs_no_money_and_a_call_all_the_same() -> None:
    site = driven(Budget(per_item=1.0, calls={"small": {"per_item": 1.0}, "large": {"per_item": 1.0}}))
    batch = site.submit()
    first, before = batch.arms[0], spent(site)
    site.engine.answered(site.next(RunModel), 0, [Failure("broken")])
    site.take()
    assert batch.arms[0] != first
    assert spent(site) == pytest.approx(before - ARMS[first] + ARMS[batch.arms[0]])
    accounts = site.state.accounts
    assert accounts is not None
    assert accounts.accounts[0].allowed == 1.0  # one item has come
    assert sum(each.spent for each in accounts.accounts[1:]) == sum(arm != "middle" for arm in (first, batch.arms[0]))
    site.state.withdraw(batch.ids)
    assert spent(site) > 0.0  # it may have been paid for
    site.check()


def test_a_killed_site_goes_on_with_what_it_has_charged() -> None:
    site = driven(Budget(per_item=0.02))
    for _ in range(30):
        site.submit()
        answer(site, lambda arm: ARMS[arm])
    site.submit(ITEM, ITEM)  # nobody answers
    again = fold(site.log)
    assert whole(again) == whole(site.state)
    again.withdraw([id_ for id_ in again.learner.registry.ids() if id_ not in again.learner.registry.notes])
    assert again.accounts is not None
    assert again.accounts.accounts[0].spent == spent(site)


def test_a_budget_changes_and_ends_and_limits_that_stay_go_on() -> None:
    site = driven(Budget(per_item=0.02, at_most_per_second={"large": 3.0}))
    for _ in range(20):
        site.submit()
        answer(site, lambda arm: ARMS[arm])
    known = spent(site)
    site.state.set_budget(Budget(per_item=0.02, per_hour=1.0, at_most_per_second={"large": 3.0, "small": 2.0}))
    assert spent(site) == known
    site.submit()
    site.state.set_budget(site.state.accounts.budget if site.state.accounts is not None else None)
    known = spent(site)
    site.state.set_budget(Budget(per_item=0.03))
    assert spent(site) == known > 0.0
    assert site.state.accounts is not None
    (account,) = site.state.accounts.accounts
    assert account.allowed == pytest.approx(21 * 0.02)
    assert account.left == 0.0
    site.submit()
    answer(site, lambda arm: ARMS[arm])
    late = site.submit()
    site.state.set_budget(None)
    answer(site, lambda _: 0.5)
    site.engine.learn(late.ids, [None], None, [0.5])
    site.submit()
    answer(site, lambda _: 0.5)
    amounts = [(event.per_item, event.per_hour) for event in site.log if isinstance(event, BudgetSet)]
    assert amounts == [(0.02, None), (0.02, 1.0), (0.03, None), (None, None)]
    assert all(decode(encode(event)) == event for event in site.log)
    site.check()


def test_a_total_is_never_exceeded_and_then_free_arms_answer() -> None:
    budget = Budget(total=3.0)
    site = driven(budget, {**ARMS, "free": 0.0})
    used = list[str]()
    for n in range(120):
        batch = site.submit(*[{"x": n / 120}] * (1 + n % 3))
        used += batch.arms
        answer(site, lambda arm: ARMS.get(arm, 0.0))
        site.engine.learn(batch.ids, [None] * len(batch.ids), None, [{**GAINS, "free": 0.1}[arm] for arm in batch.arms])
        assert spent(site) <= 3.0 + 1e-9
    assert spent(site) > 3.0 - ARMS["small"]
    assert {*used[-20:]} == {"free"}
    assert site.engine.counts.unanswered == 0
    site.check()
    assert whole(restored(site.state)) == whole(site.state)
    site.state.set_budget(Budget(total=3.6))
    assert site.submit(ITEM).arms == ["middle"]
    (account,) = accounts_of(site)
    assert account.allowed == 3.6
    assert account.left + account.spent == pytest.approx(3.6)
    site.state.set_budget(Budget(total=2.0))
    assert accounts_of(site)[0].left < 0.0
    assert {site.submit(ITEM).arms[0] for _ in range(5)} == {"free"}
    answer(site, lambda _: None)
    site.check()


def test_until_a_total_is_spent_everything_is_decided_as_without_it() -> None:
    found = []
    for budget in (None, Budget(total=1_000.0)):
        site, draw = driven(budget, {**ARMS, "free": 0.0}), random.Random(7)
        arms = list[str]()
        for _ in range(60):
            batch = site.submit({"x": draw.random()}, {"x": draw.random()})
            arms += batch.arms
            answer(site, lambda _: None)
            gains = [{**GAINS, "free": 0.3}[arm] for arm in batch.arms]
            site.engine.learn(batch.ids, [None, None], None, gains)
        site.check()
        found.append(arms)
    assert found[0] == found[1]
    assert len({*found[0]}) > 2


def test_where_every_arm_costs_nobody_answers_once_a_total_is_spent() -> None:
    site = driven(Budget(total=0.31, calls={"small": {"total": 2.0}}))
    arms = list[str]()
    for size in (7, 1, 3, 40):
        batch = site.submit(*[ITEM] * size)
        arms += [arm for arm in batch.arms if arm]
        answer(site, lambda _: None)
        ids = [id_ for id_ in batch.ids if id_]
        site.engine.learn(ids, [None] * len(ids), None, [0.5] * len(ids))
    assert arms.count("small") <= 2
    assert 0.31 - ARMS["middle"] < spent(site) <= 0.31 + 1e-9
    assert batch.done == bytearray([1]) * 40
    assert site.engine.in_flight == 0
    why = "no arm of site 'here' could label the item: small: the budget is spent; middle: the budget is spent"
    assert str(batch.errors[39]).startswith(why)
    site.check()
    assert verify(site.log) == []
    site.state.set_budget(Budget(total=0.7))
    assert site.submit().arms != [""]


def test_a_total_is_used_up_to_the_last_unit() -> None:
    site = driven(Budget(total=0.3), dict.fromkeys(ARMS, 0.1))
    assert [arm != "" for arm in site.submit(*[ITEM] * 5).arms] == [True] * 3 + [False] * 2
    answer(site, lambda _: None)
    assert site.submit().arms == [""]


def test_an_arm_that_is_dearer_than_said_exceeds_a_total_by_what_was_on_its_way() -> None:
    site = driven(Budget(total=0.2), dict.fromkeys(ARMS, 0.1))
    assert "" not in site.submit(ITEM, ITEM).arms
    assert site.submit().arms == [""]
    answer(site, lambda _: 0.15)
    assert spent(site) == pytest.approx(0.3)
    assert site.submit().arms == [""]
    site.state.set_budget(Budget(total=0.32))
    assert site.submit().arms == [""]  # answers are expected to cost more than they were said to


def test_an_item_whose_arm_has_failed_is_chosen_for_again_within_the_total() -> None:
    site = driven(Budget(total=0.32), {**ARMS, "free": 0.0})
    batch = site.submit(ITEM, ITEM, ITEM, ITEM)
    for need in [each for each in site.needs if isinstance(each, RunModel) and each.model != "free"]:
        site.needs.remove(need)
        site.engine.answered(need, 0, [Failure("broken")] * len(need.items))
        site.take()
    while any(isinstance(need, RunModel) for need in site.needs):
        need = site.next(RunModel)
        broken = need.model != "free"
        site.engine.answered(need, 0, [Failure("broken") if broken else "a"] * len(need.items))
        site.take()
    assert {*batch.arms} == {"free"}
    assert spent(site) == pytest.approx(0.0)
    site.check()


def test_other_events_within_a_budget_that_is_not_there_are_damage() -> None:
    site = driven()
    site.submit()
    log = [event for event in site.log if not isinstance(event, BudgetSet)]
    with pytest.raises(StateError, match="there is none"):
        fold(log)


def test_what_others_have_decided_is_not_spent() -> None:
    site = Site(
        "desk",
        classifiers={name: (lambda item: "a") for name in ARMS},
        costs=ARMS,
        context=Feature("x", range=(0, 1)),
        budget=Budget(per_item=0.02),
        score_local="used",
        journal=(log := list[Any]()).append,
    )
    site.begin_with([{"x": 0.5}] * 5, arms=["large"] * 5, scores=[0.5] * 5)
    (spending,) = site.spending()
    assert (spending.allowed, spending.spent) == (0.0, 0.0)
    assert not any(event.factors for event in log if isinstance(event, Chosen))
    assert verify(log) == []


def test_a_cheaper_price_counts_at_once_and_what_was_seen_before_no_longer() -> None:
    accounts = Accounts(Budget(per_item=0.1))
    for _ in range(80):
        accounts.learn_price("large", 0.3, 0.6)
    assert accounts.expected("large", 0.3) == pytest.approx(0.6, rel=0.03)
    assert accounts.expected("large", 0.01) == 0.01


# What a user sees


def test_a_site_says_what_it_has_spent_in_money() -> None:
    now = [0.0]
    site = Site(
        "desk",
        classifiers={"small": lambda item: "a", "large": lambda item: "b"},
        prices={"small": 0.001, "large": 0.01},
        money=Money(0.1, "USD"),
        context=Feature("x", range=(0, 1)),
        score_local="used",
        budget=Budget(per_item=0.002, per_hour=7.2, calls={"large": {"per_day": 1_000}}),
        clock=lambda: now[0],
    )
    for _ in range(50):
        now[0] += 1.0
        decision = site.classify({"x": 0.5})
        site.learn(decision, score=0.9 if decision.arm == "large" else 0.5)
    item, hour, day = site.spending()
    assert (item.unit, item.amount, item.allowed) == ("USD", 0.002, 0.1)
    assert item.spent == hour.spent <= 0.1 + 20 * 0.002
    assert (day.arm, day.unit) == ("large", "calls")
    assert hour.allowed == pytest.approx(49 * 0.002)
    assert day.spent == sum(arm.decisions for arm in site.summary().arms if arm.name == "large")
    title = str(site.summary()).splitlines()[0]
    assert "budget of 0.002 USD per item: spent" in title
    assert "budget of calls of large, 1000 calls per day: spent" in title
    site.set_budget(None)
    assert site.spending() == []
    site.set_budget(Budget(per_item=1.0))
    assert [each.amount for each in site.spending()] == [1.0]
    site.set_budget(Budget(total=25.0, calls={"large": {"total": 1}}))
    assert [*map(str, site.spending())] == [
        "budget of 25 USD in total: spent 0 USD",
        "budget of calls of large, 1 calls in total: spent 0 calls",
    ]
    free = Site("free", classifiers={"a": lambda item: 1}, budget=Budget(per_item=0.5), learnt=False)
    free.classify({"x": 1})
    assert str(free.spending()[0]) == "budget of 0.5 costs per item: spent 0 costs of the 0.5 costs allowed so far"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "at least one of per_item, per_hour, per_day, total, calls and at_most_per_second"),
        ({"total": -1}, "budget.total must be a number above 0, got -1"),
        ({"per_item": 0}, "budget.per_item must be a number above 0, got 0"),
        ({"per_hour": True}, "budget.per_hour must be a number above 0"),
        ({"per_day": math.inf}, "budget.per_day must be a number above 0"),
        ({"calls": 5}, "budget.calls"),
        ({"calls": {"a": 5}}, "budget.calls.a"),
        ({"calls": {"a": {"per_week": 5}}}, "one of per_item, per_hour, per_day, total"),
        ({"calls": {"a": {"per_hour": -5}}}, "budget.calls.a.per_hour must be a number above 0"),
        ({"at_most_per_second": 5}, "budget.at_most_per_second"),
        ({"at_most_per_second": {"a": 0}}, "budget.at_most_per_second.a must be a number above 0"),
    ],
)
def test_a_budget_that_is_wrong_is_refused(options: Any, said: str) -> None:
    with pytest.raises(SettingError) as caught:
        Budget(**options)
    assert said in str(caught.value)


def test_only_mixed_views_keep_to_a_budget() -> None:
    with pytest.raises(SettingError, match="MixedViews where there is a budget"):
        Site(
            "here",
            classifiers={"a": lambda item: 1},
            context=Feature("x", range=(0, 1)),
            policy=CellKLUCB(horizon=100),
            budget=Budget(per_item=0.1),
        )
    with pytest.raises(SettingError, match="a Budget, for example"):
        Site("here", classifiers={"a": lambda item: 1}, budget=0.5)  # type: ignore[arg-type]


def test_another_budget_is_put_into_a_sentence_with_what_was_spent() -> None:
    before = Accounts(Budget(per_item=0.01, calls={"large": {"per_hour": 20}}, at_most_per_second={"small": 2.0}))
    before.accounts[0].spent, before.accounts[1].spent = 0.5, 3.0
    was = "per_item 0.01, calls.large.per_hour 20, at_most_per_second.small 2"
    money = Money(0.1, "EUR")
    assert [*changed_budget(before, before.budget, None)] == []
    assert [*changed_budget(None, None, None)] == []
    assert [*changed_budget(before, None, None)] == [
        f"there is no budget now; it was {was}, with 0.5 and 3 calls of large spent"
    ]
    assert [*changed_budget(None, Budget(per_hour=2.0), money)] == [
        "the budget is per_hour 0.2 EUR now; there was none before"
    ]
    assert [*changed_budget(Accounts(Budget(per_item=0.01)), Budget(per_item=0.02), money)] == [
        "the budget is per_item 0.002 EUR now; it was per_item 0.001 EUR, with 0 EUR spent"
    ]
    total = Accounts(Budget(total=250.0, calls={"large": {"total": 9}}))
    total.charge("large", 1.0)
    was = "total 25 EUR, calls.large.total 9, with 0.1 EUR and 1 call of large spent"
    assert [*changed_budget(total, Budget(total=500.0), money)] == [f"the budget is total 50 EUR now; it was {was}"]
    rates = Accounts(Budget(at_most_per_second={"small": 2.0}))
    assert (in_words(None, money), in_words(rates.budget, money)) == ("none", "at_most_per_second.small 2")
    assert [*changed_budget(rates, None, None)] == ["there is no budget now; it was at_most_per_second.small 2"]
