"""The accounts of a budget once more, from exactness.md, "Budgets": everything is added up anew from what happened."""

from __future__ import annotations

import math
from typing import Any

Happened = tuple[Any, ...]  # ("arrive", at), ("charge", arm, known), ("correct", charged, paid) or ("price", ...)
PERIOD = {"per_item": 0, "per_hour": 3600, "per_day": 86400}


def gaps(happened: list[Happened], upto: int) -> tuple[list[float], float, float]:
    """Return the seconds before each item, and the decayed sum and number of the gaps before one of them."""
    times = [what[1] for what in happened[:upto] if what[0] == "arrive"]
    latest, passed, total, count = None, list[float](), 0.0, 0.0
    for at in times:
        if at is None:
            passed.append(0.0)
            continue
        passed.append(0.0 if latest is None else max(0.0, at - latest))
        if latest is not None:
            total, count = total + passed[-1], count + 1
            if count > 100:
                total, count = total * 100 / count, 100.0
        latest = at if latest is None else max(at, latest)
    return passed, total, count


def allowed_for_an_item(key: str, amount: float, happened: list[Happened], upto: int) -> float:
    if key == "per_item":
        return amount
    _, total, count = gaps(happened, upto)
    rate = amount / PERIOD[key]
    return min(amount, rate * (total + 5 * PERIOD[key] / 1000) / (count + 5))


def expected(happened: list[Happened], arm: str, known: float) -> float:
    """Return the mean of what answers of an arm have cost, since its known cost is this one."""
    total, count = 5 * known, 5.0
    for what in happened:
        if what[0] == "price" and what[1] == arm:
            if what[2] != known:
                total, count = 5 * known, 5.0
                continue
            total, count = total + what[3], count + 1
            if count > 50:
                total, count = total * 50 / count, 50.0
    return total / count


def left(arm: str, key: str, amount: float, happened: list[Happened]) -> float:
    """Return what is left of a limit."""
    balance = 0.0
    for n, what in enumerate(happened):
        if what[0] == "arrive":
            b = allowed_for_an_item(key, amount, happened, n + 1)
            most = 60 * b if key == "per_item" else min(60 * b, amount)
            earned = amount if key == "per_item" else amount / PERIOD[key] * gaps(happened, n + 1)[0][-1]
            balance = balance if balance > most else min(balance + earned, most)
        elif what[0] == "charge" and not arm:
            balance -= expected(happened[:n], what[1], what[2])
        elif what[0] == "charge":
            balance -= what[1] == arm
        elif what[0] == "correct" and not arm:
            balance -= what[2] - what[1]
    return balance


def unpaid(
    limits: list[tuple[str, str, float]], arms: dict[str, float], happened: list[Happened], count: int
) -> set[str]:
    """Return the arms that would, used so many times, spend more of a total than is left."""
    found = set()
    for arm, key, amount in limits:
        if key == "total":
            spent = 0.0
            for n, what in enumerate(happened):
                if what[0] == "charge":
                    spent += (what[1] == arm) if arm else expected(happened[:n], what[1], what[2])
                elif what[0] == "correct" and not arm:
                    spent += what[2] - what[1]
            for name, known in arms.items():
                uses = expected(happened, name, known) if not arm else float(name == arm)
                if uses and spent + count * uses > amount * (1 + 1e-9):
                    found.add(name)
    return found


def tokens(arm: str, rate: float, happened: list[Happened]) -> float:
    """Return how often an arm may be used at once."""
    most = have = max(1.0, rate)
    for n, what in enumerate(happened):
        if what[0] == "arrive":
            have = min(most, have + rate * gaps(happened, n + 1)[0][-1])
        have -= what[:2] == ("charge", arm)
    return have


def costs(
    limits: list[tuple[str, str, float]],
    rates: dict[str, float],
    arms: dict[str, float],
    out: set[str],
    happened: list[Happened],
) -> dict[str, float]:
    """Return what arms cost in the next choice, infinite where they cannot be chosen."""
    price = {name: expected(happened, name, known) for name, known in arms.items()}
    found, spent = dict(arms), set(out)
    for name in arms:
        for arm, key, amount in limits:
            if key == "total":
                continue
            uses = price[name] if not arm else float(arm == name)
            b, rest = allowed_for_an_item(key, amount, happened, len(happened)), left(arm, key, amount, happened)
            found[name] += uses * 0.03 / b * math.exp(max(-20, min(20, -0.08 * rest / b)))
            burst = 20 * b if key == "per_item" else min(20 * b, 0.05 * amount)
            if uses and uses > rest + burst:
                spent.add(name)
        if name in rates and tokens(name, rates[name], happened) < 1:
            spent.add(name)
    if spent >= set(arms):
        spent.remove(min((name for name in arms if name not in out), key=lambda name: price[name]))
    return {name: math.inf if name in spent else cost for name, cost in found.items()}
