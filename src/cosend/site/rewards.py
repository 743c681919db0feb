"""What labels gain when the true ones are known: that of the arm, and those of classifiers that were run beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeAlias

from cosend.classifiers.vote import NEWEST
from cosend.core.checks import check_unit
from cosend.errors import RewardError

Reward: TypeAlias = Callable[[Any, Any], float]  # (label, truth) -> gain in [0, 1]
Where: TypeAlias = Callable[[int], str]  # by place among the labels: where one is, for whoever must be told
Others: TypeAlias = Mapping[str, Any] | None  # what other local classifiers said, by name


def a_label(_: int) -> str:
    """Say of a label no more than that it is one: whoever gave it knows which."""
    return "a label"


def right_or_wrong(label: Any, truth: Any) -> float:
    """Return 1 for a right label and 0 for a wrong one."""
    return 1.0 if label == truth else 0.0


def all_right_or_wrong(labels: Sequence[Any], truths: Sequence[Any]) -> list[float] | None:
    """Return the gain of every label, or None if one cannot be compared: an array, say."""
    try:
        return [1.0 if label == truth else 0.0 for label, truth in zip(labels, truths, strict=True)]
    except Exception:  # whatever a user's label does when it is compared
        return None


def gain_of(reward: Reward, label: Any, truth: Any, where: str) -> float:
    """Return what a label gains, or raise with the place where that was asked."""
    try:
        gain = reward(label, truth)
    except (Exception, SystemExit) as error:  # a user's function may raise anything, and so may a comparison of arrays
        raise RewardError("gain", error, where) from error
    check_unit("gain", gain, where)
    return float(gain)


def gains_of(reward: Reward, labels: Sequence[Any], truths: Sequence[Any], where: Where) -> list[float]:
    """Return what labels gain; a bad reward raises with its place. Where nobody had an answer, it is not a number."""
    if NoneType in map(type, labels):
        known = [n for n, label in enumerate(labels) if label is not None]
        some = gains_of(reward, [labels[n] for n in known], [truths[n] for n in known], lambda n: where(known[n]))
        by_place = dict(zip(known, some, strict=True))
        return [by_place.get(n, math.nan) for n in range(len(labels))]
    gains = all_right_or_wrong(labels, truths) if reward is right_or_wrong else None
    if gains is not None:
        return gains
    both = zip(labels, truths, strict=True)
    return [gain_of(reward, label, truth, where(place)) for place, (label, truth) in enumerate(both)]


def other_gains(
    reward: Reward, others: Sequence[Others], truths: Sequence[Any], where: Where
) -> list[dict[str, float]]:
    """Return what the labels of classifiers gain that were run to be scored; nothing at all if none was."""
    if not any(others):
        return []
    gains = _all_others_right_or_wrong(others, truths) if reward is right_or_wrong else None
    if gains is not None:
        return gains
    return [
        {
            name: gain_of(reward, label, truth, f"{name!r}, {where(place)}")
            for name, label in (said or {}).items()
            if name != NEWEST and label is not None
        }
        for place, (said, truth) in enumerate(zip(others, truths, strict=True))
    ]


def _all_others_right_or_wrong(others: Sequence[Others], truths: Sequence[Any]) -> list[dict[str, float]] | None:
    """Return what each of them gains, or None if a label cannot be compared."""
    try:
        return [
            {
                name: 1.0 if label == truth else 0.0
                for name, label in (said or {}).items()
                if name != NEWEST and label is not None
            }
            for said, truth in zip(others, truths, strict=True)
        ]
    except Exception:  # whatever a user's label does when it is compared
        return None


def in_event(others: Sequence[Others]) -> tuple[Mapping[str, Any], ...]:
    """Return what other classifiers said as an event has it: nothing at all if none said anything."""
    return tuple(dict(each or {}) for each in others) if any(others) else ()
