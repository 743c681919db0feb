"""Generated network traffic: bursts of normal connections and of attacks, in the manner of KDD Cup 1999.

Shares, lengths of bursts and ranges of features follow that file, but no row of it is here. Most bursts are
short and few are very long: the lengths are log-normal.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cosend.checks import check_whole
from cosend.streams.table import Table

Column = npt.NDArray[Any]


class Kind(NamedTuple):
    """A kind of connection. Ranges are (low, high) of the logarithm's uniform draw for bytes and counts."""

    name: str
    weight: float  # how often a burst of attack is of this kind
    burst: float  # median length of a burst
    service: tuple[str, ...]
    flag: tuple[str, ...]
    src_bytes: tuple[float, float]
    dst_bytes: tuple[float, float]
    connections: tuple[float, float]
    same_service: tuple[float, float]
    errors: tuple[float, float]
    logged_in: float


NORMAL: Final = Kind(
    "normal", 0.0, 60, ("http", "http", "http", "http", "smtp", "domain_u", "private", "ftp_data"),
    ("SF",) * 15 + ("REJ",), (100, 1600), (100, 12_000), (1, 30), (0.9, 1.0), (0.0, 0.02), 0.7,
)  # fmt: skip
ATTACKS: Final = (
    Kind("neptune", 4, 60, ("private",), ("S0", "S0", "S0", "S0", "REJ"), (0, 0), (0, 0),
         (100, 300), (0.01, 0.15), (0.8, 1.0), 0.0),
    Kind("smurf", 3, 80, ("ecr_i",), ("SF",), (500, 1032), (0, 0), (450, 511), (1.0, 1.0), (0.0, 0.0), 0.0),
    Kind("back", 2, 25, ("http",), ("SF",), (50_000, 54_540), (8_000, 8_320), (1, 6), (1.0, 1.0), (0.0, 0.02), 1.0),
    Kind("satan", 2, 15, ("private", "other", "finger"), ("REJ", "S0", "SF"), (0, 10), (0, 0),
         (20, 511), (0.0, 0.4), (0.0, 0.3), 0.0),
    Kind("ipsweep", 2, 8, ("eco_i",), ("SF",), (8, 20), (0, 0), (1, 2), (1.0, 1.0), (0.0, 0.0), 0.0),
    Kind("portsweep", 1, 10, ("private", "other"), ("RSTR", "REJ", "SF"), (0, 1), (0, 0),
         (1, 150), (0.01, 1.0), (0.0, 1.0), 0.0),
)  # fmt: skip
SPREAD: Final = 1.2  # of the logarithm of a burst's length
SHARE_OF_ATTACKS: Final = 0.47


def traffic(rows: int, *, seed: int = 0) -> Table:
    """Return `rows` connections, one after the other, labelled "normal" or "attack"."""
    check_whole("rows", rows)
    random = np.random.default_rng(seed)
    kinds = _bursts(rows, random)
    everything = (NORMAL, *ATTACKS)
    features: dict[str, Column] = {
        "service": _words(random, [kind.service for kind in everything], kinds),
        "flag": _words(random, [kind.flag for kind in everything], kinds),
        "src_bytes": _sizes(random, [kind.src_bytes for kind in everything], kinds),
        "dst_bytes": _sizes(random, [kind.dst_bytes for kind in everything], kinds),
        "count": _sizes(random, [kind.connections for kind in everything], kinds),
        "same_srv_rate": _shares(random, [kind.same_service for kind in everything], kinds),
        "serror_rate": _shares(random, [kind.errors for kind in everything], kinds),
        "logged_in": (random.random(rows) < np.array([kind.logged_in for kind in everything])[kinds]).astype(np.int64),
    }
    return Table(features, np.where(kinds > 0, "attack", "normal"))


def _bursts(rows: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the kind of every row: normal traffic and bursts of attack take turns."""
    weights = np.array([kind.weight for kind in ATTACKS])
    medians = np.array([kind.burst for kind in ATTACKS])
    mean_attack = float((weights * medians).sum() / weights.sum())
    calm = mean_attack * (1 - SHARE_OF_ATTACKS) / SHARE_OF_ATTACKS
    pieces: list[npt.NDArray[np.int64]] = []
    total = 0
    while total < rows:
        attack = int(random.choice(len(ATTACKS), p=weights / weights.sum()))
        for kind, median in ((0, calm), (attack + 1, medians[attack])):
            length = int(random.lognormal(np.log(median), SPREAD)) + 1
            pieces.append(np.full(length, kind, np.int64))
            total += length
    return np.concatenate(pieces)[:rows]


def _words(random: np.random.Generator, choices: list[tuple[str, ...]], kinds: npt.NDArray[np.int64]) -> Column:
    drawn = random.random(len(kinds))
    tables = [np.array(words) for words in choices]
    columns = [table[(drawn * len(table)).astype(np.int64)] for table in tables]
    return np.choose(kinds, columns)


def _sizes(random: np.random.Generator, ranges: list[tuple[float, float]], kinds: npt.NDArray[np.int64]) -> Column:
    low, high = np.log1p(np.array(ranges)).T
    logarithm = low[kinds] + (high - low)[kinds] * random.random(len(kinds))
    sizes: Column = np.rint(np.expm1(logarithm)).astype(np.int64)
    return sizes


def _shares(random: np.random.Generator, ranges: list[tuple[float, float]], kinds: npt.NDArray[np.int64]) -> Column:
    low, high = np.array(ranges).T
    shares: Column = np.round(low[kinds] + (high - low)[kinds] * random.random(len(kinds)), 2)
    return shares
