"""Budgets of a site, in money or in calls, and the account that keeps to them.

    arrive   an item has come: time has passed, and what is allowed has grown
    unpaid   the arms for which too little is left of a total
    costs    what each arm costs in this choice: more where a budget is short, out of the question where it is spent
    charge   an arm was chosen: its expected cost is spent
    correct  what it has really cost is known

A budget raises the costs that an index is compared at. The price of spending, in gain for a unit that is spent, is

    START / b * exp(-PACE * left / b)

with b what the budget allows for an item, and left what is allowed so far and not spent: so it is raised by every item
that takes more than b, and lowered by every item that takes less. A total has no b, so it raises nothing: an arm is out
of the question once it would take more than is left. exactness.md, "Budgets", has the rules. All of it follows from
events, so only the budget itself has an event.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from cosend.algorithm.layout import OUT, Floats
from cosend.checks import check_kind, is_number
from cosend.engine.money import Money
from cosend.errors import SettingError
from cosend.text import counted, plain_number

HOUR_S: Final = 3600.0
DAY_S: Final = 86400.0
PERIODS: Final = {"per_item": 0.0, "per_hour": HOUR_S, "per_day": DAY_S}  # in seconds; 0: an item
TOTAL: Final = "total"
KEYS: Final = (*PERIODS, TOTAL)

START: Final = 0.03  # the gain that spending b must bring at first
PACE: Final = 0.08  # by how much its logarithm grows with each b that is spent
BURST: Final = 20.0  # b that may be spent ahead,
BURST_SHARE: Final = 0.05  # and which part of a period's amount at most
SAVED: Final = 60.0  # b that can be saved; of a period, its amount at most
STEEPEST: Final = 20.0  # the largest exponent
FIRST_PRICES: Final = 5.0  # answers for which the known cost of an arm counts
LAST_PRICES: Final = 50.0  # answers that its price is the mean of
FIRST_GAPS: Final = 5.0  # items for which the first guess of the time between two counts: a thousandth of the period
LAST_GAPS: Final = 100.0
HAIR: Final = 1e-9  # of a total, which sums of what was spent may be wrong by


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The amounts that may be spent: per item, per hour, per day and in total; and how often an arm may be used.

    >>> from cosend import Budget
    >>> Budget(per_item=0.0007, at_most_per_second={"large": 5}).per_item
    0.0007

    per_item, per_hour, per_day  in money, where prices are; else in costs: shares of a correct prediction's value
    total                        the same for all items together: once it is spent, only free arms are used
    calls                        by arm: the same in calls of it, such as {"large": {"per_hour": 100, "total": 5_000}}
    at_most_per_second           by arm: how often it may be used in a second
    """

    per_item: float | None = None
    per_hour: float | None = None
    per_day: float | None = None
    calls: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    at_most_per_second: Mapping[str, float] = field(default_factory=dict)
    total: float | None = None

    def __post_init__(self) -> None:
        for key in KEYS:
            _check_amount(f"budget.{key}", getattr(self, key))
        check_kind("budget.calls", self.calls, Mapping, 'a mapping such as {"large": {"per_hour": 100}}')
        for arm, amounts in self.calls.items():
            check_kind(f"budget.calls.{arm}", amounts, Mapping, 'a mapping such as {"per_hour": 100}')
            for key, amount in amounts.items():
                if key not in KEYS:
                    raise SettingError(f"budget.calls.{arm}", key, f"one of {', '.join(KEYS)}")
                _check_amount(f"budget.calls.{arm}.{key}", amount)
        rates = self.at_most_per_second
        check_kind("budget.at_most_per_second", rates, Mapping, 'a mapping such as {"large": 5}')
        for arm, rate in rates.items():
            _check_amount(f"budget.at_most_per_second.{arm}", rate)
        if not self.limits() and not rates:
            allowed = f"at least one of {', '.join(KEYS)}, calls and at_most_per_second"
            raise SettingError("budget", "nothing", allowed)

    def limits(self) -> list[Limit]:
        """Return the limits of spending: those in money first, then those in calls."""
        money = [(("", key), getattr(self, key)) for key in KEYS]
        calls = [((arm, key), amounts.get(key)) for arm, amounts in self.calls.items() for key in KEYS]
        return [Limit(arm, key, amount) for (arm, key), amount in (*money, *calls) if amount is not None]

    def in_costs(self, money: Money | None) -> Budget:
        """Return the same budget with amounts of money as shares of the value of a correct prediction, as costs are."""
        if money is None:
            return self
        given = {key: getattr(self, key) for key in KEYS}
        return replace(self, **{key: each / money.unit for key, each in given.items() if each is not None})

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        facts = {key: getattr(self, key) for key in KEYS if getattr(self, key) is not None}
        calls = {arm: dict(amounts) for arm, amounts in self.calls.items()}
        return {**facts, "calls": calls, "at_most_per_second": dict(self.at_most_per_second)}


