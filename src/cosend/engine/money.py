"""Costs as amounts of money: what a correct answer is worth, and what an arm costs as a share of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cosend.checks import is_number
from cosend.errors import SettingError, shown
from cosend.text import plain_number

LONGEST = 20  # characters of the name of a currency


@dataclass(frozen=True)
class Money:
    """The value of a correct prediction, so that you can give prices instead of costs.

    >>> from cosend import Money
    >>> money = Money(0.02, "USD")
    >>> money.cost(0.0007)
    0.035
    >>> money.text(0.035)
    '0.0007 USD'

    unit      the value of a correct prediction, or of the highest score
    currency  how it is called where amounts are shown
    """

    unit: float
    currency: str = ""

    def __post_init__(self) -> None:
        if not is_number(self.unit) or isinstance(self.unit, bool) or not self.unit > 0:
            raise SettingError("unit", self.unit, "a number above 0: what a correct answer is worth")
        if not isinstance(self.currency, str) or len(self.currency) > LONGEST or not self.currency.isprintable():
            raise SettingError("currency", self.currency, f"text of at most {LONGEST} characters, such as USD")

    def cost(self, price: Any, what: str = "price") -> float:
        """Return a price as a cost, a share of the unit; raises if it is above the unit."""
        if not is_number(price) or isinstance(price, bool) or not 0 <= price <= self.unit:
            allowed = f"a number from 0 to the unit, {self._named(self.unit)}: an arm that costs more is never worth it"
            raise SettingError(what, price, allowed)
        return min(1.0, float(f"{price / self.unit:.15g}"))

    def price(self, cost: float) -> float:
        """Return a cost as an amount."""
        return amount(self, cost)

    def text(self, cost: float) -> str:
        """Return a cost as an amount, in words."""
        return self._named(self.price(cost))

    def _named(self, amount: float) -> str:
        return f"{plain_number(amount, 6)} {self.currency}".strip()


def amount(money: Money | None, cost: float) -> float:
    """Return a cost as an amount of money, or as it is where none is known, without what rounding has left over."""
    return float(f"{cost * (1.0 if money is None else money.unit):.12g}")


def as_cost(money: Money | None, cost: float | None, price: float | None, what: str) -> float | None:
    """Return the cost that was given, as such or as a price; None if neither was."""
    if price is None:
        return cost
    if cost is not None:
        raise SettingError(f"the price of {what}", price, f"given without a cost, which is {shown(cost)}")
    if money is None:
        raise SettingError(
            f"the price of {what}", price, "a cost in [0, 1], because no unit says what a correct answer is worth"
        )
    return money.cost(price, f"the price of {what}")
