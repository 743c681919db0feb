"""Generated patients of three clinics: illness shows differently in the young, in adults and in the old.

Each clinic has labelled its own people: the young at the school, mostly adults in town, the old at the seniors'
home. These rows train its models, which see what is measured and not how old a patient is. Then patients of every age
arrive everywhere, at first mostly those that a clinic knows. In the middle of them the flu season begins, people go
where there is room, and the mix changes: the same people at other places, so that what is best at an age stays so.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.checks import check_whole
from cosend.errors import SettingError
from cosend.streams.table import Table

Column = npt.NDArray[Any]

CLINICS: Final = ("school", "town", "seniors")
AGES: Final = ((3.0, 18.0), (18.0, 62.0), (62.0, 95.0))  # the young, the grown up, the old
TURNS: Final = (15.0, 21.0, 58.0, 66.0)  # between these, one age turns into the next
KNOWN: Final = ((0.95, 0.05, 0.0), (0.15, 0.7, 0.15), (0.0, 0.05, 0.95))  # [clinic, age]: of the training data
BEFORE: Final = ((0.6, 0.2, 0.2), (0.2, 0.6, 0.2), (0.2, 0.2, 0.6))  # who arrives in the first half
AFTER: Final = ((0.2, 0.3, 0.5), (0.5, 0.2, 0.3), (0.4, 0.4, 0.2))  # and in the second
SHARE_OF_ILL: Final = 0.45


class Sign(NamedTuple):
    """Something that is measured: what is usual for the three ages, what illness adds, and how much people differ."""

    usual: tuple[float, float, float]
    ill: tuple[float, float, float]
    spread: float
    decimals: int


SIGNS: Final = {
    "temperature": Sign((37.0, 36.8, 36.5), (1.7, 0.4, -0.3), 0.45, 1),
    "pulse": Sign((98.0, 74.0, 78.0), (6.0, 22.0, -4.0), 10.0, 0),
    "breathing": Sign((22.0, 15.0, 17.0), (1.0, 4.0, 7.0), 2.5, 0),
    "pressure": Sign((104.0, 122.0, 142.0), (2.0, 8.0, -32.0), 13.0, 0),
}


def turn_of(items: int) -> int:
    return items // 2


def clinics(rows: int, *, training: int = 0, seed: int = 0) -> Table:
    """Return `rows` patients, "ill" or "well", the first `training` of them those that the clinics know already."""
    check_whole("rows", rows)
    check_whole("training", training, least=0)
    if training > rows:
        raise SettingError("training", training, f"at most the number of rows, {rows}")
    random = np.random.default_rng(seed)
    clinic = np.arange(rows) % len(CLINICS)
    group = _groups(random, clinic, training)
    age = _between(random, np.array(AGES), group)
    ill = random.random(rows) < SHARE_OF_ILL
    measured = {name: _measured(random, sign, age, ill) for name, sign in SIGNS.items()}
    labels, sites = np.where(ill, "ill", "well"), np.array(CLINICS)[clinic]
    return Table(measured, labels, contexts={"age": np.round(age, 1)}, sites=sites)


def _groups(random: np.random.Generator, clinic: Column, training: int) -> Column:
    rows = len(clinic)
    turn = training + turn_of(rows - training)
    shares = np.array(KNOWN)[clinic]
    shares[training:] = np.array(BEFORE)[clinic[training:]]
    shares[turn:] = np.array(AFTER)[clinic[turn:]]
    group: Column = (random.random(rows)[:, None] > shares.cumsum(axis=1)).sum(axis=1).clip(max=len(AGES) - 1)
    return group


def _between(random: np.random.Generator, ranges: Column, group: Column) -> Column:
    low, high = ranges.T
    drawn: Column = low[group] + (high - low)[group] * random.random(len(group))
    return drawn


def _measured(random: np.random.Generator, sign: Sign, age: Column, ill: Column) -> Column:
    """Return a sign of every patient; from one age to the next it changes over a few years."""
    usual = np.interp(age, TURNS, np.repeat(sign.usual, 2)[1:5])
    changed = np.interp(age, TURNS, np.repeat(sign.ill, 2)[1:5]) * ill
    found: Column = np.round(usual + changed + sign.spread * random.standard_normal(len(age)), sign.decimals)
    return found