def _check_amount(what: str, amount: Any) -> None:
    if amount is None:
        return
    if not is_number(amount) or isinstance(amount, bool) or not 0 < amount < math.inf:
        raise SettingError(what, amount, "a number above 0")


@dataclass(frozen=True, slots=True)
class Limit:
    """An amount for each item, hour or day, or in total."""

    arm: str  # whose calls it counts; none: it is in money
    key: str
    amount: float

    @property
    def seconds(self) -> float:
        """Its period; 0: an item, or none."""
        return PERIODS.get(self.key, 0.0)


@dataclass(slots=True)
class Account:
    """The amounts that a limit has allowed and that were spent."""

    limit: Limit
    left: float = 0.0  # allowed so far and not spent; less if more could not be saved
    allowed: float = 0.0
    spent: float = 0.0

    @classmethod
    def of(cls, limit: Limit, spent: float = 0.0) -> Account:
        """Return the account of a limit of which so much is spent: a total allows everything at once."""
        amount = limit.amount if limit.key == TOTAL else 0.0
        return cls(limit, amount - spent if amount else 0.0, amount, spent)

    def earn(self, passed: float, each: float) -> None:
        """Allow what comes with an item, after this many seconds; `each` is what the limit allows for an item now."""
        limit = self.limit
        earned = limit.amount * passed / limit.seconds if limit.seconds else limit.amount
        most = SAVED * each
        if limit.seconds:
            most = min(most, limit.amount)
        self.allowed += earned
        # Earlier savings stay when less can be saved now.
        self.left = min(self.left + earned, max(most, self.left))

    def spend(self, amount: float) -> None:
        self.left -= amount
        self.spent += amount

    def burst(self, each: float) -> float:
        """Return what may be spent ahead."""
        limit, most = self.limit, BURST * each
        return min(most, BURST_SHARE * limit.amount) if limit.seconds else most

    def price(self, each: float) -> float:
        """Return the gain that a unit must bring."""
        steps = -PACE * self.left / each
        return START / each * math.exp(min(STEEPEST, max(-STEEPEST, steps)))


class Spending(NamedTuple):
    """The state of a limit."""

    limit: str  # per_item, per_hour, per_day or total
    arm: str  # whose calls it counts; none: it is in money
    unit: str  # the currency, or what else is counted
    amount: float  # for each item, hour or day, or in total
    allowed: float  # so far
    spent: float  # so far: expected, where it is not known what an answer has cost
    factor: float  # by what costs count now; of a limit of calls, what a call costs on top

    def __str__(self) -> str:
        what = f"calls of {self.arm}, " if self.arm else ""
        if self.limit == TOTAL:
            return f"budget of {what}{self._named(self.amount)} in total: spent {self._named(self.spent)}"
        amounts = f"spent {self._named(self.spent)} of the {self._named(self.allowed)} allowed"
        return f"budget of {what}{self._named(self.amount)} {self.limit.replace('_', ' ')}: {amounts} so far"

    @property
    def in_file(self) -> str:
        """The limit as a network file has it."""
        if self.arm:
            return f"calls.{self.arm}.{self.limit} {plain_number(self.amount)}"
        return f"{self.limit} {plain_number(self.amount)} {self.unit if self.unit != 'costs' else ''}".strip()

    @property
    def spent_so_far(self) -> str:
        if self.arm:
            return f"{counted(round(self.spent), 'call')} of {self.arm}"
        return f"{plain_number(self.spent)} {self.unit if self.unit != 'costs' else ''}".strip()

    def _named(self, amount: float) -> str:
        return f"{plain_number(amount)} {self.unit}".strip()


class Accounts:
    """The accounts of a site, kept by its budget, which is in costs.

    Times are in seconds, from any moment on; none goes back, or else no time has passed.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.accounts = [Account.of(limit) for limit in budget.limits()]
        self.prices: dict[str, list[float]] = {}  # by arm: its known cost, the sum of what it cost, and how often
        self.tokens: dict[str, float] = {arm: max(1.0, rate) for arm, rate in budget.at_most_per_second.items()}
        self.at: float | None = None  # when the last item came
        self.gaps = [0.0, 0.0]  # seconds between items, and how many these were
        self.timed = any(account.limit.seconds for account in self.accounts) or bool(self.tokens)
        self.weigh = any(True for _ in self._paced) or bool(self.tokens)  # else arms cost what they do without a budget

    def arrive(self, at: float | None) -> None:
        """Note that an item has come, and when."""
        passed = 0.0
        if self.timed and at is not None:
            if self.at is not None:
                passed = max(0.0, at - self.at)
                keep = min(1.0, LAST_GAPS / (self.gaps[1] + 1.0))
                self.gaps = [(self.gaps[0] + passed) * keep, (self.gaps[1] + 1.0) * keep]
            self.at = at if self.at is None else max(self.at, at)
        for account in self._paced:
            account.earn(passed, self.each(account.limit))
        for arm, rate in self.budget.at_most_per_second.items():
            self.tokens[arm] = min(max(1.0, rate), self.tokens[arm] + rate * passed)

    @property
    def _paced(self) -> Iterator[Account]:
        """The accounts of all limits but totals."""
        return (account for account in self.accounts if account.limit.key != TOTAL)

    @property
    def _totals(self) -> Iterator[Account]:
        return (account for account in self.accounts if account.limit.key == TOTAL)

    def unpaid(self, names: Sequence[str], known: Sequence[float], count: int = 1) -> list[str]:
        """Return the arms for which too little is left of a total to be used this many times."""
        found = set[str]()
        for account in self._totals:
            arm, room = account.limit.arm, account.left + HAIR * account.limit.amount
            for name, cost in zip(names, known, strict=True):
                each = self.expected(name, cost) if not arm else float(name == arm)
                if each > 0.0 and count * each > room:
                    found.add(name)
        return [name for name in names if name in found]

    def each(self, limit: Limit) -> float:
        """Return what a limit allows for an item, by how often items came lately."""
        if not limit.seconds:
            return limit.amount
        seconds, count = self.gaps
        gap = (seconds + FIRST_GAPS * limit.seconds / 1000.0) / (count + FIRST_GAPS)
        return min(limit.amount, limit.amount * gap / limit.seconds)

    def expected(self, arm: str, known: float) -> float:
        """Return what an arm is expected to cost; what was seen counts until its known cost changes."""
        seen = self.prices.get(arm)
        if seen is None or seen[0] != known:
            return known
        return seen[1] / seen[2]

    def costs(self, names: Sequence[str], known: Sequence[float], out: Collection[str]) -> tuple[Floats, float]:
        """Return what each arm costs in a choice, and by what factor money counts.

        out  arms that cannot be chosen, those that a total leaves unpaid among them. If all others are spent, the one
             that is expected to cost least is left.
        """
        prices = [self.expected(name, cost) for name, cost in zip(names, known, strict=True)]
        costs = np.array(known)
        fits, factor = [name not in out for name in names], 1.0
        for account in self._paced:
            arm, each = account.limit.arm, self.each(account.limit)
            price, room = account.price(each), account.left + account.burst(each)
            factor += 0.0 if arm else price
            for n, name in enumerate(names):
                amount = prices[n] if not arm else float(name == arm)
                if amount > 0.0:
                    costs[n] += price * amount
                    fits[n] = fits[n] and amount <= room
        for n, name in enumerate(names):
            fits[n] = fits[n] and self.tokens.get(name, 1.0) >= 1.0
        if not any(fits):
            fits[min((n for n, name in enumerate(names) if name not in out), key=prices.__getitem__)] = True
        costs[[not each for each in fits]] = OUT
        return costs, factor

    def charge(self, arm: str, known: float) -> float:
        """Note that an arm was chosen; returns its expected cost."""
        price = self.expected(arm, known)
        for account in self.accounts:
            account.spend(price if not account.limit.arm else float(arm == account.limit.arm))
        if arm in self.tokens:
            self.tokens[arm] -= 1.0
        return price

    def correct(self, charged: float, paid: float) -> None:
        """Note what an arm has really cost, for which something else was charged."""
        for account in self.accounts:
            if not account.limit.arm:
                account.spend(paid - charged)

    def learn_price(self, arm: str, known: float, paid: float) -> None:
        """Note what an answer of an arm has cost."""
        seen = self.prices.get(arm)
        if seen is None or seen[0] != known:
            seen = self.prices[arm] = [known, FIRST_PRICES * known, FIRST_PRICES]
        keep = min(1.0, LAST_PRICES / (seen[2] + 1.0))
        seen[1], seen[2] = (seen[1] + paid) * keep, (seen[2] + 1.0) * keep

    def facts(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "budget": self.budget.facts(),
            "accounts": [[each.left, each.allowed, each.spent] for each in self.accounts],
            "prices": {arm: [*seen] for arm, seen in self.prices.items()},
            "tokens": dict(self.tokens),
            "at": self.at,
            "gaps": [*self.gaps],
        }

    def spending(self, money: Money | None) -> list[Spending]:
        """Return the state of each limit, amounts in money if that is known."""
        unit = 1.0 if money is None else money.unit
        found = []
        for account in self.accounts:
            limit, each = account.limit, self.each(account.limit)
            scale = 1.0 if limit.arm else unit
            price = 0.0 if limit.key == TOTAL else account.price(each)
            factor = price + (0.0 if limit.arm else 1.0)
            amount, allowed, spent = (
                float(f"{value * scale:.12g}") for value in (limit.amount, account.allowed, account.spent)
            )
            kind = "calls" if limit.arm else "costs" if money is None else money.currency
            found.append(Spending(limit.key, limit.arm, kind, amount, allowed, spent, factor))
        return found

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Accounts:
        """Return the accounts that `facts` were taken from."""
        accounts = cls(Budget(**facts["budget"]))
        for account, numbers in zip(accounts.accounts, facts["accounts"], strict=True):
            account.left, account.allowed, account.spent = map(float, numbers)
        accounts.prices = {
            str(arm): [*map(float, (known, total, count))] for arm, (known, total, count) in facts["prices"].items()
        }
        accounts.tokens = {arm: float(facts["tokens"][arm]) for arm in accounts.tokens}
        accounts.at = None if facts["at"] is None else float(facts["at"])
        seconds, count = facts["gaps"]
        accounts.gaps = [float(seconds), float(count)]
        return accounts

    def followed_by(self, budget: Budget) -> Accounts:
        """Return the accounts for another budget: prices and limits that stay the same keep what is known.

        A limit with another amount keeps what was allowed and spent, and owes nothing; of a total, the rest is left.
        """
        after = Accounts(budget)
        known = {(each.limit.arm, each.limit.key): each for each in self.accounts}
        for n, account in enumerate(after.accounts):
            before = known.get((account.limit.arm, account.limit.key))
            if before is not None and before.limit == account.limit:
                after.accounts[n] = before
            elif before is not None and account.limit.key == TOTAL:
                after.accounts[n] = Account.of(account.limit, before.spent)
            elif before is not None:
                account.allowed, account.spent = before.allowed, before.spent
        after.prices, after.at, after.gaps = self.prices, self.at, self.gaps
        after.tokens = {arm: min(tokens, self.tokens.get(arm, tokens)) for arm, tokens in after.tokens.items()}
        return after


def changed_budget(before: Accounts | None, budget: Budget | None, money: Money | None) -> Iterator[str]:
    """Yield a sentence if a budget, which is in costs, is another one than accounts were kept by."""
    if budget == (None if before is None else before.budget):
        return
    now = "there is no budget now" if budget is None else f"the budget is {in_words(budget, money)} now"
    if before is None:
        yield f"{now}; there was none before"
    else:
        spent = " and ".join(each.spent_so_far for each in before.spending(money))
        yield f"{now}; it was {in_words(before.budget, money)}" + (f", with {spent} spent" if spent else "")


def in_words(budget: Budget | None, money: Money | None) -> str:
    """Return a budget, which is in costs, as a network file has it."""
    if budget is None:
        return "none"
    limits = [each.in_file for each in Accounts(budget).spending(money)]
    rates = budget.at_most_per_second.items()
    return ", ".join((*limits, *(f"at_most_per_second.{arm} {rate:g}" for arm, rate in rates)))
